"""The library's schedules as a part of the spaces that tuning searches."""

from __future__ import annotations

from tscript.library.blocks import leaves
from tscript.library.choice import find_operator
from tscript.meta_schedule.schedule_rule.schedule_rule import ScheduleRule
from tscript.meta_schedule.tune_context import TuneContext
from tscript.schedule.errors import ScheduleError
from tscript.schedule.rv import BlockRV
from tscript.schedule.schedule import Schedule
from tscript.target.target import Target

_SETTLED = "None"
"""What keeps other rules away from a block."""


class LibrarySchedule(ScheduleRule):
    """Offers, for a function that the library recognises, the library's schedule of it, and the schedule as it was.

    It acts on the root block of the function, so put it before rules that change the function. Its schedules are
    finished: all their blocks are annotated to keep other rules away. Functions for targets other than CPUs, and those
    that the library cannot schedule for their target, stay as they are.

    >>> import tscript
    >>> from tscript import meta_schedule as ms
    >>> from tscript.testing.workloads import matmul
    >>> rule = LibrarySchedule()
    >>> rule.initialize_with_tune_context(ms.TuneContext(target="llvm -mcpu=skylake-avx512 -num-cores 2"))
    >>> sch = tscript.tir.Schedule(matmul(64, 64, 64).func)
    >>> len(rule.apply(sch, sch.get_block("root"))), len(rule.apply(sch, sch.get_block("C")))
    (2, 1)
    """

    def __init__(self) -> None:
        self._target: Target | None = None

    def _initialize_with_tune_context(self, context: TuneContext) -> None:
        self._target = context.target

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        """The library's schedule, then the schedule as it was; the latter only for blocks other than a known root."""
        sref = sch.get_sref(block)
        if self._target is None or self._target.kind.name != "llvm":
            return [sch]
        var = next((v for v in sch.mod.functions if sch.state.root_block(v) is sref), None)
        if var is None:
            return [sch]
        found = find_operator(sch.mod[var])
        if found is None:
            return [sch]
        operator, parts = found
        new = sch.copy()
        new.work_on(var.name_hint)
        try:
            operator.apply(new, parts, self._target)
        except ScheduleError:
            return [sch]  # the library's steps are not legal here: other rules have the function
        for settled in (*leaves(new), block):
            new.annotate(settled, "schedule_rule", _SETTLED)
        return [new, sch]
