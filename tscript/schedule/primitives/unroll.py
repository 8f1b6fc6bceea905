"""Iterations written out."""

from __future__ import annotations

from tscript.ir.stmt import ForKind
from tscript.schedule.core import ScheduleCore
from tscript.schedule.instruction import InstructionKind, loop
from tscript.schedule.loop_checks import require_loop
from tscript.schedule.loop_kind import set_kind
from tscript.schedule.primitive import primitive
from tscript.schedule.rv import LoopRV


@primitive(InstructionKind("Unroll", "unroll", (loop(),)))
def unroll(s: ScheduleCore, loop: LoopRV) -> None:
    """Write the iterations of a loop out. Any loop may be; the compiler leaves one of unknown extent as it is.

    >>> import tscript
    >>> from tscript.script import tir as T
    >>> @T.prim_func
    ... def twice(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    ...     for i in range(64):
    ...         with T.block("B"):
    ...             v = T.axis.spatial(64, i)
    ...             B[v] = A[v] * T.float32(2)
    >>> sch = tscript.tir.Schedule(twice)
    >>> (i,) = sch.get_loops("B")
    >>> sch.unroll(i)
    >>> print(sch.get(i))
    for i in T.unroll(64):
        with T.block("B"):
            v = T.axis.spatial(64, i)
            A = T.Buffer((64,))
            T.reads(A[v])
            B = T.Buffer((64,))
            T.writes(B[v])
            B[v] = A[v] * T.float32(2.0)
    """
    set_kind(s, require_loop(s, loop), ForKind.UNROLLED)
