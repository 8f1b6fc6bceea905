"""Division of affine maps by a subspace: each index as `outer * inner_extent + inner`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from tscript.arith.analyzer import Analyzer
from tscript.arith.context import conjuncts
from tscript.arith.iter_map.check import SplitUses, ordered_splits
from tscript.arith.iter_map.detect import bound_analyzer, detect_iter_map
from tscript.arith.iter_map.factors import Factors, is_int
from tscript.arith.iter_map.model import IterMapLevel, IterMark, IterSplitExpr, IterSumExpr, variables_of
from tscript.ir import construct as make
from tscript.ir.dtype import BOOL
from tscript.ir.expr import ExprLike, IntImm, PrimExpr, Range, Var
from tscript.ir.occurrences import mentions


class _Mixed(Exception):
    """Outer and inner iterators are mixed where they cannot be told apart."""


class _Division(NamedTuple):
    """`outer * inner_extent + inner`, as marks' sources with their extents."""

    outer: IterSumExpr
    outer_extent: PrimExpr
    inner: IterSumExpr
    inner_extent: PrimExpr

    @property
    def is_outer(self) -> bool:
        """Nothing is inner."""
        return is_int(self.inner_extent, 1)

    @property
    def is_inner(self) -> bool:
        """Nothing is outer."""
        return is_int(self.outer_extent, 1)


def subspace_divide(
    bindings: Sequence[ExprLike],
    input_iters: Mapping[Var, Range],
    sub_iters: Iterable[Var],
    predicate: ExprLike = True,
    check_level: IterMapLevel | int | str = IterMapLevel.SURJECTIVE,
    simplify_trivial_iterators: bool = True,
    analyzer: Analyzer | None = None,
) -> list[list[IterMark]]:
    """Divide each binding into an outer part and a part of the iterators `sub_iters`.

    The result has a pair of marks [outer, inner] for each binding, which stands for `outer * inner.extent + inner`,
    and a last pair whose extents are the conditions on outer and on inner iterators. It is empty where the bindings
    cannot be divided so.

    >>> i, j = Var("i"), Var("j")
    >>> (pair, conditions) = subspace_divide([i * 4 + j], {i: Range(0, 8), j: Range(0, 4)}, [j])
    >>> [mark.extent.value for mark in pair]
    [8, 4]
    """
    analyzer = Analyzer() if analyzer is None else analyzer
    found = detect_iter_map(
        bindings, input_iters, predicate, check_level, simplify_trivial_iterators, analyzer=analyzer
    )
    if not found.indices or not is_int(found.padding_predicate, 0):
        return []
    inner_iters = dict.fromkeys(sub_iters)
    outer_iters = {v: None for v in input_iters if v not in inner_iters}
    conditions = _divided_condition(
        make.convert(predicate), bound_analyzer(analyzer, input_iters), outer_iters, inner_iters
    )
    if conditions is None:
        return []
    divider = _Divider(analyzer, found.indices, inner_iters)
    result: list[list[IterMark]] = []
    try:
        for index in found.indices:
            d = divider.divide_sum(index, None)
            result.append([IterMark(d.outer, d.outer_extent), IterMark(d.inner, d.inner_extent)])
    except (_Mixed, ValueError):
        # A ValueError speaks of an extent that does not fit in the type of the index.
        return []
    nothing = IterSumExpr((), IntImm("int32", 0))
    result.append([IterMark(nothing, c) for c in conditions])
    return result


def _divided_condition(
    predicate: PrimExpr, analyzer: Analyzer, outer: Mapping[Var, None], inner: Mapping[Var, None]
) -> tuple[PrimExpr, PrimExpr] | None:
    """What a conjunction asks of outer and of inner iterators; None where one part asks something of both."""
    of_outer: PrimExpr = IntImm(BOOL, 1)
    of_inner: PrimExpr = IntImm(BOOL, 1)
    for part in conjuncts(predicate):
        if analyzer.can_prove(part):
            continue
        if not mentions(part, inner):
            of_outer = make.and_(of_outer, part)
        elif not mentions(part, outer):
            of_inner = make.and_(of_inner, part)
        else:
            return None
    return of_outer, of_inner


