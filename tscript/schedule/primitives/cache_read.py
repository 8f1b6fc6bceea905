"""What blocks read of a buffer comes from a copy."""

from __future__ import annotations

from collections.abc import Sequence

from tscript.ir.buffer import Buffer
from tscript.ir.stmt import SeqStmt, Stmt
from tscript.schedule.buffers import accessed, buffer_index, cache_of, require_storage_scope
from tscript.schedule.checks import readers_of, require_region_cover, require_scope_root, writers_of
from tscript.schedule.core import ScheduleCore
from tscript.schedule.errors import refuse
from tscript.schedule.instruction import Arg, InstructionKind, Outputs, Role, attr, block
from tscript.schedule.primitive import primitive
from tscript.schedule.rewrite import BlockReuse
from tscript.schedule.rv import BlockRV
from tscript.schedule.scope import DepKind
from tscript.schedule.sref import StmtSRef
from tscript.schedule.staging import (
    Location,
    Redirect,
    Region,
    copy_stage,
    declared_region,
    place_between,
    require_same_layout,
    uses_loops_around,
    whole_region,
    with_stage,
    written_region,
)
from tscript.schedule.symbols import outer_bounds

_KIND = InstructionKind(
    "CacheRead",
    "cache_read",
    (
        block(),
        attr("read_buffer_index"),
        attr("storage_scope"),
        Arg("consumer_blocks", Role.INPUT_LIST, if_empty=False),
    ),
    Outputs.ONE,
)


@primitive(_KIND)
def cache_read(
    s: ScheduleCore,
    block: BlockRV | str,
    read_buffer_index: int | str | Buffer,
    storage_scope: str,
    consumer_blocks: Sequence[BlockRV | str] | None = None,
) -> BlockRV:
    """Let blocks read a copy, in `storage_scope`, of a buffer that `block` reads; the handle of the copying block.

    The buffer is given by its place among the reads of the block, by name, or itself. It has one writer in the scope
    at most; the copy stands after it, before the first reader, else at the start. All blocks after it that
    read the buffer use the copy, or only `consumer_blocks`. The copy is as large as the buffer, except where it
    stands in no loop and only part of the buffer is in use.

    >>> import tscript
    >>> from tscript.script import tir as T
    >>> @T.prim_func
    ... def twice(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    ...     for i in range(8):
    ...         with T.block("B"):
    ...             v = T.axis.spatial(8, i)
    ...             B[v] = A[v] * T.float32(2)
    >>> sch = tscript.tir.Schedule(twice)
    >>> copy = sch.cache_read("B", 0, "local")
    >>> print(sch.get(sch.get_loops(copy)[0]))
    for ax0 in range(8):
        with T.block("A_local"):
            v0 = T.axis.spatial(8, ax0)
            A = T.Buffer((8,))
            T.reads(A[v0])
            A_local = T.Buffer((8,), scope="local")
            T.writes(A_local[v0])
            A_local[v0] = A[v0]
    >>> sch.get(sch.get_block("B")).reads
    (A_local[v],)
    """
    scope = require_storage_scope(storage_scope)
    target = s.block(block)  # pyright: ignore[reportArgumentType]
    root = require_scope_root(s.state, target)
    index = buffer_index(target.block, read_buffer_index, "read")
    buffer = accessed(target.block, index, "read").buffer
    given = [s.block(b) for b in consumer_blocks or ()]  # pyright: ignore[reportArgumentType]
    for reader in readers_of(s.state, root, buffer):
        require_region_cover(s.state, reader)
    writers = writers_of(s.state, root, buffer)
    if len(writers) > 1:
        names = ", ".join(f"{{{i}}}" for i in range(len(writers)))
        refuse(f"`{buffer.name}` is written by several blocks: {names}", *[w.block for w in writers])
    writer = writers[0] if writers else None
    consumers = _consumers(s, root, target, buffer, writer, given)
    location, region = _plan(s, root, buffer, writer, consumers, scope)
    around = uses_loops_around(s.state, root, region.starts)
    compact = location.loop is None and not region.is_whole(buffer) and not around
    require_same_layout(consumers, buffer, compact)
    cache = cache_of(buffer, scope, region.extents if compact else None)
    bounds = outer_bounds(s.state, writer if writer is not None else consumers[0])
    stage, made = copy_stage(buffer, cache, region, cache.name, "source" if compact else "", bounds)
    starts = region.starts if compact else whole_region(buffer).starts
    changes: dict[Stmt, Stmt | None] = {}
    reuse: BlockReuse = {}
    for c in consumers:
        realize = s.state.realize_of(c)
        redirect = Redirect(buffer, cache, starts)
        changes[realize] = realize.replace(block=redirect.rewrite(realize.block))
        reuse |= redirect.block_reuse
    new_root, outer_reuse = with_stage(root.block, changes, location, stage)
    new_root = new_root.replace(alloc_buffers=(*new_root.alloc_buffers, cache))
    s.state.replace(root, new_root, {**outer_reuse, **reuse})
    s.record_as(read_buffer_index=index, consumer_blocks=list(consumer_blocks or ()))
    return s.block_of(made)


def _consumers(
    s: ScheduleCore,
    root: StmtSRef,
    target: StmtSRef,
    buffer: Buffer,
    writer: StmtSRef | None,
    given: Sequence[StmtSRef],
) -> list[StmtSRef]:
    """The blocks that are to read the copy, in program order."""
    if writer is None:
        readers = list(readers_of(s.state, root, buffer))
    else:
        deps = s.state.scope(root).src2deps.get(writer, ())
        raw = dict.fromkeys(d.dst for d in deps if d.kind is DepKind.RAW)
        readers = [b for b in raw if any(r.buffer is buffer for r in b.block.reads)]
        if target is writer:
            refuse(f"{{0}} writes `{buffer.name}` itself, so it cannot read a copy made after it", target.block)
        if target not in readers:
            refuse(
                f"{{0}} reads `{buffer.name}` before {{1}} writes it, so no copy of the result can serve it",
                target.block,
                writer.block,
            )
    for g in given:
        if g not in readers:
            refuse(f"{{0}} does not read `{buffer.name}` in {{1}} after it is written", g.block, root.block)
    return [b for b in readers if not given or b in given]


def _plan(
    s: ScheduleCore,
    root: StmtSRef,
    buffer: Buffer,
    writer: StmtSRef | None,
    consumers: Sequence[StmtSRef],
    scope: str,
) -> tuple[Location, Region]:
    """Where the copy is made, and of what."""
    if writer is None:
        body = root.block.body
        first = body.seq[0] if isinstance(body, SeqStmt) else body
        return Location(first, None), declared_region(s.state, root, buffer)
    location = place_between(s.state, root, writer, consumers)
    regions = [w for w in writer.block.writes if w.buffer is buffer]
    if len(regions) > 1:
        return location, whole_region(buffer)
    return location, written_region(s.state, writer, regions[0], location, scope)
