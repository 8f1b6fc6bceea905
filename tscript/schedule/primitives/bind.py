"""Iterations as threads of a GPU."""

from __future__ import annotations

import warnings

from tscript.ir.expr import IterVar, Var
from tscript.ir.functor import pre_order_visit
from tscript.ir.stmt import For, ForKind
from tscript.ir.threads import THREADS
from tscript.schedule.core import ScheduleCore
from tscript.schedule.errors import refuse
from tscript.schedule.instruction import InstructionKind, attr, loop
from tscript.schedule.loop_checks import require_loop
from tscript.schedule.loop_kind import require_independent, set_kind
from tscript.schedule.primitive import primitive
from tscript.schedule.rv import LoopRV
from tscript.schedule.sref import StmtSRef


@primitive(InstructionKind("Bind", "bind", (loop(), attr("thread_axis"))))
def bind(s: ScheduleCore, loop: LoopRV, thread_axis: str) -> None:
    """Make the iterations of a loop threads: `threadIdx.x`, `blockIdx.y`, `vthread.x`, ...

    The axes that use it must be spatial, and no two iterations may touch the same element unless both only read it (or
    write the same values to it). Reduce axes may be bound to `threadIdx`, whose
    threads then add up together. A thread index occurs once on the way from the root to any statement. A plain
    "vthread" is taken with a DeprecationWarning: "vthread.x" says which.

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
    >>> sch.bind(i, "threadIdx.x")
    >>> print(sch.get(i))
    for i in T.thread_binding(64, thread="threadIdx.x"):
        with T.block("B"):
            v = T.axis.spatial(64, i)
            A = T.Buffer((64,))
            T.reads(A[v])
            B = T.Buffer((64,))
            T.writes(B[v])
            B[v] = A[v] * T.float32(2.0)
    """
    sref = require_loop(s, loop)
    _require_thread(thread_axis)
    _require_free(s, sref, thread_axis)
    require_independent(s, sref, f"bound to {thread_axis}", thread_axis)
    if thread_axis == "vthread":
        warnings.warn("bind to 'vthread.x', 'vthread.y' or 'vthread.z' rather than 'vthread'", DeprecationWarning, 5)
    set_kind(
        s,
        sref,
        ForKind.THREAD_BINDING,
        IterVar(None, Var("", sref.loop.loop_var.dtype), IterVar.ThreadIndex, thread_axis),
    )


def _require_thread(tag: str) -> None:
    if not isinstance(tag, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"a thread is named by a text such as 'threadIdx.x', not {tag!r}")
    if tag not in THREADS:
        refuse(
            f"there is no thread {tag!r}", hint="use threadIdx.x, .y or .z, blockIdx.x, .y or .z, vthread.x, .y or .z"
        )


def _require_free(s: ScheduleCore, loop: StmtSRef, tag: str) -> None:
    """Refuse a thread that a loop around or inside is bound to already: it would have two values at once."""
    if tag.startswith("vthread"):
        return
    around: list[For] = []
    at = loop.parent
    while at is not None:
        if isinstance(at.stmt, For):
            around.append(at.stmt)
        at = at.parent
    inside: list[For] = []
    pre_order_visit(loop.loop.body, lambda n: inside.append(n) is None if isinstance(n, For) else True)
    for other in (*around, *inside):
        if other.thread_binding is not None and other.thread_binding.thread_tag == tag:
            refuse(
                f"{{0}} cannot be bound to {tag}: {{1}}, which is around or inside it, is bound to it", loop.loop, other
            )
