"""How blocks come to run on the threads of a GPU."""

from __future__ import annotations

from collections.abc import Callable

from tscript.ir.stmt import ForKind
from tscript.meta_schedule.loop_kinds import extent_of, has_one_child, loop_kind
from tscript.meta_schedule.tune_context import TuneContext
from tscript.schedule.errors import ScheduleError
from tscript.schedule.rv import BlockRV, ExprRV, LoopRV
from tscript.schedule.schedule import Schedule
from tscript.schedule.sref import StmtSRef
from tscript.schedule.state import ScheduleState
from tscript.support.errors import TuneError

Factor = Callable[[int | None], "int | ExprRV"]
"""The threads of a block, for the extent of the loop that is shared out (None where it is not constant)."""


def required_attr(context: TuneContext, name: str, rule: str) -> int:
    """An attribute of a context's target, of at least 1. Raises ValueError where it is missing."""
    value = None if context.target is None else context.target.get_attr(name)
    if value is None or int(value) < 1:
        raise ValueError(
            f"{rule} needs the target's {name}, which {context.target} does not give; choose a target by tag, such as "
            f'"nvidia/geforce-rtx-3070", or add -{name}=... to it'
        )
    return int(value)


def thread_tag(loop: StmtSRef) -> str:
    """What a loop is bound to; empty for a loop that is not."""
    axis = loop.loop.thread_binding if loop.loop.kind == ForKind.THREAD_BINDING else None
    return "" if axis is None else axis.thread_tag


def loops_above(state: ScheduleState, block: StmtSRef) -> list[StmtSRef]:
    """All loops around a block, also those outside of blocks around it, from the outside in."""
    found: list[StmtSRef] = []
    at: StmtSRef | None = block
    while at is not None:
        found[:0] = state.loops_of(at)
        at = state.scope_root(at)
    return found


def is_under(state: ScheduleState, block: StmtSRef, prefix: str) -> bool:
    """Whether a loop around a block is bound to threads whose tag begins like this."""
    return any(thread_tag(loop).startswith(prefix) for loop in loops_above(state, block))


def bind_block(sch: Schedule, block: BlockRV, max_threadblocks: int, max_threads: int, factor_of: Factor) -> None:
    """Share the leading spatial loops of a block out to blocks of threads; nothing where that is done already.

    Raises ScheduleError where iterations depend on each other, TuneError for a block in blocks of threads without a
    thread.
    """
    state, sref = sch.state, sch.get_sref(block)
    in_block, in_thread = (is_under(state, sref, p) for p in ("blockIdx.", "threadIdx."))
    if in_block and in_thread:
        return
    if in_block:
        raise TuneError(
            f"block {sref.block.name_hint} is in a loop bound to blockIdx, but in none bound to threadIdx; bind one of "
            "its loops to threadIdx.x"
        )
    loops = _leading(sch, block)
    fused = sch.fuse(*loops) if loops else sch.add_unit_loop((sch.get_loops(block) or [block])[0])
    if in_thread:
        sch.bind(fused, "blockIdx.x")
        return
    extent = extent_of(sch.get_sref(fused).loop)
    if extent is None or extent <= max_threadblocks * max_threads:
        outer, inner = sch.split(fused, [None, factor_of(extent)])
        sch.bind(outer, "blockIdx.x")
        sch.bind(inner, "threadIdx.x")
        return
    rest, outer, inner = sch.split(fused, [None, max_threadblocks, max_threads])
    sch.reorder(outer, inner, rest)
    sch.bind(outer, "blockIdx.x")
    sch.bind(inner, "threadIdx.x")


def bind_block_if_legal(
    sch: Schedule, block: BlockRV, max_threadblocks: int, max_threads: int, factor_of: Factor
) -> bool:
    """Like `bind_block`, but a schedule in which it is refused stays as it was; whether it was done.

    `factor_of` is called for an attempt in a copy, too.
    """
    try:
        bind_block(sch.copy(), block, max_threadblocks, max_threads, factor_of=_plain)
    except ScheduleError:
        return False
    bind_block(sch, block, max_threadblocks, max_threads, factor_of)
    return True


def _plain(extent: int | None) -> int:
    return max(1, min(32, extent or 32))


def _leading(sch: Schedule, block: BlockRV) -> list[LoopRV]:
    """The loops from the outside in that are spatial and serial, up to and with one that has several children."""
    found: list[LoopRV] = []
    for loop in sch.get_loops(block):
        sref = sch.get_sref(loop)
        if sref.loop.kind != ForKind.SERIAL or loop_kind(sch.state, sref) != "S":
            break
        found.append(loop)
        if not has_one_child(sref.loop):
            break
    return found
