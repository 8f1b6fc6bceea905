"""Block axes are replaced by the values they are bound to."""

from __future__ import annotations

from typing import Any

from tscript.ir.construct import cast
from tscript.ir.expr import IterVar, PrimExpr, Var
from tscript.ir.function import PrimFunc
from tscript.ir.functor import Rewriter, substitute
from tscript.ir.occurrences import reads_memory
from tscript.ir.stmt import Block, BlockRealize, LetStmt, Stmt


def bind_axes(func: PrimFunc) -> PrimFunc:
    """Make every block opaque: one without axes."""
    return func.replace(body=_BindAxes().rewrite(func.body))


class _BindAxes(Rewriter):
    def rewrite_BlockRealize(self, realize: BlockRealize) -> Any:
        block = realize.block
        values: dict[Var, PrimExpr] = {}
        lets: list[tuple[Var, PrimExpr]] = []
        for axis, value in zip(block.iter_vars, realize.iter_values, strict=True):
            typed = cast(value, axis.var.dtype)
            if reads_memory(typed):
                # The axis keeps the value it has when the block starts, whatever is stored later.
                fresh = axis.var.copy_with()
                lets.append((fresh, typed))
                values[axis.var] = fresh
            else:
                values[axis.var] = typed
        empty: tuple[IterVar, ...] = ()
        opaque: Block = substitute(block.replace(iter_vars=empty), values)
        inner: Stmt = BlockRealize((), realize.predicate, self.rewrite_children(opaque), span=realize.span)
        for var, value in reversed(lets):
            inner = LetStmt(var, value, inner)
        return inner
