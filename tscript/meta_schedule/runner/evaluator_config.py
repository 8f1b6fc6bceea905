"""How a candidate is timed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class EvaluatorConfig:
    """`repeat` figures, each the mean of at least `number` calls that take at least `min_repeat_ms` together;
    `enable_cpu_cache_flush` empties the caches before each figure.
    """

    number: int = 3
    repeat: int = 1
    min_repeat_ms: int = 100
    enable_cpu_cache_flush: bool = False

    def __post_init__(self) -> None:
        if self.number < 1 or self.repeat < 1 or self.min_repeat_ms < 0:
            raise ValueError(f"number and repeat are at least 1 and min_repeat_ms at least 0, unlike {self}")
