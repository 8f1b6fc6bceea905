"""Search strategies: what they propose, when they end, and what becomes of samples that fail."""

from __future__ import annotations

import os

import numpy as np
import pytest

from tests.meta_schedule.mock import Matmul, tiles
from tscript import meta_schedule as ms
from tscript.meta_schedule.candidate import MeasureCandidate
from tscript.meta_schedule.cost_model import CostModel
from tscript.meta_schedule.database import MemoryDatabase, TuningRecord
from tscript.meta_schedule.runner import RunnerResult
from tscript.schedule import Schedule
from tscript.support.errors import TuneError

TARGET = "llvm -num-cores 1"


class Wide(CostModel):
    """Says that wider inner tiles are better, once it was told of any candidate."""

    def __init__(self) -> None:
        self.told = 0

    def load(self, path: str) -> None:
        """Nothing to load."""

    def save(self, path: str) -> None:
        """Nothing to save."""

    @property
    def is_trained(self) -> bool:
        return self.told > 0

    def update(self, context, candidates, results) -> None:
        self.told += len(candidates)

    def predict(self, context, candidates):
        return np.array([width(c) for c in candidates], float)


def width(candidate: MeasureCandidate) -> int:
    """The product of the innermost tiles, from the decisions of the trace."""
    product = 1
    for decision in candidate.sch.trace.decisions.values():
        product *= int(decision[-1])
    return product


