"""The rule's role: one way to schedule one block."""

from __future__ import annotations

from abc import abstractmethod
from copy import copy

from tscript.meta_schedule.component import Component
from tscript.meta_schedule.tune_context import TuneContext
from tscript.schedule.rv import BlockRV
from tscript.schedule.schedule import Schedule


class ScheduleRule(Component, role="schedule rule"):
    """Turns a schedule into the schedules that it offers for one block; `[sch]` unchanged where it does not apply."""

    def initialize_with_tune_context(self, context: TuneContext) -> None:
        """Get ready for one task."""
        self._initialize_with_tune_context(context)

    def _initialize_with_tune_context(self, context: TuneContext) -> None:
        pass

    @abstractmethod
    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        """The alternatives for a block. They may share `sch` only as one of them."""

    def clone(self) -> ScheduleRule:
        """An independent rule of the same settings."""
        return copy(self)


PyScheduleRule = ScheduleRule
