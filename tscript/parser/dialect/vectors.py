"""Vectors: making them, taking them apart."""

from __future__ import annotations

from collections.abc import Sequence

from tscript.ir.construct import cast, convert, promote
from tscript.ir.dtype import DataType
from tscript.ir.expr import Broadcast as BroadcastNode
from tscript.ir.expr import IntImm, PrimExpr
from tscript.ir.expr import Ramp as RampNode
from tscript.ir.expr import Shuffle as ShuffleNode
from tscript.parser.dialect.values import Value, call, dtype_first, op_function


def _lanes(value: Value) -> int:
    if isinstance(value, IntImm):
        return value.value
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"the number of lanes is a constant, not {value}")
    return value


def ramp(base: Value, stride: Value, lanes: Value) -> PrimExpr:
    """The vector `base, base + stride, ...`; `base` itself for one lane."""
    start, count = convert(base), _lanes(lanes)
    step = convert(stride) if isinstance(stride, PrimExpr) else cast(stride, start.dtype)
    if start.dtype is not step.dtype:
        start, step = promote(start, step)
    return start if count == 1 else RampNode(start, step, count)


def broadcast(value: Value, lanes: Value) -> PrimExpr:
    """A vector whose lanes all hold `value`; `value` itself for one lane."""
    e, count = convert(value), _lanes(lanes)
    return e if count == 1 else BroadcastNode(e, count)


Ramp = ramp
Broadcast = broadcast


def Shuffle(vectors: Sequence[Value], indices: Sequence[Value]) -> PrimExpr:
    """The lanes number `indices` (constants) of the vectors laid end to end."""
    return ShuffleNode(tuple(convert(v) for v in vectors), tuple(convert(i) for i in indices))


@op_function
def vscale() -> PrimExpr:
    """How often the machine's vectors hold the smallest scalable one."""
    return call("int32", "vscale")


@dtype_first
def vectorlow(dtype: str, vec: Value) -> PrimExpr:
    """The lower half of the lanes of `vec`."""
    return _half("vectorlow", dtype, vec)


@dtype_first
def vectorhigh(dtype: str, vec: Value) -> PrimExpr:
    """The upper half of the lanes of `vec`."""
    return _half("vectorhigh", dtype, vec)


def _half(name: str, dtype: str, vec: Value) -> PrimExpr:
    e, target = convert(vec), DataType(dtype)
    if target.element is not e.dtype.element or 2 * target.lanes != e.dtype.lanes:
        raise TypeError(f"{name} of {e.dtype!s} cannot be {target!s}: it has half the lanes, of the same type")
    return call(target, name, e)


@dtype_first
def vectorcombine(dtype: str, vec1: Value, vec2: Value) -> PrimExpr:
    """The lanes of `vec1`, then those of `vec2`."""
    low, high, target = convert(vec1), convert(vec2), DataType(dtype)
    if low.dtype is not high.dtype or target is not low.dtype.with_lanes(2 * low.dtype.lanes):
        raise TypeError(f"vectorcombine of {low.dtype!s} and {high.dtype!s} cannot be {target!s}")
    return call(target, "vectorcombine", low, high)


@dtype_first
def get_active_lane_mask(dtype: str, base: Value, limit: Value) -> PrimExpr:
    """A bool for each lane `i`: whether `base + i < limit`."""
    first, end = promote(base, limit)
    target = DataType(dtype)
    if not target.is_bool:
        raise TypeError(f"a lane mask is a vector of bools, not {target!s}")
    return call(target, "get_active_lane_mask", first, end)


@dtype_first
def dp4a(dtype: str, vec1: Value, vec2: Value, acc: Value = 0) -> PrimExpr:
    """`acc` plus the sum of the products of four 8-bit lanes."""
    a, b = convert(vec1), convert(vec2)
    for v in (a, b):
        if v.dtype.bits != 8 or v.dtype.lanes != 4 or not v.dtype.is_integer:
            raise TypeError(f"dp4a multiplies vectors of four 8-bit integers, not {v.dtype!s}")
    total = acc if isinstance(acc, PrimExpr) else cast(acc, dtype)
    return call(dtype, "dp4a", a, b, total)


__all__ = [
    "ramp", "broadcast", "Ramp", "Broadcast", "Shuffle", "vscale", "vectorlow", "vectorhigh", "vectorcombine",
    "get_active_lane_mask", "dp4a",
]  # fmt: skip
