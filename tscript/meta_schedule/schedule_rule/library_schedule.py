"""The library's schedules as a part of the spaces that tuning searches."""

from __future__ import annotations

from tscript.library.blocks import leaves
from tscript.library.choice import find_operator
from tscript.library.choices import Choices, designs
from tscript.meta_schedule.schedule_rule.schedule_rule import ScheduleRule
from tscript.meta_schedule.tune_context import TuneContext
from tscript.schedule.rv import BlockRV
from tscript.schedule.schedule import Schedule
from tscript.target.target import Target

_SETTLED = "None"
"""What keeps other rules away from a block."""


class LibrarySchedule(ScheduleRule):
    """Offers, for a function that the library recognises, the library's schedules of it, and the schedule as it was.

    One is what `tscript.library.schedule` gives, with its numbers, such as tile sizes, as decisions of samples; others
    differ from it in one of its other choices, such as whether operands are packed. It acts on the root block of
    the function, so put it before rules that change the function. Its schedules are finished: all their blocks are
    annotated to keep other rules away. Functions for targets other than CPUs, and those that the library cannot
    schedule for their target, stay as they are.

    >>> import tscript
    >>> from tscript import meta_schedule as ms
    >>> from tscript.testing.workloads import transpose
    >>> rule = LibrarySchedule()
    >>> rule.initialize_with_tune_context(ms.TuneContext(target="llvm -mcpu=skylake-avx512 -num-cores 2"))
    >>> sch = tscript.tir.Schedule(transpose(64, 64).func)
    >>> unchanged, *offered = rule.apply(sch, sch.get_block("root"))
    >>> unchanged is sch, "sample_categorical" in str(offered[-1].trace), len(rule.apply(sch, sch.get_block("B")))
    (True, True, 1)
    """

    def __init__(self) -> None:
        self._target: Target | None = None

    def _initialize_with_tune_context(self, context: TuneContext) -> None:
        self._target = context.target

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        """The schedule as it was, then the library's, its own choice last: a space has the last alternative first."""
        sref = sch.get_sref(block)
        target = self._target
        if target is None or target.kind.name != "llvm":
            return [sch]
        var = next((v for v in sch.mod.functions if sch.state.root_block(v) is sref), None)
        found = None if var is None else find_operator(sch.mod[var])
        if var is None or found is None:
            return [sch]
        operator, parts = found

        def schedule(new: Schedule, choices: Choices) -> None:
            new.work_on(var.name_hint)
            operator.apply(new, parts, target, choices)
            for settled in (*leaves(new), block):
                new.annotate(settled, "schedule_rule", _SETTLED)

        return [sch, *reversed(designs(sch, schedule))]


__all__ = ["LibrarySchedule"]
