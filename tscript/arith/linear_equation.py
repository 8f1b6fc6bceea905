"""Detection of expressions that are linear in some variables, with symbolic coefficients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tscript.arith.analyzer import Analyzer
from tscript.arith.context import conjuncts
from tscript.arith.forms import form_of, from_form, is_index, plus, scaled
from tscript.ir import construct as make
from tscript.ir import expr as ex
from tscript.ir.expr import IntImm, PrimExpr, Var
from tscript.ir.functor import post_order_visit
from tscript.ir.occurrences import mentions


def detect_linear_equation(
    expr: PrimExpr, variables: Sequence[Var], analyzer: Analyzer | None = None
) -> list[PrimExpr]:
    """Coefficients of the variables, then the rest, of `expr = c[0] * v[0] + ... + rest`; empty if it is not linear.

    >>> i, j, n = Var("i"), Var("j"), Var("n")
    >>> detect_linear_equation(i * 4 + j * n + 3, [i, j])
    [4, n, 3]
    """
    analyzer = Analyzer() if analyzer is None else analyzer
    wanted = {v: k for k, v in enumerate(variables)}
    rows: dict[PrimExpr, dict[int, PrimExpr] | None] = {}

    def visit(n: object) -> None:
        if isinstance(n, PrimExpr) and n not in rows:
            rows[n] = _row(n, rows, wanted)

    post_order_visit(expr, visit)
    row = rows[expr]
    if row is None:
        return []
    zero = make.const(0, expr.dtype)
    return [analyzer.simplify(row.get(k, zero)) for k in (*range(len(variables)), -1)]


def _row(
    e: PrimExpr, rows: Mapping[PrimExpr, dict[int, PrimExpr] | None], wanted: Mapping[Var, int]
) -> dict[int, PrimExpr] | None:
    """Coefficients by position of the variable, the rest at -1; None where `e` is not linear."""
    if isinstance(e, Var) and e in wanted:
        return {wanted[e]: make.const(1, e.dtype)}
    if isinstance(e, (ex.Add, ex.Sub, ex.Mul)):
        a, b = rows[e.a], rows[e.b]
        if a is None or b is None:
            return None
        if isinstance(e, ex.Mul):
            if any(k >= 0 for k in a):
                a, b = b, a
            if any(k >= 0 for k in a):
                return None
            factor = a.get(-1, make.const(0, e.dtype))
            return {k: make.mul(c, factor) for k, c in b.items()}
        build = make.add if isinstance(e, ex.Add) else make.sub
        zero = make.const(0, e.dtype)
        return {k: build(a.get(k, zero), b.get(k, zero)) for k in {**a, **b}}
    return None if mentions(e, wanted) else {-1: e}


def detect_clip_bound(
    expr: PrimExpr, variables: Sequence[Var], analyzer: Analyzer | None = None
) -> list[PrimExpr | None]:
    """Least and greatest value that a conjunction of comparisons allows each variable: `[min0, max0, min1, ...]`.

    None stands where there is no bound. The list is empty where a part bounds no single variable with factor 1 or -1.

    >>> i, n = Var("i"), Var("n")
    >>> detect_clip_bound(make.and_(i < n, i >= 2), [i])
    [2, n - 1]
    """
    analyzer = Analyzer() if analyzer is None else analyzer
    wanted = {v: k for k, v in enumerate(variables)}
    bounds: list[PrimExpr | None] = [None] * (2 * len(variables))
    for part in conjuncts(analyzer.simplify(expr)):
        if isinstance(part, IntImm) and part.value:
            continue
        if not (isinstance(part, (ex.LT, ex.LE, ex.EQ)) and is_index(part.a)):
            return []
        gap = plus(form_of(part.a), form_of(part.b), -1)
        if isinstance(part, ex.LT):
            gap = gap[0], gap[1] + 1
        found = [t for t in gap[0] if mentions(t, wanted)]
        v = found[0] if len(found) == 1 else None
        if not isinstance(v, Var) or abs(gap[0][v]) != 1:
            return []
        rest = {t: c for t, c in gap[0].items() if t is not v}, gap[1]
        # v + rest <= 0, or -v + rest <= 0.
        above = gap[0][v] > 0
        try:
            limit = from_form(scaled(rest, -1) if above else rest, v.dtype)
        except ValueError:
            # A constant that does not fit in the type.
            return []
        for place in (0, 1) if isinstance(part, ex.EQ) else (int(above),):
            slot = 2 * wanted[v] + place
            old = bounds[slot]
            pick = make.min_ if place else make.max_
            bounds[slot] = limit if old is None else analyzer.simplify(pick(old, limit))
    return bounds