@ms.derived_object
class Halve(ms.mutator.PyMutator):
    """Draws one tile anew."""

    def apply(self, trace, rand_state):
        rng = np.random.default_rng(rand_state)
        insts = [i for i, d in trace.decisions.items() if d is not None]
        inst = insts[rng.integers(len(insts))]
        whole = int(np.prod([int(d) for d in trace.decisions[inst]]))
        fits = [n for n in range(1, 17) if whole % n == 0]
        inner = int(rng.choice(fits))
        return trace.with_decision(inst, [whole // inner, inner], remove_postproc=True)


def context(space, strategy, seed=1, threads=1) -> ms.TuneContext:
    if callable(space):
        space = ms.space_generator.ScheduleFn(space, sch_rules=[], postprocs=[], mutator_probs={})
    return ms.TuneContext(
        Matmul, target=TARGET, space_generator=space, search_strategy=strategy, rand_state=seed, num_threads=threads
    )


def batches(ctx: ms.TuneContext, model: CostModel | None = None, trials=64, per_iter=64, database=None) -> list[list]:
    """All batches of a search in which every candidate takes a second."""
    ctx.pre_tuning(trials, per_iter, database=database, cost_model=model)
    found = []
    while (batch := ctx.generate_measure_candidates()) is not None:
        results = [RunnerResult([1.0], None) for _ in batch]
        if model is not None and batch:
            model.update(ctx, batch, results)
        ctx.notify_runner_results(batch, results)
        found.append(batch)
    ctx.post_tuning()
    return found


def few(sch: Schedule) -> None:
    i, _, _ = sch.get_loops(sch.get_block("C", "main"))
    sch.split(i, sch.sample_perfect_tile(i, n=2))


@pytest.mark.parametrize("strategy", ["evolutionary", "replay-trace", "replay-func"])
def test_the_order_of_calls_is_held(strategy):
    ctx = context(tiles, strategy)
    with pytest.raises(TuneError, match="call pre_tuning first"):
        ctx.generate_measure_candidates()
    ctx.pre_tuning(4)
    with pytest.raises(TuneError, match="a search is under way"):
        ctx.pre_tuning(4)
    ctx.post_tuning()
    ctx.pre_tuning(0)
    assert ctx.generate_measure_candidates() is None


@pytest.mark.parametrize("strategy", ["replay-trace", "replay-func"])
def test_replays_fill_every_batch(strategy):
    assert [len(b) for b in batches(context(tiles, strategy), trials=20, per_iter=8)] == [8, 8, 4]


def test_a_search_that_learns_begins_with_a_small_batch():
    sizes = [len(b) for b in batches(context(tiles, ms.search_strategy.EvolutionarySearch(population_size=64)), Wide())]
    assert sizes[0] == 16
    assert sum(sizes) == 64


def test_a_model_that_never_learns_is_not_waited_for():
    assert [len(b) for b in batches(context(tiles, "evolutionary"), ms.cost_model.RandomModel())] == [64]


def test_nothing_is_measured_twice_and_small_spaces_end():
    ctx = context(few, "evolutionary")
    found = batches(ctx, ms.cost_model.RandomModel())
    assert sum(map(len, found)) == 5  # 32 = 32x1, 16x2, 8x4, 4x8, 2x16
    assert len(found) <= 2
    assert "the space is exhausted" in ctx.search_strategy.ending


def test_mutations_follow_the_model():
    strategy = ms.search_strategy.EvolutionarySearch(population_size=256, eps_greedy=0)
    space = ms.space_generator.ScheduleFn(tiles, sch_rules=[], postprocs=[], mutator_probs={Halve(): 1.0})
    first, second, *_ = batches(context(space, strategy), Wide(), trials=32)
    assert np.mean([width(c) for c in second]) > 1.5 * np.mean([width(c) for c in first])


def test_a_part_of_each_batch_is_random():
    strategy = ms.search_strategy.EvolutionarySearch(population_size=256, eps_greedy=1.0)
    first, second, *_ = batches(context(tiles, strategy), Wide(), trials=32)
    greedy = ms.search_strategy.EvolutionarySearch(population_size=256, eps_greedy=0.0)
    same, best, *_ = batches(context(tiles, greedy), Wide(), trials=32)
    assert [str(c.sch.mod) for c in first] == [str(c.sch.mod) for c in same]
    assert np.mean([width(c) for c in best]) > np.mean([width(c) for c in second])


def test_what_a_database_knows_is_not_measured_again():
    database = MemoryDatabase()
    ctx = context(few, "evolutionary")
    workload = database.commit_workload(ctx.mod)
    for c in batches(ctx, ms.cost_model.RandomModel(), trials=3)[0]:
        record = TuningRecord(c.sch.trace, workload, [1.0], ctx.target, c.args_info, program=c.program)
        database.commit_tuning_record(record)
    again = batches(context(few, "evolutionary", seed=9), ms.cost_model.RandomModel(), database=database)
    assert sum(map(len, again)) == 2
    other = ms.TuneContext(
        Matmul,
        target="llvm -num-cores 2",
        space_generator=ms.space_generator.ScheduleFn(few, [], [], {}),
        search_strategy="evolutionary",
        rand_state=9,
    )
    assert sum(map(len, batches(other, ms.cost_model.RandomModel(), database=database))) == 5


def test_a_record_that_no_longer_replays_is_no_parent():
    database = MemoryDatabase()
    ctx = context(tiles, ms.search_strategy.EvolutionarySearch(population_size=64))
    workload = database.commit_workload(ctx.mod)
    stale = Schedule(Matmul.with_attr("x", 1))
    stale.get_block("C", "main")
    trace = stale.trace.as_json()
    trace[0][0][2] = ["gone", "main"]
    bad = TuningRecord(type(stale.trace).from_json(trace), workload, [1e-9], ctx.target)
    database.commit_tuning_record(bad)
    model = Wide()
    model.told = 1
    assert sum(map(len, batches(ctx, model, trials=8, database=database))) == 8


@ms.derived_object
class Refuse(ms.postproc.PyPostproc):
    """Refuses everything."""

    def apply(self, sch):
        return False


@pytest.mark.parametrize("strategy", ["evolutionary", "replay-trace", "replay-func"])
def test_a_space_of_refused_samples_ends_with_the_reasons(strategy):
    space = ms.space_generator.ScheduleFn(tiles, sch_rules=[], postprocs=[Refuse()], mutator_probs={})
    ctx = context(space, strategy)
    assert batches(ctx, ms.cost_model.RandomModel()) == []
    assert "could be finished" in ctx.search_strategy.ending
    assert "x Refuse rejected it" in ctx.search_strategy.ending


@pytest.mark.parametrize("strategy", ["evolutionary", "replay-trace"])
def test_a_sample_that_fails_costs_itself(strategy):
    ctx = context(tiles, strategy)
    ctx.space_generator.postprocs = [SometimesRaise()]
    found = batches(ctx, ms.cost_model.RandomModel(), trials=16, per_iter=8)
    assert [len(b) for b in found] == [8, 8]
    assert ctx.search_strategy.rejected["ValueError: i is split too finely"] > 0


@ms.derived_object
class SometimesRaise(ms.postproc.PyPostproc):
    """Fails for some samples."""

    def apply(self, sch):
        if int(next(iter(sch.trace.decisions.values()))[-1]) > 4:
            raise ValueError("i is split too finely")
        return True


@ms.derived_object
class SometimesDie(ms.postproc.PyPostproc):
    """Takes the process down for one sample of many."""

    def __init__(self, owner: int) -> None:
        self.owner = owner

    def apply(self, sch):
        decisions = [int(d[-1]) for d in sch.trace.decisions.values()]
        if decisions == [16, 16, 16] and os.getpid() != self.owner:
            os._exit(3)
        return True


def test_a_process_that_dies_costs_its_part_only():
    ctx = context(tiles, "replay-trace", threads=2)
    ctx.space_generator.postprocs = [SometimesDie(os.getpid())]
    assert sum(map(len, batches(ctx, trials=256))) == 256
    assert any("died" in reason for reason in ctx.search_strategy.rejected)


def test_settings_are_checked():
    for bad in ({"eps_greedy": 1.5}, {"population_size": 0}, {"genetic_mutate_prob": -1}, {"max_fail_count": 0}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            ms.search_strategy.EvolutionarySearch(**bad)
