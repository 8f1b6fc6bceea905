"""Blocks whose author names the rule for them."""

from __future__ import annotations

import logging
from typing import Any

from tscript.ir.expr import StringImm
from tscript.ir.stmt import Block
from tscript.meta_schedule.schedule_rule.schedule_rule import ScheduleRule
from tscript.meta_schedule.tune_context import TuneContext
from tscript.runtime.registry import get_global_func
from tscript.schedule.rv import BlockRV
from tscript.schedule.schedule import Schedule
from tscript.support.errors import TuneError
from tscript.support.wording import kind_of


class ApplyCustomRule(ScheduleRule):
    """Applies the function that a block's annotation `schedule_rule` names.

    For the annotation `"tile"` the function registered (`register_func`) as `meta_schedule.<key>.tile` is looked up,
    for each key of the target in order, and called with the schedule and the block; it returns a schedule, a list of
    them, or None when it changed its argument. The word "None" keeps all rules away from the block. Where no such
    function exists, a warning says which were looked for, and the other rules have the block.
    """

    def __init__(self) -> None:
        self._keys: tuple[str, ...] = ()
        self._logger = logging.getLogger("tscript.meta_schedule")

    def _initialize_with_tune_context(self, context: TuneContext) -> None:
        if context.target is None:
            raise ValueError("a context without a target cannot apply custom rules: their names begin with its keys")
        self._keys = tuple(context.target.keys)
        self._logger = context.logger

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        """What the named function gives."""
        stmt = sch.get(block)
        assert isinstance(stmt, Block)
        named = stmt.annotations.get("schedule_rule")
        if named is None:
            return [sch]
        name = named.value if isinstance(named, StringImm) else str(named)
        if name == "None":
            return [sch]
        tried = [f"meta_schedule.{key}.{name}" for key in self._keys]
        for full in tried:
            function = get_global_func(full, allow_missing=True)
            if function is not None:
                return _schedules(function(sch, block), sch, full)
        self._logger.warning(
            "no function is registered as %s, which block %s names; the other rules schedule it",
            " or ".join(tried), stmt.name_hint,
        )  # fmt: skip
        sch.unannotate(block, "schedule_rule")
        return [sch]


def _schedules(made: Any, sch: Schedule, name: str) -> list[Schedule]:
    if made is None:
        return [sch]
    if isinstance(made, Schedule):
        return [made]
    made = list(made)
    for s in made:
        if not isinstance(s, Schedule):
            raise TuneError(f"{name} returns schedules, not {kind_of(s)}")
    return made
