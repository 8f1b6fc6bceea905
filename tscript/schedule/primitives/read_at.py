"""What the iterations of a loop read of a buffer is copied first, in each iteration anew."""

from __future__ import annotations

from collections.abc import Callable

from tscript.analysis.ranges import range_bounds
from tscript.ir.buffer import Buffer
from tscript.ir.expr import PrimExpr
from tscript.ir.occurrences import mentions, reads_memory
from tscript.schedule.copy_at import CopyAt, prepare_copy_at, put_copy
from tscript.schedule.core import ScheduleCore
from tscript.schedule.coverage import ReadBox, read_ends
from tscript.schedule.errors import refuse
from tscript.schedule.instances import touched
from tscript.schedule.instruction import InstructionKind, Outputs, attr, block, loop
from tscript.schedule.primitive import primitive
from tscript.schedule.rv import BlockRV, LoopRV
from tscript.schedule.staging import Region, clip_to_declared, region_of_ends
from tscript.schedule.symbols import bound_inside, conjuncts, loop_ranges, no_less, outer_bounds

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
    hidden = bound_inside(at.loop.body)

    def is_known(e: PrimExpr) -> bool:
        return not (reads_memory(e) or mentions(e, hidden))

    readers: list[ReadBox] = []
    for user in users:
        loops = s.state.loops_of(user)
        domain = loop_ranges(loops[loops.index(at) + 1 :])
        readers += [read_ends(s.state.realize_of(user), r, domain, bounds) for r in plan.regions(user, is_write=False)]
    lows: list[list[PrimExpr]] = []
    highs: list[list[PrimExpr]] = []
    for d, interval in enumerate(box):
        lows.append(
            _of_all([[e for e in r.lows[d] if is_known(e)] for r in readers], lambda e, x: no_less(x, e, bounds))
        )
        highs.append(
            _of_all([[e for e in r.highs[d] if is_known(e)] for r in readers], lambda e, x: no_less(e, x, bounds))
        )
        if interval is not None and is_known(interval.low) and is_known(interval.high):
            lows[d].insert(0, interval.low)
            highs[d].insert(0, interval.high)
    shared = conjuncts(s.state.realize_of(users[0]).predicate)
    for user in users[1:]:
        own = dict.fromkeys(conjuncts(s.state.realize_of(user).predicate))
        shared = [c for c in shared if c in own]
    region = region_of_ends(buffer, lows, highs, [c for c in shared if is_known(c)], True, bounds)
    return clip_to_declared(s.state, plan.access.root, buffer, region)


def _of_all(ends: list[list[PrimExpr]], encloses: Callable[[PrimExpr, PrimExpr], bool]) -> list[PrimExpr]:
    """The ends that enclose what each reader reads, given those of each."""
    return [e for some in ends for e in dict.fromkeys(some) if all(any(encloses(e, x) for x in own) for own in ends)]
