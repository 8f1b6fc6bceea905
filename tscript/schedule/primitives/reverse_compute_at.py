"""Moving a consumer into a loop of its producers."""

from __future__ import annotations

from tscript.arith import Interval
from tscript.ir.expr import Var
from tscript.ir.linear import linear_form
from tscript.ir.occurrences import variables
from tscript.schedule.core import ScheduleCore
from tscript.schedule.errors import literal, refuse
from tscript.schedule.examples import late_start_example, repeated_example, unreached_example
from tscript.schedule.instances import reach_everything
from tscript.schedule.instruction import InstructionKind, attr, block, flag, loop
from tscript.schedule.motion import (
    Move,
    inner_bounds,
    moves_apart,
    place,
    prepare,
    require_droppable_predicate,
    require_sources_ready,
    solve,
    wanted_regions,
)
from tscript.schedule.primitive import METHODS, primitive
from tscript.schedule.rv import BlockRV, LoopRV
from tscript.schedule.sref import INLINE_MARK, ROOT_MARK


@primitive(
    InstructionKind(
        "ReverseComputeAt", "reverse_compute_at", (block(), loop(), flag("preserve_unit_loops"), attr("index"))
    )
)
def reverse_compute_at(
    s: ScheduleCore, block: BlockRV | str, loop: LoopRV | str, preserve_unit_loops: bool = False, index: int = -1
) -> None:
    """Compute, in each iteration of `loop`, the part of a block that consumes what the iteration produces.

    The block is taken out of its place; inside `loop`, after its last producer (`index` -2; -1 is the last place
    that its own consumers allow), a nest `ax0, ax1, ...` runs over the instances that read what was just made.
    Loops of one iteration are left out unless `preserve_unit_loops`.

    Requires: the scope is a pipeline of stages; the block is complete or a reduction; all its producers are under
    `loop`, which is not vectorized; an instance reads nothing that only another iteration makes; a reduction that
    is done in parts does each part once, the first one, with its init, before the others.

    >>> import tscript
    >>> from tscript.testing.workloads import rms_norm
    >>> sch = tscript.tir.Schedule(rms_norm(4, 6).func)
    >>> (i,) = sch.get_loops("rrms")
    >>> sch.reverse_compute_at("Y", i)
    >>> [sch.get(b).name_hint for b in sch.get_child_blocks(i)]
    ['rrms', 'Y']
    """
    target, at = s.block(block), s.loop(loop)  # pyright: ignore[reportArgumentType]
    if at is ROOT_MARK:
        return
    if at is INLINE_MARK:
        METHODS["reverse_compute_inline"].function(s, block)
        return
    move = prepare(s, target, at)
    if not move.before:
        refuse("{0} has no producers in its scope, so there is nothing to follow", target.block)
    for producer in move.before:
        if not s.state.is_ancestor(at, producer):
            refuse(
                "{0} consumes what {1} makes, which is not under {2}",
                target.block,
                producer.block,
                at.loop,
                hint="choose a loop that is around all producers",
            )
    require_droppable_predicate(move)
    bounds = inner_bounds(move)
    buffers = dict.fromkeys(w.buffer for p in move.before for w in p.block.writes)
    # A thread consumes what it makes itself; what others make is theirs to consume.
    made = wanted_regions(move, move.before, buffers, reads=False, by_all_threads=False)
    solution = solve(target.block.iter_vars, target.block.reads, made, bounds)
    require_sources_ready(move, solution, move.before)
    _require_all_instances(move, solution)
    _require_parts_once(move, solution)
    _require_first_part_first(move, solution)
    place(move, solution, preserve_unit_loops, index, f"moved under {at.loop.loop_var.name}")


def _require_all_instances(move: Move, solution: dict[Var, Interval]) -> None:
    """Refuse a block with instances that read nothing any iteration makes: no iteration would run them."""
    loops = [*move.state.loops_of(move.loop), move.loop]
    lost = reach_everything(move.block.block.iter_vars, solution, loops, inner_bounds(move))
    if lost is not None:
        refuse(
            f"not every value of the axis `{lost.var.name}` of {{0}} is certain to be run by some iteration of {{1}}"
            f"{literal(unreached_example(lost, loops, solution))}",
            move.block.block,
            move.loop.loop,
            hint="only instances that read what an iteration makes are run in it; choose a loop further out",
        )


def _require_parts_once(move: Move, solution: dict[Var, Interval]) -> None:
    """Refuse a reduction of which an iteration does a part that another may do again."""
    block = move.block.block
    parts = [a.var for a in block.iter_vars if a.iter_type != a.DataPar and a.var in solution]
    if not parts:
        return
    loops = [*move.state.loops_of(move.loop), move.loop]
    if not moves_apart([solution[v] for v in solution], loops, inner_bounds(move)):
        refuse(
            "{0} would be reduced in parts, one in each iteration of {1}, and some parts could be added twice"
            + literal(repeated_example(loops, solution)),
            block,
            move.loop.loop,
            hint="choose a loop outside of those its reduction runs over",
        )


def _require_first_part_first(move: Move, solution: dict[Var, Interval]) -> None:
    """Refuse a reduction whose init would run after other parts, since later iterations do earlier parts."""
    block = move.block.block
    if block.init is None:
        return
    loops = [*move.state.loops_of(move.loop), move.loop]
    around = dict.fromkeys(r.loop.loop_var for r in loops)
    elements = {
        v: None
        for a in block.iter_vars
        if a.iter_type == a.DataPar and a.var in solution
        for v in variables(solution[a.var].low)
    }
    for axis in block.iter_vars:
        if axis.iter_type == axis.DataPar or axis.var not in solution:
            continue
        terms, _ = linear_form(solution[axis.var].low)
        for term, factor in terms.items():
            moving = [v for v in variables(term) if v in around]
            if moving and (not isinstance(term, Var) or factor < 0 or term in elements):
                refuse(
                    f"{{0}} would be reduced in parts that do not begin with the first values of `{axis.var.name}`, "
                    f"to which the init belongs: an iteration of {{1}} begins at `{solution[axis.var].low}`"
                    f"{literal(late_start_example(axis, loops, solution))}",
                    block,
                    move.loop.loop,
                    hint="decompose_reduction first, or choose a loop outside of those its reduction runs over",
                )
