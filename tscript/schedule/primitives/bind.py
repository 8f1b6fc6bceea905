"""Iterations as threads of a GPU."""

from __future__ import annotations

import warnings

from tscript.ir.expr import IntImm, IterVar, Var
from tscript.ir.functor import pre_order_visit
from tscript.ir.occurrences import mentions
from tscript.ir.stmt import Block, For, ForKind
from tscript.ir.threads import THREADS
from tscript.schedule.core import ScheduleCore
from tscript.schedule.errors import refuse
from tscript.schedule.instruction import InstructionKind, attr, loop
from tscript.schedule.loop_checks import require_loop
from tscript.schedule.loop_kind import is_private, require_independent, set_kind
from tscript.schedule.primitive import primitive
from tscript.schedule.rv import LoopRV
from tscript.schedule.sref import StmtSRef
from tscript.schedule.state import ScheduleState


@primitive(InstructionKind("Bind", "bind", (loop(), attr("thread_axis"))))
def bind(s: ScheduleCore, loop: LoopRV, thread_axis: str) -> None:
    """Make the iterations of a loop threads: `threadIdx.x`, `blockIdx.y`, `vthread.x`, ...

    The axes that use it must be spatial, and no two iterations may touch the same element unless both only read it (or
    write the same values to it). Reduce axes may be bound to `threadIdx`, whose
    threads then add up together. A thread index occurs once on the way from the root to any statement; a `threadIdx`
    may occur again inside, where threads do together what each of them would do alike: fill memory that all of them
    see. A plain "vthread" is taken with a DeprecationWarning: "vthread.x" says which.

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
    """Refuse a thread that a loop around or inside is bound to already, unless the two can share out the work."""
    if tag.startswith("vthread"):
        return
    around: list[StmtSRef] = []
    at = loop.parent
    while at is not None:
        if isinstance(at.stmt, For):
            around.append(at)
        at = at.parent
    inside: list[StmtSRef] = []

    def look(n: object) -> bool:
        if isinstance(n, For) and n in s.state.stmt2ref:
            inside.append(s.state.stmt2ref[n])
        return True

    pre_order_visit(loop.loop.body, look)
    for other in (*around, *inside):
        thread = other.loop.thread_binding
        if thread is None or thread.thread_tag != tag:
            continue
        outer, inner = (other, loop) if other in around else (loop, other)
        reason = _why_not_shared(s.state, outer, inner, tag)
        if reason:
            refuse(
                f"{{0}} cannot be bound to {tag}: {{1}}, which is around or inside it, is bound to it, and {reason}",
                loop.loop,
                other.loop,
                hint="bind it to another thread, or let the inner loop fill memory that all threads see",
            )


def _why_not_shared(state: ScheduleState, outer: StmtSRef, inner: StmtSRef, tag: str) -> str:
    """Why the threads of `outer` cannot do what is below `inner` together, an iteration each; "" if they can.

    They can where each of them would do all of it and the same, to memory that all of them see.
    """
    if not tag.startswith("threadIdx."):
        return "groups of threads do not wait for each other"
    if not all(isinstance(r.loop.extent, IntImm) for r in (outer, inner)) or outer.loop.extent is not inner.loop.extent:
        return f"they do not count alike: {outer.loop.extent} and {inner.loop.extent} iterations"
    dependent: dict[Var, None] = {outer.loop.loop_var: None}
    at = inner.parent
    between: list[StmtSRef] = []
    while at is not None and at is not outer:
        between.append(at)
        at = at.parent
    for r in reversed(between):
        if isinstance(r.stmt, Block):
            realize = state.realize_of(r)
            for axis, value in zip(realize.block.iter_vars, realize.iter_values, strict=True):
                if mentions(value, dependent):
                    dependent[axis.var] = None
        elif mentions(r.loop.min, dependent) or mentions(r.loop.extent, dependent):
            dependent[r.loop.loop_var] = None
    if mentions(inner.loop, dependent):
        return f"what is inside depends on loop `{outer.loop.loop_var.name}`"
    for block in state.blocks_below(inner):
        for region in (*block.block.writes, *block.block.reads):
            if is_private(region.buffer, tag):
                return f"each thread has a `{region.buffer.name}` of its own"
    return ""
