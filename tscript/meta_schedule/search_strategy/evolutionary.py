"""Evolutionary search: the best schedules known, changed a little, judged by a cost model before they are measured."""

from __future__ import annotations

import heapq
import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tscript.meta_schedule.candidate import MeasureCandidate
from tscript.meta_schedule.cost_model.cost_model import CostModel
from tscript.meta_schedule.cost_model.random_model import RandomModel
from tscript.meta_schedule.database.database import Database, Workload
from tscript.meta_schedule.database.equality import ModuleEquality
from tscript.meta_schedule.database.memory import MemoryDatabase
from tscript.meta_schedule.profiler import Profiler
from tscript.meta_schedule.search_strategy.base import BatchedSearch
from tscript.meta_schedule.search_strategy.sampler import Attempt, Outcome, Sampler
from tscript.schedule.trace import Trace

_EMPTY_BATCHES = 5
_PER_PLACE = 5
"""Members of the population for each place in a batch: of more, a model of few samples does not choose better."""
_FULL_POPULATION = 256
"""From this size on, a population lives for all generations; a smaller one, of a small batch, for fewer."""
_FIRST_BATCH = 16
"""A model that has learnt nothing learns from few candidates before it has a say in the others."""
_EXHAUSTED = 128
"""Samples in a row that were all measured before: so many say that there is nothing else."""


@dataclass
class _Member:
    """A finished schedule of the population: its whole trace, the hash of its program."""

    outcome: Outcome
    candidate: MeasureCandidate

    @property
    def trace(self) -> Trace:
        assert self.outcome.trace is not None
        return self.outcome.trace

    @property
    def shash(self) -> int:
        return self.outcome.shash


