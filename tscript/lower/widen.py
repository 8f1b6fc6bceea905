"""Expressions for all lanes of a vectorised loop at once.

What is the same in all lanes stays a scalar. Where only some lanes run, loads are masked, and divisors of the
lanes that do not are replaced by one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tscript.ir import construct
from tscript.ir import expr as ex
from tscript.ir.buffer import Buffer
from tscript.ir.construct import add, const, mul
from tscript.ir.expr import Broadcast, BufferLoad, Call, Cast, IntImm, Let, Op, PrimExpr, Ramp, Select, Var
from tscript.ir.functor import children
from tscript.ir.linear import from_linear, linear_form
from tscript.lower.lane_dependence import NotVector

_ELEMENTWISE: Final = frozenset(
    "tir." + n
    for n in (
        "sqrt rsqrt floor ceil trunc round nearbyint fabs isnan isinf isfinite popcount clz copysign "
        "bitwise_and bitwise_or bitwise_xor bitwise_not shift_left shift_right "
        "exp exp2 exp10 log log2 log10 log1p tan cos sin cosh sinh tanh acos asin atan acosh asinh atanh erf sigmoid "
        "pow fmod atan2 hypot nextafter ldexp"
    ).split()
)
"""Intrinsics that work lane by lane."""
_DIVISIONS: Final = (ex.Div, ex.Mod, ex.FloorDiv, ex.FloorMod)


@dataclass(frozen=True, slots=True)
class Mask:
    """Which lanes run: all without `bits`. `some`: at least one does, so that what is the same in all may be done."""

    bits: PrimExpr | None = None
    some: bool = True

    def also(self, condition: PrimExpr) -> Mask:
        """The lanes in which `condition` holds too; maybe none."""
        return Mask(condition if self.bits is None else construct.and_(self.bits, condition), False)


ALL: Final = Mask()


class Widen:
    """Expressions with a scalar variable replaced by a ramp."""

    def __init__(self, var: Var, ramp: Ramp, private: Mapping[Var, None]) -> None:
        self.lanes = ramp.lanes
        self.values: dict[Var, PrimExpr] = {var: ramp}
        # Memory of which every lane has its own, interleaved.
        self._private = private
        self._buffers: dict[Buffer, Buffer] = {}
        self._done: dict[Mask, dict[PrimExpr, PrimExpr]] = {}

    def buffer(self, buffer: Buffer) -> Buffer:
        """`buffer`, with room for every lane where each has its own."""
        if buffer.data not in self._private:
            return buffer
        if buffer not in self._buffers:
            (size,) = buffer.shape
            self._buffers[buffer] = buffer.replace(shape=(mul(size, const(self.lanes, size.dtype)),))
        return self._buffers[buffer]

    def vector(self, e: PrimExpr, mask: Mask) -> PrimExpr:
        """`e` for all lanes. Raises NotVector where that has no form."""
        return self.broadcast(self(e, mask))

    def broadcast(self, e: PrimExpr) -> PrimExpr:
        """A value of all lanes as a vector."""
        return e if e.dtype.lanes == self.lanes else Broadcast(e, self.lanes)

    def __call__(self, root: PrimExpr, mask: Mask) -> PrimExpr:
        """`root` for all lanes, or as a scalar where it is the same in all."""
        done = self._done.setdefault(mask, {})
        stack = [(root, False)]
        while stack:
            e, ready = stack.pop()
            if e in done:
                continue
            if e.dtype.lanes != 1:
                raise NotVector
            if ready:
                done[e] = self._widened(e, mask)
            elif isinstance(e, Var):
                done[e] = self.values.get(e, e)
            elif isinstance(e, Let):
                done[e] = self._let(e, mask)
            elif _is_choice(e):
                done[e] = self._choice(e, mask)
            else:
                stack.append((e, True))
                stack.extend((c, False) for c in children(e) if isinstance(c, PrimExpr))
        return done[root]

    def index(self, access: Any, mask: Mask) -> PrimExpr:
        """The index of a load or store, in memory of the lane's own where it is that."""
        if access.buffer.dtype.lanes != 1 or access.predicate is not None or len(access.indices) != 1:
            raise NotVector
        index = self(access.indices[0], mask)
        if access.buffer.data not in self._private:
            return index
        lanes = Ramp(const(0, index.dtype.element), const(1, index.dtype.element), self.lanes)
        if index.dtype.lanes == 1:
            return Ramp(mul(index, const(self.lanes, index.dtype)), lanes.stride, self.lanes)
        return add(mul(index, Broadcast(const(self.lanes, index.dtype.element), self.lanes)), lanes)

    # -- kinds of expressions ----------------------------------------------------------------------

    def _widened(self, e: PrimExpr, mask: Mask) -> PrimExpr:
        if isinstance(e, BufferLoad):
            return self._load(e, mask)
        below = [c for c in children(e) if isinstance(c, PrimExpr)]
        parts = [self(c, mask) for c in below]
        divides = isinstance(e, _DIVISIONS) and e.dtype.is_integer and not isinstance(e.b, IntImm)
        if divides and mask.bits is not None and (parts[1].dtype.lanes != 1 or not mask.some):
            one = Broadcast(const(1, e.dtype), self.lanes)
            parts[1] = Select(mask.bits, self.broadcast(parts[1]), one)
        if all(p is c for p, c in zip(parts, below, strict=True)):
            return e
        if all(p.dtype.lanes == 1 for p in parts):
            return _rebuilt(e, parts)
        linear = self._linear(e, parts)
        return linear if linear is not None else _rebuilt(e, [self.broadcast(p) for p in parts], self.lanes)

    def _linear(self, e: PrimExpr, parts: list[PrimExpr]) -> PrimExpr | None:
        """Sums and products of a ramp and a scalar are ramps; index arithmetic does not overflow."""
        if isinstance(e, Cast):
            (p,) = parts
            if isinstance(p, Ramp) and p.dtype.is_int and e.dtype.is_int and p.dtype.bits <= e.dtype.bits:
                return Ramp(construct.cast(p.base, e.dtype), construct.cast(p.stride, e.dtype), p.lanes)
            return None
        if not e.dtype.is_int or e.dtype.bits < 32:
            return None
        if isinstance(e, (ex.FloorDiv, ex.FloorMod)):
            return _divided(e, *parts)
        if not isinstance(e, (ex.Add, ex.Sub, ex.Mul)):
            return None
        a, b = parts
        if isinstance(a, Ramp) and isinstance(b, Ramp) and not isinstance(e, ex.Mul):
            build: Callable[..., PrimExpr] = add if isinstance(e, ex.Add) else construct.sub
            stride = build(a.stride, b.stride)
            if isinstance(stride, IntImm) and stride.value == 0:
                return build(a.base, b.base)
            return Ramp(build(a.base, b.base), stride, a.lanes)
        if isinstance(a, Ramp) and b.dtype.lanes == 1:
            if isinstance(e, ex.Mul):
                return Ramp(mul(a.base, b), mul(a.stride, b), a.lanes)
            return Ramp((construct.sub if isinstance(e, ex.Sub) else add)(a.base, b), a.stride, a.lanes)
        if isinstance(b, Ramp) and a.dtype.lanes == 1:
            if isinstance(e, ex.Mul):
                return Ramp(mul(a, b.base), mul(a, b.stride), b.lanes)
            if isinstance(e, ex.Add):
                return Ramp(add(a, b.base), b.stride, b.lanes)
            return Ramp(construct.sub(a, b.base), construct.sub(const(0, e.dtype), b.stride), b.lanes)
        return None

    def _load(self, e: BufferLoad, mask: Mask) -> PrimExpr:
        index = self.index(e, mask)
        if index.dtype.lanes == 1 and mask.some:
            return e if index is e.indices[0] else BufferLoad(self.buffer(e.buffer), (index,))
        if index.dtype.lanes == 1:
            # All lanes read one element, if any does.
            index = Broadcast(index, self.lanes)
        return BufferLoad(self.buffer(e.buffer), (index,), mask.bits)

    def _let(self, e: Let, mask: Mask) -> PrimExpr:
        value = self(e.value, mask)
        var = e.var if value.dtype.lanes == 1 else e.var.copy_with(dtype=str(value.dtype))
        self.values[e.var] = var
        body = self(e.body, mask)
        return e if value is e.value and body is e.body else Let(var, value, body)

    def _choice(self, e: Any, mask: Mask) -> PrimExpr:
        """`T.if_then_else`, `and`, `or` and `T.Select`: what is not chosen need not be there to be read."""
        if isinstance(e, (ex.And, ex.Or)):
            a = self(e.a, mask)
            b = self(e.b, mask if a.dtype.lanes == 1 else mask.also(a if isinstance(e, ex.And) else construct.not_(a)))
            if a.dtype.lanes == b.dtype.lanes == 1:
                return e if a is e.a and b is e.b else type(e)(a, b)
            return type(e)(self.broadcast(a), self.broadcast(b))
        is_call = isinstance(e, Call)
        condition, then, otherwise = e.args if is_call else (e.condition, e.true_value, e.false_value)
        c = self(condition, mask)
        if c.dtype.lanes == 1:
            x, y = self(then, mask), self(otherwise, mask)
            if x is then and y is otherwise and c is condition:
                return e
            if x.dtype.lanes == y.dtype.lanes == 1:
                return Call(e.dtype, e.op, (c, x, y)) if is_call else Select(c, x, y)
            x, y = self.broadcast(x), self.broadcast(y)
            return Call(x.dtype, e.op, (c, x, y)) if is_call else Select(self.broadcast(c), x, y)
        if is_call:
            # Only the lanes that choose a branch read what it reads.
            return Select(c, self.vector(then, mask.also(c)), self.vector(otherwise, mask.also(construct.not_(c))))
        return Select(c, self.vector(then, mask), self.vector(otherwise, mask))


