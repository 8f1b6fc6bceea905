"""What the library knows of an operator: how to tell that a function computes it, and how to schedule it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tscript.ir.function import PrimFunc
from tscript.library.choices import Choices
from tscript.schedule.schedule import Schedule
from tscript.target.target import Target


@dataclass(frozen=True)
class Operator:
    """An operator that has a schedule of its own.

    `recognise(func)` looks at the structure of a function, never at names in it, and gives what `apply` needs to know
    of it (which block and which axis is which); None for a function that computes something else. `apply(sch, found,
    target, choices)` transforms the schedule, whose current function (`sch.work_on`) is `func`, and asks `choices` for
    what can be one way or another.
    """

    name: str
    recognise: Callable[[PrimFunc], Any]
    apply: Callable[[Schedule, Any, Target, Choices], None]


__all__ = ["Operator"]
