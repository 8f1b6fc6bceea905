"""Solution of systems of linear equations over the integers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tscript.arith.analyzer import Analyzer
from tscript.arith.constraints import IntConstraints, IntConstraintsTransform
from tscript.arith.forms import form_of, from_form, is_index, plus
from tscript.arith.int_set import eval_set
from tscript.arith.polynomial import expanded
from tscript.arith.smith import SmithForm, smith_normal_form
from tscript.ir import construct as make
from tscript.ir import expr as ex
from tscript.ir.dtype import BOOL, INT32, DataType
from tscript.ir.expr import IntImm, PrimExpr, Range, Var
from tscript.ir.functor import substitute
from tscript.ir.linear import LinearForm
from tscript.ir.occurrences import mentions


def solve_linear_equations(
    equations: Sequence[PrimExpr],
    variables: Sequence[Var],
    ranges: Mapping[Var, Range] | None = None,
    analyzer: Analyzer | None = None,
) -> IntConstraintsTransform:
    """Describe all integer solutions by as few new variables as there are degrees of freedom.

    The result's `dst` has the new variables, ranges for them where the old ones had some, and what else must hold:
    that divisions leave no rest, and ranges of old variables that the new ones do not grant. A system without
    solutions has the relation False. What is no equation linear in the variables stays as a relation.

    >>> x, y = Var("x"), Var("y")
    >>> solved = solve_linear_equations([make.compare(ex.EQ, x + y, 10)], [x, y], {x: Range(0, 11), y: Range(0, 11)})
    >>> len(solved.dst.variables)
    1
    """
    analyzer = Analyzer() if analyzer is None else analyzer
    given = dict(ranges or {})
    source = IntConstraints(tuple(variables), given, tuple(equations))
    try:
        return _solved(source, analyzer)
    except ValueError:
        # A constant does not fit in its type: the system stays as it is.
        same: dict[Var, PrimExpr] = {v: v for v in variables}
        return IntConstraintsTransform(source, source, same, same)


def _solved(source: IntConstraints, analyzer: Analyzer) -> IntConstraintsTransform:
    variables, given, equations = source
    dtype = variables[0].dtype if variables else INT32
    rows: list[list[int]] = []
    rests: list[LinearForm] = []
    others: list[PrimExpr] = []
    for e in equations:
        found = _equation(e, variables)
        if found is None:
            others.append(e)
        else:
            rows.append(found[0])
            rests.append(found[1])
    form = smith_normal_form(rows, len(variables))
    values, relations = _diagonal(form, rests, dtype, analyzer)
    fresh: list[Var] = []
    for k in range(len(form.diagonal), len(variables)):
        fresh.append(Var(f"n{k - len(form.diagonal)}", dtype))
        values.append(fresh[-1])
    forward = {v: analyzer.simplify(_combined(form.right[i], values, dtype)) for i, v in enumerate(variables)}
    backward = {
        n: analyzer.simplify(_combined(form.right_inverse[len(form.diagonal) + k], list(variables), dtype))
        for k, n in enumerate(fresh)
    }
    new_ranges = _ranges_of(backward, given, analyzer)
    relations += _kept_ranges(forward, given, new_ranges, analyzer)
    relations += [_substituted(e, forward, analyzer) for e in others]
    kept = _without_certain(relations)
    return IntConstraintsTransform(source, IntConstraints(tuple(fresh), new_ranges, kept), forward, backward)


def _equation(e: PrimExpr, variables: Sequence[Var]) -> tuple[list[int], LinearForm] | None:
    """Coefficients and the right side of an equation; None for what is none."""
    if not (isinstance(e, ex.EQ) and is_index(e.a)):
        return None
    terms, constant = expanded(plus(form_of(e.a), form_of(e.b), -1))
    wanted = dict.fromkeys(variables)
    rest = {t: -c for t, c in terms.items() if t not in wanted}
    if any(mentions(t, wanted) for t in rest):
        return None
    return [terms.get(v, 0) for v in variables], (rest, -constant)


def _diagonal(
    form: SmithForm, rests: Sequence[LinearForm], dtype: DataType, analyzer: Analyzer
) -> tuple[list[PrimExpr], list[PrimExpr]]:
    """Values of the determined combinations, and what must hold for them to exist."""
    values: list[PrimExpr] = []
    relations: list[PrimExpr] = []
    for k, row in enumerate(form.left):
        total: LinearForm = ({}, 0)
        for c, rest in zip(row, rests, strict=True):
            if c:
                total = plus(total, rest, c)
        right = from_form(total, dtype)
        if k < len(form.diagonal):
            divisor = form.diagonal[k]
            values.append(analyzer.simplify(make.floordiv(right, IntImm(dtype, divisor))))
            right = make.floormod(right, IntImm(dtype, divisor))
        relations.append(analyzer.simplify(make.compare(ex.EQ, right, 0)))
    return values, relations


def _combined(row: Sequence[int], values: Sequence[PrimExpr], dtype: DataType) -> PrimExpr:
    total: PrimExpr = IntImm(dtype, 0)
    for c, v in zip(row, values, strict=True):
        if c:
            total = make.add(total, make.mul(v, IntImm(dtype, c)))
    return total


def _ranges_of(backward: Mapping[Var, PrimExpr], ranges: Mapping[Var, Range], analyzer: Analyzer) -> dict[Var, Range]:
    found: dict[Var, Range] = {}
    for n, e in backward.items():
        dom = eval_set(e, dict(ranges), analyzer).as_range()
        if dom is not None and all(
            v in ranges or not mentions(e, {v: None}) for v in form_of(e)[0] if isinstance(v, Var)
        ):
            found[n] = Range.from_min_extent(analyzer.simplify(dom.min), analyzer.simplify(dom.extent))
    return found


def _kept_ranges(
    forward: Mapping[Var, PrimExpr], ranges: Mapping[Var, Range], new: Mapping[Var, Range], analyzer: Analyzer
) -> list[PrimExpr]:
    inner = analyzer.fork()
    for v, dom in new.items():
        inner.bind(v, dom, keep_trivial=True)
    found: list[PrimExpr] = []
    for v, e in forward.items():
        dom = ranges.get(v)
        if dom is not None:
            found += [inner.simplify(dom.min <= e), inner.simplify(e < dom.min + dom.extent)]
    return found


def _substituted(e: PrimExpr, forward: Mapping[Var, PrimExpr], analyzer: Analyzer) -> PrimExpr:
    return analyzer.simplify(substitute(e, forward))


def _without_certain(relations: Sequence[PrimExpr]) -> tuple[PrimExpr, ...]:
    kept = dict.fromkeys(r for r in relations if not (isinstance(r, IntImm) and r.value))
    if any(isinstance(r, IntImm) for r in kept):
        return (IntImm(BOOL, 0),)
    return tuple(kept)
