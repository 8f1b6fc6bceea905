"""The tuning part of a published mm-relu tutorial runs as written and prints what the tutorial shows, numbers aside."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tscript as tvm
from tscript import meta_schedule as ms
from tscript.ir.structural import structural_equal
from tscript.script import tir as T

TABLE = """\
 ID | Name |    FLOP | Weight | Speed (GFLOPS) | Latency (us) | Weighted Latency (us) | Trials | Done 
------------------------------------------------------------------------------------------------------
  0 | main | 4194304 |      1 |            N/A |          N/A |                   N/A |      0 |      
------------------------------------------------------------------------------------------------------
Total trials: 0
Total latency (us): 0
"""  # noqa: W291 - the table ends its lines with a blank
TRACE = """\
# from tvm import tir
def apply_trace(sch: tir.Schedule) -> None:
  b0 = sch.get_block(name="C", func_name="main")
  l1, l2, l3 = sch.get_loops(block=b0)
  v4, v5 = sch.sample_perfect_tile(loop=l2, n=2, max_innermost_factor=16, decision=[@, @])
  l6, l7 = sch.split(loop=l2, factors=[v4, v5], preserve_unit_iters=True, disable_predication=False)
  sch.reorder(l1, l6, l3, l7)
  b8 = sch.decompose_reduction(block=b0, loop=l3)
  sch.enter_postproc()"""


@tvm.script.ir_module
class MyModule:
    @T.prim_func
    def main(
        A: T.Buffer((128, 128), "float32"),
        B: T.Buffer((128, 128), "float32"),
        C: T.Buffer((128, 128), "float32"),
    ):
        T.func_attr({"global_symbol": "main", "tir.noalias": True})
        for i, j, k in T.grid(128, 128, 128):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = 0.0
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


def stochastic_schedule_mm(sch: tvm.tir.Schedule):
    block_C = sch.get_block("C", "main")
    i, j, k = sch.get_loops(block=block_C)
    j_factors = sch.sample_perfect_tile(loop=j, n=2)
    j_0, j_1 = sch.split(loop=j, factors=j_factors)
    sch.reorder(i, j_0, k, j_1)
    sch.decompose_reduction(block_C, k)
    return sch


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    work_dir = str(tmp_path_factory.mktemp("tune_tmp"))
    database = ms.tune_tir(
        mod=MyModule,
        target="llvm --num-cores=1",
        max_trials_global=64,
        num_trials_per_iter=64,
        space=ms.space_generator.ScheduleFn(stochastic_schedule_mm),
        work_dir=work_dir,
    )
    return work_dir, database


def log_of(work_dir: str) -> str:
    with open(f"{work_dir}/logs/tscript.meta_schedule.task_scheduler.log", encoding="utf-8") as f:
        return f.read()


@pytest.mark.timeout(120)
def test_the_users_space_is_searched_to_its_end(tuned):
    work_dir, database = tuned
    log = log_of(work_dir)
    assert 'Initializing Task #0: "main"' in log
    assert TABLE in log
    assert "Sending 5 sample(s) to builder" in log
    assert "Sending 5 sample(s) to runner" in log
    assert "Task #0 has finished. Remaining task(s): 0" in log
    assert log.count("Sending 0 sample(s)") == 0
    assert len(database) == 5
    sch = ms.tir_integration.compile_tir(database, MyModule, "llvm --num-cores=1")
    assert re.sub(r"decision=\[\d+, \d+\]", "decision=[@, @]", str(sch.trace)) == TRACE

    a = np.random.rand(128, 128).astype("float32")
    b = np.random.rand(128, 128).astype("float32")
    a_nd, b_nd, c_nd = tvm.nd.array(a), tvm.nd.array(b), tvm.nd.empty((128, 128), dtype="float32")
    lib = tvm.build(sch.mod, target="llvm")
    timer = lib.time_evaluator("main", tvm.cpu())
    assert timer(a_nd, b_nd, c_nd).mean > 0
    np.testing.assert_allclose(c_nd.numpy(), a @ b, rtol=1e-4)


@pytest.mark.timeout(120)
def test_the_default_space_goes_on_in_the_same_folder(tuned):
    work_dir, _ = tuned
    database = ms.tune_tir(
        mod=MyModule, target="llvm --num-cores=1", max_trials_global=6, num_trials_per_iter=6, work_dir=work_dir
    )
    assert len(database) == 11
    sch = ms.tir_integration.compile_tir(database, MyModule, "llvm --num-cores=1")
    best = min(r.mean_secs for r in database.get_all_tuning_records())
    assert database.query(MyModule, tvm.target.Target("llvm --num-cores=1"), kind="record").mean_secs == best
    assert not structural_equal(sch.mod, MyModule)


def test_the_older_form_of_the_settings_gives_a_schedule(tmp_path):
    sch = ms.tune_tir(
        mod=MyModule,
        target="llvm --num-cores=1",
        config=ms.TuneConfig(strategy="evolutionary", num_trials_per_iter=2, max_trials_per_task=2),
        work_dir=str(tmp_path),
        space=ms.space_generator.ScheduleFn(stochastic_schedule_mm),
    )
    assert isinstance(sch, tvm.tir.Schedule)
    assert sch.mod is not None
