"""Schedules with loops of unknown extent are of no use to a tuner."""

from __future__ import annotations

from tscript.ir.expr import IntImm
from tscript.ir.functor import post_order_visit
from tscript.ir.stmt import For
from tscript.meta_schedule.postproc.postproc import Postproc
from tscript.schedule.schedule import Schedule


class DisallowDynamicLoop(Postproc):
    """Rejects a schedule in which the extent of any loop is not constant."""

    def apply(self, sch: Schedule) -> bool:
        """Whether all extents are constant."""
        dynamic = False

        def look(node: object) -> None:
            nonlocal dynamic
            dynamic = dynamic or (isinstance(node, For) and not isinstance(node.extent, IntImm))

        for func in sch.mod.functions.values():
            post_order_visit(func.body, look)
        return not dynamic
