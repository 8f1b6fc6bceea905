"""Reductions along rows, such as sums and matrix-vector products, and of whole arrays."""

from __future__ import annotations

import math

from tscript.ir.function import PrimFunc
from tscript.ir.occurrences import mentions
from tscript.library.blocks import leaves
from tscript.library.choices import OWN, Choices
from tscript.library.nests import (
    PARALLEL_FROM,
    Nest,
    floor_power,
    nests_of,
    partial_results,
    row_loop,
    vectorize_partial,
)
from tscript.library.operator import Operator
from tscript.schedule.schedule import Schedule
from tscript.target.target import Target
from tscript.target.vector_registers import VectorRegisters

PIECE = 65_536
"""Rows at least twice as long are cut into pieces of so many elements, where there are too few rows for the threads."""
FEW = 16


def find_reduction(func: PrimFunc) -> Nest | None:
    """The nest of a function that combines elements along the last dimension of what it reads, and nothing else."""
    nests = nests_of(func)
    if nests is None or len(nests) != 1 or nests[0].op is None:
        return None
    nest = nests[0]
    rank = nest.kinds.count("S")
    if nest.kinds != "S" * rank + "R" * (len(nest.kinds) - rank) or None in nest.extents[rank:]:
        return None
    axis, spatial = nest.axes[-1], nest.axes[:rank]
    if not any(all(any(mentions(i, {v: None}) for i in load.indices) for v in spatial) for load in nest.loads()):
        return None  # products of matrices read less than they compute
    for load in nest.loads():
        if any(mentions(i, {axis: None}) for i in load.indices[:-1]):
            return None
        if load.indices and load.indices[-1] is not axis and mentions(load.indices[-1], {axis: None}):
            return None
    return nest if (nest.extents[-1] or 0) >= 8 else None


def schedule_reduction(sch: Schedule, nest: Nest, target: Target, choices: Choices = OWN) -> None:
    """Partial results in the lanes of vectors, rows in parallel; long rows of few in parallel pieces.

    >>> import tscript
    >>> from tscript.testing.workloads import matvec
    >>> func = matvec(512, 512).func
    >>> sch = tscript.tir.Schedule(func)
    >>> schedule_reduction(sch, find_reduction(func), Target("llvm -mcpu=skylake-avx512"))
    >>> [sch.get(b).name_hint for b in sch.get_child_blocks(sch.get_block("root"))]
    ['y_rf_init', 'y_rf_update', 'y_rf_init', 'y_rf_update', 'y']
    """
    (block,) = leaves(sch)
    rank = nest.kinds.count("S")
    length = nest.extents[-1] or 1
    rows = math.prod(FEW if e is None else e for e in nest.extents[:rank])
    register = VectorRegisters.of(target).lanes(nest.buffer.dtype.bits)
    longest = floor_power(length)
    lanes = choices.form([n * register for n in (1, 2, 4, 8) if n * register <= longest], min(4 * register, longest))
    if rows < FEW and nest.steps >= 2 * PIECE:
        # The pieces become rows; what combines them is little work, and runs at the end.
        first = sch.get_loops(block)[rank]
        if nest.kinds.count("R") == 1:
            first, _ = sch.split(first, [None, _piece(length, lanes)])
        block = sch.rfactor(first, -1)
        rank += 1
    partials = partial_results(sch, block, lanes, min(register, lanes))
    if rank:
        row = sch.merge(*[row_loop(sch, b, rank) for b in (*partials, block)])
        if choices.form((True, False), nest.steps >= PARALLEL_FROM):
            sch.parallel(row)
    for partial in partials:
        vectorize_partial(sch, partial, min(rank, 1))


def _piece(length: int, lanes: int) -> int:
    """The length of a piece; the last one has something for every lane."""
    piece = PIECE
    while 0 < length % piece < lanes:
        piece += lanes
    return piece


REDUCTION = Operator("reduction", find_reduction, schedule_reduction)

__all__ = ["REDUCTION", "find_reduction", "schedule_reduction"]
