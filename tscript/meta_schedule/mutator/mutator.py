"""The mutator's role: a neighbour of a schedule, by another decision in its trace."""

from __future__ import annotations

from abc import abstractmethod
from copy import copy

from tscript.meta_schedule.component import Component
from tscript.meta_schedule.tune_context import TuneContext
from tscript.schedule.trace import Trace


class Mutator(Component, role="mutator"):
    """Gives a trace with something else decided."""

    def initialize_with_tune_context(self, context: TuneContext) -> None:
        """Get ready for one task."""
        self._initialize_with_tune_context(context)

    def _initialize_with_tune_context(self, context: TuneContext) -> None:
        pass

    @abstractmethod
    def apply(self, trace: Trace, rand_state: int) -> Trace | None:
        """The changed trace, without its postprocessing part; None where there is nothing to change.

        `rand_state` seeds what the mutator draws: the same trace and state give the same result.
        """

    def clone(self) -> Mutator:
        """An independent mutator of the same settings."""
        return copy(self)


PyMutator = Mutator
