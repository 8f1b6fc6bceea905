"""Deduction: for which values of a variable a condition certainly holds."""

from __future__ import annotations

from collections.abc import Mapping

from tscript.arith.analyzer import Analyzer
from tscript.arith.context import conjuncts
from tscript.arith.forms import form_of, from_form, is_index, plus, scaled
from tscript.arith.int_set import EVERYTHING, NOTHING, IntervalSet, SetEvaluator, SetLike, as_set, intersect
from tscript.ir import construct as make
from tscript.ir import expr as ex
from tscript.ir.expr import IntImm, PrimExpr, Range, Var
from tscript.ir.linear import LinearForm
from tscript.ir.occurrences import mentions


def deduce_bound(
    var: Var,
    cond: PrimExpr,
    hint_map: Mapping[Var, SetLike] | None = None,
    relax_map: Mapping[Var, SetLike] | None = None,
    analyzer: Analyzer | None = None,
) -> IntervalSet:
    """An interval of values of `var` for which `cond` holds, whatever values the variables of `relax_map` take.

    `hint_map` tells what values other variables may have. The result is the largest such interval for conditions
    linear in `var`; nothing where no bound can be deduced.

    >>> i, n = Var("i"), Var("n")
    >>> deduce_bound(i, i * 4 + 3 < n)
    IntervalSet[-inf, n // 4 - 1]
    """
    inner = (Analyzer() if analyzer is None else analyzer).fork()
    for v, s in (hint_map or {}).items():
        if v is var:
            continue
        dom = s if isinstance(s, Range) else s.as_range()
        if dom is not None:
            inner.bind(v, dom)
    solver = _Solver(var, SetEvaluator({v: as_set(s) for v, s in (relax_map or {}).items() if v is not var}, inner))
    return intersect((solver.of_condition(part) for part in conjuncts(inner.simplify(cond))), inner)


class _Solver:
    def __init__(self, var: Var, sets: SetEvaluator) -> None:
        self.var = var
        self.sets = sets

    def of_condition(self, e: PrimExpr) -> IntervalSet:
        """Values of the variable for which `e` holds; none where a constant does not fit in its type."""
        try:
            return self._of_comparison(e)
        except ValueError:
            return NOTHING

    def _of_comparison(self, e: PrimExpr) -> IntervalSet:
        if isinstance(e, IntImm):
            return EVERYTHING if e.value else NOTHING
        if not (isinstance(e, ex.CmpExpr) and is_index(e.a)):
            return NOTHING
        gap = plus(form_of(e.a), form_of(e.b), -1)
        match e:
            case ex.LE():
                return self.at_most_zero(gap)
            case ex.LT():
                return self.at_most_zero((gap[0], gap[1] + 1))
            case ex.EQ():
                return self.zero(gap)
            case _:
                return NOTHING

    def _parted(self, gap: LinearForm) -> tuple[PrimExpr, int, LinearForm] | None:
        """The one term with the variable, its factor, and the rest."""
        mine = {self.var: None}
        found = [t for t in gap[0] if mentions(t, mine)]
        if len(found) != 1:
            return None
        (t,) = found
        return t, gap[0][t], ({o: c for o, c in gap[0].items() if o is not t}, gap[1])

    def at_most_zero(self, gap: LinearForm) -> IntervalSet:
        """Values for which `gap <= 0`."""
        parted = self._parted(gap)
        if parted is None:
            return NOTHING
        term, factor, rest = parted
        # factor * term <= -rest must hold for the largest rest.
        most = self.sets.of(from_form(rest, term.dtype)).max_value
        if most is None:
            return NOTHING
        limit = from_form(scaled(form_of(most), -1), term.dtype)
        scale = IntImm(term.dtype, abs(factor))
        if factor > 0:
            return self.below(term, self._simple(make.floordiv(limit, scale)))
        # term >= ceil(rest / |factor|).
        return self.above(term, self._simple(make.floordiv(make.add(most, abs(factor) - 1), scale)))

    def zero(self, gap: LinearForm) -> IntervalSet:
        """The value for which `gap == 0`."""
        parted = self._parted(gap)
        if parted is None:
            return NOTHING
        term, factor, rest = parted
        value = self.sets.of(from_form(scaled(rest, -1 if factor > 0 else 1), term.dtype))
        if not value.is_single_point() or value.min_value is None or term is not self.var:
            return NOTHING
        scale = IntImm(term.dtype, abs(factor))
        if abs(factor) != 1 and not self.sets.analyzer.can_prove(
            make.compare(ex.EQ, make.floormod(value.min_value, scale), 0)
        ):
            return NOTHING
        point = self._simple(make.floordiv(value.min_value, scale))
        return IntervalSet(point, point)

    def below(self, e: PrimExpr, limit: PrimExpr) -> IntervalSet:
        """Values for which `e <= limit`."""
        if e is self.var:
            return IntervalSet(None, limit)
        match e:
            case ex.FloorDiv(a=a, b=IntImm(value=d)) if d > 0:
                # a // d <= limit where a <= limit * d + d - 1.
                return self._again(a, make.add(make.mul(limit, d), d - 1), above=False)
            case ex.Mul():
                return self._product(e, limit, above=False)
            case ex.Max(a=a, b=b):
                return self._both(a, b, limit, above=False)
            case _:
                return NOTHING

    def above(self, e: PrimExpr, limit: PrimExpr) -> IntervalSet:
        """Values for which `e >= limit`."""
        if e is self.var:
            return IntervalSet(limit, None)
        match e:
            case ex.FloorDiv(a=a, b=IntImm(value=d)) if d > 0:
                return self._again(a, make.mul(limit, d), above=True)
            case ex.Mul():
                return self._product(e, limit, above=True)
            case ex.Min(a=a, b=b):
                return self._both(a, b, limit, above=True)
            case _:
                return NOTHING

    def _again(self, e: PrimExpr, limit: PrimExpr, *, above: bool) -> IntervalSet:
        gap = plus(form_of(limit), form_of(e), -1) if above else plus(form_of(e), form_of(limit), -1)
        return self.at_most_zero(gap)

    def _both(self, a: PrimExpr, b: PrimExpr, limit: PrimExpr, *, above: bool) -> IntervalSet:
        """Both operands of an extremum keep to the limit."""
        sets: list[IntervalSet] = []
        for x in (a, b):
            if mentions(x, {self.var: None}):
                sets.append(self._again(x, limit, above=above))
            elif not self.sets.analyzer.can_prove(make.compare(ex.GE if above else ex.LE, x, limit)):
                return NOTHING
        return intersect(sets, self.sets.analyzer)

    def _product(self, e: ex.Mul, limit: PrimExpr, *, above: bool) -> IntervalSet:
        mine = {self.var: None}
        inner, factor = (e.a, e.b) if mentions(e.a, mine) else (e.b, e.a)
        if mentions(factor, mine) or mentions(factor, self.sets.relaxed):
            return NOTHING
        if not self.sets.analyzer.can_prove(make.compare(ex.GT, factor, 0)):
            return NOTHING
        if above:
            limit = make.add(limit, make.sub(factor, 1))
        return self._again(inner, self._simple(make.floordiv(limit, factor)), above=above)

    def _simple(self, e: PrimExpr) -> PrimExpr:
        return self.sets.simple(e)
