"""A buffer keeps what the next window needs, and nothing is computed twice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from tscript.analysis.ranges import bound_region, range_bounds
from tscript.arith import simplify
from tscript.ir import construct as make
from tscript.ir import expr as ex
from tscript.ir.buffer import Buffer
from tscript.ir.expr import BufferLoad, IntImm, IterVar, PrimExpr, Range, Var
from tscript.ir.functor import post_order_visit, pre_order_visit
from tscript.ir.linear import linear_form
from tscript.ir.occurrences import mentions, variables
from tscript.ir.stmt import Block, BlockRealize, BufferRegion, BufferStore, For, ForKind, SeqStmt, Stmt
from tscript.schedule.buffers import accessed, same_region
from tscript.schedule.buffers import buffer_index as index_of
from tscript.schedule.checks import (
    region_cover,
    require_not_output,
    require_scope_root,
    why_not_complete,
    why_not_reduction,
)
from tscript.schedule.conflicts import memory_of
from tscript.schedule.core import ScheduleCore
from tscript.schedule.errors import refuse
from tscript.schedule.instruction import InstructionKind, attr, block
from tscript.schedule.motion import Move, require_droppable_predicate
from tscript.schedule.primitive import primitive
from tscript.schedule.rewrite import BlockReuse, ReplaceBuffers, replace_stmts
from tscript.schedule.rv import BlockRV
from tscript.schedule.scope import DepKind
from tscript.schedule.sref import StmtSRef
from tscript.schedule.staging import Location, Region, require_same_layout, single_writer, written_region
from tscript.schedule.symbols import axes_using, loop_ranges, loop_variables_of, outer_bounds


@primitive(InstructionKind("RollingBuffer", "rolling_buffer", (block(), attr("write_buffer_index"))))
def rolling_buffer(s: ScheduleCore, block: BlockRV | str, write_buffer_index: int | str | Buffer) -> None:
    """Keep, from one iteration to the next, what a block wrote that is needed again, in a circular buffer.

    The buffer is given by its place among the writes of the block, by name, or itself. In each iteration of the
    loops around both the block and its consumers, the block writes a window of the buffer that moves along with
    the loops; where windows of consecutive iterations overlap, it is computed once only: the block no longer runs for
    what the iteration before has made. Along the dimension that moves with the outermost of these loops the buffer
    becomes as long as the window, and is subscripted modulo that length; axes that run over this loop become opaque,
    since its iterations must stay in order. In a chain of such stages each can roll, in any order.

    Requires: the block is the only writer of the buffer, which is not seen outside the scope; all consumers are under
    a common loop with it, and read only what the block writes in the same iteration; each dimension of the window
    is of constant length and moves with one loop at most, `v * c`, `v * c // d` or such plus a constant, and some
    windows overlap; what the block computes depends on nothing that changes while the loops run; these run one
    iteration after the other. Later steps that need a pipeline of stages are refused: roll at the end.

    >>> import tscript
    >>> from tscript.script import tir as T
    >>> @T.prim_func
    ... def blur(A: T.Buffer((10,), "float32"), C: T.Buffer((8,), "float32")):
    ...     B = T.alloc_buffer((10,))
    ...     for i in range(8):
    ...         for k in range(3):
    ...             with T.block("B"):
    ...                 v = T.axis.spatial(10, i + k)
    ...                 B[v] = A[v] * T.float32(2)
    ...         with T.block("C"):
    ...             v = T.axis.spatial(8, i)
    ...             C[v] = B[v] + B[v + 1] + B[v + 2]
    >>> sch = tscript.tir.Schedule(blur)
    >>> sch.rolling_buffer("B", 0)
    >>> print(sch.get(sch.get_block("root")).alloc_buffers[0].shape)
    (3,)
    >>> print(sch.get(sch.get_block("C")).body.value)
    B[v % 3] + B[(v + 1) % 3] + B[(v + 2) % 3]
    """
    target = s.block(block)  # pyright: ignore[reportArgumentType]
    root = require_scope_root(s.state, target)
    index = index_of(target.block, write_buffer_index, "write")
    buffer = accessed(target.block, index, "write").buffer
    roll = _plan(s, root, target, buffer)
    new_buffer = buffer
    changes: dict[Stmt, Stmt | None] = {}
    reuse: BlockReuse = {}
    first = roll.moving[0]
    _require_init_elsewhere([s.state.realize_of(user) for user in (target, *roll.consumers)], first.loop)
    size = buffer.shape[first.dim]
    if not (isinstance(size, IntImm) and size.value <= first.length):
        shape = list(buffer.shape)
        shape[first.dim] = IntImm(size.dtype, first.length)
        new_buffer = buffer.replace(shape=tuple(shape))
    for user in (target, *roll.consumers):
        realize = s.state.realize_of(user)
        circular = _Circular(buffer, new_buffer, first.dim, first.length)
        changed = _in_order(realize, circular.rewrite(realize.block), first.loop.loop_var)
        reuse |= {**circular.block_reuse, user.block: changed}
        predicate = _first_time(s, target, roll) if user is target else realize.predicate
        changes[realize] = realize.replace(block=changed, predicate=predicate)
        if _lasts(s, user, root, roll.top):
            _LASTING[changed] = None
    new_root, outer = replace_stmts(root.block, changes)
    allocs = tuple(new_buffer if b is buffer else b for b in new_root.alloc_buffers)
    s.state.replace(root, new_root.replace(alloc_buffers=allocs), {**outer, **reuse})
    s.record_as(write_buffer_index=index)


_LASTING: WeakKeyDictionary[Block, None] = WeakKeyDictionary()
"""Blocks that this step changed, whose values were the same whenever they run, and are so still, though they no longer
look like it.
"""


@dataclass
class _Moving:
    """A dimension whose window, of constant `length`, moves with `loop` and overlaps the one before by `overlap`."""

    dim: int
    loop: For
    start: PrimExpr
    length: int
    overlap: int


@dataclass
class _Roll:
    """The common loop, what is written, the overlapping dimensions (outermost loop first), and the readers."""

    top: StmtSRef
    written: BufferRegion
    moving: list[_Moving]
    consumers: list[StmtSRef]


def _plan(s: ScheduleCore, root: StmtSRef, target: StmtSRef, buffer: Buffer) -> _Roll:
    state, stmt = s.state, target.block
    require_not_output(state, target, root)
    single_writer(state, root, buffer)
    regions = [w for w in stmt.writes if w.buffer is buffer]
    if len(regions) > 1:
        refuse(f"{{0}} writes several regions of `{buffer.name}`", stmt)
    consumers = [c for c in state.scope(root).children if c is not target and _reads(c, buffer)]
    if not consumers:
        refuse(f"nothing reads `{buffer.name}`, which {{0}} writes", stmt)
    top = state.common_ancestor([target, *consumers])
    if not isinstance(top.stmt, For):
        refuse(
            "{0} and its consumers are under no common loop, so there is no window that moves",
            stmt,
            hint="move it under a loop of its consumers first, with compute_at",
        )
    loops = [*state.loops_of(top), top]
    for loop in loops:
        if loop.loop.kind not in (ForKind.SERIAL, ForKind.UNROLLED):
            refuse(
                f"{{0}} is {ForKind.NAMES[loop.loop.kind]}: its iterations do not come one after the other", loop.loop
            )
    _require_reads_of_window(s, root, target, buffer, consumers)
    _require_lasting(s, root, target, loops)
    require_droppable_predicate(Move(s, target, top, root, [], []))
    region = written_region(state, target, regions[0], Location(None, top), None)
    chain = {r.loop.loop_var: r for r in loops}
    ends = [e for side in (region.lows, region.highs) for some in side for e in some]
    if not region.is_exact or region.conditions or any(mentions(e, chain) for e in ends):
        refuse(
            f"which part of `{buffer.name}` {{0}} writes in one iteration of {{1}} is not known to be a box",
            stmt,
            top.loop,
        )
    return _Roll(top, regions[0], _moving(s, target, buffer, region, loops), consumers)


def _reads(block: StmtSRef, buffer: Buffer) -> bool:
    return any(r.buffer is buffer for r in block.block.reads)


def _require_reads_of_window(
    s: ScheduleCore, root: StmtSRef, target: StmtSRef, buffer: Buffer, consumers: Sequence[StmtSRef]
) -> None:
    """Refuse consumers that reach elements which the same iteration has not written, or by other ways."""
    scope = s.state.scope(root)
    memory = memory_of(s.state, target)
    for c in consumers:
        if not any(d.src is target and d.kind is DepKind.RAW for d in scope.dst2deps.get(c, ())):
            refuse(f"{{0}} reads `{buffer.name}` before {{1}} writes it", c.block, target.block)
        if not region_cover(s.state, c):
            refuse("{0} may read elements that {1} has not written in the same iteration", c.block, target.block)
    require_same_layout([target, *consumers], buffer, compact=True)
    for user in (target, *consumers):
        for below in (user, *s.state.blocks_below(user)):
            if any(m.source.buffer is buffer for m in below.block.match_buffers):
                refuse(f"{{0}} has a view of `{buffer.name}`, which would have to go round", below.block)
    known = {s.state.realize_of(user): None for user in (target, *consumers)}

    def look(node: object) -> bool:
        if (isinstance(node, Buffer) and memory(node) is memory(buffer)) or node is buffer.data:
            refuse(f"`{buffer.name}` is used in {{0}} in ways that its blocks do not declare", root.block)
        return node not in known

    pre_order_visit(root.block.body, look)


def _require_lasting(s: ScheduleCore, root: StmtSRef, target: StmtSRef, loops: Sequence[StmtSRef]) -> None:
    """Refuse a block whose values may be others in a later iteration, through anything that it depends on."""
    scope = s.state.scope(root)
    outer = {r.loop.loop_var: r for r in loops}
    pending, seen = [target], dict[StmtSRef, None]()
    while pending:
        at = pending.pop()
        if at in seen:
            continue
        seen[at] = None
        pending += [d.src for d in scope.dst2deps.get(at, ()) if d.kind is not DepKind.WAR]
        if not _lasts(s, at, root, loops[-1]):
            refuse(
                "{0} is neither complete nor a reduction, so what it makes may be something else in each iteration",
                at.block,
            )
        for deps in (scope.dst2deps.get(at, ()), scope.src2deps.get(at, ())):
            for d in deps:
                if d.kind is not DepKind.RAW:
                    refuse("{0} overwrites what {1} has read or written before it", d.dst.block, d.src.block)
        for var in loop_variables_of(s.state.realize_of(at), IterVar.CommReduce):
            if var in outer:
                refuse("{0} accumulates over {1}, so it is not done in one iteration", at.block, outer[var].loop)


def _lasts(s: ScheduleCore, block: StmtSRef, root: StmtSRef, top: StmtSRef) -> bool:
    """Whether a block makes the same of the same in each iteration of a loop."""
    loops = s.state.loops_of(block)
    inner = loops[loops.index(top) + 1 :] if top in loops else loops
    return (
        block.block in _LASTING
        or not why_not_complete(s.state, block, root)
        or _starts_anew(block.block)
        or not why_not_reduction(s.state, block, root, None, inner[0] if inner else None)
    )


def _starts_anew(block: Block) -> bool:
    """Whether a block of spatial axes reads of what it writes only the element that it has stored first."""
    if any(axis.iter_type != IterVar.DataPar for axis in block.iter_vars) or block.init is not None:
        return False
    first = block.body.seq[0] if isinstance(block.body, SeqStmt) else block.body
    own = [r for r in block.reads if any(w.buffer is r.buffer for w in block.writes)]
    if not isinstance(first, BufferStore) or first.predicate is not None:
        return False
    point = BufferRegion(first.buffer, tuple(Range.from_min_extent(i, IntImm(i.dtype, 1)) for i in first.indices))
    loads: list[Buffer] = []
    post_order_visit(first.value, lambda n: loads.append(n.buffer) if isinstance(n, BufferLoad) else None)
    return first.buffer not in loads and all(same_region(r, point) for r in own)


# -- windows --------------------------------------------------------------------------------------


def _moving(
    s: ScheduleCore, target: StmtSRef, buffer: Buffer, region: Region, loops: Sequence[StmtSRef]
) -> list[_Moving]:
    """The dimensions along which windows overlap; refused where one moves in another way, and where none overlaps."""
    chain = {r.loop.loop_var: k for k, r in enumerate(loops)}
    found: list[tuple[int, _Moving]] = []
    taken: dict[Var, int] = {}
    for dim, (start, extent) in enumerate(zip(region.starts, region.extents, strict=True)):
        used = [v for v in variables(start) if v in chain]
        if not used and not mentions(extent, chain):
            continue
        step = _step(start, used[0]) if len(used) == 1 else None
        if step is None or not isinstance(extent, IntImm):
            refuse(
                f"in dimension {dim} of `{buffer.name}`, {{0}} writes from `{start}` on in one iteration, "
                f"{extent} elements: that is no window of constant length that moves with one loop",
                target.block,
            )
        var = used[0]
        if var in taken:
            refuse(
                f"dimensions {taken[var]} and {dim} of `{buffer.name}` move together, with {{0}}: what one iteration "
                "leaves over is no box",
                loops[chain[var]].loop,
            )
        taken[var] = dim
        overlap = extent.value - step
        if overlap > 0:
            found.append((chain[var], _Moving(dim, loops[chain[var]].loop, start, extent.value, overlap)))
    if not found:
        refuse(
            f"what {{0}} writes of `{buffer.name}` in one iteration does not overlap what it writes in the next",
            target.block,
        )
    return [m for _, m in sorted(found, key=lambda f: f[0])]


def _step(start: PrimExpr, var: Var) -> int | None:
    """How far a start moves on at most when a variable grows by one; None where it does not move evenly forward."""
    terms, _ = linear_form(start)
    moving = [(t, c) for t, c in terms.items() if mentions(t, {var: None})]
    if len(moving) != 1:
        return None
    ((term, factor),) = moving
    if term is var:
        return factor if factor > 0 else None
    if isinstance(term, ex.FloorDiv) and isinstance(term.b, IntImm) and term.b.value > 0 and factor == 1:
        inner = _step(term.a, var)
        return None if inner is None else -(-inner // term.b.value)
    return None


def _first_time(s: ScheduleCore, target: StmtSRef, roll: _Roll) -> PrimExpr:
    """When the block has to run: where it makes something that no earlier iteration has made."""
    realize = s.state.realize_of(target)
    loops = loop_ranges(s.state.loops_of(target))
    bounds = {**outer_bounds(s.state, target), **range_bounds(loops)}
    ranges = bound_region(realize, roll.written)
    predicate = realize.predicate
    for m in roll.moving:
        r = ranges[m.dim]
        last = make.sub(make.add(make.sub(r.min, m.start), r.extent), 1)
        begins = make.compare(ex.LT, m.loop.loop_var, make.add(m.loop.min, 1))
        new = make.compare(ex.GE, last, m.overlap)
        predicate = make.and_(predicate, simplify(make.or_(begins, new), bounds))
    return predicate


# -- the circular buffer --------------------------------------------------------------------------


class _Circular(ReplaceBuffers):
    """Uses a buffer whose elements along one dimension come back every `length`."""

    def __init__(self, old: Buffer, new: Buffer, dim: int, length: int) -> None:
        super().__init__({old: new} if new is not old else {})
        self.old = old
        self.new = new
        self.dim = dim
        self.length = length

    def _turned(self, indices: Sequence[PrimExpr]) -> tuple[PrimExpr, ...]:
        return tuple(make.floormod(i, self.length) if d == self.dim else i for d, i in enumerate(indices))

    def rewrite_BufferLoad(self, node: BufferLoad) -> PrimExpr:
        """A load, at a position that goes round."""
        new: BufferLoad = node.replace(
            buffer=self.rewrite(node.buffer),
            indices=tuple(self.rewrite(i) for i in node.indices),
            predicate=None if node.predicate is None else self.rewrite(node.predicate),
        )
        return new.replace(indices=self._turned(new.indices)) if self._is_turned(node.buffer) else new

    def leave_BufferStore(self, node: BufferStore) -> Stmt:
        """A store, at a position that goes round."""
        return node.replace(indices=self._turned(node.indices)) if self._is_turned(node.buffer) else node

    def leave_BufferRegion(self, node: BufferRegion) -> BufferRegion:
        """A region; longer ones may go round and are taken as a whole."""
        if not self._is_turned(node.buffer):
            return node
        ranges = list(node.region)
        r = ranges[self.dim]
        if make.is_const_int(r.extent, 1):
            ranges[self.dim] = Range.from_min_extent(make.floormod(r.min, self.length), r.extent)
        else:
            ranges[self.dim] = Range.from_min_extent(IntImm(r.min.dtype, 0), IntImm(r.min.dtype, self.length))
        return node.replace(region=tuple(ranges))

    def _is_turned(self, buffer: Buffer) -> bool:
        # Where the buffer is no longer than the window, it stays as it is.
        return self.new is not self.old and (buffer is self.old or buffer is self.new)


def _require_init_elsewhere(users: Sequence[BlockRealize], loop: For) -> None:
    """Refuse a block whose init is told by an axis that would become opaque: it would run in each iteration."""
    for realize in users:
        moving = axes_using(realize, loop.loop_var)
        axis = next((a for a in moving if a.iter_type == IterVar.CommReduce), None)
        if axis is not None and realize.block.init is not None:
            refuse(
                f"the window moves with {{0}}, over which {{1}} reduces (its axis `{axis.var.name}`): in that order "
                "the axis would no longer tell when the init runs",
                loop,
                realize.block,
                hint="decompose_reduction first, or move the producer under a loop that is not reduced over",
            )


def _in_order(realize: BlockRealize, block: Block, var: Var) -> Block:
    """The block with the axes that run over a loop made opaque."""
    moving = dict.fromkeys(axes_using(realize, var))
    axes = tuple(
        IterVar(axis.dom, axis.var, IterVar.Opaque) if axis in moving else axis for axis in block.iter_vars
    )  # fmt: skip
    return block.replace(iter_vars=axes)
