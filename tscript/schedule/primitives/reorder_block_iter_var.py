"""The axes of a block in another order."""

from __future__ import annotations

from collections.abc import Sequence

from tscript.schedule.core import ScheduleCore
from tscript.schedule.errors import refuse
from tscript.schedule.instruction import Arg, InstructionKind, Role, block
from tscript.schedule.primitive import primitive
from tscript.schedule.rv import BlockRV

_KIND = InstructionKind("ReorderBlockIterVar", "reorder_block_iter_var", (block(), Arg("new_order", Role.INPUT_LIST)))


@primitive(_KIND)
def reorder_block_iter_var(s: ScheduleCore, block: BlockRV, new_order: Sequence[int]) -> None:
    """Put the axes of a block, with their bindings, in another order: the k-th becomes what `new_order[k]` was.

    >>> import tscript
    >>> from tscript.script import tir as T
    >>> @T.prim_func
    ... def copy(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32")):
    ...     for i, j in T.grid(4, 8):
    ...         with T.block("B"):
    ...             vi, vj = T.axis.remap("SS", [i, j])
    ...             B[vi, vj] = A[vi, vj]
    >>> sch = tscript.tir.Schedule(copy)
    >>> block = sch.get_block("B")
    >>> sch.reorder_block_iter_var(block, [1, 0])
    >>> print(sch.get(sch.get_loops(block)[1]))
    for j in range(8):
        i = T.int32()
        with T.block("B"):
            vj = T.axis.spatial(8, j)
            vi = T.axis.spatial(4, i)
            A = T.Buffer((4, 8))
            T.reads(A[vi, vj])
            B = T.Buffer((4, 8))
            T.writes(B[vi, vj])
            B[vi, vj] = A[vi, vj]
    """
    sref = s.block(block)
    old = sref.block
    order = [s.integer(k) for k in new_order]
    if sorted(order) != list(range(len(old.iter_vars))):
        names = ", ".join(f"{k}: {a.var.name}" for k, a in enumerate(old.iter_vars)) or "no axes"
        refuse(f"{order} is no order of the axes of {{0}}", old, hint=f"give each of these numbers once: {names}")
    realize = s.state.realize_of(sref)
    changed = realize.replace(
        iter_values=tuple(realize.iter_values[k] for k in order),
        block=old.replace(iter_vars=tuple(old.iter_vars[k] for k in order)),
    )
    s.record_as(new_order=order)
    s.state.replace(sref, changed, {old: changed.block}, "given another order of axes")
