"""A block seen as instances outside and inside a subtree of loops: each axis an outer part times an inner one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tscript.analysis.affine import find_digits
from tscript.analysis.ranges import range_bounds
from tscript.arith import Bound, IterMapLevel, IterSumExpr, normalize_iter_map_to_expr, simplify, subspace_divide
from tscript.ir import construct as make
from tscript.ir.dtype import BOOL
from tscript.ir.expr import BufferLoad, IntImm, IterVar, PrimExpr, Range, Var
from tscript.ir.occurrences import mentions
from tscript.ir.stmt import Block, BlockRealize, BufferRegion, BufferStore, Stmt
from tscript.schedule.buffers import same_region
from tscript.schedule.coverage import relax_range
from tscript.schedule.rewrite import TrackingRewriter

TRUE = IntImm(BOOL, 1)


@dataclass(frozen=True)
class Part:
    """The share of some loops in an axis: it takes `extent` values from zero on."""

    value: PrimExpr
    extent: PrimExpr

    @property
    def is_unit(self) -> bool:
        """Whether it has one value only."""
        return make.is_const_int(self.extent, 1)


@dataclass(frozen=True)
class DividedAxis:
    """An axis as `base + outer * inner.extent + inner`."""

    axis: IterVar
    outer: Part
    inner: Part
    base: int


@dataclass(frozen=True)
class Division:
    """The axes of a block, and its predicate as a condition on outer and one on inner loops."""

    axes: list[DividedAxis]
    outer_condition: PrimExpr
    inner_condition: PrimExpr


def divide(
    realize: BlockRealize, ranges: Mapping[Var, Range], inner: Sequence[Var], preserve_unit_iters: bool
) -> Division | None:
    """The bindings of a block divided by its loops: those in `inner`, and the others of `ranges`.

    None where an axis or the predicate mixes both.
    """
    values = realize.iter_values
    subspace = dict.fromkeys(inner)
    if any(mentions(e, {v: None for v in ranges if v not in subspace}) for v in inner for e in _ends(ranges[v])):
        return None
    found = subspace_divide(values, ranges, inner, realize.predicate, IterMapLevel.SURJECTIVE, not preserve_unit_iters)
    if not found:
        return _by_use(realize, ranges, subspace)
    axes: list[DividedAxis] = []
    for axis, (outer, within) in zip(realize.block.iter_vars, found[:-1], strict=True):
        first, second = _part(outer.source, outer.extent, axis), _part(within.source, within.extent, axis)
        if first is None or second is None:
            return _by_use(realize, ranges, subspace)
        scale = second[0].extent
        if first[1] and not isinstance(scale, IntImm):
            return None
        base = first[1] * (scale.value if isinstance(scale, IntImm) else 0) + second[1]
        axes.append(DividedAxis(axis, first[0], second[0], base))
    return Division(axes, found[-1][0].extent, found[-1][1].extent)


def _ends(r: Range) -> tuple[PrimExpr, PrimExpr]:
    return r.min, r.extent


def _part(source: PrimExpr | IterSumExpr, extent: PrimExpr, axis: IterVar) -> tuple[Part, int] | None:
    """What a mark counts from zero on, and the constant that is left out; None for one that is not constant."""
    base = 0
    if isinstance(source, IterSumExpr):
        if not isinstance(source.base, IntImm):
            return None
        base = source.base.value
        source = IterSumExpr(source.args, IntImm(source.base.dtype, 0))
    value = normalize_iter_map_to_expr(source)
    dtype = axis.var.dtype
    return Part(make.cast(value, dtype), make.cast(extent, dtype)), base


def _by_use(realize: BlockRealize, ranges: Mapping[Var, Range], inner: Mapping[Var, None]) -> Division | None:
    """The division where each axis uses either outer or inner loops only, in any way."""
    if not make.is_const_int(realize.predicate, 1):
        return None
    outer = {v: None for v in ranges if v not in inner}
    axes: list[DividedAxis] = []
    for axis, value in zip(realize.block.iter_vars, realize.iter_values, strict=True):
        if axis.dom is None or not isinstance(axis.dom.min, IntImm):
            return None
        base = axis.dom.min.value
        dtype = axis.var.dtype
        whole = Part(make.cast(simplify(make.sub(value, base)), dtype), make.cast(axis.dom.extent, dtype))
        nothing = Part(IntImm(dtype, 0), IntImm(dtype, 1))
        if not mentions(value, inner):
            axes.append(DividedAxis(axis, whole, nothing, base))
        elif not mentions(value, outer) and _takes_all(value, ranges, inner, axis.dom):
            axes.append(DividedAxis(axis, nothing, whole, base))
        else:
            return None
    return Division(axes, TRUE, TRUE)


def _takes_all(value: PrimExpr, ranges: Mapping[Var, Range], inner: Mapping[Var, None], domain: Range) -> bool:
    """Whether an axis of inner loops only takes all values of its domain: then its first one, where an init runs."""
    found = find_digits(value, {v: r for v, r in ranges.items() if v in inner})
    if found is None or found.scale != 1 or found.base is not domain.min:
        return False
    return simplify(make.sub(found.count, domain.extent)) is IntImm(domain.extent.dtype, 0)


# -- the new axes ---------------------------------------------------------------------------------


@dataclass
class NewAxes:
    """Axes of the block outside and of the block inside, with their values, and what the old axes are in terms of
    both.
    """

    outer: list[IterVar]
    outer_values: list[PrimExpr]
    inner: list[IterVar]
    inner_values: list[PrimExpr]
    old: dict[Var, PrimExpr]

    @property
    def bounds(self) -> dict[Var, Bound]:
        """Constant bounds of the new axes."""
        return range_bounds({a.var: a.dom for a in (*self.outer, *self.inner) if a.dom is not None})

    def inner_ranges(self) -> dict[Var, Range]:
        """The domains of the inner axes."""
        return {a.var: a.dom for a in self.inner if a.dom is not None}


def new_axes(division: Division, preserve_unit_iters: bool) -> NewAxes:
    """An outer axis `<name>_o` for each axis; an inner one `<name>_i` where the inner part is more than one value."""
    made = NewAxes([], [], [], [], {})
    for d in division.axes:
        v = d.axis.var
        outer, inner = v.copy_with(name=f"{v.name}_o"), v.copy_with(name=f"{v.name}_i")
        made.outer.append(_iter_var(outer, d.outer.extent, d.axis))
        made.outer_values.append(d.outer.value)
        if not d.inner.is_unit:
            made.inner.append(_iter_var(inner, d.inner.extent, d.axis))
            made.inner_values.append(d.inner.value)
        made.old[v] = in_new_axes(d, outer, inner, preserve_unit_iters)
    return made


def in_new_axes(d: DividedAxis, outer: Var, inner: Var, preserve_unit_iters: bool) -> PrimExpr:
    """The value of an old axis in terms of the new ones."""
    value: PrimExpr
    if d.inner.is_unit:
        value = IntImm(outer.dtype, 0) if d.outer.is_unit and not preserve_unit_iters else outer
    elif d.outer.is_unit:
        value = inner
    else:
        value = make.add(make.mul(outer, d.inner.extent), inner)
    return make.add(value, d.base) if d.base else value


def _iter_var(var: Var, extent: PrimExpr, like: IterVar) -> IterVar:
    return IterVar(Range.from_min_extent(IntImm(extent.dtype, 0), extent), var, like.iter_type, like.thread_tag)


class PutAxes(TrackingRewriter):
    """Puts the values of old axes in their place, with subscripts and regions in their simplest form."""

    def __init__(self, old: Mapping[Var, PrimExpr], bounds: Mapping[Var, Bound]) -> None:
        super().__init__()
        self.old = old
        self.bounds = bounds

    def rewrite_Var(self, node: Var) -> PrimExpr:
        """The value of an old axis."""
        return self.old.get(node, node)

    def _simple(self, old: Sequence[PrimExpr], new: Sequence[PrimExpr]) -> tuple[PrimExpr, ...]:
        return tuple(n if n is o else simplify(n, self.bounds) for o, n in zip(old, new, strict=True))

    def rewrite_BufferLoad(self, node: BufferLoad) -> PrimExpr:
        """A load at the new subscripts."""
        return node.replace(
            buffer=self.rewrite(node.buffer),
            indices=self._simple(node.indices, [self.rewrite(i) for i in node.indices]),
            predicate=None if node.predicate is None else self.rewrite(node.predicate),
        )

    def rewrite_BufferStore(self, node: BufferStore) -> Stmt:
        """A store at the new subscripts."""
        new: BufferStore = self.rewrite_children(node)
        return new if new is node else new.replace(indices=self._simple(node.indices, new.indices))

    def rewrite_BufferRegion(self, node: BufferRegion) -> BufferRegion:
        """A region with its ends in their simplest form."""
        new: BufferRegion = self.rewrite_children(node)
        if new is node:
            return node
        starts = self._simple([r.min for r in node.region], [r.min for r in new.region])
        sizes = self._simple([r.extent for r in node.region], [r.extent for r in new.region])
        return new.replace(region=tuple(Range.from_min_extent(a, b) for a, b in zip(starts, sizes, strict=True)))


def relaxed(
    regions: Sequence[BufferRegion], domain: Mapping[Var, Range], bounds: Mapping[Var, Bound]
) -> list[BufferRegion]:
    """Regions over all values of the variables of `domain`, each once; whole dimensions where nothing is known."""
    found: list[BufferRegion] = []
    for region in regions:
        ranges: list[Range] = []
        for size, r in zip(region.buffer.shape, region.region, strict=True):
            if not mentions(r.min, domain) and not mentions(r.extent, domain):
                ranges.append(r)
                continue
            interval = relax_range(r, domain, bounds)
            if interval is None or mentions(interval.low, domain) or mentions(interval.high, domain):
                ranges.append(Range.from_min_extent(IntImm(size.dtype, 0), size))
                continue
            extent = simplify(make.add(make.sub(interval.high, interval.low), 1), bounds)
            ranges.append(Range.from_min_extent(simplify(interval.low, bounds), extent))
        new = BufferRegion(region.buffer, tuple(ranges))
        if not any(same_region(new, old) for old in found):
            found.append(new)
    return found


def inner_realize(
    realize: BlockRealize, axes: NewAxes, condition: PrimExpr, *, keep_init: bool
) -> tuple[BlockRealize, Block, dict[Block, Block]]:
    """The block inside, realized; the block with the old regions and init in new axes; what became of blocks below."""
    block = realize.block
    put = PutAxes(axes.old, axes.bounds)
    # Everything but the axes themselves, whose variables would be defined here.
    moved: Any = put.rewrite(block.replace(iter_vars=()))
    reuse = {old: new for old, new in put.block_reuse.items() if new is not moved}
    reads = list(moved.reads)
    if block.init is not None and not keep_init:
        # Without its init, the block reads what it accumulates into.
        reads = [*(w for w in moved.writes if not any(same_region(w, r) for r in reads)), *reads]
    inside = moved.replace(iter_vars=tuple(axes.inner), reads=tuple(reads), init=moved.init if keep_init else None)
    return BlockRealize(tuple(axes.inner_values), condition, inside), moved, reuse
