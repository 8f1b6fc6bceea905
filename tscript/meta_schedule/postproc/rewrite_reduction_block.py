"""Blocks that set their result to a start value where they reduce are parted into two."""

from __future__ import annotations

from tscript.ir.expr import IterVar
from tscript.ir.occurrences import variables
from tscript.ir.stmt import ForKind
from tscript.meta_schedule.loop_kinds import block_of, loop_kind
from tscript.meta_schedule.postproc.postproc import Postproc
from tscript.schedule.errors import ScheduleError
from tscript.schedule.schedule import Schedule
from tscript.schedule.sref import StmtSRef

_TENSORIZE, _TENSORIZE_INIT = "meta_schedule.auto_tensorize", "meta_schedule.auto_tensorize_init"


class RewriteReductionBlock(Postproc):
    """Moves the start of each reduction in front of the outermost loop that is not spatial.

    Reductions over threads keep their start, which lowering needs. Of a block that is to become an intrinsic
    (`meta_schedule.auto_tensorize`), the start becomes the one that `meta_schedule.auto_tensorize_init` names.

    >>> import tscript
    >>> from tscript.testing.workloads import matmul
    >>> sch = tscript.tir.Schedule(matmul(8, 8, 8).func)
    >>> RewriteReductionBlock().apply(sch)
    True
    >>> sch.get(sch.get_block("C_init")).init is None
    True
    """

    def apply(self, sch: Schedule) -> bool:
        """False where a start cannot be moved: loops were fused that the reduction does not run over evenly."""
        while (found := _next(sch)) is not None:
            sref, place = found
            block = sch.get_block(sref.block.name_hint, sch.state.function_of(sref).name_hint)
            try:
                start = sch.decompose_reduction(block, sch.get_loops(block)[place])
            except ScheduleError:
                return False
            annotations = block_of(sch, block).annotations
            if _TENSORIZE not in annotations:
                continue
            name = annotations.get(_TENSORIZE_INIT)
            if name is not None:
                sch.unannotate(block, _TENSORIZE_INIT)
                sch.unannotate(start, _TENSORIZE_INIT)
            sch.unannotate(start, _TENSORIZE)
            sch.annotate(start, _TENSORIZE, "" if name is None else name)
        return True


def _next(sch: Schedule) -> tuple[StmtSRef, int] | None:
    """A block that sets a start value, and the number of the loop that the start is to stand before."""
    for var in sorted(sch.mod.functions, key=lambda v: v.name_hint):
        root = sch.state.root_block(var)
        for sref in () if root is None else sch.state.blocks_below(root):
            if sref.block.init is None or _reduces_over_threads(sch, sref):
                continue
            loops = sch.state.loops_of(sref)
            place = next((i for i, loop in enumerate(loops) if loop_kind(sch.state, loop) != "S"), None)
            if place is not None:
                return sref, place
    return None


def _reduces_over_threads(sch: Schedule, sref: StmtSRef) -> bool:
    realize = sch.state.realize_of(sref)
    threads = {loop.loop.loop_var for loop in sch.state.loops_of(sref) if loop.loop.kind == ForKind.THREAD_BINDING}
    return any(
        axis.iter_type == IterVar.CommReduce and not threads.isdisjoint(variables(value))
        for axis, value in zip(realize.block.iter_vars, realize.iter_values, strict=True)
    )
