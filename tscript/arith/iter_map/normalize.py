"""From split and sum terms back to index expressions."""

from __future__ import annotations

from tscript.arith.analyzer import Analyzer
from tscript.arith.iter_map.factors import Factors, is_int
from tscript.arith.iter_map.model import IterMapExpr, IterMark, IterSplitExpr, IterSumExpr
from tscript.ir import construct as make
from tscript.ir.expr import PrimExpr


def normalize_iter_map_to_expr(expr: IterMapExpr | PrimExpr, analyzer: Analyzer | None = None) -> PrimExpr:
    """The index expression that a term of an iterator map stands for.

    A split of a whole mark is its source, the upper part a quotient, a part in the middle the quotient of a remainder.
    """
    factors = Factors(Analyzer() if analyzer is None else analyzer)
    if isinstance(expr, PrimExpr):
        return expr
    made = _sum(expr, factors) if isinstance(expr, IterSumExpr) else _split(expr, factors)
    return factors.analyzer.simplify(made)


def _sum(expr: IterSumExpr, factors: Factors) -> PrimExpr:
    result: PrimExpr | None = None
    for arg in expr.args:
        part = _split(arg, factors)
        result = part if result is None else make.add(result, part)
    return expr.base if result is None else make.add(result, expr.base)


def source_expr(mark: IterMark, factors: Factors) -> PrimExpr:
    """The value of a mark."""
    return _sum(mark.source, factors) if isinstance(mark.source, IterSumExpr) else mark.source


def _split(expr: IterSplitExpr, factors: Factors) -> PrimExpr:
    mark = expr.source
    source = source_expr(mark, factors)
    upper = factors.mul(expr.lower_factor, expr.extent)
    if not factors.equal(upper, mark.extent) and not _covers(upper, mark.extent, factors):
        source = make.floormod(source, upper)
    if not is_int(expr.lower_factor, 1):
        source = make.floordiv(source, expr.lower_factor)
    return make.mul(source, expr.scale)


def _covers(upper: PrimExpr, extent: PrimExpr, factors: Factors) -> bool:
    return factors.analyzer.can_prove_greater_equal(upper, extent)
