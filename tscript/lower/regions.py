"""Ends of what subscripts run through while some variables run and the others stand still, as linear forms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tscript.arith.const_bound import Bound, const_bound
from tscript.arith.forms import plus
from tscript.arith.simplify import simplify
from tscript.ir import expr as ex
from tscript.ir.expr import Broadcast, IntImm, Let, PrimExpr, Ramp, Range, Var
from tscript.ir.linear import LinearForm, linear_form
from tscript.ir.occurrences import any_below, mentions, reads_memory
from tscript.ir.stmt import For, LetStmt


class Names:
    """Variables that run: loops and names bound to values, outer ones first. `bounds` are those of all variables."""

    def __init__(self, around: Iterable[For | LetStmt | Let], bounds: Mapping[Var, Bound]) -> None:
        self.inner: dict[Var, tuple[PrimExpr, PrimExpr] | None] = {}
        self.bounds = bounds
        for n in around:
            if isinstance(n, For):
                self.inner[n.loop_var] = n.min, n.extent
            else:
                self.inner[n.var] = None


def falls_short(form: LinearForm, bounds: Mapping[Var, Bound]) -> bool:
    """Whether a form might be negative, as far as `bounds` show."""
    terms, lowest = form
    for t, c in terms.items():
        found = const_bound(t, bounds)
        end = found.low if c > 0 else found.high
        if end is None:
            return True
        lowest += c * end
    return lowest < 0


def scalar_index(index: PrimExpr, domain: dict[Var, Range]) -> PrimExpr | None:
    """A vector of subscripts as one of which the lane is a variable of its own, added to `domain`; None for others."""
    if index.dtype.lanes == 1:
        return index
    if isinstance(index, Broadcast):
        return index.value
    if not isinstance(index, Ramp) or index.base.dtype.lanes != 1:
        return None
    lane = Var("lane", index.base.dtype)
    zero, lanes = IntImm(lane.dtype, 0), IntImm(lane.dtype, index.lanes)
    domain[lane] = Range.from_min_extent(zero, lanes)
    return index.base + lane * index.stride


def ends_of(index: PrimExpr, names: Names) -> tuple[LinearForm | None, LinearForm | None]:
    """The least and the largest subscript while `names` run, in terms of what stands still; None where unknown."""
    lanes: dict[Var, Range] = {}
    plain = scalar_index(index, lanes)
    if plain is None:
        return None, None
    if lanes:
        names = _with_lanes(names, lanes)
    form = linear_form(_divided(plain, names))
    return _end(form, names, upper=False), _end(form, names, upper=True)


def _with_lanes(names: Names, lanes: Mapping[Var, Range]) -> Names:
    more = Names((), {**names.bounds, **{v: Bound(0, _number(r.extent) - 1) for v, r in lanes.items()}})
    more.inner = {**names.inner, **{v: (r.min, r.extent) for v, r in lanes.items()}}
    return more


def _number(e: Any) -> int:
    return e.value


def _divided(e: PrimExpr, names: Names) -> PrimExpr:
    """Without divisions that the ranges of variables decide, where both what runs and what stands still is divided."""
    if not any_below(e, lambda n: isinstance(n, (ex.FloorDiv, ex.FloorMod)) and mentions(n, names.inner)):
        return e
    return e if reads_memory(e) else simplify(e, names.bounds)


def _end(form: LinearForm, names: Names, upper: bool) -> LinearForm | None:
    """One end of a form: each variable that runs, the innermost first, takes its first or last value."""
    for var in reversed(names.inner):
        factor = form[0].get(var)
        over = names.inner[var]
        if factor is None or over is None:
            continue
        form = plus(form, ({var: factor}, 0), -1)
        form = plus(form, linear_form(over[0]), factor)
        if (factor > 0) is upper:
            form = plus(form, plus(linear_form(over[1]), ({}, -1)), factor)
    terms, constant = form
    fixed: dict[PrimExpr, int] = {}
    for t, c in terms.items():
        if not mentions(t, names.inner) and not reads_memory(t):
            fixed[t] = c
            continue
        found = const_bound(t, names.bounds)
        end = found.high if (c > 0) is upper else found.low
        if end is None:
            return None
        constant += c * end
    return fixed, constant


__all__ = ["Names", "ends_of", "falls_short", "scalar_index"]
