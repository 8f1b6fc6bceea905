"""Simplification of index arithmetic. An expression that cannot be made smaller is returned as it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tscript.arith.const_bound import Bound, const_bound
from tscript.ir import construct as make
from tscript.ir import expr as ex
from tscript.ir.dtype import BOOL, int_range
from tscript.ir.expr import IntImm, PrimExpr, Var
from tscript.ir.functor import Rewriter, children
from tscript.ir.linear import LinearForm, difference, from_linear, linear_form


def simplify(expr: PrimExpr, bounds: Mapping[Var, Bound] | None = None) -> PrimExpr:
    """An equal expression, of fewer operations where the rules here find one.

    `bounds` gives ranges of variables. Signed index arithmetic is taken not to overflow; unsigned and
    floating-point arithmetic is left alone.

    >>> i = Var("i")
    >>> simplify((i * 4 + 3) // 4) is i
    True
    """
    return _Simplifier(bounds or {}).rewrite(expr)


class _Simplifier(Rewriter):
    def __init__(self, bounds: Mapping[Var, Bound]) -> None:
        super().__init__()
        self.bounds = bounds

    def bound(self, e: PrimExpr) -> Bound:
        return const_bound(e, self.bounds)

    def _linear(self, e: Any) -> PrimExpr:
        if not _is_index(e):
            return e
        rebuilt = from_linear(linear_form(e), e.dtype)
        return rebuilt if _size(rebuilt) < _size(e) else e

    leave_Add = leave_Sub = leave_Mul = _linear

    def leave_FloorDiv(self, e: ex.FloorDiv) -> PrimExpr:
        """Terms that the divisor divides come out; a rest within one period vanishes."""
        split = self._split(e)
        if split is None:
            return e
        quotient, rest, divisor = split
        dtype = e.dtype
        below = self.bound(from_linear(rest, dtype))
        if below.low is not None and below.high is not None and below.low // divisor == below.high // divisor:
            terms, constant = quotient
            return self._smaller(e, from_linear((terms, constant + below.low // divisor), dtype))
        if quotient[0] or quotient[1]:
            inner = make.floordiv(from_linear(rest, dtype), IntImm(dtype, divisor))
            return self._smaller(e, make.add(from_linear(quotient, dtype), inner))
        if isinstance(e.a, ex.FloorDiv) and isinstance(e.a.b, IntImm) and e.a.b.value > 0:
            product = e.a.b.value * divisor
            if product <= int_range(dtype)[1]:
                return make.floordiv(e.a.a, IntImm(dtype, product))
        return e

    def leave_FloorMod(self, e: ex.FloorMod) -> PrimExpr:
        """Terms that the divisor divides vanish; a rest within the first period stands for itself."""
        split = self._split(e)
        if split is None:
            return e
        quotient, rest, divisor = split
        dtype = e.dtype
        left = from_linear(rest, dtype)
        below = self.bound(left)
        if below.low is not None and below.high is not None and below.low // divisor == below.high // divisor:
            terms, constant = rest
            return self._smaller(e, from_linear((terms, constant - below.low // divisor * divisor), dtype))
        if quotient[0] or quotient[1]:
            return self._smaller(e, make.floormod(left, IntImm(dtype, divisor)))
        return e

    def _split(self, e: ex.BinaryExpr) -> tuple[LinearForm, LinearForm, int] | None:
        """Numerator as `divisor * quotient + rest`."""
        if not (_is_index(e) and isinstance(e.b, IntImm) and e.b.value > 0):
            return None
        divisor = e.b.value
        terms, constant = linear_form(e.a)
        quotient = {t: c // divisor for t, c in terms.items() if c % divisor == 0}
        rest = {t: c for t, c in terms.items() if c % divisor != 0}
        return (quotient, constant // divisor), (rest, constant % divisor), divisor

    def _smaller(self, old: PrimExpr, new: PrimExpr) -> PrimExpr:
        return new if _size(new) < _size(old) else old

    def _extremum(self, e: Any) -> PrimExpr:
        if not _is_index(e):
            return e
        gap = self.bound(from_linear(difference(e.a, e.b), e.dtype))
        smaller, larger = (e.a, e.b) if isinstance(e, ex.Min) else (e.b, e.a)
        if gap.high is not None and gap.high <= 0:
            return smaller
        return larger if gap.low is not None and gap.low >= 0 else e

    leave_Min = leave_Max = _extremum

    def _comparison(self, e: Any) -> PrimExpr:
        if not _is_index(e.a):
            return e
        gap = self.bound(from_linear(difference(e.a, e.b), e.a.dtype))
        truth = _decide(type(e).__name__, gap)
        return e if truth is None else IntImm(BOOL, int(truth))

    leave_EQ = leave_NE = leave_LT = leave_LE = leave_GT = leave_GE = _comparison

    def leave_And(self, e: ex.And) -> PrimExpr:
        """A constant side decides or vanishes."""
        return make.and_(e.a, e.b) if isinstance(e.a, IntImm) or isinstance(e.b, IntImm) else e

    def leave_Or(self, e: ex.Or) -> PrimExpr:
        """A constant side decides or vanishes."""
        return make.or_(e.a, e.b) if isinstance(e.a, IntImm) or isinstance(e.b, IntImm) else e

    def leave_Not(self, e: ex.Not) -> PrimExpr:
        """Negation of a constant."""
        return make.not_(e.a) if isinstance(e.a, IntImm) else e

    def leave_Select(self, e: ex.Select) -> PrimExpr:
        """A constant condition chooses."""
        if isinstance(e.condition, IntImm):
            return e.true_value if e.condition.value else e.false_value
        return e

    def leave_Cast(self, e: ex.Cast) -> PrimExpr:
        """Casts of constants fold."""
        return make.cast(e.value, e.dtype) if isinstance(e.value, (IntImm, ex.FloatImm)) else e

    def leave_Call(self, e: ex.Call) -> PrimExpr:
        """A choice with a constant condition."""
        if isinstance(e.op, ex.Op) and e.op.name == "tir.if_then_else" and isinstance(e.args[0], IntImm):
            return e.args[1] if e.args[0].value else e.args[2]
        return e


def _is_index(e: PrimExpr) -> bool:
    return e.dtype.is_int and e.dtype.lanes == 1 and e.dtype.bits >= 32


def _size(e: PrimExpr) -> int:
    count, stack = 0, [e]
    while stack:
        n = stack.pop()
        count += 1
        stack.extend(c for c in children(n) if isinstance(c, PrimExpr))
    return count


def _decide(kind: str, gap: Bound) -> bool | None:
    """The truth of `a <kind> b` from bounds of `a - b`, if they settle it."""
    low, high = gap.low, gap.high
    below = high is not None and high < 0
    above = low is not None and low > 0
    not_above = high is not None and high <= 0
    not_below = low is not None and low >= 0
    same = low == 0 and high == 0
    yes, no = {
        "EQ": (same, below or above),
        "NE": (below or above, same),
        "LT": (below, not_below),
        "LE": (not_above, above),
        "GT": (above, not_above),
        "GE": (not_below, below),
    }[kind]
    return True if yes else False if no else None
