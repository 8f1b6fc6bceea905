"""Matrix products of bytes and of bfloat16, by the instructions that CPUs have for them."""

from __future__ import annotations

from dataclasses import dataclass

from tscript.ir.expr import PrimExpr
from tscript.ir.function import PrimFunc
from tscript.library.blocks import leaves
from tscript.library.choices import OWN, Choices
from tscript.library.contraction import Contraction, find_contraction
from tscript.library.default import inline, spread
from tscript.library.matmul import finish_tiles, is_large, read_of, schedule_product, threads_of
from tscript.library.operator import Operator
from tscript.library.tiles import choose_tile
from tscript.schedule.rv import BlockRV, LoopRV
from tscript.schedule.schedule import Schedule
from tscript.target.target import Target
from tscript.target.vector_registers import VectorRegisters
from tscript.tensor_intrin import amx, interleave, x86

_BLOCK = 32
"""Rows and columns of the four tiles that are summed up at once."""
_NEAR = 640 << 10
"""Bytes of panels that stay in the second cache while all rows of the left operand pass by."""


@dataclass(frozen=True)
class Instruction:
    """A tensor intrinsic for `rows` x `columns` results and sums of `depth`, over operands packed by `width`."""

    name: str
    rows: int
    columns: int
    depth: int
    width: int


def find_low_precision(func: PrimFunc) -> Contraction | None:
    """A matrix product, or a batch, of bytes into int32 or of bfloat16 into float32."""
    found = find_contraction(func)
    if found is None or found.left_order is None or len(found.rows) != 1 or len(found.reduced) != 1:
        return None
    types = (str(found.left_dtype), str(found.right_dtype), str(found.dtype))
    known = types in amx.INSTRUCTIONS and all(e is not None for e in found.extents)
    last = found.left_order[-1] == found.reduced[0]
    plain = -1 not in (*found.left_order, *found.right_order)
    return found if known and last and plain else None


def choose_instruction(c: Contraction, target: Target) -> Instruction | None:
    """The best instruction of a target for a product; None where plain arithmetic has to do."""
    known = instructions(c, target)
    return known[0] if known else None


