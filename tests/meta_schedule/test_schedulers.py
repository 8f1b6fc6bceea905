"""Task schedulers: whose turn it is, when tasks end, and what the summary says."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.meta_schedule.mock import Matmul, MockBuilder, MockRunner, tiles
from tscript import meta_schedule as ms
from tscript.meta_schedule.database import MemoryDatabase
from tscript.meta_schedule.runner import Runner, RunnerFuture, RunnerResult
from tscript.meta_schedule.search_strategy import SearchStrategy
from tscript.meta_schedule.task_scheduler import GradientBased, RoundRobin, TaskRecord
from tscript.meta_schedule.task_scheduler.summary import summary
from tscript.script import ir as I
from tscript.script import tir as T
from tscript.support.errors import TuneError

TARGET = "llvm -num-cores 1"


@ms.derived_object
class Scripted(ms.search_strategy.PySearchStrategy):
    """Proposes batches of given sizes."""

    def __init__(self, sizes) -> None:
        self.sizes = list(sizes)
        self.learnt = 0

    def _initialize_with_tune_context(self, context) -> None:
        self.context = context

    def pre_tuning(self, max_trials, num_trials_per_iter, design_spaces, database=None, cost_model=None) -> None:
        self.design = design_spaces[0]

    def generate_measure_candidates(self):
        if not self.sizes:
            return None
        args = ms.arg_info.ArgInfo.from_entry_func(self.context.mod)
        return [ms.search_strategy.MeasureCandidate(self.design, args) for _ in range(self.sizes.pop(0))]

    def notify_runner_results(self, measure_candidates, results) -> None:
        self.learnt += len(results)

    def post_tuning(self) -> None:
        pass

    def clone(self):
        return Scripted(self.sizes)


class Times(Runner):
    """Gives the next of a list of milliseconds for each task's program; None is a failure."""

    def __init__(self, *times) -> None:
        self.times = [list(t) for t in times]
        self.turns = []

    def run(self, runner_inputs):
        if not runner_inputs:
            return []
        reference = runner_inputs[0].reference
        assert reference is not None
        number = int(reference["main"].attrs["number"].value)
        self.turns.append(number)
        found = []
        for _ in runner_inputs:
            ms_ = self.times[number].pop(0)
            result = (
                RunnerResult(None, "broken", reason="run: broken") if ms_ is None else RunnerResult([ms_ / 1e3], None)
            )
            found.append(RunnerFuture.of(result))
        return found


def context(number: int, strategy: SearchStrategy) -> ms.TuneContext:
    func = Matmul["main"].with_attr("number", number)
    space = ms.space_generator.ScheduleFn(tiles, sch_rules=[], postprocs=[], mutator_probs={})
    return ms.TuneContext(
        func, target=TARGET, space_generator=space, search_strategy=strategy, task_name=f"t{number}", rand_state=1
    )


def tune(scheduler, sizes, runner, weights=None, trials=100, per_task=100):
    contexts = [context(k, Scripted(s)) for k, s in enumerate(sizes)]
    scheduler.tune(
        contexts, weights or [1.0] * len(sizes), trials, per_task, 4, MockBuilder(), runner, [], MemoryDatabase()
    )
    return scheduler


def test_round_robin_takes_turns_and_skips_finished_tasks():
    runner = Times([1] * 9, [1] * 9, [1] * 9)
    done = tune(RoundRobin(), [[1, 1, 1], [1], [1, 1]], runner)
    assert runner.turns == [0, 1, 2, 0, 2, 0]
    assert [len(t.latency_ms) for t in done.tasks_] == [3, 1, 2]
    assert all(t.is_terminated for t in done.tasks_)
    assert done.remaining_tasks_ == 0
    assert [t.context.search_strategy.learnt for t in done.tasks_] == [3, 1, 2]


def test_the_budget_of_all_and_of_each_task_is_held():
    runner = Times([1] * 99, [1] * 99)
    done = tune(RoundRobin(), [[2] * 20, [2] * 20], runner, trials=7)
    assert [len(t.latency_ms) for t in done.tasks_] == [4, 4]  # the budget is looked at before each batch
    runner = Times([1] * 99, [1] * 99)
    done = tune(RoundRobin(), [[2] * 20, [2] * 20], runner, per_task=4)
    assert [len(t.latency_ms) for t in done.tasks_] == [4, 4]


