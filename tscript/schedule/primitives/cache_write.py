"""What a block writes goes to a buffer of its own first."""

from __future__ import annotations

from collections.abc import Sequence

from tscript.ir.buffer import Buffer
from tscript.schedule.checks import readers_of, require_copied_in_time, require_region_cover
from tscript.schedule.core import ScheduleCore
from tscript.schedule.errors import refuse
from tscript.schedule.instruction import Arg, InstructionKind, Outputs, Role, attr, block
from tscript.schedule.primitive import primitive
from tscript.schedule.rv import BlockRV
from tscript.schedule.scope import DepKind
from tscript.schedule.sref import StmtSRef
from tscript.schedule.staging import (
    Location,
    Region,
    cached_access,
    place_between,
    put_cache,
    require_one_name,
    single_writer,
    uses_loops_around,
    whole_region,
    written_region,
)
from tscript.schedule.symbols import outer_bounds

_KIND = InstructionKind(
    "CacheWrite",
    "cache_write",
    (
        block(),
        attr("write_buffer_index"),
        attr("storage_scope"),
        Arg("consumer_blocks", Role.INPUT_LIST, if_empty=False),
    ),
    Outputs.ONE,
)


@primitive(_KIND)
def cache_write(
    s: ScheduleCore,
    block: BlockRV | str,
    write_buffer_index: int | str | Buffer,
    storage_scope: str,
    consumer_blocks: Sequence[BlockRV | str] | None = None,
) -> BlockRV:
    """Let a block write to a buffer in `storage_scope`, and copy that to where it wrote before; the copying block.

    The buffer is given by its place among the writes of the block, by name, or itself. The block must be its only
    writer in the scope, and must not build on what was there before. The copy stands before the first block that
    reads the buffer, else at the end of the scope; `consumer_blocks` read the new buffer instead. Exactly what the
    block writes is copied: its guard goes along.

    >>> import tscript
    >>> from tscript.script import tir as T
    >>> @T.prim_func
    ... def twice(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    ...     for i in range(8):
    ...         with T.block("B"):
    ...             v = T.axis.spatial(8, i)
    ...             B[v] = A[v] * T.float32(2)
    >>> sch = tscript.tir.Schedule(twice)
    >>> copy = sch.cache_write("B", 0, "local")
    >>> print(sch.get(sch.get_loops(copy)[0]))
    for ax0 in range(8):
        with T.block("B_local"):
            v0 = T.axis.spatial(8, ax0)
            B_local = T.Buffer((8,), scope="local")
            T.reads(B_local[v0])
            B = T.Buffer((8,))
            T.writes(B[v0])
            B[v0] = B_local[v0]
    >>> sch.get(sch.get_block("B")).writes
    (B_local[v],)
    """
    access = cached_access(s, block, "write", write_buffer_index, storage_scope, consumer_blocks)
    target, root, buffer = access.target, access.root, access.buffer
    single_writer(s.state, root, buffer)
    require_one_name(s.state, root, buffer, written=True)
    if target.block.init is None and any(r.buffer is buffer for r in target.block.reads):
        refuse(f"{{0}} builds on what `{buffer.name}` held before, which the new buffer does not hold", target.block)
    _require_whole_sums(s, root, target, buffer)
    location, region = _plan(s, root, target, buffer, access.given)
    require_copied_in_time(s.state, root, target, buffer, access.given, location.loop)
    is_local = any(b is buffer for b in root.block.alloc_buffers)
    if not region.is_exact and not is_local:
        refuse(
            f"the copy would overwrite elements of `{buffer.name}` that {{0}} does not write: which ones it writes is "
            "not known to be a box under conditions on it",
            target.block,
        )
    if not region.is_exact and location.loop is not None:
        # What the copy brings along from other runs must not be what a reader still needs from before.
        for reader in readers_of(s.state, root, buffer):
            require_region_cover(s.state, reader)
    users = [target, *access.given]
    made = put_cache(s, access, users, location, region, outer_bounds(s.state, target), back=True)
    s.record_as(write_buffer_index=access.index, consumer_blocks=list(consumer_blocks or ()))
    return made


def _require_whole_sums(s: ScheduleCore, root: StmtSRef, target: StmtSRef, buffer: Buffer) -> None:
    """Refuse a reduction that goes on in later runs of the scope, each of which has a buffer of its own."""
    values = zip(target.block.iter_vars, s.state.realize_of(target).iter_values, strict=True)
    if uses_loops_around(s.state, root, [v for axis, v in values if axis.iter_type == axis.CommReduce]):
        refuse(
            f"{{0}} goes on accumulating into `{buffer.name}` in later runs of {{1}}, and the new buffer would be "
            "another one in each run",
            target.block,
            root.block,
        )


def _plan(
    s: ScheduleCore, root: StmtSRef, writer: StmtSRef, buffer: Buffer, given: Sequence[StmtSRef]
) -> tuple[Location, Region]:
    """Where the result is copied back, and which part of it."""
    deps = s.state.scope(root).src2deps.get(writer, ())
    raw = dict.fromkeys(d.dst for d in deps if d.kind is DepKind.RAW)
    readers = [b for b in raw if any(r.buffer is buffer for r in b.block.reads)]
    for g in given:
        if g not in readers:
            refuse(f"{{0}} does not read `{buffer.name}` after {{1}} wrote it", g.block, writer.block)
    location = place_between(s.state, root, writer, [b for b in readers if b not in given])
    regions = [w for w in writer.block.writes if w.buffer is buffer]
    if len(regions) == 1:
        return location, written_region(s.state, writer, regions[0], location, None)
    region = whole_region(buffer)
    region.is_exact = False
    return location, region
