"""The threads of a block reduce together."""

from __future__ import annotations

from collections.abc import Sequence

from tscript.meta_schedule.loop_kinds import Nest, block_of
from tscript.meta_schedule.schedule_rule.reduction_test import (
    TILED,
    fuse_reduction_loops,
    needs_multi_level_tiling,
    needs_partial_results,
)
from tscript.meta_schedule.schedule_rule.schedule_rule import ScheduleRule
from tscript.meta_schedule.thread_binding import is_under, required_attr
from tscript.meta_schedule.tune_context import TuneContext
from tscript.schedule.errors import ScheduleError
from tscript.schedule.rv import BlockRV, ExprRV, LoopRV
from tscript.schedule.schedule import Schedule


class CrossThreadReduction(ScheduleRule):
    """Offers to cut a reduction into parts for `threadIdx.x`, whose threads combine their results.

    How many threads there are is sampled from `thread_extents`. Where its consumer allows that, the reduction moves
    into the consumer's loops, keeps its result in shared memory, and the consumer works with the same threads.

    >>> import tscript
    >>> from tscript.testing.workloads import matvec
    >>> rule = CrossThreadReduction([32])
    >>> rule.initialize_with_tune_context(TuneContext(target="nvidia/geforce-rtx-3070"))
    >>> sch = tscript.tir.Schedule(matvec(16, 1024).func)
    >>> made, same = rule.apply(sch, sch.get_block("y"))
    >>> [int(made.get(loop).extent) for loop in made.get_loops("y")], same is sch
    ([16, 32, 32], True)
    """

    def __init__(self, thread_extents: Sequence[int]) -> None:
        if not thread_extents or any(n < 1 for n in thread_extents):
            raise ValueError(f"thread_extents are one number of at least 1 or more, not {list(thread_extents)}")
        self.thread_extents = list(thread_extents)
        self._max_threads = 0

    def _initialize_with_tune_context(self, context: TuneContext) -> None:
        self._max_threads = required_attr(context, "max_threads_per_block", "CrossThreadReduction")
        required_attr(context, "thread_warp_size", "CrossThreadReduction")

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        """The schedule with threads that reduce together, then the schedule as it was."""
        extents = [n for n in self.thread_extents if n <= self._max_threads]
        if not extents or not needs_partial_results(sch, block, self._max_threads):
            return [sch]
        new = sch.copy()
        try:
            self._reduce_together(new, block, extents)
        except ScheduleError:
            return [sch]
        return [new, sch]

    def _reduce_together(self, sch: Schedule, block: BlockRV, extents: list[int]) -> None:
        found = _place_in_consumer(sch, block)
        threads: ExprRV | int | None = None
        if found is not None and is_under(sch.state, sch.get_sref(found[0]), "threadIdx."):
            threads = _threads_of(sch, found[0])
            if threads is None:
                found = None  # on threads that are not known to the trace: they stay on their own
        if threads is None:
            threads = sch.sample_categorical(extents, [1.0 / len(extents)] * len(extents))
            if found is not None:
                found = (found[0], _bind_consumer(sch, *found, threads))
        if found is not None:
            sch.compute_at(block, found[1], preserve_unit_loops=True)
            sch.set_scope(block, 0, "shared")
        fused = _fused_reduction(sch, block)
        _, inner = sch.split(fused, [None, threads])
        sch.bind(inner, "threadIdx.x")


def _fused_reduction(sch: Schedule, block: BlockRV) -> LoopRV:
    """The loops that a block reduces over, as one inside of all others; around it may be loops of a consumer."""
    loops, kinds = sch.get_loops(block), Nest.around(sch, block).kinds
    reduced = [loop for loop, kind in zip(loops, kinds, strict=True) if kind == "R"]
    if len(loops) == len(block_of(sch, block).iter_vars):
        return fuse_reduction_loops(sch, block)[0]
    first = kinds.index("R")
    spatial = [loop for loop, kind in zip(loops[first:], kinds[first:], strict=True) if kind != "R"]
    if spatial:
        sch.reorder(*spatial, *reduced)
    return sch.fuse(*reduced)


def _bind_consumer(sch: Schedule, consumer: BlockRV, place: LoopRV, threads: ExprRV) -> LoopRV:
    """Share the innermost loop of a consumer out to threads; the loop that the reduction goes to."""
    innermost = sch.get_loops(consumer)[-1]
    is_place = sch.get_sref(innermost) is sch.get_sref(place)
    outer, inner = sch.split(innermost, [None, threads])
    sch.bind(inner, "threadIdx.x")
    return outer if is_place else place


def _place_in_consumer(sch: Schedule, block: BlockRV) -> tuple[BlockRV, LoopRV] | None:
    """The first consumer, and that of its loops in which the reduction can take place."""
    stmt = block_of(sch, block)
    consumers = sch.get_consumers(block)
    if len(stmt.writes) != 1 or not consumers:
        return None
    first = consumers[0]
    if TILED in block_of(sch, first).annotations or needs_multi_level_tiling(sch, first):
        return None
    loops = sch.get_loops(first)
    deepest = len(loops) - 1
    if len(consumers) > 1:
        common = sch.state.common_ancestor([sch.get_sref(c) for c in consumers])
        places = [k for k, loop in enumerate(loops) if sch.get_sref(loop) is common]
        if not places:
            return None
        deepest = places[0]
    kinds = Nest.around(sch, block).kinds
    leading = len(kinds) - len(kinds.lstrip("S"))
    position = min(leading - 1, deepest)
    return None if position < 0 else (first, loops[position])


def _threads_of(sch: Schedule, block: BlockRV) -> ExprRV | int | None:
    """How many threads a block works with, as its loop was split."""
    assert sch.trace is not None
    sref = sch.get_sref(block)
    factors: dict[LoopRV, ExprRV | int] = {}
    for inst in sch.trace.insts:
        if inst.kind.name == "Split":
            for loop, factor in zip(inst.outputs, inst.inputs[1:], strict=False):
                if isinstance(loop, LoopRV) and isinstance(factor, (ExprRV, int)):
                    factors[loop] = factor
        elif inst.kind.name == "Bind" and inst.attrs[0] == "threadIdx.x" and inst.inputs[0] in factors:
            try:
                bound = sch.get_sref(inst.inputs[0])
            except ValueError:
                continue
            if sch.state.is_ancestor(bound, sref):
                return factors[inst.inputs[0]]
    return None
