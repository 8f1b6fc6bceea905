"""Constant bounds of integer expressions, with unbounded Python integers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from tscript.ir import expr as ex
from tscript.ir.dtype import int_range
from tscript.ir.expr import PrimExpr, Var


@dataclass(frozen=True, slots=True)
class Bound:
    """All integers from `low` to `high`, both inclusive; None is minus or plus infinity."""

    low: int | None
    high: int | None

    @property
    def non_negative(self) -> bool:
        """No negative value."""
        return self.low is not None and self.low >= 0

    @property
    def constant(self) -> int | None:
        """The only value, if there is just one."""
        return self.low if self.low is not None and self.low == self.high else None


EVERYTHING: Final = Bound(None, None)
Bounds = Mapping[Var, Bound]


def const_bound(expr: PrimExpr, bounds: Bounds, memo: dict[PrimExpr, Bound] | None = None) -> Bound:
    """Bounds of `expr`, given those of variables.

    Variables without an entry have none (a SizeVar is at least 0). Index arithmetic is taken not to
    overflow; casts to a narrower type and loads give the range of their type. `memo` holds what is
    known already and takes what is found.

    >>> i = Var("i")
    >>> const_bound(i * 4 + 3, {i: Bound(0, 7)})
    Bound(low=3, high=31)
    """
    if memo is None:
        memo = {}
    found = memo.get(expr)
    if found is not None:
        return found
    stack = [expr]
    while stack:
        e = stack[-1]
        if e in memo:
            stack.pop()
            continue
        operands = _OPERANDS.get(type(e), _no_operands)(e)
        todo = [x for x in operands if x not in memo]
        if todo:
            stack.extend(todo)
            continue
        bound = _combine(e, [memo[x] for x in operands], bounds)
        # Unsigned and narrow arithmetic wraps.
        wraps = operands and e.dtype.is_integer and not (e.dtype.is_int and e.dtype.bits >= 32)
        memo[e] = _within_type(e, bound) if wraps else bound
        stack.pop()
    return memo[expr]


def _no_operands(_: PrimExpr) -> tuple[PrimExpr, ...]:
    return ()


def _both(e: PrimExpr) -> tuple[PrimExpr, ...]:
    return (e.a, e.b) if isinstance(e, ex.BinaryExpr) else ()


def _branches(e: PrimExpr) -> tuple[PrimExpr, ...]:
    return (e.true_value, e.false_value) if isinstance(e, ex.Select) else ()


def _call_branches(e: PrimExpr) -> tuple[PrimExpr, ...]:
    if isinstance(e, ex.Call) and isinstance(e.op, ex.Op):
        if e.op.name == "tir.if_then_else":
            return (e.args[1], e.args[2])
        if e.op.name in ("tir.bitwise_and", "tir.shift_right", "tir.likely"):
            return e.args
    return ()


def _operand(e: PrimExpr) -> tuple[PrimExpr, ...]:
    if isinstance(e, ex.Cast):
        return (e.value,) if e.value.dtype.is_integer or e.value.dtype.is_bool else ()
    return (e.value,) if isinstance(e, ex.Broadcast) else ()


def _ramp(e: PrimExpr) -> tuple[PrimExpr, ...]:
    return (e.base, e.stride) if isinstance(e, ex.Ramp) else ()


_OPERANDS: Final[dict[type[PrimExpr], Callable[[PrimExpr], tuple[PrimExpr, ...]]]] = {
    **dict.fromkeys((ex.Add, ex.Sub, ex.Mul, ex.FloorDiv, ex.FloorMod, ex.Div, ex.Mod, ex.Min, ex.Max), _both),
    ex.Select: _branches,
    ex.Call: _call_branches,
    ex.Cast: _operand,
    ex.Broadcast: _operand,
    ex.Ramp: _ramp,
}


def _combine(e: PrimExpr, parts: list[Bound], bounds: Bounds) -> Bound:
    match e:
        case ex.IntImm():
            return Bound(e.value, e.value)
        case ex.Var():
            found = bounds.get(e)
            return found if found is not None else Bound(0, None) if isinstance(e, ex.SizeVar) else EVERYTHING
        case ex.Add():
            return Bound(_plus(parts[0].low, parts[1].low), _plus(parts[0].high, parts[1].high))
        case ex.Sub():
            return Bound(_plus(parts[0].low, _minus(parts[1].high)), _plus(parts[0].high, _minus(parts[1].low)))
        case ex.Mul():
            return _product(parts[0], parts[1])
        case ex.FloorDiv():
            return _floordiv(parts[0], parts[1])
        case ex.FloorMod():
            return _floormod(parts[0], parts[1])
        case ex.Div() if parts[0].non_negative and parts[1].non_negative:
            return _floordiv(parts[0], parts[1])
        case ex.Mod() if parts[0].non_negative and parts[1].non_negative:
            return _floormod(parts[0], parts[1])
        case ex.Min():
            return Bound(_least(parts[0].low, parts[1].low), _tighter_high(parts[0].high, parts[1].high))
        case ex.Max():
            return Bound(_tighter_low(parts[0].low, parts[1].low), _greatest(parts[0].high, parts[1].high))
        case ex.Ramp():
            steps = _product(parts[1], Bound(0, e.lanes - 1))
            return Bound(_plus(parts[0].low, steps.low), _plus(parts[0].high, steps.high))
        case ex.Call() if parts:
            return _call(e, parts)
        case ex.Select() | ex.Broadcast():
            return union(*parts)
        case ex.Cast() if parts:
            return _within_type(e, parts[0])
        case _:
            return _type_range(e)


def _call(e: ex.Call, parts: list[Bound]) -> Bound:
    name = e.op.name if isinstance(e.op, ex.Op) else ""
    if name == "tir.bitwise_and":
        masks = [p.high for p in parts if p.non_negative and p.high is not None]
        return Bound(0, min(masks)) if masks else _type_range(e)
    if name == "tir.shift_right":
        count = parts[1].constant
        return (
            _floordiv(parts[0], Bound(1 << count, 1 << count)) if count is not None and count >= 0 else _type_range(e)
        )
    return parts[0] if name == "tir.likely" else union(*parts)


def _type_range(e: PrimExpr) -> Bound:
    if e.dtype.is_bool or (e.dtype.is_integer and isinstance(e, (ex.BufferLoad, ex.Call, ex.Cast))):
        return Bound(*int_range(e.dtype))
    return EVERYTHING


def _within_type(e: PrimExpr, inner: Bound) -> Bound:
    low, high = int_range(e.dtype)
    fits = inner.low is not None and inner.high is not None and low <= inner.low and inner.high <= high
    return inner if fits else Bound(low, high)


def union(*parts: Bound) -> Bound:
    """The smallest bound that holds all of `parts`."""
    result = parts[0]
    for p in parts[1:]:
        result = Bound(_least(result.low, p.low), _greatest(result.high, p.high))
    return result


def _plus(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else a + b


def _minus(a: int | None) -> int | None:
    return None if a is None else -a


def _least(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else min(a, b)


def _greatest(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else max(a, b)


def _tighter_high(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else min(a, b)


def _tighter_low(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else max(a, b)


def _product(a: Bound, b: Bound) -> Bound:
    if a.constant == 0 or b.constant == 0:
        return Bound(0, 0)
    corners = [_times(x, y) for x in _ends(a) for y in _ends(b)]
    low = None if any(c == -_INFINITE for c in corners) else min(corners)
    high = None if any(c == _INFINITE for c in corners) else max(corners)
    return Bound(_least_end(low), _greatest_end(high))


_LARGEST: Final = 1 << 1024
"""What repeated products exceed counts as no bound: numbers twice as long at each step would fill the memory."""


def _least_end(low: int | float | None) -> int | None:
    return None if low is None or low < -_LARGEST else min(int(low), _LARGEST)


def _greatest_end(high: int | float | None) -> int | None:
    return None if high is None or high > _LARGEST else max(int(high), -_LARGEST)


_INFINITE: Final = float("inf")


def _ends(a: Bound) -> tuple[int | float, int | float]:
    return (-_INFINITE if a.low is None else a.low, _INFINITE if a.high is None else a.high)


def _times(x: int | float, y: int | float) -> int | float:
    if x == 0 or y == 0:
        return 0
    if isinstance(x, float) or isinstance(y, float):
        return _INFINITE if (x > 0) == (y > 0) else -_INFINITE
    return x * y


def _floordiv(a: Bound, b: Bound) -> Bound:
    if b.low is None or b.low < 1:
        return EVERYTHING if b.constant is None or b.constant == 0 else _floordiv(_negated(a), _negated(b))
    # The quotient moves away from zero as the divisor shrinks.
    low = None if a.low is None else a.low // b.low if a.low < 0 else 0 if b.high is None else a.low // b.high
    high = None if a.high is None else a.high // b.low if a.high >= 0 else -1 if b.high is None else a.high // b.high
    return Bound(low, high)


def _negated(a: Bound) -> Bound:
    return Bound(_minus(a.high), _minus(a.low))


def _floormod(a: Bound, b: Bound) -> Bound:
    if b.low is None or b.low < 1:
        if b.constant is None or b.constant == 0:
            return EVERYTHING
        return Bound(b.constant + 1, 0)
    if a.non_negative and a.high is not None and a.high < b.low:
        return a
    if b.constant is not None and a.low is not None and a.high is not None and a.low // b.low == a.high // b.low:
        return Bound(a.low % b.low, a.high % b.low)
    high = None if b.high is None else b.high - 1
    return Bound(0, _tighter_high(high, a.high) if a.non_negative else high)
