"""Timing of built functions."""

from __future__ import annotations

import operator
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tscript.runtime.device import Device
from tscript.runtime.function import CompiledFunction


@dataclass(frozen=True)
class BenchmarkResult:
    """Seconds a call took, one figure (the mean over `number` calls) for each repeat."""

    results: tuple[float, ...]

    @cached_property
    def mean(self) -> float:
        """Mean of the repeats, in seconds."""
        return float(np.mean(self.results))

    @cached_property
    def median(self) -> float:
        """Median of the repeats, in seconds."""
        return float(np.median(self.results))

    @cached_property
    def min(self) -> float:
        """Fastest repeat, in seconds."""
        return float(np.min(self.results))

    @cached_property
    def max(self) -> float:
        """Slowest repeat, in seconds."""
        return float(np.max(self.results))

    @cached_property
    def std(self) -> float:
        """Standard deviation of the repeats, in seconds."""
        return float(np.std(self.results))

    def __repr__(self) -> str:
        return (
            f"BenchmarkResult(min={self.min}, mean={self.mean}, median={self.median}, max={self.max}, "
            f"std={self.std}, results={self.results})"
        )

    def __str__(self) -> str:
        titles = ("mean (ms)", "median (ms)", "max (ms)", "min (ms)", "std (ms)")
        figures = (self.mean, self.median, self.max, self.min, self.std)
        head = " ".join(f"{t:^12}" for t in titles)
        row = " ".join(f"{f'{1e3 * v:.4f}':^12}" for v in figures)
        return f"Execution time summary:\n{head}\n{row}{' ' * 15}"


class TimeEvaluator:
    """Times a function: `evaluator(*args)` gives a BenchmarkResult.

    One untimed call comes first. Each of `repeat` figures is the mean of `number` calls; `number` grows until
    a figure covers `min_repeat_ms`. See `Module.time_evaluator` for the rest.
    """

    def __init__(
        self,
        function: CompiledFunction,
        device: Device,
        number: int = 10,
        repeat: int = 1,
        min_repeat_ms: float = 0,
        limit_zero_time_iterations: int = 100,
        cooldown_interval_ms: float = 0,
        repeats_to_cooldown: int = 1,
        cache_flush_bytes: int = 0,
        f_preproc: str | Callable[..., object] = "",
    ) -> None:
        number, repeat = operator.index(number), operator.index(repeat)
        if number < 1 or repeat < 1:
            raise ValueError(f"number and repeat are at least 1, not {number} and {repeat}")
        if not isinstance(device, Device) or device.kind != "cpu":  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(f"the function runs on the CPU, so it is timed on tscript.cpu(), not on {device!r}")
        if isinstance(f_preproc, str) and f_preproc not in _PREPARATIONS:
            raise ValueError(
                f"unknown f_preproc {f_preproc!r}; pass a function, or one of {', '.join(filter(None, _PREPARATIONS))}"
            )
        self._function = function
        self._device = device
        self._number = number
        self._repeat = repeat
        self._min_seconds = min_repeat_ms / 1e3
        self._zero_limit = limit_zero_time_iterations
        self._cooldown = cooldown_interval_ms / 1e3
        self._cooldown_every = max(repeats_to_cooldown, 1)
        self._scratch = np.zeros(cache_flush_bytes, np.uint8) if cache_flush_bytes > 0 else None
        self._prepare = _PREPARATIONS[f_preproc] if isinstance(f_preproc, str) else f_preproc

    def __call__(self, *args: Any) -> BenchmarkResult:
        run = self._function.bind(*args)
        run()
        results: list[float] = []
        for i in range(self._repeat):
            if self._prepare is not None:
                self._prepare(*args)
            results.append(self._measure(run))
            if self._cooldown and i % self._cooldown_every == 0:
                time.sleep(self._cooldown)
        return BenchmarkResult(tuple(results))

    def _measure(self, run: Callable[[], None]) -> float:
        zeros = 0
        number = self._number
        while True:
            if self._scratch is not None:
                self._scratch += 1
            calls = range(number)
            start = time.perf_counter()
            for _ in calls:
                run()
            total = time.perf_counter() - start
            zeros += total == 0
            if total >= self._min_seconds or zeros >= self._zero_limit:
                return total / number
            number = int(max(self._min_seconds / max(total / number, 1e-9) + 1, number * 1.618))


def _flush_all_but_first(first: Any, *rest: Any) -> None:
    """Push every array but the first out of the caches."""
    size = 64 << 20
    np.add.reduce(np.ones(size, np.uint8)[::64])


_PREPARATIONS: dict[str, Callable[..., object] | None] = {
    "": None,
    "cache_flush_cpu_non_first_arg": _flush_all_but_first,
}
