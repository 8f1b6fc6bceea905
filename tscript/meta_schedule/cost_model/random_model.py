"""A cost model that only guesses."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tscript.meta_schedule.cost_model.cost_model import CostModel
from tscript.meta_schedule.runner.runner import RunnerResult
from tscript.meta_schedule.tune_context import TuneContext


class RandomModel(CostModel):
    """Scores at random, evenly from 0 to `max_range`; `seed` repeats them, `path` goes on from what was saved."""

    def __init__(self, *, seed: int | None = None, path: str | None = None, max_range: float = 100) -> None:
        self.max_range = max_range
        self._random = np.random.RandomState(seed)
        if path is not None:
            self.load(path)

    @property
    def is_trained(self) -> bool:
        """Never: scores say nothing."""
        return False

    def load(self, path: str) -> None:
        """Go on from the saved state of the random numbers."""
        with np.load(path, allow_pickle=False) as saved:
            self._random.set_state(("MT19937", saved["keys"], int(saved["pos"]), 0, 0.0))

    def save(self, path: str) -> None:
        """Save the state of the random numbers."""
        _, keys, pos, *_ = self._random.get_state(legacy=True)
        with open(path, "wb") as f:
            np.savez(f, keys=keys, pos=np.array(pos))

    def update(self, context: TuneContext, candidates: list[Any], results: list[RunnerResult]) -> None:
        """Learn nothing."""

    def predict(self, context: TuneContext, candidates: list[Any]) -> NDArray[np.float64]:
        """Random scores, of shape (candidates,)."""
        return self._random.uniform(0.0, self.max_range, len(candidates))
