"""What primitives on loops require of them, and what they build loops with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tscript.ir.construct import is_const_int
from tscript.ir.dtype import DataType, int_range
from tscript.ir.expr import IntImm, PrimExpr, Var
from tscript.ir.functor import pre_order_visit
from tscript.ir.stmt import For, ForKind, Stmt
from tscript.schedule.core import ScheduleCore
from tscript.schedule.errors import refuse
from tscript.schedule.rv import BlockRV, LoopRV
from tscript.schedule.sref import Mark, StmtSRef


def require_loop(s: ScheduleCore, rv: LoopRV) -> StmtSRef:
    """The loop behind a handle. ScheduleError for the mark of a sampled compute location, which is no loop."""
    sref = s.loop(rv)
    if isinstance(sref, Mark):
        refuse(f"the handle is the {sref.name} mark of sample_compute_location, not a loop", hint="give a loop")
    return sref


def require_statement(s: ScheduleCore, rv: BlockRV | LoopRV) -> StmtSRef:
    """The block or loop behind a handle. ScheduleError for the mark of a sampled compute location."""
    sref = s.block_or_loop(rv)
    if isinstance(sref, Mark):
        refuse(
            f"the handle is the {sref.name} mark of sample_compute_location, not a loop", hint="give a loop or block"
        )
    return sref


def require_plain(loop: For) -> None:
    """Refuse a loop with annotations or bound to a thread, which the new loops would lose."""
    if loop.thread_binding is not None:
        refuse(
            f"{{0}} is bound to {loop.thread_binding.thread_tag}, which would be lost",
            loop,
            hint="change the loops first, then bind them",
        )
    if loop.annotations:
        keys = ", ".join(repr(k) for k in loop.annotations)
        refuse(
            f"{{0}} has annotations, which would be lost: {keys}", loop, hint="unannotate it first, or annotate later"
        )


def require_zero_start(loop: For) -> None:
    """Refuse a loop that does not count from 0."""
    if not is_const_int(loop.min, 0):
        refuse(f"{{0}} starts at `{loop.min}`; it must count from 0", loop)


def require_only_child(outer: For, inner: For) -> None:
    """Refuse an outer loop with more in its body than `inner`."""
    if outer.body is not inner:
        refuse(
            "{0} has more in its body than {1}", outer, inner, hint="loops are changed together where they nest tightly"
        )


def uses(node: Stmt | PrimExpr, variables: Sequence[Var]) -> Var | None:
    """The first variable of `variables` met in `node`."""
    wanted = dict.fromkeys(variables)
    found: list[Var] = []

    def look(n: Any) -> bool:
        if isinstance(n, Var) and n in wanted:
            found.append(n)
        return not found

    pre_order_visit(node, look)
    return found[0] if found else None


def require_independent_range(loop: For, outer: Sequence[For]) -> None:
    """Refuse a loop whose start or extent depends on the variable of one of the loops `outer`."""
    around = [o.loop_var for o in outer]
    used = uses(loop.extent, around)
    used = uses(loop.min, around) if used is None else used
    if used is not None:
        other = next(o for o in outer if o.loop_var is used)
        refuse(f"{{0}} runs over [{loop.min}, {loop.min + loop.extent}), which depends on {{1}}", loop, other)


def require_fits(count: int, dtype: DataType, what: str, loop: For) -> None:
    """Refuse a number of iterations that the type of the loop variable does not hold."""
    if count > int_range(dtype)[1]:
        refuse(
            f"{what} has {count} iterations, more than {dtype!s} holds ({{0}})",
            loop,
            hint="write the program with int64 loops and axes",
        )


def widest(dtypes: Sequence[DataType]) -> DataType:
    """The integer type with the most bits; the first of several."""
    return max(dtypes, key=lambda t: t.bits)


def serial_nest(variables: Sequence[Var], extents: Sequence[PrimExpr], body: Stmt) -> tuple[Stmt, list[For]]:
    """`body` in new serial loops from 0, and these loops, outermost first."""
    loops: list[For] = []
    for var, extent in zip(reversed(variables), reversed(extents), strict=True):
        body = For(var, IntImm(var.dtype, 0), extent, ForKind.SERIAL, body)
        loops.append(body)
    return body, loops[::-1]
