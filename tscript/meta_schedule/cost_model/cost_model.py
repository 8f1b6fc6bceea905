"""The cost model's role: a guess, before measuring, which candidates are good."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tscript.meta_schedule.component import Component
from tscript.meta_schedule.runner.runner import RunnerResult
from tscript.meta_schedule.tune_context import TuneContext
from tscript.schedule.schedule import Schedule

Extraction = Callable[[Schedule], tuple[Hashable, NDArray[np.float64]]]


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

    @property
    def is_trained(self) -> bool:
        """Whether scores say something; a search wastes no generations on a model that only guesses."""
        return True

    def extraction(self, context: TuneContext) -> Extraction | None:
        """What to find out about a schedule as soon as it is made, in the process that made it: a function that gives
        the key in `MeasureCandidate.features` and the features. None where nothing is needed.
        """
        del context
        return None

    @abstractmethod
    def predict(self, context: TuneContext, candidates: list[Any]) -> NDArray[np.float64]:
        """Scores, of shape (candidates,)."""


PyCostModel = CostModel
