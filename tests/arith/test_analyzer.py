"""What an analyzer knows, and for how long."""

from __future__ import annotations

import random

import pytest

from tscript.arith import Analyzer, Bound, CompareResult, ConstIntBound, ModularSet, ProofStrength
from tscript.ir import construct as make
from tscript.ir.expr import IntImm, Range, SizeVar, Var
from tscript.testing.random_index import index_value, random_condition, random_index

X, Y, Z, N, M = (Var(n) for n in "xyznm")
VARS = (X, Y, Z)


@pytest.mark.parametrize("part", range(10))
def test_simplification_under_a_condition_is_right_where_it_holds(part):
    for seed in range(part * 60, part * 60 + 60):
        rng = random.Random(seed)
        cond, e = random_condition(rng, VARS, 3), random_index(rng, VARS, 3)
        other = random_condition(rng, VARS, 2)
        a = Analyzer()
        ranges = {}
        for v in VARS:
            low = rng.choice([0, 0, rng.randint(-6, 3)])
            ranges[v] = (low, low + rng.choice([1, 3, 7, 15]))
            if rng.random() < 0.7:
                a.bind(v, Range.from_min_extent(low, ranges[v][1] - low + 1))
        with a.constraint_scope(cond):
            new, proved = a.simplify(e), a.can_prove(other, rng.choice([0, 1]))
            bound, residue = a.const_int_bound(e), a.modular_set(e)
        for _ in range(40):
            env = {v: rng.randint(*ranges[v]) for v in VARS}
            if index_value(cond, env):
                value = index_value(e, env)
                case = f"seed {seed}: if {cond}: {e} -> {new} at {env}"
                assert index_value(new, env) == value, case
                assert not proved or index_value(other, env), f"seed {seed}: if {cond} then {other} at {env}"
                assert bound.min_value <= value <= bound.max_value and value in residue, case


