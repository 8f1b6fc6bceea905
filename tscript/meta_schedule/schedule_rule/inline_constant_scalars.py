"""Constants that sit in buffers without dimensions move to where they are used."""

from __future__ import annotations

from tscript.ir.stmt import Block
from tscript.meta_schedule.schedule_rule.schedule_rule import ScheduleRule
from tscript.schedule.errors import ScheduleError
from tscript.schedule.rv import BlockRV
from tscript.schedule.schedule import Schedule


class InlineConstantScalars(ScheduleRule):
    """Inlines a block that reads nothing and writes a buffer without dimensions into its consumers."""

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        """The schedule with the constant inlined, or as it was."""
        stmt = sch.get(block)
        assert isinstance(stmt, Block)
        is_constant = not stmt.reads and len(stmt.writes) == 1 and not stmt.writes[0].buffer.shape
        if is_constant and sch.get_consumers(block):
            try:
                sch.compute_inline(block)
            except ScheduleError:
                pass  # an output, or more than a value
        return [sch]
