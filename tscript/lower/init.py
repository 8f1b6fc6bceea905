"""The init of a reduction block moves into its body, under the condition that a reduction starts."""

from __future__ import annotations

from tscript.ir.construct import and_
from tscript.ir.empty_reductions import with_empty_inits
from tscript.ir.expr import EQ, IterVar, PrimExpr
from tscript.ir.function import PrimFunc
from tscript.ir.functor import Rewriter
from tscript.ir.stmt import Block, IfThenElse, seq


def lower_init(func: PrimFunc) -> PrimFunc:
    """Run each init where all reduction axes of its block are at their minimum, and where one of them has no values."""
    return func.replace(body=_LowerInit().rewrite(with_empty_inits(func).body))


class _LowerInit(Rewriter):
    def leave_Block(self, block: Block) -> Block:
        if block.init is None:
            return block
        condition: PrimExpr | None = None
        for axis in block.iter_vars:
            if axis.iter_type == IterVar.CommReduce and axis.dom is not None:
                at_start = EQ(axis.var, axis.dom.min)
                condition = at_start if condition is None else and_(condition, at_start)
        init = block.init if condition is None else IfThenElse(condition, block.init)
        return block.replace(init=None, body=seq(init, block.body))
