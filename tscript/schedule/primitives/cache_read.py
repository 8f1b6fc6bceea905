"""What blocks read of a buffer comes from a copy."""

from __future__ import annotations

from collections.abc import Sequence

from tscript.ir.buffer import Buffer
from tscript.ir.stmt import SeqStmt
from tscript.schedule.checks import readers_of, require_region_cover
from tscript.schedule.core import ScheduleCore
from tscript.schedule.errors import refuse
from tscript.schedule.instruction import Arg, InstructionKind, Outputs, Role, attr, block
from tscript.schedule.primitive import primitive
from tscript.schedule.rv import BlockRV
from tscript.schedule.scope import DepKind
from tscript.schedule.sref import StmtSRef
from tscript.schedule.staging import (
    CachedAccess,
    Location,
    Region,
    cached_access,
    clip_to_declared,
    place_between,
    put_cache,
    require_one_name,
    single_writer,
    whole_region,
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
    access = cached_access(s, block, "read", read_buffer_index, storage_scope, consumer_blocks)
    root, buffer = access.root, access.buffer
    for reader in readers_of(s.state, root, buffer):
        require_region_cover(s.state, reader)
    writer = single_writer(s.state, root, buffer)
    require_one_name(s.state, root, buffer, written=False)
    consumers = _consumers(s, access, writer)
    location, region = _plan(s, access, writer, consumers)
    bounds = outer_bounds(s.state, writer if writer is not None else consumers[0])
    made = put_cache(s, access, consumers, location, region, bounds, back=False)
    s.record_as(read_buffer_index=access.index, consumer_blocks=list(consumer_blocks or ()))
    return made


def _consumers(s: ScheduleCore, access: CachedAccess, writer: StmtSRef | None) -> list[StmtSRef]:
    """The blocks that are to read the copy, in program order."""
    root, target, buffer, given = access.root, access.target, access.buffer, access.given
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
    s: ScheduleCore, access: CachedAccess, writer: StmtSRef | None, consumers: Sequence[StmtSRef]
) -> tuple[Location, Region]:
    """Where the copy is made, and of what."""
    root, buffer = access.root, access.buffer
    if writer is None:
        body = root.block.body
        first = body.seq[0] if isinstance(body, SeqStmt) else body
        return Location(first, None), clip_to_declared(s.state, root, buffer, whole_region(buffer))
    location = place_between(s.state, root, writer, consumers)
    regions = [w for w in writer.block.writes if w.buffer is buffer]
    if len(regions) > 1:
        return location, clip_to_declared(s.state, root, buffer, whole_region(buffer))
    region = written_region(s.state, writer, regions[0], location, access.scope)
    return location, clip_to_declared(s.state, root, buffer, region)
