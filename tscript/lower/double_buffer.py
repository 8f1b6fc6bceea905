"""Double buffers: memory of a loop that is filled for the next iteration while this one uses it.

Before: blocks have no axes and views, and the attribute `double_buffer_scope` of a pointer stands around the statement
that fills its memory, which the loop around it allocates. After: the memory exists twice, the first filling stands
before the loop, and fillings have the attribute `double_buffer_write`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from tscript.ir.buffer import Buffer
from tscript.ir.expr import IntImm, Var
from tscript.ir.function import PrimFunc
from tscript.ir.functor import Rewriter, post_order_visit
from tscript.ir.occurrences import any_below
from tscript.ir.stmt import AttrStmt, For, ForKind, Stmt
from tscript.lower.loop_body import DOUBLE_BUFFER, open_body
from tscript.lower.memories import Memories
from tscript.lower.overlap import Part, overlapped
from tscript.support.errors import LoweringError

WRITE: Final = "double_buffer_write"
"""The attribute around a statement that fills the half of the memory that nobody reads meanwhile."""


def double_buffers(func: PrimFunc) -> PrimFunc:
    """Fill the memory that `double_buffer_scope` names for the next iteration while this one runs.

    Raises LoweringError where the memory is not one of a serial loop around, or filling it early would change what is
    computed.
    """
    if not any_below(func.body, _is_wish):
        return func
    return func.replace(body=_DoubleBuffers(Memories(func)).rewrite(func.body))


def _is_wish(n: object) -> bool:
    return isinstance(n, AttrStmt) and n.attr_key == DOUBLE_BUFFER


class _DoubleBuffers(Rewriter):
    memoize = False

    def __init__(self, memories: Memories) -> None:
        super().__init__()
        self._memories = memories
        # Memory of loops around that is filled early.
        self._doubled: dict[Var, None] = {}
        # Memory of such loops that is filled in its turn after all, since parameters may overlap.
        self._single: dict[Var, None] = {}

    def rewrite_For(self, loop: For) -> Any:
        body = open_body(loop.body)
        wishes = [_wished(s, body.memory) for s in body.seq]
        if not any(wishes):
            return self.rewrite_children(loop)
        if loop.kind not in (ForKind.SERIAL, ForKind.UNROLLED):
            name = next(b.name for found in wishes for b in found)
            raise _refusal(name, loop, f"the loop over {loop.loop_var.name} is a {ForKind.NAMES[loop.kind]} one")
        self._doubled.update((b.data, None) for found in wishes for b in found)
        parts = [
            Part(self.rewrite(s), 0 if found else 1, n, f"statement {n}" + (" (the filling)" if found else ""))
            for n, (s, found) in enumerate(zip(body.seq, wishes, strict=True))
        ]
        # A filling comes first: what this iteration reads is the other half.
        first = sorted(parts, key=lambda p: (p.stage, p.order))
        parts = [Part(p.stmt, p.stage, first.index(p), p.name) for p in parts]
        result = overlapped(loop, body, parts, self._memories, {b: 2 for found in wishes for b in found})
        if result is not None:
            return result
        self._single.update((b.data, None) for found in wishes for b in found)
        return self.rewrite_children(loop)

    def rewrite_AttrStmt(self, s: AttrStmt) -> Any:
        if not _is_wish(s):
            return self.rewrite_children(s)
        if s.node in self._single or (isinstance(s.value, IntImm) and not s.value.value):
            return self.rewrite(s.body)
        if s.node in self._doubled:
            return s.replace(attr_key=WRITE, body=self.rewrite(s.body))
        name = s.node.name if isinstance(s.node, Var) else str(s.node)
        raise _refusal(name, s, "no loop around has it as memory of its own, and this as a statement of its body")


def _wished(s: Stmt, memory: Sequence[Buffer]) -> list[Buffer]:
    """The buffers of `memory` that `s` is to fill for the next iteration."""
    found: dict[Any, None] = {}

    def visit(node: object) -> None:
        if isinstance(node, AttrStmt) and _is_wish(node) and getattr(node.value, "value", 1):
            found[node.node] = None

    post_order_visit(s, visit)
    return [b for b in memory if b.data in found]


def _refusal(name: str, at: Stmt, what: str) -> LoweringError:
    where = f" ({at.span})" if at.span else ""
    return LoweringError(
        f"{name} cannot be filled while it is used: {what}{where}\n"
        f"  try: allocate it in the body of a serial loop, next to what fills it"
    )


__all__ = ["WRITE", "double_buffers"]
