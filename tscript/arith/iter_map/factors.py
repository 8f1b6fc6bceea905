"""Arithmetic of extents and factors: constants at once, symbols through the analyzer."""

from __future__ import annotations

import math

from tscript.arith.analyzer import Analyzer
from tscript.ir import construct as make
from tscript.ir import expr as ex
from tscript.ir.expr import IntImm, PrimExpr


class Factors:
    """Products, quotients and comparisons of extents."""

    def __init__(self, analyzer: Analyzer) -> None:
        self.analyzer = analyzer

    def mul(self, a: PrimExpr, b: PrimExpr) -> PrimExpr:
        """`a * b`."""
        if isinstance(a, IntImm) and a.value == 1:
            return b
        if isinstance(b, IntImm) and b.value == 1:
            return a
        return self.analyzer.simplify(make.mul(a, b))

    def add(self, a: PrimExpr, b: PrimExpr) -> PrimExpr:
        """`a + b`."""
        if isinstance(a, IntImm) and a.value == 0:
            return b
        return a if isinstance(b, IntImm) and b.value == 0 else self.analyzer.simplify(make.add(a, b))

    def sub(self, a: PrimExpr, b: PrimExpr) -> PrimExpr:
        """`a - b`."""
        return a if isinstance(b, IntImm) and b.value == 0 else self.analyzer.simplify(make.sub(a, b))

    def floordiv(self, a: PrimExpr, b: PrimExpr) -> PrimExpr:
        """`a // b`."""
        return a if isinstance(b, IntImm) and b.value == 1 else self.analyzer.simplify(make.floordiv(a, b))

    def floormod(self, a: PrimExpr, b: PrimExpr) -> PrimExpr:
        """`a % b`."""
        return self.analyzer.simplify(make.floormod(a, b))

    def equal(self, a: PrimExpr, b: PrimExpr) -> bool:
        """Whether the two are certainly equal."""
        if a is b:
            return True
        if isinstance(a, IntImm) and isinstance(b, IntImm):
            return a.value == b.value
        return self.analyzer.can_prove_equal(a, b)

    def divides(self, divisor: PrimExpr, a: PrimExpr) -> bool:
        """Whether `a` is certainly a multiple of `divisor`."""
        if isinstance(divisor, IntImm) and isinstance(a, IntImm):
            return divisor.value != 0 and a.value % divisor.value == 0
        if isinstance(divisor, IntImm) and divisor.value == 1:
            return True
        if divisor is a or (isinstance(a, IntImm) and a.value == 0):
            return True
        rest = self.floormod(a, divisor)
        return isinstance(rest, IntImm) and rest.value == 0

    def positive(self, a: PrimExpr) -> bool:
        """Whether `a > 0` is certain."""
        return a.value > 0 if isinstance(a, IntImm) else self.analyzer.can_prove(make.compare(ex.GT, a, 0))

    def least_common_multiple(self, a: PrimExpr, b: PrimExpr) -> PrimExpr:
        """The least common multiple of constants; for others one that divides the other, or the product."""
        if isinstance(a, IntImm) and isinstance(b, IntImm):
            return IntImm(a.dtype, math.lcm(a.value, b.value))
        if self.divides(a, b):
            return b
        return a if self.divides(b, a) else self.mul(a, b)


def is_int(e: PrimExpr, value: int) -> bool:
    """Whether `e` is the constant `value`."""
    return isinstance(e, IntImm) and e.value == value
