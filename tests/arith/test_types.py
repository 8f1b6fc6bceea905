"""Integers of all types: unsigned and narrow ones wrap, and constants near the ends of a type stay exact."""

from __future__ import annotations

import random

import pytest

from tscript.arith import Analyzer, IntervalSet, IntSet, eval_set, union
from tscript.ir import construct as make
from tscript.ir import expr as ex
from tscript.ir.expr import IntImm, PrimExpr, Range, Var
from tscript.testing.random_typed import INTEGERS, Undefined, random_typed, random_typed_condition, typed_value


def bounded_variables(rng: random.Random, a: Analyzer, dtype: str) -> dict[Var, tuple[int, int]]:
    """Variables of a type with ranges, some of which the analyzer knows."""
    ranges: dict[Var, tuple[int, int]] = {}
    for name in "xyz":
        v = Var(name, dtype)
        low = 0 if dtype.startswith("u") else rng.choice([0, 0, -8, -3])
        ranges[v] = (low, low + rng.choice([0, 1, 3, 7, 31]))
        if rng.random() < 0.6:
            a.bind(v, Range.from_min_extent(IntImm(dtype, low), IntImm(dtype, ranges[v][1] - low + 1)))
        elif rng.random() < 0.5 and not dtype.startswith("u"):
            ranges[v] = (-40, 40)
    return ranges


def check(seed: int) -> None:
    rng = random.Random(seed)
    dtype, a = rng.choice(INTEGERS), Analyzer()
    ranges = bounded_variables(rng, a, dtype)
    variables = tuple(ranges)
    depth = rng.randint(2, 4)
    e = random_typed(rng, variables, dtype, depth) if rng.random() < 0.6 else random_typed_condition(rng, variables, 3)
    is_number = not e.dtype.is_bool
    new = a.simplify(e)
    assert new.dtype == e.dtype and a.simplify(new) is new
    bound, residue = (a.const_int_bound(e), a.modular_set(e)) if is_number else (None, None)
    values = a.int_set(e) if is_number else None
    proved = not is_number and a.can_prove(e)
    for _ in range(12):
        env = {v: rng.randint(*r) for v, r in ranges.items()}
        try:
            expected = typed_value(e, env)
        except Undefined:
            continue
        case = f"seed {seed}: {e} -> {new} at {[(v.name, x) for v, x in env.items()]}"
        assert typed_value(new, env, unbounded=True) == expected, case
        assert expected or not proved, case
        if bound is not None and residue is not None and values is not None:
            assert bound.min_value <= expected <= bound.max_value and expected in residue, case
            assert within(values, expected, env), f"{case}: not in {values}"


def within(found: IntervalSet, value: int, env: dict[Var, int]) -> bool:
    low = None if found.min_value is None else typed_value(found.min_value, env, unbounded=True)
    high = None if found.max_value is None else typed_value(found.max_value, env, unbounded=True)
    return not found.is_empty and (low is None or low <= value) and (high is None or value <= high)


@pytest.mark.parametrize("part", range(10))
def test_results_are_right_for_integers_of_all_types(part: int) -> None:
    for seed in range(part * 300, part * 300 + 300):
        check(seed)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint32", "uint64", "int16"])
def test_comparisons_of_wrapping_sums_imply_nothing(dtype: str) -> None:
    x, y, one, two = Var("x", dtype), Var("y", dtype), IntImm(dtype, 1), IntImm(dtype, 2)
    for e in (
        ex.And(ex.LT(y + y, x), ex.LT(y, x + x)),
        ex.And(ex.LE(x, y), ex.LE(x, y + one)),
        ex.Or(ex.LT(x, y), ex.LT(x, y + one)),
        ex.And(ex.LT(y, x + one), ex.LT(y, x + two)),
    ):
        assert Analyzer().simplify(e) is e


def test_ends_of_sets_do_not_wrap() -> None:
    x = Var("x", "int64")
    most = IntImm("int64", 2**63 - 1)
    assert eval_set(x + most, {x: IntSet.interval(IntImm("int64", 0), IntImm("int64", 9))}).max_value is None
    assert eval_set(x * most, {x: IntSet.interval(IntImm("int64", -9), IntImm("int64", 1))}).min_value is None
    found = eval_set(most - x, {x: IntSet.interval(IntImm("int64", 1), IntImm("int64", 9))})
    assert isinstance(found.max_value, IntImm) and found.max_value.value == 2**63 - 2
    y = Var("y", "uint8")
    seven, large = IntSet.single_point(IntImm("uint8", 7)), IntSet.single_point(IntImm("uint8", 250))
    both = union([seven, large])
    assert [e.value for e in (both.min_value, both.max_value) if isinstance(e, IntImm)] == [7, 250]
    assert eval_set(ex.Cast("int8", y), {y: IntSet.interval(IntImm("uint8", 0), IntImm("uint8", 200))}).is_everything()
    widened = eval_set(ex.Cast("int16", y), {y: IntSet.interval(IntImm("uint8", 0), IntImm("uint8", 200))})
    assert isinstance(widened.max_value, IntImm) and widened.max_value.value == 200


def test_ranges_up_to_the_end_of_the_type_have_their_last_value() -> None:
    low, count = IntImm("int32", 2**31 - 8), IntImm("int32", 8)
    assert str(IntSet.from_min_extent(low, count)) == "IntervalSet[2147483640, 2147483647]"
    assert IntSet.from_min_extent(low, IntImm("int32", 9)).max_value is None
    assert IntSet.interval(-(2**31), 2**31 - 1).as_range() is None
    n = Var("n")
    assert IntSet.interval(n - (2**31 - 1), n + (2**31 - 1)).as_range() is None
    assert IntSet.from_min_extent(n + (2**31 - 1), n + 9).max_value is None


LARGE: list[PrimExpr] = [
    make.mul(Var("x") * 65536, make.mul(Var("y"), 65536)), Var("x", "int64") - (Var("y", "int64") + -(2**63)),
    ex.Mul(Var("x") * -(2**31), Var("y") * 5), ex.Sub(IntImm("int64", -(2**63)), Var("x", "int64") * (2**62)),
    ex.FloorDiv(ex.Mul(Var("x") * (2**30), IntImm("int32", 2**30)), IntImm("int32", 3)),
    ex.Mul(Var("x"), IntImm("int32", -(2**31))), ex.LT(Var("x") * -(2**31), Var("y") * -(2**31) + 7),
]  # fmt: skip


@pytest.mark.parametrize("e", LARGE, ids=str)
def test_constants_beyond_the_type_never_raise(e: PrimExpr) -> None:
    a = Analyzer()
    for simplified in (a.simplify(e), a.rewrite_simplify(e), a.canonical_simplify(e)):
        assert simplified.dtype == e.dtype
    if not e.dtype.is_bool:
        assert a.int_set(e) is not None and a.const_int_bound(e) is not None and a.modular_set(e) is not None
