"""Each rule alone: it is right for integers of all signs, well written, and makes expressions simpler."""

from __future__ import annotations

import ast
import random
import zlib

import pytest

from tscript.arith.const_bound import Bound
from tscript.arith.context import Context
from tscript.arith.rule import (
    COMMUTATIVE,
    Name,
    Node,
    Number,
    Pattern,
    Rule,
    compile_variant,
    is_constant,
    names_in,
    parse_pattern,
    variants,
)
from tscript.arith.rules import RULES
from tscript.ir import expr as ex
from tscript.ir.dtype import BOOL, INT32, INT64
from tscript.ir.expr import IntImm, Var
from tscript.testing.random_index import index_value

ALL = [(kind, rule) for kind, rules in RULES.items() for rule in rules]
IDS = [f"{kind.__name__}: {rule.before} -> {rule.after} if {rule.when or 'always'}" for kind, rule in ALL]
CONSTANTS = [*range(-9, 10), 12, 15, 16, -12, -16]


def instance(pattern: Pattern, constants, wildcards, dtype):
    match pattern:
        case Number(value=bool(v)):
            return IntImm(BOOL, int(v))
        case Number(value=v):
            return IntImm(dtype, v)
        case Name() if pattern.is_constant:
            return IntImm(dtype, constants[pattern.name])
        case Name(name=name):
            return wildcards[name]
        case Node(kind=kind, args=args):
            return kind(*[instance(a, constants, wildcards, dtype) for a in args])


def constants_for(rng, names):
    """Random constants, often related to each other as rules ask."""
    found = {n: rng.choice(CONSTANTS) for n in names}
    order = list(names)
    if len(order) > 1 and rng.random() < 0.6:
        a, b = rng.sample(order, 2)
        found[a] = rng.choice([found[b] * rng.choice([-2, -1, 1, 2, 3]), found[b], found[b] - 1, found[b] + 1])
        if len(order) > 2 and rng.random() < 0.7:
            (c,) = rng.sample([n for n in order if n not in (a, b)], 1)
            found[c] = rng.choice([found[a] * found[b], found[a] * rng.randint(1, 3), found[b]])
    return found


def check(rule, variant, rng, tries):
    """How often the rule applied, each time rightly."""
    names = names_in(variant)
    constants = [n for n in names if Name(n).is_constant]
    others = [n for n in names if not Name(n).is_constant]
    matcher = compile_variant(rule, variant, parse_pattern(rule.after))
    applied = 0
    for _ in range(tries):
        dtype = rng.choice([INT32, INT64])
        values = constants_for(rng, constants)
        wildcards = {n: Var(n, "bool" if Name(n).is_condition else dtype) for n in others}
        ranges = {}
        for v in wildcards.values():
            low = rng.choice([0, 0, 1, rng.randint(-20, 12)])
            ranges[v] = (0, 1) if v.dtype.is_bool else (low, low + rng.choice([0, 1, 2, 3, 5, 9, 20, 40]))
        before = instance(variant, values, wildcards, dtype)
        context = Context.of_bounds({v: Bound(*r) for v, r in ranges.items()})
        try:
            after = matcher.match(before, context)
        except (ZeroDivisionError, ValueError):
            continue
        if after is None:
            continue
        applied += 1
        assert after.dtype is before.dtype
        for _ in range(12):
            env = {v: rng.randint(*r) for v, r in ranges.items()}
            try:
                expected = index_value(before, env)
            except ZeroDivisionError:
                continue
            shown = {v.name: x for v, x in env.items()}
            assert index_value(after, env) == expected, f"{before} -> {after} at {shown}"
    return applied


@pytest.mark.parametrize(("kind", "rule"), ALL, ids=IDS)
def test_rule_is_right_for_integers_of_all_signs(kind, rule):
    rng = random.Random(zlib.crc32(repr(rule).encode()))
    before = parse_pattern(rule.before)
    for variant in dict.fromkeys(variants(before)):
        applied = 0
        for _ in range(12):
            applied += check(rule, variant, rng, 120)
            if applied > 25:
                break
        assert applied, "the condition was never met"


@pytest.mark.parametrize(("kind", "rule"), ALL, ids=IDS)
def test_rule_is_well_written(kind, rule):
    before, after = parse_pattern(rule.before), parse_pattern(rule.after)
    assert isinstance(before, Node) and before.kind is kind
    assert names_in(after).keys() <= names_in(before).keys()
    functions = {"lo", "hi", "nonneg", "nonzero", "less", "True", "False"}
    used = {n.id for n in ast.walk(ast.parse(rule.when or "True", mode="eval")) if isinstance(n, ast.Name)}
    assert used - functions <= names_in(before).keys()
    stack: list[Pattern] = [before]
    while stack:
        p = stack.pop()
        if isinstance(p, Node):
            assert p is before or p.kind not in (ex.GT, ex.GE)
            assert not all(is_constant(a) for a in p.args)
            assert not (p.kind in COMMUTATIVE and is_constant(p.args[0])), "a constant stands on the right"
            stack += p.args


WEIGHTS = {
    ex.Mul: (1, 1, 2), ex.FloorDiv: (1, 3, 2), ex.FloorMod: (1, 3, 2), ex.Div: (1, 3, 2), ex.Mod: (1, 3, 2),
    ex.Not: (1, 3), ex.Select: (4, 3, 1, 1), ex.GT: (2, 1, 1), ex.GE: (2, 1, 1),
}  # fmt: skip


def cost(p):
    """A linear form in the costs of the wildcards: every operator's cost grows with each operand's."""
    if is_constant(p) or isinstance(p, Number):
        return {}, 1
    if isinstance(p, Name):
        return {p.name: 1}, 0
    parts = [cost(a) for a in p.args]
    if p.kind in (ex.Add, ex.Sub, ex.Mul, ex.FloorDiv, ex.FloorMod, ex.Min, ex.Max) and all(not t for t, _ in parts):
        return {}, 1  # folded
    first, *weights = WEIGHTS.get(p.kind, (1, *[1] * len(parts)))
    terms, constant = {}, first
    for (t, c), w in zip(parts, weights, strict=True):
        constant += w * c
        for n, k in t.items():
            terms[n] = terms.get(n, 0) + w * k
    return terms, constant


@pytest.mark.parametrize(("kind", "rule"), ALL, ids=IDS)
def test_rule_makes_expressions_cheaper(kind, rule):
    (before, b), (after, a) = cost(parse_pattern(rule.before)), cost(parse_pattern(rule.after))
    assert all(before[n] >= k for n, k in after.items())
    # Wildcards cost at least 3, constants 1.
    assert b - a + 3 * sum(k - after.get(n, 0) for n, k in before.items()) > 0


def test_a_wrong_rule_is_caught():
    rng = random.Random(1)
    wrong = Rule("(x // c1) // c2", "x // (c1 * c2)", when="c1 != 0 and c2 != 0")
    with pytest.raises(AssertionError):
        check(wrong, parse_pattern(wrong.before), rng, 4000)
