"""What loops of a schedule serve: spatial axes, axes that are reduced over, or both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tscript.ir.expr import IntImm, IterVar
from tscript.ir.functor import post_order_visit
from tscript.ir.occurrences import variables
from tscript.ir.stmt import Block, For, ForKind, SeqStmt
from tscript.schedule.rv import BlockRV, LoopRV
from tscript.schedule.schedule import Schedule
from tscript.schedule.sref import StmtSRef
from tscript.schedule.state import ScheduleState


def block_of(sch: Schedule, block: BlockRV) -> Block:
    """The block that a handle stands for."""
    stmt = sch.get(block)
    assert isinstance(stmt, Block)
    return stmt


def loop_of(sch: Schedule, loop: LoopRV) -> For:
    """The loop that a handle stands for."""
    stmt = sch.get(loop)
    assert isinstance(stmt, For)
    return stmt


def loop_kind(state: ScheduleState, loop: StmtSRef) -> str:
    """What a loop serves in the blocks below it: S for spatial axes only, R for axes that are reduced over, O for any
    else.
    """
    letters: set[str] = set()
    var = loop.loop.loop_var
    for block in state.child_blocks(loop):
        realize = state.realize_of(block)
        for axis, value in zip(realize.block.iter_vars, realize.iter_values, strict=True):
            if var in variables(value):
                letters.add(_LETTERS.get(axis.iter_type, "O"))
    if not letters:
        return "S"
    return letters.pop() if len(letters) == 1 else "O"


_LETTERS = {IterVar.DataPar: "S", IterVar.CommReduce: "R"}


def extent_of(loop: For) -> int | None:
    """The extent of a loop, if it is constant."""
    return loop.extent.value if isinstance(loop.extent, IntImm) else None


def is_plain(loop: For) -> bool:
    """Whether a loop is serial, without annotations and of constant extent, so that it may become anything."""
    return loop.kind == ForKind.SERIAL and not loop.annotations and extent_of(loop) is not None


def has_one_child(loop: For) -> bool:
    """Whether the body of a loop is one statement."""
    return not isinstance(loop.body, SeqStmt)


def is_spatial(block: Block) -> bool:
    """Whether a block and all below it have spatial axes only."""
    found = True

    def look(node: object) -> None:
        nonlocal found
        if isinstance(node, Block):
            found = found and all(v.iter_type == IterVar.DataPar for v in node.iter_vars)

    look(block)
    post_order_visit(block.body, look)
    return found


@dataclass(frozen=True)
class Nest:
    """The loops around a block, from the outside in, as they are now: each with what it serves."""

    loops: Sequence[For]
    kinds: str

    @staticmethod
    def around(sch: Schedule, block: BlockRV) -> Nest:
        """The loops around a block."""
        return Nest.of(sch.state, sch.get_sref(block))

    @staticmethod
    def of(state: ScheduleState, block: StmtSRef) -> Nest:
        """The loops around a block, by its place."""
        srefs = state.loops_of(block)
        return Nest([s.loop for s in srefs], "".join(loop_kind(state, s) for s in srefs))

    def count_parallel(self, limit: int) -> tuple[int, int]:
        """How many leading loops run in parallel: plain spatial ones, up to and with the one whose iterations exceed
        `limit`, or which has several children. And the product of their extents.
        """
        count, product = 0, 1
        for loop, kind in zip(self.loops, self.kinds, strict=True):
            if kind != "S" or not is_plain(loop):
                break
            count += 1
            product *= extent_of(loop) or 0
            if product > limit or not has_one_child(loop):
                break
        return count, product

    def count_vectorized(self, limit: int) -> tuple[int, int]:
        """How many trailing loops become lanes: plain spatial ones, as long as `limit` holds their product."""
        count, product = 0, 1
        for loop, kind in zip(reversed(self.loops), reversed(self.kinds), strict=True):
            if kind != "S" or not is_plain(loop) or not has_one_child(loop) or product * (extent_of(loop) or 0) > limit:
                break
            count += 1
            product *= extent_of(loop) or 0
        return count, product