def instructions(c: Contraction, target: Target) -> list[Instruction]:
    """The instructions of a target for a product, the best first.

    AMX where the CPU has its tiles and the product fills them, then dot products of AVX-512.
    """
    types = (str(c.left_dtype), str(c.right_dtype), str(c.dtype))
    is_bf16 = types[0] == "bfloat16"
    width = 2 if is_bf16 else 4
    rows, columns, depth = (c.extents[a] or 0 for a in (c.rows[0], c.column, c.reduced[0]))
    features = target.features
    found: list[Instruction] = []
    if {"amx-tile", "amx-bf16" if is_bf16 else "amx-int8"} <= features and rows >= 16 and columns >= 16:
        count = 16 * width
        # Of the depths that need the least filling up, the largest.
        depths = sorted(amx.DEPTHS, key=lambda s: (-(-depth // (s * count)) * s, -s))
        found += [Instruction(amx.amx_block_intrin(*types, s), _BLOCK, _BLOCK, s * count, width) for s in depths]
    if is_bf16 and "avx512bf16" in features:
        found.append(Instruction(x86.AVX512_BF16_DOT_16x2_INTRIN, 1, 16, 2, 2))
    if types[:2] == ("uint8", "int8"):
        if "avx512vnni" in features:
            found.append(Instruction(x86.VNNI_DOT_16x4_INTRIN, 1, 16, 4, 4))
        elif "avx512bw" in features:
            found.append(Instruction(x86.AVX512_DOT_16x4_INTRIN, 1, 16, 4, 4))
    return found


def schedule_low_precision(sch: Schedule, c: Contraction, target: Target, choices: Choices = OWN) -> None:
    """Blocks of the result by one instruction, over panels of the right operand packed as the instruction wants it.

    Extents that the instruction does not divide are rounded up in copies. What comes after is done to each block.

    >>> import tscript
    >>> from tscript.testing.workloads import matmul
    >>> func = matmul(64, 64, 64, "bfloat16", "float32").func
    >>> sch = tscript.tir.Schedule(func)
    >>> schedule_low_precision(sch, find_low_precision(func), Target("llvm -mcpu=cooperlake -num-cores=1"))
    >>> "dpbf16ps" in str(sch.mod)
    True
    """
    known = instructions(c, target)
    instruction = choices.form(known, known[0]) if known else None
    if instruction is None:
        schedule_product(sch, c, target, choices)
        return
    blocks = leaves(sch)
    block, after = blocks[c.position], blocks[c.position + 1 :]
    for b in blocks[: c.position]:
        spread(sch, b, target)
    for b in after[:-1]:
        inline(sch, b)
    shape = _shape(c, instruction, target, choices)
    after = _pad(sch, block, c, shape, after, target)
    loop, first, inner = _tiles(sch, block, c, shape, threads_of(target) if is_large(c) else 1)
    for b in after[-1:]:
        finish_tiles(sch, b, loop, VectorRegisters.of(target).lanes(c.dtype.bits))
    init = sch.decompose_reduction(block, first)
    sch.vectorize(sch.get_loops(init)[-1])
    sch.tensorize(inner, instruction.name)


@dataclass(frozen=True)
class _Shape:
    """What is done at once: the instruction, and how many of them make a tile, one below and one beside another."""

    instruction: Instruction
    down: int
    across: int

    @property
    def rows(self) -> int:
        return self.instruction.rows * self.down

    @property
    def columns(self) -> int:
        return self.instruction.columns * self.across


def _shape(c: Contraction, i: Instruction, target: Target, choices: Choices) -> _Shape:
    if i.rows > 1:
        return _Shape(i, 1, 1)
    rows, columns = c.extents[c.rows[0]] or 1, c.extents[c.column] or 1
    registers = VectorRegisters.of(target)
    tile = choose_tile(rows, columns, c.dtype.bits, registers)
    width = choices.form([v for v in (4, 3, 2, 1) if v <= -(-columns // tile.lanes)], tile.vectors)
    if width != tile.vectors:
        tile = choose_tile(rows, columns, c.dtype.bits, registers, [width])
    # No tile may end past the last row: one that divides them is taken if it is not much smaller.
    dividing = [r for r in range(tile.rows, 0, -1) if rows % r == 0]
    return _Shape(i, dividing[0] if 2 * dividing[0] > tile.rows else tile.rows, tile.vectors)


def _pad(
    sch: Schedule, block: BlockRV, c: Contraction, shape: _Shape, after: list[BlockRV], target: Target
) -> list[BlockRV]:
    """Round the extents up to what tiles and the instruction take. Gives the blocks that come after, then."""
    padding = [1] * len(c.extents)
    padding[c.rows[0]], padding[c.column] = shape.rows, shape.columns
    padding[c.reduced[0]] = shape.instruction.depth
    if all(e is not None and e % p == 0 for e, p in zip(c.extents, padding, strict=True)):
        return after
    sch.pad_einsum(block, padding)
    made = leaves(sch)
    place = next(n for n, b in enumerate(made) if sch.get_sref(b) is sch.get_sref(block))
    for b in made[c.position : place]:
        # What fills the right operand up goes into the copy to panels, below.
        spread(sch, b, target)
    back = made[place + 1 : len(made) - len(after)]
    if not after:
        return back
    for b in back:
        inline(sch, b)
    return after


def _tiles(sch: Schedule, block: BlockRV, c: Contraction, shape: _Shape, threads: int) -> tuple[LoopRV, LoopRV, LoopRV]:
    """The loop over blocks of rows, the first loop that reduces, and the one that the instruction replaces."""
    i = shape.instruction
    panel = _pack(sch, block, c, shape)
    if i.rows > 1:
        _pack_left(sch, block, c, i, threads)
    loops = sch.get_loops(block)
    batch = [loops[b] for b in c.batch]
    k0, k1 = sch.split(loops[c.reduced[0]], [None, i.depth])
    if i.rows > 1:
        panels = _panels(c, i, threads)
        i0, i1 = sch.split(loops[c.rows[0]], [None, i.rows])
        j0, last, j1 = sch.split(loops[c.column], [None, panels, i.columns])
        sch.reorder(*batch, j0, i0, last, k0, i1, j1, k1)
        inner = i1
    else:
        i0, i1 = sch.split(loops[c.rows[0]], [None, shape.down])
        j0, j1, j2 = sch.split(loops[c.column], [None, shape.across, i.columns])
        sch.reorder(*batch, j0, i0, k0, i1, j1, j2, k1)
        sch.unroll(i1)
        sch.unroll(j1)
        inner, last = j2, i0
    fused = sch.fuse(*batch, j0)
    if threads > 1:
        sch.parallel(fused)
    sch.compute_at(panel, fused)
    _interleave(sch, panel, c, i)
    return last, k0, inner


def _panels(c: Contraction, i: Instruction, threads: int) -> int:
    """How many panels of the right operand are used side by side, so that the left one is read that less often.

    So many as the second cache holds, and as leave each thread two parts of the work.
    """
    count = -(-(c.extents[c.column] or 1) // i.columns)  # columns are filled up to whole panels
    most = min(_NEAR // (i.columns * (c.extents[c.reduced[0]] or 1) * c.right_dtype.bytes), count)
    shared = c.size(c.batch) * count // (2 * threads) if threads > 1 else count
    return max((n for n in range(1, min(most, shared) + 1) if count % n == 0), default=1)


def _pack(sch: Schedule, block: BlockRV, c: Contraction, shape: _Shape) -> BlockRV:
    """Copy the right operand into panels: batch, panel, parts of the depth, columns of the panel, elements."""
    width, packed, order = shape.columns, shape.instruction.width, c.right_order
    panel = sch.cache_read(block, c.right, "global")
    batch = [order.index(b) for b in c.batch]
    column, depth = order.index(c.column), order.index(c.reduced[0])

    def layout(*index: PrimExpr) -> list[PrimExpr]:
        return [
            *(index[d] for d in batch),
            index[column] // width,
            index[depth] // packed,
            index[column] % width,
            index[depth] % packed,
        ]

    sch.transform_layout(block, ("read", read_of(sch, block, panel)), layout)
    return panel


def _interleave(sch: Schedule, panel: BlockRV, c: Contraction, i: Instruction) -> None:
    """Put neighbouring elements of a column side by side: a vector at a time where a row lies in one piece."""
    x, y = sch.get_loops(panel)[-2:]
    in_rows = c.right_order.index(c.column) > c.right_order.index(c.reduced[0])
    column, depth = (y, x) if in_rows else (x, y)
    parts, part = sch.split(depth, [None, i.width])
    if not in_rows:
        sch.reorder(parts, column, part)
        sch.unroll(part)
        return
    groups, columns = sch.split(column, [None, interleave.COLUMNS])
    sch.reorder(parts, groups, part, columns)
    sch.tensorize(part, interleave.interleave_intrin(str(c.right_dtype), i.width))


def _pack_left(sch: Schedule, block: BlockRV, c: Contraction, i: Instruction, threads: int) -> None:
    """Copy the left operand so that the rows of a tile lie behind each other: batch, blocks, depth, row, element."""
    order = c.left_order
    assert order is not None
    tile = 16 * i.width
    copy = sch.cache_read(block, c.left, "global")
    batch = [order.index(b) for b in c.batch]
    row, depth = order.index(c.rows[0]), order.index(c.reduced[0])

    def layout(*index: PrimExpr) -> list[PrimExpr]:
        return [
            *(index[d] for d in batch),
            index[row] // i.rows,
            index[depth] // tile,
            index[row] % i.rows,
            index[depth] % tile,
        ]

    sch.transform_layout(block, ("read", read_of(sch, block, copy)), layout)
    _, inner = sch.split(sch.get_loops(copy)[-1], [None, tile])
    sch.vectorize(inner)
    if threads > 1:
        sch.parallel(sch.get_loops(copy)[0])


LOW_PRECISION = Operator("low-precision product", find_low_precision, schedule_low_precision)

__all__ = ["LOW_PRECISION", "Instruction", "choose_instruction", "find_low_precision", "schedule_low_precision"]
