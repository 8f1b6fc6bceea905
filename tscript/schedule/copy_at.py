"""Copies made in each iteration of a loop: what `read_at` and `write_at` have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tscript.analysis import detect_regions
from tscript.analysis.dependence import footprint
from tscript.analysis.ranges import loop_range, range_bounds
from tscript.arith import simplify
from tscript.ir import construct as make
from tscript.ir.buffer import Buffer
from tscript.ir.convert import convert_attr
from tscript.ir.expr import BufferLoad, IntImm, IterVar, PrimExpr, Range, Var
from tscript.ir.functor import substitute
from tscript.ir.occurrences import mentions, variables
from tscript.ir.stmt import (
    Block,
    BlockRealize,
    BufferRegion,
    BufferStore,
    For,
    ForKind,
    IfThenElse,
    SeqStmt,
    Stmt,
    seq,
)
from tscript.schedule.bindings import TRUE, ranges_around
from tscript.schedule.buffers import cache_of
from tscript.schedule.checks import require_stage_pipeline
from tscript.schedule.conflicts import memory_of
from tscript.schedule.core import ScheduleCore
from tscript.schedule.errors import refuse
from tscript.schedule.loop_checks import require_loop
from tscript.schedule.loop_kind import is_private, require_still_independent
from tscript.schedule.motion import blocks_in
from tscript.schedule.rewrite import replace_stmts
from tscript.schedule.rv import BlockRV, LoopRV
from tscript.schedule.sref import StmtSRef
from tscript.schedule.staging import (
    CachedAccess,
    Redirect,
    Region,
    cached_access,
    one_of,
    require_same_layout,
    whole_region,
)
from tscript.schedule.symbols import outer_bounds, proves


@dataclass
class CopyAt:
    """A buffer that blocks in the iterations of a loop touch, and the statements of the loop's body.

    `blocks` holds the blocks of the scope in each statement. `cache` is the new buffer.
    """

    access: CachedAccess
    loop: StmtSRef
    parts: list[Stmt]
    blocks: list[list[StmtSRef]]
    cache: Buffer

    def places(self, is_write: bool) -> list[int]:
        """The statements in which a block reads (or writes) the buffer."""
        return [k for k, blocks in enumerate(self.blocks) if any(self.regions(b, is_write) for b in blocks)]

    def users(self, is_write: bool, places: Sequence[int]) -> list[StmtSRef]:
        """The blocks in these statements that read (or write) the buffer."""
        return [b for k in places for b in self.blocks[k] if self.regions(b, is_write)]

    def regions(self, block: StmtSRef, is_write: bool) -> list[BufferRegion]:
        """The regions of the buffer that a block declares to read (or write)."""
        found = block.block.writes if is_write else block.block.reads
        return [r for r in found if r.buffer is self.access.buffer]


def prepare_copy_at(
    s: ScheduleCore, loop: LoopRV | str, block: BlockRV | str, kind: str, buffer: int | str | Buffer, storage_scope: str
) -> CopyAt:
    """What the arguments of a step mean; `kind` is "read" or "write". Refused where no copy can be made in the loop."""
    access = cached_access(s, block, kind, buffer, storage_scope)
    at = require_loop(s, loop)  # pyright: ignore[reportArgumentType]
    target = access.target
    if at not in s.state.loops_of(target):
        refuse(
            "{0} is none of the loops around {1}", at.loop, target.block, hint="the loop comes from get_loops(block)"
        )
    require_stage_pipeline(s, access.root)
    for outer in (*s.state.loops_of(at), at):
        if outer.loop.kind == ForKind.VECTORIZED:
            refuse("{0} is vectorized, and copies cannot be put inside its lanes", outer.loop, hint="vectorize later")
    body = at.loop.body
    parts = list(body.seq) if isinstance(body, SeqStmt) else [body]
    children = s.state.child_blocks(at)
    blocks = [blocks_in(s.state, part) for part in parts]
    _require_plain_uses(s, access, at, children)
    users = [b for b in children if _touches(b, access.buffer)]
    require_same_layout(users, access.buffer, compact=False)
    cache = cache_of(access.buffer, access.scope)
    _require_shared(s, at, users, cache)
    return CopyAt(access, at, parts, blocks, cache)


def _touches(block: StmtSRef, buffer: Buffer) -> bool:
    return any(r.buffer is buffer for r in (*block.block.reads, *block.block.writes))


def _require_plain_uses(s: ScheduleCore, access: CachedAccess, at: StmtSRef, children: Sequence[StmtSRef]) -> None:
    """Refuse a loop in which the memory of the buffer is used outside of blocks, or under another name."""
    memory = memory_of(s.state, at)
    mine = memory(access.buffer)
    name = access.buffer.name
    for a in footprint(at.loop).found:
        if a.block is None and memory(a.buffer) is mine:
            refuse(f"a statement outside of blocks uses `{name}` in {{0}}", at.loop)
    for child in children:
        for r in (*child.block.reads, *child.block.writes):
            if r.buffer is not access.buffer and memory(r.buffer) is mine:
                refuse(f"{{0}} uses the memory of `{name}` as `{r.buffer.name}`, which no copy follows", child.block)


def _require_shared(s: ScheduleCore, at: StmtSRef, users: Sequence[StmtSRef], cache: Buffer) -> None:
    """Refuse a copy for threads inside of the loop that do not see its memory."""
    for user in users:
        loops = s.state.loops_of(user)
        for inner in loops[loops.index(at) + 1 :]:
            thread = inner.loop.thread_binding
            if thread is not None and is_private(cache, thread.thread_tag):
                refuse(
                    f"each thread of {{0}} has `{cache.scope()}` memory of its own, which a copy in {{1}} misses",
                    inner.loop,
                    at.loop,
                    hint="choose a scope that these threads share, or a loop inside of them",
                )


# -- the copy -------------------------------------------------------------------------------------


def put_copy(
    s: ScheduleCore, plan: CopyAt, region: Region, position: int, redirected: Sequence[int], back: bool
) -> BlockRV:
    """Put the copying block at a position of the loop's body, and let the blocks of some statements use the cache."""
    access, at = plan.access, plan.loop
    source, target = (plan.cache, access.buffer) if back else (access.buffer, plan.cache)
    stage, made = _copy_block(s, plan, source, target, region)
    redirect = Redirect(access.buffer, plan.cache, whole_region(access.buffer).starts)
    parts = [redirect.rewrite(p) if k in redirected else p for k, p in enumerate(plan.parts)]
    parts.insert(position, stage)
    changed, reuse = replace_stmts(access.root.block, {at.loop: at.loop.replace(body=seq(*parts))})
    changed = changed.replace(alloc_buffers=(*changed.alloc_buffers, plan.cache))
    kept = {**reuse, **redirect.block_reuse}
    require_still_independent(s, at, made, (access.root, changed, kept))
    s.state.replace(access.root, changed, kept)
    return s.block_of(made)


