"""A space that a function of the user describes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tscript.ir.function import IRModule
from tscript.meta_schedule.space_generator.defaults import MutatorProbs, Postprocs, Rules, SpaceOfParts
from tscript.schedule.schedule import Schedule
from tscript.support.errors import TuneError
from tscript.support.wording import kind_of


class ScheduleFn(SpaceOfParts):
    """The space of what `sch_fn(sch)` makes of a fresh schedule; the samplings that it records are the choices.

    `sch_fn` changes its argument, or returns a schedule or several. Raises TuneError when it returns anything else.
    """

    def __init__(
        self,
        sch_fn: Callable[[Schedule], Any],
        sch_rules: Rules = "from-target",
        postprocs: Postprocs = "from-target",
        mutator_probs: MutatorProbs = "from-target",
    ) -> None:
        if not callable(sch_fn):  # pyright: ignore[reportUnnecessaryComparison]
            raise TypeError(f"sch_fn is a function of a schedule, not {kind_of(sch_fn)}")
        super().__init__(sch_rules, postprocs, mutator_probs)
        self.sch_fn = sch_fn

    def _initialize_with_tune_context(self, context: Any) -> None:
        super()._initialize_with_tune_context(context)
        self._rng = context.rng

    def generate_design_space(self, mod: IRModule) -> list[Schedule]:
        """The schedules that the function makes."""
        sch = Schedule(mod, seed=self._rng.fork() or 1)
        made: Any = self.sch_fn(sch)
        if made is None:
            return [sch]
        schedules: list[Any] = list(made) if isinstance(made, (list, tuple)) else [made]  # pyright: ignore[reportUnknownArgumentType]
        if all(isinstance(s, Schedule) for s in schedules):
            return schedules
        raise TuneError(
            f"a schedule function returns None, a Schedule or a list of them; "
            f"{getattr(self.sch_fn, '__name__', 'it')} returned {kind_of(schedules[0])}"
        )

    def clone(self) -> ScheduleFn:
        """An independent generator of the same function."""
        return ScheduleFn(self.sch_fn, **self.settings())
