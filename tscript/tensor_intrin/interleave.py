"""Rows put side by side, as instructions want them that add up products of neighbouring elements."""

from __future__ import annotations

from functools import partial
from typing import Any

from tscript.ir.dtype import DataType
from tscript.ir.function import PrimFunc
from tscript.ir.tensor_intrin import TensorIntrin
from tscript.tensor_intrin import dialect as T

COLUMNS = 16
"""How many columns are done at once: with 4 bytes of each they fill the largest vector."""
INTERLEAVED = (("bfloat16", 2), ("int8", 4), ("uint8", 4))
"""Types of elements, and how many rows of them make 4 bytes."""


def get_interleave_intrin(dtype: str, rows: int) -> tuple[PrimFunc, PrimFunc]:
    """`P[16, rows] = transposed B[rows, 16]`: a load for each row, a shuffle and one store.

    ValueError for other numbers of rows than two and four.

    >>> desc, impl = get_interleave_intrin("bfloat16", 2)
    >>> [[int(e) for e in b.shape] for b in desc.buffer_map.values()]
    [[2, 16], [16, 2]]
    """
    if rows not in (2, 4):
        raise ValueError(f"two or four rows can be put side by side, not {rows}")
    size = COLUMNS * rows

    @T.prim_func
    def interleave_desc(b: T.handle, p: T.handle) -> None:
        B = T.match_buffer(b, (rows, 16), dtype, offset_factor=1)
        P = T.match_buffer(p, (16, rows), dtype, offset_factor=1)
        with T.block("root"):
            T.reads(B[0:rows, 0:16])
            T.writes(P[0:16, 0:rows])
            for i, j in T.grid(rows, 16):
                with T.block("element"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    P[vj, vi] = B[vi, vj]

    @T.prim_func
    def interleave_impl(b: T.handle, p: T.handle) -> None:
        b_row = T.int32()
        B = T.match_buffer(b, (rows, 16), dtype, offset_factor=1, strides=[b_row, 1])
        P = T.match_buffer(p, (16, rows), dtype, offset_factor=1)
        with T.block("root"):
            T.reads(B[0:rows, 0:16])
            T.writes(P[0:16, 0:rows])
            flat = T.decl_buffer((size,), dtype, data=P.data, elem_offset=P.elem_offset)
            flat[0:size] = _side_by_side(dtype, [B[i, 0:16] for i in range(rows)])

    return interleave_desc, interleave_impl


def _side_by_side(dtype: str, rows: list[Any]) -> Any:
    """Neighbours two by two, then pairs of them as one element: each step is one or two instructions.

    Elements move as integers, since processors without arithmetic for a type would convert it, NaN with it.
    """
    lanes = [half + column for column in range(COLUMNS) for half in (0, COLUMNS)]
    bits, made = DataType(dtype).bits, rows
    while len(made) > 1:
        same = [T.reinterpret(f"uint{bits}x{COLUMNS}", row) for row in made]
        made = [T.Shuffle(same[n : n + 2], lanes) for n in range(0, len(same), 2)]
        bits *= 2
    return T.reinterpret(f"{dtype}x{len(rows) * COLUMNS}", made[0])


def interleave_intrin(dtype: str, rows: int) -> str:
    """The name of the registered intrinsic for a pair of `INTERLEAVED`.

    >>> interleave_intrin("int8", 4)
    'interleave_4x16_int8'
    """
    return f"interleave_{rows}x{COLUMNS}_{dtype}"


for _dtype, _rows in INTERLEAVED:
    TensorIntrin.register_later(interleave_intrin(_dtype, _rows), partial(get_interleave_intrin, _dtype, _rows))

__all__ = ["COLUMNS", "INTERLEAVED", "get_interleave_intrin", "interleave_intrin"]
