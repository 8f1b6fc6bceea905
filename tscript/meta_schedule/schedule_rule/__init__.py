"""Schedule rule."""

from tscript.meta_schedule.schedule_rule.schedule_rule import PyScheduleRule, ScheduleRule

__all__ = ["PyScheduleRule", "ScheduleRule"]
