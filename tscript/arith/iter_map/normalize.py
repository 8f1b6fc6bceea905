"""From split and sum terms back to index expressions."""

from __future__ import annotations

from tscript.arith.analyzer import Analyzer
from tscript.arith.iter_map.factors import Factors, is_int
from tscript.arith.iter_map.model import IterMapExpr, IterMark, IterSplitExpr, IterSumExpr
from tscript.ir import construct as make
from tscript.ir.expr import Add, FloorDiv, FloorMod, PrimExpr, Range, Var
from tscript.ir.functor import pre_order_visit, substitute


def normalize_iter_map_to_expr(expr: IterMapExpr | PrimExpr, analyzer: Analyzer | None = None) -> PrimExpr:
    """The index expression that a term of an iterator map stands for.

    A split of a whole mark is its source, the upper part a quotient, a part in the middle the quotient of a remainder.
    What several iterators were fused into stays together: `(f_0 * 32 + f_1) // 48` keeps showing the fused iterator.
    """
    if isinstance(expr, PrimExpr):
        return expr
    return _Normalizer(Factors(Analyzer() if analyzer is None else analyzer)).whole(expr)


def source_expr(mark: IterMark, factors: Factors) -> PrimExpr:
    """The value of a mark."""
    return _Normalizer(factors).whole(mark.source) if isinstance(mark.source, IterSumExpr) else mark.source


class _Normalizer:
    """Builds expressions with a variable for each fused iterator, so that simplification does not take it apart."""

    def __init__(self, factors: Factors) -> None:
        self.factors = factors
        self.analyzer = factors.analyzer.fork()
        self.fused: dict[PrimExpr, Var] = {}

    def whole(self, expr: IterMapExpr) -> PrimExpr:
        """The expression, simplified."""
        made = self._sum(expr) if isinstance(expr, IterSumExpr) else self._split(expr)
        made = self.analyzer.simplify(made)
        sources: dict[Var, PrimExpr] = {v: e for e, v in self.fused.items()}
        if not sources:
            return made
        result = substitute(made, sources)
        return result if _divides_sum(result) else self.factors.analyzer.simplify(result)

    def _sum(self, expr: IterSumExpr) -> PrimExpr:
        result: PrimExpr | None = None
        for arg in expr.args:
            part = self._split(arg)
            result = part if result is None else make.add(result, part)
        return expr.base if result is None else make.add(result, expr.base)

    def _source(self, mark: IterMark) -> PrimExpr:
        if not isinstance(mark.source, IterSumExpr):
            return mark.source
        source = source_expr(mark, self.factors)
        if len(mark.source.args) < 2:
            return source
        known = self.fused.get(source)
        if known is None:
            known = self.fused[source] = Var("fused", source.dtype)
            self.analyzer.bind(
                known, Range.from_min_extent(make.const(0, source.dtype), mark.extent), keep_trivial=True
            )
        return known

    def _split(self, expr: IterSplitExpr) -> PrimExpr:
        mark = expr.source
        source = self._source(mark)
        upper = self.factors.mul(expr.lower_factor, expr.extent)
        if not self.factors.equal(upper, mark.extent) and not self._covers(upper, mark.extent):
            source = make.floormod(source, upper)
        if not is_int(expr.lower_factor, 1):
            source = make.floordiv(source, expr.lower_factor)
        return make.mul(source, expr.scale)

    def _covers(self, upper: PrimExpr, extent: PrimExpr) -> bool:
        return self.factors.analyzer.can_prove_greater_equal(upper, extent)


def _divides_sum(expr: PrimExpr) -> bool:
    """Whether a quotient or remainder of a sum is taken."""
    found = False

    def look(node: object) -> bool:
        nonlocal found
        found = found or (isinstance(node, (FloorDiv, FloorMod)) and isinstance(node.a, Add))
        return not found

    pre_order_visit(expr, look)
    return found
