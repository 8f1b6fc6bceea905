"""Sets hold every value that occurs; exact ones hold no others."""

from __future__ import annotations

import itertools
import random

import pytest

from tscript.arith import (
    IntervalSet,
    IntSet,
    deduce_bound,
    domain_touched,
    estimate_region_lower_bound,
    estimate_region_strict_bound,
    estimate_region_upper_bound,
    eval_set,
    intersect,
    union,
    union_lower_bound,
)
from tscript.ir import construct as make
from tscript.ir import expr as ex
from tscript.ir.buffer import decl_buffer
from tscript.ir.dtype import INT32
from tscript.ir.expr import BufferLoad, IntImm, Range, Var
from tscript.ir.stmt import BufferStore, For, LetStmt
from tscript.testing.random_index import index_value, random_condition, random_index

X, Y, Z, N = Var("x"), Var("y"), Var("z"), Var("n")


def holds(found, value, env):
    if found.is_nothing():
        return False
    low = None if found.min_value is None else index_value(found.min_value, env)
    high = None if found.max_value is None else index_value(found.max_value, env)
    return (low is None or low <= value) and (high is None or value <= high)


@pytest.mark.parametrize("seed", range(100))
def test_sets_hold_all_values(seed):
    rng = random.Random(seed)
    e = random_index(rng, (X, Y, Z), 3)
    bounds = {v: (low := rng.randint(-6, 4), low + rng.randint(0, 8)) for v in (X, Y)}
    sets = {v: IntSet.interval(*b) for v, b in bounds.items()}
    if rng.random() < 0.3:
        v = rng.choice([X, Y])
        sets[v] = rng.choice([IntSet.interval(bounds[v][0], None), IntSet.interval(None, bounds[v][1])])
    found = eval_set(e, sets)
    for _ in range(30):
        env = {X: rng.randint(*bounds[X]), Y: rng.randint(*bounds[Y]), Z: rng.randint(-9, 9)}
        assert holds(found, index_value(e, env), env), f"{e} at {env} not in {found}"


@pytest.mark.parametrize("seed", range(80))
def test_union_and_intersection_are_those_of_sets(seed):
    rng = random.Random(seed)

    def one():
        low = rng.randint(-6, 6)
        return IntSet.interval(*rng.choice([(low, low + rng.randint(-1, 6)), (low, None), (None, low)]))

    a, b = one(), one()
    both, common, within = union([a, b]), intersect([a, b]), union_lower_bound([a, b])
    for value in range(-15, 15):
        in_a, in_b = holds(a, value, {}), holds(b, value, {})
        assert not (in_a or in_b) or holds(both, value, {})
        assert (in_a and in_b) == holds(common, value, {})
        assert not holds(within, value, {}) or in_a or in_b


def test_special_sets():
    assert IntSet.everything().is_everything() and not IntSet.everything().is_nothing()
    assert IntSet.nothing().is_nothing() and union([]).is_nothing() and intersect([]).is_everything()
    assert IntSet.single_point(N).is_single_point()
    dom = IntSet.from_range(Range(2, 6))
    assert (dom.min_value.value, dom.max_value.value) == (2, 5)
    assert dom.as_range().extent.value == 4 and IntSet.everything().as_range() is None
    assert eval_set(X + 1, {X: Range(0, N)}).max_value is N
    assert eval_set(X, {X: IntSet.nothing()}).is_nothing()


