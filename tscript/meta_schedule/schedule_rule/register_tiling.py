"""Tiles of results that stay in vector registers while they are summed up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product as combinations

from tscript.ir.expr import IterVar, PrimExpr, Var
from tscript.ir.linear import linear_form
from tscript.ir.occurrences import variables
from tscript.ir.stmt import Block, BufferRegion
from tscript.meta_schedule.loop_kinds import block_of, extent_of
from tscript.meta_schedule.schedule_rule.auto_inline import maps_elementwise
from tscript.meta_schedule.schedule_rule.reduction_test import TILED, needs_multi_level_tiling
from tscript.meta_schedule.schedule_rule.schedule_rule import ScheduleRule
from tscript.meta_schedule.tune_context import TuneContext
from tscript.schedule.errors import ScheduleError
from tscript.schedule.rv import BlockRV, LoopRV
from tscript.schedule.schedule import Schedule
from tscript.target.vector_registers import VectorRegisters

STRUCTURE = "register"


@dataclass(frozen=True)
class _Product:
    """A block that sums up products, seen as one of matrices: which axis becomes lanes, and which rows of a tile."""

    kinds: str
    column: int
    row: int | None
    operand: int
    """The number of the read that moves along with the columns."""
    lanes: int
    is_contiguous: bool
    """Whether that read takes neighbouring elements for neighbouring columns."""
    order: tuple[int, ...] | None
    """How its dimensions are ordered in panels: those of other spatial axes, that of the columns, the reduced ones.
    None for a read that cannot be rearranged.
    """
    others: int
    """How many of these come before that of the columns."""


class RegisterTiling(ScheduleRule):
    """Offers tiles of `rows` x `vectors` registers for a block that sums up products, and the schedule as it was.

    All loops that are reduced over run inside of a tile; its rows and vectors are unrolled, its lanes are one vector.
    Tiles of each number of `vectors` that leaves registers for the operands are offered, with as many rows as are
    sampled; `panels` offers, too, to copy the operand that moves along with the lanes into panels as wide as a tile,
    the tiles past its end filled with zeros. The order of tiles is sampled. A consumer that only passes elements on is
    computed tile by tile.

    >>> import tscript
    >>> from tscript import meta_schedule as ms
    >>> from tscript.testing.workloads import matmul
    >>> rule = RegisterTiling(vectors=(2,))
    >>> rule.initialize_with_tune_context(ms.TuneContext(target="llvm -mcpu=skylake -num-cores 1"))
    >>> sch = tscript.tir.Schedule(matmul(64, 64, 64).func)
    >>> panels, plain, unchanged = rule.apply(sch, sch.get_block("C"))
    >>> [int(plain.get(loop).extent) for loop in plain.get_loops("C")][-2:]
    [2, 8]
    """

    def __init__(self, vectors: Sequence[int] = (1, 2, 4), panels: bool = True) -> None:
        if not vectors or min(vectors) < 1:
            raise ValueError(f"a tile is at least one vector wide, unlike {list(vectors)}")
        self.vectors = tuple(vectors)
        self.panels = panels
        self._registers = VectorRegisters(16, 16)

    def _initialize_with_tune_context(self, context: TuneContext) -> None:
        if context.target is not None:
            self._registers = VectorRegisters.of(context.target)

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        """The schedules with tiles, then the schedule as it was."""
        if not needs_multi_level_tiling(sch, block):
            return [sch]
        found = _product_of(block_of(sch, block), self._registers)
        if found is None:
            return [sch]
        extent = extent_of(sch.state.loops_of(sch.get_sref(block))[found.column].loop)
        if extent is None or extent < 1:
            return [sch]
        made: list[Schedule] = []
        layouts = (True, False) if self.panels and found.order is not None else (False,)
        for packed, vectors in combinations(layouts, self._widths(extent, found.lanes)):
            if not packed and not found.is_contiguous:
                continue
            new = sch.copy()
            try:
                self._tile(new, block, found, vectors, packed)
            except ScheduleError:
                continue  # the nest around does not allow it
            made.append(new)
        return [*made, sch]

    def _widths(self, extent: int, lanes: int) -> list[int]:
        """Numbers of vectors in a row of a tile: none wider than what there is, but at least one."""
        most = -(-extent // lanes)
        fitting = [v for v in self.vectors if v <= most and self._registers.rows_beside(v) > 0]
        return fitting or [1]

    def _tile(self, sch: Schedule, block: BlockRV, p: _Product, vectors: int, packed: bool) -> None:
        sch.annotate(block, TILED, STRUCTURE)
        if packed:
            _pack(sch, block, p, vectors * p.lanes)
        loops = sch.get_loops(block)
        outer = [loop for i, loop in enumerate(loops) if p.kinds[i] == "S" and i not in (p.row, p.column)]
        reduced = [loop for i, loop in enumerate(loops) if p.kinds[i] == "R"]
        tiles: list[list[LoopRV]] = [[], []]
        inside: list[LoopRV] = []
        if p.row is not None:
            extent = extent_of(sch.get_sref(loops[p.row]).loop) or 0
            rows = self._sample_rows(sch, extent, vectors)
            row, unrolled = sch.split(loops[p.row], [None, rows])
            _add_levels(sch, row, tiles)
            inside.append(unrolled)
        column, repeated, lanes = sch.split(loops[p.column], [None, vectors, p.lanes])
        _add_levels(sch, column, tiles)
        sch.reorder(*outer, *tiles[0], *tiles[1], *reduced, *inside, repeated, lanes)
        for loop in (*inside, repeated):
            sch.unroll(loop)
        sch.vectorize(lanes)
        _fuse_consumer(sch, block, tiles[1][-1])

    def _sample_rows(self, sch: Schedule, extent: int, vectors: int) -> PrimExpr:
        most = max(1, min(self._registers.rows_beside(vectors), extent))
        choices = [r for r in range(1, most + 1) if 2 * r > most or (extent % r == 0 and 4 * r > most)]
        return sch.sample_categorical(choices, [1.0 / len(choices)] * len(choices))


def _add_levels(sch: Schedule, loop: LoopRV, tiles: list[list[LoopRV]]) -> None:
    """Deal a loop over tiles out to two levels."""
    factors = sch.sample_perfect_tile(loop, len(tiles), -1)
    for level, part in zip(tiles, sch.split(loop, factors), strict=True):
        level.append(part)


def _pack(sch: Schedule, block: BlockRV, p: _Product, columns: int) -> None:
    """Copy the operand that moves along with the columns into panels."""
    assert p.order is not None
    stmt = block_of(sch, block)
    region = stmt.reads[p.operand]
    place = p.order[p.others]
    panels = sch.cache_read(block, p.operand, "global")
    size = extent_of_shape(region, place)
    order, others = p.order, p.others

    def layout(*index: PrimExpr) -> list[PrimExpr]:
        moved = [index[d] for d in order]
        return [*moved[:others], index[place] // columns, *moved[others + 1 :], index[place] % columns]

    fill = None if size % columns == 0 else 0
    sch.transform_layout(block, ("read", _read_of(sch, block, panels)), layout, pad_value=fill)


def _read_of(sch: Schedule, block: BlockRV, producer: BlockRV) -> int:
    made = block_of(sch, producer).writes[0].buffer
    return next(i for i, r in enumerate(block_of(sch, block).reads) if r.buffer is made)


def extent_of_shape(region: BufferRegion, dimension: int) -> int:
    """The size of a dimension of the buffer of a region; 0 if it is not constant."""
    size = region.buffer.shape[dimension]
    return int(getattr(size, "value", 0))


def _fuse_consumer(sch: Schedule, block: BlockRV, loop: LoopRV) -> None:
    consumers = sch.get_consumers(block)
    if len(consumers) != 1:
        return
    stmt, made = block_of(sch, consumers[0]), block_of(sch, block).writes[0].buffer
    reads = [r for r in stmt.reads if r.buffer is made]
    if len(stmt.writes) != 1 or len(reads) != 1:
        return
    if not maps_elementwise(stmt, [r.min for r in reads[0].region], injective=True, ordered=True):
        return
    try:
        sch.reverse_compute_at(consumers[0], loop, preserve_unit_loops=True)
    except ScheduleError:
        pass  # it stays a nest of its own


def _product_of(stmt: Block, registers: VectorRegisters) -> _Product | None:
    """What the tiles of a block are made of; None for one whose results do not lie along an axis."""
    axes = [v.var for v in stmt.iter_vars]
    written = stmt.writes[0]
    if not written.region or written.region[-1].min not in axes:
        return None
    column = axes.index(written.region[-1].min)  # pyright: ignore[reportArgumentType]
    if stmt.iter_vars[column].iter_type != IterVar.DataPar:
        return None
    kinds = "".join("S" if v.iter_type == IterVar.DataPar else "R" for v in stmt.iter_vars)
    moving = [
        i
        for i, r in enumerate(stmt.reads)
        if r.buffer is not written.buffer and axes[column] in variables(*(d.min for d in r.region))
    ]
    if len(moving) != 1:
        return None
    operand = stmt.reads[moving[0]]
    used = variables(*(d.min for d in operand.region))
    rows = [i for i, k in enumerate(kinds) if k == "S" and i != column and axes[i] not in used]
    lanes = registers.lanes(written.buffer.dtype.bits)
    order, others = _panel_order(operand, axes, kinds, column)
    return _Product(
        kinds,
        column,
        rows[-1] if rows else None,
        moving[0],
        lanes,
        _is_contiguous(operand, axes[column]),
        order,
        others,
    )


def _is_contiguous(region: BufferRegion, axis: Var) -> bool:
    """Whether the next value of an axis means the next element in memory."""
    if any(axis in variables(d.min) for d in region.region[:-1]):
        return False
    terms, _ = linear_form(region.region[-1].min)
    return terms.get(axis) == 1 and not any(axis in variables(t) for t in terms if t is not axis)


def _panel_order(
    region: BufferRegion, axes: Sequence[Var], kinds: str, column: int
) -> tuple[tuple[int, ...] | None, int]:
    """The dimensions of an operand in the order of panels, and how many come before that of the columns."""
    positions: list[int] = []
    for d in region.region:
        if d.min not in axes:
            return None, 0
        positions.append(axes.index(d.min))  # pyright: ignore[reportArgumentType]
    if len(set(positions)) < len(positions):
        return None, 0
    place = positions.index(column)
    spatial = [d for d, k in enumerate(positions) if kinds[k] == "S" and d != place]
    reduced = [d for d, k in enumerate(positions) if kinds[k] == "R"]
    if not reduced or extent_of_shape(region, place) == 0:
        return None, 0
    return (*spatial, place, *reduced), len(spatial)
