"""Blocks that no other rule has put on a GPU's threads are shared out to them."""

from __future__ import annotations

from collections.abc import Sequence

from tscript.ir.stmt import Block
from tscript.meta_schedule.schedule_rule.reduction_test import TILED
from tscript.meta_schedule.schedule_rule.schedule_rule import ScheduleRule
from tscript.meta_schedule.thread_binding import bind_block_if_legal, required_attr
from tscript.meta_schedule.tune_context import TuneContext
from tscript.schedule.rv import BlockRV, ExprRV
from tscript.schedule.schedule import Schedule


class AutoBind(ScheduleRule):
    """Fuses the leading spatial loops of a block and binds them to `blockIdx.x` and `threadIdx.x`.

    The threads of a block are sampled from those of `thread_extents` that fit. Where `max_threadblocks` blocks of
    threads, each as large as `max_threads_per_block` (-1: as the target's), are too few for all iterations, each
    thread does several. Tiled blocks are left alone, as are loops whose iterations depend on each other.

    >>> import tscript
    >>> from tscript.testing.workloads import add
    >>> rule = AutoBind(thread_extents=[32])
    >>> rule.initialize_with_tune_context(TuneContext(target="nvidia/geforce-rtx-3070"))
    >>> sch = tscript.tir.Schedule(add(1024).func)
    >>> (made,) = rule.apply(sch, sch.get_block("C"))
    >>> [made.get(loop).thread_binding.thread_tag for loop in made.get_loops("C")]
    ['blockIdx.x', 'threadIdx.x']
    """

    def __init__(
        self,
        max_threadblocks: int = 256,
        thread_extents: Sequence[int] = (32, 64, 128, 256, 512, 1024),
        max_threads_per_block: int = -1,
    ) -> None:
        if max_threadblocks < 1:
            raise ValueError(f"max_threadblocks is at least 1, not {max_threadblocks}")
        if any(n < 1 for n in thread_extents):
            raise ValueError(f"thread_extents are at least 1, unlike {list(thread_extents)}")
        self.max_threadblocks = max_threadblocks
        self.thread_extents = list(thread_extents)
        self.max_threads_per_block = max_threads_per_block
        self._max_threads = max_threads_per_block

    def _initialize_with_tune_context(self, context: TuneContext) -> None:
        if self.max_threads_per_block == -1:
            self._max_threads = required_attr(context, "max_threads_per_block", "AutoBind")

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        """The schedule with the block on threads, or as it was."""
        stmt = sch.get(block)
        assert isinstance(stmt, Block)
        if sch.get_sref(block).parent is None or TILED in stmt.annotations:
            return [sch]

        def sampled(extent: int | None) -> int | ExprRV:
            limit = self._max_threads if extent is None else min(extent, self._max_threads)
            fitting = [n for n in self.thread_extents if n <= limit]
            if len(fitting) > 1:
                return sch.sample_categorical(fitting, [1.0 / len(fitting)] * len(fitting))
            return fitting[0] if fitting else max(1, limit)

        bind_block_if_legal(sch, block, self.max_threadblocks, self._max_threads, sampled)
        return [sch]
