"""The task scheduler's role: which task gets the next trials."""

from __future__ import annotations

import logging
import shutil
from abc import abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path

from tscript.meta_schedule.builder.builder import Builder, BuilderInput
from tscript.meta_schedule.component import Component
from tscript.meta_schedule.cost_model.cost_model import CostModel
from tscript.meta_schedule.database.database import Database
from tscript.meta_schedule.measure_callback.measure_callback import MeasureCallback
from tscript.meta_schedule.postproc.layout_blocks import layout_functions
from tscript.meta_schedule.profiler import Profiler
from tscript.meta_schedule.progress import Progress
from tscript.meta_schedule.runner.runner import Runner, RunnerFuture, RunnerInput, RunnerResult
from tscript.meta_schedule.task_scheduler.summary import summary
from tscript.meta_schedule.task_scheduler.task_record import FAILED_MS, TaskRecord
from tscript.meta_schedule.tune_context import TuneContext


class TaskScheduler(Component, role="task scheduler"):
    """Tunes several tasks with one budget of trials. Subclasses say whose turn it is."""

    def __init__(self, logger: logging.Logger | None = None) -> None:
        self.logger = logging.getLogger("tscript.meta_schedule") if logger is None else logger
        self.tasks_: list[TaskRecord] = []
        self.measure_callbacks_: list[MeasureCallback] = []
        self.database: Database | None = None
        self.cost_model: CostModel | None = None
        self.remaining_tasks_ = 0
        self.progress = Progress([], 0)
        self._begun: list[int] = []

    @property
    def contexts(self) -> list[TuneContext]:
        """The contexts of all tasks."""
        return [t.context for t in self.tasks_]

    @abstractmethod
    def next_task_id(self) -> int:
        """The number of the task that gets the next batch; -1 when none is left."""

    # -- the loop ---------------------------------------------------------------------------------

    def tune(
        self,
        tasks: Sequence[TuneContext],
        task_weights: Sequence[float],
        max_trials_global: int,
        max_trials_per_task: int,
        num_trials_per_iter: int,
        builder: Builder,
        runner: Runner,
        measure_callbacks: Sequence[MeasureCallback] = (),
        database: Database | None = None,
        cost_model: CostModel | None = None,
        on_begin: Callable[[], None] | None = None,
    ) -> None:
        """Tune all tasks, until `max_trials_global` trials are made or no task has more to try.

        `on_begin` is called once all tasks have begun, before the first batch.

        An interruption (Ctrl-C) ends the loop as its natural end does: what was measured is kept.
        """
        self.tasks_ = [TaskRecord(c, w) for c, w in zip(tasks, task_weights, strict=True)]
        self.measure_callbacks_ = list(measure_callbacks)
        self.database = database
        self.cost_model = cost_model
        self.remaining_tasks_ = len(self.tasks_)
        self._begun = []
        self.progress = Progress(self.tasks_, min(max_trials_global, max_trials_per_task * len(self.tasks_)))
        interrupted = False
        try:
            self._initialize_all(max_trials_per_task, num_trials_per_iter)
            if on_begin is not None:
                on_begin()
            with self.progress:
                self._spend(max_trials_global, max_trials_per_task, builder, runner)
        except KeyboardInterrupt:
            interrupted = True
            self.logger.warning("Interrupted: what was measured so far is kept")
        finally:
            self._finish(interrupted)

    def _initialize_all(self, max_trials_per_task: int, num_trials_per_iter: int) -> None:
        """Begin each task. One that cannot begin ends with the reason; if none can, that is raised."""
        errors: list[Exception] = []
        for i, task in enumerate(self.tasks_):
            try:
                with Profiler.timeit("InitializeTask"):
                    self._initialize(i, max_trials_per_task, num_trials_per_iter)
                self._begun.append(i)
            except Exception as e:
                errors.append(e)
                task.ending = f"it could not begin: {e}"
                self.logger.warning('Task #%d "%s" cannot be tuned: %s', i, task.context.task_name, e)
        if errors and len(errors) == len(self.tasks_):
            raise errors[0]
        for i in range(len(self.tasks_)):
            if i not in self._begun:
                self.terminate_task(i)

    def _initialize(self, i: int, max_trials_per_task: int, num_trials_per_iter: int) -> None:
        task = self.tasks_[i]
        context = task.context
        for logger in (self.logger, context.logger):
            logger.info('Initializing Task #%d: "%s"', i, context.task_name)
        spaces = context.generate_design_space()
        context.logger.info("Total %d design space(s) generated", len(spaces))
        for k, sch in enumerate(spaces):
            trace = "" if sch.trace is None else str(sch.trace.simplified(remove_postproc=True))
            context.logger.info("Design space #%d:\n%s\n%s", k, sch.mod, trace)
        context.pre_tuning(max_trials_per_task, num_trials_per_iter, spaces, self.database, self.cost_model)

    def _spend(self, max_trials: int, max_trials_per_task: int, builder: Builder, runner: Runner) -> None:
        self.print_tuning_statistics()
        trials = 0
        while trials < max_trials:
            i = self.next_task_id()
            if i == -1:
                break
            task = self.tasks_[i]
            if task.is_terminated:  # it could not begin
                continue
            self.logger.info('TaskScheduler picks Task #%d: "%s"', i, task.context.task_name)
            if task.is_running:
                self.join_running_task(i)
            if len(task.latency_ms) >= max_trials_per_task:
                self.terminate_task(i)
                continue
            candidates = task.context.generate_measure_candidates()
            if candidates is None:
                task.ending = str(getattr(task.context.search_strategy, "ending", ""))
                self.terminate_task(i)
                continue
            task.measure_candidates = candidates
            trials += len(candidates)
            with Profiler.timeit("SendToBuilder"):
                self._send_to_builder(task, builder)
            with Profiler.timeit("SendToRunner"):
                self._send_to_runner(task, runner)
            if not runner.is_elsewhere:
                self._await(task)
            if not candidates:
                self.join_running_task(i)

    def _await(self, task: TaskRecord) -> None:
        """Wait for a batch: on this machine, building or searching meanwhile would disturb its times."""
        with Profiler.timeit("JoinRunnerFutures"):
            for future in task.runner_futures:
                result = future.result()
                self.progress.advance(task, None if result.error_msg else result.run_secs)

    def _finish(self, interrupted: bool) -> None:
        for i, task in enumerate(self.tasks_):
            if task.measure_candidates:
                if interrupted:
                    _drop_unfinished(task)
                if task.runner_futures:
                    self.join_running_task(i)
            if not task.is_terminated:
                self.terminate_task(i)
            if i in self._begun:
                task.context.post_tuning()

    def _send_to_builder(self, task: TaskRecord, builder: Builder) -> None:
        self.logger.info("Sending %d sample(s) to builder", len(task.measure_candidates))
        target = task.context.target
        assert target is not None
        task.builder_results = builder.build([BuilderInput(c.sch.mod, target) for c in task.measure_candidates])

    def _send_to_runner(self, task: TaskRecord, runner: Runner) -> None:
        self.logger.info("Sending %d sample(s) to runner", len(task.measure_candidates))
        target = task.context.target
        assert target is not None
        inputs: list[RunnerInput] = []
        for built, candidate in zip(task.builder_results, task.measure_candidates, strict=True):
            if built.artifact_path is not None:
                layouts = layout_functions(candidate.sch.mod)
                given = (candidate.args_info, task.context.mod, layouts)
                inputs.append(RunnerInput(built.artifact_path, target.kind.name, *given))
        futures = iter(runner.run(inputs))
        task.runner_futures = [
            next(futures) if built.artifact_path is not None else _failed_build(built.error_msg)
            for built in task.builder_results
        ]

    # -- tasks ------------------------------------------------------------------------------------

    def touch_task(self, task_id: int) -> None:
        """Take in what a task's batch gave, if all of it is measured."""
        task = self.tasks_[task_id]
        if not task.is_terminated and task.is_running and all(f.done() for f in task.runner_futures):
            self.join_running_task(task_id)

    def join_running_task(self, task_id: int) -> list[RunnerResult]:
        """Wait for a task's batch, and let the search and all callbacks learn it."""
        task = self.tasks_[task_id]
        with Profiler.timeit("JoinRunnerFutures"):
            results = [f.result() for f in task.runner_futures]
        candidates, built = task.measure_candidates, task.builder_results
        task.context.notify_runner_results(candidates, results)
        for callback in self.measure_callbacks_:
            with Profiler.timeit(f"MeasureCallback/{type(callback).__name__}"):
                callback.apply(self, task_id, candidates, built, results)
        for candidate, b, r in zip(candidates, built, results, strict=True):
            self._log_trial(task_id, task.learn(b, r), candidate.sch, b.error_msg, r.error_msg)
        task.measure_candidates, task.builder_results, task.runner_futures = [], [], []
        self.logger.info('[Updated] Task #%d: "%s"', task_id, task.context.task_name)
        self.print_tuning_statistics()
        return results

    def _log_trial(self, i: int, ms: float, sch: object, build_error: str | None, run_error: str | None) -> None:
        task = self.tasks_[i]
        head = f"[Task #{i}: {task.context.task_name}] Trial #{len(task.latency_ms) - 1}"
        if ms < FAILED_MS:
            best = task.gflops(task.best_ms)
            task.context.logger.info(
                "%s: GFLOPs: %.4f. Time: %.4f us. Best GFLOPs: %.4f", head, task.gflops(ms), ms * 1e3, best
            )
            return
        stage, error = ("building", build_error) if build_error is not None else ("running", run_error)
        mod, trace = getattr(sch, "mod", ""), getattr(sch, "trace", "")
        task.context.logger.warning("%s: Error in %s:\n%s\n%s\n%s", head, stage, error, mod, trace)

    def terminate_task(self, task_id: int) -> None:
        """Give a task no more trials."""
        task = self.tasks_[task_id]
        task.is_terminated = True
        self.remaining_tasks_ -= 1
        self.logger.info("Task #%d has finished. Remaining task(s): %d", task_id, self.remaining_tasks_)
        self.print_tuning_statistics()

    def print_tuning_statistics(self) -> None:
        """Log the table of all tasks."""
        self.logger.debug("\n%s", summary(self.tasks_))


def _drop_unfinished(task: TaskRecord) -> None:
    """Keep of a batch what is measured already."""
    done = [k for k, f in enumerate(task.runner_futures) if f.done()]
    for k, built in enumerate(task.builder_results):
        if k not in done and built.artifact_path is not None:
            shutil.rmtree(Path(built.artifact_path).parent, ignore_errors=True)
    task.measure_candidates = [task.measure_candidates[k] for k in done]
    task.builder_results = [task.builder_results[k] for k in done]
    task.runner_futures = [task.runner_futures[k] for k in done]


def _failed_build(error: str | None) -> RunnerFuture:
    return RunnerFuture.of(RunnerResult(None, error, reason="build"))


PyTaskScheduler = TaskScheduler
