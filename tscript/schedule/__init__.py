"""Schedules: programs transformed by checked, recorded steps."""

from __future__ import annotations

from tscript.schedule.errors import ScheduleError
from tscript.schedule.instruction import Instruction, InstructionKind
from tscript.schedule.rv import BlockRV, ExprRV, LoopRV
from tscript.schedule.schedule import Schedule
from tscript.schedule.sref import StmtSRef
from tscript.schedule.state import ScheduleState
from tscript.schedule.trace import Trace

__all__ = [
    "BlockRV",
    "ExprRV",
    "Instruction",
    "InstructionKind",
    "LoopRV",
    "Schedule",
    "ScheduleError",
    "ScheduleState",
    "StmtSRef",
    "Trace",
]
