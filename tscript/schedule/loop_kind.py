"""Making a loop parallel, vectorized, unrolled or a thread: when that is allowed, and the changed loop."""

from __future__ import annotations

from tscript.ir.buffer import Buffer
from tscript.ir.expr import IterVar
from tscript.ir.stmt import BufferRegion, ForKind
from tscript.schedule.conflicts import Conflict, find_conflict
from tscript.schedule.core import ScheduleCore
from tscript.schedule.errors import refuse
from tscript.schedule.sref import StmtSRef
from tscript.schedule.symbols import axes_using, mentions


def set_kind(s: ScheduleCore, loop: StmtSRef, kind: int, thread: IterVar | None = None) -> None:
    """Change the kind of a loop. Its annotations stay, a former thread goes."""
    s.state.replace(loop, loop.loop.replace(kind=kind, thread_binding=thread), {}, f"made {ForKind.NAMES[kind]}")


def require_independent(s: ScheduleCore, loop: StmtSRef, what: str, thread_tag: str = "") -> None:
    """Refuse a loop whose iterations may not run at once.

    A reduce axis may only be bound to threads that can work together (`threadIdx`).
    """
    var = loop.loop.loop_var
    for block in s.state.blocks_below(loop):
        for axis in axes_using(s.state.realize_of(block), var):
            reduce_here = axis.iter_type == IterVar.CommReduce and thread_tag.startswith("threadIdx.")
            if axis.iter_type != IterVar.DataPar and not reduce_here:
                _refuse_axis(loop, block, axis, what)
    if not s.enable_check:
        return
    found = find_conflict(s.state, loop, at_once=True, private=lambda b: is_private(b, thread_tag))
    if found is not None:
        _refuse_conflict(s, loop, found, what)


def is_private(buffer: Buffer, thread_tag: str) -> bool:
    """Whether each thread, or each group of them, has such a buffer for itself."""
    scope = buffer.scope()
    if thread_tag.startswith("blockIdx."):
        return scope.startswith(("shared", "local", "warp", "wmma.", "m16n8k8.", "metal.simdgroup"))
    return bool(thread_tag) and scope == "local"


def _indexes(region: BufferRegion, axis: IterVar) -> bool:
    return any(mentions(r.min, {axis.var: None}) for r in region.region)


def _refuse_axis(loop: StmtSRef, block: StmtSRef, axis: IterVar, what: str) -> None:
    if axis.iter_type == IterVar.CommReduce:
        output = next((w.buffer.name for w in block.block.writes if _indexes(w, axis)), None)
        if output is not None:
            refuse(
                f"{{0}} cannot be {what}: `{axis.var.name}` of {{1}} is declared as a reduce axis, though it is a "
                f"subscript of the output `{output}`",
                loop.loop,
                block.block,
                hint=f"declare it as spatial: {axis.var.name} = T.axis.spatial(...)",
            )
        refuse(
            f"{{0}} cannot be {what}: its iterations accumulate into the same elements through the reduce axis "
            f"`{axis.var.name}` of {{1}}",
            loop.loop,
            block.block,
            hint="take a loop of a spatial axis; or make partial results first with "
            f"`rfactor`, which turns `{loop.loop.loop_var.name}` into a spatial axis",
        )
    kind = IterVar.KIND_NAMES[axis.iter_type]
    refuse(
        f"{{0}} cannot be {what}: the axis `{axis.var.name}` of {{1}} is {kind}, not spatial", loop.loop, block.block
    )


def _refuse_conflict(s: ScheduleCore, loop: StmtSRef, found: Conflict, what: str) -> None:
    blocks = dict.fromkeys(r.block for r in (found.write.block, found.other.block) if r is not None)
    hint = "choose a loop whose iterations touch different elements"
    first = found.write.block
    if first is not None and any(a.iter_type == IterVar.CommReduce for a in first.block.iter_vars):
        hint += ", or compute the block outside of this loop"
    refuse(f"{{0}} cannot be {what}: {found.explain(loop.loop)}", loop.loop, *blocks, hint=hint)
