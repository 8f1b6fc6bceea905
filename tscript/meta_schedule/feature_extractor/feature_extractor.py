"""The feature extractor's role: numbers that a cost model can learn from."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tscript.meta_schedule.component import Component
from tscript.meta_schedule.tune_context import TuneContext


class FeatureExtractor(Component, role="feature extractor"):
    """Describes candidates by numbers."""

    @abstractmethod
    def extract_from(self, context: TuneContext, candidates: list[Any]) -> list[NDArray[np.float64]]:
        """For each candidate an array of shape (rows, features per row)."""


PyFeatureExtractor = FeatureExtractor
