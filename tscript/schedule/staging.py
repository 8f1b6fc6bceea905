"""Copies of buffers: where the copying stage stands, what it copies, and the loops and block that do it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tscript.analysis.ranges import bound_region, loop_range, range_bounds
from tscript.arith import Bound, simplify
from tscript.ir import construct as make
from tscript.ir.buffer import Buffer
from tscript.ir.dtype import BOOL
from tscript.ir.expr import LE, LT, BufferLoad, Call, IntImm, IterVar, PrimExpr, Range, Var
from tscript.ir.functor import pre_order_visit
from tscript.ir.occurrences import mentions
from tscript.ir.stmt import Block, BlockRealize, BufferRegion, BufferStore, For, ForKind, SeqStmt, Stmt, seq
from tscript.schedule.buffers import accessed, buffer_index, cache_of, require_storage_scope
from tscript.schedule.checks import require_scope_root, writers_of
from tscript.schedule.conflicts import memory_of
from tscript.schedule.core import ScheduleCore
from tscript.schedule.coverage import Relaxation, relaxed_loops, writes_all, written_box
from tscript.schedule.errors import refuse
from tscript.schedule.loop_kind import require_still_independent
from tscript.schedule.rewrite import BlockReuse, ReplaceBuffers, path_to, replace_stmts
from tscript.schedule.rv import BlockRV
from tscript.schedule.sref import StmtSRef
from tscript.schedule.state import ScheduleState
from tscript.schedule.symbols import axis_ranges, no_less, outer_bounds, proves


@dataclass
class CachedAccess:
    """What a caching step is about: an access of `target`, number `index`, to `buffer`, in the scope of `root`.

    `scope` is the storage scope of the new buffer, `given` the blocks that the caller wants to use it.
    """

    scope: str
    target: StmtSRef
    root: StmtSRef
    index: int
    buffer: Buffer
    given: list[StmtSRef]


@dataclass
class Location:
    """Where a stage goes: before `before`, or at the end of the scope where that is None.

    `loop` is the innermost loop around it, if any.
    """

    before: Stmt | None
    loop: StmtSRef | None


def place_between(state: ScheduleState, root: StmtSRef, writer: StmtSRef, readers: Sequence[StmtSRef]) -> Location:
    """The place after `writer` and before the first of `readers`, in the innermost sequence that holds both.

    With no readers, the end of the scope of `root`.
    """
    best: tuple[int, Location] | None = None
    source = path_to(root.block.body, state.realize_of(writer))
    for reader in readers:
        target = path_to(root.block.body, state.realize_of(reader))
        depth = next(i for i, (a, b) in enumerate(zip(source, target, strict=False)) if a is not b)
        if not isinstance(source[depth - 1], SeqStmt):
            refuse("{0} and {1} stand in different branches, with no place between them", writer.block, reader.block)
        if best is None or depth > best[0]:
            around = [s for s in source[:depth] if isinstance(s, For)]
            best = depth, Location(target[depth], state.stmt2ref[around[-1]] if around else None)
    return best[1] if best is not None else Location(None, None)


@dataclass
class Region:
    """What a stage copies: for each dimension a start and an extent, under conditions on the position.

    `lows` and `highs` are further inclusive ends that positions in each dimension must respect; `conditions` hold
    for the stage as a whole. `is_exact`: nothing else was written by the block that the region was taken from.
    Positions lie in one of the regions of `within`, if there are any.
    """

    starts: list[PrimExpr]
    extents: list[PrimExpr]
    lows: list[list[PrimExpr]]
    highs: list[list[PrimExpr]]
    conditions: list[PrimExpr]
    is_exact: bool
    within: Sequence[BufferRegion] = ()

    def is_whole(self, buffer: Buffer) -> bool:
        """Whether this is all of a buffer."""
        return all(
            _is_zero(start) and extent is size
            for start, extent, size in zip(self.starts, self.extents, buffer.shape, strict=True)
        )


def whole_region(buffer: Buffer) -> Region:
    """All of a buffer."""
    none: list[list[PrimExpr]] = [[] for _ in buffer.shape]
    return Region([_zero(s) for s in buffer.shape], list(buffer.shape), none, none, [], True)


def clip_to_declared(state: ScheduleState, root: StmtSRef, buffer: Buffer, region: Region) -> Region:
    """The part of a region that a block declares to read, if it does: stages for blocks inside need no more."""
    regions = [r for r in root.block.reads if r.buffer is buffer]
    if not regions:
        return region
    bounds = {**outer_bounds(state, root), **range_bounds(axis_ranges(root.block))}
    lows = [[start, *more] for start, more in zip(region.starts, region.lows, strict=True)]
    highs = [
        [simplify(start + extent - 1), *more]
        for start, extent, more in zip(region.starts, region.extents, region.highs, strict=True)
    ]
    if len(regions) == 1:
        for r, low, high in zip(regions[0].region, lows, highs, strict=True):
            low.append(r.min)
            high.append(simplify(r.min + r.extent - 1))
    found = region_of_ends(buffer, lows, highs, region.conditions, region.is_exact, bounds)
    return replace(found, within=regions if len(regions) > 1 else [])


def one_of(regions: Sequence[BufferRegion], position: Sequence[PrimExpr], bounds: Mapping[Var, Bound]) -> PrimExpr:
    """The condition that a position lies in one of some regions."""
    result: PrimExpr = IntImm(BOOL, 0)
    for region in regions:
        inside: PrimExpr = IntImm(BOOL, 1)
        for at, r in zip(position, region.region, strict=True):
            for part in (make.compare(LE, r.min, at), make.compare(LT, at, simplify(r.min + r.extent))):
                if not proves(part, bounds):
                    inside = make.and_(inside, part)
        result = make.or_(result, inside)
    return result


def written_region(
    state: ScheduleState, writer: StmtSRef, region: BufferRegion, location: Location, cache_scope: str | None
) -> Region:
    """What a block writes of a region's buffer as seen from a location; whole dimensions where that is unknown.

    Threads that share the buffer but not memory of `cache_scope` are each given what all of them write.
    """
    realize, buffer = state.realize_of(writer), region.buffer
    loops = state.loops_of(writer)
    below = loops[loops.index(location.loop) + 1 :] if location.loop is not None else loops
    domain = {r.loop.loop_var: loop_range(r.loop) for r in below}
    if cache_scope is not None and location.loop is not None:
        top = location.loop
        shared = relaxed_loops(state, writer, top, buffer)
        own = relaxed_loops(state, writer, top, buffer.replace(data=_in_scope(buffer.data, cache_scope)))
        domain = {**{v: r for v, r in shared.items() if v not in own}, **domain}
    bounds = outer_bounds(state, writer)
    box = written_box(realize, region, domain, bounds)
    hidden = _hidden_variables(state, writer, location)
    if box is not None and all(not mentions(e, hidden) for ends in (*box.lows, *box.highs) for e in ends):
        conditions = [c for c in box.conditions if not mentions(c, hidden)]
        exact = box.is_exact and len(conditions) == len(box.conditions) and writes_all(writer.block, region)
        return region_of_ends(buffer, box.lows, box.highs, conditions, exact, bounds)
    lows: list[list[PrimExpr]] = []
    highs: list[list[PrimExpr]] = []
    relaxation = Relaxation(domain, bounds)
    for size, r in zip(buffer.shape, bound_region(realize, region), strict=True):
        found = relaxation.of(r)
        if found is None or not (not mentions(found.low, hidden) and not mentions(found.high, hidden)):
            lows.append([_zero(size)])
            highs.append([simplify(size - 1)])
        else:
            lows.append([found.low])
            highs.append([found.high])
    return region_of_ends(buffer, lows, highs, [], False, bounds)


def _in_scope(data: Var, scope: str) -> Var:
    pointer = data.type_annotation
    return data.copy_with(dtype=pointer.replace(storage_scope=scope))


def _hidden_variables(state: ScheduleState, writer: StmtSRef, location: Location) -> dict[Var, None]:
    """Variables bound around the writer that expressions at the location must not mention."""
    loops = state.loops_of(writer)
    below = loops[loops.index(location.loop) + 1 :] if location.loop is not None else loops
    root = state.scope_root(writer)
    assert root is not None
    hidden: dict[Var, None] = {r.loop.loop_var: None for r in below}
    for step in path_to(root.block.body, state.realize_of(writer)):
        bound = getattr(step, "var", None)
        if isinstance(bound, Var):
            hidden[bound] = None
    return hidden


def region_of_ends(
    buffer: Buffer,
    lows: list[list[PrimExpr]],
    highs: list[list[PrimExpr]],
    conditions: list[PrimExpr],
    exact: bool,
    bounds: Mapping[Var, Bound],
) -> Region:
    """The region between ends, clipped to the buffer: of constant extent where possible, the other ends as guards."""
    region = Region([], [], [], [], conditions, exact)
    for size, low, high in zip(buffer.shape, lows, highs, strict=True):
        below = _needed([*low, _zero(size)], bounds, larger=True)
        above = _needed([*high, simplify(size - 1)], bounds, larger=False)
        start, last = _closest(below, above)
        region.starts.append(start)
        extent = simplify(last - start + 1, bounds)
        # What is declared may lie beyond the buffer altogether.
        region.extents.append(_zero(extent) if no_less(_zero(extent), extent, {}) else extent)
        region.lows.append([e for e in below if e is not start])
        region.highs.append([e for e in above if e is not last])
    return region


def _needed(ends: list[PrimExpr], bounds: Mapping[Var, Bound], larger: bool) -> list[PrimExpr]:
    """The ends that matter: not those that another one implies."""
    kept: list[PrimExpr] = []
    for e in ends:
        if any(no_less(k, e, bounds) if larger else no_less(e, k, bounds) for k in kept):
            continue
        kept = [k for k in kept if not (no_less(e, k, bounds) if larger else no_less(k, e, bounds))]
        kept.append(e)
    return kept


def _closest(lows: list[PrimExpr], highs: list[PrimExpr]) -> tuple[PrimExpr, PrimExpr]:
    """A start and a last position of constant distance, the smallest there is; else the first of each."""
    best: tuple[int, PrimExpr, PrimExpr] | None = None
    for low in lows:
        for high in highs:
            gap = simplify(high - low)
            if isinstance(gap, IntImm) and (best is None or gap.value < best[0]):
                best = gap.value, low, high
    return (best[1], best[2]) if best is not None else (lows[0], highs[0])


# -- the stage ------------------------------------------------------------------------------------


def copy_stage(
    source: Buffer, target: Buffer, region: Region, name: str, offset: str, bounds: Mapping[Var, Bound]
) -> tuple[Stmt, Block]:
    """Loops `ax0..` around a block that copies a region element by element, and that block.

    Both buffers are subscripted by positions in the region's buffer, unless `offset` says which one ("source" or
    "target") is: then the other one is subscripted from zero on.
    """
    shape = target.shape if offset == "source" else source.shape
    loops: list[Var] = []
    axes: list[IterVar] = []
    values: list[PrimExpr] = []
    near: list[PrimExpr] = []
    far: list[PrimExpr] = []
    positions: list[PrimExpr] = []
    everywhere: dict[Var, Bound] = dict(bounds)
    guard: list[PrimExpr] = list(region.conditions)
    for d, (start, extent) in enumerate(zip(region.starts, region.extents, strict=True)):
        ax, v = Var(f"ax{d}", extent.dtype), Var(f"v{d}", extent.dtype)
        loops.append(ax)
        position = make.add(start, ax)
        positions.append(position)
        axes.append(IterVar(Range.from_min_extent(_zero(extent), extent if offset else shape[d]), v, IterVar.DataPar))
        values.append(ax if offset else position)
        near.append(v)
        far.append(make.add(start, v) if offset else v)
        last = extent.value - 1 if isinstance(extent, IntImm) and extent.value > 0 else None
        everywhere[ax] = Bound(0, last)
        inside = {**bounds, ax: everywhere[ax]}
        for low in region.lows[d]:
            _add_guard(guard, low <= position, inside)
        for high in region.highs[d]:
            _add_guard(guard, position < simplify(high + 1), inside)
    if region.within:
        guard.append(one_of(region.within, positions, everywhere))
    reading, writing = (far, near) if offset == "source" else (near, far) if offset == "target" else (near, near)
    block = Block(
        tuple(axes),
        (_point(source, reading),),
        (_point(target, writing),),
        name,
        BufferStore(target, BufferLoad(source, tuple(reading)), tuple(writing)),
    )
    predicate: PrimExpr = IntImm(BOOL, 1)
    for g in guard:
        predicate = make.and_(predicate, g)
    body: Stmt = BlockRealize(tuple(values), predicate, block)
    for ax, extent in zip(reversed(loops), reversed(region.extents), strict=True):
        body = For(ax, IntImm(ax.dtype, 0), extent, ForKind.SERIAL, body)
    return body, block


def _add_guard(guard: list[PrimExpr], condition: PrimExpr, bounds: Mapping[Var, Bound]) -> None:
    if not proves(condition, bounds, guard):
        guard.append(condition)


def _point(buffer: Buffer, indices: Sequence[PrimExpr]) -> BufferRegion:
    return BufferRegion(buffer, tuple(Range.from_min_extent(i, _one(i)) for i in indices))


class Redirect(ReplaceBuffers):
    """Uses `cache` in place of `buffer`, with subscripts counted from `starts`."""

    def __init__(self, buffer: Buffer, cache: Buffer, starts: Sequence[PrimExpr]) -> None:
        super().__init__({buffer: cache})
        self.buffer = buffer
        self.starts = starts

    def _moved(self, indices: Sequence[PrimExpr]) -> tuple[PrimExpr, ...]:
        return tuple(
            i if _is_zero(start) else simplify(make.sub(i, start))
            for i, start in zip(indices, self.starts, strict=True)
        )

    def rewrite_BufferLoad(self, node: BufferLoad) -> PrimExpr:
        """A load, moved if it is one of the buffer."""
        new: BufferLoad = node.replace(
            buffer=self.rewrite(node.buffer),
            indices=tuple(self.rewrite(i) for i in node.indices),
            predicate=None if node.predicate is None else self.rewrite(node.predicate),
        )
        return new.replace(indices=self._moved(new.indices)) if node.buffer is self.buffer else new

    def leave_BufferStore(self, node: BufferStore) -> Stmt:
        """A store, moved if it is one to the buffer."""
        if node.buffer is self.given[self.buffer]:
            return node.replace(indices=self._moved(node.indices))
        return node

    def leave_BufferRegion(self, node: BufferRegion) -> BufferRegion:
        """A region, moved if it is one of the buffer."""
        if node.buffer is not self.given[self.buffer]:
            return node
        starts = self._moved([r.min for r in node.region])
        return node.replace(
            region=tuple(Range.from_min_extent(m, r.extent) for m, r in zip(starts, node.region, strict=True))
        )


def with_stage(
    root: Block, changes: Mapping[Stmt, Stmt | None], location: Location, stage: Stmt
) -> tuple[Block, BlockReuse]:
    """A block with statements changed and a stage put in its place, and what became of the blocks below."""
    changed: dict[Stmt, Stmt | None] = dict(changes)
    at = location.before
    reuse: BlockReuse = {}
    if at is not None:
        inside, reuse = replace_stmts(at, changes)
        changed[at] = seq(stage, inside)
    new, outer = replace_stmts(root, changed)
    if at is None:
        new = new.replace(body=seq(new.body, stage))
    return new, {**outer, **reuse}


def cached_access(
    s: ScheduleCore,
    block: BlockRV | str,
    kind: str,
    buffer: int | str | Buffer,
    storage_scope: str,
    consumers: Sequence[BlockRV | str] | None = None,
) -> CachedAccess:
    """What the arguments of a caching step mean; `kind` is "read" or "write".

    TypeError for what is no such argument; refused for the root, for an access that the block does not have, and
    for no storage scope.
    """
    scope = require_storage_scope(storage_scope)
    target = s.block(block)  # pyright: ignore[reportArgumentType]
    root = require_scope_root(s.state, target)
    index = buffer_index(target.block, buffer, kind)
    given = [s.block(b) for b in consumers or ()]  # pyright: ignore[reportArgumentType]
    return CachedAccess(scope, target, root, index, accessed(target.block, index, kind).buffer, given)


def single_writer(state: ScheduleState, root: StmtSRef, buffer: Buffer) -> StmtSRef | None:
    """The block of a scope that writes a buffer, if any; refused where several do."""
    writers = writers_of(state, root, buffer)
    if len(writers) > 1:
        names = ", ".join(f"{{{i}}}" for i in range(len(writers)))
        refuse(f"`{buffer.name}` is written by several blocks: {names}", *[w.block for w in writers])
    return writers[0] if writers else None


def require_one_name(state: ScheduleState, root: StmtSRef, buffer: Buffer, written: bool) -> None:
    """Refuse a scope whose blocks use the memory of a buffer through a view too: no copy follows that.

    Reading it in two ways does no harm to a copy of what is only read, so with `written` False only writes count.
    """
    memory = memory_of(state, root)
    for child in state.child_blocks(root):
        for r in (*(child.block.reads if written else ()), *child.block.writes):
            if r.buffer is not buffer and memory(r.buffer) is memory(buffer):
                refuse(
                    f"{{0}} uses the memory of `{buffer.name}` as `{r.buffer.name}`, which no copy follows", child.block
                )


def put_cache(
    s: ScheduleCore,
    access: CachedAccess,
    users: Sequence[StmtSRef],
    location: Location,
    region: Region,
    bounds: Mapping[Var, Bound],
    back: bool,
) -> BlockRV:
    """Let blocks use a new buffer, and copy a region into it (or from it, if `back`); the copying block.

    The new buffer is as large as the old one, except where the copy stands in no loop and only a region is in use,
    whose size is certain not to be negative.
    """
    root, buffer = access.root, access.buffer
    around = uses_loops_around(s.state, root, region.starts)
    compact = (
        location.loop is None
        and not region.is_whole(buffer)
        and not around
        and (region.is_exact or not back)
        and all(no_less(e, _zero(e), bounds) for e in region.extents)
    )
    require_same_layout(users, buffer, compact)
    cache = cache_of(buffer, access.scope, region.extents if compact else None)
    source, target, offset = (cache, buffer, "target") if back else (buffer, cache, "source")
    stage, made = copy_stage(source, target, region, cache.name, offset if compact else "", bounds)
    starts = region.starts if compact else whole_region(buffer).starts
    changes: dict[Stmt, Stmt | None] = {}
    reuse: BlockReuse = {}
    for user in users:
        realize = s.state.realize_of(user)
        redirect = Redirect(buffer, cache, starts)
        changes[realize] = realize.replace(block=redirect.rewrite(realize.block))
        reuse |= redirect.block_reuse
    new_root, outer_reuse = with_stage(root.block, changes, location, stage)
    new_root = new_root.replace(alloc_buffers=(*new_root.alloc_buffers, cache))
    kept = {**outer_reuse, **reuse}
    require_still_independent(s, location.loop, made, (root, new_root, kept))
    s.state.replace(root, new_root, kept)
    return s.block_of(made)


def uses_loops_around(state: ScheduleState, root: StmtSRef, exprs: Sequence[PrimExpr]) -> bool:
    """Whether expressions mention loops outside a block, as those below a block without axes may.

    Blocks below can take these as bindings, but their bodies cannot use them.
    """
    outer: dict[Var, None] = {}
    at = root.parent
    while at is not None:
        if isinstance(at.stmt, For):
            outer[at.stmt.loop_var] = None
        at = at.parent
    return any(mentions(e, outer) for e in exprs)


def require_same_layout(blocks: Sequence[StmtSRef], buffer: Buffer, compact: bool) -> None:
    """Refuse blocks that use the pointer of a buffer whose layout would change with the cache."""
    for b in blocks:
        if (compact or buffer.strides) and uses_pointer(b.block, buffer):
            refuse(f"{{0}} uses the pointer of `{buffer.name}`, which has another layout than its copy", b.block)


def uses_pointer(stmt: Stmt | Block, buffer: Buffer) -> bool:
    """Whether the pointer of a buffer is used other than by loads, stores and regions of the buffer itself."""
    found = False

    def look(node: object) -> bool:
        nonlocal found
        found = found or node is buffer.data
        if isinstance(node, Call) and any(a is buffer.data for a in node.args):
            found = True
        return not found

    pre_order_visit(stmt, look)
    return found


def _zero(like: PrimExpr) -> PrimExpr:
    return IntImm(like.dtype.element, 0)


def _one(like: PrimExpr) -> PrimExpr:
    return IntImm(like.dtype.element, 1)


def _is_zero(e: PrimExpr) -> bool:
    return isinstance(e, IntImm) and e.value == 0
