"""What the iterations of a loop read of a buffer is copied first, in each iteration anew."""

from __future__ import annotations

from tscript.analysis.ranges import range_bounds
from tscript.arith import simplify
from tscript.ir.buffer import Buffer
from tscript.ir.expr import IntImm, PrimExpr
from tscript.ir.occurrences import mentions, reads_memory
from tscript.schedule.copy_at import CopyAt, prepare_copy_at, put_copy
from tscript.schedule.core import ScheduleCore
from tscript.schedule.errors import refuse
from tscript.schedule.instances import touched
from tscript.schedule.instruction import InstructionKind, Outputs, attr, block, loop
from tscript.schedule.primitive import primitive
from tscript.schedule.rv import BlockRV, LoopRV
from tscript.schedule.staging import Region, region_of_ends
from tscript.schedule.symbols import bound_inside, loop_ranges, outer_bounds

_KIND = InstructionKind(
    "ReadAt",
    "read_at",
    (loop(), block(), attr("read_buffer_index"), attr("storage_scope")),
    Outputs.ONE,
)


@primitive(_KIND)
def read_at(
    s: ScheduleCore,
    loop: LoopRV | str,
    block: BlockRV | str,
    read_buffer_index: int | str | Buffer,
    storage_scope: str,
) -> BlockRV:
    """Copy, in each iteration of `loop`, what it reads of a buffer to `storage_scope`; the copying block.

    The buffer is one that `block`, which is inside the loop, reads: given by its place among the reads, by name, or
    itself. The copy stands in front of the first statement of the loop's body that reads the buffer; this one and
    those after it read the copy. It is one block, `<buffer>_<scope>`, with the annotation `auto_copy`: its axes are the
    loops that the copied part depends on, its body copies element by element, and later steps may rewrite it as a
    whole. The new buffer is as large as the old one.

    Requires: the scope is a pipeline of stages; nothing in the loop writes the buffer from its first reader on, or
    reaches its memory otherwise; threads inside the loop share the memory of `storage_scope`.

    >>> import tscript
    >>> from tscript.script import tir as T
    >>> @T.prim_func
    ... def twice(A: T.Buffer((8, 4), "float32"), B: T.Buffer((8, 4), "float32")):
    ...     for i, j in T.grid(8, 4):
    ...         with T.block("B"):
    ...             vi, vj = T.axis.remap("SS", [i, j])
    ...             B[vi, vj] = A[vi, vj] * T.float32(2)
    >>> sch = tscript.tir.Schedule(twice)
    >>> copy = sch.read_at(sch.get_loops("B")[0], "B", 0, "shared")
    >>> print(sch.get(copy).body)
    for ax0, ax1 in T.grid(1, 4):
        A_shared = T.Buffer((8, 4), scope="shared")
        A = T.Buffer((8, 4))
        v0 = T.int32()
        A_shared[v0 + ax0, ax1] = A[v0 + ax0, ax1]
    """
    plan = prepare_copy_at(s, loop, block, "read", read_buffer_index, storage_scope)
    first = plan.places(is_write=False)[0]
    after = range(first, len(plan.parts))
    for writer in plan.users(is_write=True, places=after):
        refuse(
            f"{{0}} writes `{plan.access.buffer.name}` in {{1}} after it has been copied",
            writer.block,
            plan.loop.loop,
            hint="choose a loop further in, which only reads it",
        )
    made = put_copy(s, plan, _read_region(s, plan, first), first, after, back=False)
    s.record_as(read_buffer_index=plan.access.index)
    return made


def _read_region(s: ScheduleCore, plan: CopyAt, first: int) -> Region:
    """What one iteration reads of the buffer; all of a dimension where that is not known before it starts."""
    buffer, at = plan.access.buffer, plan.loop
    bounds = outer_bounds(s.state, at) | range_bounds(loop_ranges([*s.state.loops_of(at), at]))
    users = plan.users(is_write=False, places=range(first, len(plan.parts)))
    box = touched(s.state, at, users, {buffer: None}, True, bounds, by_all_threads=False)[buffer]
    lows: list[list[PrimExpr]] = []
    highs: list[list[PrimExpr]] = []
    hidden = bound_inside(at.loop.body)
    for size, interval in zip(buffer.shape, box, strict=True):
        if interval is None or any(reads_memory(e) or mentions(e, hidden) for e in (interval.low, interval.high)):
            lows.append([IntImm(size.dtype, 0)])
            highs.append([simplify(size - 1)])
        else:
            lows.append([interval.low])
            highs.append([interval.high])
    return region_of_ends(buffer, lows, highs, [], True, bounds)
