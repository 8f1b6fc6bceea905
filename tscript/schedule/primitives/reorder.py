"""Loops in another order."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from tscript.ir.expr import IterVar
from tscript.ir.stmt import Stmt
from tscript.schedule.checks import affine_binding
from tscript.schedule.conflicts import find_exchange_conflict
from tscript.schedule.core import ScheduleCore
from tscript.schedule.errors import literal, refuse
from tscript.schedule.instruction import Arg, InstructionKind, Role
from tscript.schedule.loop_checks import require_independent_range, require_loop, require_only_child
from tscript.schedule.primitive import primitive
from tscript.schedule.rv import LoopRV
from tscript.schedule.sref import StmtSRef


@primitive(InstructionKind("Reorder", "reorder", (Arg("loops", Role.INPUTS, keyword=False),)))
def reorder(s: ScheduleCore, *loops: LoopRV) -> None:
    """Put loops of one nest in the given order, outermost first; loops between them that are not given stay.

    The nest must be tight from the outermost to the innermost of them; below it, axes must be spatial or reduce, and
    bound to an affine map of the loops; no range may come to depend on a loop further in. Refused too is
    an order that would change which of two accesses to the same element comes first. Kinds, threads and annotations
    go along with their loops.

    >>> import tscript
    >>> from tscript.script import tir as T
    >>> @T.prim_func
    ... def turn(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32")):
    ...     for i, j in T.grid(4, 8):
    ...         with T.block("B"):
    ...             vi, vj = T.axis.remap("SS", [i, j])
    ...             B[vi, vj] = A[vi, vj]
    >>> sch = tscript.tir.Schedule(turn)
    >>> i, j = sch.get_loops("B")
    >>> sch.reorder(j, i)
    >>> print(sch.get(j))
    for j, i in T.grid(8, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            A = T.Buffer((4, 8))
            T.reads(A[vi, vj])
            B = T.Buffer((4, 8))
            T.writes(B[vi, vj])
            B[vi, vj] = A[vi, vj]
    """
    srefs = [require_loop(s, rv) for rv in loops]
    for k, sref in enumerate(srefs):
        if any(sref is other for other in srefs[:k]):
            refuse("{0} is given more than once", sref.loop)
    if len(srefs) < 2:
        return
    chain = _require_chain(s, srefs)
    given = iter(srefs)
    moved = dict.fromkeys(srefs)
    order = [next(given) if sref in moved else sref for sref in chain]
    for k, sref in enumerate(order):
        require_independent_range(sref.loop, [later.loop for later in order[k + 1 :]])
    if s.enable_check:
        _require_blocks(s, chain[0])
    if all(a is b for a, b in zip(chain, order, strict=True)):
        return
    if s.enable_check:
        _require_same_dependences(s, chain, order)
    body: Stmt = chain[-1].loop.body
    for sref in reversed(order):
        body = sref.loop.replace(body=body)
    s.state.replace(chain[0], body, {}, "reordered")


def _require_chain(s: ScheduleCore, srefs: Sequence[StmtSRef]) -> list[StmtSRef]:
    """The loops from the outermost to the innermost of `srefs`; refused unless they nest tightly."""
    lines = [[*s.state.loops_of(r), r] for r in srefs]
    longest = max(lines, key=len)
    for r in srefs:
        if not any(r is other for other in longest):
            refuse("{0} and {1} do not lie on one chain of loops in one block", longest[-1].loop, r.loop)
    first = min(k for k, r in enumerate(longest) if any(r is other for other in srefs))
    chain = longest[first:]
    for outer, inner in pairwise(chain):
        require_only_child(outer.loop, inner.loop)
    return chain


def _require_blocks(s: ScheduleCore, top: StmtSRef) -> None:
    for child in s.state.child_blocks(top):
        for axis in child.block.iter_vars:
            if axis.iter_type not in (IterVar.DataPar, IterVar.CommReduce):
                refuse(
                    f"axis `{axis.var.name}` of {{0}} is neither spatial nor reduce, so the order of {{1}} matters",
                    child.block,
                    top.loop,
                )
        if not affine_binding(s.state, child, top):
            refuse("{0} is not bound to an affine map of the loops from {1} inwards", child.block, top.loop)


def _require_same_dependences(s: ScheduleCore, chain: Sequence[StmtSRef], order: Sequence[StmtSRef]) -> None:
    """Refuse an order in which iterations that touch the same element would change places."""
    found = find_exchange_conflict(s.state, chain, order)
    if found is not None:
        outer, inner, conflict = found
        turned = "; the new order would run them the other way round" if conflict.is_certain else ""
        refuse(
            f"{{0}} cannot go inside {{1}}: {literal(conflict.explain())}{turned}",
            outer.loop,
            inner.loop,
            *dict.fromkeys(b for b in (conflict.write.block, conflict.other.block) if b is not None),
            hint="keep the order of these two loops",
        )
