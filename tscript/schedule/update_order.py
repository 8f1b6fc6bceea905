"""Whether the updates of a block, made again and again, come to the same in any order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tscript.ir.buffer import Buffer
from tscript.ir.expr import Add, ArithExpr, BufferLoad, Div, Max, Min, Mul, PrimExpr, Sub
from tscript.ir.occurrences import any_below
from tscript.ir.stmt import Block, BufferStore

# Operators whose chains may be reordered, and those that may end such a chain with the old value on their left.
_FREE: Final[Sequence[tuple[tuple[type[ArithExpr], ...], tuple[type[ArithExpr], ...]]]] = (
    ((Add,), (Sub,)),
    ((Mul,), (Div,)),
    ((Min,), ()),
    ((Max,), ()),
)


def depends_on_order(block: Block, buffer: Buffer) -> bool:
    """Whether a block is seen to make its elements of `buffer` of their old values by arithmetic that is no repeated
    sum, product, minimum or maximum, as `B[i] = A[i, k] - B[i]` and `B[i] = B[i] * x + A[i, k]` do.

    Other forms are left to what reduce axes declare.
    """
    store = block.body
    if not isinstance(store, BufferStore) or store.buffer is not buffer or not _loads(store.value, buffer):
        return False
    path: list[tuple[type[ArithExpr], bool]] = []
    value: PrimExpr = store.value
    while not isinstance(value, BufferLoad) or value.buffer is not buffer:
        if not isinstance(value, ArithExpr):
            return False
        on_left, on_right = _loads(value.a, buffer), _loads(value.b, buffer)
        if on_left and on_right:
            return _is_arithmetic(value, buffer)
        path.append((type(value), on_left))
        value = value.a if on_left else value.b
    return not any(all(kind in chain or (kind in left and on_left) for kind, on_left in path) for chain, left in _FREE)


def _loads(e: PrimExpr, buffer: Buffer) -> bool:
    return any_below(e, lambda n: isinstance(n, BufferLoad) and n.buffer is buffer)


def _is_arithmetic(e: PrimExpr, buffer: Buffer) -> bool:
    """Whether only arithmetic leads to the loads of a buffer."""
    if not _loads(e, buffer) or (isinstance(e, BufferLoad) and e.buffer is buffer):
        return True
    return isinstance(e, ArithExpr) and _is_arithmetic(e.a, buffer) and _is_arithmetic(e.b, buffer)
