"""Trials go where they are expected to gain most."""

from __future__ import annotations

from tscript.meta_schedule.runner.runner import RunnerResult
from tscript.meta_schedule.task_scheduler.task_record import FAILED_MS
from tscript.meta_schedule.task_scheduler.task_scheduler import TaskScheduler
from tscript.schedule.rng import LinearCongruential


class GradientBased(TaskScheduler):
    """Gives the next batch to the task whose weighted latency is falling fastest.

    The gain is estimated from the fall over the last `window_size` batches (`alpha`) and from what a task would gain if
    it went on falling as it did on average (`1 - alpha`); see the task scheduler of Ansor (Zheng et al., OSDI 2020).
    `seed` decides between equals.
    """

    def __init__(self, *, alpha: float = 0.2, window_size: int = 3, seed: int = -1) -> None:
        super().__init__()
        if not 0 <= alpha <= 1 or window_size < 1:
            raise ValueError(f"alpha is between 0 and 1 and window_size at least 1, not {alpha} and {window_size}")
        self.alpha = alpha
        self.window_size = window_size
        self._rng = LinearCongruential(seed)
        self._round = 0
        self._best: dict[int, list[float]] = {}

    def next_task_id(self) -> int:
        """Each task once, then the one with the largest expected gain."""
        n = len(self.tasks_)
        if self._round < n:
            self._round += 1
            return self._round - 1
        if self._round == n:
            self._round += 1
            for i in range(n):
                if self.tasks_[i].is_running:
                    self.join_running_task(i)
        for i in range(n):
            self.touch_task(i)
        alive = [i for i in range(n) if not self.tasks_[i].is_terminated]
        if not alive:
            return -1
        gains = [self._gain(i) for i in alive]
        best = max(gains)
        equal = [i for i, g in zip(alive, gains, strict=True) if g == best]
        chosen = equal[0] if len(equal) == 1 else equal[self._rng.below(len(equal))]
        if self.tasks_[chosen].is_running:
            self.join_running_task(chosen)
        return chosen

    def join_running_task(self, task_id: int) -> list[RunnerResult]:
        """Wait for a task's batch, and remember the best time after it."""
        results = super().join_running_task(task_id)
        self._best.setdefault(task_id, []).append(self.tasks_[task_id].best_ms)
        return results

    def _gain(self, i: int) -> float:
        history = self._best.get(i, [])
        if not history or history[-1] >= FAILED_MS:
            return -FAILED_MS
        now, w = history[-1], self.window_size
        recent = (history[-1 - w] - now) / w if len(history) > w else 0.0
        average = now / len(history)
        return self.tasks_[i].task_weight * (self.alpha * recent + (1 - self.alpha) * average)
