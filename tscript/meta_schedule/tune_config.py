"""The settings of tuning as articles of 2022 write them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class TuneConfig:
    """How to search: accepted as `config=` by `tune_tir`, which then returns the best schedule.

    `task_scheduler_config` and `search_strategy_config` are arguments of these parts; `logger_config` and
    `adaptive_training` are accepted and change nothing.

    >>> TuneConfig(max_trials_global=64, num_trials_per_iter=32).strategy
    'evolutionary'
    """

    max_trials_global: int | None = None
    num_trials_per_iter: int = 64
    max_trials_per_task: int | None = None
    task_scheduler: str = "gradient"
    strategy: str = "evolutionary"
    task_scheduler_config: Mapping[str, Any] | None = None
    search_strategy_config: Mapping[str, Any] | None = None
    logger_config: Mapping[str, Any] | None = None
    adaptive_training: bool | None = None

    @property
    def trials(self) -> int:
        """Trials in all. ValueError when the settings do not say."""
        found = self.max_trials_global if self.max_trials_global is not None else self.max_trials_per_task
        if found is None:
            raise ValueError("TuneConfig needs max_trials_global or max_trials_per_task")
        return found
