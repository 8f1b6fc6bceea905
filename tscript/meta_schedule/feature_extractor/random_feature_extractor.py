"""Features that say nothing, for trying out the parts around them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tscript.meta_schedule.feature_extractor.feature_extractor import FeatureExtractor
from tscript.meta_schedule.tune_context import TuneContext


class RandomFeatureExtractor(FeatureExtractor):
    """Random numbers: for each candidate 1 to `max_block_num` rows of `feature_size`.

    >>> [f.shape[1] for f in RandomFeatureExtractor().extract_from(None, ["a", "b"])]
    [30, 30]
    """

    def __init__(self, *, feature_size: int = 30, max_block_num: int = 5, seed: int = 0) -> None:
        self.feature_size = feature_size
        self.max_block_num = max_block_num
        self.random_state = np.random.RandomState(seed)

    def extract_from(self, context: TuneContext | None, candidates: list[Any]) -> list[NDArray[np.float64]]:
        """An array of shape (rows, `feature_size`) for each candidate."""
        return [
            self.random_state.rand(self.random_state.randint(1, self.max_block_num + 1), self.feature_size)
            for _ in candidates
        ]
