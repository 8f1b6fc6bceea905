"""`python -m tscript trace`: what it reads, what it prints, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import pytest

from tscript.cli.main import main
from tscript.schedule import Schedule
from tscript.testing.workloads import matmul

KERNELS = """
from tscript.script import tir as T


@T.prim_func
def double(A: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("A"):
            v = T.axis.spatial(8, i)
            A[v] = A[v] * 2.0


@T.prim_func
def triple(A: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("A"):
            v = T.axis.spatial(8, i)
            A[v] = A[v] * 3.0
"""
STEPS = """
def apply_trace(sch):
    (i,) = sch.get_loops("A")
    sch.split(i, [None, 4])
"""


class Files(NamedTuple):
    """The same three steps in each form, and the program."""

    saved: Path
    as_json: Path
    as_python: Path
    program: Path
    schedule: Schedule


@pytest.fixture
def files(tmp_path: Path) -> Files:
    """A schedule in files."""
    func = matmul(16, 16, 16).func
    sch = Schedule(func)
    i, _, k = sch.get_loops("C")
    outer, _ = sch.split(i, [None, 4])
    sch.parallel(outer)
    sch.decompose_reduction("C", k)
    assert sch.trace is not None
    found = Files(*(tmp_path / name for name in ("saved.json", "trace.json", "trace.py", "program.py")), sch)
    sch.save(found.saved)
    found.as_json.write_text(json.dumps(sch.trace.as_json()), encoding="utf-8")
    found.as_python.write_text(sch.trace.script(), encoding="utf-8")
    found.program.write_text(func.script(), encoding="utf-8")
    return found


def printed(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    """What the command prints when all goes well."""
    assert main(["trace", *map(str, arguments)]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def refused(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    """The one line it says when it does not."""
    assert main(["trace", *map(str, arguments)]) == 1
    err = capsys.readouterr().err
    assert err.startswith("error: ")
    return err


def test_each_form_of_a_trace_prints_the_same_steps(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    out = printed(capsys, files.saved)
    assert out.count("[1/3] ") == out.count("[2/3] ") == out.count("[3/3] ") == 1
    assert "sch.split(loop=l1, factors=[None, 4]" in out
    assert "+ " in out and "- " in out and "for i_0 in T.parallel(4):" in out
    assert printed(capsys, files.as_json, "--workload", files.program) == out
    assert printed(capsys, files.as_python, "--workload", f"{files.program}:main") == out


def test_one_step_is_the_whole_program_with_its_marks(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    out = printed(capsys, files.saved, "--step", "3")
    assert out.startswith("[3/3] ")
    program = out[out.index("  # from") :].splitlines()
    kept = [line[2:] for line in program if not line.startswith("-")]
    assert "\n".join(kept) == files.schedule.mod.script()
    assert printed(capsys, files.saved, "--step", "0") == matmul_script() + "\n"
    assert "there is no step 4; the steps are 0 (the start) to 3" in refused(capsys, files.saved, "--step", "4")


def matmul_script() -> str:
    """The program at the start, as a module."""
    return Schedule(matmul(16, 16, 16).func).mod.script()


def test_costs_are_a_table(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, files.saved, "--costs").splitlines()
    assert lines[0].split()[:3] == ["step", "FLOPs", "parallel"]
    assert [line.split()[0] for line in lines[1:]] == ["0", "1", "2", "3"]
    assert [line.split()[1] for line in lines[1:]] == ["8192"] * 4
    assert [line.split()[2] for line in lines[1:]] == ["1", "1", "4", "4"]


def test_the_page_is_written(files: Files, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.html"
    assert printed(capsys, files.saved, "--html", out) == f"{out}: 3 steps\n"
    text = out.read_text(encoding="utf-8")
    assert text.startswith("<!DOCTYPE html>") and "tscript-steps" in text
    assert "No such file" in refused(capsys, files.saved, "--html", tmp_path / "none" / "out.html")


def test_a_file_with_programs_and_steps_needs_no_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "both.py"
    path.write_text(KERNELS.split("@T.prim_func\ndef triple")[0] + STEPS, encoding="utf-8")
    out = printed(capsys, path)
    assert out.startswith("[1/1] ") and "sch.split(loop=l1, factors=[None, 4]" in out and "+ " in out
    path.write_text(KERNELS + STEPS, encoding="utf-8")
    assert "defines double, triple; name one with --workload FILE[:NAME]" in refused(capsys, path)
    assert "* T.float32(3.0)" in printed(capsys, path, "--workload", f"{path}:triple", "--step", "1")


def test_a_trace_without_a_program_asks_for_one(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    assert "holds a trace but no program; name one with --workload" in refused(capsys, files.as_json)
    assert "defines no program; name one with --workload" in refused(capsys, files.as_python)


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("a.json", "{", "a.json: no JSON: line 1, column 2"),
        ("a.json", '{"format": "other"}', "a.json: no saved schedule: its format is 'other'"),
        ("a.py", "x = 1\n", "a.py is no trace: neither JSON, nor Python that defines apply_trace(sch)"),
        ("a.py", "def f(:\n", "a.py:1:"),
        ("a.py", "", "is no trace"),
    ],
)
def test_what_is_no_trace_is_one_line(
    tmp_path: Path, name: str, text: str, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    err = refused(capsys, tmp_path / name)
    assert reason in err and err.count("\n") == 1


@pytest.mark.parametrize("more", [(), ("--costs",), ("--step", "1")])
def test_a_target_that_does_not_exist_is_refused(
    files: Files, more: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert "unknown target kind 'foo'" in refused(capsys, files.saved, "--target", "foo", *more)
    assert "[1/3]" in printed(capsys, files.saved, "--target", "llvm")


def test_a_missing_file_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "No such file" in refused(capsys, tmp_path / "none.json")


def test_steps_before_one_that_is_refused_are_shown(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    text = files.as_python.read_text(encoding="utf-8")
    files.as_python.write_text(text + "\n  sch.parallel(loop=l1)\n", encoding="utf-8")
    assert main(["trace", str(files.as_python), "--workload", str(files.program)]) == 1
    out, err = capsys.readouterr()
    assert "[3/3] " in out
    assert err.startswith("error: after step 3 the trace cannot go on: the loop no longer exists")


def test_a_mistake_in_the_python_of_a_trace_is_located(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    files.as_python.write_text("def apply_trace(sch):\n  sch.frobnicate()\n", encoding="utf-8")
    err = refused(capsys, files.as_python, "--workload", files.program)
    assert "trace.py:2: AttributeError" in err
