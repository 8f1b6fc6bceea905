"""Sampling: what is drawn, what is recorded, and how decisions are repaired."""

from __future__ import annotations

import math
from collections import Counter

import pytest

from tests.schedule.check import check_schedule, rejects
from tests.schedule.test_split import rowsum, scale
from tscript.schedule import Schedule, Trace
from tscript.schedule.primitives.sampling import _draw
from tscript.schedule.rng import LinearCongruential
from tscript.script import tir as T


@T.prim_func
def line(A: T.Buffer((72,), "int32")):
    for i in range(72):
        with T.block("A"):
            v = T.axis.spatial(72, i)
            A[v] = v


def values(sch: Schedule) -> list[int | None]:
    return [None if rv is None else sch.get(rv) for rv in sch.trace.insts[-1].outputs]


def test_a_choice_is_recorded_by_its_position() -> None:
    sch = check_schedule(line, lambda s: s.sample_categorical([4, 8, 16], [0.25, 0.5, 0.25], decision=1))
    assert values(sch) == [8]
    assert str(sch.trace).splitlines()[-1] == (
        "  v0 = sch.sample_categorical(candidates=[4, 8, 16], probs=[0.25, 0.5, 0.25], decision=1)"
    )
    assert sch.trace.as_json() == [[["SampleCategorical", [], [[4, 8, 16], [0.25, 0.5, 0.25]], ["v0"]]], [[0, 1]]]


def test_choices_come_as_often_as_their_weights_say() -> None:
    sch = Schedule(line, seed=1)
    found = Counter(sch.get(sch.sample_categorical([1, 2, 3], [0.2, 0.0, 0.8])) for _ in range(2000))
    assert found[2] == 0 and 300 < found[1] < 500


def test_the_same_seed_draws_the_same() -> None:
    def steps(s: Schedule) -> None:
        (i,) = s.get_loops("A")
        for _ in range(5):
            s.sample_perfect_tile(i, n=3)

    first, second, third = Schedule(line, seed=3), Schedule(line, seed=3), Schedule(line, seed=4)
    for s in (first, second, third):
        steps(s)
    assert str(first.trace) == str(second.trace) != str(third.trace)


def test_tiles_multiply_to_the_extent_within_the_limit() -> None:
    sch = Schedule(line, seed=5)
    (i,) = sch.get_loops("A")
    for n in (2, 3, 4):
        for _ in range(50):
            factors = [sch.get(f) for f in sch.sample_perfect_tile(i, n, max_innermost_factor=6)]
            assert math.prod(factors) == 72 and len(factors) == n and factors[-1] <= 6
    assert [sch.get(f) for f in sch.sample_perfect_tile(i, 1, -1)] == [72]


def test_a_tile_is_recorded_and_used() -> None:
    def steps(s: Schedule) -> None:
        (i,) = s.get_loops("A")
        s.split(i, s.sample_perfect_tile(i, 3, 64, decision=[2, 9, 4]))

    sch = check_schedule(line, steps)
    lines = str(sch.trace).splitlines()
    assert (
        lines[4] == "  v2, v3, v4 = sch.sample_perfect_tile(loop=l1, n=3, max_innermost_factor=64, decision=[2, 9, 4])"
    )
    assert "factors=[v2, v3, v4]" in lines[5]
    assert sch.trace.as_json()[0][2] == ["SamplePerfectTile", ["l1"], [3, 64], ["v2", "v3", "v4"]]
    assert sch.trace.as_json()[1] == [[2, [2, 9, 4]]]


@pytest.mark.parametrize(
    ("decision", "repaired"),
    [
        ([2, 9, 4], [2, 9, 4]),
        ([1, 1, 1], [72, 1, 1]),
        ([9, 9, 8], [1, 9, 8]),
        ([5, 5, 4], [1, 18, 4]),
        ([4, 2, 5], [1, 1, 72]),
        ([4, 2, 0], [1, 1, 72]),
    ],
)
def test_decisions_that_do_not_divide_are_repaired_from_inside(decision: list[int], repaired: list[int]) -> None:
    sch = check_schedule(line, lambda s: s.sample_perfect_tile(s.get_loops("A")[0], 3, 64, decision=decision))
    assert values(sch) == repaired
    assert sch.trace.get_decision(sch.trace.insts[-1]) == repaired


def test_replay_on_another_extent_repairs_the_decision() -> None:
    def steps(s: Schedule) -> None:
        (i,) = s.get_loops("A")
        s.split(i, s.sample_perfect_tile(i, 3, 64, decision=[2, 9, 4]))

    @T.prim_func
    def longer(A: T.Buffer((100,), "int32")):
        for i in range(100):
            with T.block("A"):
                v = T.axis.spatial(100, i)
                A[v] = v

    trace = check_schedule(line, steps).trace
    for replay in (
        lambda s: trace.apply_to_schedule(s, False),
        lambda s: Trace.apply_json_to_schedule(trace.as_json(), s),
    ):
        sch = check_schedule(longer, replay)
        assert "T.grid(1, 25, 4)" in sch.mod.script() and "decision=[1, 25, 4]" in str(sch.trace)


def test_other_decisions_can_be_given_at_replay() -> None:
    def steps(s: Schedule) -> None:
        (i,) = s.get_loops("A")
        s.split(i, s.sample_perfect_tile(i, 2, 64, decision=[18, 4]))

    trace = check_schedule(line, steps).trace
    other = Schedule(line)
    trace.with_decision(trace.insts[2], [8, 9], False).apply_to_schedule(other, False)
    assert "T.grid(8, 9)" in other.mod.script()
    other = Schedule(line)
    trace.apply_to_schedule(other, False, lambda inst, i, a, d: [9, 8] if inst.kind.has_decision else d)
    assert "T.grid(9, 8)" in other.mod.script()


