"""Schedules that need more of Hexagon's fast memory than there is are rejected."""

from __future__ import annotations

from tscript.meta_schedule.postproc.postproc import Postproc
from tscript.meta_schedule.postproc.scope_bytes import allocations
from tscript.meta_schedule.tune_context import TuneContext
from tscript.schedule.schedule import Schedule


class VerifyVTCMLimit(Postproc):
    """Rejects a schedule whose buffers of scope "global.vtcm" need more bytes together than the target's
    `vtcm-capacity`. A target that does not say how much it has, or says 0, has no limit.

    >>> import tscript
    >>> from tscript.testing.workloads import add
    >>> check = VerifyVTCMLimit()
    >>> check.initialize_with_tune_context(TuneContext(target="hexagon -vtcm-capacity=1024"))
    >>> sch = tscript.tir.Schedule(add(512).func)
    >>> check.apply(sch)
    True
    >>> copy = sch.cache_read("C", 0, "global.vtcm")
    >>> check.apply(sch)
    False
    """

    def __init__(self) -> None:
        self._limit = 0

    def _initialize_with_tune_context(self, context: TuneContext) -> None:
        given = None if context.target is None else context.target.get_attr("vtcm-capacity")
        self._limit = int(given or 0)

    def apply(self, sch: Schedule) -> bool:
        """Whether the memory is enough."""
        if self._limit <= 0:
            return True
        for var in sch.mod.functions:
            root = sch.state.root_block(var)
            sizes = [] if root is None else [n for _, n in allocations(sch.state, root, ("global.vtcm",))]
            if any(n is None for n in sizes) or sum(n or 0 for n in sizes) > self._limit:
                return False
        return True