class _Divider:
    def __init__(self, analyzer: Analyzer, indices: Sequence[IterSumExpr], sub_iters: Mapping[Var, None]) -> None:
        self._factors = Factors(analyzer)
        self._uses = SplitUses(indices)
        self._sub = sub_iters
        self._known: dict[tuple[IterMark, PrimExpr, PrimExpr], _Division] = {}

    def divide_sum(self, total: IterSumExpr, extent: PrimExpr | None) -> _Division:
        """A sum that counts through `extent` values (None: as many as its splits make)."""
        zero, one = IntImm(total.base.dtype, 0), IntImm(total.base.dtype, 1)
        if not total.args:
            return _Division(IterSumExpr((), zero), one, total, one)
        if len(total.args) == 1 and extent is None:
            (split,) = total.args
            if not is_int(split.scale, 1):
                raise _Mixed
            return self._with_base(self.divide_split(split), total.base)
        return self._divide_terms(total, extent)

    def _divide_terms(self, total: IterSumExpr, extent: PrimExpr | None) -> _Division:
        f = self._factors
        zero, one = IntImm(total.base.dtype, 0), IntImm(total.base.dtype, 1)
        outer: list[IterSplitExpr] = []
        inner: list[IterSplitExpr] = []
        outer_extent: PrimExpr = one
        inner_extent: PrimExpr = one
        for split in reversed(total.args):
            if is_int(split.extent, 1):
                continue
            d = self.divide_split(split)
            source = d.inner if d.is_inner else d.outer
            if not (d.is_inner or d.is_outer) or (d.is_inner and outer):
                raise _Mixed
            part_extent = d.inner_extent if d.is_inner else d.outer_extent
            part = self._as_split(source, part_extent)
            if d.is_inner:
                inner.append(IterSplitExpr(part.source, part.lower_factor, part.extent, inner_extent))
                inner_extent = f.mul(inner_extent, part_extent)
            else:
                outer.append(IterSplitExpr(part.source, part.lower_factor, part.extent, outer_extent))
                outer_extent = f.mul(outer_extent, part_extent)
        count = f.mul(outer_extent, inner_extent)
        outer_sum = IterSumExpr(tuple(reversed(outer)), zero)
        inner_sum = IterSumExpr(tuple(reversed(inner)), total.base)
        if extent is None or f.equal(count, extent):
            return _Division(outer_sum, outer_extent, inner_sum, inner_extent)
        # A predicate narrows the sum: it must be all outer or all inner.
        if not inner:
            return _Division(IterSumExpr(outer_sum.args, total.base), extent, IterSumExpr((), zero), one)
        if not outer:
            return _Division(IterSumExpr((), zero), one, inner_sum, extent)
        raise _Mixed

    def divide_split(self, split: IterSplitExpr) -> _Division:
        """A split, by where the iterators of its mark belong."""
        known = self._known.get(split.key)
        if known is not None:
            return known
        mark = split.source
        if isinstance(mark.source, IterSumExpr):
            self._divide_mark(mark, mark.source)
        else:
            inner = any(v in self._sub for v in variables_of(mark))
            for s in self._uses.splits[mark]:
                self._known[s.key] = self._one_sided(IterSplitExpr(s.source, s.lower_factor, s.extent, _one(s)), inner)
        return self._known[split.key]

    def _divide_mark(self, mark: IterMark, source: IterSumExpr) -> None:
        f = self._factors
        whole = self.divide_sum(source, mark.extent)
        splits = self._uses.splits[mark]
        if len(splits) == 1 and is_int(splits[0].lower_factor, 1) and f.equal(splits[0].extent, mark.extent):
            self._known[splits[0].key] = whole
            return
        if whole.is_inner or whole.is_outer:
            sum_, extent = (whole.inner, whole.inner_extent) if whole.is_inner else (whole.outer, whole.outer_extent)
            part = IterMark(sum_, extent)
            for s in splits:
                digit = IterSplitExpr(part, s.lower_factor, s.extent, _one(s))
                self._known[s.key] = self._one_sided(digit, whole.is_inner)
            return
        self._divide_digits(mark, splits, whole)

    def _divide_digits(self, mark: IterMark, splits: Sequence[IterSplitExpr], whole: _Division) -> None:
        """Digits of a mark below the inner extent are inner, those from there on outer."""
        f = self._factors
        ordered = ordered_splits(mark, splits, IterMapLevel.SURJECTIVE, f)
        if ordered is None:
            raise _Mixed
        inner_mark = IterMark(whole.inner, whole.inner_extent)
        outer_mark = IterMark(whole.outer, whole.outer_extent)
        for s in ordered:
            if f.divides(f.mul(s.lower_factor, s.extent), whole.inner_extent):
                digit = IterSplitExpr(inner_mark, s.lower_factor, s.extent, _one(s))
                self._known[s.key] = self._one_sided(digit, inner=True)
            elif f.divides(whole.inner_extent, s.lower_factor):
                lower = f.floordiv(s.lower_factor, whole.inner_extent)
                digit = IterSplitExpr(outer_mark, lower, s.extent, _one(s))
                self._known[s.key] = self._one_sided(digit, inner=False)
            else:
                self._known[s.key] = self._across(s, outer_mark, inner_mark)

    def _across(self, s: IterSplitExpr, outer_mark: IterMark, inner_mark: IterMark) -> _Division:
        """A digit that starts inside the inner extent and ends beyond it: itself outer times inner."""
        f = self._factors
        if not f.divides(s.lower_factor, inner_mark.extent):
            raise _Mixed
        inner_extent = f.floordiv(inner_mark.extent, s.lower_factor)
        if not f.divides(inner_extent, s.extent):
            raise _Mixed
        one, zero = _one(s), IntImm(s.extent.dtype, 0)
        outer_extent = f.floordiv(s.extent, inner_extent)
        inner = IterSplitExpr(inner_mark, s.lower_factor, inner_extent, one)
        outer = IterSplitExpr(outer_mark, one, outer_extent, one)
        return _Division(IterSumExpr((outer,), zero), outer_extent, IterSumExpr((inner,), zero), inner_extent)

    def _one_sided(self, s: IterSplitExpr, inner: bool) -> _Division:
        zero, one = IntImm(s.extent.dtype, 0), _one(s)
        mine, nothing = IterSumExpr((s,), zero), IterSumExpr((), zero)
        return _Division(nothing, one, mine, s.extent) if inner else _Division(mine, s.extent, nothing, one)

    def _as_split(self, source: IterSumExpr, extent: PrimExpr) -> IterSplitExpr:
        if len(source.args) == 1 and is_int(source.base, 0) and is_int(source.args[0].scale, 1):
            return source.args[0]
        return IterSplitExpr.of(IterMark(source, extent))

    def _with_base(self, d: _Division, base: PrimExpr) -> _Division:
        if is_int(base, 0):
            return d
        inner = IterSumExpr(d.inner.args, self._factors.add(d.inner.base, base))
        return _Division(d.outer, d.outer_extent, inner, d.inner_extent)


def _one(s: IterSplitExpr) -> IntImm:
    return IntImm(s.extent.dtype, 1)