def test_gradients_are_those_of_the_formula():
    # After the first round: task 0 gains 0.8 x 10 / 1, task 1 gains 0.8 x 4 / 1 (no window yet).
    runner = Times([10, 9, 2, 2, 2, 2], [4, 4, 4, 4, 4, 4])
    tune(GradientBased(alpha=0.2, window_size=1, seed=1), [[1] * 6, [1] * 6], runner, trials=5)
    # Task 0 after 2: 0.2 x 1 + 0.8 x 4.5 = 3.8 > 3.2; after 3: 0.2 x 7 + 0.8 x 2 / 3 = 1.93 < 3.2.
    assert runner.turns == [0, 1, 0, 0, 1]


def test_weights_turn_the_scales():
    runner = Times([10] * 9, [4] * 9)
    tune(GradientBased(seed=1), [[1] * 6, [1] * 6], runner, weights=[1.0, 3.0], trials=3)
    assert runner.turns == [0, 1, 1]


def test_a_task_without_a_result_comes_last():
    runner = Times([None] * 9, [5] * 9)
    done = tune(GradientBased(seed=1), [[1] * 4, [1] * 2], runner)
    assert runner.turns[:3] == [0, 1, 1]
    assert not done.tasks_[0].has_result
    assert done.tasks_[0].run_error_count == 4
    assert "  4 x run: broken" in summary(done.tasks_)


def test_equals_are_chosen_by_the_seed():
    orders = []
    for seed in (1, 1, 2, 3, 4, 5):
        runner = Times([4] * 30, [4] * 30, [4] * 30)
        tune(GradientBased(seed=seed), [[1] * 9] * 3, runner, trials=12)
        orders.append(runner.turns)
    assert orders[0] == orders[1]
    assert len({tuple(o) for o in orders}) > 1


@pytest.mark.parametrize("scheduler", [RoundRobin, GradientBased])
def test_empty_batches_and_no_batches_end_cleanly(scheduler):
    done = tune(scheduler(), [[0, 0, 1], [], [0]], Times([1], [], []))
    assert [len(t.latency_ms) for t in done.tasks_] == [1, 0, 0]
    assert tune(scheduler(), [[1]], Times([1]), trials=0).tasks_[0].latency_ms == []


def test_the_summary_says_why_a_task_has_no_result(tmp_path):
    @ms.derived_object
    class Refuse(ms.postproc.PyPostproc):
        def apply(self, sch):
            return False

    space = ms.space_generator.ScheduleFn(tiles, sch_rules=[], postprocs=[Refuse()], mutator_probs={})
    database = ms.tune_tir(
        Matmul, TARGET, str(tmp_path), 8, space=space, builder=MockBuilder(), runner=MockRunner(), cost_model="random"
    )
    assert len(database) == 0
    log = (tmp_path / "logs" / "tscript.meta_schedule.task_scheduler.log").read_text()
    assert "Task #0 has no result: none of" in log
    assert "x Refuse rejected it" in log


def test_one_task_that_cannot_begin_leaves_the_others(tmp_path):
    @I.ir_module
    class Two:
        @T.prim_func
        def a(A: T.Buffer((8,), "float32"), n: T.int32):
            for i in range(8):
                with T.block("a"):
                    vi = T.axis.spatial(8, i)
                    A[vi] = T.cast(n, "float32")

        @T.prim_func
        def b(A: T.Buffer((8,), "float32")):
            for i in range(8):
                with T.block("b"):
                    vi = T.axis.spatial(8, i)
                    A[vi] = A[vi] * 2.0

    def space(sch):
        sch.split(sch.get_loops(sch.get_block(sch.mod["main"].body.block.body.body.block.name_hint))[0], [None, 2])

    options = {"builder": MockBuilder(), "runner": MockRunner(), "cost_model": "random", "max_trials_global": 4}
    given = ms.space_generator.ScheduleFn(space, sch_rules=[], postprocs=[], mutator_probs={})
    database = ms.tune_tir(Two, TARGET, str(tmp_path), space=given, **options)
    assert len(database) == 1
    log = (tmp_path / "logs" / "tscript.meta_schedule.task_scheduler.log").read_text()
    assert 'Task #0 "a" cannot be tuned: parameter 1 of' in log
    with pytest.raises(ValueError, match="parameter 1 of .*, n, is no buffer"):
        ms.tune_tir(Two["a"], TARGET, str(tmp_path), space=given, **options)


@T.prim_func
def plain_loops(A: T.Buffer((8,), "float32")):
    with T.block("opaque"):
        T.reads()
        T.writes(A[0:8])
        for i in range(8):
            A[i] = 1.0


@T.prim_func
def nothing_to_do(A: T.Buffer((8,), "float32")):
    for i in range(0):
        with T.block("a"):
            vi = T.axis.spatial(0, i)
            A[vi] = 1.0


