"""Sums of products of two operands: matrix products, batches of them, and convolutions, seen as one form."""

from __future__ import annotations

from dataclasses import dataclass

from tscript.ir.dtype import DataType
from tscript.ir.expr import Add, BufferLoad, Cast, FloatImm, IntImm, Mul, PrimExpr, Var
from tscript.ir.function import PrimFunc
from tscript.ir.occurrences import variables
from tscript.ir.stmt import BufferStore
from tscript.library.nests import Nest, nests_of


@dataclass(frozen=True)
class Contraction:
    """`C[batch, rows, column] = sum over reduced of left[batch, rows, reduced] * right[batch, reduced, column]`.

    Axes are numbers of the block's axes, and so of the loops around it. The column is the last dimension of C, and
    only the right operand moves along with it; rows are what the right operand does not depend on, and may stand in any
    expression in the left one, as in a convolution. Every subscript of the right operand is one axis or a constant.
    """

    position: int
    """Which block of the function it is; those before make its operands, those after take its result."""
    count: int
    """How many blocks the function has."""
    batch: tuple[int, ...]
    rows: tuple[int, ...]
    column: int
    reduced: tuple[int, ...]
    extents: tuple[int | None, ...]
    """Of all axes; None for one that is known only when the program runs."""
    left: int
    """The number of the left operand among what the block reads."""
    right: int
    right_order: tuple[int, ...]
    """The axis of each dimension of the right operand; -1 for a constant."""
    left_order: tuple[int, ...] | None
    """As `right_order`, for the left operand; None where its subscripts are no bare axes."""
    left_dtype: DataType
    right_dtype: DataType
    dtype: DataType

    def size(self, axes: tuple[int, ...], unknown: int = 1024) -> int:
        """The product of the extents of some axes, `unknown` for each whose extent is not known."""
        product = 1
        for a in axes:
            extent = self.extents[a]
            product *= unknown if extent is None else extent
        return product


def find_contraction(func: PrimFunc) -> Contraction | None:
    """The contraction that a function computes, with elementwise blocks before and after; None if it is another.

    >>> from tscript.testing.workloads import conv2d, softmax
    >>> found = find_contraction(conv2d(8, 4, 16).func)
    >>> found.rows, found.column, found.reduced
    ((0, 1, 2), 3, (4, 5, 6))
    >>> find_contraction(softmax(8, 8).func)
    """
    nests = nests_of(func)
    if nests is None:
        return None
    reducing = [n for n, nest in enumerate(nests) if "R" in nest.kinds]
    return _contraction(nests[reducing[0]], reducing[0], len(nests)) if len(reducing) == 1 else None


def _contraction(nest: Nest, position: int, count: int) -> Contraction | None:
    operands = _operands(nest)
    if operands is None or not nest.store.indices:
        return None
    axes = {v: n for n, v in enumerate(nest.axes)}
    spatial = tuple(n for n, k in enumerate(nest.kinds) if k == "S")
    reduced = tuple(n for n, k in enumerate(nest.kinds) if k == "R")
    column = spatial[-1]
    moving = [o for o in operands if nest.axes[column] in variables(*o.indices)]
    if len(moving) != 1 or operands[0].buffer is operands[1].buffer:
        return None
    right = moving[0]
    left = operands[1] if right is operands[0] else operands[0]
    right_order, left_order = _order(right.indices, axes), _order(left.indices, axes)
    if right_order is None:
        return None
    used = {o for o in right_order if o >= 0}
    rows = tuple(n for n in spatial if n not in used)
    buffers = [r.buffer for r in nest.block.reads]
    once = buffers.count(left.buffer) == 1 and buffers.count(right.buffer) == 1
    if not rows or not once or not any(r in used for r in reduced):
        return None
    return Contraction(
        position=position,
        count=count,
        batch=tuple(n for n in spatial if n in used and n != column),
        rows=rows,
        column=column,
        reduced=reduced,
        extents=nest.extents,
        left=buffers.index(left.buffer),
        right=buffers.index(right.buffer),
        right_order=right_order,
        left_order=left_order,
        left_dtype=left.buffer.dtype,
        right_dtype=right.buffer.dtype,
        dtype=nest.buffer.dtype,
    )


def _operands(nest: Nest) -> tuple[BufferLoad, BufferLoad] | None:
    """The two factors of what is summed up from zero; each is an element, or one converted."""
    init, product = nest.block.init, nest.value
    if nest.op is not Add or not isinstance(init, BufferStore) or not isinstance(product, Mul):
        return None
    if not isinstance(init.value, (IntImm, FloatImm)) or init.value.value != 0:
        return None
    x, y = _element(product.a), _element(product.b)
    return None if x is None or y is None else (x, y)


def _element(e: PrimExpr) -> BufferLoad | None:
    inner = e.value if isinstance(e, Cast) else e
    return inner if isinstance(inner, BufferLoad) else None


def _order(indices: tuple[PrimExpr, ...], axes: dict[Var, int]) -> tuple[int, ...] | None:
    """The axis of each subscript, -1 for a constant; None where one is another expression, or an axis stands twice."""
    found: list[int] = []
    for i in indices:
        if isinstance(i, IntImm):
            found.append(-1)
        elif isinstance(i, Var) and i in axes and axes[i] not in found:
            found.append(axes[i])
        else:
            return None
    return tuple(found)


__all__ = ["Contraction", "find_contraction"]