def _copy_block(s: ScheduleCore, plan: CopyAt, source: Buffer, target: Buffer, region: Region) -> tuple[Stmt, Block]:
    """A block that copies a region, with an axis for each loop around it that the region depends on."""
    ends = [e for side in (region.lows, region.highs) for some in side for e in some]
    declared = [e for d in region.within for r in d.region for e in (r.min, r.extent)]
    used = variables(*region.starts, *region.extents, *ends, *region.conditions, *declared)
    loops = [r.loop for r in (*s.state.loops_of(plan.loop), plan.loop) if r.loop.loop_var in used]
    own = {f.loop_var: None for f in loops}
    hidden = next((v for v in ranges_around(s.state, plan.loop) if v in used and v not in own), None)
    if loops and hidden is not None:
        refuse(
            f"what each iteration of {{0}} touches depends on the loop `{hidden.name}` outside of {{1}} too, which a "
            "block with axes in there cannot use",
            plan.loop.loop,
            plan.access.root.block,
            hint="give the block around the loop axes, with blockize, or copy at a loop outside of it",
        )
    axes: list[IterVar] = []
    names: dict[Var, PrimExpr] = {}
    for k, loop in enumerate(loops):
        v = Var(f"v{k}", loop.loop_var.dtype)
        names[loop.loop_var] = v
        axes.append(IterVar(_domain(s, plan.loop, loop), v, IterVar.DataPar))
    bounds = {**outer_bounds(s.state, plan.loop), **range_bounds({a.var: a.dom for a in axes if a.dom is not None})}
    inner: list[tuple[Var, PrimExpr]] = []
    indices: list[PrimExpr] = []
    guard = [substitute(c, names) for c in region.conditions]
    everywhere = dict(bounds)
    for d, (start, extent) in enumerate(zip(region.starts, region.extents, strict=True)):
        ax = Var(f"ax{d}", extent.dtype)
        length = substitute(extent, names)
        inner.append((ax, length))
        at = make.add(substitute(start, names), ax)
        indices.append(at)
        here = {**bounds, **range_bounds({ax: Range.from_min_extent(IntImm(ax.dtype, 0), length)})}
        for condition in (
            *(substitute(low, names) <= at for low in region.lows[d]),
            *(at < simplify(substitute(high, names) + 1) for high in region.highs[d]),
        ):
            if not proves(condition, here, guard):
                guard.append(condition)
        everywhere.update(range_bounds({ax: Range.from_min_extent(IntImm(ax.dtype, 0), length)}))
    if region.within:
        guard.append(one_of(region.within, indices, everywhere))
    body: Stmt = BufferStore(target, BufferLoad(source, tuple(indices)), tuple(indices))
    for condition in reversed(guard):
        body = IfThenElse(condition, body)
    for ax, length in reversed(inner):
        body = For(ax, IntImm(ax.dtype, 0), length, ForKind.SERIAL, body)
    notes = {"auto_copy": convert_attr(1)}
    block = Block(tuple(axes), (), (), plan.cache.name, body, annotations=notes)  # pyright: ignore[reportArgumentType]
    reads, writes = detect_regions(block)
    # Where conditions are beyond analysis, all that the loops run over is declared.
    block = block.replace(reads=reads, writes=writes)
    return BlockRealize(tuple(loop.loop_var for loop in loops), TRUE, block), block


def _domain(s: ScheduleCore, at: StmtSRef, loop: For) -> Range:
    """The range of a loop, without other loops; refused where it has none."""
    around = {r.loop.loop_var: None for r in (*s.state.loops_of(at), at)}
    found = loop_range(loop)
    if not (mentions(found.min, around) or mentions(found.extent, around)):
        return found
    bound = range_bounds({**{r.loop.loop_var: loop_range(r.loop) for r in (*s.state.loops_of(at), at)}})[loop.loop_var]
    if bound.low is None or bound.high is None:
        refuse("the range of {0} depends on loops around it in a way that has no constant bounds", loop)
    dtype = loop.loop_var.dtype
    return Range.from_min_extent(IntImm(dtype, bound.low), IntImm(dtype, bound.high - bound.low + 1))


__all__ = ["CopyAt", "prepare_copy_at", "put_copy"]
