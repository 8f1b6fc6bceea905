"""Arrays whose last dimension becomes another one: tiles that are turned in registers."""

from __future__ import annotations

from dataclasses import dataclass

from tscript.ir.expr import BufferLoad
from tscript.ir.function import PrimFunc
from tscript.library.blocks import leaves
from tscript.library.choices import OWN, Choices, powers
from tscript.library.nests import PARALLEL_FROM, Nest, is_streamed, nests_of
from tscript.library.operator import Operator
from tscript.schedule.schedule import Schedule
from tscript.target.target import Target
from tscript.target.vector_registers import VectorRegisters

BLOCK = 16
"""Tiles that follow each other along the rows that are read."""


@dataclass(frozen=True)
class Transpose:
    """The nest of a copy, and the number of the axis that is the last one of what it reads."""

    nest: Nest
    axis: int


def find_transpose(func: PrimFunc) -> Transpose | None:
    """The copy that a function is, if it moves the last dimension of what it reads, and keeps the others apart."""
    nests = nests_of(func)
    if nests is None or len(nests) != 1 or "R" in nests[0].kinds or len(nests[0].axes) < 2:
        return None
    (nest,) = nests
    load = nest.value
    if not isinstance(load, BufferLoad) or load.buffer.dtype.lanes != 1 or len(load.indices) != len(nest.axes):
        return None
    places = [next((n for n, v in enumerate(nest.axes) if v is i), -1) for i in load.indices]
    if sorted(places) != list(range(len(nest.axes))) or places[-1] == len(nest.axes) - 1:
        return None
    return Transpose(nest, places[-1]) if None not in nest.extents else None


def schedule_transpose(sch: Schedule, found: Transpose, target: Target, choices: Choices = OWN) -> None:
    """Read rows of a tile, turn them in registers, write the columns; blocks of tiles in parallel.

    >>> import tscript
    >>> from tscript.testing.workloads import transpose
    >>> func = transpose(512, 512).func
    >>> sch = tscript.tir.Schedule(func)
    >>> schedule_transpose(sch, find_transpose(func), Target("llvm -mcpu=skylake-avx512"))
    >>> [sch.get(loop).extent.value for loop in sch.get_loops("B")]
    [2, 32, 16, 16, 16]
    """
    (block,) = leaves(sch)
    lanes = min(16, VectorRegisters.of(target).lanes(found.nest.buffer.dtype.bits))
    *rest, last = sch.get_loops(block)
    moved = rest.pop(found.axis)
    is_tiled = all((found.nest.extents[n] or 0) >= lanes > 2 for n in (found.axis, -1))
    if not is_tiled:
        outer = sch.fuse(*sch.get_loops(block)[:-1]) if rest else moved
        if found.nest.steps >= PARALLEL_FROM:
            sch.parallel(outer)
        return
    tile = sch.cache_read(block, 0, "local")
    tiles = _tiles(found.nest.extents[found.axis] or 0, lanes)
    fitting = [n for n in powers(1, 64) if (found.nest.extents[found.axis] or 0) % (n * lanes) == 0]
    moved_block, moved_tile, moved_lane = sch.split(moved, [None, choices.number(sch, fitting, tiles), lanes])
    last_tile, last_lane = sch.split(last, [None, lanes])
    sch.reorder(*rest, moved_block, last_tile, moved_tile, moved_lane, last_lane)
    sch.compute_at(tile, moved_tile)
    *_, row, lane = sch.get_loops(tile)
    outer = sch.fuse(*rest, moved_block) if rest else moved_block
    if choices.form((True, False), is_streamed(found.nest)):
        sch.annotate(outer, "pragma_nontemporal", 1)
    if found.nest.steps >= PARALLEL_FROM:
        sch.parallel(outer)
    for loop in (row, moved_lane):
        sch.unroll(loop)
    for loop in (lane, last_lane):
        sch.vectorize(loop)


def _tiles(extent: int, lanes: int) -> int:
    """Tiles of a block along a dimension: no more than leave none out, since those need guards."""
    return next(n for n in (BLOCK, BLOCK // 2, BLOCK // 4, 1) if extent % (n * lanes) == 0 or n == 1)


TRANSPOSE = Operator("transpose", find_transpose, schedule_transpose)

__all__ = ["TRANSPOSE", "Transpose", "find_transpose", "schedule_transpose"]
