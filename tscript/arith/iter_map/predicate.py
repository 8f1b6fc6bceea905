"""Predicates as bounds of sums of iterators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tscript.arith.analyzer import Analyzer
from tscript.arith.context import conjuncts
from tscript.arith.forms import form_of, from_form, is_index, plus, scaled
from tscript.arith.iter_map.rewriter import NotAffine
from tscript.ir import construct as make
from tscript.ir import expr as ex
from tscript.ir.dtype import DataType
from tscript.ir.expr import IntImm, PrimExpr, Range, Var
from tscript.ir.functor import post_order_visit
from tscript.ir.linear import LinearForm
from tscript.ir.occurrences import mentions


class IterBound(NamedTuple):
    """`low <= expr < end`, where either may be missing."""

    expr: PrimExpr
    low: PrimExpr | None
    end: PrimExpr | None
    size: int


def bounds_in(predicate: PrimExpr, input_iters: Mapping[Var, Range], analyzer: Analyzer) -> list[IterBound]:
    """The bounds that a conjunction of comparisons sets, those of short sums first.

    What the ranges of the iterators grant anyway is left out. Raises NotAffine for conditions of another kind.
    """
    found: list[IterBound] = []
    for part in conjuncts(analyzer.simplify(predicate)):
        if isinstance(part, IntImm):
            if not part.value:
                raise NotAffine("the predicate never holds")
            continue
        if mentions(part, input_iters):
            found += _bounds(part, input_iters)
    return sorted(found, key=lambda b: b.size)


def _bounds(part: PrimExpr, input_iters: Mapping[Var, Range]) -> list[IterBound]:
    if not (isinstance(part, (ex.LT, ex.LE, ex.EQ)) and is_index(part.a)):
        raise NotAffine(f"`{part}` is no bound of a sum of iterators")
    dtype = part.a.dtype
    terms, constant = plus(form_of(part.a), form_of(part.b), -1)
    mine = {t: c for t, c in terms.items() if mentions(t, input_iters)}
    rest: LinearForm = ({t: c for t, c in terms.items() if t not in mine}, constant)
    # part says: mine + rest < 0, <= 0 or == 0.
    negative = all(c < 0 for c in mine.values())
    if not negative and any(c < 0 for c in mine.values()):
        raise NotAffine(f"`{part}` compares iterators with each other")
    expr = from_form(scaled((mine, 0), -1) if negative else (mine, 0), dtype)
    size = sum(_size(t) for t in mine)
    above = from_form(rest if negative else scaled(rest, -1), dtype)
    one = IntImm(dtype, 1)
    if isinstance(part, ex.EQ):
        return [IterBound(expr, above, make.add(above, one), size)]
    strict = isinstance(part, ex.LT)
    if negative:
        return [IterBound(expr, make.add(above, one) if strict else above, None, size)]
    return [IterBound(expr, None, above if strict else make.add(above, one), size)]


def _size(e: PrimExpr) -> int:
    count = 0

    def visit(n: object) -> None:
        nonlocal count
        count += isinstance(n, Var)

    post_order_visit(e, visit)
    return count


def narrowed_ranges(
    bounds: list[IterBound], input_iters: Mapping[Var, Range], analyzer: Analyzer
) -> tuple[dict[Var, Range], list[IterBound]]:
    """Ranges after bounds of single iterators, and the other bounds."""
    ranges = dict(input_iters)
    others: list[IterBound] = []
    for b in bounds:
        found = _single(b, ranges)
        if found is None:
            others.append(b)
            continue
        var, low, end = found
        old = ranges[var]
        old_end = make.add(old.min, old.extent)
        first = old.min if low is None else analyzer.simplify(make.max_(old.min, low))
        last = old_end if end is None else analyzer.simplify(make.min_(old_end, end))
        extent = analyzer.simplify(make.sub(last, first))
        if analyzer.can_prove(make.compare(ex.LE, extent, 0)):
            raise NotAffine("the predicate never holds")
        ranges[var] = Range.from_min_extent(first, extent)
    return ranges, others


def _single(b: IterBound, ranges: Mapping[Var, Range]) -> tuple[Var, PrimExpr | None, PrimExpr | None] | None:
    """The iterator, and its bounds, that `b` speaks of alone."""
    terms, constant = form_of(b.expr)
    if len(terms) != 1 or constant:
        return None
    ((t, c),) = terms.items()
    if not isinstance(t, Var) or t not in ranges:
        return None
    return t, _ceildiv(b.low, c, t.dtype), _ceildiv(b.end, c, t.dtype)


def _ceildiv(e: PrimExpr | None, c: int, dtype: DataType) -> PrimExpr | None:
    if e is None or c == 1:
        return e
    return make.floordiv(make.add(e, IntImm(dtype, c - 1)), IntImm(dtype, c))
