"""Strides that blocks ask for: the annotation `buffer_dim_align`, which `storage_align` leaves.

A stride that is not `factor * k + offset` is raised to the next number that is. Lowering and the interpreter share
this, so that the strides that a view of such a buffer sees are the same in both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tscript.ir.buffer import Buffer
from tscript.ir.construct import add, const, floormod, mul, sub
from tscript.ir.expr import IntImm, PrimExpr
from tscript.ir.function import PrimFunc
from tscript.ir.functor import Substitute, pre_order_visit
from tscript.ir.stmt import Block

ALIGNMENT: Final = "buffer_dim_align"
"""The annotation: a list of [number of the write, dimension, factor, offset]; on an allocation, without the number."""

Alignment = dict[int, tuple[int, int]]
"""Factor and offset of the stride of some dimensions."""


def with_alignment(func: PrimFunc) -> PrimFunc:
    """`func` with the strides that blocks ask for, of buffers that blocks allocate; itself where none do.

    >>> from tscript.script import tir as T
    >>> @T.prim_func
    ... def func(A: T.Buffer((4, 30), "int8")):
    ...     B = T.alloc_buffer((4, 30), "int8")
    ...     for i, j in T.grid(4, 30):
    ...         with T.block("B"):
    ...             vi, vj = T.axis.remap("SS", [i, j])
    ...             T.block_attr({"buffer_dim_align": [[0, 0, 32, 8]]})
    ...             B[vi, vj] = A[vi, vj]
    >>> [int(s) for s in with_alignment(func).body.block.alloc_buffers[0].strides]
    [40, 1]
    """
    asked = alignments(func)
    new: dict[Buffer, Buffer] = {}
    for buffer, entries in asked.items():
        if not buffer.strides:
            new[buffer] = buffer.replace(strides=aligned_strides(buffer.shape, entries))
    return func.replace(body=Substitute({}, new).rewrite(func.body)) if new else func


def alignments(func: PrimFunc) -> dict[Buffer, Alignment]:
    """What blocks ask for, by buffer: only of those that a block allocates, and where the annotation has its form."""
    blocks: list[Block] = []

    def look(node: object) -> bool:
        if isinstance(node, Block):
            blocks.append(node)
        return not isinstance(node, (PrimExpr, Buffer))

    pre_order_visit(func.body, look)
    if not any(ALIGNMENT in b.annotations for b in blocks):
        return {}
    own = {buffer for b in blocks for buffer in b.alloc_buffers}
    found: dict[Buffer, Alignment] = {}
    for block in blocks:
        for number, dimension, factor, offset in read_entries(block.annotations, 4):
            if not 0 <= number < len(block.writes) or factor <= 0:
                continue
            buffer = block.writes[number].buffer
            if buffer in own and 0 <= dimension < buffer.ndim:
                found.setdefault(buffer, {})[dimension] = factor, offset
    return found


def read_entries(annotations: Mapping[str, Any], length: int) -> list[tuple[int, ...]]:
    """The entries of the annotation that have `length` integers each."""
    given: Any = annotations.get(ALIGNMENT, ())
    found: list[tuple[int, ...]] = []
    for entry in given if isinstance(given, (tuple, list)) else ():  # pyright: ignore[reportUnknownVariableType]
        if isinstance(entry, (tuple, list)) and len(entry) == length:  # pyright: ignore[reportUnknownArgumentType]
            numbers = [n.value if isinstance(n, IntImm) else n for n in entry]  # pyright: ignore[reportUnknownVariableType]
            if all(isinstance(n, int) for n in numbers):  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
                found.append(tuple(numbers))  # pyright: ignore[reportUnknownArgumentType]
    return found


def aligned_strides(shape: Sequence[PrimExpr], entries: Alignment) -> tuple[PrimExpr, ...]:
    """Row-major strides, in elements, of which those of some dimensions are raised as asked.

    >>> [int(s) for s in aligned_strides([const(3), const(20), const(30)], {1: (32, 8), 0: (16, 0)})]
    [800, 40, 1]
    """
    result: list[PrimExpr] = []
    stride: PrimExpr = const(1, shape[-1].dtype) if shape else const(1)
    for d in reversed(range(len(shape))):
        if d in entries:
            factor, offset = (const(n, stride.dtype) for n in entries[d])
            # The distance to the next number that leaves the rest `offset`.
            stride = add(stride, floormod(sub(offset, stride), factor))
        result.append(stride)
        stride = mul(stride, shape[d])
    return tuple(reversed(result))


__all__ = ["ALIGNMENT", "Alignment", "aligned_strides", "alignments", "read_entries", "with_alignment"]
