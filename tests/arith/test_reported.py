"""Mistakes reported of simplifiers and bound analyses elsewhere, each as a test of ours."""

from __future__ import annotations

import itertools
import time

import pytest

from tscript.arith import (
    Analyzer,
    Bound,
    ConstIntBound,
    IntSet,
    ProofStrength,
    const_bound,
    deduce_bound,
    detect_clip_bound,
    detect_iter_map,
    detect_linear_equation,
    estimate_region_upper_bound,
    eval_set,
    iter_map_simplify,
    simplify,
    solve_linear_equations,
    solve_linear_inequalities,
)
from tscript.ir import construct as make
from tscript.ir import expr as ex
from tscript.ir import semantics
from tscript.ir.buffer import decl_buffer
from tscript.ir.expr import BufferLoad, IntImm, Range, Var
from tscript.testing.random_index import index_value

X, Y, N = Var("x"), Var("y"), Var("n")


def test_bounds_of_a_remainder_never_cross():
    a = Analyzer()
    a.bind(N, Range(1, 100))
    b = a.const_int_bound((N * 320 + 255) % 256)
    assert b.min_value <= 63 and b.max_value >= 255


def test_guard_of_a_split_of_a_symbolic_product_stays():
    a, o, i = Analyzer(), Var("o"), Var("i")
    n = Var("n")
    extent = n * 48
    a.bind(o, Range(0, (extent + 31) // 32))
    a.bind(i, Range(0, 32))
    assert not a.can_prove(o * 32 + i < extent)


def test_guard_of_a_divisible_split_goes():
    a, o, i, n = Analyzer(), Var("o"), Var("i"), Var("n")
    a.bind(o, Range(0, n * 2))
    a.bind(i, Range(0, 32))
    assert a.can_prove(o * 32 + i < n * 64)


@pytest.mark.parametrize(("outer", "inner"), list(itertools.product([2, 3, 4, 6, 20], [2, 3, 4, 5, 8])))
def test_nested_remainders_fold_only_where_one_divides_the_other(outer, inner):
    e = (X % outer) % inner
    for x in range(-50, 50):
        assert index_value(simplify(e), {X: x}) == index_value(e, {X: x})
    if outer % inner and inner < outer:
        assert simplify(e) is e


def test_reblocking_by_a_smaller_factor_is_right():
    e = ((X % 20) // 2 * 2) % 4
    for x in range(-50, 50):
        assert index_value(simplify(e), {X: x}) == (x % 20 // 2 * 2) % 4


def test_conditions_on_memory_are_no_facts():
    a, flag = Analyzer(), decl_buffer((1,), "int32", "flag")
    loaded = BufferLoad(flag, (IntImm("int32", 0),)) > 0
    with a.constraint_scope(loaded):
        assert not a.can_prove(loaded)
        assert a.simplify(loaded) is a.simplify(BufferLoad(flag, (IntImm("int32", 0),)) > 0)
        assert not isinstance(a.simplify(loaded), IntImm)
    with a.constraint_scope(make.and_(loaded, X < 4)):
        assert a.can_prove(X < 5) and not a.can_prove(loaded)
    choice = make.if_then_else(loaded, make.if_then_else(loaded, X, Y), Y)
    assert simplify(choice) is choice or isinstance(simplify(choice).args[1], ex.Call)


@pytest.mark.parametrize(("a", "b"), [(a, b) for a in range(-9, 10) for b in (-7, -4, -3, -1, 1, 2, 3, 5, 8)])
def test_all_divisions_agree_with_integers(a, b):
    c = IntImm("int32", b)
    for node in (ex.FloorDiv, ex.FloorMod, ex.Div, ex.Mod):
        expected = semantics.INT_BINARY[node.__name__](a, b)
        assert simplify(node(IntImm("int32", a), c)).value == expected
        assert index_value(simplify(node(X, c)), {X: a}) == expected
        assert index_value(simplify(node(X * 3 + 6, c), {X: Bound(-9, 9)}), {X: a}) == semantics.INT_BINARY[
            node.__name__
        ](a * 3 + 6, b)
    assert int(simplify(make.ceildiv(IntImm("int32", a), c))) == -(-a // b)
    assert index_value(simplify(make.ceildiv(X, c)), {X: a}) == -(-a // b)
    assert index_value(simplify(make.ceildiv(X, Y)), {X: a, Y: b}) == -(-a // b)


def test_truncating_division_of_negatives_is_not_floor_division():
    e = make.truncdiv(X * 48 + 241, 16)
    for x in range(-20, 20):
        assert index_value(simplify(e), {X: x}) == index_value(e, {X: x})
    assert index_value(simplify(e), {X: -10}) == -14
    assert simplify(make.truncdiv(X * 4 + 1, 4), {X: Bound(0, 9)}) is X


def test_large_bounds_prove_nothing_false():
    a, b, c, d = (Var(n) for n in "abcd")
    an = Analyzer()
    for v, (low, high) in zip(
        (a, b, c, d),
        ((-(2**28), 2**28), (-(2**27), 2**28), (-(2**28), 2**27), (-(2**28) * 5 // 4, 2**28 * 5 // 4)),
        strict=True,
    ):
        an.update(v, ConstIntBound(low, high), override=True)
    claim = a * 2 + b * 2 + c * 2 - 1 < d * -1
    assert not an.can_prove(claim) and not isinstance(an.simplify(claim), IntImm)
    bound = const_bound(a * 16 + b * 16, an.context.bounds)
    assert bound.high == 2**33


def test_bounds_are_unlimited_in_both_index_types():
    for dtype in ("int32", "int64"):
        v = Var("v", dtype)
        an = Analyzer()
        an.update(v, ConstIntBound(0, 2**62 if dtype == "int64" else 2**30), override=True)
        assert an.const_int_bound(v * 8).max_value == 8 * (2**62 if dtype == "int64" else 2**30)
        assert not an.can_prove(v * 8 < 2**31 - 1)


def test_constants_that_do_not_fit_are_not_made():
    v = Var("v")
    e = v * 65536 * 65536
    assert simplify(e).dtype is e.dtype
    assert simplify(v * 2**30 + v * 2**30 + v * 2**30).dtype is e.dtype


def test_deep_and_wide_inputs_end_in_time():
    deep = X
    for k in range(3000):
        deep = (deep + k) // 3 if k % 2 else deep * 2 + Y
    assert simplify(deep) is not None
    wide = IntImm("int32", 0)
    for k in range(3000):
        wide = wide + (X + k) // 7 % 5
    assert simplify(wide) is not None
    doubled = X
    for _ in range(80):
        doubled = doubled + doubled
    assert simplify(doubled).dtype is X.dtype
    nested = X
    for k in range(100):
        nested = make.if_then_else(Y + k < nested, nested, k)
    assert simplify(nested) is not None


def sum_of(make_term, count):
    total = X
    for k in range(count):
        total = ex.Add(total, make_term(k))
    return total


def joined(kind, count):
    total = X < Y
    for k in range(count):
        other = ex.Or if kind is ex.And else ex.And
        total = kind(other(total, Var(f"v{k}") < X), Var(f"w{k}") < k)
    return total


def doubled(make_next, count):
    e = X
    for k in range(count):
        e = make_next(e, k)
    return e


HOSTILE = {
    "wide sum": sum_of(lambda k: Var(f"v{k}") * (k % 7 + 1), 4000),
    "wide quotients": sum_of(lambda k: Var(f"v{k}") // (k % 7 + 2), 1500),
    "quotients of one number": sum_of(lambda k: X // (k + 2) % (k % 5 + 2), 1000),
    "products": sum_of(lambda k: Var(f"a{k}") * Var(f"b{k}"), 2000),
    "product of itself": doubled(lambda e, k: ex.Mul(e, e + 1), 60),
    "least of itself": doubled(lambda e, k: ex.Min(ex.Add(e, X), ex.Sub(e, Y)), 100),
    "nested choices": doubled(lambda e, k: ex.Select(k > X, e, e + 1), 200),
    "rounded again": doubled(lambda e, k: (e + e % (k + 2)) // (k + 2), 300),
    "conjunction": doubled(lambda e, k: ex.And(e, Var(f"v{k}") < k) if k else X < Y, 2000),
    "disjunctions of conjunctions": joined(ex.Or, 500),
    "huge factors": doubled(lambda e, k: ex.Mul(e, IntImm("int32", 2**31 - 1 - k)), 400),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_no_question_runs_away(name):
    e, started = HOSTILE[name], time.process_time()
    condition = e if e.dtype.is_bool else e < 17
    ranges, relaxed = {X: Range(0, 8), Y: Range(0, 16)}, {Y: IntSet.interval(0, 9)}
    a = Analyzer()
    a.can_prove(condition, ProofStrength.SYMBOLIC_BOUND)
    with a.constraint_scope(condition):
        a.simplify(X // 4)
    deduce_bound(X, condition, {}, relaxed)
    detect_clip_bound(condition, [X, Y])
    solve_linear_inequalities([condition], [X], {X: Range(0, 9)})
    detect_iter_map([X * 16 + Y], ranges, condition)
    if not e.dtype.is_bool:
        for answer in (
            a.simplify,
            a.rewrite_simplify,
            a.canonical_simplify,
            a.const_int_bound,
            a.modular_set,
            a.int_set,
        ):
            assert answer(e) is not None
        eval_set(e, {X: Range(0, 8), Y: Range(0, N)})
        detect_linear_equation(e, [X, Y])
        solve_linear_equations([make.compare(ex.EQ, e, 17)], [X], {X: Range(0, 9)})
        estimate_region_upper_bound([Range.from_min_extent(e, 1)], ranges)
        iter_map_simplify([e], ranges)
    assert time.process_time() - started < 20


def test_mixed_types_never_appear():
    i, n = Var("i", "int64"), Var("n", "int64")
    an = Analyzer()
    an.bind(i, Range.from_min_extent(IntImm("int64", 0), n))
    for e in ((i * 4 + 3) // 4, i // n, make.min_(i, n), i % 4 + i // 4 * 4, i + 4 - 4):
        assert an.simplify(e).dtype == "int64"
