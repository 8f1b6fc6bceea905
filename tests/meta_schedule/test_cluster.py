"""Tuning on a cluster: a Dask cluster of worker processes, machines chosen by resource, one of them lost on the way."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from tests.meta_schedule.mock import Matmul, tiles
from tscript import meta_schedule as ms

distributed = pytest.importorskip("distributed", reason="the extra `cluster` is not installed")
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.timeout(120)]
QUICK = ms.runner.EvaluatorConfig(number=1, repeat=2, min_repeat_ms=0)


@pytest.fixture(scope="module")
def client():
    spec = {
        name: {"cls": distributed.Nanny, "options": {"nthreads": 1, "resources": {name: 1}}}
        for name in ("big", "small")
    }
    with (
        distributed.SpecCluster(
            workers=spec, scheduler={"cls": distributed.Scheduler, "options": {"dashboard_address": None, "port": 0}}
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        client.wait_for_workers(2, timeout=60)
        yield client


def tune(client, work_dir, target: str, resource: str, trials=4):
    here = client.get_executor(resources={resource: 1})
    return ms.tune_tir(
        Matmul,
        target,
        str(work_dir),
        trials,
        num_trials_per_iter=trials,
        space=ms.space_generator.ScheduleFn(tiles, sch_rules=[], postprocs=[], mutator_probs={}),
        builder=ms.builder.LocalBuilder(executor=client.get_executor()),
        runner=ms.runner.LocalRunner(evaluator_config=QUICK, executor=here),
        cost_model="random",
        seed=1,
    )


def test_targets_of_one_database_are_measured_where_they_belong(client, tmp_path):
    tune(client, tmp_path, "llvm -num-cores 1", "small")
    database = tune(client, tmp_path, "llvm -num-cores 2", "big")
    records = database.get_all_tuning_records()
    assert [r.error for r in records] == [""] * 8
    assert [str(r.target).endswith("-num-cores=1") for r in records] == [True] * 4 + [False] * 4


def test_a_lost_worker_loses_nothing(client, tmp_path):
    futures = client.run(os.getpid)
    os.kill(next(iter(futures.values())), signal.SIGKILL)  # its nanny starts another
    database = tune(client, tmp_path, "llvm -num-cores 1", "small")
    assert [r.error for r in database.get_all_tuning_records()] == [""] * 4


def test_a_worker_lost_on_the_way_loses_nothing(client, tmp_path):
    pids = client.run(os.getpid)
    small = next(w for w, info in client.scheduler_info()["workers"].items() if "small" in info["resources"])
    killer = threading.Timer(1.5, lambda: os.kill(pids[small], signal.SIGKILL))
    killer.start()
    database = tune(client, tmp_path, "llvm -num-cores 1", "small", trials=16)
    killer.join()
    assert client.run(os.getpid) != pids
    assert [r.error for r in database.get_all_tuning_records()] == [""] * 16
