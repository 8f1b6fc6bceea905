"""What happens with each measured batch."""

from tscript.meta_schedule.measure_callback.add_to_database import AddToDatabase
from tscript.meta_schedule.measure_callback.measure_callback import MeasureCallback, PyMeasureCallback
from tscript.meta_schedule.measure_callback.remove_build_artifact import RemoveBuildArtifact
from tscript.meta_schedule.measure_callback.update_cost_model import UpdateCostModel


def default_callbacks() -> list[MeasureCallback]:
    """Keep records, delete code, learn."""
    return [AddToDatabase(), RemoveBuildArtifact(), UpdateCostModel()]


MeasureCallback.register_kind("default", default_callbacks)

__all__ = [
    "AddToDatabase",
    "MeasureCallback",
    "PyMeasureCallback",
    "RemoveBuildArtifact",
    "UpdateCostModel",
    "default_callbacks",
]
