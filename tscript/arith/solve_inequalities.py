"""Solution of systems of linear inequalities by elimination of one variable after another."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tscript.arith.analyzer import Analyzer
from tscript.arith.comparison import nonneg_forms
from tscript.arith.constraints import IntConstraints, IntConstraintsTransform, IntGroupBounds
from tscript.arith.forms import content, from_form, is_index, plus, scaled
from tscript.arith.polynomial import expanded
from tscript.ir import construct as make
from tscript.ir import expr as ex
from tscript.ir.dtype import BOOL
from tscript.ir.expr import IntImm, PrimExpr, Range, Var
from tscript.ir.functor import substitute
from tscript.ir.linear import LinearForm
from tscript.ir.occurrences import mentions

FORM_BUDGET = 2000
"""Inequalities that elimination may make; variables after that keep their inequalities as relations."""


def solve_linear_inequalities(
    inequalities: Sequence[PrimExpr],
    variables: Sequence[Var],
    ranges: Mapping[Var, Range] | None = None,
    deskew_range: bool = False,
    analyzer: Analyzer | None = None,
) -> IntConstraints | IntConstraintsTransform:
    """Ranges for the variables, each in terms of those after it, that together say the same as the inequalities.

    What gives no range (an open end, a condition that is not linear) stays as a relation; a system without
    solutions has the relation False. With `deskew_range` new variables start at zero and a transform is returned.

    >>> x, y = Var("x"), Var("y")
    >>> solved = solve_linear_inequalities([x >= y, x < 8, y >= 0], [x, y])
    >>> solved.ranges[x].min is y
    True
    """
    analyzer = Analyzer() if analyzer is None else analyzer
    given = dict(ranges or {})
    bounds, relations = solve_inequalities_to_bounds(inequalities, variables, given, analyzer)
    solved = _to_ranges(bounds, relations, variables, analyzer)
    if not deskew_range:
        return solved
    return _deskewed(IntConstraints(tuple(variables), given, tuple(inequalities)), solved, analyzer)


def solve_inequalities_to_bounds(
    inequalities: Sequence[PrimExpr], variables: Sequence[Var], ranges: Mapping[Var, Range], analyzer: Analyzer
) -> tuple[dict[Var, IntGroupBounds], list[PrimExpr]]:
    """Bounds for each variable in terms of those after it, and conditions on what is left."""
    conditions = [analyzer.simplify(e) for e in [*inequalities, *_range_conditions(variables, ranges)]]
    try:
        return _solved(conditions, variables)
    except ValueError:
        # A constant does not fit in its type: the conditions stay as they are.
        return {}, list(dict.fromkeys(conditions))


def _solved(
    conditions: Sequence[PrimExpr], variables: Sequence[Var]
) -> tuple[dict[Var, IntGroupBounds], list[PrimExpr]]:
    """`solve_inequalities_to_bounds` for simple conditions. Raises ValueError where a constant does not fit."""
    forms: list[LinearForm] = []
    relations: list[PrimExpr] = []
    wanted = dict.fromkeys(variables)
    for simple in conditions:
        if isinstance(simple, IntImm):
            if not simple.value:
                return {}, [IntImm(BOOL, 0)]
            continue
        made = nonneg_forms(simple) if isinstance(simple, ex.CmpExpr) and is_index(simple.a) else None
        linear = None if made is None else [expanded(f) for f in made]
        if linear is None or any(t not in wanted and mentions(t, wanted) for f in linear for t in f[0]):
            relations.append(simple)
        else:
            forms += linear
    bounds: dict[Var, IntGroupBounds] = {}
    budget = FORM_BUDGET
    for v in variables:
        forms = _distinct(forms)
        if any(not f[0] and f[1] < 0 for f in forms):
            return {}, [IntImm(BOOL, 0)]
        with_v = [f for f in forms if v in f[0]]
        lower = [f for f in with_v if f[0][v] > 0]
        upper = [f for f in with_v if f[0][v] < 0]
        if len(lower) * len(upper) > budget:
            relations += [_condition(f, v) for f in forms]
            return bounds, relations
        budget -= len(lower) * len(upper)
        bounds[v] = _group(v, lower, upper)
        forms = [f for f in forms if v not in f[0]] + [_eliminated(a, b, v) for a in lower for b in upper]
    for f in _distinct(forms):
        if not f[0]:
            if f[1] < 0:
                return {}, [IntImm(BOOL, 0)]
            continue
        relations.append(_condition(f, next(iter(f[0]))))
    return bounds, relations


def _range_conditions(variables: Sequence[Var], ranges: Mapping[Var, Range]) -> list[PrimExpr]:
    found: list[PrimExpr] = []
    for v in variables:
        dom = ranges.get(v)
        if dom is not None:
            found += [dom.min <= v, v < dom.min + dom.extent]
    return found


def _distinct(forms: Sequence[LinearForm]) -> list[LinearForm]:
    """Forms without common factors; of those that differ by a constant, the strictest."""
    best: dict[frozenset[tuple[PrimExpr, int]], LinearForm] = {}
    for f in forms:
        common = content(f)
        if common > 1:
            # g * X + c >= 0 where X + floor(c / g) >= 0.
            f = {t: c // common for t, c in f[0].items()}, f[1] // common
        key = frozenset(f[0].items())
        old = best.get(key)
        if old is None or f[1] < old[1]:
            best[key] = f
    return list(best.values())


def _eliminated(a: LinearForm, b: LinearForm, v: Var) -> LinearForm:
    """The sum of multiples of both in which `v` vanishes."""
    x, y = a[0][v], -b[0][v]
    common = math.gcd(x, y)
    return plus(scaled(a, y // common), b, x // common)


def _group(v: Var, lower: Sequence[LinearForm], upper: Sequence[LinearForm]) -> IntGroupBounds:
    coef = math.lcm(*[abs(f[0][v]) for f in (*lower, *upper)]) if lower or upper else 1

    def ends(forms: Sequence[LinearForm]) -> dict[PrimExpr, None]:
        found: dict[PrimExpr, None] = {}
        for f in forms:
            c = f[0][v]
            rest = {t: k for t, k in f[0].items() if t is not v}, f[1]
            # c * v + rest >= 0 gives c * v >= -rest, or -c * v <= rest.
            found[from_form(scaled(rest, (-1 if c > 0 else 1) * (coef // abs(c))), v.dtype)] = None
        return found

    low, high = ends(lower), ends(upper)
    equal = tuple(e for e in low if e in high)
    return IntGroupBounds(coef, tuple(e for e in low if e not in high), equal, tuple(e for e in high if e not in low))


def _condition(f: LinearForm, like: PrimExpr) -> PrimExpr:
    return make.compare(ex.GE, from_form(f, like.dtype), 0)


def _to_ranges(
    bounds: Mapping[Var, IntGroupBounds], relations: Sequence[PrimExpr], variables: Sequence[Var], analyzer: Analyzer
) -> IntConstraints:
    ranges: dict[Var, Range] = {}
    kept = list(relations)
    inner = analyzer.fork()
    for v in reversed(list(bounds)):
        group = bounds[v]
        found = group.find_best_range(None, inner)
        if found is None:
            kept += _open(v, group)
            continue
        if isinstance(found.extent, IntImm) and found.extent.value <= 0:
            return IntConstraints(tuple(variables), {}, (IntImm(BOOL, 0),))
        ranges[v] = found
        inner.bind(v, found, keep_trivial=True)
    simple = dict.fromkeys(analyzer.simplify(r) for r in kept)
    return IntConstraints(
        tuple(variables),
        {v: ranges[v] for v in variables if v in ranges},
        tuple(r for r in simple if not (isinstance(r, IntImm) and r.value)),
    )


def _open(v: Var, group: IntGroupBounds) -> list[PrimExpr]:
    scale = make.mul(v, IntImm(v.dtype, group.coef))
    found = [make.compare(ex.GE, scale, e) for e in group.lower]
    found += [make.compare(ex.EQ, scale, e) for e in group.equal]
    return found + [make.compare(ex.LE, scale, e) for e in group.upper]


def _deskewed(source: IntConstraints, solved: IntConstraints, analyzer: Analyzer) -> IntConstraintsTransform:
    """New variables that start at zero; one whose range has a single value vanishes."""
    forward: dict[Var, PrimExpr] = {}
    backward: dict[Var, PrimExpr] = {}
    ranges: dict[Var, Range] = {}
    fresh: list[Var] = []
    # Later variables first: the ranges of earlier ones name them.
    for v in reversed(solved.variables):
        dom = solved.ranges.get(v)
        if dom is None:
            forward[v] = v
            fresh.append(v)
            continue
        low, extent = substitute(dom.min, forward), analyzer.simplify(substitute(dom.extent, forward))
        if isinstance(extent, IntImm) and extent.value == 1:
            forward[v] = analyzer.simplify(low)
            continue
        new = v.copy_with()
        fresh.append(new)
        forward[v] = analyzer.simplify(make.add(new, low))
        backward[new] = analyzer.simplify(make.sub(v, dom.min))
        ranges[new] = Range.from_min_extent(IntImm(v.dtype, 0), extent)
    fresh.reverse()
    relations = tuple(analyzer.simplify(substitute(r, forward)) for r in solved.relations)
    return IntConstraintsTransform(
        source, IntConstraints(tuple(fresh), ranges, relations), {v: forward[v] for v in solved.variables}, backward
    )
