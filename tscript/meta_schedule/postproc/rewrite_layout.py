"""Weights get the layout in which the schedule reads them."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

from tscript.arith.iter_map.detect import detect_iter_map
from tscript.arith.iter_map.model import IterSplitExpr, IterSumExpr
from tscript.ir.buffer import Buffer
from tscript.ir.expr import BufferLoad, IntImm, PrimExpr, Range, Var
from tscript.ir.function import PrimFunc
from tscript.ir.functor import post_order_visit, substitute
from tscript.ir.index_map import IndexMap
from tscript.ir.occurrences import variables
from tscript.ir.stmt import Block, BufferStore
from tscript.meta_schedule.loop_kinds import extent_of
from tscript.meta_schedule.postproc.layout_blocks import LAYOUT_BLOCK
from tscript.meta_schedule.postproc.postproc import Postproc
from tscript.schedule.errors import ScheduleError
from tscript.schedule.schedule import Schedule
from tscript.schedule.sref import StmtSRef

ATTRIBUTE = "layout_free_buffers"


class RewriteLayout(Postproc):
    """Copies weights into the order in which the schedule reads them, by blocks that a build leaves out.

    The function's attribute `layout_free_buffers` (in TE, a block attribute `layout_free_placeholders` with a list of
    tensors) gives the numbers of parameters whose layout is free, because they are the same in every call. A weight
    that exactly one block reads, element by element, is read through a copy, annotated
    `meta_schedule.layout_rewrite_preproc`, whose dimensions are the loops around that block, from the outside in.
    `layout_blocks.remove_layout_blocks` drops these copies, and `layout_blocks.lay_out` brings weights into the layout
    that the program then takes. Source: TVM's postprocessor of this name.

    >>> import tscript
    >>> from tscript.testing.workloads import matmul
    >>> func = matmul(8, 16, 8).func.with_attr("layout_free_buffers", [1])
    >>> sch = tscript.tir.Schedule(func)
    >>> i, j, k = sch.get_loops("C")
    >>> outer, inner = sch.split(j, [None, 4])
    >>> sch.reorder(outer, i, k, inner)
    >>> RewriteLayout().apply(sch)
    True
    >>> [int(n) for n in sch.get(sch.get_block("B_global")).writes[0].buffer.shape]
    [4, 8, 4]
    """

    def apply(self, sch: Schedule) -> bool:
        """Always True: a weight whose best layout is not known keeps its own."""
        for var in sorted(sch.mod.functions, key=lambda v: v.name_hint):
            for buffer in _free_buffers(sch.mod[var]):
                root = sch.state.root_block(var)
                reader = None if root is None else _only_reader(sch, root, buffer)
                if reader is not None:
                    _rewrite(sch, reader, buffer)
        return True


def _free_buffers(func: PrimFunc) -> list[Buffer]:
    given: Any = func.attrs.get(ATTRIBUTE)
    numbers: list[Any] = [] if given is None else [*given]
    found: list[Buffer] = []
    for k in map(int, numbers):
        if not 0 <= k < len(func.params) or func.params[k] not in func.buffer_map:
            raise ValueError(
                f"{ATTRIBUTE} of {func.__name__} names parameter {k}, which is no buffer; it lists the numbers of "
                f"parameters, from 0 to {len(func.params) - 1}"
            )
        found.append(func.buffer_map[func.params[k]])
    return found


def _only_reader(sch: Schedule, root: StmtSRef, buffer: Buffer) -> StmtSRef | None:
    """The only block that uses a buffer, if all it does is to load elements."""
    users = [
        s for s in sch.state.blocks_below(root) if any(r.buffer is buffer for r in (*s.block.reads, *s.block.writes))
    ]
    if len(users) != 1 or LAYOUT_BLOCK in users[0].block.annotations or sch.state.child_blocks(users[0]):
        return None
    block = users[0].block
    is_read = all(r.buffer is not buffer for r in block.writes) and not block.match_buffers
    return users[0] if is_read and sch.state.loops_of(users[0]) else None


def _rewrite(sch: Schedule, reader: StmtSRef, buffer: Buffer) -> None:
    loads = _loads(reader.block, buffer)
    if len(loads) == 1 and _is_whole_copy(sch, reader, loads[0]):
        own = sch.get_block(reader.block.name_hint, sch.state.function_of(reader).name_hint)
        sch.annotate(own, LAYOUT_BLOCK, 1)
        return
    map_ = None if len(loads) != 1 else suggest_layout(sch, reader, loads[0])
    if map_ is None:
        return
    block = sch.get_block(reader.block.name_hint, sch.state.function_of(reader).name_hint)
    number = next(k for k, r in enumerate(reader.block.reads) if r.buffer is buffer)
    trial = sch.copy()
    for s in (trial, sch):
        try:
            copy = s.cache_read(block, number, "global")
            s.transform_layout(copy, ("write", 0), map_)
            s.annotate(copy, LAYOUT_BLOCK, 1)
        except ScheduleError:
            return  # seen in the trial, so that the schedule is as it was


def _is_whole_copy(sch: Schedule, reader: StmtSRef, load: BufferLoad) -> bool:
    """Whether a block, before anything else is done, only copies every element of a weight to a place of its own."""
    realize = sch.state.realize_of(reader)
    body, loops = realize.block.body, sch.state.loops_of(reader)
    root = sch.state.scope_root(reader)
    if not isinstance(body, BufferStore) or body.value is not load or root is None or root.parent is not None:
        return False
    always = isinstance(realize.predicate, IntImm) and realize.predicate.value == 1
    writers = [s for s in sch.state.blocks_below(root) if any(r.buffer is body.buffer for r in s.block.writes)]
    if not always or len(writers) != 1 or body.buffer not in root.block.alloc_buffers:
        return False
    if loops[0].parent is not root or len(sch.state.child_blocks(loops[0])) != 1:
        return False
    bindings = {v.var: x for v, x in zip(realize.block.iter_vars, realize.iter_values, strict=True)}
    domain = {s.loop.loop_var: Range(0, s.loop.extent) for s in loops}
    sizes: list[int] = []
    for indices, buffer in ((load.indices, load.buffer), (body.indices, body.buffer)):
        found = detect_iter_map([substitute(i, bindings) for i in indices], domain, True, "bijective")
        known = [n.value for n in buffer.shape if isinstance(n, IntImm)]
        if not found.indices or len(known) < len(buffer.shape):
            return False
        sizes.append(prod(known))
    return sizes[0] == sizes[1] == prod(extent_of(s.loop) or 0 for s in loops)


def _loads(block: Block, buffer: Buffer) -> list[BufferLoad]:
    """Different places of a buffer that a block loads."""
    found: dict[str, BufferLoad] = {}

    def look(node: object) -> None:
        if isinstance(node, BufferLoad) and node.buffer is buffer:
            found.setdefault(str(node), node)

    post_order_visit(block.body, look)
    if block.init is not None:
        post_order_visit(block.init, look)
    return list(found.values())


def suggest_layout(sch: Schedule, reader: StmtSRef, load: BufferLoad) -> IndexMap | None:
    """The layout in which one loop iteration's element lies next to the next one's; None where the loops do not visit
    every element exactly once, by subscripts made of splits and fusions, or where it is the present layout.
    """
    realize = sch.state.realize_of(reader)
    bindings = {v.var: x for v, x in zip(realize.block.iter_vars, realize.iter_values, strict=True)}
    indices = [substitute(i, bindings) for i in load.indices]
    used = variables(*indices)
    loops = [s.loop for s in sch.state.loops_of(reader) if s.loop.loop_var in used]
    shape = [n.value for n in load.buffer.shape if isinstance(n, IntImm)]
    extents = {loop.loop_var: extent_of(loop) for loop in loops}
    if len(shape) < len(load.buffer.shape) or None in extents.values() or len(extents) < len(used):
        return None
    domain = {loop.loop_var: Range(0, loop.extent) for loop in loops}
    found = detect_iter_map(indices, domain, True, "surjective")
    if not found.indices:
        return None
    parts: list[_Part] = []
    for dimension, index in enumerate(found.indices):
        digits = _digits(index, dimension, shape[dimension])
        if digits is None:
            return None
        parts += digits
    order = {loop.loop_var: k for k, loop in enumerate(loops)}
    parts.sort(key=lambda p: (order[p.loop], -p.lower))
    return _map_of(_merged(parts), len(shape))


class _Part:
    """Digits of one subscript: `(subscript // stride) % extent` is what a loop gives, above its `lower`."""

    def __init__(self, dimension: int, stride: int, extent: int, loop: Var, lower: int) -> None:
        self.dimension, self.stride, self.extent = dimension, stride, extent
        self.loop, self.lower = loop, lower


def _digits(index: IterSumExpr, dimension: int, size: int) -> list[_Part] | None:
    """The parts of a subscript, if they are the digits of every number below `size`."""
    if not (isinstance(index.base, IntImm) and index.base.value == 0):
        return None
    found: list[_Part] = []
    for split in index.args:
        more = _of_split(split, dimension)
        if more is None:
            return None
        found += more
    found = sorted((p for p in found if p.extent > 1), key=lambda p: p.stride)
    stride = 1
    for part in found:
        if part.stride != stride:
            return None
        stride *= part.extent
    return found if stride == size else None


def _of_split(split: IterSplitExpr, dimension: int, factor: int = 1) -> list[_Part] | None:
    numbers = [x.value for x in (split.lower_factor, split.extent, split.scale) if isinstance(x, IntImm)]
    if len(numbers) < 3:
        return None
    lower, extent, scale = numbers
    source = split.source.source
    if isinstance(source, Var):
        return [_Part(dimension, scale * factor, extent, source, lower)]
    whole = isinstance(split.source.extent, IntImm) and split.source.extent.value == extent and lower == 1
    if not whole or not isinstance(source, IterSumExpr):
        return None
    if not (isinstance(source.base, IntImm) and source.base.value == 0):
        return None
    found: list[_Part] = []
    for inner in source.args:
        more = _of_split(inner, dimension, factor * scale)
        if more is None:
            return None
        found += more
    return found


def _merged(parts: list[_Part]) -> list[_Part]:
    """Neighbours that are one run of a subscript become one part."""
    made: list[_Part] = []
    for part in parts:
        last = made[-1] if made else None
        if last is not None and last.dimension == part.dimension and last.stride == part.stride * part.extent:
            made[-1] = _Part(part.dimension, part.stride, part.extent * last.extent, last.loop, last.lower)
        else:
            made.append(part)
    return made


def _map_of(parts: list[_Part], ndim: int) -> IndexMap | None:
    """The map whose results are these parts; None for the order that a weight has anyway."""
    if [p.dimension for p in parts] == sorted({p.dimension for p in parts}):
        return None
    top: Mapping[int, int] = {p.dimension: max(q.stride for q in parts if q.dimension == p.dimension) for p in parts}

    def results(*indices: Var) -> list[PrimExpr]:
        made: list[PrimExpr] = []
        for p in parts:
            value: PrimExpr = indices[p.dimension]
            if p.stride > 1:
                value = value // p.stride
            made.append(value if p.stride == top[p.dimension] else value % p.extent)
        return made

    return IndexMap.from_func(results, ndim)
