"""Memory of a long run: that of the tuner grows by little per candidate, that of its processes not at all."""

from __future__ import annotations

import psutil
import pytest

from tests.meta_schedule.mock import Matmul, tiles
from tscript import meta_schedule as ms
from tscript.runtime.processes import ProcessExecutor

TRIALS = 512


class Watch(ms.measure_callback.MeasureCallback):
    """Notes after each batch how many bytes this process has, and the largest of its children."""

    def __init__(self) -> None:
        self.own: list[int] = []
        self.children: list[int] = []

    def apply(self, task_scheduler, task_id, measure_candidates, builder_results, runner_results) -> None:
        assert [r.error_msg for r in runner_results] == [None] * len(runner_results)
        me = psutil.Process()
        self.own.append(me.memory_info().rss)
        sizes = [0]
        for child in me.children():
            try:
                sizes.append(child.memory_info().rss)
            except psutil.Error:
                continue
        self.children.append(max(sizes))


@pytest.mark.timeout(600)
def test_a_run_of_many_candidates_stays_small(tmp_path):
    watch = Watch()
    quick = ms.runner.EvaluatorConfig(number=1, repeat=1, min_repeat_ms=0)
    database = ms.tune_tir(
        Matmul,
        "llvm -num-cores 1",
        str(tmp_path),
        TRIALS,
        num_trials_per_iter=64,
        seed=1,
        space=ms.space_generator.ScheduleFn(tiles, sch_rules=[], postprocs=[], mutator_probs={}),
        strategy="replay-trace",
        cost_model="random",
        runner=ms.runner.LocalRunner(evaluator_config=quick),
        measure_callbacks=[*ms.measure_callback.default_callbacks(), watch],
    )
    assert len(database) == TRIALS
    middle = len(watch.own) // 2
    growth = watch.own[-1] - watch.own[middle]
    assert growth < 64 * 2**20, watch.own  # 256 candidates, each a trace in the database
    assert max(watch.children) < watch.children[0] + 128 * 2**20, watch.children


def test_memory_that_jobs_leak_goes_with_their_process():
    with ProcessExecutor(1, max_jobs=8) as pool:
        sizes = [pool.submit(_leak, 8 * 2**20).result() for _ in range(40)]
    assert max(sizes) < min(sizes) + 8 * 8 * 2**20 + 32 * 2**20


def _leak(count: int) -> int:
    _kept.append(bytearray(b"x" * count))
    return psutil.Process().memory_info().rss


_kept: list[bytearray] = []
