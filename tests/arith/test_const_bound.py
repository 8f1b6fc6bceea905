"""Bounds hold every value the expression takes, whatever the signs."""

from __future__ import annotations

import itertools
import random

import pytest

from tscript.arith import Bound, const_bound, simplify
from tscript.ir import construct as make
from tscript.ir import expr as ex
from tscript.ir import semantics
from tscript.ir.dtype import INT32
from tscript.ir.expr import IntImm, PrimExpr, Var

X, Y = Var("x"), Var("y")


def value(e: PrimExpr, env: dict[Var, int]) -> int:
    """The value of an index expression, computed by Python's own integers."""
    match e:
        case IntImm():
            return e.value
        case ex.Var():
            return env[e]
        case ex.FloorDiv():
            return value(e.a, env) // value(e.b, env)
        case ex.FloorMod():
            return value(e.a, env) % value(e.b, env)
        case ex.CmpExpr():
            return int(semantics.COMPARE[type(e).__name__](value(e.a, env), value(e.b, env)))
        case ex.BinaryExpr():
            return int(semantics.INT_BINARY[type(e).__name__](value(e.a, env), value(e.b, env)))
        case _:
            raise AssertionError(type(e))


def random_index(rng: random.Random, depth: int) -> PrimExpr:
    if depth == 0 or rng.random() < 0.2:
        return rng.choice([X, Y, IntImm(INT32, rng.randint(-9, 9))])
    a = random_index(rng, depth - 1)
    kind = rng.choice([ex.Add, ex.Sub, ex.Mul, ex.FloorDiv, ex.FloorMod, ex.Min, ex.Max])
    if kind in (ex.FloorDiv, ex.FloorMod):
        return kind(a, IntImm(INT32, rng.choice([-7, -3, -1, 1, 2, 3, 4, 8])))
    return kind(a, random_index(rng, depth - 1))


@pytest.mark.parametrize("seed", range(100))
def test_bounds_and_simplification_agree_with_python_integers(seed: int) -> None:
    rng = random.Random(seed)
    e = random_index(rng, 4)
    low, high = rng.randint(-8, 3), rng.randint(0, 6)
    bounds = {X: Bound(low, low + high), Y: Bound(-2, 5)}
    bound, simple = const_bound(e, bounds), simplify(e, bounds)
    compared = make.compare(ex.LT, e, IntImm(INT32, rng.randint(-20, 20)))
    decided = simplify(compared, bounds)
    for x, y in itertools.product(range(low, low + high + 1), range(-2, 6)):
        env = {X: x, Y: y}
        got = value(e, env)
        assert bound.low is None or bound.low <= got
        assert bound.high is None or got <= bound.high
        assert value(simple, env) == got
        assert value(decided, env) == value(compared, env)
    assert simplify(simple, bounds) is simple


def test_nested_mod_is_folded_only_when_it_may() -> None:
    reblocked = ((X % 20) // 2 * 2) % 4
    assert all(value(simplify(reblocked), {X: x}) == value(reblocked, {X: x}) for x in range(-45, 45))
    assert simplify(reblocked) is not X % 4
    assert simplify((X % 6) % 4) is (X % 6) % 4


def test_bounds_are_not_limited_by_a_machine_word() -> None:
    wide = {X: Bound(-(2**28), 2**28), Y: Bound(-(2**28), 2**28)}
    e = X * 16 + Y * 16
    assert const_bound(e, wide) == Bound(-(2**33), 2**33)


def test_a_comparison_that_overflows_int32_is_not_decided_by_the_overflow() -> None:
    a, b, c, d = (Var(name) for name in "abcd")
    wide = dict.fromkeys((a, b, c, d), Bound(-(2**28), 2**28 * 5 // 4))
    compared = make.compare(ex.LT, a * 2 + b * 2 + c * 2 - 1, 0 - d)
    assert not isinstance(simplify(compared, wide), IntImm)


def test_unchanged_expression_is_the_same_object() -> None:
    e = (X * Y + 3) // 5
    assert simplify(e) is e
