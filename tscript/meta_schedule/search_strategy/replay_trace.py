"""Random search: the traces of the space with new samples."""

from __future__ import annotations

from tscript.meta_schedule.candidate import MeasureCandidate
from tscript.meta_schedule.cost_model.cost_model import CostModel
from tscript.meta_schedule.database.database import Database
from tscript.meta_schedule.database.equality import ModuleEquality
from tscript.meta_schedule.search_strategy.base import BatchedSearch
from tscript.meta_schedule.search_strategy.sampler import Attempt, Sampler


class ReplayTrace(BatchedSearch):
    """Samples each candidate anew: a random trace of the space, its choices drawn again.

    A trial for which `max_fail_count` attempts in a row fail is given up.
    """

    def __init__(self, max_fail_count: int = 100) -> None:
        super().__init__()
        if max_fail_count < 1:
            raise ValueError(f"max_fail_count is at least 1, not {max_fail_count}")
        self.max_fail_count = max_fail_count
        self._sampler: Sampler | None = None

    def _begin(self, database: Database | None, cost_model: CostModel | None) -> None:
        del database, cost_model  # nothing is learnt
        hash_of = ModuleEquality.create("structural").hash
        self._sampler = Sampler(self.mod, self.space.postprocs, [], hash_of, processes=self.context.num_threads)

    def _end(self) -> None:
        if self._sampler is not None:
            self._sampler.close()

    def _propose(self, count: int) -> list[MeasureCandidate] | None:
        assert self._sampler is not None
        rng = self.context.rng
        found: list[MeasureCandidate] = []
        # Failed ones are tried again together, so that each attempt still has a seed of its own.
        missing = count
        tried = 0
        for _ in range(self.max_fail_count):
            attempts = [
                Attempt(self._designs[rng.below(len(self._designs))], rng.fork() or 1, is_fresh=True)
                for _ in range(missing)
            ]
            outcomes = self._sampler.run(attempts)
            tried += len(attempts)
            found.extend(self._candidate(self._sampler, o) for o in outcomes if o.trace is not None)
            missing = count - len(found)
            # Where nothing succeeds, all places fail together: none gets more attempts than one alone would.
            if not missing or (not found and tried >= self.max_fail_count):
                break
        self.rejected.update(self._sampler.failures)
        self._sampler.failures.clear()
        if not found:
            self._give_up(f"none of {tried} samples of the space could be finished")
            return None
        return found

    def clone(self) -> ReplayTrace:
        """An independent strategy of the same settings."""
        return ReplayTrace(self.max_fail_count)
