"""Estimates of the region that indices touch while iterators run through their ranges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tscript.arith.analyzer import Analyzer
from tscript.arith.int_set import NOTHING, IntervalSet, as_set, eval_set
from tscript.arith.iter_map.detect import bound_analyzer, detect_iter_map
from tscript.arith.iter_map.model import IterMapLevel, IterSumExpr
from tscript.ir import construct as make
from tscript.ir import expr as ex
from tscript.ir.expr import ExprLike, IntImm, PrimExpr, Range, Var
from tscript.ir.occurrences import mentions

Region = Sequence[Range]


def estimate_region_strict_bound(
    region: Region, var_dom: Mapping[Var, Range], predicate: ExprLike = True, analyzer: Analyzer | None = None
) -> list[IntervalSet] | None:
    """The set each dimension touches, where the dimensions together touch exactly the product of the sets.

    None where that cannot be shown: the indices are no independent affine map, or leave gaps.
    Parts of the predicate that name no variable of `var_dom` are taken to hold, extents of the region to be positive.

    >>> i = Var("i")
    >>> estimate_region_strict_bound([Range.from_min_extent(i * 4, 4)], {i: Range(0, 8)})
    [IntervalSet[0, 31]]
    """
    analyzer = Analyzer() if analyzer is None else analyzer
    found = detect_iter_map([r.min for r in region], var_dom, predicate, IterMapLevel.SURJECTIVE, analyzer=analyzer)
    if not found.indices or not _is_false(found.padding_predicate):
        return None
    inner = bound_analyzer(analyzer, var_dom)
    result: list[IntervalSet] = []
    for index, dim in zip(found.indices, region, strict=True):
        touched = _touched(index, dim.extent, inner, var_dom)
        if touched is None:
            return None
        result.append(touched)
    return result


def _touched(
    index: IterSumExpr, extent: PrimExpr, analyzer: Analyzer, var_dom: Mapping[Var, Range]
) -> IntervalSet | None:
    """What `extent` values from each value of `index` on cover, if they leave no gap."""
    if mentions(extent, var_dom):
        return None
    if not index.args:
        return _interval(index.base, extent, analyzer)
    (split,) = index.args
    if not analyzer.can_prove(make.compare(ex.GT, split.scale, 0)) or not analyzer.can_prove(
        make.compare(ex.GE, extent, split.scale)
    ):
        return None
    covered = make.add(make.mul(split.scale, make.sub(split.extent, 1)), extent)
    return _interval(index.base, covered, analyzer)


def _interval(low: PrimExpr, extent: PrimExpr, analyzer: Analyzer) -> IntervalSet:
    last = analyzer.simplify(make.sub(make.add(low, extent), 1))
    return IntervalSet(analyzer.simplify(low), last)


def _is_false(e: PrimExpr) -> bool:
    return isinstance(e, IntImm) and not e.value


def estimate_region_lower_bound(
    region: Region, var_dom: Mapping[Var, Range], predicate: ExprLike = True, analyzer: Analyzer | None = None
) -> list[IntervalSet] | None:
    """For each dimension a set all of whose values are touched, or nothing where too little is known.

    None where nothing is known about any dimension.
    """
    analyzer = Analyzer() if analyzer is None else analyzer
    whole = estimate_region_strict_bound(region, var_dom, predicate, analyzer)
    if whole is not None:
        return whole
    result = [estimate_region_strict_bound([dim], var_dom, predicate, analyzer) for dim in region]
    if all(r is None for r in result):
        return None
    return [NOTHING if r is None else r[0] for r in result]


def estimate_region_upper_bound(
    region: Region, var_dom: Mapping[Var, Range], predicate: ExprLike = True, analyzer: Analyzer | None = None
) -> list[IntervalSet]:
    """A set for each dimension that holds every value touched.

    >>> i = Var("i")
    >>> estimate_region_upper_bound([Range.from_min_extent(i * 4, 2)], {i: Range(0, 8)})
    [IntervalSet[0, 29]]
    """
    analyzer = Analyzer() if analyzer is None else analyzer
    whole = estimate_region_strict_bound(region, var_dom, predicate, analyzer)
    if whole is not None:
        return whole
    result: list[IntervalSet] = []
    for dim in region:
        strict = estimate_region_strict_bound([dim], var_dom, predicate, analyzer)
        result.append(eval_set(dim, dict(var_dom), analyzer) if strict is None else strict[0])
    return result


def relax_region(
    region: Region, var_dom: Mapping[Var, Range | IntervalSet], analyzer: Analyzer | None = None
) -> list[IntervalSet]:
    """The set of each dimension while the variables run through their domains."""
    domains = {v: as_set(d) for v, d in var_dom.items()}
    return [eval_set(dim, domains, analyzer) for dim in region]


def point_region(indices: Sequence[ExprLike]) -> list[Range]:
    """The region of one element."""
    return [Range.from_min_extent(i, 1) for i in indices]


__all__ = [
    "Region",
    "estimate_region_lower_bound",
    "estimate_region_strict_bound",
    "estimate_region_upper_bound",
    "point_region",
    "relax_region",
]
