"""Tuning from end to end, with parts that measure nothing."""

from __future__ import annotations

import logging
import re

import pytest

from tests.meta_schedule.mock import Matmul, MockBuilder, MockRunner, tiles
from tscript import meta_schedule as ms
from tscript.ir.structural import structural_equal
from tscript.target import Target

TARGET = Target("llvm -num-cores 1")


@pytest.fixture(autouse=True)
def quiet():
    logger = logging.getLogger("tscript.meta_schedule")
    logger.setLevel(logging.INFO)
    yield
    logger.setLevel(logging.NOTSET)


def space() -> ms.space_generator.ScheduleFn:
    return ms.space_generator.ScheduleFn(tiles, sch_rules=[], postprocs=[], mutator_probs={})


def tune(work_dir, builder=None, **options):
    options = {"max_trials_global": 24, "num_trials_per_iter": 8, "seed": 3, "cost_model": "random", **options}
    return ms.tune_tir(
        Matmul,
        TARGET,
        str(work_dir),
        space=space(),
        builder=builder or MockBuilder(),
        **{"runner": MockRunner(), **options},
    )


@pytest.mark.parametrize("strategy", ["evolutionary", "replay-trace", "replay-func"])
def test_all_trials_are_made_and_the_best_is_found(tmp_path, strategy, capsys):
    builder = MockBuilder()
    database = tune(tmp_path, builder, strategy=strategy)
    assert len(database) == 24
    assert builder.batches == [8, 8, 8]
    if strategy == "evolutionary":
        assert len(set(builder.seen)) == 24
    best = min(r.mean_secs for r in database.get_all_tuning_records())
    record = database.query(Matmul, TARGET, kind="record")
    assert record.mean_secs == best
    sch = ms.tir_integration.compile_tir(database, Matmul, TARGET)
    assert structural_equal(sch.mod, record.as_measure_candidate().sch.mod)
    shown = capsys.readouterr().out
    assert 'TaskScheduler picks Task #0: "main"' in shown
    assert "Sending 8 sample(s) to builder" in shown
    table = (tmp_path / "logs" / "tscript.meta_schedule.task_scheduler.log").read_text()
    assert " ID | Name |   FLOP | Weight | Speed (GFLOPS) | Latency (us) |" in table
    assert "  0 | main | 196608 |      1 |" in table
    assert "Total trials: 24" in table
    trials = (tmp_path / "logs" / "tscript.meta_schedule.task_0_main.log").read_text()
    assert trials.count("[Task #0: main] Trial #") == 24


@pytest.mark.parametrize("strategy", ["evolutionary", "replay-trace"])
def test_a_seed_decides_in_any_number_of_processes(tmp_path, strategy):
    seen = []
    for k, cores in enumerate((1, 2, 3)):
        builder = MockBuilder()
        tune(tmp_path / str(k), builder, strategy=strategy, num_tuning_cores=cores)
        seen.append(builder.seen)
    assert seen[0] == seen[1] == seen[2]
    other = MockBuilder()
    tune(tmp_path / "other", other, strategy=strategy, seed=4)
    assert other.seen != seen[0]


def test_no_trials_end_cleanly(tmp_path):
    assert len(tune(tmp_path, max_trials_global=0)) == 0
    assert len(tune(tmp_path, max_trials_global=8, max_trials_per_task=0)) == 0


def test_the_form_of_older_articles_gives_a_schedule(tmp_path):
    config = ms.TuneConfig(strategy="replay_trace", num_trials_per_iter=4, max_trials_per_task=8, max_trials_global=8)
    sch = tune(tmp_path, config=config, max_trials_global=None)
    assert sch.trace.as_python()[0].startswith("b0 = sch.get_block")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_trials_global": -1}, "max_trials_global is a number of at least 0, not -1"),
        ({"num_trials_per_iter": 0}, "num_trials_per_iter is a number of at least 1"),
        ({"strategy": "evolutionry"}, "unknown search strategy 'evolutionry'; did you mean 'evolutionary'"),
        ({"task_scheduler": "fair"}, "unknown task scheduler 'fair'; choose one of 'gradient', 'round-robin'"),
        ({"database": "jsn"}, "unknown database 'jsn'; did you mean 'json'"),
        ({"special_space": {"mian": None}}, "special_space names mian; the functions are main"),
        ({"special_space": {"main": None}}, "No tasks to tune"),
    ],
)
def test_bad_settings_are_named(tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        tune(tmp_path, **options)


def test_post_optimization_goes_downhill_from_the_best(tmp_path):
    class Narrow(MockRunner):
        """The smaller the loop bodies' innermost extents, the slower: the path of the artifact tells the extent."""

        def run(self, runner_inputs):
            return [
                ms.runner.RunnerFuture.of(ms.runner.RunnerResult([float(i.artifact_path.split("/")[2])], None))
                for i in runner_inputs
            ]

    class Extents(MockBuilder):
        def build(self, build_inputs):
            found = []
            for i in build_inputs:
                inner = i.mod.script().count("range(1)") + 1
                extents = [int(n) for n in re.findall(r"T.grid\(([0-9, ]+)\)", i.mod.script())[-1].split(", ")]
                found.append(ms.builder.BuilderResult(f"/nowhere/{inner + 64 - extents[-1]}/x", None))
            return found

    first = tune(tmp_path / "a", Extents(), max_trials_global=2, runner=Narrow())
    second = tune(tmp_path / "b", Extents(), max_trials_global=2, runner=Narrow(), post_optimization=True)
    best = [min(r.mean_secs for r in d.get_all_tuning_records()) for d in (first, second)]
    assert 2 < len(second) <= 102
    assert best[1] < best[0]
    log = (tmp_path / "b" / "logs" / "tscript.meta_schedule.task_scheduler.log").read_text()
    assert "id | time MS (s) | time DPMS (s) | speedup" in log


def test_the_curve_of_a_run_rises(tmp_path):
    database = tune(tmp_path)
    curve = ms.tuning_curve(database, Matmul, TARGET)
    assert len(curve.gflops) == len(curve.seconds) == 24
    assert curve.gflops == sorted(curve.gflops)
    best = min(r.mean_secs for r in database.get_all_tuning_records())
    assert curve.gflops[-1] == pytest.approx(2 * 32 * 48 * 64 / best / 1e9)
    assert curve.seconds == sorted(curve.seconds)
    assert curve.text().count("*") == 24
    assert curve.svg(over_time=True).startswith("<svg")
    assert ms.tuning_curve(database, Matmul, "llvm -num-cores 9").text() == "no trials"
