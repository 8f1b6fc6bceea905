"""Symbolic intervals: what values an index takes while some variables run over theirs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from tscript.arith.const_bound import Bound, const_bound
from tscript.arith.simplify import simplify
from tscript.ir import construct as make
from tscript.ir import expr as ex
from tscript.ir.expr import IntImm, PrimExpr, Var
from tscript.ir.functor import pre_order_visit
from tscript.ir.linear import difference, from_linear, linear_form


@dataclass(frozen=True, slots=True)
class Interval:
    """The integers from `low` to `high`, both inclusive, given by expressions."""

    low: PrimExpr
    high: PrimExpr

    @property
    def is_point(self) -> bool:
        """Whether both ends are the same expression."""
        return self.low is self.high

    @staticmethod
    def point(e: PrimExpr) -> Interval:
        """Just the value of `e`."""
        return Interval(e, e)


@dataclass
class Domains:
    """Intervals of the variables to relax, and constant bounds of the others.

    `positive` holds expressions known to be at least 1 (extents of loops that run).
    """

    relaxed: Mapping[Var, Interval]
    bounds: Mapping[Var, Bound] = field(default_factory=dict[Var, Bound])
    positive: Mapping[PrimExpr, None] = field(default_factory=dict[PrimExpr, None])

    def sign(self, e: PrimExpr) -> int:
        """1 for at least zero, -1 for at most zero, 0 for unknown."""
        if e in self.positive:
            return 1
        b = const_bound(e, self.bounds)
        if b.low is not None and b.low >= 0:
            return 1
        return -1 if b.high is not None and b.high <= 0 else 0

    def no_less(self, a: PrimExpr, b: PrimExpr) -> bool:
        """Whether `a >= b` is certain."""
        low = const_bound(from_linear(difference(a, b), a.dtype), self.bounds).low
        return low is not None and low >= 0


def mentions(e: PrimExpr, variables: Mapping[Var, object]) -> bool:
    """Whether one of `variables` occurs in `e`."""
    found = False

    def look(n: object) -> bool:
        nonlocal found
        found = found or (isinstance(n, Var) and n in variables)
        return not found

    pre_order_visit(e, look)
    return found


def eval_interval(e: PrimExpr, domains: Domains) -> Interval | None:
    """The values `e` takes while the relaxed variables run over their intervals.

    Exact for sums of constant multiples of distinct variables, else an interval that holds all values;
    None when nothing is known (a load or call that depends on a relaxed variable, say).
    """
    if not mentions(e, domains.relaxed) and e.dtype.lanes == 1:
        return Interval.point(e)
    rule = _RULES.get(type(e))
    return None if rule is None else rule(e, domains)


def _variable(e: PrimExpr, domains: Domains) -> Interval | None:
    return domains.relaxed.get(e) if isinstance(e, Var) else None


def _sum(e: PrimExpr, domains: Domains) -> Interval | None:
    terms, constant = linear_form(e)
    if isinstance(e, ex.Mul) and e in terms:
        return _product(e, domains)
    low: PrimExpr = IntImm(e.dtype, constant)
    high = low
    for term, factor in terms.items():
        part = eval_interval(term, domains)
        if part is None:
            return None
        first, last = (part.low, part.high) if factor > 0 else (part.high, part.low)
        low = make.add(low, make.mul(first, IntImm(e.dtype, factor)))
        high = make.add(high, make.mul(last, IntImm(e.dtype, factor)))
    return _simplified(low, high, domains)


def _simplified(low: PrimExpr, high: PrimExpr, domains: Domains) -> Interval:
    return Interval(simplify(_tidy(low), domains.bounds), simplify(_tidy(high), domains.bounds))


def _tidy(e: PrimExpr) -> PrimExpr:
    return from_linear(linear_form(e), e.dtype) if e.dtype.is_int else e


def _product(e: ex.Mul, domains: Domains) -> Interval | None:
    a, b = eval_interval(e.a, domains), eval_interval(e.b, domains)
    if a is None or b is None:
        return None
    if a.is_point:
        a, b = b, a
    if not b.is_point:
        return None
    sign = domains.sign(b.low)
    if sign == 0:
        return None
    first, last = (a.low, a.high) if sign > 0 else (a.high, a.low)
    return _simplified(make.mul(first, b.low), make.mul(last, b.low), domains)


def _floordiv(e: PrimExpr, domains: Domains) -> Interval | None:
    assert isinstance(e, ex.BinaryExpr)
    part = eval_interval(e.a, domains)
    if part is None or not (isinstance(e.b, IntImm) and e.b.value > 0):
        return None
    return _simplified(make.floordiv(part.low, e.b), make.floordiv(part.high, e.b), domains)


def _floormod(e: PrimExpr, domains: Domains) -> Interval | None:
    assert isinstance(e, ex.BinaryExpr)
    if not (isinstance(e.b, IntImm) and e.b.value > 0):
        return None
    whole = Interval(IntImm(e.dtype, 0), IntImm(e.dtype, e.b.value - 1))
    part = eval_interval(e.a, domains)
    if part is None:
        return whole
    first = simplify(make.floordiv(part.low, e.b), domains.bounds)
    last = simplify(make.floordiv(part.high, e.b), domains.bounds)
    if first is not last:
        return whole
    return _simplified(make.floormod(part.low, e.b), make.floormod(part.high, e.b), domains)


def _truncating(rule: Callable[[PrimExpr, Domains], Interval | None]) -> Callable[[PrimExpr, Domains], Interval | None]:
    def apply(e: PrimExpr, domains: Domains) -> Interval | None:
        assert isinstance(e, ex.BinaryExpr)
        part = eval_interval(e.a, domains)
        # Rounding down and toward zero agree only from zero up.
        return rule(e, domains) if part is not None and domains.sign(part.low) > 0 else None

    return apply


def _extremum(e: PrimExpr, domains: Domains) -> Interval | None:
    assert isinstance(e, ex.BinaryExpr)
    a, b = eval_interval(e.a, domains), eval_interval(e.b, domains)
    if a is None or b is None:
        return None
    pick = make.min_ if isinstance(e, ex.Min) else make.max_
    return _simplified(pick(a.low, b.low), pick(a.high, b.high), domains)


def _select(e: PrimExpr, domains: Domains) -> Interval | None:
    assert isinstance(e, ex.Select)
    return _either(e.true_value, e.false_value, domains)


def _either(x: PrimExpr, y: PrimExpr, domains: Domains) -> Interval | None:
    a, b = eval_interval(x, domains), eval_interval(y, domains)
    return None if a is None or b is None else union(a, b, domains)


def _call(e: PrimExpr, domains: Domains) -> Interval | None:
    assert isinstance(e, ex.Call)
    name = e.op.name if isinstance(e.op, ex.Op) else ""
    if name == "tir.if_then_else":
        return _either(e.args[1], e.args[2], domains)
    if name == "tir.likely":
        return eval_interval(e.args[0], domains)
    return None


def _cast(e: PrimExpr, domains: Domains) -> Interval | None:
    assert isinstance(e, ex.Cast)
    if not (e.dtype.is_int and e.value.dtype.is_integer and e.dtype.bits >= e.value.dtype.bits):
        return None
    part = eval_interval(e.value, domains)
    return None if part is None else Interval(make.cast(part.low, e.dtype), make.cast(part.high, e.dtype))


def _ramp(e: PrimExpr, domains: Domains) -> Interval | None:
    assert isinstance(e, ex.Ramp)
    base, stride = eval_interval(e.base, domains), eval_interval(e.stride, domains)
    if base is None or stride is None:
        return None
    reach = IntImm(e.base.dtype, e.lanes - 1)
    if not stride.is_point:
        return None
    sign = domains.sign(stride.low)
    if sign == 0:
        return None
    step = make.mul(stride.low, reach)
    if sign > 0:
        return _simplified(base.low, make.add(base.high, step), domains)
    return _simplified(make.add(base.low, step), base.high, domains)


def _broadcast(e: PrimExpr, domains: Domains) -> Interval | None:
    assert isinstance(e, ex.Broadcast)
    return eval_interval(e.value, domains)


_RULES: Final[dict[type[PrimExpr], Callable[[PrimExpr, Domains], Interval | None]]] = {
    Var: _variable,
    ex.SizeVar: _variable,
    ex.Add: _sum,
    ex.Sub: _sum,
    ex.Mul: _sum,
    ex.FloorDiv: _floordiv,
    ex.FloorMod: _floormod,
    ex.Div: _truncating(_floordiv),
    ex.Mod: _truncating(_floormod),
    ex.Min: _extremum,
    ex.Max: _extremum,
    ex.Select: _select,
    ex.Call: _call,
    ex.Cast: _cast,
    ex.Ramp: _ramp,
    ex.Broadcast: _broadcast,
}


def union(a: Interval, b: Interval, domains: Domains) -> Interval:
    """The smallest interval that holds both; ends that cannot be compared give `min` and `max` expressions."""
    if a.low is b.low and a.high is b.high:
        return a
    low = (
        a.low if domains.no_less(b.low, a.low) else b.low if domains.no_less(a.low, b.low) else make.min_(a.low, b.low)
    )
    high = (
        a.high
        if domains.no_less(a.high, b.high)
        else b.high
        if domains.no_less(b.high, a.high)
        else make.max_(a.high, b.high)
    )
    return Interval(low, high)
