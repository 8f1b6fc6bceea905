"""The benchmark of tuning works, with tiny programs and a tuner that only pretends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tscript.ir.structural import structural_equal
from tscript.script import from_source
from tscript.testing import workloads

ROOT = Path(__file__).resolve().parents[2]
BENCHMARKS = ROOT / "benchmarks"
MOCK = Path(__file__).with_name("tune_mock.py")


@pytest.fixture(scope="module")
def bench(benchmark_module):
    """The benchmark as a module."""
    return benchmark_module("tune")


@pytest.fixture
def tiny(bench, monkeypatch):
    """One small row."""
    row = bench.Row(lambda: workloads.matmul(16, 16, 8), 1, True)
    monkeypatch.setattr(bench, "ROWS", {"tiny": row})
    return bench


def settings(bench, how, **options):
    commands = {"tscript": [sys.executable, str(MOCK), "good"], "TVM": [sys.executable, str(MOCK), how]}
    return bench.Settings(**{"trials": 4, "rounds": 2, "limit": 30.0, "commands": commands, **options})


def test_a_row_has_times_curves_and_shares(tiny, tmp_path):
    found = tiny.measure("tiny", settings(tiny, "good"), tmp_path)
    assert list(found) == ["tscript", "TVM"]
    for outcome in found.values():
        assert not outcome.failure and not outcome.cut
        assert outcome.secs == min(outcome.rounds) > 0 and len(outcome.rounds) == 2
        assert (outcome.trials, outcome.failed) == (4, 1)
        assert [s for _, s in outcome.curve] == [3e-3, 2e-3]
        assert outcome.search == pytest.approx(1.5 / 4)
        assert outcome.wall > 0


def test_what_is_done_is_not_done_again(tiny, tmp_path):
    first = tiny.measure("tiny", settings(tiny, "good"), tmp_path)
    again = tiny.measure("tiny", settings(tiny, "good"), tmp_path)
    assert not first["TVM"].again and again["TVM"].again
    assert again["TVM"].wall == first["TVM"].wall and again["TVM"].rounds != first["TVM"].rounds
    assert again["TVM"].trials == 4
    other = tiny.measure("tiny", settings(tiny, "good", trials=3), tmp_path)
    assert not other["TVM"].again
    assert (tmp_path / "tiny" / "calls").read_text() == "tune\n" * 4


def test_a_tuner_that_hangs_is_ended_with_all_its_processes(tiny, tmp_path):
    start = time.monotonic()
    found = tiny.measure("tiny", settings(tiny, "hang", limit=2.0), tmp_path)
    assert time.monotonic() - start < 40
    outcome = found["TVM"]
    assert outcome.cut and not outcome.failure and outcome.trials == 4
    assert outcome.secs > 0, "the best of what was recorded counts"
    assert outcome.wall >= 2
    pids = [int(line) for line in (tmp_path / "tiny" / "pids").read_text().split()]
    assert len(pids) == 2
    for pid in pids:
        assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_a_tuner_that_falls_over_is_reported_and_tuned_anew(tiny, tmp_path, capsys):
    found = tiny.measure("tiny", settings(tiny, "crash"), tmp_path)
    assert "it fell over" in found["TVM"].failure and found["TVM"].secs > 0
    assert not found["tscript"].failure
    tiny.show("tiny", found)
    assert "tuning broke off: RuntimeError: it fell over" in capsys.readouterr().out
    assert not tiny.measure("tiny", settings(tiny, "crash"), tmp_path)["TVM"].again


@pytest.mark.parametrize(
    ("how", "reason"), [("no start", "it cannot start"), ("nothing", ""), ("wrong", "Mismatched elements")]
)
def test_a_contender_without_a_kernel_is_no_contender(tiny, tmp_path, capsys, how, reason):
    found = tiny.measure("tiny", settings(tiny, how), tmp_path)
    assert found["TVM"].secs == 0 and reason in found["TVM"].failure
    assert found["tscript"].secs > 0
    tiny.show("tiny", found)
    lines = capsys.readouterr().out.splitlines()
    assert any("TVM" in line and "failed: " in line for line in lines)
    assert tiny.summary({"tiny": found}) == ""


def test_the_table_and_the_means(tiny, tmp_path, capsys):
    found = tiny.measure("tiny", settings(tiny, "good"), tmp_path)
    found["TVM"].secs, found["TVM"].wall = 3 * found["tscript"].secs, 2 * found["tscript"].wall
    tiny.show("tiny", found)
    out = capsys.readouterr().out
    first, second, *rest = out.splitlines()
    assert (
        first.split()[:2] == ["tiny", "tscript"] and " 1.00 " in first and " 38 % " in first and first.endswith("3/4")
    )
    assert " 3.00 " in second
    assert sum("best so far: " in line for line in rest) == 2
    assert "reached TVM's best after" in rest[-1]
    assert tiny.summary({"tiny": found}).splitlines() == [
        "geometric mean of 1 row(s), TVM's time / tscript's: 3.00",
        "geometric mean of the wall times of tuning, TVM's / tscript's: 2.00",
    ]


def test_a_process_whose_parent_is_told_to_end_ends_too(tmp_path):
    """The whole program, ended while a tuner works."""
    code = (
        f"import sys; sys.path.insert(0, {str(BENCHMARKS)!r}); import tune; from tscript.testing import workloads\n"
        "tune.ROWS = {'tiny': tune.Row(lambda: workloads.matmul(16, 16, 8), 1)}\n"
        f"tune.own_commands = lambda: {{'tscript': [sys.executable, {str(MOCK)!r}, 'hang']}}\n"
        f"tune.main(['--no-tvm', '--dir', {str(tmp_path)!r}])"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.DEVNULL)
    pids = tmp_path / "tiny" / "pids"
    deadline = time.monotonic() + 40
    while not (pids.exists() and len(pids.read_text().split()) == 2):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 143
    for pid in map(int, pids.read_text().split()):
        assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


@pytest.mark.timeout(180)
def test_tscript_and_numpy_for_real(tiny, tmp_path, capsys):
    assert tiny.main(["--trials", "2", "--rounds", "2", "--no-tvm", "--json", "--dir", str(tmp_path)]) == 0
    row = json.loads(capsys.readouterr().out)
    assert row["row"] == "tiny" and row["took"] > 0
    assert row["tscript"]["secs"] > 0 and row["NumPy"]["secs"] > 0
    assert row["tscript"]["trials"] == 2 and 0 < row["tscript"]["search"] < 1
    assert tiny.main(["--trials", "2", "--rounds", "2", "--no-tvm", "--dir", str(tmp_path)]) == 0
    assert "tuned before" in capsys.readouterr().out


def test_an_interpreter_without_tvm_says_what_it_lacks(bench, tmp_path):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho 'ModuleNotFoundError: no tvm' >&2\nexit 1\n")
    python.chmod(0o755)
    assert bench.has_tvm(str(python)) == "ModuleNotFoundError: no tvm"
    assert "nowhere" in bench.has_tvm(str(tmp_path / "nowhere"))


def test_programs_are_handed_over_whole(bench):
    assert len(bench.ROWS) == 10
    for row in bench.ROWS.values():
        func = row.make().func
        assert structural_equal(from_source(func.script()), func)
        text = bench.later_program(func)
        assert "T.sblock(" in text and "T.block(" not in text and "@T.prim_func(s_tir=True)" in text


def test_a_contender_gets_the_threads_of_its_row(bench, monkeypatch):
    monkeypatch.setenv("TSCRIPT_NUM_THREADS", "7")
    assert bench.environment("NumPy", 2)["OPENBLAS_NUM_THREADS"] == "2"
    env = bench.environment("TVM", 1)
    assert env["TVM_NUM_THREADS"] == "1" and "TSCRIPT_NUM_THREADS" not in env
    assert env.get("OMP_NUM_THREADS") == os.environ.get("OMP_NUM_THREADS")


@pytest.mark.parametrize("argv", [["--only", "nothing"], ["--trials", "0"], ["--limit", "0"], ["--rounds", "-1"]])
def test_a_wrong_command_line_is_refused(bench, argv, capsys):
    with pytest.raises(SystemExit) as e:
        bench.main(argv)
    assert e.value.code == 2
    assert "error: " in capsys.readouterr().err
