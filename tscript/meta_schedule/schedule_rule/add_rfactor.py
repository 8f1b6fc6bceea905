"""Reductions with few results are computed in parts that can run at the same time."""

from __future__ import annotations

from tscript.meta_schedule.schedule_rule.parallel_vectorize_unroll import num_cores
from tscript.meta_schedule.schedule_rule.reduction_test import fuse_reduction_loops, needs_partial_results
from tscript.meta_schedule.schedule_rule.schedule_rule import ScheduleRule
from tscript.meta_schedule.tune_context import TuneContext
from tscript.schedule.errors import ScheduleError
from tscript.schedule.rv import BlockRV
from tscript.schedule.schedule import Schedule


class AddRFactor(ScheduleRule):
    """Offers partial results for a reduction that leaves fewer than `max_jobs_per_core` results for each core.

    The loops that are reduced over are fused and cut in two by sampled factors, the inner at most
    `max_innermost_factor` (None for any); there are partial results for either of the two, and the schedule as it was.
    -1 jobs turn the rule off.
    """

    def __init__(self, max_jobs_per_core: int = 16, max_innermost_factor: int | None = None) -> None:
        if max_jobs_per_core < 1 and max_jobs_per_core != -1:
            raise ValueError(f"max_jobs_per_core is at least 1, or -1 for none, not {max_jobs_per_core}")
        self.max_jobs_per_core = max_jobs_per_core
        self.max_innermost_factor = -1 if max_innermost_factor is None else max_innermost_factor
        self._max_parallel = -1

    def _initialize_with_tune_context(self, context: TuneContext) -> None:
        if self.max_jobs_per_core != -1:
            self._max_parallel = num_cores(context) * self.max_jobs_per_core

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        """Schedules with partial results, then the schedule as it was."""
        if self.max_jobs_per_core == -1 or not needs_partial_results(sch, block, self._max_parallel):
            return [sch]
        # What is common to both is done once; each goes on from a copy.
        start = sch.copy()
        fused, axis = fuse_reduction_loops(start, block)
        factors = start.sample_perfect_tile(fused, 2, self.max_innermost_factor)
        parts = start.split(fused, factors)
        made: list[Schedule] = []
        for part in parts:
            new = start.copy()
            try:
                new.rfactor(part, axis)
            except ScheduleError:
                continue  # no known reduction, or one whose parts cannot be combined
            new.annotate(block, "meta_schedule.random_compute_producer", 1)
            made.append(new)
        return [*made, sch]
