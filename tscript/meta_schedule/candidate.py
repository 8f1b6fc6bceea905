"""What is built and measured."""

from __future__ import annotations

from dataclasses import dataclass

from tscript.meta_schedule.arg_info import ArgInfo
from tscript.schedule.schedule import Schedule


@dataclass(frozen=True, eq=False)
class MeasureCandidate:
    """A finished schedule and what its entry function takes."""

    sch: Schedule
    args_info: list[ArgInfo]
