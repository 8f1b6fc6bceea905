"""The cost model's role: a guess, before measuring, which candidates are good."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tscript.meta_schedule.component import Component
from tscript.meta_schedule.runner.runner import RunnerResult
from tscript.meta_schedule.tune_context import TuneContext


class CostModel(Component, role="cost model"):
    """Learns from measurements and scores candidates; higher is better, and 0 is the least."""

    @abstractmethod
    def load(self, path: str) -> None:
        """Go on from what was saved."""

    @abstractmethod
    def save(self, path: str) -> None:
        """Write all that was learnt to a file."""

    @abstractmethod
    def update(self, context: TuneContext, candidates: list[Any], results: list[RunnerResult]) -> None:
        """Learn from measured candidates."""

    @abstractmethod
    def predict(self, context: TuneContext, candidates: list[Any]) -> NDArray[np.float64]:
        """Scores, of shape (candidates,)."""


PyCostModel = CostModel
