"""Matrix products, batches of them and convolutions in vector registers."""

from __future__ import annotations

from tscript.ir.expr import PrimExpr
from tscript.ir.function import PrimFunc
from tscript.library.blocks import extent, leaves, stmt_of
from tscript.library.choices import OWN, Choices, powers
from tscript.library.contraction import Contraction, find_contraction
from tscript.library.default import inline, spread
from tscript.library.operator import Operator
from tscript.library.tiles import Tile, choose_tile
from tscript.schedule.errors import ScheduleError
from tscript.schedule.rv import BlockRV, LoopRV
from tscript.schedule.schedule import Schedule
from tscript.target.detect import core_count
from tscript.target.target import Target
from tscript.target.vector_registers import VectorRegisters

PACK_FROM = 96 << 10
"""A right operand of fewer bytes stays in the nearest caches as it is."""
PARALLEL_FROM = 1 << 18
"""Products of fewer multiply-adds run in one thread."""
FEW_ROWS = 4
"""With so few rows or fewer, the right operand is read about as often as it has elements: memory is the limit."""
SHALLOW = 32
"""Sums of so few products or fewer are done before their results are in memory."""
_STREAMED_ROWS = 8
"""How many rows of the right operand are read side by side where there are few rows of results."""


def find_product(func: PrimFunc) -> Contraction | None:
    """The contraction of a function whose operands have the type of its result, or are converted to it."""
    found = find_contraction(func)
    if found is None or found.dtype.bits < 32 or (found.right_order[-1] != found.column and _has_few_rows(found)):
        return None
    return found


def schedule_product(sch: Schedule, c: Contraction, target: Target, choices: Choices = OWN) -> None:
    """Tiles of the result stay in registers over the whole reduction, which reads panels of the right operand.

    A panel is as wide as a tile and lies in one piece, so that the reduction reads it without gaps; it is copied by
    the thread that uses it, right before, and filled up with zeros past the last column. What comes after the product
    is done to each tile while it is in the nearest cache.

    >>> import tscript
    >>> from tscript.testing.workloads import matmul
    >>> func = matmul(512, 512, 512).func
    >>> sch = tscript.tir.Schedule(func)
    >>> schedule_product(sch, find_product(func), Target("llvm -mcpu=skylake-avx512 -num-cores=2"))
    >>> [tscript.tir.ForKind.NAMES[sch.get(x).kind] for x in sch.get_loops("C_update")]
    ['parallel', 'serial', 'serial', 'unroll', 'unroll', 'vectorized']
    """
    blocks = leaves(sch)
    block, after = blocks[c.position], blocks[c.position + 1 :]
    for b in blocks[: c.position]:
        spread(sch, b, target)
    for b in after[:-1]:
        inline(sch, b)
    registers = VectorRegisters.of(target)
    if _has_few_rows(c):
        loop, first = _few_rows(sch, block, c, target, choices)
    else:
        loop, first = _tiles(sch, block, c, target, choices)
    for b in after[-1:]:
        finish_tiles(sch, b, loop, registers.lanes(c.dtype.bits))
    sch.decompose_reduction(block, first)


def threads_of(target: Target) -> int:
    """How many threads a target gives its kernels."""
    cores = target.get_attr("num-cores")
    return core_count() if cores is None else int(cores)


def is_large(c: Contraction) -> bool:
    """Whether several threads are worth starting."""
    return c.size(tuple(range(len(c.extents)))) >= PARALLEL_FROM


def _has_few_rows(c: Contraction) -> bool:
    return not c.batch and all(c.extents[r] is not None for r in c.rows) and c.size(c.rows) <= FEW_ROWS


def _tiles(sch: Schedule, block: BlockRV, c: Contraction, target: Target, choices: Choices) -> tuple[LoopRV, LoopRV]:
    """The tiles of a product. Gives the loop over them, inside of which one is made, and the first that reduces."""
    tile, rows = _tile(sch, c, target, choices)
    threads = threads_of(target)
    panel = _pack(sch, block, c, tile) if choices.form(_layouts(c), _is_packed(c, tile)) else None
    loops = sch.get_loops(block)
    batch, others = [loops[b] for b in c.batch], [loops[r] for r in c.rows[:-1]]
    reduced = [loops[r] for r in c.reduced]
    i0, i1 = sch.split(loops[c.rows[-1]], [None, rows])
    parts = [tile.vectors, tile.lanes] if tile.vectors > 1 else [tile.lanes]
    j0, *repeated, j2 = sch.split(loops[c.column], [None, *parts])
    sch.reorder(*batch, j0, *others, i0, *reduced, i1, *repeated, j2)
    for loop in (i1, *repeated):
        sch.unroll(loop)
    sch.vectorize(j2)
    panels = extent(sch, j0) or threads
    count = panels * c.size(c.batch)
    is_shallow = choices.form((True, False), c.size(c.reduced) <= SHALLOW)
    by_panel = panel is not None and not is_shallow and count >= (2 * threads if threads > 1 else 1)
    if panel is not None and not is_shallow:
        by_panel = choices.form((True, False), by_panel)
    outer = [*batch, j0] if by_panel else [*batch, j0, *others, i0]
    if is_shallow:
        # Writing the result takes longest, so it is written in the order in which it lies in memory.
        outer = [*batch, *others, i0, j0]
        sch.reorder(*outer)
    inner = outer[-1] if is_shallow else i0
    if by_panel:
        # Several panels for each part of the left operand, which then stays in the nearest cache.
        together = choices.form([g for g in powers(2, 8) if panels % g == 0], 1)
        if together > 1:
            outer[-1], inner = sch.split(j0, [None, together])
            sch.reorder(*outer, *others, i0, inner)
    if by_panel or (is_large(c) and threads > 1):
        last = outer.pop() if is_shallow else None
        fused = sch.fuse(*outer)
        inner = inner if by_panel else last or fused
        if is_large(c) and threads > 1:
            sch.parallel(fused)
        if panel is not None and by_panel:
            sch.compute_at(panel, fused)
    if panel is not None:
        _copy_panel(sch, panel, tile.lanes, not by_panel and is_large(c) and threads > 1)
    return inner, reduced[0]


