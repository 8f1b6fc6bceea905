"""Padding: iterators made longer so that divisors divide their extents.

A first round over all indices collects, for each mark, what must divide it and how far its start is off; a second
round uses the padded marks. What the padding adds is described by a predicate.
"""

from __future__ import annotations

from tscript.arith.iter_map.factors import Factors, is_int
from tscript.arith.iter_map.model import IterMark, IterSplitExpr, IterSumExpr
from tscript.arith.iter_map.normalize import source_expr
from tscript.ir import construct as make
from tscript.ir import expr as ex
from tscript.ir.dtype import BOOL
from tscript.ir.expr import IntImm, PrimExpr


class _Need:
    def __init__(self, divisor: PrimExpr, left: PrimExpr) -> None:
        self.divisor, self.left = divisor, left
        self.padded: IterMark | None = None


class Padding:
    """What marks need, and, once `fixed`, the padded marks."""

    def __init__(self, factors: Factors) -> None:
        self._factors = factors
        self._needs: dict[IterMark, _Need] = {}
        self._origin: dict[IterMark, IterMark] = {}
        self.fixed = False
        self.predicate: PrimExpr = IntImm(BOOL, 0)

    @property
    def is_needed(self) -> bool:
        """Whether any mark must be padded."""
        return bool(self._needs)

    def fitted(self, split: IterSplitExpr, base: PrimExpr, divisor: PrimExpr) -> tuple[IterSplitExpr, PrimExpr]:
        """`split` and `base` so that the divisor divides the extent and the base."""
        f = self._factors
        if not self.fixed:
            self._collect(split, base, divisor)
            left = f.floormod(base, divisor)
            extent = _rounded(f, f.add(split.extent, left), divisor)
            return IterSplitExpr(split.source, split.lower_factor, extent, split.scale), f.sub(base, left)
        need = self._needs.get(split.source)
        if need is None:
            return split, base
        if need.padded is None:
            need.padded = self._padded(split.source, need)
        extent = split.extent
        if is_int(split.lower_factor, 1) and f.equal(split.extent, split.source.extent):
            extent = need.padded.extent
        shift = f.floordiv(need.left, split.lower_factor)
        return IterSplitExpr(need.padded, split.lower_factor, extent, split.scale), f.sub(base, shift)

    def _collect(self, split: IterSplitExpr, base: PrimExpr, divisor: PrimExpr) -> None:
        f = self._factors
        left = f.floormod(base, divisor)
        if is_int(left, 0) and f.divides(divisor, split.extent):
            if split.source in self._needs:
                need = self._needs[split.source]
                need.divisor = f.least_common_multiple(need.divisor, f.mul(divisor, split.lower_factor))
            return
        whole = f.mul(divisor, split.lower_factor)
        need = self._needs.get(split.source)
        if need is None:
            self._needs[split.source] = _Need(whole, f.mul(left, split.lower_factor))
            return
        need.divisor = f.least_common_multiple(need.divisor, whole)
        need.left = f.analyzer.simplify(make.max_(need.left, f.mul(left, split.lower_factor)))

    def _padded(self, mark: IterMark, need: _Need) -> IterMark:
        f = self._factors
        extent = _rounded(f, f.add(mark.extent, need.left), need.divisor)
        padded = IterMark(IterSumExpr((IterSplitExpr.of(mark),), need.left), extent)
        self._origin[padded] = mark
        shifted = make.add(source_expr(mark, f), need.left)
        if not is_int(need.left, 0):
            self._or(make.compare(ex.LT, shifted, need.left))
        end = f.add(mark.extent, need.left)
        if not f.equal(end, extent):
            self._or(make.compare(ex.GE, shifted, end))
        return padded

    def _or(self, condition: PrimExpr) -> None:
        self.predicate = make.or_(self.predicate, condition)

    def origin(self, mark: IterMark) -> IterMark | None:
        """The mark that `mark` is the padded form of."""
        return self._origin.get(mark)


def _rounded(f: Factors, extent: PrimExpr, divisor: PrimExpr) -> PrimExpr:
    """The next multiple of `divisor`."""
    if f.divides(divisor, extent):
        return extent
    return f.mul(f.floordiv(f.add(extent, f.sub(divisor, IntImm(divisor.dtype, 1))), divisor), divisor)
