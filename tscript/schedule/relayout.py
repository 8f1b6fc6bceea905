"""Another layout for a buffer: every access goes through an index map, and padding gets a value."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeVar

from tscript.analysis.ranges import range_bounds
from tscript.arith import Bound, simplify
from tscript.ir import construct as make
from tscript.ir.buffer import Buffer
from tscript.ir.dtype import BOOL
from tscript.ir.expr import BufferLoad, Call, IntImm, IterVar, Op, PrimExpr, Range, Var
from tscript.ir.functor import pre_order_visit
from tscript.ir.index_map import IndexMap
from tscript.ir.occurrences import mentions
from tscript.ir.stmt import (
    Block,
    BlockRealize,
    BufferRealize,
    BufferRegion,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    Prefetch,
    SeqStmt,
    Stmt,
)
from tscript.schedule.errors import refuse
from tscript.schedule.layout import ReplaceAxes, mapped_region, results_at, value_at
from tscript.schedule.rewrite import ReplaceBuffers, path_to
from tscript.schedule.sref import StmtSRef
from tscript.schedule.state import ScheduleState

T = TypeVar("T")

_TRUE = IntImm(BOOL, 1)


# -- what stands in the way -----------------------------------------------------------------------


def require_plain_accesses(
    root: Block, buffer: Buffer, what: str, views: Container[Buffer] = (), vectors: bool = False
) -> None:
    """Refuse a buffer that something at or below `root` uses other than element by element, by its subscripts.

    `what` says what the step would do with it. Some `views` may be fine, and with `vectors` vectors of elements.
    """

    def look(node: object) -> bool:
        if isinstance(node, Block):
            _require_no_view(node, buffer, what, views)
        elif isinstance(node, (BufferLoad, BufferStore)):
            _require_scalar(node, root, buffer, what, vectors)
        elif isinstance(node, (DeclBuffer, BufferRealize, Prefetch)) and _shares_memory(node.buffer, buffer):
            refuse(f"`{node.buffer.name}` is declared below {{0}} on the memory of `{buffer.name}`: {what}", root)
        elif isinstance(node, Call) and isinstance(node.op, Op) and node.op.name == "tir.address_of":
            at = node.args[0]
            if isinstance(at, BufferLoad) and at.buffer is buffer:
                refuse(f"the address of an element of `{buffer.name}` is taken below {{0}}: {what}", root)
        if node is buffer.data:
            refuse(f"the pointer of `{buffer.name}` is used below {{0}}: {what}", root)
        return True

    pre_order_visit(root, look)


def _require_no_view(block: Block, buffer: Buffer, what: str, views: Container[Buffer]) -> None:
    for m in block.match_buffers:
        if m.source.buffer is buffer and m.buffer not in views:
            refuse(f"{{0}} uses `{buffer.name}` through the view `{m.buffer.name}`: {what}", block)
    for other in block.alloc_buffers:
        if other is not buffer and other.data is buffer.data:
            refuse(f"`{other.name}` lies in the memory of `{buffer.name}`: {what}", block)
    for r in (*block.reads, *block.writes):
        if r.buffer is not buffer and r.buffer.data is buffer.data:
            refuse(f"{{0}} uses the memory of `{buffer.name}` as `{r.buffer.name}`: {what}", block)


def _require_scalar(node: BufferLoad | BufferStore, root: Block, buffer: Buffer, what: str, vectors: bool) -> None:
    if not _shares_memory(node.buffer, buffer):
        return
    if node.buffer is not buffer:
        refuse(f"the memory of `{buffer.name}` is used as `{node.buffer.name}` below {{0}}: {what}", root)
    if not vectors and (node.predicate is not None or any(i.dtype.lanes != 1 for i in node.indices)):
        refuse(f"`{buffer.name}` is accessed as a vector below {{0}}: {what}", root)


def _shares_memory(a: Buffer, b: Buffer) -> bool:
    return a is b or a.data is b.data


def require_row_major(buffer: Buffer, block: Block) -> None:
    """Refuse a buffer with strides of its own."""
    compact = buffer.replace(strides=()).effective_strides()
    if buffer.strides and any(
        s is not c and not make.is_const_int(simplify(s - c), 0) for s, c in zip(buffer.strides, compact, strict=True)
    ):
        refuse(f"`{buffer.name}`, which {{0}} uses, has strides of its own, which say nothing of another layout", block)


def require_exact_writes(state: ScheduleState, site: StmtSRef, buffer: Buffer, relayout: Relayout) -> None:
    """Refuse a block that writes several elements at once where these are no box in the new layout, and where other
    blocks beside it use the buffer: they could not tell any more what was written.
    """
    for below in state.blocks_below(site):
        for w in below.block.writes:
            if w.buffer is not buffer or _same_size(w.region, relayout.mapped_ranges(w.region)):
                continue
            root = state.scope_root(below)
            assert root is not None
            for other in state.child_blocks(root):
                if other is not below and any(r.buffer is buffer for r in (*other.block.reads, *other.block.writes)):
                    refuse(
                        f"what {{0}} writes, `{w}`, is not a box in the new layout, and {{1}} uses `{buffer.name}` too",
                        below.block,
                        other.block,
                        hint="choose a layout whose tiles are aligned with what each run of the block writes",
                    )


def _same_size(old: Sequence[Range], new: Sequence[Range]) -> bool:
    """Whether as many elements lie in both boxes, as far as constants and equal factors show it."""
    sizes: list[tuple[int, list[PrimExpr]]] = []
    for ranges in (old, new):
        extents = [r.extent for r in ranges]
        constant = prod(e.value for e in extents if isinstance(e, IntImm))
        sizes.append((constant, [e for e in extents if not isinstance(e, IntImm)]))
    (a, x), (b, y) = sizes
    rest = list(y)
    for e in x:
        place = next((i for i, f in enumerate(rest) if f is e), None)
        if place is None:
            return False
        del rest[place]
    return a == b and not rest


# -- padding --------------------------------------------------------------------------------------


@dataclass
class Padding:
    """Elements of the new layout that hold no old element: `condition` on the indices of `back`, which gives the old
    indices; and the value they get, `value` at new indices.
    """

    back: IndexMap
    condition: PrimExpr
    value: IndexMap
    shape: Sequence[PrimExpr]

    def axes(self) -> tuple[list[Var], list[Var], list[IterVar], dict[Var, Bound]]:
        """Loops and axes over the new layout: `axis0..`, `v_axis0..`, and the bounds of both."""
        loops = [Var(f"axis{d}", s.dtype) for d, s in enumerate(self.shape)]
        axes = [Var(f"v_axis{d}", s.dtype) for d, s in enumerate(self.shape)]
        ranges = [Range.from_min_extent(IntImm(s.dtype, 0), s) for s in self.shape]
        bounds = range_bounds({**dict(zip(loops, ranges, strict=True)), **dict(zip(axes, ranges, strict=True))})
        made = [IterVar(r, v, IterVar.DataPar) for r, v in zip(ranges, axes, strict=True)]
        return loops, axes, made, bounds

    def condition_at(self, indices: Sequence[PrimExpr], bounds: Mapping[Var, Bound]) -> PrimExpr:
        """The condition that an element is padding."""
        return simplify(value_at(self.back, self.condition, indices), bounds)

    def value_at(self, indices: Sequence[PrimExpr]) -> PrimExpr:
        """The value that an element has where it is padding."""
        return value_at(self.value, self.value.final_indices[0], indices)

    def nest(self, loops: Sequence[Var], body: Stmt) -> Stmt:
        """Loops over the whole new layout."""
        for var, extent in zip(reversed(loops), reversed(self.shape), strict=True):
            body = For(var, IntImm(var.dtype, 0), extent, ForKind.SERIAL, body)
        return body

    def promise(self, buffer: Buffer) -> Stmt:
        """A stage that takes it for granted that the padding of an input holds the value."""
        loops, axes, made, bounds = self.axes()
        load = BufferLoad(buffer, tuple(axes))
        fact = make.or_(make.not_(self.condition_at(axes, bounds)), load.equal(self.value_at(axes)))
        body = Evaluate(make.call_intrin("bool", "tir.assume", fact))
        block = Block(tuple(made), (_point(buffer, axes),), (), f"buffer_{buffer.name}_assumptions", body)
        return self.nest(loops, BlockRealize(tuple(loops), _TRUE, block))

    def fill(self, buffer: Buffer) -> Stmt:
        """A stage that stores the value to the padding."""
        loops, axes, made, bounds = self.axes()
        body = BufferStore(buffer, self.value_at(axes), tuple(axes))
        block = Block(tuple(made), (), (_point(buffer, axes),), f"buffer_{buffer.name}_padding", body)
        return self.nest(loops, BlockRealize(tuple(loops), self.condition_at(loops, bounds), block))


def _point(buffer: Buffer, indices: Sequence[PrimExpr]) -> BufferRegion:
    return BufferRegion(buffer, tuple(Range.from_min_extent(i, IntImm(i.dtype, 1)) for i in indices))


@dataclass
class Traversal:
    """A nest that stores to every element of a buffer in row-major order: it can write the padding on the way.

    `loops` run over the dimensions, in order and one directly inside the other; `places` are the axes bound to them.
    """

    loops: list[For]
    realize: BlockRealize
    places: list[int]


def find_traversals(state: ScheduleState, site: StmtSRef, buffer: Buffer) -> list[Traversal]:
    """The nests below a block that store to a buffer, each element in row-major order, and do nothing else."""
    found = [
        _traversal(state, site, block, buffer) for block in state.blocks_below(site) if _writes(block.block, buffer)
    ]
    return [t for t in found if t is not None]


def _writes(block: Block, buffer: Buffer) -> bool:
    return any(w.buffer is buffer for w in block.writes)


def _traversal(state: ScheduleState, site: StmtSRef, sref: StmtSRef, buffer: Buffer) -> Traversal | None:
    block, realize = sref.block, state.realize_of(sref)
    stores = [block.body] if block.init is None else [block.body, block.init]
    first = block.body
    if not isinstance(first, BufferStore) or not buffer.shape or block.match_buffers or block.alloc_buffers:
        return None
    for s in stores:
        if not isinstance(s, BufferStore) or s.buffer is not buffer or s.indices != first.indices:
            return None
    places: list[int] = []
    for index in first.indices:
        place = next((k for k, a in enumerate(block.iter_vars) if a.var is index), None)
        if place is None or place in places:
            return None
        places.append(place)
    loops = [r.loop for r in state.loops_of(sref)]
    wanted = [realize.iter_values[p] for p in places]
    start = next((k for k, f in enumerate(loops) if f.loop_var is wanted[0]), None)
    nest = [] if start is None else loops[start : start + len(wanted)]
    if len(nest) != len(wanted) or not _visits_everything(nest, realize, places, buffer):
        return None
    below: Stmt = nest[0]
    while isinstance(below, For):
        below = below.body
    runs = state.scope_root(sref) is site and _runs_always(site.block.body, nest[0])
    return Traversal(nest, realize, places) if below is realize and runs else None


def _runs_always(body: Stmt, nest: For) -> bool:
    """Whether a nest below `body` runs at least once whenever `body` does."""
    around = path_to(body, nest)[:-1]
    return all(
        isinstance(at, SeqStmt) or (isinstance(at, For) and isinstance(at.extent, IntImm) and at.extent.value > 0)
        for at in around
    )


def _visits_everything(nest: list[For], realize: BlockRealize, places: list[int], buffer: Buffer) -> bool:
    if not (isinstance(realize.predicate, IntImm) and realize.predicate.value):
        return False
    for loop, place, size in zip(nest, places, buffer.shape, strict=True):
        axis = realize.block.iter_vars[place]
        others = [v for k, v in enumerate(realize.iter_values) if k != place]
        if (
            realize.iter_values[place] is not loop.loop_var
            or axis.iter_type != IterVar.DataPar
            or loop.kind != ForKind.SERIAL
            or loop.annotations
            or not make.is_const_int(loop.min, 0)
            or loop.extent is not size
            or axis.dom is None
            or not make.is_const_int(axis.dom.min, 0)
            or axis.dom.extent is not size
            or any(mentions(v, {loop.loop_var: None}) for v in others)
            or any(mentions(e, {loop.loop_var: None}) for f in _loops_inside(loop) for e in (f.min, f.extent))
        ):
            return False
    return True


def _loops_inside(loop: For) -> list[For]:
    found: list[For] = []
    at: Stmt = loop.body
    while isinstance(at, For):
        found.append(at)
        at = at.body
    return found


# -- rewriting ------------------------------------------------------------------------------------


class Relayout(ReplaceBuffers):
    """Uses `new`, whose indices are those of `old` after an index map, in place of `old`; allocations too.

    Given `padding`, the nests of `traversals` run over all of the new layout, and store its value where it is due.
    """

    def __init__(
        self,
        old: Buffer,
        new: Buffer,
        index_map: IndexMap,
        bounds: Mapping[Var, Bound],
        padding: Padding | None = None,
        traversals: Sequence[Traversal] = (),
    ) -> None:
        super().__init__({old: new}, definitions=True)
        self.old = old
        self.new = new
        self.index_map = index_map
        self.bounds = bounds
        self.padding = padding
        self.nests = {t.loops[0]: t for t in traversals}
        self.known: dict[tuple[PrimExpr, ...], tuple[PrimExpr, ...]] = {}
        self.realizes: dict[BlockRealize, BlockRealize] = {}

    def mapped(self, indices: Sequence[PrimExpr]) -> tuple[PrimExpr, ...]:
        """The indices of an element in the new layout."""
        found = self.known.get(tuple(indices))
        return found if found is not None else tuple(results_at(self.index_map, indices, self.bounds))

    def mapped_ranges(self, ranges: Sequence[Range]) -> tuple[Range, ...]:
        """A box that holds, in the new layout, the elements of a box in the old one."""
        exact = self.known.get(tuple(r.min for r in ranges))
        if exact is not None and all(make.is_const_int(r.extent, 1) for r in ranges):
            return tuple(Range.from_min_extent(i, IntImm(i.dtype, 1)) for i in exact)
        found = mapped_region(self.index_map, ranges, self.bounds)
        whole = self.new.full_region().region
        return tuple(w if r is None else r for r, w in zip(found, whole, strict=True))

    def rewrite_BufferLoad(self, node: BufferLoad) -> PrimExpr:
        """A load, through the map if it is one of the buffer."""
        indices = tuple(self.rewrite(i) for i in node.indices)
        if node.buffer is self.old:
            return node.replace(buffer=self.new, indices=self.mapped(indices))
        predicate = None if node.predicate is None else self.rewrite(node.predicate)
        return node.replace(buffer=self.rewrite(node.buffer), indices=indices, predicate=predicate)

    def rewrite_BufferStore(self, node: BufferStore) -> Stmt:
        """A store, through the map if it is one to the buffer."""
        if node.buffer is not self.old:
            return self.rewrite_children(node)
        indices = self.mapped([self.rewrite(i) for i in node.indices])
        return node.replace(buffer=self.new, value=self.rewrite(node.value), indices=indices)

    def rewrite_BufferRegion(self, node: BufferRegion) -> BufferRegion:
        """A region, through the map if it is one of the buffer."""
        if node.buffer is not self.old:
            return self.rewrite_children(node)
        return node.replace(buffer=self.new, region=self.mapped_ranges([self.rewrite(r) for r in node.region]))

    def rewrite_For(self, node: For) -> Stmt:
        """A loop; a nest over the whole buffer runs over the new layout."""
        nest = self.nests.get(node)
        if nest is None or self.padding is None:
            return self.rewrite_children(node)
        loops, axes, made, bounds = self.padding.axes()
        realize, block = nest.realize, nest.realize.block
        old = [block.iter_vars[p].var for p in nest.places]
        self.known[tuple(old)] = tuple(axes)
        changed = self.rewrite_Block(block)
        values = dict(zip(old, results_at(self.padding.back, axes, bounds), strict=True))
        inside = ReplaceAxes(values, {**self.bounds, **bounds})
        padded = changed.replace(
            iter_vars=_spliced(block.iter_vars, nest.places, made),
            reads=tuple(inside.rewrite(r) for r in changed.reads),
            writes=tuple(inside.rewrite(w) for w in changed.writes),
            body=self._padded(inside.rewrite(changed.body), axes, bounds),
            init=None if changed.init is None else self._padded(inside.rewrite(changed.init), axes, bounds),
        )
        self.block_reuse[block] = padded
        bindings: tuple[PrimExpr, ...] = _spliced(realize.iter_values, nest.places, loops)
        self.realizes[realize] = realize.replace(iter_values=bindings, block=padded)
        return self.padding.nest(loops, self.rewrite(nest.loops[-1].body))

    def rewrite_BlockRealize(self, node: BlockRealize) -> Stmt:
        """The realize of a block, which may be known already."""
        found = self.realizes.get(node)
        return found if found is not None else self.rewrite_children(node)

    def _padded(self, store: Stmt, axes: Sequence[Var], bounds: Mapping[Var, Bound]) -> Stmt:
        """A store that stores the value of the padding where that is due."""
        assert isinstance(store, BufferStore) and self.padding is not None
        condition = self.padding.condition_at(axes, bounds)
        value = make.if_then_else(condition, self.padding.value_at(axes), store.value)
        return store.replace(value=value)


def _spliced(values: Sequence[T], places: Sequence[int], new: Sequence[T]) -> tuple[T, ...]:
    """`new` where the first of `places` is, and the others of `places` left out."""
    result: list[T] = []
    for k, v in enumerate(values):
        if k == min(places):
            result.extend(new)
        if k not in places:
            result.append(v)
    return tuple(result)
