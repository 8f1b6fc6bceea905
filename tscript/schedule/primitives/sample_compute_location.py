"""Sampling where a block is computed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tscript.ir.construct import is_const_int
from tscript.ir.expr import IterVar
from tscript.ir.occurrences import mentions
from tscript.schedule.core import ScheduleCore
from tscript.schedule.errors import ScheduleError
from tscript.schedule.instruction import InstructionKind, Outputs, block
from tscript.schedule.motion import position
from tscript.schedule.primitive import primitive
from tscript.schedule.primitives.compute_at import plan_compute_at
from tscript.schedule.primitives.compute_inline import plan_compute_inline
from tscript.schedule.rv import BlockRV, LoopRV
from tscript.schedule.sref import INLINE_MARK, ROOT_MARK, StmtSRef

INLINE, ROOT = -2, -1


@primitive(
    InstructionKind(
        "SampleComputeLocation",
        "sample_compute_location",
        (block(),),
        Outputs.ONE,
        is_pure=True,
        has_decision=True,
    )
)
def sample_compute_location(s: ScheduleCore, block: BlockRV | str, decision: int | None = None) -> LoopRV:
    """A loop at which `block` may be computed, for `compute_at`; or a mark that means "inline" or "as it is".

    The decision is -2 for inline, -1 for leaving it, or the number of a loop of the first consumer, outermost 0.
    A decision that is no longer possible becomes the largest possible one below it.

    >>> import tscript
    >>> from tscript.testing.workloads import rms_norm
    >>> sch = tscript.tir.Schedule(rms_norm(4, 6).func)
    >>> loop = sch.sample_compute_location("rrms", decision=0)
    >>> sch.get(loop).loop_var
    i
    """
    target = s.block(block)  # pyright: ignore[reportArgumentType]
    loops = _common_loops(s, target)
    candidates = compute_locations(s, target)
    if decision is None:
        chosen = candidates[s.rng.below(len(candidates))]
    else:
        chosen = max((c for c in candidates if c <= decision), default=ROOT)
    s.decide(chosen)
    if chosen == INLINE:
        return s.new_loop(INLINE_MARK)
    return s.new_loop(ROOT_MARK if chosen == ROOT else loops[chosen])


def compute_locations(s: ScheduleCore, block: StmtSRef) -> list[int]:
    """What `sample_compute_location` chooses from for a block: numbers of loops, and the marks -2 and -1."""
    loops = _common_loops(s, block)
    candidates = [INLINE] if _allowed(partial(plan_compute_inline, s, block)) else []
    candidates.append(ROOT)
    return candidates + [k for k in _worth_trying(s, loops) if _allowed(partial(_try, s, block, loops[k]))]


def _try(s: ScheduleCore, target: StmtSRef, loop: StmtSRef) -> None:
    move, _ = plan_compute_at(s, target, loop)
    position(move, -1)


def _allowed(step: Callable[[], object]) -> bool:
    try:
        step()
    except ScheduleError:
        return False
    return True


def _common_loops(s: ScheduleCore, target: StmtSRef) -> list[StmtSRef]:
    """The loops of the first consumer down to the lowest that is around all consumers, outermost first."""
    root = s.state.scope_root(target)
    consumers = [] if root is None else s.state.scope(root).consumers(target)
    if not consumers:
        return []
    top = consumers[0].parent if len(consumers) == 1 else s.state.common_ancestor(consumers)
    if top is None or top is root:
        return []
    return [r for r in s.state.loops_of(consumers[0]) if r is top or s.state.is_ancestor(r, top)]


def _worth_trying(s: ScheduleCore, loops: list[StmtSRef]) -> list[int]:
    """Loops of more than one iteration, up to where spatial loops and others begin to alternate."""
    found: list[int] = []
    kinds = [_is_spatial(s, r) for r in loops]
    last_spatial = max((i for i, spatial in enumerate(kinds) if spatial), default=-1)
    seen_other = False
    for i, (loop, spatial) in enumerate(zip(loops, kinds, strict=True)):
        if (spatial and seen_other) or (not spatial and i > last_spatial):
            break
        seen_other = seen_other or not spatial
        if not is_const_int(loop.loop.extent, 1):
            found.append(i)
    return found


def _is_spatial(s: ScheduleCore, loop: StmtSRef) -> bool:
    """Whether only spatial axes of the blocks below use the loop."""
    variable = {loop.loop.loop_var: None}
    for b in s.state.child_blocks(loop):
        realize = s.state.realize_of(b)
        for axis, value in zip(realize.block.iter_vars, realize.iter_values, strict=True):
            if axis.iter_type != IterVar.DataPar and mentions(value, variable):
                return False
    return True
