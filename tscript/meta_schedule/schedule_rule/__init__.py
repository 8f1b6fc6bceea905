"""Ways to schedule one block."""

from tscript.meta_schedule.schedule_rule import default
from tscript.meta_schedule.schedule_rule.add_rfactor import AddRFactor
from tscript.meta_schedule.schedule_rule.apply_custom_rule import ApplyCustomRule
from tscript.meta_schedule.schedule_rule.auto_bind import AutoBind
from tscript.meta_schedule.schedule_rule.auto_inline import AutoInline
from tscript.meta_schedule.schedule_rule.cross_thread_reduction import CrossThreadReduction
from tscript.meta_schedule.schedule_rule.inline_constant_scalars import InlineConstantScalars
from tscript.meta_schedule.schedule_rule.library_schedule import LibrarySchedule
from tscript.meta_schedule.schedule_rule.multi_level_tiling import MultiLevelTiling
from tscript.meta_schedule.schedule_rule.multi_level_tiling_wide_vector import MultiLevelTilingWideVector
from tscript.meta_schedule.schedule_rule.multi_level_tiling_with_intrin import MultiLevelTilingWithIntrin
from tscript.meta_schedule.schedule_rule.parallel_vectorize_unroll import ParallelizeVectorizeUnroll
from tscript.meta_schedule.schedule_rule.random_compute_location import RandomComputeLocation
from tscript.meta_schedule.schedule_rule.register_tiling import RegisterTiling
from tscript.meta_schedule.schedule_rule.reuse import ReuseType
from tscript.meta_schedule.schedule_rule.schedule_rule import PyScheduleRule, ScheduleRule

__all__ = [
    "AddRFactor",
    "ApplyCustomRule",
    "AutoBind",
    "AutoInline",
    "CrossThreadReduction",
    "InlineConstantScalars",
    "LibrarySchedule",
    "MultiLevelTiling",
    "MultiLevelTilingWideVector",
    "MultiLevelTilingWithIntrin",
    "ParallelizeVectorizeUnroll",
    "PyScheduleRule",
    "RandomComputeLocation",
    "RegisterTiling",
    "ReuseType",
    "ScheduleRule",
    "default",
]
