"""Where post-processing begins."""

from __future__ import annotations

from tscript.schedule.core import ScheduleCore
from tscript.schedule.instruction import InstructionKind
from tscript.schedule.primitive import primitive


@primitive(InstructionKind("EnterPostproc", "enter_postproc", (), is_postproc=True))
def enter_postproc(s: ScheduleCore) -> None:
    """Mark the place in the trace from which steps belong to post-processing; the program stays as it is.

    `Trace.as_python(remove_postproc=True)` and its kin stop there.
    """
    del s
