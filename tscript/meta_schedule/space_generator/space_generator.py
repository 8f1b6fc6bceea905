"""The space generator's role: which schedules exist for a program."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from tscript.ir.function import IRModule
from tscript.meta_schedule.component import Component
from tscript.meta_schedule.mutator.mutator import Mutator
from tscript.meta_schedule.postproc.postproc import Postproc
from tscript.meta_schedule.schedule_rule.schedule_rule import ScheduleRule
from tscript.meta_schedule.tune_context import TuneContext
from tscript.schedule.schedule import Schedule


class SpaceGenerator(Component, role="space generator"):
    """Gives the schedules, with choices left open, that a search starts from.

    `sch_rules`, `postprocs` and `mutator_probs` are lists (a dict of weights for the last), words as for `create`,
    or None or "from-target" to take those of the target; after initialisation they are lists and a dict.
    """

    sch_rules: list[ScheduleRule]
    postprocs: list[Postproc]
    mutator_probs: dict[Mutator, float]

    def initialize_with_tune_context(self, context: TuneContext) -> None:
        """Get ready for one task."""
        self._initialize_with_tune_context(context)

    def _initialize_with_tune_context(self, context: TuneContext) -> None:
        pass

    @abstractmethod
    def generate_design_space(self, mod: IRModule) -> list[Schedule]:
        """The schedules that a search starts from."""

    @abstractmethod
    def clone(self) -> Any:
        """An independent generator of the same settings."""


PySpaceGenerator = SpaceGenerator
