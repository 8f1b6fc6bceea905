"""The runner's role: files with machine code in, times out."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field

from tscript.ir.function import IRModule, PrimFunc
from tscript.meta_schedule.arg_info import ArgInfo
from tscript.meta_schedule.component import Component


@dataclass(frozen=True)
class RunnerInput:
    """Code to measure: its file, the kind of device, and what it takes.

    `reference` is the program before scheduling: what is measured must compute the same. `layouts` are what
    `layout_functions` gives for the scheduled program: parameters that the code takes in another layout than it.
    """

    artifact_path: str
    device_type: str
    args_info: list[ArgInfo]
    reference: IRModule | None = None
    layouts: dict[int, PrimFunc] = field(default_factory=dict[int, PrimFunc])


@dataclass(frozen=True)
class RunnerResult:
    """Seconds of a run, one figure per repeat, or why there are none: exactly one of both is given.

    `reason` sorts failures for the summary ("wrong result", "timeout", "crash", ...).
    """

    run_secs: list[float] | None
    error_msg: str | None
    reason: str = field(default="", compare=False)


class RunnerFuture:
    """A measurement that may still be under way."""

    def __init__(self, f_done: Callable[[], bool], f_result: Callable[[], RunnerResult]) -> None:
        self._done = f_done
        self._result = f_result

    def done(self) -> bool:
        """Whether `result` would return at once."""
        return self._done()

    def result(self) -> RunnerResult:
        """The outcome; waits for it."""
        return self._result()

    @staticmethod
    def of(result: RunnerResult) -> RunnerFuture:
        """A future that is done already."""
        return RunnerFuture(lambda: True, lambda: result)


class Runner(Component, role="runner"):
    """Measures built candidates. A failure is a result with a message, never an exception."""

    @property
    def is_elsewhere(self) -> bool:
        """Whether candidates are measured on other machines, so that this one may build and search meanwhile."""
        return False

    @abstractmethod
    def run(self, runner_inputs: list[RunnerInput]) -> list[RunnerFuture]:
        """One future for each input, in order."""


PyRunner = Runner
PyRunnerFuture = RunnerFuture
