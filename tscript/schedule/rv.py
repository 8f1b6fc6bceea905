"""Handles that users hold: of blocks, of loops, and numbers that are sampled."""

from __future__ import annotations

from tscript.ir.expr import Var


class BlockRV:
    """A block of a schedule, whatever form it takes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"tir.BlockRV({id(self):#x})"


class LoopRV:
    """A loop of a schedule, whatever form it takes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"tir.LoopRV({id(self):#x})"


ExprRV = Var
"""An integer of a schedule, sampled or computed; it takes part in arithmetic like any variable."""

RV = BlockRV | LoopRV | Var


def new_expr_rv() -> Var:
    """A fresh integer handle."""
    return Var("v", "int32")
