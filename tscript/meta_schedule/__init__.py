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
    tir_integration,
)
from tscript.meta_schedule.component import derived_object
from tscript.meta_schedule.curve import Curve, tuning_curve
from tscript.meta_schedule.profiler import Profiler
from tscript.meta_schedule.tir_integration import compile_tir, tune_tir
from tscript.meta_schedule.tune import tune_tasks
from tscript.meta_schedule.tune_config import TuneConfig
from tscript.meta_schedule.tune_context import TuneContext

__all__ = [
    "Curve",
    "Profiler",
    "TuneConfig",
    "TuneContext",
    "arg_info",
    "builder",
    "compile_tir",
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
    "tir_integration",
    "tune_tasks",
    "tune_tir",
    "tuning_curve",
]
