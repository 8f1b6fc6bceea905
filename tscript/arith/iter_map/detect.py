"""Detection of affine iterator maps, and index expressions rewritten by them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tscript.arith.analyzer import Analyzer
from tscript.arith.iter_map.check import check_constraints, check_mapping
from tscript.arith.iter_map.factors import is_int
from tscript.arith.iter_map.model import IterMapLevel, IterMapResult, IterSumExpr
from tscript.arith.iter_map.normalize import normalize_iter_map_to_expr
from tscript.arith.iter_map.padding import Padding
from tscript.arith.iter_map.predicate import IterBound, bounds_in, narrowed_ranges
from tscript.arith.iter_map.rewriter import IterMapRewriter, NotAffine
from tscript.ir import construct as make
from tscript.ir.dtype import BOOL
from tscript.ir.expr import Add, ExprLike, FloorDiv, IntImm, Mul, PrimExpr, Range, Var
from tscript.ir.functor import substitute

_FALSE = IntImm(BOOL, 0)


def detect_iter_map(
    indices: Sequence[ExprLike],
    input_iters: Mapping[Var, Range],
    predicate: ExprLike = True,
    check_level: IterMapLevel | int | str = IterMapLevel.SURJECTIVE,
    simplify_trivial_iterators: bool = True,
    analyzer: Analyzer | None = None,
) -> IterMapResult:
    """Describe `indices` as sums of splits of the iterators.

    Bounds in `predicate` (a conjunction) narrow the iterators. At the levels "surjective" and "nocheck", iterators
    are padded where a divisor does not divide their extent; `padding_predicate` then tells what was added. The
    result has no indices, and says why in `errors`, where there is no such description.

    >>> i, j = Var("i"), Var("j")
    >>> found = detect_iter_map([i * 4 + j], {i: Range(0, 8), j: Range(0, 4)}, True, "bijective")
    >>> found.indices[0].args[0].extent.value
    32
    """
    level = IterMapLevel.of(check_level)
    analyzer = Analyzer() if analyzer is None else analyzer
    exprs = [make.convert(e) for e in indices]
    try:
        return _detect(exprs, input_iters, make.convert(predicate), level, simplify_trivial_iterators, analyzer)
    except (NotAffine, ValueError) as e:
        # A ValueError speaks of a factor or an extent that does not fit in the type of the index.
        return IterMapResult([], [str(e)], _FALSE)


def _detect(
    indices: list[PrimExpr],
    input_iters: Mapping[Var, Range],
    predicate: PrimExpr,
    level: IterMapLevel,
    drop_trivial: bool,
    analyzer: Analyzer,
) -> IterMapResult:
    for var, dom in input_iters.items():
        extent = analyzer.simplify(dom.extent)
        if isinstance(extent, IntImm) and extent.value <= 0:
            return IterMapResult([], [f"{var.name} has no values"], _FALSE)
    ranges, sums = _narrowed(predicate, input_iters, analyzer)
    rewriter = IterMapRewriter(bound_analyzer(analyzer, ranges), ranges, drop_trivial)
    for b in sums:
        rewriter.constrain(rewriter.sum_of(b.expr), b.low, b.end)
    error = check_constraints(rewriter.constraints)
    if error is not None:
        return IterMapResult([], [error], _FALSE)
    if level != IterMapLevel.BIJECTIVE:
        rewriter.padding = Padding(rewriter.factors)
    found = [_rewritten(rewriter, e) for e in indices]
    padding = rewriter.padding
    if padding is not None and padding.is_needed:
        padding.fixed = True
        found = [_rewritten(rewriter, e) for e in indices]
    if level != IterMapLevel.NOCHECK:
        error = check_mapping(found, rewriter.input_marks, rewriter.constraints, level, rewriter.factors)
        if error is not None:
            return IterMapResult([], [error], _FALSE)
    added = _FALSE if padding is None else analyzer.simplify(padding.predicate)
    return IterMapResult(found, [], added, tuple(rewriter.input_marks))


def _narrowed(
    predicate: PrimExpr, input_iters: Mapping[Var, Range], analyzer: Analyzer
) -> tuple[Mapping[Var, Range], list[IterBound]]:
    """Ranges of the iterators after bounds of single ones, and the bounds of sums."""
    ranges = input_iters
    if isinstance(predicate, IntImm) and predicate.value:
        return ranges, []
    ranges = {**input_iters, **_single_values(predicate, input_iters, analyzer)}
    while True:
        single = {v: r.min for v, r in ranges.items() if is_int(analyzer.simplify(r.extent), 1)}
        predicate = substitute(predicate, single) if single else predicate
        bounds = bounds_in(predicate, ranges, bound_analyzer(analyzer, ranges))
        ranges, sums = narrowed_ranges(bounds, ranges, analyzer)
        # An iterator left with one value may leave another sum with one iterator.
        if not sums or all(v in single or not is_int(r.extent, 1) for v, r in ranges.items()):
            return ranges, sums


def _single_values(predicate: PrimExpr, input_iters: Mapping[Var, Range], analyzer: Analyzer) -> dict[Var, Range]:
    """Iterators that the predicate leaves a single value."""
    inner = bound_analyzer(analyzer, input_iters)
    found: dict[Var, Range] = {}
    with inner.constraint_scope(predicate):
        for v in input_iters:
            value = inner.context.bound(v).constant
            if value is not None:
                found[v] = Range.from_min_extent(IntImm(v.dtype, value), IntImm(v.dtype, 1))
    return found


def bound_analyzer(outer: Analyzer, ranges: Mapping[Var, Range]) -> Analyzer:
    """An analyzer that also knows the ranges of the iterators; the one given does not learn them."""
    inner = outer.fork()
    for var, dom in ranges.items():
        # Iterators of one value stay what they are: whether to drop them is for the caller to say.
        inner.bind(var, dom, keep_trivial=True)
        # Where an iterator has no value there is nothing to say, so extents are positive; those that are products
        # are products of sizes, so each factor is.
        extent = inner.simplify(dom.extent)
        for size in _factors(extent):
            inner.assume_positive(size)
    return inner


def _rewritten(rewriter: IterMapRewriter, e: PrimExpr) -> IterSumExpr:
    """`e` as it is written, or, where that is no sum of splits, in its simplest form."""
    try:
        return rewriter.rewrite(e)
    except NotAffine:
        simple = rewriter.factors.analyzer.simplify(e)
        if simple is e:
            raise
        return rewriter.rewrite(simple)


def _factors(e: PrimExpr) -> list[PrimExpr]:
    """The sizes that an extent is the product of, also where it is such a product over a constant, rounded up."""
    match e:
        case IntImm():
            return []
        case Mul():
            return [*_factors(e.a), *_factors(e.b)]
        case FloorDiv(a=Add(a=product, b=IntImm(value=rounding)), b=IntImm(value=divisor)) if 0 <= rounding < divisor:
            return _factors(product)
        case FloorDiv(a=product, b=IntImm(value=divisor)) if divisor > 0:
            return _factors(product)
        case _:
            return [e]


def normalize_to_iter_sum(
    index: ExprLike, input_iters: Mapping[Var, Range], analyzer: Analyzer | None = None
) -> IterSumExpr:
    """`index` as a sum of splits, larger scales first, that need not count through one iterator.

    Raises ValueError for what is no sum of splits.
    """
    analyzer = Analyzer() if analyzer is None else analyzer
    rewriter = IterMapRewriter(bound_analyzer(analyzer, input_iters), input_iters, drop_trivial=True)
    try:
        total = rewriter.sum_of(make.convert(index))
    except (NotAffine, ValueError) as e:
        raise ValueError(str(e)) from None
    args = sorted(total.args, key=lambda s: -s.scale.value if isinstance(s.scale, IntImm) else -(1 << 62))
    return IterSumExpr(tuple(args), total.base)


def iter_map_simplify(
    indices: Sequence[ExprLike],
    input_iters: Mapping[Var, Range],
    predicate: ExprLike = True,
    check_level: IterMapLevel | int | str = IterMapLevel.SURJECTIVE,
    simplify_trivial_iterators: bool = True,
    analyzer: Analyzer | None = None,
) -> list[PrimExpr]:
    """`indices` re-expressed by whole iterators, quotients and remainders; as they are where they are no affine map.

    A predicate that hinders detection is left aside, since without it the result holds too.

    >>> f = Var("f")
    >>> iter_map_simplify([f // 8 * 8 + f % 8], {f: Range(0, 64)})[0] is f
    True
    """
    exprs = [make.convert(e) for e in indices]
    analyzer = Analyzer() if analyzer is None else analyzer
    level = IterMapLevel.of(check_level)
    found = detect_iter_map(exprs, input_iters, predicate, level, simplify_trivial_iterators, analyzer)
    if not found.indices and level != IterMapLevel.BIJECTIVE:
        found = detect_iter_map(exprs, input_iters, True, level, simplify_trivial_iterators, analyzer)
    if not found.indices:
        return exprs
    bound = bound_analyzer(analyzer, input_iters)
    return [normalize_iter_map_to_expr(s, bound) for s in found.indices]
