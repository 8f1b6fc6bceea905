"""The search strategy's role: which candidates of a space to measure next."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from tscript.meta_schedule.candidate import MeasureCandidate
from tscript.meta_schedule.component import Component
from tscript.meta_schedule.cost_model.cost_model import CostModel
from tscript.meta_schedule.database.database import Database
from tscript.meta_schedule.runner.runner import RunnerResult
from tscript.meta_schedule.tune_context import TuneContext
from tscript.schedule.schedule import Schedule


class SearchStrategy(Component, role="search strategy"):
    """Proposes candidates in batches and learns what became of them."""

    def initialize_with_tune_context(self, context: TuneContext) -> None:
        """Get ready for one task."""
        self._initialize_with_tune_context(context)

    def _initialize_with_tune_context(self, context: TuneContext) -> None:
        pass

    @abstractmethod
    def pre_tuning(
        self,
        max_trials: int,
        num_trials_per_iter: int,
        design_spaces: list[Schedule],
        database: Database | None = None,
        cost_model: CostModel | None = None,
    ) -> None:
        """Begin a search of at most `max_trials` candidates, in batches of `num_trials_per_iter`."""

    @abstractmethod
    def post_tuning(self) -> None:
        """End the search."""

    @abstractmethod
    def generate_measure_candidates(self) -> list[MeasureCandidate] | None:
        """The next batch, or None when the search is over."""

    @abstractmethod
    def notify_runner_results(self, measure_candidates: list[MeasureCandidate], results: list[RunnerResult]) -> None:
        """Learn what was measured."""

    @abstractmethod
    def clone(self) -> Any:
        """An independent strategy of the same settings."""


PySearchStrategy = SearchStrategy
