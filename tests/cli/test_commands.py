"""`python -m tscript`: what each command prints, and how it ends."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

import tscript
from tscript.cli import doctor
from tscript.cli.main import main

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """
from tscript.script import ir as I
from tscript.script import tir as T


@T.prim_func
def double(A: T.Buffer((8,), "float32")):
    for i in range(8):
        A[i] = A[i] * 2.0


@I.ir_module
class Pair:
    @T.prim_func
    def one(A: T.Buffer((8,), "int32")):
        A[0] = 1

    @T.prim_func
    def two(A: T.Buffer((8,), "int32")):
        A[0] = 2
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A file with a function and a module."""
    path = tmp_path / "program.py"
    path.write_text(PROGRAM, encoding="utf-8")
    return path


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "tscript", *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=55,
    )


# -- show -----------------------------------------------------------------------------------------


def test_show_prints_every_program_of_a_file(program, capsys):
    assert main(["show", str(program)]) == 0
    out = capsys.readouterr().out
    assert "def double(" in out and "class Module:" in out and "def one(" in out


def test_show_prints_the_one_that_is_named(program, capsys):
    assert main(["show", f"{program}:double"]) == 0
    out = capsys.readouterr().out
    assert "def double(" in out and "def one(" not in out


def test_show_prints_one_function_of_a_module(program, capsys):
    assert main(["show", f"{program}:Pair.two"]) == 0
    out = capsys.readouterr().out
    assert "def two(" in out and "def one(" not in out


def test_show_reads_printed_text_back(program, tmp_path, capsys):
    main(["show", f"{program}:double"])
    text = capsys.readouterr().out
    printed = tmp_path / "printed.py"
    printed.write_text(text, encoding="utf-8")
    assert main(["show", str(printed)]) == 0
    assert capsys.readouterr().out == text


def test_a_reader_that_stops_early_is_no_failure(tmp_path):
    lines = ["from tscript.script import tir as T"]
    for n in range(300):  # more than a pipe holds
        lines += ["@T.prim_func", f"def f{n}(A: T.Buffer((8,), 'float32')):"]
        lines += ["    for i in range(8):", "        A[i] = A[i] * 2.0 + A[7 - i] * 3.0 - A[i] * A[i]"]
    path = tmp_path / "long.py"
    path.write_text("\n".join(lines), encoding="utf-8")
    command = [sys.executable, "-m", "tscript", "show", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline().startswith(b"# from")
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=30) == 0


def test_show_into_a_pipe_prints_no_colours(program):
    done = run("show", f"{program}:double")
    assert done.returncode == 0
    assert "\x1b" not in done.stdout
    assert done.stdout.startswith("# from tvm.script import tir as T\n\n@T.prim_func\ndef double(")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("triple", "defines no kernel called 'triple'; it defines: double, Pair"),
        ("Pair.three", "Pair has no function 'three'; it has: one, two"),
        ("double.one", "double has no function 'one'; it has: none"),
    ],
)
def test_show_lists_what_there_is_when_a_name_is_wrong(program, name, reason, capsys):
    assert main(["show", f"{program}:{name}"]) == 1
    err = capsys.readouterr().err
    assert reason in err
    assert err.startswith("error: ") and err.count("\n") == 1


def test_show_of_a_missing_file_is_one_line(tmp_path, capsys):
    assert main(["show", str(tmp_path / "none.py")]) == 1
    err = capsys.readouterr().err
    assert "No such file" in err and err.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("import os\nx = 1 / 0\n", "wrong.py:2: ZeroDivisionError: division by zero"),
        ("def f(:\n", "wrong.py:1:"),
        ("import os\n", "defines no kernel"),
        ("", "is empty"),
    ],
)
def test_show_of_a_file_with_a_mistake_is_one_line(text, reason, tmp_path, capsys):
    path = tmp_path / "wrong.py"
    path.write_text(text, encoding="utf-8")
    assert main(["show", str(path)]) == 1
    err = capsys.readouterr().err
    assert reason in err and err.count("\n") == 1


def test_show_of_a_kernel_with_a_mistake_points_at_it(tmp_path):
    path = tmp_path / "wrong.py"
    path.write_text(PROGRAM.replace("A[i] * 2.0", "A[i] * facto"), encoding="utf-8")
    done = run("show", str(path))
    assert done.returncode == 1
    assert "facto" in done.stderr and f"{path}:9:23" in done.stderr and "^^^^^" in done.stderr
    assert "Traceback" not in done.stderr


# -- demo and doctor ------------------------------------------------------------------------------


def test_demo_does_the_main_job():
    done = run("demo", "--quick")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    for piece in ("def mm_relu(", "interpret", "build", "NumPy", "GFLOP/s", "try 4 schedules", "run the fastest"):
        assert piece in done.stdout
    assert re.search(r"GFLOP/s: \d+ x", done.stdout)


def test_doctor_reports_and_finds_what_is_required():
    done = run("doctor")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    for piece in ("python", "numpy", "llvmlite", "LLVM", "processor", "GPU", "caches", "all that is required is here"):
        assert piece in done.stdout


def test_doctor_fails_and_says_how_to_get_what_is_missing(monkeypatch):
    absent = doctor.Package("no_such_module", ("no-such-distribution",), "a test")
    monkeypatch.setattr(doctor, "REQUIRED", (*doctor.REQUIRED, absent))
    console = Console(record=True, width=200, file=io.StringIO())
    assert doctor.run_doctor(console) == 1
    text = console.export_text()
    assert "for a test: pip install no-such-distribution" in text
    assert "missing: no_such_module" in text


def test_doctor_survives_an_llvm_that_does_not_load(monkeypatch):
    monkeypatch.setattr(doctor, "_ASK_LLVM", "import sys; sys.exit('broken library')")
    missing = [f for f in doctor.check_machine() if f.verdict is doctor.Verdict.MISSING]
    assert [f.what for f in missing] == ["LLVM"]
    assert "broken library" in missing[0].found


def test_doctor_shows_settings_that_were_changed(monkeypatch):
    monkeypatch.setenv("TSCRIPT_DUMP", "out")
    assert "dump='out'" in doctor.check_settings()[0].found


def test_doctor_names_a_variable_that_cannot_be_read(monkeypatch):
    monkeypatch.setenv("TSCRIPT_FULL_TRACEBACK", "perhaps")
    finding = doctor.check_settings()[0]
    assert finding.verdict is doctor.Verdict.MISSING and "TSCRIPT_FULL_TRACEBACK='perhaps'" in finding.found


def test_a_missing_gpu_is_no_fault(monkeypatch):
    monkeypatch.setattr(doctor, "_ASK_DRIVER", "raise OSError('no driver')")
    finding = doctor.check_gpu()
    assert finding.verdict is doctor.Verdict.OPTIONAL and "no driver" in finding.found


def test_gpus_are_listed_with_their_architecture(monkeypatch):
    answer = '{"gpus": ["Some GPU (sm_90)"], "cuda": "12.9"}'
    monkeypatch.setattr(doctor, "_ASK_DRIVER", f"print('''{answer}''')")
    assert doctor.check_gpu() == doctor.Finding("GPU", "Some GPU (sm_90), driver for CUDA 12.9")


# -- usage ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [[], ["dance"], ["show"]])
def test_wrong_usage_is_explained(arguments, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    err = capsys.readouterr().err
    assert "usage: python -m tscript" in err and "Traceback" not in err


def test_help_names_every_command(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["--help"])
    assert stopped.value.code == 0
    out = capsys.readouterr().out
    assert all(command in out for command in ("demo", "show", "doctor"))


def test_the_version_is_that_of_the_package() -> None:
    found = run("--version")
    assert (found.returncode, found.stdout, found.stderr) == (0, f"tscript {tscript.__version__}\n", "")
    assert f'version = "{tscript.__version__}"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def test_check_prints_findings_and_fails_for_proven_ones_only(tmp_path, capsys):
    path = tmp_path / "kernels.py"
    path.write_text(
        "from tscript.script import tir as T\n\n\n"
        "@T.prim_func\ndef right(A: T.Buffer((8,), 'int32')):\n    for i in range(8):\n        A[i] = i\n\n\n"
        "@T.prim_func\ndef wrong(A: T.Buffer((8,), 'int32')):\n    for i in range(9):\n        A[i] = i\n\n\n"
        "@T.prim_func\ndef maybe(A: T.Buffer((8,), 'int32')):\n    A[A[0]] = 1\n",
        encoding="utf-8",
    )
    assert main(["check", f"{path}:right"]) == 0
    assert main(["check", f"{path}:maybe"]) == 0
    assert main(["check", f"{path}:maybe", "--strict"]) == 1
    capsys.readouterr()
    assert main(["check", str(path)]) == 1
    printed = capsys.readouterr().out
    assert "proven out-of-bounds: A[8] is outside A, whose dimension 0 has extent 8" in printed
    assert f"{path}:13:9" in printed
    assert printed.endswith("1 proven, 1 possible\n")
