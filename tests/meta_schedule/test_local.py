"""Building and measuring in processes: times, and what becomes of candidates that fail."""

from __future__ import annotations

import ctypes
import os
import shutil
import time
from pathlib import Path

import pytest

from tests.meta_schedule.mock import Matmul, tiles
from tscript.meta_schedule.arg_info import ArgInfo
from tscript.meta_schedule.builder import BuilderInput, LocalBuilder, default_build
from tscript.meta_schedule.runner import EvaluatorConfig, LocalRunner, RunnerInput
from tscript.runtime.processes import ProcessExecutor
from tscript.schedule import Schedule
from tscript.script import tir as T
from tscript.target import Target

TARGET = Target("llvm -num-cores 1")
QUICK = EvaluatorConfig(number=1, repeat=3, min_repeat_ms=0)
ARGS = ArgInfo.from_entry_func(Matmul)


@T.prim_func
def forgetful(A: T.Buffer((32, 64), "float32"), B: T.Buffer((64, 48), "float32"), C: T.Buffer((32, 48), "float32")):
    for i, j, k in T.grid(32, 48, 64):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            C[vi, vj] = A[vi, vk] * B[vk, vj]


@pytest.fixture(scope="module", autouse=True)
def one_process():
    """The process of all tests that need none of their own: each start of one takes a while."""
    with ProcessExecutor(1, timeout_sec=60) as process:
        _shared.append(process)
        yield
        _shared.clear()


_shared: list[ProcessExecutor] = []


def build(*mods, **options) -> list:
    place = {} if options else {"executor": _shared[0]}
    return LocalBuilder(max_workers=1, **place, **options).build([BuilderInput(m, TARGET) for m in mods])


def run(*paths: str, **options) -> list:
    place = {} if "timeout_sec" in options else {"executor": _shared[0]}
    runner = LocalRunner(evaluator_config=QUICK, **place, **options)
    return [f.result() for f in runner.run([RunnerInput(p, "llvm", ARGS, Matmul) for p in paths])]


def built(*mods) -> list[str]:
    results = build(*mods)
    assert [r.error_msg for r in results] == [None] * len(mods)
    return [r.artifact_path for r in results]


def test_candidates_are_built_checked_and_timed():
    paths = built(Matmul, tiles(Schedule(Matmul, seed=1)).mod)
    results = run(*paths, alloc_repeat=2)
    for r in results:
        assert r.error_msg is None
        assert len(r.run_secs) == 6
        assert all(0 < s < 1 for s in r.run_secs)
    for p in paths:
        shutil.rmtree(Path(p).parent)


def test_a_wrong_result_is_never_timed():
    wrong, right = built(forgetful, Matmul)
    results = run(wrong, right)
    assert results[0].run_secs is None
    assert results[0].reason == "run: wrong result"
    assert "the schedule changes the result: parameter 2 holds" in results[0].error_msg
    assert results[1].error_msg is None
    assert run(wrong, check_results=False)[0].error_msg is None


def test_failures_of_the_builder_cost_one_candidate():
    def f_build(mod, target, params):
        text = str(mod)
        if "bad" in text:
            raise ValueError("this one is refused")
        if "hang" in text:
            time.sleep(600)
        if "crash" in text:
            ctypes.string_at(0)
        return default_build(mod, target, params)

    mods = [Matmul.with_attr(word, 1) for word in ("good", "bad", "hang", "crash", "fine")]
    results = build(*mods, f_build=f_build, timeout_sec=5)
    assert [r.artifact_path is not None for r in results] == [True, False, False, False, True]
    bad, hang, crash = (r.error_msg for r in results[1:4])
    assert bad.startswith("LocalBuilder: An exception occurred\n")
    assert bad.rstrip().endswith("ValueError: this one is refused")
    assert hang == "LocalBuilder: Timeout, killed after 5 seconds\n"
    assert "signal SIGSEGV" in crash


def test_failures_of_the_runner_cost_one_candidate():
    (path,) = built(Matmul)
    folder = Path(path).parent
    names = ["good", "raise", "hang", "die", "missing", "fine"]
    paths = [str(folder / n) for n in names]
    for n, p in zip(names, paths, strict=True):
        if n != "missing":
            shutil.copy(path, p)

    def f_alloc(device, args_info, repeat):
        from tscript.meta_schedule.runner import default_alloc_argument

        return default_alloc_argument(device, args_info, repeat)

    turn = str(folder / "turn")

    def f_run(module, device, config, args):
        # The candidates come in order; a file counts them across processes.
        count = int(open(turn).read()) if os.path.exists(turn) else 0
        with open(turn, "w") as f:
            f.write(str(count + 1))
        if count == 1:
            raise RuntimeError("no power")
        if count == 2:
            time.sleep(600)
        if count == 3:
            os._exit(9)
        return [1e-3]

    results = run(*paths, timeout_sec=5, f_alloc_argument=f_alloc, f_run_evaluator=f_run)
    assert [r.run_secs for r in results] == [[1e-3], None, None, None, None, [1e-3]]
    assert [r.reason for r in results] == ["", "run: RuntimeError", "run: timeout", "run: crash", results[4].reason, ""]
    assert results[1].error_msg.rstrip().endswith("RuntimeError: no power")
    assert results[2].error_msg == "LocalRunner: Timeout, killed after 5 seconds\n"
    assert "exit code 9" in results[3].error_msg
    assert "missing" in results[4].error_msg


def test_settings_are_checked():
    with pytest.raises(ValueError, match="number and repeat are at least 1"):
        EvaluatorConfig(number=0)
    with pytest.raises(ValueError, match="alloc_repeat is at least 1"):
        LocalRunner(alloc_repeat=0)
