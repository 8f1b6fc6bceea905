"""A block reads a copy whose layout follows its own axes."""

from __future__ import annotations

from tscript.ir.buffer import Buffer
from tscript.ir.stmt import SeqStmt
from tscript.schedule.checks import require_region_cover, require_stage_pipeline
from tscript.schedule.core import ScheduleCore
from tscript.schedule.errors import refuse
from tscript.schedule.instruction import Arg, InstructionKind, Outputs, Role, attr, block
from tscript.schedule.layout import MapLike
from tscript.schedule.point_copies import PointAccess, point_access, put_copy
from tscript.schedule.primitive import primitive
from tscript.schedule.reindexing import copy_in_loops, new_place
from tscript.schedule.rv import BlockRV
from tscript.schedule.scope import DepKind
from tscript.schedule.staging import Location, cached_access, place_between, require_one_name, single_writer

_KIND = InstructionKind(
    "ReindexCacheRead",
    "reindex_cache_read",
    (block(), attr("read_buffer_index"), attr("storage_scope"), Arg("index_map", Role.INPUT)),
    Outputs.ONE,
)


@primitive(_KIND)
def reindex_cache_read(
    s: ScheduleCore,
    block: BlockRV | str,
    read_buffer_index: int | str | Buffer,
    storage_scope: str,
    index_map: MapLike,
) -> BlockRV:
    """Let a block read a copy of a buffer, in `storage_scope`, at `index_map(axes..)`; the handle of the copying block.

    The block reads one element of the buffer in each run. The map takes all axes of the block, uses those that occur in
    the subscripts, and is one-to-one. The copy is made after the buffer is written, else at the start of the scope, in
    the loops that these axes use, and only this block reads it.

    >>> import tscript
    >>> from tscript.script import tir as T
    >>> @T.prim_func
    ... def func(A: T.Buffer((8, 4), "float32"), B: T.Buffer((8, 4), "float32")):
    ...     for i, j in T.grid(8, 4):
    ...         with T.block("B"):
    ...             vi, vj = T.axis.remap("SS", [i, j])
    ...             B[vi, vj] = A[vi, vj]
    >>> sch = tscript.tir.Schedule(func)
    >>> copy = sch.reindex_cache_read("B", 0, "shared", lambda i, j: [j, i // 2, i % 2])
    >>> sch.get(copy).writes
    (A_shared[vj, vi // 2, vi % 2],)
    """
    access = cached_access(s, block, "read", read_buffer_index, storage_scope)
    require_stage_pipeline(s, access.root)
    require_region_cover(s.state, access.target)
    found = point_access(s, access, "read")
    location = _location(s, found)
    mapping, cache, at = new_place(s, found, index_map)
    copy = copy_in_loops(s, found, location, back=False)
    made = put_copy(s, found, cache, at, cache.name, copy, location, back=False)
    s.record_as(read_buffer_index=access.index, index_map=mapping)
    return made


def _location(s: ScheduleCore, found: PointAccess) -> Location:
    access = found.access
    writer = single_writer(s.state, access.root, access.buffer)
    require_one_name(s.state, access.root, access.buffer, written=False)
    if writer is None:
        body = access.root.block.body
        return Location(body.seq[0] if isinstance(body, SeqStmt) else body, None)
    deps = s.state.scope(access.root).src2deps.get(writer, ())
    if not any(d.dst is access.target and d.kind is DepKind.RAW for d in deps):
        refuse(
            f"{{0}} reads `{access.buffer.name}` before {{1}} writes it, so no copy of the result can serve it",
            access.target.block,
            writer.block,
        )
    return place_between(s.state, access.root, writer, [access.target])
