"""What a block writes goes to a buffer of its own first."""

from __future__ import annotations

from collections.abc import Sequence

from tscript.ir.buffer import Buffer
from tscript.ir.stmt import Stmt
from tscript.schedule.buffers import accessed, buffer_index, cache_of, require_storage_scope
from tscript.schedule.checks import require_scope_root, writers_of
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
    place_between,
    require_same_layout,
    uses_loops_around,
    whole_region,
    with_stage,
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
    scope = require_storage_scope(storage_scope)
    target = s.block(block)  # pyright: ignore[reportArgumentType]
    root = require_scope_root(s.state, target)
    index = buffer_index(target.block, write_buffer_index, "write")
    buffer = accessed(target.block, index, "write").buffer
    given = [s.block(b) for b in consumer_blocks or ()]  # pyright: ignore[reportArgumentType]
    writers = writers_of(s.state, root, buffer)
    if len(writers) > 1:
        names = ", ".join(f"{{{i}}}" for i in range(len(writers)))
        refuse(f"`{buffer.name}` is written by several blocks: {names}", *[w.block for w in writers])
    if target.block.init is None and any(r.buffer is buffer for r in target.block.reads):
        refuse(f"{{0}} builds on what `{buffer.name}` held before, which the new buffer does not hold", target.block)
    _require_whole_sums(s, root, target, buffer)
    location, region = _plan(s, root, target, buffer, given)
    is_local = any(b is buffer for b in root.block.alloc_buffers)
    if not region.is_exact and not is_local:
        refuse(
            f"the copy would overwrite elements of `{buffer.name}` that {{0}} does not write: which ones it writes is "
            "not known to be a box under conditions on it",
            target.block,
        )
    around = uses_loops_around(s.state, root, region.starts)
    compact = location.loop is None and region.is_exact and not region.is_whole(buffer) and not around
    require_same_layout([target, *given], buffer, compact)
    cache = cache_of(buffer, scope, region.extents if compact else None)
    bounds = outer_bounds(s.state, target)
    stage, made = copy_stage(cache, buffer, region, cache.name, "target" if compact else "", bounds)
    starts = region.starts if compact else whole_region(buffer).starts
    changes: dict[Stmt, Stmt | None] = {}
    reuse: BlockReuse = {}
    for b in (target, *given):
        realize = s.state.realize_of(b)
        redirect = Redirect(buffer, cache, starts)
        changes[realize] = realize.replace(block=redirect.rewrite(realize.block))
        reuse |= redirect.block_reuse
    new_root, outer_reuse = with_stage(root.block, changes, location, stage)
    new_root = new_root.replace(alloc_buffers=(*new_root.alloc_buffers, cache))
    s.state.replace(root, new_root, {**outer_reuse, **reuse})
    s.record_as(write_buffer_index=index, consumer_blocks=list(consumer_blocks or ()))
    return s.block_of(made)


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