class EvolutionarySearch(BatchedSearch):
    """Evolves a population of schedules towards those that the cost model expects to be fast, and measures the best.

    Batches grow with what is known: the first is small, so that the model has a say early; later ones are up to half of
    what was measured, and `num_trials_per_iter` at most. The population is five times the batch, and `population_size`
    at most; one of less than 256 lives for fewer generations. What the database holds already for the program and
    target is not measured again, and the search ends when samples give nothing else.

    A population starts from the best records of the database (`init_measured_ratio` of `population_size`) and from new
    samples of the space, at least `init_min_unmeasured` of them within `max_fail_count` rounds that give none. Each of
    `genetic_num_iters` generations changes members, chosen by score, with the mutators of the space (with probability
    `genetic_mutate_prob`; up to `genetic_max_fail_count` further attempts each). `eps_greedy` of each batch are random
    samples instead. A cost model that has learnt nothing yet cannot judge, so until it has, batches are random
    samples; half of the very first are the designs, in their order, as the rules decided them.

    Raises ValueError for a ratio or probability outside of [0, 1] and for counts that are too small.
    """

    def __init__(
        self,
        *,
        population_size: int = 512,
        init_measured_ratio: float = 0.2,
        init_min_unmeasured: int = 50,
        max_fail_count: int = 5,
        genetic_num_iters: int = 4,
        genetic_mutate_prob: float = 0.85,
        genetic_max_fail_count: int = 10,
        eps_greedy: float = 0.05,
    ) -> None:
        super().__init__()
        ratios = {
            "init_measured_ratio": init_measured_ratio,
            "genetic_mutate_prob": genetic_mutate_prob,
            "eps_greedy": eps_greedy,
        }
        for name, value in ratios.items():
            if not 0 <= value <= 1:
                raise ValueError(f"{name} is between 0 and 1, not {value}")
        counts = {
            "population_size": (population_size, 1),
            "init_min_unmeasured": (init_min_unmeasured, 0),
            "max_fail_count": (max_fail_count, 1),
            "genetic_num_iters": (genetic_num_iters, 0),
            "genetic_max_fail_count": (genetic_max_fail_count, 0),
        }
        for name, (value, least) in counts.items():
            if value < least:
                raise ValueError(f"{name} is at least {least}, not {value}")
        self.population_size = population_size
        self.init_measured_ratio = init_measured_ratio
        self.init_min_unmeasured = init_min_unmeasured
        self.max_fail_count = max_fail_count
        self.genetic_num_iters = genetic_num_iters
        self.genetic_mutate_prob = genetic_mutate_prob
        self.genetic_max_fail_count = genetic_max_fail_count
        self.eps_greedy = eps_greedy
        self._measured: set[int] = set()
        self._empty = 0
        self._stale = 0

    def _begin(self, database: Database | None, cost_model: CostModel | None) -> None:
        self._database = MemoryDatabase() if database is None else database
        self._model = RandomModel() if cost_model is None else cost_model
        equality: ModuleEquality = getattr(self._database, "equality", None) or ModuleEquality.create("structural")
        self._workload: Workload = self._database.commit_workload(self.mod)
        self._mutators = list(self.space.mutator_probs)
        self._weights = [self.space.mutator_probs[m] for m in self._mutators]
        self._sampler = Sampler(
            self.mod,
            self.space.postprocs,
            self._mutators,
            equality.hash,
            extract=self._model.extraction(self.context),
            processes=self.context.num_threads,
        )
        self._measured = self._known_programs()
        self._finished: dict[int, Outcome] = {}
        self._empty = self._stale = 0

    def _known_programs(self) -> set[int]:
        """Hashes of what was measured before, by this search or an earlier one."""
        target = self.context.target
        return {
            r.program
            for r in self._database.get_all_tuning_records()
            if r.program is not None and r.workload is self._workload and (target is None or r.target == target)
        }

    def _end(self) -> None:
        self._sampler.close()

    # -- a batch ----------------------------------------------------------------------------------

    def _propose(self, count: int) -> list[MeasureCandidate] | None:
        log = self.context.logger
        log.info("Generating candidates......")
        if self._stale >= _EXHAUSTED:
            self._give_up(f"the space is exhausted: the last {self._stale} samples gave only what was measured already")
            return None
        if not isinstance(self._model, RandomModel):
            count = min(count, max(_FIRST_BATCH, len(self._measured) // 2))
        if not self._model.is_trained:
            return self._propose_samples(count)
        population = min(self.population_size, _PER_PLACE * count)
        with Profiler.timeit("EvoSearch/PickBestFromDatabase"):
            measured = self._best_measured(int(population * self.init_measured_ratio))
        log.info("Picked top %d candidate(s) from database", len(measured))
        with Profiler.timeit("EvoSearch/SampleInitPopulation"):
            fresh = population - len(measured)
            unmeasured = self._sample(fresh, min(self.init_min_unmeasured, fresh // 2))
        if unmeasured is None:
            self._give_up("Cannot sample enough initial population, evolutionary search failed.")
            return None
        log.info("Sampled %d candidate(s)", len(unmeasured))
        with Profiler.timeit("EvoSearch/Evolve"):
            bests = self._evolve([*measured, *unmeasured], count)
        log.info("Got %d candidate(s) with evolutionary search", len(bests))
        with Profiler.timeit("EvoSearch/PickWithEpsGreedy"):
            picks = self._pick(unmeasured, bests, count)
        return self._sent(picks)

    def _propose_samples(self, count: int) -> list[MeasureCandidate] | None:
        """New samples alone: a model that has learnt nothing would only shuffle them."""
        with Profiler.timeit("EvoSearch/SampleInitPopulation"):
            picks = self._pick([], self._as_decided(), count // 2)
            for k in range(self.max_fail_count):
                missing = count - len(picks)
                # What a first round does not fill may be exhausted: enough samples to tell are drawn then.
                sampled = self._sample(max(2 * missing, _EXHAUSTED // 2 if k else 0), least=1)
                if sampled is None:
                    break
                picks += self._pick(sampled, [], count - len(picks))
                if len(picks) == count or self._stale >= _EXHAUSTED:
                    break
        if not picks and not self._measured:
            self._give_up(f"none of {self.rejected.total()} samples of the space could be finished")
            return None
        return self._sent(picks)

    def _as_decided(self) -> list[_Member]:
        """The designs with the decisions that their rules took, which for those of a library are known to be good."""
        if self._measured:
            return []
        outcomes = self._sampler.run([Attempt(d, k + 1) for k, d in enumerate(self._designs)])
        return [self._member(o) for o in outcomes if o.trace is not None]

    def _sent(self, picks: list[_Member]) -> list[MeasureCandidate] | None:
        self.context.logger.info("Sending %d candidates(s) for measurement", len(picks))
        if picks:
            self._finished.update((m.shash, m.outcome) for m in picks)
            return [m.candidate for m in picks]
        self._empty += 1
        if self._stale >= _EXHAUSTED or self._empty >= _EMPTY_BATCHES:
            self._give_up("the space is exhausted: nothing was found that was not measured already")
            return None
        return []

    def _member(self, outcome: Outcome) -> _Member:
        return _Member(outcome, self._candidate(self._sampler, outcome))

    def _best_measured(self, count: int) -> list[_Member]:
        records = self._database.get_top_k(self._workload, count, self.context.target)
        # What this search sent is finished already. An earlier record whose rules have changed since may not replay; it
        # is no parent then, and nothing else.
        known = [self._finished.get(r.program) if r.program is not None else None for r in records]
        attempts = [Attempt(r.trace, 1) for r, o in zip(records, known, strict=True) if o is None]
        replayed = iter(self._sampler.run(attempts))
        outcomes = [next(replayed) if o is None else o for o in known]
        members = [self._member(o) for o in outcomes if o.trace is not None]
        self._measured.update(m.shash for m in members)
        return members

    def _sample(self, count: int, least: int) -> list[_Member] | None:
        found: list[_Member] = []
        failures = 0
        rng = self.context.rng
        new: set[int] = set()
        while count and failures < self.max_fail_count:
            attempts = [
                Attempt(self._designs[rng.below(len(self._designs))], rng.fork() or 1, is_fresh=True)
                for _ in range(count)
            ]
            made = [self._member(o) for o in self._sampler.run(attempts) if o.trace is not None]
            found.extend(made)
            failures += not made
            for m in made:
                self._stale = self._stale + 1 if m.shash in self._measured or m.shash in new else 0
                new.add(m.shash)
            if len(found) >= least:
                break
        self._log_failures("Sample-Init-Population summary:")
        return found if len(found) >= least else None

    def _log_failures(self, title: str) -> None:
        lines = [title, *(f"{reason}: {n} failure(s)" for reason, n in self._sampler.failures.most_common())]
        self.context.logger.info("\n".join(lines))
        self.rejected.update(self._sampler.failures)
        self._sampler.failures.clear()

    # -- evolution --------------------------------------------------------------------------------

    def _evolve(self, population: list[_Member], count: int) -> list[_Member]:
        seen = set(self._measured)
        heap: list[tuple[float, int, _Member]] = []
        order = 0
        size = len(population)
        generations = -(-self.genetic_num_iters * min(size, _FULL_POPULATION) // _FULL_POPULATION)
        for i in range(generations + 1):
            with Profiler.timeit("EvoSearch/Evolve/PredictNormalizedScore"):
                scores = np.maximum(0.0, self._model.predict(self.context, [m.candidate for m in population]))
            for score, m in zip(scores.tolist(), population, strict=True):
                if m.shash not in seen:
                    seen.add(m.shash)
                    order -= 1  # of equal scores, the first met stays
                    item = (score, order, m)
                    if len(heap) < count:
                        heapq.heappush(heap, item)
                    else:
                        heapq.heappushpop(heap, item)
            if i == generations:
                break
            with Profiler.timeit("EvoSearch/Evolve/Mutation"):
                population = self._next_generation(population, scores, size)
            self._log_failures(f"Evolve iter #{i} done. Summary:")
        best = sorted(heap, key=lambda item: item[:2], reverse=True)
        self._log_scores([score for score, _, _ in best])
        return [m for _, _, m in best]

    def _next_generation(self, population: list[_Member], scores: NDArray[np.float64], size: int) -> list[_Member]:
        """As many children; what no attempt changes is taken over as it is."""
        rng = self.context.rng
        weights = scores.tolist() if scores.sum() > 0 else [1.0] * len(population)
        total = sum(self._weights)
        p = self.genetic_mutate_prob if total > 0 else 0.0
        actions = [1 - p, *(p * w / total for w in self._weights)] if total > 0 else [1.0]
        children: list[_Member | None] = [None] * size
        copied: set[int] = set()
        last = [0] * size
        for _ in range(self.genetic_max_fail_count + 1):
            places: list[int] = []
            attempts: list[Attempt] = []
            for k in range(size):
                if children[k] is not None:
                    continue
                parent = last[k] = rng.choice(weights)
                action = rng.choice(actions)
                seed = rng.fork() or 1
                if action:
                    places.append(k)
                    attempts.append(Attempt(population[parent].trace, seed, mutator=action - 1))
                elif parent not in copied:
                    copied.add(parent)
                    children[k] = population[parent]
            for k, outcome in zip(places, self._sampler.run(attempts), strict=True):
                if outcome.trace is not None:
                    children[k] = self._member(outcome)
            if all(c is not None for c in children):
                break
        return [population[last[k]] if c is None else c for k, c in enumerate(children)]

    def _log_scores(self, scores: list[float]) -> None:
        lines = [f"Scores of the best {len(scores)} candidates:"]
        for i in range(0, len(scores), 16):
            row = scores[i : i + 16]
            lines.append(f"[{i + 1} : {i + len(row)}]:\t" + "  ".join(f"{s:.4f}" for s in row))
        self.context.logger.info("\n".join(lines))

    # -- choice -----------------------------------------------------------------------------------

    def _pick(self, unmeasured: list[_Member], bests: list[_Member], count: int) -> list[_Member]:
        """Mostly of the best, the rest at random; nothing twice."""
        rng = self.context.rng
        shuffled = list(unmeasured)
        for k in range(len(shuffled) - 1, 0, -1):
            other = rng.below(k + 1)
            shuffled[k], shuffled[other] = shuffled[other], shuffled[k]
        pools = (iter(bests), iter(shuffled))
        randoms = int(count * self.eps_greedy)
        picks: list[_Member] = []
        for k in range(count):
            first, second = pools if k < count - randoms else pools[::-1]
            for m in itertools.chain(first, second):
                if m.shash not in self._measured:
                    self._measured.add(m.shash)
                    picks.append(m)
                    break
        return picks

    def clone(self) -> EvolutionarySearch:
        """An independent strategy of the same settings."""
        return EvolutionarySearch(
            population_size=self.population_size,
            init_measured_ratio=self.init_measured_ratio,
            init_min_unmeasured=self.init_min_unmeasured,
            max_fail_count=self.max_fail_count,
            genetic_num_iters=self.genetic_num_iters,
            genetic_mutate_prob=self.genetic_mutate_prob,
            genetic_max_fail_count=self.genetic_max_fail_count,
            eps_greedy=self.eps_greedy,
        )
