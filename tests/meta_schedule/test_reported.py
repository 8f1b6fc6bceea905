"""Programs and settings that tuners of this kind are reported to stumble over."""

from __future__ import annotations

import time

import pytest

from tests.meta_schedule.mock import Matmul, MockBuilder, MockRunner, tiles
from tscript import meta_schedule as ms
from tscript.ir.structural import structural_equal
from tscript.meta_schedule.runner import measure_job
from tscript.schedule import Schedule
from tscript.script import ir as I
from tscript.script import tir as T
from tscript.target import Target

TARGET = Target("llvm -num-cores 2")


@I.ir_module
class InPlace:
    """A block that reads and writes one buffer: its loop cannot be parallel."""

    @T.prim_func
    def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        for i in range(63):
            with T.block("scan"):
                vi = T.axis.opaque(63, i)
                T.reads(A[vi : vi + 2])
                T.writes(A[vi + 1])
                A[vi + 1] = A[vi + 1] + A[vi]
        for i in range(64):
            with T.block("copy"):
                vi = T.axis.spatial(64, i)
                B[vi] = A[vi] * 2.0


def test_a_block_that_cannot_be_parallel_does_not_end_the_run(tmp_path):
    quick = ms.runner.EvaluatorConfig(number=1, repeat=1, min_repeat_ms=0)
    database = ms.tune_tir(
        InPlace, TARGET, str(tmp_path), 4, seed=1, cost_model="random",
        runner=ms.runner.LocalRunner(evaluator_config=quick),
    )  # fmt: skip
    assert [r.error for r in database.get_all_tuning_records()] == [""] * len(database)
    assert len(database) >= 1
    # The program does not say `tir.noalias`, which it is tuned with; its schedule does not either.
    sch = ms.compile_tir(database, InPlace, TARGET)
    assert sch is not None
    assert "tir.noalias" not in sch.mod["main"].attrs
    assert len(ms.tuning_curve(database, InPlace, TARGET).gflops) == len(database)


@pytest.mark.parametrize("kind", ["json", "sqlite"])
def test_a_record_of_changed_layouts_is_read_back(tmp_path, kind):
    sch = Schedule(Matmul)
    block = sch.get_block("C")
    sch.transform_layout(block, ("read", 1), lambda i, j: (j // 16, i, j % 16))
    sch.transform_block_layout(block, lambda i, j, k: (i // 4, j, k, i % 4))
    sch.enter_postproc()
    database = ms.database.Database.create(kind, work_dir=tmp_path)
    workload = database.commit_workload(Matmul)
    database.commit_tuning_record(ms.database.TuningRecord(sch.trace, workload, [1e-3], TARGET))
    again = ms.database.Database.create(kind, work_dir=tmp_path).query_schedule(Matmul, TARGET)
    assert again is not None
    assert structural_equal(again.mod, sch.mod)


def _hang(mod, target, params):
    del mod, target, params
    time.sleep(600)


def test_builds_that_never_end_cost_their_deadline_each(tmp_path):
    start = time.monotonic()
    database = ms.tune_tir(
        Matmul, TARGET, str(tmp_path), 4, num_trials_per_iter=4, seed=1, cost_model="random",
        space=ms.space_generator.ScheduleFn(tiles, sch_rules=[], postprocs=[], mutator_probs={}),
        builder=ms.builder.LocalBuilder(max_workers=2, timeout_sec=1.0, f_build=_hang), runner=MockRunner(),
    )  # fmt: skip
    assert time.monotonic() - start < 60
    assert ["Timeout, killed after 1.0 seconds" in r.error for r in database.get_all_tuning_records()] == [True] * 4
    log = (tmp_path / "logs" / "tscript.meta_schedule.task_scheduler.log").read_text()
    assert "Failed trials:" in log
    assert "4 x build: " in log


def test_the_program_before_scheduling_runs_once_for_all_candidates(monkeypatch):
    made = []

    class Counted:
        def __init__(self, mod):
            made.append(mod)

    monkeypatch.setattr(measure_job, "Reference", Counted)
    monkeypatch.setattr(measure_job, "_references", {})
    for _ in range(3):
        measure_job._reference(Matmul)
    assert len(made) == 1


def test_the_same_seed_tries_the_same(tmp_path):
    seen = []
    for k in range(2):
        builder = MockBuilder()
        ms.tune_tir(
            Matmul, TARGET, str(tmp_path / str(k)), 8, num_trials_per_iter=4, seed=5, cost_model="random",
            builder=builder, runner=MockRunner(), num_tuning_cores=k + 1,
        )  # fmt: skip
        seen.append(builder.seen)
    assert seen[0] == seen[1]
