"""What a block changes in place is brought into a buffer of its own, changed there, and brought back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tscript.analysis.ranges import bound_region, range_bounds
from tscript.arith import Bound, Interval
from tscript.arith.interval import Domains, union
from tscript.ir.buffer import Buffer
from tscript.ir.expr import Var
from tscript.ir.occurrences import reads_memory
from tscript.ir.stmt import Block, BufferRegion, ForKind, seq
from tscript.schedule.buffers import cache_of, same_region
from tscript.schedule.conflicts import memory_of
from tscript.schedule.core import ScheduleCore
from tscript.schedule.coverage import relax_range
from tscript.schedule.errors import literal, refuse
from tscript.schedule.instruction import InstructionKind, Outputs, attr, block
from tscript.schedule.loop_kind import require_still_independent
from tscript.schedule.primitive import primitive
from tscript.schedule.rewrite import replace_stmts
from tscript.schedule.rv import BlockRV
from tscript.schedule.sref import StmtSRef
from tscript.schedule.staging import (
    CachedAccess,
    Redirect,
    Region,
    cached_access,
    copy_stage,
    region_of_ends,
    require_same_layout,
    whole_region,
)
from tscript.schedule.symbols import axis_ranges, conjuncts, outer_bounds, proves

_KIND = InstructionKind(
    "CacheInplace",
    "cache_inplace",
    (block(), attr("read_buffer_index"), attr("storage_scope")),
    Outputs.LIST,
)


@primitive(_KIND)
def cache_inplace(
    s: ScheduleCore, block: BlockRV | str, read_buffer_index: int | str | Buffer, storage_scope: str
) -> list[BlockRV]:
    """Let a block change a copy, in `storage_scope`, of a buffer that it reads and writes; the two copying blocks.

    The buffer is given by its place among the reads of the block, by name, or itself. Right in front of the block,
    inside the same loops, what it reads and writes of the buffer is copied to the new buffer; right behind it, what it
    writes is copied back. Both copies run where the block does. The new buffer is as large as the old one.

    The block declares one region of the buffer among its writes, which is known before it runs; no loop around it
    within the scope is vectorized.

    >>> import tscript
    >>> from tscript.script import tir as T
    >>> @T.prim_func
    ... def double(A: T.Buffer((8,), "float32")):
    ...     for i in range(8):
    ...         with T.block("A"):
    ...             v = T.axis.spatial(8, i)
    ...             A[v] = A[v] * T.float32(2)
    >>> sch = tscript.tir.Schedule(double)
    >>> there, back = sch.cache_inplace("A", 0, "local")
    >>> print(sch.get(sch.get_loops(back)[-1]))
    for ax0 in range(1):
        i = T.int32()
        with T.block("A_local"):
            v0 = T.axis.spatial(8, i + ax0)
            A_local = T.Buffer((8,), scope="local")
            T.reads(A_local[v0])
            A = T.Buffer((8,))
            T.writes(A[v0])
            A[v0] = A_local[v0]
    >>> sch.get(sch.get_block("A")).writes
    (A_local[v],)
    """
    access = cached_access(s, block, "read", read_buffer_index, storage_scope)
    target, buffer = access.target, access.buffer
    written = _written(access)
    _require_scalar_loops(s, target)
    _require_no_alias(s, access)
    _require_declared_around(s, access, written)
    require_same_layout([target], buffer, compact=False)
    realize = s.state.realize_of(target)
    reads = [r for r in target.block.reads if r.buffer is buffer]
    bounds = outer_bounds(s.state, target)
    cache = cache_of(buffer, access.scope)
    inward, made_in = copy_stage(
        buffer, cache, _region(s, access, [*reads, written], bounds), cache.name, "", bounds
    )  # fmt: skip
    outward, made_out = copy_stage(cache, buffer, _region(s, access, [written], bounds), cache.name, "", bounds)
    redirect = Redirect(buffer, cache, whole_region(buffer).starts)
    new = realize.replace(block=redirect.rewrite(realize.block))
    changed, reuse = replace_stmts(access.root.block, {realize: seq(inward, new, outward)})
    changed = changed.replace(alloc_buffers=(*changed.alloc_buffers, cache))
    kept = {**reuse, **redirect.block_reuse}
    around = s.state.loops_of(target)
    for made in (made_in, made_out):
        require_still_independent(s, around[-1] if around else None, made, (access.root, changed, kept))
    s.state.replace(access.root, changed, kept)
    s.record_as(read_buffer_index=access.index)
    return [s.block_of(made_in), s.block_of(made_out)]


def _written(access: CachedAccess) -> BufferRegion:
    """The one region of the buffer that the block writes; refused for none, and for several different ones."""
    stmt, buffer = access.target.block, access.buffer
    found = list(dict.fromkeys(w for w in stmt.writes if w.buffer is buffer))
    if not found:
        refuse(
            f"{{0}} reads `{buffer.name}` but does not write it",
            stmt,
            hint="cache_read copies what is only read, cache_write what is only written",
        )
    if len(found) > 1:
        refuse(f"{{0}} writes {len(found)} regions of `{buffer.name}`, which are not copied back one by one", stmt)
    return found[0]


def _require_scalar_loops(s: ScheduleCore, target: StmtSRef) -> None:
    for loop in s.state.loops_of(target):
        if loop.loop.kind == ForKind.VECTORIZED:
            refuse(
                "{0} is vectorized, and copies cannot be put inside its lanes",
                loop.loop,
                hint="cache before vectorizing",
            )


def _require_no_alias(s: ScheduleCore, access: CachedAccess) -> None:
    """Refuse a block that reaches the memory of the buffer through another one as well: it would miss the changes."""
    memory = memory_of(s.state, access.target)
    for r in (*access.target.block.reads, *access.target.block.writes):
        if r.buffer is not access.buffer and memory(r.buffer) is memory(access.buffer):
            refuse(
                f"{{0}} uses the memory of `{access.buffer.name}` as `{r.buffer.name}` too, which no copy follows",
                access.target.block,
            )


def _require_declared_around(s: ScheduleCore, access: CachedAccess, written: BufferRegion) -> None:
    """Refuse blocks around that do not declare to read what the copy inwards reads beyond what the block does."""
    buffer = access.buffer
    if any(same_region(r, written) for r in access.target.block.reads if r.buffer is buffer):
        return
    at: StmtSRef | None = access.root
    while at is not None:
        if isinstance(at.stmt, Block):
            bounds = {**outer_bounds(s.state, at), **range_bounds(axis_ranges(at.stmt))}
            reads = [r for r in at.stmt.reads if r.buffer is buffer]
            for w in (w for w in at.stmt.writes if w.buffer is buffer):
                if not any(_covers(r, w, bounds) for r in reads):
                    refuse(
                        f"the copy would read `{literal(str(w))}`, which {{0}} writes but does not declare to read",
                        at.stmt,
                        access.target.block,
                        hint=f"cache `{buffer.name}` before a block is put around, or declare that in its T.reads",
                    )
        at = at.parent


def _covers(outer: BufferRegion, inner: BufferRegion, bounds: Mapping[Var, Bound]) -> bool:
    pairs = zip(outer.region, inner.region, strict=True)
    return all(
        proves(a.min <= b.min, bounds) and proves(b.min + b.extent <= a.min + a.extent, bounds) for a, b in pairs
    )


def _region(
    s: ScheduleCore, access: CachedAccess, regions: Sequence[BufferRegion], bounds: Mapping[Var, Bound]
) -> Region:
    """What one run of the block touches through some of its regions, as seen in front of it, where it runs."""
    realize, buffer = s.state.realize_of(access.target), access.buffer
    domains = Domains({}, bounds)
    box: list[Interval] | None = None
    for region in regions:
        found: list[Interval] = []
        for r in bound_region(realize, region):
            interval = None if reads_memory(r.min) or reads_memory(r.extent) else relax_range(r, {}, bounds)
            if interval is None:
                refuse(
                    f"which part of `{buffer.name}` {{0}} touches depends on data, so no copy can be made before",
                    realize.block,
                )
            found.append(interval)
        box = found if box is None else [union(a, b, domains) for a, b in zip(box, found, strict=True)]
    assert box is not None
    # A condition on data that the block changes would not be the same behind it.
    conditions = [c for c in conjuncts(realize.predicate) if not reads_memory(c)]
    return region_of_ends(buffer, [[i.low] for i in box], [[i.high] for i in box], conditions, True, bounds)
