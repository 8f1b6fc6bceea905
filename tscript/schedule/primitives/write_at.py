"""What the iterations of a loop write to a buffer goes to a buffer of their own, and is copied back by each of them."""

from __future__ import annotations

from tscript.ir.buffer import Buffer
from tscript.ir.expr import IterVar
from tscript.schedule.checks import region_cover
from tscript.schedule.copy_at import CopyAt, prepare_copy_at, put_copy
from tscript.schedule.core import ScheduleCore
from tscript.schedule.errors import refuse
from tscript.schedule.instruction import InstructionKind, Outputs, attr, block, loop
from tscript.schedule.primitive import primitive
from tscript.schedule.rv import BlockRV, LoopRV
from tscript.schedule.scope import DepKind
from tscript.schedule.sref import StmtSRef
from tscript.schedule.staging import Location, Region, written_region
from tscript.schedule.symbols import loop_variables_of

_KIND = InstructionKind(
    "WriteAt",
    "write_at",
    (loop(), block(), attr("write_buffer_index"), attr("storage_scope")),
    Outputs.ONE,
)


@primitive(_KIND)
def write_at(
    s: ScheduleCore,
    loop: LoopRV | str,
    block: BlockRV | str,
    write_buffer_index: int | str | Buffer,
    storage_scope: str,
) -> BlockRV:
    """Let each iteration of `loop` write a buffer in `storage_scope`, and copy what it wrote back; the copying block.

    The buffer is one that `block`, which is inside the loop, writes: given by its place among the writes, by name, or
    itself. The copy stands behind the last statement of the loop's body that writes the buffer; this one and those
    before it use the new buffer. It is one block, `<buffer>_<scope>`, with the annotation `auto_copy`: its axes are the
    loops that the copied part depends on, and its body copies element by element. The new buffer is as large as the
    old one.

    Requires: the scope is a pipeline of stages; what one iteration writes is a box that is known, and written whole;
    sums are finished in the iteration, and nothing in it builds on what the buffer held before; nothing in the loop
    reaches the memory of the buffer otherwise; threads inside the loop share the memory of `storage_scope`.

    >>> import tscript
    >>> from tscript.script import tir as T
    >>> @T.prim_func
    ... def twice(A: T.Buffer((8, 4), "float32"), B: T.Buffer((8, 4), "float32")):
    ...     for i, j in T.grid(8, 4):
    ...         with T.block("B"):
    ...             vi, vj = T.axis.remap("SS", [i, j])
    ...             B[vi, vj] = A[vi, vj] * T.float32(2)
    >>> sch = tscript.tir.Schedule(twice)
    >>> copy = sch.write_at(sch.get_loops("B")[0], "B", 0, "shared")
    >>> print(sch.get(copy).body)
    for ax0, ax1 in T.grid(1, 4):
        B = T.Buffer((8, 4))
        B_shared = T.Buffer((8, 4), scope="shared")
        v0 = T.int32()
        B[v0 + ax0, ax1] = B_shared[v0 + ax0, ax1]
    """
    plan = prepare_copy_at(s, loop, block, "write", write_buffer_index, storage_scope)
    last = plan.places(is_write=True)[-1]
    before = range(last + 1)
    writers = plan.users(is_write=True, places=before)
    _require_made_here(s, plan, plan.users(is_write=False, places=before))
    _require_finished(s, plan, writers)
    region = _written_region(s, plan, writers)
    made = put_copy(s, plan, region, last + 1, before, back=True)
    s.record_as(write_buffer_index=plan.access.index)
    return made


def _require_made_here(s: ScheduleCore, plan: CopyAt, readers: list[StmtSRef]) -> None:
    """Refuse blocks that would read the new buffer where the same iteration has not written it."""
    buffer, root = plan.access.buffer, plan.access.root
    scope = s.state.scope(root)
    for reader in readers:
        sources = [
            d.src
            for d in scope.dst2deps.get(reader, ())
            if d.kind is DepKind.RAW and any(w.buffer is buffer for w in d.src.block.writes)
        ]
        inside = sources and all(s.state.is_ancestor(plan.loop, b) for b in sources)
        if not inside or not region_cover(s.state, reader):
            refuse(
                f"{{0}} reads what `{buffer.name}` held before the iteration of {{1}}, which the new one lacks",
                reader.block,
                plan.loop.loop,
            )


def _require_finished(s: ScheduleCore, plan: CopyAt, writers: list[StmtSRef]) -> None:
    """Refuse reductions that go on in other iterations of the loop."""
    outer = [*s.state.loops_of(plan.loop), plan.loop]
    for writer in writers:
        reduced = loop_variables_of(s.state.realize_of(writer), IterVar.CommReduce)
        for at in outer:
            if at.loop.loop_var in reduced:
                refuse(
                    f"{{0}} goes on accumulating into `{plan.access.buffer.name}` over {{1}}, and each iteration of "
                    "{2} has a new buffer of its own",
                    writer.block,
                    at.loop,
                    plan.loop.loop,
                    hint="choose a loop outside of all loops of the reduction",
                )


def _written_region(s: ScheduleCore, plan: CopyAt, writers: list[StmtSRef]) -> Region:
    """What one iteration writes of the buffer, exactly; refused where that is not known."""
    buffer = plan.access.buffer
    found: list[Region] = []
    for writer in writers:
        regions = [w for w in writer.block.writes if w.buffer is buffer]
        if len(regions) > 1:
            refuse(f"{{0}} writes several regions of `{buffer.name}`", writer.block)
        region = written_region(s.state, writer, regions[0], Location(None, plan.loop), None)
        if not region.is_exact:
            refuse(
                f"the copy would overwrite elements of `{buffer.name}` that {{0}} does not write in one iteration of "
                "{{1}}: which ones it writes is not known to be a box under conditions on it",
                writer.block,
                plan.loop.loop,
            )
        found.append(region)
    for other, writer in zip(found[1:], writers[1:], strict=True):
        if not _is_same(found[0], other):
            refuse(
                f"{{0}} and {{1}} write different parts of `{buffer.name}` in one iteration of {{2}}, which one copy "
                "does not bring back",
                writers[0].block,
                writer.block,
                plan.loop.loop,
            )
    return found[0]


def _is_same(a: Region, b: Region) -> bool:
    def flat(r: Region) -> list[object]:
        return [*r.starts, *r.extents, *r.lows, *r.highs, *r.conditions]

    return flat(a) == flat(b)
