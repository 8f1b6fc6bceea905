"""Whether the updates of a block, made again and again, come to the same in any order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tscript.ir.buffer import Buffer
from tscript.ir.expr import (
    Add,
    ArithExpr,
    BufferLoad,
    Call,
    Div,
    IntImm,
    IterVar,
    Max,
    Min,
    Mul,
    Op,
    PrimExpr,
    Select,
    Sub,
    Var,
)
from tscript.ir.linear import linear_form
from tscript.ir.occurrences import any_below, mentions
from tscript.ir.stmt import Block, BlockRealize, BufferStore, For, IfThenElse
from tscript.schedule.errors import refuse

Kinds = frozenset[str]
"""The kinds of updates that an expression is one of; those of one kind may be made in any order."""

ALL: Final = frozenset({"sum", "product", "min", "max", "tir.bitwise_and", "tir.bitwise_or", "tir.bitwise_xor", "set"})

# Operators by the kind whose updates they make, and those that do so only with the old value on their left.
_KIND: Final[dict[type[PrimExpr], str]] = {Add: "sum", Mul: "product", Min: "min", Max: "max"}
_LEFT_KIND: Final[dict[type[PrimExpr], str]] = {Sub: "sum", Div: "product"}


def depends_on_order(block: Block, buffer: Buffer) -> bool:
    """Whether a block is seen to update its elements of `buffer` in a way that is no repeated sum, product, minimum,
    maximum or bitwise operation, as `B[i] = A[i, k] - B[i]`, `B[i] = B[i] * x + A[i, k]` and `B[i] = A[i, k]` do.

    Choices by conditions that do not read the buffer are looked through. Other forms are left to what reduce axes
    declare: the logarithm of a sum of exponentials may come in any order, and so may a choice that compares with the
    old value.
    """
    reduced: dict[Var, None] = {a.var: None for a in block.iter_vars if a.iter_type == IterVar.CommReduce}
    store = block.body
    while isinstance(store, IfThenElse) and store.else_case is None and not _loads(store.condition, buffer):
        store = store.then_case
    if not isinstance(store, BufferStore) or store.buffer is not buffer:
        return False
    # One and the same update may be made, or left out, in any order.
    kinds = _Updates(buffer, reduced).kinds(store.value) if mentions(store.value, reduced) else None
    return kinds is not None and not kinds


class _Updates:
    """Tells of which kinds the updates are that expressions make of the old values of `buffer`."""

    def __init__(self, buffer: Buffer, reduced: dict[Var, None]) -> None:
        self.buffer = buffer
        self.reduced = reduced

    def kinds(self, e: PrimExpr) -> Kinds | None:
        """The kinds that an expression may be taken for; None where its form says nothing."""
        if isinstance(e, BufferLoad) and e.buffer is self.buffer:
            return ALL
        if not _loads(e, self.buffer):
            # The same value in all iterations may be set by any of them.
            varies = mentions(e, self.reduced) or any_below(e, lambda n: isinstance(n, Call))
            return frozenset() if varies else frozenset({"set"})
        if isinstance(e, Select):
            return self._chosen(e.condition, e.true_value, e.false_value)
        if isinstance(e, ArithExpr):
            return self._combined(e, e.a, e.b, _KIND.get(type(e)), _LEFT_KIND.get(type(e)))
        if isinstance(e, Call) and isinstance(e.op, Op):
            if e.op.name == "tir.if_then_else":
                return self._chosen(*e.args)
            if e.op.name in ALL:
                return self._combined(e, e.args[0], e.args[1], e.op.name, None)
        return None

    def _chosen(self, condition: PrimExpr, a: PrimExpr, b: PrimExpr) -> Kinds | None:
        if _loads(condition, self.buffer):
            return None
        first, second = self.kinds(a), self.kinds(b)
        return None if first is None or second is None else first & second

    def _combined(self, e: PrimExpr, a: PrimExpr, b: PrimExpr, kind: str | None, left_kind: str | None) -> Kinds | None:
        on_left, on_right = _loads(a, self.buffer), _loads(b, self.buffer)
        if on_left and on_right:
            return frozenset() if self._is_arithmetic(e) else None
        inner = self.kinds(a if on_left else b)
        own = {k for k in (kind, left_kind if on_left else None) if k is not None}
        return None if inner is None else inner & own

    def _is_arithmetic(self, e: PrimExpr) -> bool:
        """Whether only arithmetic leads to the loads of the buffer."""
        if not _loads(e, self.buffer) or (isinstance(e, BufferLoad) and e.buffer is self.buffer):
            return True
        return isinstance(e, ArithExpr) and self._is_arithmetic(e.a) and self._is_arithmetic(e.b)


def _loads(e: PrimExpr, buffer: Buffer) -> bool:
    return any_below(e, lambda n: isinstance(n, BufferLoad) and n.buffer is buffer)


def require_order_kept(realize: BlockRealize, loops: Sequence[For], moving: Mapping[Var, object]) -> None:
    """Refuse to run a block whose updates depend on their order in a new nest, with a loop for each axis, in which
    they may come in another order than in `loops`; `moving` holds the axes whose values come from loops further out.
    """
    block = realize.block
    buffer = next((w.buffer for w in block.writes if depends_on_order(block, w.buffer)), None)
    if buffer is None:
        return
    values = {
        axis.var: value
        for axis, value in zip(block.iter_vars, realize.iter_values, strict=True)
        if axis.iter_type == IterVar.CommReduce
    }
    if any(v in moving for v in values) or not _goes_up(list(values.values()), loops):
        refuse(
            f"what {{0}} writes to `{buffer.name}` depends on the order of its updates, which is not certain to stay",
            block,
            hint="let the loops of the reduction go up, in the order of its axes, and move it whole",
        )


def _goes_up(values: Sequence[PrimExpr], loops: Sequence[For]) -> bool:
    """Whether values, compared one after the other, grow from each iteration of a nest to the next that changes any."""
    places = {loop.loop_var: k for k, loop in enumerate(loops)}
    used: list[int] = []
    for value in values:
        terms, _ = linear_form(value)
        steps: list[tuple[int, int, int | None]] = []
        for term, factor in terms.items():
            if not isinstance(term, Var) or term not in places:
                return False
            extent = loops[places[term]].extent
            steps.append((places[term], factor, extent.value if isinstance(extent, IntImm) else None))
        reach: int | None = 0
        for _, factor, extent in sorted(steps, reverse=True):
            # Each step is larger than all that the loops further in add.
            if reach is None or factor <= reach:
                return False
            reach = None if extent is None else reach + factor * (extent - 1)
        used += sorted(k for k, _, _ in steps)
    return used == sorted(used)
