"""Where post-processing begins."""

from __future__ import annotations

from tscript.schedule.core import ScheduleCore
from tscript.schedule.instruction import InstructionKind
from tscript.schedule.primitive import primitive


@primitive(InstructionKind("EnterPostproc", "enter_postproc", (), is_postproc=True))
def enter_postproc(s: ScheduleCore) -> None:
    """Mark the place in the trace from which steps belong to post-processing; the program stays as it is.

    `Trace.as_python(remove_postproc=True)` and its kin stop there.

    >>> import tscript
    >>> from tscript.testing.workloads import rms_norm
    >>> sch = tscript.tir.Schedule(rms_norm(4, 6).func)
    >>> i, k = sch.get_loops("square")
    >>> sch.enter_postproc()
    >>> sch.unroll(k)
    >>> [line for line in sch.trace.as_python(remove_postproc=True) if "unroll" in line]
    []
    """
    del s