def test_symbolic_ends_are_simplified():
    found = eval_set(X * 4 + Y, {X: Range(0, N), Y: Range(0, 4)})
    assert str(found) == "IntervalSet[0, n * 4 - 1]"
    assert eval_set(X // 4, {X: Range(0, N * 4)}).max_value is N - 1
    assert eval_set((X * 8 + Y) % 8, {Y: Range(0, 8)}).max_value.value == 7


def region_cases(rng):
    ranges = {v: Range.from_min_extent(rng.choice([0, 0, 2]), rng.randint(1, 5)) for v in (X, Y)}
    region = []
    for _ in range(rng.randint(1, 2)):
        start = rng.choice([X, Y, X * 4 + Y, X * 2, X + Y, X * rng.randint(1, 4) + Y, X // 2, Y % 3, X * 3 + 1])
        region.append(Range.from_min_extent(start, rng.randint(1, 4)))
    predicate = rng.choice([True, True, X < 3, X * 4 + Y < 10, make.and_(Y >= 1, X < 4)])
    return region, ranges, make.convert(predicate)


@pytest.mark.parametrize("seed", range(100))
def test_region_estimates_lie_within_or_around_what_is_touched(seed):
    rng = random.Random(seed)
    region, ranges, predicate = region_cases(rng)
    touched = set()
    boxes = [range(r.min.value, r.min.value + r.extent.value) for r in ranges.values()]
    for values in itertools.product(*boxes):
        env = dict(zip(ranges, values, strict=True))
        if index_value(predicate, env):
            starts = [index_value(r.min, env) for r in region]
            touched |= set(
                itertools.product(*[range(s, s + r.extent.value) for s, r in zip(starts, region, strict=True)])
            )
    if not touched:
        return
    upper = estimate_region_upper_bound(region, ranges, predicate)
    for point in touched:
        assert all(holds(s, x, {}) for s, x in zip(upper, point, strict=True))
    lower = estimate_region_lower_bound(region, ranges, predicate)
    for k, s in enumerate(lower or []):
        if not s.is_nothing():
            column = {p[k] for p in touched}
            assert set(range(s.min_value.value, s.max_value.value + 1)) <= column
    strict = estimate_region_strict_bound(region, ranges, predicate)
    if strict is not None:
        assert touched == set(itertools.product(*[range(s.min_value.value, s.max_value.value + 1) for s in strict]))


def test_regions_of_tiles_are_exact():
    ranges = {X: Range(0, 4), Y: Range(0, 8)}
    found = estimate_region_strict_bound([Range.from_min_extent(X * 8 + Y, 1), Range.from_min_extent(N, 3)], ranges)
    assert found is not None
    assert [str(s) for s in found] == ["IntervalSet[0, 31]", "IntervalSet[n, n + 2]"]
    assert estimate_region_strict_bound([Range.from_min_extent(X, 1), Range.from_min_extent(X, 1)], ranges) is None


@pytest.mark.parametrize("seed", range(100))
def test_deduced_bounds_make_the_condition_true(seed):
    rng = random.Random(seed)
    if rng.random() < 0.5:
        kind = rng.choice([ex.LE, ex.LT, ex.GE, ex.GT, ex.EQ])
        left = make.add(make.mul(X, rng.choice([-3, -1, 1, 2])), make.mul(Y, rng.randint(-2, 2)))
        cond = kind(
            make.add(make.floordiv(left, rng.choice([1, 2, 4])), make.mul(Z, rng.randint(-1, 1))), make.convert(3)
        )
    else:
        cond = random_condition(rng, (X, Y, Z), 2)
    relaxed = {Y: IntSet.interval(-2, 3)}
    found = deduce_bound(X, cond, {}, relaxed)
    for x, z in itertools.product(range(-12, 13), range(-3, 4)):
        if holds(found, x, {Z: z}):
            for y in range(-2, 4):
                assert index_value(cond, {X: x, Y: y, Z: z}), f"{found} for {cond} at {x, y, z}"


@pytest.mark.parametrize("seed", range(100))
def test_deduced_bounds_of_linear_conditions_leave_nothing_out(seed):
    rng = random.Random(seed)
    left = make.add(make.mul(X, rng.choice([-3, -1, 1, 2])), make.mul(Y, rng.randint(-2, 2)))
    cond = rng.choice([ex.LE, ex.LT, ex.GE, ex.GT])(left, make.convert(rng.randint(-5, 5)))
    found = deduce_bound(X, cond, {}, {Y: IntSet.interval(-2, 3)})
    for x in range(-12, 13):
        if all(index_value(cond, {X: x, Y: y}) for y in range(-2, 4)):
            assert holds(found, x, {})


def test_deduced_bounds_are_symbolic():
    assert str(deduce_bound(X, X * 4 + 3 < N)) == "IntervalSet[-inf, n // 4 - 1]"
    assert str(deduce_bound(X, make.and_(X >= 2, X < N))) == "IntervalSet[2, n - 1]"
    assert deduce_bound(X, X * X < 4).is_nothing()
    assert isinstance(deduce_bound(X, X + Y == N), IntervalSet)


def test_touched_domain_of_a_loop_nest():
    a, b = decl_buffer((64, 64), "float32", "A"), decl_buffer((64,), "float32", "B")
    i, j = Var("i"), Var("j")
    store = BufferStore(b, BufferLoad(a, (i, j * 2 + 1)), (i * 4 + j,))
    inner = For(j, IntImm(INT32, 0), IntImm(INT32, 4), "serial", store)
    nest = For(i, IntImm(INT32, 1), IntImm(INT32, 8), "serial", inner)
    (one,) = domain_touched(nest, b)
    assert (one.min.value, one.extent.value) == (4, 32)
    rows, columns = domain_touched(nest, a)
    assert (rows.min.value, rows.extent.value, columns.min.value, columns.extent.value) == (1, 8, 1, 7)
    assert domain_touched(nest, b, consider_stores=False)[0].extent.value == 0


def test_sets_of_vector_indices():
    lanes, i = Var("v", "int32x4"), Var("i")
    ramp = ex.Ramp(i * 8, IntImm(INT32, 2), 4)
    assert str(eval_set(ramp, {i: Range(0, 3)})) == "IntervalSet[0, 22]"
    assert str(eval_set(ex.Ramp(i, IntImm(INT32, -1), 4), {i: Range(0, 3)})) == "IntervalSet[-3, 2]"
    assert str(eval_set(ex.Broadcast(i + N, 4), {i: Range(0, 3)})) == "IntervalSet[n, n + 2]"
    assert eval_set(ex.Add(ramp, ex.Broadcast(i, 4)), {i: Range(0, 3)}).is_everything()
    assert str(IntSet.vector(ramp)) == "IntervalSet[i * 8, i * 8 + 6]"
    assert IntSet.vector(i).is_single_point() and eval_set(lanes, {i: Range(0, 3)}).is_everything()


@pytest.mark.parametrize("through_let", [False, True])
def test_touched_domain_of_a_vector_index(through_let):
    a = decl_buffer((64,), "float32", "A")
    i, v = Var("i"), Var("v", "int32x4")
    index = ex.Ramp(i * 4, IntImm(INT32, 1), 4)
    value = ex.Broadcast(ex.FloatImm("float32", 0.0), 4)
    body = BufferStore(a, value, (v if through_let else index,))
    if through_let:
        body = LetStmt(v, index, body)
    (found,) = domain_touched(For(i, IntImm(INT32, 1), IntImm(INT32, 3), "serial", body), a)
    assert (found.min.value, found.extent.value) == (4, 12)
