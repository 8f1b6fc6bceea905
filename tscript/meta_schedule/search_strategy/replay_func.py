"""Random search: the space generated anew for each candidate."""

from __future__ import annotations

from tscript.meta_schedule.candidate import MeasureCandidate
from tscript.meta_schedule.search_strategy.base import BatchedSearch
from tscript.meta_schedule.search_strategy.sampler import reason_of
from tscript.schedule.schedule import Schedule


class ReplayFunc(BatchedSearch):
    """Calls the space generator for each candidate and takes one of its schedules at random.

    For spaces that a function describes: its own choices, made outside of the trace, are made again too. A trial for
    which `max_fail_count` attempts in a row fail is given up.
    """

    def __init__(self, max_fail_count: int = 100) -> None:
        super().__init__()
        if max_fail_count < 1:
            raise ValueError(f"max_fail_count is at least 1, not {max_fail_count}")
        self.max_fail_count = max_fail_count

    def _propose(self, count: int) -> list[MeasureCandidate] | None:
        found: list[MeasureCandidate] = []
        for _ in range(count):
            for _ in range(self.max_fail_count):
                sch = self._one()
                if isinstance(sch, Schedule):
                    found.append(MeasureCandidate(sch, self._args_info))
                    break
                self.rejected[sch] += 1
            if not found:
                self._give_up(f"none of {self.max_fail_count} schedules of the space could be finished")
                return None
        return found

    def _one(self) -> Schedule | str:
        """A finished schedule, or the reason why there is none."""
        try:
            made = self.space.generate_design_space(self.mod)
            if not made:
                return "the space generator gave no schedule"
            sch = made[self.context.rng.below(len(made))]
            sch.enter_postproc()
            for p in self.space.postprocs:
                if not p.apply(sch):
                    return f"{type(p).__name__} rejected it"
        except Exception as e:  # whatever goes wrong costs this attempt only
            return reason_of(e)
        return sch

    def clone(self) -> ReplayFunc:
        """An independent strategy of the same settings."""
        return ReplayFunc(self.max_fail_count)
