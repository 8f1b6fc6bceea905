"""Guesses, before measuring, which candidates are good."""

import logging
from typing import Any

from tscript.meta_schedule.cost_model.cost_model import CostModel, PyCostModel
from tscript.meta_schedule.cost_model.mlp_model import MLPConfig, MLPModel
from tscript.meta_schedule.cost_model.random_model import RandomModel
from tscript.meta_schedule.cost_model.xgb_model import XGBConfig, XGBModel


def _none(**_: Any) -> None:
    """No model: the search goes by chance."""


def _xgb(**options: Any) -> CostModel:
    """Trees where xgboost is there; else no reason not to tune."""
    try:
        return XGBModel(**options)
    except ImportError as e:
        logging.getLogger("tscript.meta_schedule").warning("%s; the search goes on at random", e)
        return RandomModel()


CostModel.register_kind("xgb", _xgb)
CostModel.register_kind("mlp", MLPModel)
CostModel.register_kind("random", RandomModel)
CostModel.register_kind("none", _none)

__all__ = ["CostModel", "MLPConfig", "MLPModel", "PyCostModel", "RandomModel", "XGBConfig", "XGBModel"]
