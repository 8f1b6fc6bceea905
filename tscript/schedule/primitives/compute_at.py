"""Moving a producer into a loop of its consumers."""

from __future__ import annotations

from tscript.arith import Interval
from tscript.ir.expr import Var
from tscript.schedule.checks import require_not_output
from tscript.schedule.core import ScheduleCore
from tscript.schedule.errors import refuse
from tscript.schedule.instruction import InstructionKind, attr, block, flag, loop
from tscript.schedule.motion import (
    Move,
    inner_bounds,
    place,
    prepare,
    require_droppable_predicate,
    require_sources_ready,
    solve,
    wanted_regions,
)
from tscript.schedule.primitive import METHODS, primitive
from tscript.schedule.rewrite import require_removable
from tscript.schedule.rv import BlockRV, LoopRV
from tscript.schedule.sref import INLINE_MARK, ROOT_MARK, StmtSRef


@primitive(InstructionKind("ComputeAt", "compute_at", (block(), loop(), flag("preserve_unit_loops"), attr("index"))))
def compute_at(
    s: ScheduleCore, block: BlockRV | str, loop: LoopRV | str, preserve_unit_loops: bool = False, index: int = -1
) -> None:
    """Compute, in each iteration of `loop`, just the part of a block that the iteration consumes.

    The block is taken out of its place; inside `loop`, before its first consumer (`index` -1; -2 is right after
    its last producer), a nest `ax0, ax1, ...` runs over the instances that the consumers below need. Instances
    needed by several iterations are computed several times. Loops of one iteration are left out unless
    `preserve_unit_loops`.

    Requires: the scope is a pipeline of stages; the block is complete or a reduction, is not seen outside the
    scope, and all its consumers are under `loop`, which is not vectorized.

    >>> import tscript
    >>> from tscript.testing.workloads import rms_norm
    >>> sch = tscript.tir.Schedule(rms_norm(4, 6).func)
    >>> i, j = sch.get_loops("Y")
    >>> sch.compute_at("rrms", i)
    >>> [sch.get(b).name_hint for b in sch.get_child_blocks(i)]
    ['rrms', 'Y']
    """
    target, at = s.block(block), s.loop(loop)  # pyright: ignore[reportArgumentType]
    if at is ROOT_MARK:
        return
    if at is INLINE_MARK:
        METHODS["compute_inline"].function(s, block)
        return
    move, solution = plan_compute_at(s, target, at)
    place(move, solution, preserve_unit_loops, index, f"moved under {at.loop.loop_var.name}")


def plan_compute_at(s: ScheduleCore, target: StmtSRef, at: StmtSRef) -> tuple[Move, dict[Var, Interval]]:
    """What the move involves, and which instances each iteration needs; refused where it is not allowed."""
    move = prepare(s, target, at)
    require_not_output(s.state, target, move.root)
    require_removable(s.state, target, move.root)
    for consumer in move.after:
        if not s.state.is_ancestor(at, consumer):
            refuse(
                "{0} is consumed by {1}, which is not under {2}",
                target.block,
                consumer.block,
                at.loop,
                hint="choose a loop that is around all consumers",
            )
    require_droppable_predicate(move)
    buffers = dict.fromkeys(w.buffer for w in target.block.writes)
    wanted = wanted_regions(move, move.after, buffers, reads=True)
    found = solve(target.block.iter_vars, target.block.writes, wanted, inner_bounds(move))
    # A reduction is done whole wherever it is done.
    solution = {a.var: found[a.var] for a in target.block.iter_vars if a.var in found and a.iter_type == a.DataPar}
    require_sources_ready(move, solution, [p for p in move.before if s.state.is_ancestor(at, p)])
    return move, solution
