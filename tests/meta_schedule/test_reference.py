"""The program before scheduling: run once, fast enough for large ones, and what it lets pass."""

from __future__ import annotations

import os

import numpy as np
import pytest

from tests.meta_schedule.mock import Matmul, tiles
from tscript import te
from tscript.driver import build
from tscript.interp import run
from tscript.ir.function import IRModule
from tscript.meta_schedule.arg_info import ArgInfo
from tscript.meta_schedule.builder import BuilderInput, LocalBuilder
from tscript.meta_schedule.runner import EvaluatorConfig, LocalRunner, RunnerInput
from tscript.meta_schedule.runner import reference as under_test
from tscript.meta_schedule.runner.reference import Reference, WrongResult, quick_program
from tscript.schedule import Schedule
from tscript.support.errors import TuneError
from tscript.target import Target

ARGS = ArgInfo.from_entry_func(Matmul)


def product(dtype: str, total: str, depth: int = 64) -> IRModule:
    """A product of which only the first `depth` terms of each sum are taken."""
    a = te.placeholder((64, 64), dtype, "A")
    b = te.placeholder((64, 64), dtype, "B")
    k = te.reduce_axis((0, depth), "k")
    c = te.compute((64, 64), lambda i, j: te.sum(a[i, k].astype(total) * b[k, j].astype(total), axis=k), "C")
    return IRModule({"main": te.create_prim_func([a, b, c])})


def test_a_large_program_runs_in_another_order_of_loops_and_makes_the_same(monkeypatch):
    monkeypatch.setattr(under_test, "_MANY", 1)
    quick = quick_program(Matmul)
    text = str(quick)
    assert "T.parallel(32)" in text
    assert "T.vectorized(16)" in text
    rng = np.random.default_rng(0)
    # Such products and their sums are exact, whether or not a multiplication is fused with an addition.
    a = (rng.integers(-8, 9, (32, 64)) / 8).astype("float32")
    b = (rng.integers(-8, 9, (64, 48)) / 8).astype("float32")
    plain, other = np.empty((2, 32, 48), "float32")
    run(Matmul["main"], a, b, plain)
    build(quick, target="llvm")(a, b, other)
    np.testing.assert_array_equal(plain, other)


def test_a_small_program_runs_as_it_is_written():
    assert quick_program(Matmul) is Matmul


@pytest.mark.parametrize(
    ("dtype", "total"),
    [
        ("float16", "float16"),
        ("bfloat16", "float32"),
        ("float16", "float32"),
        ("int8", "int32"),
        ("float32", "float32"),
    ],
)
def test_other_orders_pass_and_other_sums_do_not(dtype, total):
    mod = product(dtype, total)
    reference = Reference(mod)
    sch = Schedule(mod)
    block = sch.get_block("C")
    k = sch.get_loops(block)[2]
    sch.rfactor(sch.split(k, [None, 8])[1], 0)
    reference.require(build(sch.mod, target="llvm"))
    wrong = product(dtype, total, depth=63)
    with pytest.raises(WrongResult, match="the schedule changes the result: parameter 2"):
        reference.require(build(wrong, target="llvm"))


def inputs(count: int = 1) -> list[RunnerInput]:
    mods = [Matmul, tiles(Schedule(Matmul, seed=1)).mod][:count]
    results = LocalBuilder(max_workers=1).build([BuilderInput(m, Target("llvm -num-cores 1")) for m in mods])
    return [RunnerInput(str(r.artifact_path), "llvm", ARGS, Matmul) for r in results]


def test_a_reference_that_fails_is_one_error_and_not_one_for_each_candidate():
    runner = LocalRunner(reference_timeout_sec=1e-6)
    with pytest.raises(TuneError, match=r"did not end in 1e-06 seconds: .*reference_timeout_sec"):
        runner.run(inputs())


def test_a_process_that_takes_another_s_place_does_not_pay_for_the_reference():
    def f_run(module, device, config, args):
        os._exit(1)

    (given,) = inputs()
    runner = LocalRunner(evaluator_config=EvaluatorConfig(1, 1, 0), f_run_evaluator=f_run)
    results = [f.result() for f in runner.run([given, given])]
    assert [r.reason for r in results] == ["run: crash"] * 2
    assert runner._before.reference is Matmul
