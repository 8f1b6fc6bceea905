"""What all strategies keep count of: the trials, and the order of calls."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter

from tscript.ir.function import IRModule
from tscript.meta_schedule.arg_info import ArgInfo
from tscript.meta_schedule.candidate import MeasureCandidate
from tscript.meta_schedule.cost_model.cost_model import CostModel
from tscript.meta_schedule.database.database import Database
from tscript.meta_schedule.runner.runner import RunnerResult
from tscript.meta_schedule.search_strategy.sampler import Outcome, Sampler
from tscript.meta_schedule.search_strategy.search_strategy import SearchStrategy
from tscript.meta_schedule.space_generator.space_generator import SpaceGenerator
from tscript.meta_schedule.tune_context import TuneContext
from tscript.schedule.schedule import Schedule
from tscript.schedule.trace import Trace
from tscript.support.errors import TuneError


class BatchedSearch(SearchStrategy):
    """A strategy that proposes trials `start` up to `end`, of `max_trials` in all.

    `rejected` counts, by reason, the samples that could not become candidates; `ending` says why the search ended
    before all trials were proposed.
    """

    def __init__(self) -> None:
        self._context: TuneContext | None = None
        self._is_tuning = False
        self._start = 0
        self._max_trials = 0
        self._batch = 0
        self._designs: list[Trace] = []
        self._args_info: list[ArgInfo] = []
        self.rejected: Counter[str] = Counter()
        self.ending = ""

    def _initialize_with_tune_context(self, context: TuneContext) -> None:
        if context.mod is None or not isinstance(context.space_generator, SpaceGenerator):
            raise ValueError("a search strategy needs a context with a `mod` and a `space_generator`")
        self._context = context

    @property
    def context(self) -> TuneContext:
        """The context that the strategy works for."""
        if self._context is None:
            raise TuneError("this strategy was not initialised: give it to a TuneContext")
        return self._context

    @property
    def mod(self) -> IRModule:
        """The program that is tuned."""
        assert self.context.mod is not None
        return self.context.mod

    @property
    def space(self) -> SpaceGenerator:
        """The space that is searched."""
        space = self.context.space_generator
        assert isinstance(space, SpaceGenerator)
        return space

    def pre_tuning(
        self,
        max_trials: int,
        num_trials_per_iter: int,
        design_spaces: list[Schedule],
        database: Database | None = None,
        cost_model: CostModel | None = None,
    ) -> None:
        """Begin a search. Raises TuneError when one is under way, ValueError for an empty space or negative counts."""
        if self._is_tuning:
            raise TuneError("a search is under way; call post_tuning before the next pre_tuning")
        if max_trials < 0 or num_trials_per_iter < 1:
            raise ValueError(
                "max_trials is at least 0 and num_trials_per_iter at least 1, "
                f"not {max_trials} and {num_trials_per_iter}"
            )
        if not design_spaces:
            raise ValueError("the design space is empty: the space generator gave no schedule")
        designs: list[Trace] = []
        for sch in design_spaces:
            if sch.trace is None:
                raise ValueError("a schedule of the design space has no trace, so it cannot be replayed")
            designs.append(sch.trace.simplified(remove_postproc=True))
        self._args_info = ArgInfo.from_entry_func(self.mod)
        self._designs = designs
        self._max_trials = max_trials
        self._batch = num_trials_per_iter
        self._start = 0
        self.rejected.clear()
        self.ending = ""
        self._begin(database, cost_model)
        self._is_tuning = True

    def _begin(self, database: Database | None, cost_model: CostModel | None) -> None:
        """Get ready; everything else is set."""

    def _end(self) -> None:
        """Let go of what `_begin` took."""

    def post_tuning(self) -> None:
        """End the search."""
        self._require_tuning()
        self._is_tuning = False
        self._end()

    def _require_tuning(self) -> None:
        if not self._is_tuning:
            raise TuneError("no search is under way; call pre_tuning first")

    def generate_measure_candidates(self) -> list[MeasureCandidate] | None:
        """The next batch, or None when all trials were proposed or nothing new is found."""
        self._require_tuning()
        count = min(self._batch, self._max_trials - self._start)
        return None if count <= 0 else self._propose(count)

    def _give_up(self, why: str) -> None:
        """End the search, and say why."""
        reasons = [f"  {n} x {reason}" for reason, n in self.rejected.most_common(10)]
        self.ending = "\n".join([why, *(["samples were rejected because of:", *reasons] if reasons else [])])
        self.context.logger.warning("%s", self.ending)

    @abstractmethod
    def _propose(self, count: int) -> list[MeasureCandidate] | None:
        """At most `count` candidates."""

    def notify_runner_results(self, measure_candidates: list[MeasureCandidate], results: list[RunnerResult]) -> None:
        """Count what was measured."""
        self._require_tuning()
        self._start += len(results)

    def _candidate(self, sampler: Sampler, outcome: Outcome) -> MeasureCandidate:
        trace = outcome.trace
        assert trace is not None
        candidate = MeasureCandidate(lambda: sampler.schedule(trace), self._args_info, outcome.shash)
        candidate.features.update(outcome.features)
        return candidate
