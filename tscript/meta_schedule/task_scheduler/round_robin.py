"""One task after the other."""

from __future__ import annotations

from tscript.meta_schedule.task_scheduler.task_scheduler import TaskScheduler


class RoundRobin(TaskScheduler):
    """Gives each unfinished task a batch in turn."""

    def __init__(self) -> None:
        super().__init__()
        self._last = -1

    def next_task_id(self) -> int:
        """The next unfinished task."""
        n = len(self.tasks_)
        for i in range(n):
            self.touch_task(i)
        for step in range(1, n + 1):
            i = (self._last + step) % n
            if not self.tasks_[i].is_terminated:
                self._last = i
                if self.tasks_[i].is_running:
                    self.join_running_task(i)
                return i
        return -1
