"""Candidates are built in processes of this machine, or wherever an executor runs them."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

from tscript.meta_schedule.builder.build_job import Build, Export, build_candidate
from tscript.meta_schedule.builder.builder import Builder, BuilderInput, BuilderResult
from tscript.runtime.processes import ProcessExecutor, WorkerDied, WorkerTimeout
from tscript.target.detect import core_count


class LocalBuilder(Builder):
    """Builds candidates side by side in `max_workers` processes (as many as there are cores, if None).

    A candidate that is not built after `timeout_sec` seconds, or takes its process down, fails alone. `f_build(mod,
    target, params)` and `f_export(built) -> path` replace how it is compiled and where to; each is a function or the
    name of a registered one. `initializer()` runs first in each process. `executor`, any `concurrent.futures.Executor`,
    replaces the processes: its workers must see the folders that artifacts are written to.
    """

    def __init__(
        self,
        *,
        max_workers: int | None = None,
        timeout_sec: float = 30.0,
        f_build: str | Build | None = None,
        f_export: str | Export | None = None,
        initializer: Callable[[], object] | None = None,
        executor: Executor | None = None,
    ) -> None:
        self.max_workers = core_count() if max_workers is None else max_workers
        self.timeout_sec = timeout_sec
        self._functions = (f_build, f_export)
        self._executor = executor or ProcessExecutor(self.max_workers, timeout_sec=timeout_sec, initializer=initializer)
        logging.getLogger("tscript.meta_schedule").info("LocalBuilder: max_workers = %d", self.max_workers)

    def build(self, build_inputs: list[BuilderInput]) -> list[BuilderResult]:
        """One result for each candidate, in order."""
        futures = [
            self._executor.submit(build_candidate, *self._functions, i.mod, i.target, i.params) for i in build_inputs
        ]
        return [self._result(f) for f in futures]

    def _result(self, future: Future[Any]) -> BuilderResult:
        try:
            return BuilderResult(str(future.result()), None)
        except WorkerTimeout:
            return BuilderResult(None, f"LocalBuilder: Timeout, killed after {self.timeout_sec} seconds\n")
        except WorkerDied as e:
            return BuilderResult(None, f"LocalBuilder: An exception occurred\n{e}")
        except Exception as e:
            return BuilderResult(None, f"LocalBuilder: An exception occurred\n{describe(e)}")


def describe(e: BaseException) -> str:
    """A failure in words: the traceback of its process, or its own, ending in the exception."""
    cause = e.__cause__
    return str(cause) if cause is not None else "".join(traceback.format_exception(e))
