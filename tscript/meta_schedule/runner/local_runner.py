"""Candidates are measured in a process of this machine, or wherever an executor runs them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

from tscript.ir.function import IRModule
from tscript.meta_schedule.builder.local_builder import describe
from tscript.meta_schedule.runner.evaluator_config import EvaluatorConfig
from tscript.meta_schedule.runner.measure_job import (
    AllocArgument,
    Before,
    Cleanup,
    RunEvaluator,
    measure,
    prepare,
)
from tscript.meta_schedule.runner.reference import WrongResult
from tscript.meta_schedule.runner.runner import Runner, RunnerFuture, RunnerInput, RunnerResult
from tscript.runtime.processes import ProcessExecutor, WorkerDied, WorkerTimeout
from tscript.support.errors import TuneError

_SLOW_REFERENCE = (
    "tune a smaller workload of the kind, or give the runner more time (LocalRunner(reference_timeout_sec=...)) or no "
    "check (check_results=False)"
)


class LocalRunner(Runner):
    """Measures candidates one after the other in one process.

    Each is first held to the program before scheduling, on random arguments, unless `check_results` is False. That
    program runs once, for `reference_timeout_sec` seconds at most; if it fails, `run` raises TuneError. A candidate
    that computes something else, is not done after `timeout_sec` seconds, or takes its process down, fails alone.
    `evaluator_config` says how it is timed, `alloc_repeat` on how many sets of arguments, and `cooldown_sec` how long
    to wait after each. `f_alloc_argument`, `f_run_evaluator` and `f_cleanup` (functions, or names of registered ones)
    replace parts of that. `initializer()` runs first in each process. `executor`, any `concurrent.futures.Executor`,
    replaces the process.
    """

    def __init__(
        self,
        timeout_sec: float = 30.0,
        evaluator_config: EvaluatorConfig | None = None,
        cooldown_sec: float = 0.0,
        alloc_repeat: int = 1,
        f_alloc_argument: str | AllocArgument | None = None,
        f_run_evaluator: str | RunEvaluator | None = None,
        f_cleanup: str | Cleanup | None = None,
        initializer: Callable[[], object] | None = None,
        *,
        executor: Executor | None = None,
        check_results: bool = True,
        reference_timeout_sec: float = 300.0,
        max_workers: int | None = None,
    ) -> None:
        del max_workers  # two at a time would disturb each other's times
        if alloc_repeat < 1 or cooldown_sec < 0:
            raise ValueError("alloc_repeat is at least 1 and cooldown_sec at least 0")
        self.timeout_sec = timeout_sec
        self.evaluator_config = evaluator_config or EvaluatorConfig()
        self.cooldown_sec = cooldown_sec
        self.alloc_repeat = alloc_repeat
        self.check_results = check_results
        self.reference_timeout_sec = reference_timeout_sec
        self._functions = (f_alloc_argument, f_run_evaluator, f_cleanup)
        self._is_given = executor is not None
        self._before = Before(initializer)
        self._executor = executor or ProcessExecutor(1, timeout_sec=timeout_sec, initializer=self._before)
        self._prepared: IRModule | None = None
        logging.getLogger("tscript.meta_schedule").info("LocalRunner: max_workers = 1")

    @property
    def is_elsewhere(self) -> bool:
        """Whether an executor of the user's measures: where that is, is not known here."""
        return self._is_given

    def run(self, runner_inputs: list[RunnerInput]) -> list[RunnerFuture]:
        """One future for each candidate, in order."""
        return [self._start(i) for i in runner_inputs]

    def _prepare(self, reference: IRModule) -> None:
        """Have the program before scheduling run, once for all its candidates and under a limit of its own."""
        if isinstance(self._executor, ProcessExecutor):
            job = self._executor.submit_within(self.reference_timeout_sec, prepare, reference)
            try:
                job.result()
            except WorkerTimeout as e:
                raise TuneError(
                    f"the program before scheduling, which candidates are held to, did not end in "
                    f"{self.reference_timeout_sec:g} seconds: {_SLOW_REFERENCE}"
                ) from e
            except Exception as e:
                raise TuneError(
                    f"the program before scheduling, which candidates are held to, cannot be run: {describe(e)}"
                ) from e
            self._before.reference = reference
        else:
            self._executor.submit(prepare, reference)
        self._prepared = reference

    def _start(self, given: RunnerInput) -> RunnerFuture:
        reference = given.reference if self.check_results else None
        if reference is not None and reference is not self._prepared:
            self._prepare(reference)
        future = self._executor.submit(
            measure,
            given.artifact_path,
            given.device_type,
            given.args_info,
            reference,
            self.evaluator_config,
            self.alloc_repeat,
            self._functions,
            given.layouts,
        )
        if self.cooldown_sec:
            self._executor.submit(time.sleep, self.cooldown_sec)
        return RunnerFuture(future.done, lambda: self._result(future))

    def _result(self, future: Future[Any]) -> RunnerResult:
        try:
            return RunnerResult(future.result(), None)
        except WorkerTimeout:
            message = f"LocalRunner: Timeout, killed after {self.timeout_sec} seconds\n"
            return RunnerResult(None, message, reason="run: timeout")
        except WorkerDied as e:
            return RunnerResult(None, f"LocalRunner: An exception occurred\n{e}", reason="run: crash")
        except WrongResult as e:
            return RunnerResult(None, f"LocalRunner: An exception occurred\n{e}", reason="run: wrong result")
        except Exception as e:
            reason = f"run: {type(e).__name__}"
            return RunnerResult(None, f"LocalRunner: An exception occurred\n{describe(e)}", reason=reason)
