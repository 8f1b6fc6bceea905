"""The blocks and loops of a function, as schedules of the library look at them."""

from __future__ import annotations

from tscript.ir.expr import IntImm, IterVar, PrimExpr
from tscript.ir.stmt import Block, For
from tscript.schedule.rv import BlockRV, LoopRV
from tscript.schedule.schedule import Schedule


def leaves(sch: Schedule) -> list[BlockRV]:
    """The blocks of the current function that compute: those that have no block inside, in the order of the text."""
    found: list[BlockRV] = []
    _, root = sch.function_root(None)
    waiting = [sch.get_block(root.block.name_hint)]
    while waiting:
        block = waiting.pop()
        inner = sch.get_child_blocks(block)
        if inner:
            waiting.extend(reversed(inner))
        else:
            found.append(block)
    return found


def stmt_of(sch: Schedule, block: BlockRV) -> Block:
    """The statement that a handle of a block stands for."""
    stmt = sch.get(block)
    assert isinstance(stmt, Block)
    return stmt


def loop_stmt(sch: Schedule, loop: LoopRV) -> For:
    """The statement that a handle of a loop stands for."""
    stmt = sch.get(loop)
    assert isinstance(stmt, For)
    return stmt


def extent(sch: Schedule, loop: LoopRV) -> int | None:
    """How many iterations a loop has; None where that is not known before it runs."""
    return constant(loop_stmt(sch, loop).extent)


def constant(e: PrimExpr) -> int | None:
    """The value of an expression that is a number; None for others."""
    return e.value if isinstance(e, IntImm) else None


def kinds(block: Block) -> str:
    """A letter for each axis of a block: S(patial), R(educe), or O for any other."""
    letters = {IterVar.DataPar: "S", IterVar.CommReduce: "R"}
    return "".join(letters.get(v.iter_type, "O") for v in block.iter_vars)
