"""Iterations as lanes of a vector."""

from __future__ import annotations

from tscript.ir.stmt import ForKind
from tscript.schedule.core import ScheduleCore
from tscript.schedule.instruction import InstructionKind, loop
from tscript.schedule.loop_checks import require_loop
from tscript.schedule.loop_kind import require_independent, set_kind
from tscript.schedule.primitive import primitive
from tscript.schedule.rv import LoopRV


@primitive(InstructionKind("Vectorize", "vectorize", (loop(),)))
def vectorize(s: ScheduleCore, loop: LoopRV) -> None:
    """Run the iterations of a loop as lanes of vectors.

    The axes that use it must be spatial, and no two iterations may touch the same element unless both only read it (or
    write the same values to it). `split` gives an inner loop of the wanted number of lanes.

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
    >>> sch.vectorize(i)
    >>> print(sch.get(i))
    for i in T.vectorized(64):
        with T.block("B"):
            v = T.axis.spatial(64, i)
            A = T.Buffer((64,))
            T.reads(A[v])
            B = T.Buffer((64,))
            T.writes(B[v])
            B[v] = A[v] * T.float32(2.0)
    """
    sref = require_loop(s, loop)
    require_independent(s, sref, "vectorized")
    set_kind(s, sref, ForKind.VECTORIZED)