@T.prim_func
def any_size(a: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n,))
    for i in range(n):
        with T.block("a"):
            vi = T.axis.spatial(n, i)
            A[vi] = 1.0


def tune_plainly(func, work_dir):
    return ms.tune_tir(
        func, TARGET, str(work_dir), 2, builder=MockBuilder(), runner=MockRunner(), cost_model="random", seed=1
    )


def test_programs_without_a_block_to_schedule_say_so(tmp_path):
    with pytest.raises(TuneError, match=r"no schedulable block; wrap the statement"):
        tune_plainly(plain_loops, tmp_path)


def test_unknown_sizes_are_refused_with_the_way_out(tmp_path):
    with pytest.raises(ValueError, match=r"the shape of A is not constant .*func\.specialize"):
        tune_plainly(any_size, tmp_path)


def test_loops_that_never_run_are_tuned(tmp_path):
    assert len(tune_plainly(nothing_to_do, tmp_path)) >= 1


def test_records_know_failures_of_builders():
    record = TaskRecord(context(0, Scripted([])))
    record.learn(
        ms.builder.BuilderResult(None, "LocalBuilder: An exception occurred\nx\nValueError: no"),
        RunnerResult(None, "b"),
    )
    assert record.build_error_count == 1
    assert record.failures == {"build: ValueError: no": 1}


_RUN = """
import sys, time
from tests.meta_schedule.mock import Matmul, MockBuilder, MockRunner, tiles
from tscript import meta_schedule as ms

class Slow(MockRunner):
    def run(self, inputs):
        print("batch", flush=True)
        time.sleep(0.5)
        return super().run(inputs)

if __name__ == "__main__":
    space = ms.space_generator.ScheduleFn(tiles, sch_rules=[], postprocs=[], mutator_probs={})
    database = ms.tune_tir(
        Matmul, "llvm -num-cores 1", sys.argv[1], int(sys.argv[2]), num_trials_per_iter=4, seed=3, space=space,
        builder=MockBuilder(), runner=Slow(), cost_model="random", database=sys.argv[3], num_tuning_cores=1,
    )
    print("returned", len(database), flush=True)
"""
ROOT = Path(__file__).resolve().parents[2]


def start(work_dir, trials: int, database: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-c", _RUN, str(work_dir), str(trials), database],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def go(work_dir, trials: int, database: str = "json") -> None:
    """The same run in this process."""
    space = ms.space_generator.ScheduleFn(tiles, sch_rules=[], postprocs=[], mutator_probs={})
    options = {"builder": MockBuilder(), "runner": MockRunner(), "cost_model": "random", "database": database}
    ms.tune_tir(
        Matmul, TARGET, str(work_dir), trials, num_trials_per_iter=4, seed=3, space=space, num_tuning_cores=1, **options
    )


def programs(work_dir, kind="json") -> list:
    opened = ms.database.make_database(kind, work_dir=str(work_dir))
    return [r.program for r in opened.get_all_tuning_records()]


def batch_seen(process: subprocess.Popen) -> None:
    while "batch" not in process.stdout.readline():
        pass


def test_ctrl_c_returns_what_was_measured(tmp_path):
    process = start(tmp_path, 4000, "json")
    batch_seen(process)
    batch_seen(process)
    out = None
    for _ in range(4):
        # Python may drop an interruption that comes while it cleans an object up; people press the keys again.
        process.send_signal(signal.SIGINT)
        try:
            out, _ = process.communicate(timeout=12)
            break
        except subprocess.TimeoutExpired:
            continue
    assert out is not None
    assert "Interrupted: what was measured so far is kept" in out
    count = int(out.split("returned")[1].split()[0])
    assert count == len(programs(tmp_path)) >= 4


@pytest.mark.parametrize("kind", ["json", "sqlite"])
def test_a_killed_run_is_resumed_as_if_it_had_gone_on(tmp_path, kind):
    go(tmp_path / "whole", 24, kind)
    expected = programs(tmp_path / "whole", kind)
    broken = tmp_path / "broken"
    process = start(broken, 24, kind)
    for _ in range(3):
        batch_seen(process)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    left = programs(broken, kind)
    assert left == expected[:8]
    go(broken, 16, kind)
    assert programs(broken, kind) == expected


def test_damaged_state_is_left_aside(tmp_path):
    go(tmp_path, 4)
    (tmp_path / "tuning_state.json").write_text("{broken")
    (tmp_path / "cost_model.random").write_text("broken")
    go(tmp_path, 4)
    log = (tmp_path / "logs" / "tscript.meta_schedule.task_scheduler.log").read_text()
    assert "the search starts anew" in log
    assert "the cost model learns anew" in log
    assert len(set(programs(tmp_path))) == 8
