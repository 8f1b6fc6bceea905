"""The postprocessor's role: what every sampled schedule goes through before it is built."""

from __future__ import annotations

from abc import abstractmethod
from copy import copy

from tscript.meta_schedule.component import Component
from tscript.meta_schedule.tune_context import TuneContext
from tscript.schedule.schedule import Schedule


class Postproc(Component, role="postprocessor"):
    """Finishes a schedule in place, or says that it is of no use."""

    def initialize_with_tune_context(self, context: TuneContext) -> None:
        """Get ready for one task."""
        self._initialize_with_tune_context(context)

    def _initialize_with_tune_context(self, context: TuneContext) -> None:
        pass

    @abstractmethod
    def apply(self, sch: Schedule) -> bool:
        """Whether the schedule can be built; it may have been changed."""

    def clone(self) -> Postproc:
        """An independent postprocessor of the same settings."""
        return copy(self)


PyPostproc = Postproc