def _divided(e: ex.FloorDiv | ex.FloorMod, a: PrimExpr, b: PrimExpr) -> PrimExpr | None:
    """A ramp divided by a constant, where all lanes are seen to have one quotient; the remainders are a ramp then."""
    if not isinstance(a, Ramp) or not isinstance(b, IntImm) or b.value <= 0:
        return None
    if not isinstance(a.stride, IntImm) or a.stride.value < 0:
        return None
    divisor, (terms, constant) = b.value, linear_form(a.base)
    # The base is the constant plus a multiple of `step`, as is every multiple of the divisor.
    step = math.gcd(divisor, *terms.values())
    if constant % step + a.stride.value * (a.lanes - 1) >= step:
        return None
    dtype = a.base.dtype
    rest = from_linear(({t: c for t, c in terms.items() if c % divisor}, constant % divisor), dtype)
    if isinstance(e, ex.FloorMod):
        return Ramp(construct.floormod(rest, b), a.stride, a.lanes)
    whole = from_linear(({t: c // divisor for t, c in terms.items() if c % divisor == 0}, constant // divisor), dtype)
    return add(whole, construct.floordiv(rest, b))


def _is_choice(e: PrimExpr) -> bool:
    if isinstance(e, Call):
        return isinstance(e.op, Op) and e.op.name == "tir.if_then_else"
    return isinstance(e, (ex.And, ex.Or, Select))


def _rebuilt(e: PrimExpr, parts: list[PrimExpr], lanes: int = 1) -> PrimExpr:
    if isinstance(e, Cast):
        return Cast(e.dtype.with_lanes(lanes), parts[0])
    if isinstance(e, Call):
        if not isinstance(e.op, Op) or e.op.name not in _ELEMENTWISE:
            raise NotVector
        return Call(e.dtype.with_lanes(lanes), e.op, tuple(parts))
    if isinstance(e, (ex.BinaryExpr, ex.Not)):
        return type(e)(*parts)
    raise NotVector


# -- conditions -------------------------------------------------------------------------------------


def any_lane(v: PrimExpr) -> PrimExpr | None:
    """A scalar condition: whether the vector condition `v` holds in some lane. None where that is not seen."""
    if isinstance(v, ex.And):
        for one, other in ((v.a, v.b), (v.b, v.a)):
            if isinstance(one, Broadcast):
                rest = any_lane(other)
                return None if rest is None else construct.and_(one.value, rest)
    lane = _best_lane(v)
    return None if lane is None else _at(v, lane)


def _best_lane(v: PrimExpr) -> int | None:
    """A lane that `v` holds in if it holds in any."""
    if isinstance(v, ex.And):
        a, b = _best_lane(v.a), _best_lane(v.b)
        return a if a == b else None
    if isinstance(v, ex.Not):
        return None if not isinstance(v.a, (ex.LT, ex.LE, ex.GT, ex.GE)) else _edge(v.a, turned=True)
    return _edge(v, turned=False) if isinstance(v, (ex.LT, ex.LE, ex.GT, ex.GE)) else None


def _edge(v: ex.CmpExpr, turned: bool) -> int | None:
    ramp, other = (v.a, v.b) if isinstance(v.a, Ramp) else (v.b, v.a)
    if not isinstance(ramp, Ramp) or not isinstance(other, Broadcast) or not isinstance(ramp.stride, IntImm):
        return None
    if not ramp.dtype.is_int or ramp.dtype.bits < 32:
        return None
    first = isinstance(v, (ex.LT, ex.LE)) == (ramp is v.a)
    return 0 if (first == (ramp.stride.value > 0)) != turned else ramp.lanes - 1


def _at(v: PrimExpr, lane: int) -> PrimExpr:
    """A lane of a condition as a scalar."""
    match v:
        case Ramp():
            return add(v.base, mul(v.stride, lane))
        case Broadcast():
            return v.value
        case ex.Not():
            return construct.not_(_at(v.a, lane))
        case ex.And():
            return construct.and_(_at(v.a, lane), _at(v.b, lane))
        case ex.CmpExpr():
            return construct.compare(type(v), _at(v.a, lane), _at(v.b, lane))
        case _:
            raise NotVector


def combined(op: type[ex.ArithExpr], v: PrimExpr) -> PrimExpr:
    """All lanes of `v` combined by `op`: halves, until one is left."""
    lanes = v.dtype.lanes
    if lanes == 1:
        return v
    name = Var("lanes", str(v.dtype))
    if lanes % 2:
        return Let(name, v, op(combined(op, _picked(name, 0, lanes - 1)), _picked(name, lanes - 1, 1)))
    return Let(name, v, combined(op, op(_picked(name, 0, lanes // 2), _picked(name, lanes // 2, lanes // 2))))


def _picked(v: PrimExpr, start: int, count: int) -> PrimExpr:
    """`count` neighbouring lanes of `v`."""
    return ex.Shuffle((v,), tuple(const(start + i) for i in range(count)))


__all__ = ["ALL", "Mask", "NotVector", "Widen", "any_lane", "combined"]
