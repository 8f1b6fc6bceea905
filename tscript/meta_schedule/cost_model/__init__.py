"""Guesses, before measuring, which candidates are good."""

from typing import Any

from tscript.meta_schedule.cost_model.cost_model import CostModel, PyCostModel
from tscript.meta_schedule.cost_model.random_model import RandomModel


def _none(**_: Any) -> None:
    """No model: the search goes by chance."""


CostModel.register_kind("random", RandomModel)
CostModel.register_kind("none", _none)

__all__ = ["CostModel", "PyCostModel", "RandomModel"]
