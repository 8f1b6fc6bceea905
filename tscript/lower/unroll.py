"""Unrolled loops become copies of their bodies, up to a limit."""

from __future__ import annotations

from typing import Any, Final

from tscript.ir.construct import const
from tscript.ir.expr import Call, IntImm, Op
from tscript.ir.function import PrimFunc
from tscript.ir.functor import Rewriter, post_order_visit
from tscript.ir.stmt import BufferStore, Evaluate, For, ForKind, Stmt, seq
from tscript.lower.copies import Copy
from tscript.support.errors import LoweringError

MAX_EXTENT: Final = 1 << 16
"""A larger loop marked for unrolling is refused: its code could not be held, let alone run fast."""
MAX_STEPS: Final = 512
"""Copies are made up to so many stores; beyond, the loop stays, and LLVM decides."""


def unroll_loops(func: PrimFunc) -> PrimFunc:
    """Replace loops marked for unrolling by copies of their bodies.

    Raises LoweringError for a loop too long to be unrolled.
    """
    return func.replace(body=_Unroll().rewrite(func.body))


class _Unroll(Rewriter):
    def rewrite_For(self, loop: For) -> Any:
        loop = self.rewrite_children(loop)
        if loop.kind != ForKind.UNROLLED:
            return loop
        serial = loop.replace(kind=ForKind.SERIAL)
        if not isinstance(loop.extent, IntImm) or not isinstance(loop.min, IntImm):
            return serial
        count, start = loop.extent.value, loop.min.value
        if count > MAX_EXTENT:
            where = f" ({loop.span})" if loop.span else ""
            factor = next(f for f in (16, 8, 4, 2, 1) if count % f == 0)
            advice = f"split it and unroll an inner part, for example of {factor if factor > 1 else 16} iterations"
            raise LoweringError(
                f"the loop over {loop.loop_var.name} has {count} iterations, too many to unroll{where}\n  try: {advice}"
            )
        if count == 0 or count * steps_of(loop.body) > MAX_STEPS:
            return serial
        copies = [
            Copy({loop.loop_var: const(start + i, loop.loop_var.dtype)}, fresh=i > 0).rewrite(loop.body)
            for i in range(count)
        ]
        return seq(*copies)


def steps_of(body: Stmt) -> int:
    """How much code `body` is: its stores and calls, and more for each loop that stays."""
    total = 0

    def visit(node: object) -> None:
        nonlocal total
        if isinstance(node, (BufferStore, Evaluate)):
            total += 1
        elif isinstance(node, For):
            # A short vectorised loop is a statement or two.
            is_vector = node.kind == ForKind.VECTORIZED and isinstance(node.extent, IntImm) and node.extent.value <= 64
            total += 1 if is_vector else 16
        elif isinstance(node, Call) and isinstance(node.op, Op) and node.op.name == "tir.ret":
            total += 1

    post_order_visit(body, visit)
    return max(total, 1)
