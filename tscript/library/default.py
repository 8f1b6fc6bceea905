"""The schedule of what no operator of the library is: fused and parallel loops outside, vectors inside."""

from __future__ import annotations

from tscript.ir.expr import BufferLoad, PrimExpr, Var
from tscript.ir.functor import post_order_visit
from tscript.ir.linear import linear_form
from tscript.ir.occurrences import mentions, reads_memory
from tscript.ir.stmt import Block, BufferStore, For, ForKind, SeqStmt
from tscript.library.blocks import extent, leaves, loop_stmt, stmt_of
from tscript.schedule.errors import ScheduleError
from tscript.schedule.rv import BlockRV, LoopRV
from tscript.schedule.schedule import Schedule
from tscript.target.target import Target
from tscript.target.vector_registers import VectorRegisters

PARALLEL_FROM = 16_384
"""Nests of fewer steps run in one thread: starting others costs as much."""


def schedule_default(sch: Schedule, target: Target) -> None:
    """Inline what is elementwise and read once, then give each block parallel, vectorised loops where they are legal.

    What a step's checks refuse is left as it was, so this is sound for every program, and fast for few.

    >>> import tscript
    >>> from tscript.testing.workloads import add
    >>> sch = tscript.tir.Schedule(add(1 << 20).func)
    >>> schedule_default(sch, Target("llvm -mcpu=skylake-avx512 -num-cores=2"))
    >>> [tscript.tir.ForKind.NAMES[sch.get(loop).kind] for loop in sch.get_loops("C")]
    ['parallel', 'vectorized']
    """
    for block in leaves(sch):
        inline(sch, block)
    for block in leaves(sch):
        spread(sch, block, target)


def inline(sch: Schedule, block: BlockRV) -> None:
    """Compute a block where it is read, if that is once, and it is no reduction."""
    if len(sch.get_consumers(block)) != 1 or any(v.iter_type for v in stmt_of(sch, block).iter_vars):
        return
    try:
        sch.compute_inline(block)
    except ScheduleError:
        return  # it is an output, or not elementwise


def spread(sch: Schedule, block: BlockRV, target: Target) -> None:
    """Run the spatial loops of a block in parallel, and the innermost in vectors, as far as that is legal and pays."""
    loops = sch.get_loops(block)
    own = _own(sch, loops)
    if not own:
        return
    steps = 1
    for loop in own:
        steps *= extent(sch, loop) or PARALLEL_FROM
    spatial = [loop for loop in own if _serves(sch, block, loop, 0)]
    reduced = [loop for loop in own if _serves(sch, block, loop, 2)]
    lanes = _lanes(sch, block, spatial, target)
    outer, inner = list(spatial), None
    if lanes > 1:
        last, inner = sch.split(outer.pop(), [None, lanes])
        outer.append(last)
    try:
        sch.reorder(*outer, *reduced, *([] if inner is None else [inner]))
    except ScheduleError:
        outer = outer[:1]
    first = _fused(sch, outer) if outer else None
    if first is not None and steps >= PARALLEL_FROM:
        _try(sch.parallel, first)
    if inner is not None:
        _try(sch.vectorize, inner)


def _own(sch: Schedule, loops: list[LoopRV]) -> list[LoopRV]:
    """The innermost loops that only this block is in, and that nobody has decided on."""
    own: list[LoopRV] = []
    for loop in reversed(loops):
        stmt = loop_stmt(sch, loop)
        if stmt.kind != ForKind.SERIAL or stmt.annotations or isinstance(stmt.body, SeqStmt):
            break
        own.append(loop)
    return own[::-1]


def _serves(sch: Schedule, block: BlockRV, loop: LoopRV, kind: int) -> bool:
    """Whether a loop is in the bindings of axes of one kind, and of no other."""
    realize = sch.state.realize_of(sch.get_sref(block))
    var = loop_stmt(sch, loop).loop_var
    found = {
        axis.iter_type
        for axis, value in zip(realize.block.iter_vars, realize.iter_values, strict=True)
        if mentions(value, {var: None})
    }
    return found == {kind}


def _lanes(sch: Schedule, block: BlockRV, spatial: list[LoopRV], target: Target) -> int:
    """How many iterations of the innermost spatial loop make a vector; 1 if they do not take neighbouring elements."""
    if not spatial:
        return 1
    realize = sch.state.realize_of(sch.get_sref(block))
    var = loop_stmt(sch, spatial[-1]).loop_var
    axes = [axis.var for axis, value in zip(realize.block.iter_vars, realize.iter_values, strict=True) if value is var]
    if len(axes) != 1 or not _is_contiguous(realize.block, axes[0]):
        return 1
    bits = max(w.buffer.dtype.bits for w in realize.block.writes) if realize.block.writes else 32
    lanes = VectorRegisters.of(target).lanes(bits)
    known = extent(sch, spatial[-1])
    return lanes if known is None or known >= lanes else 1


def _is_contiguous(block: Block, axis: Var) -> bool:
    """Whether every access goes on by at most one element with the axis, and the block is a plain statement."""
    good = True

    def look(node: object) -> None:
        nonlocal good
        if isinstance(node, For):
            good = False
        if isinstance(node, (BufferLoad, BufferStore)) and node.indices:
            good = good and not any(mentions(i, {axis: None}) for i in node.indices[:-1])
            good = good and _step(node.indices[-1], axis) in (0, 1)

    post_order_visit(block.body, look)
    return good


def _step(index: PrimExpr, axis: Var) -> int | None:
    """By how much an index grows with an axis; None where that changes."""
    terms, _ = linear_form(index)
    if reads_memory(index) or any(t is not axis and mentions(t, {axis: None}) for t in terms):
        return None
    return terms.get(axis, 0)


def _fused(sch: Schedule, loops: list[LoopRV]) -> LoopRV:
    try:
        return sch.fuse(*loops)
    except ScheduleError:
        return loops[0]


def _try(step: object, loop: LoopRV) -> None:
    """Take a step unless its checks refuse it."""
    assert callable(step)
    try:
        step(loop)
    except ScheduleError:
        return


__all__ = ["PARALLEL_FROM", "schedule_default"]
