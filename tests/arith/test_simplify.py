"""Simplification keeps values, is idempotent, and gives back what is in normal form already."""

from __future__ import annotations

import random

import pytest

from tscript.arith import Analyzer
from tscript.ir.expr import IntImm, Range, Var
from tscript.testing.random_index import index_value, random_condition, random_index

VARS = {dtype: tuple(Var(name, dtype) for name in "xyz") for dtype in ("int32", "int64")}
DTYPES = pytest.mark.parametrize("dtype", VARS)


def environments(rng, ranges, count):
    corners = [{v: rng.choice(r) for v, r in ranges.items()} for _ in range(count)]
    return [{v: (rng.randint(*r)) for v, r in ranges.items()} for _ in range(count)] + corners


def random_case(seed, dtype):
    rng = random.Random(seed)
    names = VARS[dtype]
    e = random_condition(rng, names, 3) if rng.random() < 0.4 else random_index(rng, names, rng.randint(2, 4))
    ranges = {}
    for v in names:
        low = rng.choice([0, 0, 0, rng.randint(-9, 5)])
        ranges[v] = (low, low + rng.choice([0, 1, 3, 3, 7, 7, 11, 15, 40]))
    return rng, e, ranges


def analyzer_for(ranges):
    a = Analyzer()
    for v, (low, high) in ranges.items():
        a.bind(v, Range.from_min_extent(IntImm(v.dtype, low), IntImm(v.dtype, high - low + 1)))
    return a


@DTYPES
@pytest.mark.parametrize("part", range(10))
@pytest.mark.parametrize("way", ["simplify", "rewrite_simplify", "canonical_simplify"])
def test_simplified_expressions_have_the_same_values(part, way, dtype):
    for seed in range(part * 60, part * 60 + 60):
        rng, e, ranges = random_case(seed, dtype)
        a = analyzer_for(ranges)
        new = getattr(a, way)(e)
        assert new.dtype is e.dtype
        for env in environments(rng, ranges, 20):
            assert index_value(new, env) == index_value(e, env), f"seed {seed}: {e} -> {new} at {env}"


@DTYPES
@pytest.mark.parametrize("part", range(10))
def test_simplification_is_idempotent_and_returns_the_same_object(part, dtype):
    for seed in range(1000 + part * 60, 1000 + part * 60 + 60):
        _, e, ranges = random_case(seed, dtype)
        once = analyzer_for(ranges).simplify(e)
        again = analyzer_for(ranges).simplify(once)
        assert again is once, f"seed {seed}: {e} -> {once} -> {again}"


@DTYPES
@pytest.mark.parametrize("part", range(10))
def test_bounds_and_remainders_hold_all_values(part, dtype):
    for seed in range(2000 + part * 60, 2000 + part * 60 + 60):
        rng = random.Random(seed)
        _, _, ranges = random_case(seed, dtype)
        e = random_index(rng, VARS[dtype], 3)
        a = analyzer_for(ranges)
        bound, residue = a.const_int_bound(e), a.modular_set(e)
        assert bound.min_value <= bound.max_value
        for env in environments(rng, ranges, 20):
            value = index_value(e, env)
            assert bound.min_value <= value <= bound.max_value, f"seed {seed}: {e} = {value} at {env}, {bound}"
            assert value in residue, f"seed {seed}: {e} = {value} at {env}, {residue}"
