"""How much of the whole program may run in parallel, in vector lanes and unrolled."""

from __future__ import annotations

from collections.abc import Sequence

from tscript.ir.expr import IterVar
from tscript.ir.functor import post_order_visit
from tscript.ir.stmt import Block
from tscript.meta_schedule.schedule_rule.schedule_rule import ScheduleRule
from tscript.meta_schedule.tune_context import TuneContext
from tscript.schedule.rv import BlockRV
from tscript.schedule.schedule import Schedule
from tscript.target.detect import core_count


class ParallelizeVectorizeUnroll(ScheduleRule):
    """Notes limits on the root block, which the postprocessor `RewriteParallelVectorizeUnroll` obeys.

    `max_jobs_per_core` times the cores of the target are run in parallel at most, `max_vectorize_extent` lanes are
    used (-1 for neither), and loops are unrolled up to one of `unroll_max_steps` steps, which is sampled, by ourselves
    (`unroll_explicit`) or by the compiler.
    """

    def __init__(
        self,
        max_jobs_per_core: int = 16,
        max_vectorize_extent: int = 16,
        unroll_max_steps: Sequence[int] | None = None,
        unroll_explicit: bool = True,
    ) -> None:
        for name, value in (("max_jobs_per_core", max_jobs_per_core), ("max_vectorize_extent", max_vectorize_extent)):
            if value < 1 and value != -1:
                raise ValueError(f"{name} is at least 1, or -1 for none, not {value}")
        self.max_jobs_per_core = max_jobs_per_core
        self.max_vectorize_extent = max_vectorize_extent
        self.unroll_max_steps = list(unroll_max_steps or [])
        self.unroll_explicit = unroll_explicit
        self._max_parallel = -1

    def _initialize_with_tune_context(self, context: TuneContext) -> None:
        if self.max_jobs_per_core == -1:
            return
        self._max_parallel = num_cores(context) * self.max_jobs_per_core

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        """The schedule with limits on its root block."""
        stmt = sch.get(block)
        assert isinstance(stmt, Block)
        if sch.get_sref(block).parent is not None:
            return [sch]
        if self._max_parallel != -1:
            sch.annotate(block, "meta_schedule.parallel", self._max_parallel)
        if self.max_vectorize_extent != -1:
            sch.annotate(block, "meta_schedule.vectorize", self.max_vectorize_extent)
        if self.unroll_max_steps and not _is_spatial(stmt):
            n = len(self.unroll_max_steps)
            step = sch.sample_categorical(self.unroll_max_steps, [1.0 / n] * n)
            how = "explicit" if self.unroll_explicit else "implicit"
            sch.annotate(block, f"meta_schedule.unroll_{how}", step)
        return [sch]


def num_cores(context: TuneContext) -> int:
    """The cores that a context's target gives, `num-cores`; those of this machine where it does not say."""
    cores = None if context.target is None else context.target.get_attr("num-cores")
    return core_count() if cores is None else int(cores)


def _is_spatial(root: Block) -> bool:
    """Whether every block below the root has only spatial axes."""
    found = True

    def look(node: object) -> None:
        nonlocal found
        if isinstance(node, Block):
            found = found and all(v.iter_type == IterVar.DataPar for v in node.iter_vars)

    post_order_visit(root.body, look)
    return found
