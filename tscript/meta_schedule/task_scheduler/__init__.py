"""Which task gets the next trials."""

from tscript.meta_schedule.task_scheduler.gradient_based import GradientBased
from tscript.meta_schedule.task_scheduler.round_robin import RoundRobin
from tscript.meta_schedule.task_scheduler.task_record import TaskRecord
from tscript.meta_schedule.task_scheduler.task_scheduler import PyTaskScheduler, TaskScheduler

TaskScheduler.register_kind("gradient", GradientBased)
for _word in ("round-robin", "round_robin"):
    TaskScheduler.register_kind(_word, RoundRobin)

__all__ = ["GradientBased", "PyTaskScheduler", "RoundRobin", "TaskRecord", "TaskScheduler"]
