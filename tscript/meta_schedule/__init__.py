"""Search for fast schedules: `tune_tir` samples, builds, checks and measures candidates, and keeps a database."""

from tscript.meta_schedule import (
    arg_info,
    builder,
    cost_model,
    database,
    feature_extractor,
    measure_callback,
    mutator,
    postproc,
    runner,
    schedule_rule,
    search_strategy,
    space_generator,
    task_scheduler,
)
from tscript.meta_schedule.component import derived_object
from tscript.meta_schedule.tune_context import TuneContext

__all__ = [
    "TuneContext",
    "arg_info",
    "builder",
    "cost_model",
    "database",
    "derived_object",
    "feature_extractor",
    "measure_callback",
    "mutator",
    "postproc",
    "runner",
    "schedule_rule",
    "search_strategy",
    "space_generator",
    "task_scheduler",
]