def test_an_extent_that_is_not_known_leaves_the_first_factor_open() -> None:
    def steps(s: Schedule) -> None:
        (i,) = s.get_loops("B")
        factors = s.sample_perfect_tile(i, 3)
        assert factors[0] is None
        s.split(i, factors)

    sch = check_schedule(scale, steps, sizes={"n": 2})
    line = str(sch.trace).splitlines()[4]
    assert line.startswith("  _, v3, v4 = sch.sample_perfect_tile(") and line.endswith("decision=[-1, 1, 1])")
    assert sch.trace.as_json()[0][2][3] == ["_", "v3", "v4"]


@pytest.mark.parametrize("extent", [0, 1])
def test_tiles_of_no_and_one_iteration(extent: int) -> None:
    @T.prim_func
    def f(A: T.Buffer((extent,), "int32")):
        for i in range(extent):
            with T.block("A"):
                v = T.axis.spatial(extent, i)
                A[v] = v

    check_schedule(f, lambda s: s.split(s.get_loops("A")[0], s.sample_perfect_tile(s.get_loops("A")[0], 3)))


def test_partitioned_tiles_keep_their_inner_part() -> None:
    sch = Schedule(line, seed=9)
    (i,) = sch.get_loops("A")
    for position in (0, 1, 2):
        for _ in range(50):
            found = [sch.get(f) for f in sch.sample_partitioned_tile(i, 3, position, 4)]
            assert math.prod(found) == 72 and math.prod(found[position:]) % 4 == 0


@pytest.mark.parametrize(
    ("decision", "kept"), [([2, 9, 4], [2, 9, 4]), ([72, 1, 1], [18, 4, 1]), ([3, 5, 4], [1, 18, 4])]
)
def test_partitioned_decisions_are_repaired(decision: list[int], kept: list[int]) -> None:
    def steps(s: Schedule) -> None:
        s.sample_partitioned_tile(s.get_loops("A")[0], 3, partition_pos=1, innerpart_factor=4, decision=decision)

    sch = check_schedule(line, steps)
    assert values(sch) == kept
    assert str(sch.trace).splitlines()[-1] == (
        "  v2, v3, v4 = sch.sample_partitioned_tile(loop=l1, n=3, partition_pos=1, innerpart_factor=4, "
        f"decision={kept})"
    )
    assert sch.trace.as_json()[0][-1] == ["SamplePartitionedTile", ["l1"], [3, 1, 4], ["v2", "v3", "v4"]]


def test_an_inner_part_that_does_not_divide_leaves_the_first_factor_open() -> None:
    sch = check_schedule(line, lambda s: s.sample_partitioned_tile(s.get_loops("A")[0], 3, 1, 5))
    assert values(sch) == [None, 1, 1] and "decision=[-1, 1, 1]" in str(sch.trace)


def test_all_ways_to_deal_out_prime_factors_are_equally_likely() -> None:
    rng = LinearCongruential(1)
    found = Counter(tuple(_draw(rng, 8, 3)) for _ in range(5000))
    assert len(found) == 10 and min(found.values()) > 400
    assert len({tuple(_draw(rng, 12, 2)) for _ in range(500)}) == 6


def test_requests_that_mean_nothing_are_refused() -> None:
    tile = lambda *a, **k: lambda s: s.sample_perfect_tile(s.get_loops("A")[0], *a, **k)
    part = lambda *a, **k: lambda s: s.sample_partitioned_tile(s.get_loops("A")[0], *a, **k)
    rejects(line, tile(0), "at least one factor", error=ValueError)
    rejects(line, tile(1), "max_innermost_factor must be -1", error=ValueError)
    rejects(line, tile(2, 0), "at least 1, or -1", error=ValueError)
    rejects(line, tile(2, decision=[72]), "has 1 factors, but 2", error=ValueError)
    rejects(line, part(2, 2), "partition_pos is a position from 0 to 1", error=ValueError)
    rejects(line, part(2, 1, 0), "innerpart_factor is at least 1", error=ValueError)
    choice = lambda *a, **k: lambda s: s.sample_categorical(*a, **k)
    rejects(line, choice([1, 2], [1.0]), "there are 1 and 2", error=ValueError)
    rejects(line, choice([], []), "there are 0 and 0", error=ValueError)
    rejects(line, choice([1, 2], [0.0, 0.0]), "not all 0", error=ValueError)
    rejects(line, choice([1, 2], [1.0, -1.0]), "not negative", error=ValueError)
    rejects(line, choice([1, 2], [0.5, 0.5], decision=2), "a position from 0 to 1, not 2", error=ValueError)


def test_samples_that_nothing_uses_are_left_out_of_a_simplified_trace() -> None:
    def steps(s: Schedule) -> None:
        _, k = s.get_loops("sum")
        s.sample_categorical([1, 2], [0.5, 0.5])
        v = s.sample_categorical([2, 3], [0.5, 0.5], decision=0)
        s.split(k, [None, v * 2])

    trace = check_schedule(rowsum, steps).trace.simplified(False)
    assert [i.kind.name for i in trace.insts] == ["GetBlock", "GetLoops", "SampleCategorical", "Split"]
    assert [trace.get_decision(i) for i in trace.insts] == [None, None, 0, None]
