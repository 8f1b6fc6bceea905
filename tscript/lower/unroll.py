"""Unrolled loops become copies of their bodies, up to a limit."""

from __future__ import annotations

from typing import Any, Final

from tscript.ir.construct import const
from tscript.ir.expr import Call, IntImm, Op
from tscript.ir.function import PrimFunc
from tscript.ir.functor import Rewriter, post_order_visit
from tscript.ir.occurrences import any_below
from tscript.ir.stmt import BufferStore, Evaluate, For, ForKind, Stmt, While, seq
from tscript.lower.copies import Copy
from tscript.support.errors import LoweringError

MAX_EXTENT: Final = 1 << 16
"""A larger loop marked for unrolling is refused: its code could not be held, let alone run fast."""
MAX_STEPS: Final = 512
"""Copies are made up to so many stores; beyond, the loop stays, and LLVM decides."""


def unroll_loops(func: PrimFunc) -> PrimFunc:
    """Replace loops marked for unrolling by copies of their bodies.

    Below a loop annotated with `pragma_auto_unroll_max_step`, and that loop too, innermost serial loops that make no
    more steps than it says are unrolled as well, and loops around these as long as they stay below; not where
    `pragma_unroll_explicit` is 0, which leaves it to LLVM.

    Raises LoweringError for a loop too long to be unrolled.
    """
    return func.replace(body=_Unroll().rewrite(func.body))


class _Unroll(Rewriter):
    # What becomes of a loop depends on the annotations around it.
    memoize = False

    def __init__(self) -> None:
        super().__init__()
        self._most_steps: int = 0
        self._is_explicit: bool = True

    def rewrite_For(self, loop: For) -> Any:
        outer = self._most_steps, self._is_explicit
        self._most_steps = _number(loop, "pragma_auto_unroll_max_step", outer[0])
        self._is_explicit = bool(_number(loop, "pragma_unroll_explicit", int(outer[1])))
        try:
            loop = self.rewrite_children(loop)
            if loop.kind == ForKind.SERIAL and self._is_small(loop):
                return self._unrolled(loop)
        finally:
            self._most_steps, self._is_explicit = outer
        return loop if loop.kind != ForKind.UNROLLED else self._unrolled(loop)

    def _is_small(self, loop: For) -> bool:
        if not self._is_explicit or not self._most_steps or not isinstance(loop.extent, IntImm):
            return False
        # A loop that stayed counts for more steps than one that becomes a vector.
        has_loop = any_below(loop.body, lambda n: isinstance(n, While) or (isinstance(n, For) and not _is_vector(n)))
        return not has_loop and loop.extent.value * steps_of(loop.body) <= min(self._most_steps, MAX_STEPS)

    @staticmethod
    def _unrolled(loop: For) -> Stmt:
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
            total += 1 if _is_vector(node) else 16
        elif isinstance(node, Call) and isinstance(node.op, Op) and node.op.name == "tir.ret":
            total += 1

    post_order_visit(body, visit)
    return max(total, 1)


def _is_vector(loop: For) -> bool:
    """Whether the loop is short, and vectorised: a statement or two."""
    return loop.kind == ForKind.VECTORIZED and isinstance(loop.extent, IntImm) and loop.extent.value <= 64


def _number(loop: For, key: str, default: int) -> int:
    value: object = loop.annotations.get(key)
    if isinstance(value, IntImm):
        return int(value.value)
    return int(value) if isinstance(value, int) else default
