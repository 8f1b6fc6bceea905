"""A block writes a buffer whose layout follows its own axes, and a copy brings the result back."""

from __future__ import annotations

from tscript.ir.buffer import Buffer
from tscript.schedule.checks import require_stage_pipeline
from tscript.schedule.core import ScheduleCore
from tscript.schedule.instruction import Arg, InstructionKind, Outputs, Role, attr, block
from tscript.schedule.layout import MapLike
from tscript.schedule.point_copies import PointAccess, point_access, put_copy, require_copy_back
from tscript.schedule.primitive import primitive
from tscript.schedule.reindexing import copy_in_loops, new_place
from tscript.schedule.rv import BlockRV
from tscript.schedule.scope import DepKind
from tscript.schedule.staging import Location, cached_access, place_between, require_one_name, single_writer

_KIND = InstructionKind(
    "ReindexCacheWrite",
    "reindex_cache_write",
    (block(), attr("write_buffer_index"), attr("storage_scope"), Arg("index_map", Role.INPUT)),
    Outputs.ONE,
)


@primitive(_KIND)
def reindex_cache_write(
    s: ScheduleCore,
    block: BlockRV | str,
    write_buffer_index: int | str | Buffer,
    storage_scope: str,
    index_map: MapLike,
) -> BlockRV:
    """Let a block write to a new buffer, in `storage_scope`, at `index_map(axes..)`; the block that copies it back.

    The block is the only writer in its scope, and writes an element of its own in each run (or sums up in it). The map
    takes all axes of the block, uses those that occur in the subscripts, and is one-to-one. The copy stands
    before the first block that reads the buffer, else at the end of the scope, in the loops that these axes use.

    >>> import tscript
    >>> from tscript.script import tir as T
    >>> @T.prim_func
    ... def func(A: T.Buffer((8, 4), "float32"), B: T.Buffer((8, 4), "float32")):
    ...     for i, j in T.grid(8, 4):
    ...         with T.block("B"):
    ...             vi, vj = T.axis.remap("SS", [i, j])
    ...             B[vi, vj] = A[vi, vj]
    >>> sch = tscript.tir.Schedule(func)
    >>> copy = sch.reindex_cache_write("B", 0, "shared", lambda i, j: [i * 4 + j])
    >>> sch.get(copy).reads, sch.get(copy).writes
    ((B_shared[vi * 4 + vj],), (B[vi, vj],))
    """
    access = cached_access(s, block, "write", write_buffer_index, storage_scope)
    require_stage_pipeline(s, access.root)
    single_writer(s.state, access.root, access.buffer)
    require_one_name(s.state, access.root, access.buffer, written=True)
    found = point_access(s, access, "write")
    require_copy_back(s, found)
    location = _location(s, found)
    mapping, cache, at = new_place(s, found, index_map)
    copy = copy_in_loops(s, found, location, back=True)
    made = put_copy(s, found, cache, at, cache.name, copy, location, back=True)
    s.record_as(write_buffer_index=access.index, index_map=mapping)
    return made


def _location(s: ScheduleCore, found: PointAccess) -> Location:
    access = found.access
    deps = s.state.scope(access.root).src2deps.get(access.target, ())
    later = dict.fromkeys(d.dst for d in deps if d.kind is DepKind.RAW)
    readers = [b for b in later if any(r.buffer is access.buffer for r in b.block.reads)]
    return place_between(s.state, access.root, access.target, readers)
