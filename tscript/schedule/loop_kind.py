"""Making a loop parallel, vectorized, unrolled or a thread: when that is allowed, and the changed loop."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from tscript.analysis.dependence import Access, Conflict, find_witness, footprint
from tscript.ir.buffer import Buffer
from tscript.ir.expr import IterVar, Var
from tscript.ir.occurrences import mentions
from tscript.ir.stmt import Block, BufferRegion, ForKind
from tscript.schedule.checks import writers_of
from tscript.schedule.conflicts import Touched, find_conflict, touched_by
from tscript.schedule.core import ScheduleCore
from tscript.schedule.coverage import region_cover
from tscript.schedule.errors import literal, refuse
from tscript.schedule.examples import unwritten_example
from tscript.schedule.sref import StmtSRef
from tscript.schedule.state import ScheduleState
from tscript.schedule.symbols import axes_using, outside_of


def set_kind(s: ScheduleCore, loop: StmtSRef, kind: int, thread: IterVar | None = None) -> None:
    """Change the kind of a loop. Its annotations stay, a former thread goes."""
    s.state.replace(loop, loop.loop.replace(kind=kind, thread_binding=thread), {}, f"made {ForKind.NAMES[kind]}")


def require_independent(s: ScheduleCore, loop: StmtSRef, what: str, thread_tag: str = "") -> None:
    """Refuse a loop whose iterations may not run at once.

    A reduce axis may only be bound to threads that can work together (`threadIdx`).
    """
    if not s.enable_check:
        return
    var = loop.loop.loop_var
    for block in s.state.blocks_below(loop):
        for axis in axes_using(s.state.realize_of(block), var):
            reduce_here = axis.iter_type == IterVar.CommReduce and thread_tag.startswith("threadIdx.")
            if axis.iter_type != IterVar.DataPar and not reduce_here:
                _refuse_axis(s.state, loop, block, axis, what)
    found = find_conflict(s.state, loop, at_once=True, private=lambda b: is_private(b, thread_tag))
    if found is not None:
        _refuse_conflict(s, loop, found, what)
    _require_own_values(s.state, loop, what, thread_tag)


def _require_own_values(state: ScheduleState, loop: StmtSRef, what: str, thread_tag: str) -> None:
    """Refuse threads that would read from memory of their own what other iterations have written."""
    for block in state.child_blocks(loop) if thread_tag else ():
        root = state.scope_root(block)
        assert root is not None
        for r in block.block.reads:
            if not is_private(r.buffer, thread_tag):
                continue
            sources = [w for w in writers_of(state, root, r.buffer) if w is not block]
            if sources and all(state.is_ancestor(loop, w) for w in sources) and not region_cover(state, block):
                example = literal(unwritten_example(state, block, loop, r.buffer))
                refuse(
                    f"{{0}} cannot be {what}: {{1}} may read elements of `{r.buffer.name}` that others write, "
                    f"and each thread has `{r.buffer.scope()}` memory of its own{example}",
                    loop.loop,
                    block.block,
                )


def require_still_independent(
    s: ScheduleCore, place: StmtSRef | None, block: Block, changed: tuple[StmtSRef, Block, Mapping[Block, Block]]
) -> None:
    """Refuse a change that puts `block` into loops whose iterations run at once (`place` is the innermost, if any),
    where they would meet in what it touches. The change puts a block in the place of another, with what became of those
    below, as for `replace`.

    This is what making such a loop parallel asks once the block is there, so that either may be done first.
    """
    loops = [] if place is None else [*s.state.loops_of(place), place]
    concurrent = [r for r in loops if r.loop.kind in _AT_ONCE]
    if not concurrent or not s.enable_check:
        return
    root, new, reuse = changed
    trial, known = s.state.copy()
    trial.replace(known[root], new, reuse)
    moved = trial.stmt2ref[block]
    for loop in concurrent:
        at = known[loop]
        thread = loop.loop.thread_binding
        tag = "" if thread is None else thread.thread_tag
        found = find_conflict(
            trial, at, at_once=True, within=_touched_with(trial, at, moved), private=partial(is_private, thread_tag=tag)
        )
        if found is not None:
            what = f"bound to {tag}" if tag else ForKind.NAMES[loop.loop.kind]
            refuse(
                f"{{0}} is {what}, and its iterations would meet: {literal(found.explain())}",
                loop.loop,
                hint="choose a place outside of that loop, or one where each iteration writes elements of its own",
            )


def _touched_with(state: ScheduleState, loop: StmtSRef, block: StmtSRef) -> Touched:
    """What a loop touches of the memory that `block` touches, less what others merely read of what it reads."""
    result: dict[Var, list[tuple[int, Access]]] = {}
    for memory, accesses in touched_by(state, loop).items():
        own = [a for _, a in accesses if a.block is block.block]
        if own:
            everything = any(a.is_write for a in own)
            result[memory] = [(k, a) for k, a in accesses if everything or a.is_write or a.block is block.block]
    return result


_AT_ONCE = (ForKind.PARALLEL, ForKind.VECTORIZED, ForKind.THREAD_BINDING)


def is_private(buffer: Buffer, thread_tag: str) -> bool:
    """Whether each thread, or each group of them, has such a buffer for itself."""
    scope = buffer.scope()
    if thread_tag.startswith("blockIdx."):
        return scope.startswith(("shared", "local", "warp", "wmma.", "m16n8k8.", "metal.simdgroup"))
    return bool(thread_tag) and scope == "local"


def _indexes(region: BufferRegion, axis: IterVar) -> bool:
    return any(mentions(r.min, {axis.var: None}) for r in region.region)


def _refuse_axis(state: ScheduleState, loop: StmtSRef, block: StmtSRef, axis: IterVar, what: str) -> None:
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
            f"`{axis.var.name}` of {{1}}{literal(_example_of_sum(state, loop, block))}",
            loop.loop,
            block.block,
            hint="take a loop of a spatial axis; or make partial results first with "
            f"`rfactor`, which turns `{loop.loop.loop_var.name}` into a spatial axis",
        )
    kind = IterVar.KIND_NAMES[axis.iter_type]
    refuse(
        f"{{0}} cannot be {what}: the axis `{axis.var.name}` of {{1}} is {kind}, not spatial", loop.loop, block.block
    )


def _example_of_sum(state: ScheduleState, loop: StmtSRef, block: StmtSRef) -> str:
    """Two iterations that add to the same element, in words."""
    for a in footprint(loop.loop).found:
        if a.block is block.block and a.is_write:
            found = find_witness(loop.loop.loop_var, a, a, outside_of(state, loop))
            if found is not None:
                return ": " + found.explain(a.buffer.name, True)
    return ""


def _refuse_conflict(s: ScheduleCore, loop: StmtSRef, found: Conflict, what: str) -> None:
    blocks = dict.fromkeys(b for b in (found.write.block, found.other.block) if b is not None)
    hint = "choose a loop whose iterations touch different elements"
    first = found.write.block
    if first is not None and any(a.iter_type == IterVar.CommReduce for a in first.iter_vars):
        hint += ", or compute the block outside of this loop"
    refuse(f"{{0}} cannot be {what}: {literal(found.explain())}", loop.loop, *blocks, hint=hint)
