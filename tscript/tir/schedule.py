"""Schedules and what they are made of, under TVM's names."""

from tscript.schedule import (
    BlockRV,
    ExprRV,
    Instruction,
    InstructionKind,
    LoopRV,
    Schedule,
    ScheduleError,
    ScheduleState,
    StmtSRef,
    Trace,
)

__all__ = [
    "BlockRV", "ExprRV", "Instruction", "InstructionKind", "LoopRV", "Schedule", "ScheduleError", "ScheduleState",
    "StmtSRef", "Trace",
]  # fmt: skip
