"""The measure callback's role: what happens with each measured batch."""

from __future__ import annotations

from abc import abstractmethod
from typing import Protocol

from tscript.meta_schedule.builder.builder import BuilderResult
from tscript.meta_schedule.candidate import MeasureCandidate
from tscript.meta_schedule.component import Component
from tscript.meta_schedule.cost_model.cost_model import CostModel
from tscript.meta_schedule.database.database import Database
from tscript.meta_schedule.runner.runner import RunnerResult
from tscript.meta_schedule.tune_context import TuneContext


class Tuning(Protocol):
    """What a callback may ask of the task scheduler that calls it."""

    @property
    def contexts(self) -> list[TuneContext]:
        """The contexts of all tasks."""
        ...

    @property
    def database(self) -> Database | None:
        """Where records go."""
        ...

    @property
    def cost_model(self) -> CostModel | None:
        """What learns from measurements."""
        ...


class MeasureCallback(Component, role="measure callback"):
    """Called with each batch, once it is measured."""

    @abstractmethod
    def apply(
        self,
        task_scheduler: Tuning,
        task_id: int,
        measure_candidates: list[MeasureCandidate],
        builder_results: list[BuilderResult],
        runner_results: list[RunnerResult],
    ) -> None:
        """Do something with the batch; the three lists belong together entry by entry."""


PyMeasureCallback = MeasureCallback