@pytest.mark.parametrize("part", range(5))
def test_symbolic_ranges_prove_only_what_is_true(part):
    for seed in range(part * 60, part * 60 + 60):
        rng = random.Random(seed)
        a = Analyzer()
        extent = rng.choice([N, N * 2, N + 1, (N + 3) // 4, make.min_(N, 5), make.max_(N, 1)])
        a.bind(X, Range(0, extent))
        width = rng.randint(1, 5)
        a.bind(Y, Range.from_min_extent(X, width))
        claim = random_condition(rng, (X, Y, N), 2)
        e = random_index(rng, (X, Y, N), 3)
        proved, new = a.can_prove(claim, ProofStrength.SYMBOLIC_BOUND), a.simplify(e)
        for _ in range(30):
            n = rng.randint(1, 9)
            x = rng.randrange(max(index_value(extent, {N: n}), 1))
            env = {N: n, X: x, Y: x + rng.randrange(width)}
            assert not proved or index_value(claim, env), f"seed {seed}: {claim} at {env}"
            assert index_value(new, env) == index_value(e, env), f"seed {seed}: {e} -> {new} at {env}"


def test_binding_replaces_and_ranges_of_one_value_are_that_value():
    a = Analyzer()
    a.bind(X, Y + 1)
    assert a.simplify(X * 2) is Y * 2 + 2
    a.bind(X, Range.from_min_extent(N, 1))
    assert a.simplify(X + 1) is N + 1
    a.bind(X, Range(0, 4))
    assert a.const_int_bound(X) == ConstIntBound(0, 3)
    with pytest.raises(ValueError, match="bound already"):
        a.bind(X, 3, allow_override=False)


def test_constraints_end_with_their_scope():
    a = Analyzer()
    with a.constraint_scope(X < 4):
        with a.constraint_scope(X >= 0):
            assert a.simplify(X // 4).value == 0
        assert not isinstance(a.simplify(X // 4), IntImm)
        assert a.can_prove(X < 4) and a.can_prove(X <= 7)
    assert not a.can_prove(X < 4)


def test_remainders_are_facts():
    a = Analyzer()
    with a.constraint_scope(X % 8 == 4):
        assert a.modular_set(X) == ModularSet(8, 4)
        assert a.simplify((X + 4) % 8).value == 0
        assert a.can_prove(X != 3)
    a.update(X, ModularSet(4, 0))
    assert a.simplify(X % 4).value == 0 and a.modular_set(X * 2 + 1) == ModularSet(8, 1)


def test_symbolic_bounds_prove_guards():
    a = Analyzer()
    a.bind(X, Range(0, N))
    a.bind(Y, Range(0, M))
    assert a.can_prove(X < N) and a.can_prove(X + 1 <= N) and a.can_prove(N >= 1)
    assert a.simplify(X // N).value == 0 and a.simplify(X % N) is X
    assert a.simplify((Y * N + X) // N) is Y and a.simplify((Y * N + X) % N) is X
    assert a.can_prove_equal((Y + 1) * N, Y * N + N) and a.can_prove_equal(N * Y, Y * N)
    assert a.can_prove(X + Y <= N + M - 2, ProofStrength.SYMBOLIC_BOUND)
    assert not a.can_prove(X < N - 1)
    assert a.can_prove_greater_equal(X, 0) and a.can_prove_less(X, N)


def test_sizes_are_not_negative():
    size = SizeVar("s", "int64")
    assert Analyzer().can_prove(size >= 0) and not Analyzer().can_prove(size >= 1)


def test_forks_keep_their_facts_to_themselves():
    a = Analyzer()
    a.bind(X, Range(0, 4))
    b = a.fork()
    b.bind(Y, Range(0, 4))
    assert b.can_prove(X + Y < 7) and not a.can_prove(X + Y < 7)


def test_bounds_can_be_narrowed_and_replaced():
    a = Analyzer()
    a.update(X, ConstIntBound(0, ConstIntBound.POS_INF))
    a.update(X, Bound(None, 9))
    assert a.const_int_bound(X) == ConstIntBound(0, 9)
    a.update(X, ConstIntBound(-3, 3), override=True)
    assert a.const_int_bound(X) == ConstIntBound(-3, 3)


def test_a_small_budget_leaves_expressions_right():
    rng = random.Random(5)
    for _ in range(40):
        e = random_index(rng, VARS, 5)
        new = Analyzer(budget=3).simplify(e)
        for _ in range(10):
            env = {v: rng.randint(-9, 9) for v in VARS}
            assert index_value(new, env) == index_value(e, env)


NORMAL_FORMS = [
    (X + Y * 4, "y * 4 + x"), (X * 2 + Y * 4 + Z, "y * 4 + x * 2 + z"), (7 - X + Y, "y + 7 - x"),
    (X * -2 + Y, "y - x * 2"),
    (3 + X, "x + 3"), (X - 3 + 5, "x + 2"), (Y + X // 4 * 4, "x // 4 * 4 + y"), (X * Y + Z, "x * y + z"),
    (Z + X * Y, "z + x * y"), (2 * (X + Y), "x * 2 + y * 2"), ((X + Y) * 2 + X, "x * 3 + y * 2"),
    (X % 4 + Y * 4, "y * 4 + x % 4"), ((N + 4 - 1) // 4, "(n + 3) // 4"), (N * 4 // 4, "n"), (N % 4 + N // 4 * 4, "n"),
    ((N + 3) // 4 * 4, "(n + 3) // 4 * 4"), (X >= 2, "2 <= x"), (X * 2 > 4, "2 < x"), (make.not_(X < 2), "2 <= x"),
    (make.and_(X < 2, Y > 3), "x < 2 and 3 < y"), (1 - X, "1 - x"), (X * -1, "x * -1"), (X // 8 % 4, "x % 32 // 8"),
    (X % 4 + Y, "y + x % 4"), (Y + X // 4, "x // 4 + y"), (X // 4 + Y // 8, "y // 8 + x // 4"),
    (X % 4 + Y % 8, "y % 8 + x % 4"), (Y + X // 8 % 4, "x % 32 // 8 + y"), (Z - Y - X // 4, "z - x // 4 - y"),
    (Z - X % 4 - Y, "z - y - x % 4"), ((X * 4 + Y) // 4, "y // 4 + x"), (X * Y + N // 2, "n // 2 + x * y"),
    (Y + X // 4 < N, "x // 4 + y < n"), (make.min_(Y + X // 4, N), "T.min(x // 4 + y, n)"),
    (X % 4 * 2 + Y * 2 + Z // 4 * 2 + N, "z // 4 * 2 + y * 2 + x % 4 * 2 + n"),
    (X // N + Y + Z // 2, "z // 2 + x // n + y"),
    (N + make.truncdiv(X, 4), "T.Div(x, 4) + n"), (N + make.truncmod(X, 4) + Y % 4, "n + y % 4 + T.truncmod(x, 4)"),
    ((X + 1) * N - X * N, "n"), ((X + 1) * (Y + 1) - X * Y - X, "y + 1"), (X * Y - Y * X + 3, "3"),
    (X * N + Y * N, "x * n + y * n"),
    (X - X // 4 * 4, "x % 4"), (X // 4 // 2, "x // 8"), (make.min_(X + 1, X + 3), "x + 1"),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after"), NORMAL_FORMS, ids=[a for _, a in NORMAL_FORMS])
def test_normal_forms(before, after):
    assert str(Analyzer().simplify(before)) == after


BOUNDED_FORMS = [
    ((Y * 4 + X) // 4, "y"), ((Y * 4 + X) % 4, "x"), (X // 8, "0"), (Y % 8, "y"), (make.min_(X, 7), "x"),
    (Y * 4 + X < 16, "y < 4"), (Y * 4 + X < 18, "y * 4 + x < 18"), (Y * 4 + X < 32, "T.bool(True)"),
    ((Y * 8 + X * 2) // 16, "y // 2"), ((Y * 8 + X * 2) % 16, "y % 2 * 8 + x * 2"),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after"), BOUNDED_FORMS, ids=[str(b) for b, _ in BOUNDED_FORMS])
def test_forms_with_ranges(before, after):
    a = Analyzer()
    a.bind(X, Range(0, 4))
    a.bind(Y, Range(0, 8))
    assert str(a.simplify(before)) == after


@pytest.mark.parametrize("seed", range(60))
def test_comparisons_of_two_numbers_say_what_holds(seed):
    rng = random.Random(seed)
    a = Analyzer()
    low, count = rng.randint(-3, 3), rng.randint(1, 6)
    a.bind(X, Range.from_min_extent(low, count))
    a.bind(Y, Range(0, N))
    left, right = random_index(rng, (X, Y), 2), random_index(rng, (X, Y, N), 1)
    found = a.try_compare(left, right, rng.random() < 0.5)
    for _ in range(30):
        n = rng.randint(1, 9)
        env = {N: n, X: low + rng.randrange(count), Y: rng.randrange(n)}
        x, y = index_value(left, env), index_value(right, env)
        holds = {
            CompareResult.EQ: x == y, CompareResult.LT: x < y, CompareResult.LE: x <= y, CompareResult.GT: x > y,
            CompareResult.GE: x >= y, CompareResult.NE: x != y, CompareResult.UNKNOWN: True,
        }  # fmt: skip
        assert holds[found], f"seed {seed}: {left} and {right} at {env}: {found!r}"


def test_numbers_are_compared_as_far_as_is_known():
    a = Analyzer()
    a.bind(X, Range(0, N))
    assert a.try_compare(X, N) == CompareResult.LT and a.try_compare(N, X) == CompareResult.GT
    assert a.try_compare(X + 1, N) == CompareResult.LE and a.try_compare(X, 0) == CompareResult.GE
    assert (
        a.try_compare(X + Y, Y + X) == CompareResult.EQ and a.try_compare(Y * 2, Y * 2 + Z * 4 + 1) == CompareResult.NE
    )
    assert a.try_compare(X, Y) == CompareResult.UNKNOWN


def test_steps_can_be_limited_and_knowledge_asked_for():
    a = Analyzer()
    assert not a.const_int_bound_is_bound(X)
    a.bind(X, Range(0, 4))
    a.bind(Y, Z + 1)
    assert a.const_int_bound_is_bound(X) and a.const_int_bound_is_bound(Y)
    a.set_maximum_rewrite_steps(1000)
    assert a.simplify((Z * 4 + X) // 4) is Z
    with pytest.raises(ValueError, match="at least 1"):
        a.set_maximum_rewrite_steps(0)
