"""Linear forms of index expressions."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as some

from tscript.ir import expr as ex
from tscript.ir.construct import const, simple_sub
from tscript.ir.dtype import INT32
from tscript.ir.expr import IntImm, Var
from tscript.ir.linear import difference, from_linear, linear_form

x, y = Var("x"), Var("y")


def test_terms_collect_their_factors() -> None:
    assert linear_form(x * 3 + (y - x) * 2 + 5) == ({x: 1, y: 2}, 5)
    assert linear_form(x // 2 + x // 2) == ({x // 2: 2}, 0)
    assert linear_form(ex.Sub(x, x)) == ({}, 0)


def test_a_difference_cancels_what_both_sides_share() -> None:
    assert difference(x + y + 4, y + 1) == ({x: 1}, 3)
    assert simple_sub(x + 4, x) is const(4)
    assert simple_sub(x + (y - x), x) is y - x


def test_a_form_is_built_with_positive_terms_first() -> None:
    assert from_linear(({x: -1, y: 2}, -3), INT32) is ex.Sub(ex.Sub(y * 2, x), const(3))
    assert from_linear(({}, 7), INT32) is const(7)
    assert from_linear(({x: -2}, 0), INT32) is ex.Mul(x, const(-2))


def test_a_sum_doubled_many_times_is_expanded_once() -> None:
    e: ex.PrimExpr = x + 1
    for _ in range(200):
        e = ex.Add(e, e)
    assert linear_form(e) == ({x: 2**200}, 2**200)


def test_very_deep_sums_are_expanded() -> None:
    e: ex.PrimExpr = x
    for k in range(20000):
        e = ex.Add(e, IntImm("int32", k % 7))
    assert linear_form(e)[0] == {x: 1}


Tree = some.recursive(
    some.sampled_from(["x", "y", -2, 0, 3]),
    lambda inner: some.tuples(some.sampled_from("+-*"), inner, inner),
    max_leaves=10,
)


def grow(tree: Any) -> ex.PrimExpr:
    if isinstance(tree, tuple):
        op, a, b = tree
        return {"+": ex.Add, "-": ex.Sub, "*": ex.Mul}[op](grow(a), grow(b))
    return {"x": x, "y": y}[tree] if isinstance(tree, str) else const(tree)


def value(tree: Any, env: dict[str, int]) -> int:
    if isinstance(tree, tuple):
        op, a, b = tree
        p, q = value(a, env), value(b, env)
        return p + q if op == "+" else p - q if op == "-" else p * q
    return env[tree] if isinstance(tree, str) else tree


def evaluate(e: ex.PrimExpr, env: dict[str, int]) -> int:
    match e:
        case IntImm():
            return e.value
        case Var():
            return env[e.name]
        case ex.Add():
            return evaluate(e.a, env) + evaluate(e.b, env)
        case ex.Sub():
            return evaluate(e.a, env) - evaluate(e.b, env)
        case ex.Mul():
            return evaluate(e.a, env) * evaluate(e.b, env)
        case _:
            raise AssertionError(type(e))


@given(Tree, some.integers(-5, 5), some.integers(-5, 5))
def test_a_form_has_the_value_of_its_expression(tree: Any, p: int, q: int) -> None:
    env = {"x": p, "y": q}
    terms, constant = linear_form(grow(tree))
    assert sum(c * evaluate(t, env) for t, c in terms.items()) + constant == value(tree, env)
    assert evaluate(from_linear((terms, constant), INT32), env) == value(tree, env)
