"""Blocks that are on no threads of the GPU yet get some."""

from __future__ import annotations

from tscript.meta_schedule.postproc.postproc import Postproc
from tscript.meta_schedule.thread_binding import bind_block, is_under, required_attr
from tscript.meta_schedule.tune_context import TuneContext
from tscript.schedule.errors import ScheduleError
from tscript.schedule.schedule import Schedule
from tscript.schedule.sref import StmtSRef
from tscript.support.errors import TuneError


class RewriteUnboundBlock(Postproc):
    """Binds each block that is not under loops bound to both `blockIdx` and `threadIdx`, as `AutoBind` does, with as
    many threads per block as there may be (`max_threads_per_block`; -1: as the target says).

    >>> import tscript
    >>> from tscript.testing.workloads import add
    >>> sch = tscript.tir.Schedule(add(1024).func)
    >>> RewriteUnboundBlock(max_threads_per_block=256).apply(sch)
    True
    >>> [int(sch.get(loop).extent) for loop in sch.get_loops("C")]
    [4, 256]
    """

    def __init__(self, max_threadblocks: int = 256, max_threads_per_block: int = -1) -> None:
        if max_threadblocks < 1:
            raise ValueError(f"max_threadblocks is at least 1, not {max_threadblocks}")
        self.max_threadblocks = max_threadblocks
        self.max_threads_per_block = max_threads_per_block
        self._max_threads = max_threads_per_block

    def _initialize_with_tune_context(self, context: TuneContext) -> None:
        if self.max_threads_per_block == -1:
            self._max_threads = required_attr(context, "max_threads_per_block", "RewriteUnboundBlock")

    def apply(self, sch: Schedule) -> bool:
        """False where a block cannot be bound, since its iterations depend on each other."""
        threads = self._max_threads

        def all_that_fit(extent: int | None) -> int:
            return threads if extent is None else max(1, min(extent, threads))

        while (sref := _unbound(sch)) is not None:
            block = sch.get_block(sref.block.name_hint, sch.state.function_of(sref).name_hint)
            try:
                bind_block(sch, block, self.max_threadblocks, threads, all_that_fit)
            except (ScheduleError, TuneError):
                return False
        return True


def _unbound(sch: Schedule) -> StmtSRef | None:
    """The first block below a root that is on no thread, and none of whose parts is."""
    for var in sorted(sch.mod.functions, key=lambda v: v.name_hint):
        root = sch.state.root_block(var)
        for block in () if root is None else sch.state.child_blocks(root):
            leaves = [b for b in sch.state.blocks_below(block) if not sch.state.child_blocks(b)] or [block]
            if not all(is_under(sch.state, b, p) for b in leaves for p in ("blockIdx.", "threadIdx.")):
                return block
    return None
