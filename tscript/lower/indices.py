"""Subscripts in their plainest form, before they become places in flat memory."""

from __future__ import annotations

from collections.abc import Mapping

from tscript.arith.const_bound import Bound
from tscript.arith.simplify import simplify
from tscript.ir import expr as ex
from tscript.ir.construct import add, const, mul, sub
from tscript.ir.expr import Broadcast, PrimExpr, Ramp, Var
from tscript.ir.occurrences import any_below, reads_memory
from tscript.lower.guards import may_wrap


def plain_index(e: PrimExpr, bounds: Mapping[Var, Bound]) -> PrimExpr:
    """`e` as one ramp, if it is a vector made of ramps, and without divisions that the ranges of variables decide."""
    e = _as_ramp(e)
    if isinstance(e, Ramp):
        return Ramp(_divided(e.base, bounds), e.stride, e.lanes)
    return _divided(e, bounds)


def _divided(e: PrimExpr, bounds: Mapping[Var, Bound]) -> PrimExpr:
    has_division = e.dtype.lanes == 1 and any_below(e, lambda n: isinstance(n, (ex.FloorDiv, ex.FloorMod)))
    # A sum that wraps is another number to a division.
    if not has_division or reads_memory(e) or may_wrap(e, bounds):
        return e
    return simplify(e, bounds)


def _as_ramp(e: PrimExpr) -> PrimExpr:
    """Sums and products of ramps and repeated scalars as one of these; other vectors as they are."""
    if e.dtype.lanes == 1 or not isinstance(e, (ex.Add, ex.Sub, ex.Mul)):
        return e
    a, b = _as_ramp(e.a), _as_ramp(e.b)
    if not isinstance(a, (Ramp, Broadcast)) or not isinstance(b, (Ramp, Broadcast)) or a.lanes != b.lanes:
        return e
    (first, step), (second, other) = _parts(a), _parts(b)
    if first.dtype.lanes != 1:
        return e
    if isinstance(e, ex.Mul):
        if isinstance(a, Ramp) and isinstance(b, Ramp):
            return e
        by, ramp = (second, (first, step)) if isinstance(a, Ramp) else (first, (second, other))
        start, stride = mul(ramp[0], by), mul(ramp[1], by)
    else:
        build = add if isinstance(e, ex.Add) else sub
        start, stride = build(first, second), build(step, other)
    both = isinstance(a, Broadcast) and isinstance(b, Broadcast)
    return Broadcast(start, a.lanes) if both else Ramp(start, stride, a.lanes)


def _parts(e: Ramp | Broadcast) -> tuple[PrimExpr, PrimExpr]:
    return (e.base, e.stride) if isinstance(e, Ramp) else (e.value, const(0, e.value.dtype))


__all__ = ["plain_index"]
