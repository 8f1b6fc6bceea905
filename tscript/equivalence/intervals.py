"""Between which numbers index expressions lie, for many values of a variable at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tscript.ir import expr as ex
from tscript.ir.expr import Call, IntImm, PrimExpr, Var

Bounds = tuple[Any, Any]
"""The least and the largest value: numbers, or arrays of them."""

FAR = 1 << 40
"""Stands for no bound. Small enough for sums and clipped products of it to fit int64."""
ANYTHING: Bounds = (-FAR, FAR)


def bounds_of(e: PrimExpr, known: Mapping[Var, Bounds], values: Mapping[Var, PrimExpr]) -> Bounds:
    """Bounds of an integer expression. Variables have `known` bounds or are bound to other expressions by `values`."""
    if isinstance(e, IntImm):
        return (e.value, e.value)
    if isinstance(e, Var):
        if e in known:
            return known[e]
        return bounds_of(values[e], known, values) if e in values else ANYTHING

    def of(x: PrimExpr) -> Bounds:
        return bounds_of(x, known, values)

    rule = _BINARY.get(type(e))
    if rule is not None:
        assert isinstance(e, ex.BinaryExpr)
        # Narrower and unsigned arithmetic wraps.
        return rule(of(e.a), of(e.b)) if e.dtype.is_int and e.dtype.bits >= 32 else ANYTHING
    match e:
        case ex.Cast(value=value) if value.dtype.is_integer and e.dtype.bits >= 32:
            return of(value)
        case ex.Select(true_value=a, false_value=b):
            return _hull(of(a), of(b))
        case Call(op=ex.Op(name="tir.if_then_else"), args=(_, a, b)):
            return _hull(of(a), of(b))
        case ex.Ramp(base=base, stride=stride, lanes=lanes):
            low = of(base)
            return _hull(low, _add(low, _mul(of(stride), (lanes - 1, lanes - 1))))
        case ex.Broadcast(value=value):
            return of(value)
        case _:
            return ANYTHING


def _clip(x: Any) -> Any:
    return np.clip(x, -FAR, FAR)


def _add(a: Bounds, b: Bounds) -> Bounds:
    return _clip(a[0] + b[0]), _clip(a[1] + b[1])


def _sub(a: Bounds, b: Bounds) -> Bounds:
    return _clip(a[0] - b[1]), _clip(a[1] - b[0])


def _mul(a: Bounds, b: Bounds) -> Bounds:
    # In floats, the product of two far bounds does not wrap; what is not far is exact.
    products = [np.multiply(x, y, dtype=np.float64) for x in a for y in b]
    least, most = np.minimum.reduce(products), np.maximum.reduce(products)
    return _clip(least).astype(np.int64), _clip(most).astype(np.int64)


def _divisor(b: Bounds) -> int | None:
    """A divisor that is one positive number."""
    return int(b[0]) if np.ndim(b[0]) == 0 and b[0] == b[1] and b[0] > 0 else None


def _floor_div(a: Bounds, b: Bounds) -> Bounds:
    d = _divisor(b)
    return ANYTHING if d is None else (np.floor_divide(a[0], d), np.floor_divide(a[1], d))


def _floor_mod(a: Bounds, b: Bounds) -> Bounds:
    d = _divisor(b)
    if d is None:
        return ANYTHING
    same = np.floor_divide(a[0], d) == np.floor_divide(a[1], d)
    return np.where(same, np.mod(a[0], d), 0), np.where(same, np.mod(a[1], d), d - 1)


def _hull(a: Bounds, b: Bounds) -> Bounds:
    return np.minimum(a[0], b[0]), np.maximum(a[1], b[1])


_BINARY: dict[type[PrimExpr], Callable[[Bounds, Bounds], Bounds]] = {
    ex.Add: _add,
    ex.Sub: _sub,
    ex.Mul: _mul,
    ex.FloorDiv: _floor_div,
    ex.FloorMod: _floor_mod,
    ex.Min: lambda a, b: (np.minimum(a[0], b[0]), np.minimum(a[1], b[1])),
    ex.Max: lambda a, b: (np.maximum(a[0], b[0]), np.maximum(a[1], b[1])),
}
