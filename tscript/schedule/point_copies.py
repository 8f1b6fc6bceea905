"""Buffers that a block uses at one element in each run: copies of them whose order follows the axes of the block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tscript.analysis.ranges import range_bounds
from tscript.ir import construct as make
from tscript.ir import expr as ex
from tscript.ir.buffer import Buffer
from tscript.ir.dtype import BOOL
from tscript.ir.expr import BufferLoad, IntImm, IterVar, PrimExpr, Range, Var
from tscript.ir.functor import pre_order_visit, substitute
from tscript.ir.occurrences import variables
from tscript.ir.stmt import Block, BlockRealize, BufferRegion, BufferStore, For, ForKind, LetStmt, Stmt
from tscript.schedule.core import ScheduleCore
from tscript.schedule.coverage import writes_all
from tscript.schedule.errors import refuse
from tscript.schedule.inlining import find_strings
from tscript.schedule.loop_kind import require_still_independent
from tscript.schedule.relayout import require_plain_accesses
from tscript.schedule.rewrite import BlockReuse, ReplaceBuffers
from tscript.schedule.rv import BlockRV
from tscript.schedule.staging import CachedAccess, Location, one_of, uses_loops_around, with_stage
from tscript.schedule.symbols import conjuncts


@dataclass
class PointAccess:
    """A buffer that a block uses at the same subscripts throughout, and the axes that occur in these, in order."""

    access: CachedAccess
    indices: tuple[PrimExpr, ...]
    axes: list[IterVar]

    @property
    def extents(self) -> list[PrimExpr]:
        """The extents of the axes that occur."""
        return [a.dom.extent for a in self.axes if a.dom is not None]


def point_access(s: ScheduleCore, access: CachedAccess, kind: str) -> PointAccess:
    """The one element of a buffer that each run of a block uses. Refused where that is not known, or where a copy
    of it could not take its place.
    """
    target, buffer = access.target, access.buffer
    if s.state.child_blocks(target):
        refuse("{0} holds blocks, so it has no element of its own", target.block, hint="choose a block inside it")
    require_plain_accesses(target.block, buffer, "a copy could not stand for it there")
    used = _subscripts(target.block, buffer)
    if len(used) != 1:
        refuse(f"{{0}} uses `{buffer.name}` at {len(used)} different subscripts in one run", target.block)
    indices = used[0]
    writes = any(w.buffer is buffer for w in target.block.writes)
    if kind == "read" and writes:
        refuse(f"{{0}} also writes `{buffer.name}`, which the copy that it reads would not show", target.block)
    if kind == "write" and target.block.init is None and any(r.buffer is buffer for r in target.block.reads):
        refuse(f"{{0}} builds on what `{buffer.name}` held before, which the new buffer does not hold", target.block)
    found = PointAccess(access, indices, _used_axes(target.block, indices))
    _require_visible(s, found)
    return found


def _subscripts(block: Block, buffer: Buffer) -> list[tuple[PrimExpr, ...]]:
    found: dict[tuple[PrimExpr, ...], None] = {}

    def look(node: object) -> bool:
        if isinstance(node, (BufferLoad, BufferStore)) and node.buffer is buffer:
            found[node.indices] = None
        return True

    for part in (block.body, block.init):
        if part is not None:
            pre_order_visit(part, look)
    return list(found)


def _used_axes(block: Block, exprs: Sequence[PrimExpr]) -> list[IterVar]:
    used = variables(*exprs)
    return [a for a in block.iter_vars if a.var in used]


def _require_visible(s: ScheduleCore, found: PointAccess) -> None:
    """Refuse subscripts and extents of axes that mean nothing outside the block."""
    block, root = found.access.target.block, found.access.root
    own = dict.fromkeys(a.var for a in found.axes)
    inner = _bound_below(root.block)
    for e in found.indices:
        for v in variables(e):
            if v in inner and v not in own:
                refuse(f"{{0}} uses `{found.access.buffer.name}` at `{e}`, but `{v.name}` is no axis of it", block)
        _require_no_load(e, block, found.access.buffer)
    for a in found.axes:
        if a.dom is None or not make.is_const_int(a.dom.min, 0):
            refuse(f"axis `{a.var.name}` of {{0}} does not start at 0", block)
        if any(v in inner for v in variables(a.dom.extent)):
            refuse(f"the extent of axis `{a.var.name}` of {{0}} is not the same for all of {{1}}", block, root.block)


def _require_no_load(index: PrimExpr, block: Block, buffer: Buffer) -> None:
    def look(node: object) -> bool:
        if isinstance(node, BufferLoad):
            refuse(f"where {{0}} uses `{buffer.name}` depends on what `{node.buffer.name}` holds", block)
        return True

    pre_order_visit(index, look)


def _bound_below(root: Block) -> dict[Var, None]:
    """All variables that something below a block binds."""
    found: dict[Var, None] = {}

    def look(node: object) -> bool:
        if isinstance(node, For):
            found[node.loop_var] = None
        elif isinstance(node, (LetStmt, ex.Let)):
            found[node.var] = None
        elif isinstance(node, Block):
            found.update({a.var: None for a in node.iter_vars})
        return True

    pre_order_visit(root.body, look)
    return found


def require_copy_back(s: ScheduleCore, found: PointAccess) -> None:
    """Refuse a written buffer whose elements cannot be copied back one by one."""
    access = found.access
    target, buffer = access.target, access.buffer
    if find_strings(found.indices, found.axes) is None:
        refuse(
            f"{{0}} may write an element of `{buffer.name}` in several runs, and copies of them could come back in "
            "another order",
            target.block,
        )
    if any(a.iter_type != IterVar.DataPar for a in found.axes):
        refuse(f"{{0}} writes `{buffer.name}` at subscripts that depend on an axis which is not spatial", target.block)
    written = next(w for w in target.block.writes if w.buffer is buffer)
    if not writes_all(target.block, BufferRegion(buffer, _points(found.indices))) or len(written.region) != buffer.ndim:
        refuse(f"{{0}} may leave the element of `{buffer.name}` unwritten in some runs", target.block)
    values = zip(target.block.iter_vars, s.state.realize_of(target).iter_values, strict=True)
    if uses_loops_around(s.state, access.root, [v for a, v in values if a.iter_type == IterVar.CommReduce]):
        refuse(
            f"{{0}} goes on accumulating into `{buffer.name}` in later runs of {{1}}, and the new buffer would be "
            "another one in each run",
            target.block,
            access.root.block,
        )


# -- the copy -------------------------------------------------------------------------------------


@dataclass
class Copy:
    """How a copying block runs: its axes stand for those of the access, bound to `values` inside `loops`."""

    loops: list[tuple[Var, PrimExpr, PrimExpr]]
    names: list[str]
    values: list[PrimExpr]
    conditions: list[PrimExpr]


def put_copy(
    s: ScheduleCore,
    found: PointAccess,
    cache: Buffer,
    at: Sequence[PrimExpr],
    name: str,
    copy: Copy,
    location: Location,
    back: bool,
) -> BlockRV:
    """Let the block use `cache` at `at` (in terms of its axes), copied from or (`back`) to the old buffer."""
    access = found.access
    root, target, buffer = access.root, access.target, access.buffer
    axes = [a.var.copy_with(name=n) for a, n in zip(found.axes, copy.names, strict=True)]
    own = dict(zip((a.var for a in found.axes), axes, strict=True))
    outer = tuple(substitute(i, own) for i in found.indices)
    inner = tuple(substitute(i, own) for i in at)
    source, into = ((cache, inner), (buffer, outer)) if back else ((buffer, outer), (cache, inner))
    block = Block(
        tuple(IterVar(a.dom, v, IterVar.DataPar) for a, v in zip(found.axes, axes, strict=True)),
        (BufferRegion(source[0], _points(source[1])),),
        (BufferRegion(into[0], _points(into[1])),),
        name,
        BufferStore(into[0], BufferLoad(*source), into[1]),
    )
    predicate: PrimExpr = IntImm(BOOL, 1)
    inside = [] if back else _inside(found, root.block)
    values = dict(zip((a.var for a in found.axes), copy.values, strict=True))
    for c in [*copy.conditions, *(substitute(c, values) for c in inside)]:
        predicate = make.and_(predicate, c)
    stage: Stmt = BlockRealize(tuple(copy.values), predicate, block)
    for var, low, extent in reversed(copy.loops):
        stage = For(var, low, extent, ForKind.SERIAL, stage)
    realize = s.state.realize_of(target)
    redirect = _UseAt(buffer, cache, at)
    changes: dict[Stmt, Stmt | None] = {realize: realize.replace(block=redirect.rewrite(target.block))}
    new_root, reuse = with_stage(root.block, changes, location, stage)
    new_root = new_root.replace(alloc_buffers=(*new_root.alloc_buffers, cache))
    kept: BlockReuse = {**reuse, **redirect.block_reuse}
    require_still_independent(s, location.loop, block, (root, new_root, kept))
    s.state.replace(root, new_root, kept)
    return s.block_of(block)


def _points(indices: Sequence[PrimExpr]) -> tuple[Range, ...]:
    return tuple(Range.from_min_extent(i, IntImm(i.dtype, 1)) for i in indices)


def _inside(found: PointAccess, root: Block) -> list[PrimExpr]:
    """Conditions on the axes for the element to be one that may be read: runs that read none are copied too."""
    buffer = found.access.buffer
    bounds = range_bounds({a.var: a.dom for a in found.axes if a.dom is not None})
    declared = [r for r in root.reads if r.buffer is buffer]
    everything = BufferRegion(buffer, tuple(Range.from_min_extent(IntImm(n.dtype, 0), n) for n in buffer.shape))
    conditions = conjuncts(one_of([everything], found.indices, bounds))
    return conditions + (conjuncts(one_of(declared, found.indices, bounds)) if declared else [])


class _UseAt(ReplaceBuffers):
    """Uses another buffer at other subscripts wherever a buffer is used."""

    def __init__(self, old: Buffer, new: Buffer, at: Sequence[PrimExpr]) -> None:
        super().__init__({old: new})
        self.old = old
        self.new = new
        self.at = tuple(at)

    def rewrite_BufferLoad(self, node: BufferLoad) -> PrimExpr:
        """A load, from the new place if it is one of the old buffer."""
        if node.buffer is self.old:
            return BufferLoad(self.new, self.at)
        predicate = None if node.predicate is None else self.rewrite(node.predicate)
        indices = tuple(self.rewrite(i) for i in node.indices)
        return node.replace(buffer=self.rewrite(node.buffer), indices=indices, predicate=predicate)

    def rewrite_BufferStore(self, node: BufferStore) -> Stmt:
        """A store, to the new place if it is one to the old buffer."""
        if node.buffer is not self.old:
            return self.rewrite_children(node)
        return node.replace(buffer=self.new, value=self.rewrite(node.value), indices=self.at)

    def rewrite_BufferRegion(self, node: BufferRegion) -> BufferRegion:
        """A region, the new place if it is one of the old buffer."""
        if node.buffer is not self.old:
            return self.rewrite_children(node)
        return BufferRegion(self.new, _points(self.at))


__all__ = ["Copy", "PointAccess", "point_access", "put_copy", "require_copy_back"]
