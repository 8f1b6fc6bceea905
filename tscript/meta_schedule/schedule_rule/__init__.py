"""Ways to schedule one block."""

from tscript.meta_schedule.schedule_rule.apply_custom_rule import ApplyCustomRule
from tscript.meta_schedule.schedule_rule.schedule_rule import PyScheduleRule, ScheduleRule

__all__ = ["ApplyCustomRule", "PyScheduleRule", "ScheduleRule"]
