"""Cost model."""

from tscript.meta_schedule.cost_model.cost_model import CostModel, PyCostModel

__all__ = ["CostModel", "PyCostModel"]