def _tile(sch: Schedule, c: Contraction, target: Target, choices: Choices) -> tuple[Tile, int | PrimExpr]:
    """A tile, and its rows as they are chosen in the end."""
    registers, bits = VectorRegisters.of(target), c.dtype.bits
    rows, columns = c.extents[c.rows[-1]], c.extents[c.column]
    tile = choose_tile(rows, columns, bits, registers)
    widths = [v for v in (4, 3, 2, 1) if columns is None or v <= -(-columns // tile.lanes)]
    width = choices.form(widths, tile.vectors)
    if width != tile.vectors:
        tile = choose_tile(rows, columns, bits, registers, [width])
    most = registers.rows_beside(width) if rows is None else min(registers.rows_beside(width), max(rows, 1))
    fitting = [r for r in range(1, most + 1) if 2 * r > most or (rows is not None and rows % r == 0 and 4 * r > most)]
    return tile, choices.number(sch, fitting, tile.rows)


def _layouts(c: Contraction) -> tuple[bool, ...]:
    """Whether the right operand can be copied into panels, and left as it is."""
    if c.right_order[-1] != c.column:
        return (True,)
    return (False,) if c.extents[c.column] is None else (True, False)


def _is_packed(c: Contraction, tile: Tile) -> bool:
    """Whether the right operand is copied into panels: where it is not contiguous, too large, or ends within a tile."""
    if c.right_order[-1] != c.column:
        return True
    columns = c.extents[c.column]
    if columns is None:
        return False
    rows = c.size(c.rows)
    bytes_ = c.size(c.reduced) * columns * c.right_dtype.bytes
    return rows >= 4 * tile.rows and (
        columns % tile.columns != 0 or (columns > tile.columns and bytes_ >= PACK_FROM)
    )  # fmt: skip


def _pack(sch: Schedule, block: BlockRV, c: Contraction, tile: Tile) -> BlockRV:
    """Copy the right operand into panels: batch, panel, reduced axes, column in the panel."""
    width, order = tile.columns, c.right_order
    panel = sch.cache_read(block, c.right, "global")
    read = read_of(sch, block, panel)
    first = [order.index(a) for a in c.batch]
    middle = [order.index(a) for a in c.reduced if a in order]
    middle += [d for d, a in enumerate(order) if a < 0]
    column = order.index(c.column)

    def layout(*index: PrimExpr) -> list[PrimExpr]:
        return [
            *(index[d] for d in first), index[column] // width, *(index[d] for d in middle), index[column] % width,
        ]  # fmt: skip

    columns = c.extents[c.column]
    sch.transform_layout(block, ("read", read), layout, pad_value=None if columns and columns % width == 0 else 0)
    return panel


def read_of(sch: Schedule, block: BlockRV, producer: BlockRV) -> int:
    """The number, among what a block reads, of what another one makes."""
    made = stmt_of(sch, producer).writes[0].buffer
    return next(n for n, r in enumerate(stmt_of(sch, block).reads) if r.buffer is made)


def _copy_panel(sch: Schedule, panel: BlockRV, lanes: int, parallel: bool) -> None:
    loops = sch.get_loops(panel)
    if parallel:
        sch.parallel(loops[0])
    _, inner = sch.split(loops[-1], [None, lanes])
    sch.vectorize(inner)


def finish_tiles(sch: Schedule, block: BlockRV, loop: LoopRV, lanes: int) -> None:
    """Do to each tile, in the loop that makes it, what `block` does to all of the result."""
    try:
        sch.reverse_compute_at(block, loop, preserve_unit_loops=True)
    except ScheduleError:
        return  # it does more than take one element after the other
    _, inner = sch.split(sch.get_loops(block)[-1], [None, lanes])
    sch.vectorize(inner)


def _few_rows(sch: Schedule, block: BlockRV, c: Contraction, target: Target, choices: Choices) -> tuple[LoopRV, LoopRV]:
    """Read the right operand once, a few of its rows side by side, with the results in the nearest cache."""
    loops = sch.get_loops(block)
    rows, reduced = [loops[r] for r in c.rows], [loops[r] for r in c.reduced]
    threads = threads_of(target)
    lanes = VectorRegisters.of(target).lanes(c.dtype.bits)
    columns = c.extents[c.column] or 4096
    chunk = -(-min(4096, -(-columns // threads)) // lanes)
    chunks = [n for n in {chunk, chunk // 2, chunk // 4, chunk // 8} if n > 0 and columns % (n * lanes) == 0]
    j0, j1, j2 = sch.split(loops[c.column], [None, choices.number(sch, chunks, chunk), lanes])
    r0, r1 = sch.split(reduced[-1], [None, choices.number(sch, (2, 4, 8, 16), _STREAMED_ROWS)])
    sch.reorder(j0, *reduced[:-1], r0, j1, r1, *rows, j2)
    for loop in (r1, *rows):
        sch.unroll(loop)
    sch.vectorize(j2)
    if threads > 1 and is_large(c):
        sch.parallel(j0)
    return j0, [*reduced[:-1], r0][0]


PRODUCT = Operator("product", find_product, schedule_product)

__all__ = [
    "PRODUCT",
    "find_product",
    "finish_tiles",
    "is_large",
    "read_of",
    "schedule_product",
    "threads_of",
]
