"""What is known of one task while it is tuned."""

from __future__ import annotations

from collections import Counter
from statistics import median
from typing import Any

from tscript.analysis.flops import estimate_tir_flops
from tscript.ir.function import IRModule
from tscript.meta_schedule.builder.builder import BuilderResult
from tscript.meta_schedule.candidate import MeasureCandidate
from tscript.meta_schedule.database.database import Database
from tscript.meta_schedule.runner.runner import RunnerFuture, RunnerResult
from tscript.meta_schedule.tune_context import TuneContext

FAILED_MS = 1e9
"""Milliseconds that stand for a failure."""


class TaskRecord:
    """A task: its context and weight, what was measured, and what is being measured.

    `latency_ms` has one entry for each finished trial, 1e9 for a failed one; `failures` counts the reasons of those.
    `ending` says why the task ended, where it was not for want of trials.
    """

    def __init__(self, context: TuneContext, weight: float = 1.0) -> None:
        self.context = context
        self.task_weight = weight
        self.flop = max(1.0, _flops(context.mod))
        self.is_terminated = False
        self.build_error_count = 0
        self.run_error_count = 0
        self.failures: Counter[str] = Counter()
        self.latency_ms: list[float] = []
        self.measure_candidates: list[MeasureCandidate] = []
        self.builder_results: list[BuilderResult] = []
        self.runner_futures: list[RunnerFuture] = []
        self.database: Database | None = None
        self.ending = ""

    @property
    def rejected(self) -> Counter[str]:
        """Samples of the search that could not become candidates, by reason."""
        found: Any = getattr(self.context.search_strategy, "rejected", None)
        return Counter(found) if isinstance(found, Counter) else Counter()  # pyright: ignore[reportUnknownArgumentType]

    @property
    def is_running(self) -> bool:
        """Whether a batch is being measured."""
        return bool(self.runner_futures)

    @property
    def best_ms(self) -> float:
        """The shortest time so far, in milliseconds; 1e9 without any."""
        return min(self.latency_ms, default=FAILED_MS)

    @property
    def has_result(self) -> bool:
        """Whether any trial ran."""
        return self.best_ms < FAILED_MS

    def gflops(self, ms: float) -> float:
        """Speed at a time, in 10^9 floating-point operations a second."""
        return self.flop / ms / 1e6

    def learn(self, built: BuilderResult, ran: RunnerResult) -> float:
        """Count a finished trial; its milliseconds, or 1e9."""
        ms = FAILED_MS
        if built.error_msg is not None:
            self.build_error_count += 1
            self.failures[_reason("build", built.error_msg)] += 1
        elif ran.error_msg is not None:
            self.run_error_count += 1
            self.failures[ran.reason or _reason("run", ran.error_msg)] += 1
        elif ran.run_secs:
            ms = median(ran.run_secs) * 1e3
        self.latency_ms.append(ms)
        return ms


def _flops(mod: IRModule | None) -> float:
    return 1.0 if mod is None else float(estimate_tir_flops(mod))


def _reason(stage: str, message: str) -> str:
    """A short name for why something failed: the first line of its message, or the last one of a traceback."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    if not lines:
        return f"{stage}: no message"
    text = lines[-1] if len(lines) > 1 and "xception" in lines[0] else lines[0]
    return f"{stage}: {text[:80]}"
