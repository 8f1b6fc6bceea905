"""Systems of linear constraints over integer variables, and how one is turned into another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tscript.arith.analyzer import Analyzer
from tscript.ir import construct as make
from tscript.ir.expr import IntImm, PrimExpr, Range, Var


class IntConstraints(NamedTuple):
    """Variables, ranges that some of them keep to, and conditions that hold."""

    variables: tuple[Var, ...]
    ranges: Mapping[Var, Range]
    relations: tuple[PrimExpr, ...]


class IntConstraintsTransform(NamedTuple):
    """A system and an equivalent one.

    `src_to_dst` gives old variables in terms of new ones, `dst_to_src` the reverse.
    """

    src: IntConstraints
    dst: IntConstraints
    src_to_dst: Mapping[Var, PrimExpr]
    dst_to_src: Mapping[Var, PrimExpr]


class IntGroupBounds(NamedTuple):
    """Bounds of a variable `v`: `lower <= coef * v`, `coef * v == equal` and `coef * v <= upper` for each of them."""

    coef: int
    lower: tuple[PrimExpr, ...]
    equal: tuple[PrimExpr, ...]
    upper: tuple[PrimExpr, ...]

    @staticmethod
    def from_range(dom: Range) -> IntGroupBounds:
        """The bounds of a variable that runs over `dom`."""
        if isinstance(dom.extent, IntImm) and dom.extent.value == 1:
            return IntGroupBounds(1, (), (dom.min,), ())
        last = make.simple_sub(make.add(dom.min, dom.extent), make.const(1, dom.min.dtype))
        return IntGroupBounds(1, (dom.min,), (), (last,))

    def find_best_range(
        self, ranges: Mapping[Var, Range] | None = None, analyzer: Analyzer | None = None
    ) -> Range | None:
        """All values that the bounds allow as a range, which is empty where they contradict each other; None if open.

        The extent may then be below zero. `ranges` are those of variables in the bounds.
        """
        inner = (Analyzer() if analyzer is None else analyzer).fork()
        for v, dom in (ranges or {}).items():
            inner.bind(v, dom)
        low = self._end((*self.lower, *self.equal), True, inner)
        high = self._end((*self.upper, *self.equal), False, inner)
        if low is None or high is None:
            return None
        return Range.from_min_extent(low, inner.simplify(make.add(make.sub(high, low), 1)))

    def _end(self, ends: Sequence[PrimExpr], is_low: bool, analyzer: Analyzer) -> PrimExpr | None:
        result: PrimExpr | None = None
        for e in ends:
            scale = IntImm(e.dtype, self.coef)
            shifted = make.add(e, self.coef - 1) if is_low else e
            value = analyzer.simplify(make.floordiv(shifted, scale))
            pick = make.max_ if is_low else make.min_
            result = value if result is None else analyzer.simplify(pick(result, value))
        return result
