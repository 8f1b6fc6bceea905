"""Iterations on several threads of the CPU."""

from __future__ import annotations

from tscript.ir.stmt import ForKind
from tscript.schedule.core import ScheduleCore
from tscript.schedule.instruction import InstructionKind, loop
from tscript.schedule.loop_checks import require_loop
from tscript.schedule.loop_kind import require_independent, set_kind
from tscript.schedule.primitive import primitive
from tscript.schedule.rv import LoopRV


@primitive(InstructionKind("Parallel", "parallel", (loop(),)))
def parallel(s: ScheduleCore, loop: LoopRV) -> None:
    """Run the iterations of a loop on several threads.

    The axes that use it must be spatial, and no two iterations may touch the same element unless both only read it (or
    write the same values to it). A reduction is made parallel by `rfactor` first.

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
    >>> sch.parallel(i)
    >>> print(sch.get(i))
    for i in T.parallel(64):
        with T.block("B"):
            v = T.axis.spatial(64, i)
            A = T.Buffer((64,))
            T.reads(A[v])
            B = T.Buffer((64,))
            T.writes(B[v])
            B[v] = A[v] * T.float32(2.0)
    """
    sref = require_loop(s, loop)
    require_independent(s, sref, "parallel")
    set_kind(s, sref, ForKind.PARALLEL)
