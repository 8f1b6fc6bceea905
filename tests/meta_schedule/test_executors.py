"""Builders and runners over executors of the user's choice, and what becomes of one that breaks."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor

import pytest

from tests.meta_schedule.mock import Matmul, tiles
from tscript import meta_schedule as ms
from tscript.support.errors import TuneError

TARGET = "llvm -num-cores 1"
QUICK = ms.runner.EvaluatorConfig(number=1, repeat=2, min_repeat_ms=0)


def tune(work_dir, builders: Executor, runners: Executor, trials=4):
    space = ms.space_generator.ScheduleFn(tiles, sch_rules=[], postprocs=[], mutator_probs={})
    return ms.tune_tir(
        Matmul,
        TARGET,
        str(work_dir),
        trials,
        space=space,
        builder=ms.builder.LocalBuilder(executor=builders),
        runner=ms.runner.LocalRunner(evaluator_config=QUICK, executor=runners),
        cost_model="random",
        seed=1,
    )


def require_all_ran(database, trials=4) -> None:
    assert [r.error for r in database.get_all_tuning_records()] == [""] * trials


def test_threads(tmp_path):
    with ThreadPoolExecutor(2) as builders, ThreadPoolExecutor(1) as runners:
        require_all_ran(tune(tmp_path, builders, runners))


def test_processes_of_the_standard_library(tmp_path):
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, spawn) as pool:
        require_all_ran(tune(tmp_path, pool, pool))


class Unreliable(Executor):
    """Threads that lose every other job, as a cluster does when a machine goes away."""

    def __init__(self) -> None:
        self.count = 0
        self.pool = ThreadPoolExecutor(1)

    def submit(self, fn, /, *args, **kwargs) -> Future:
        """Run a job, or lose it."""
        self.count += 1
        if self.count % 2:
            lost: Future = Future()
            lost.set_exception(ConnectionError("the machine went away"))
            return lost
        return self.pool.submit(fn, *args, **kwargs)


def test_a_machine_that_goes_away_costs_its_candidates(tmp_path):
    with ThreadPoolExecutor(1) as builders:
        database = tune(tmp_path, builders, Unreliable(), trials=6)
    errors = [r.error for r in database.get_all_tuning_records()]
    assert len(errors) == 6
    assert any(not e for e in errors)
    assert any("ConnectionError: the machine went away" in e for e in errors)
    best = database.query(Matmul, ms.tune_context.Target(TARGET), kind="record")
    assert best.is_valid


@pytest.mark.parametrize("make", [ms.runner.RPCRunner, lambda: ms.runner.Runner.create("rpc", max_workers=2)])
def test_remote_measuring_names_the_way(make):
    with pytest.raises(TuneError, match=r"executor=distributed\.Client"):
        make()
