"""The part of a buffer that a statement touches."""

from __future__ import annotations

from tscript.arith.analyzer import Analyzer
from tscript.arith.int_set import NOTHING, IntervalSet, SetEvaluator, join, last_of
from tscript.ir.buffer import Buffer
from tscript.ir.expr import BufferLoad, IntImm, PrimExpr, Range, Var
from tscript.ir.functor import Visitor
from tscript.ir.stmt import BlockRealize, BufferStore, For, LetStmt, Stmt


def domain_touched(
    stmt: Stmt, buffer: Buffer, consider_loads: bool = True, consider_stores: bool = True
) -> list[Range]:
    """For each dimension, a range that holds all subscripts of `buffer` in `stmt`; conditions are not looked at.

    Where a subscript cannot be bounded the whole dimension is given. A buffer that is not touched gives ranges of
    extent zero.
    """
    found = _Touched(buffer, consider_loads, consider_stores)
    found.visit(stmt)
    result: list[Range] = []
    for dim, extent in zip(found.sets, buffer.shape, strict=True):
        whole = Range.from_min_extent(IntImm(extent.dtype, 0), extent)
        if dim.is_nothing():
            result.append(Range.from_min_extent(IntImm(extent.dtype, 0), IntImm(extent.dtype, 0)))
            continue
        touched = dim.as_range()
        result.append(whole if touched is None else found.simplified(touched))
    return result


class _Touched(Visitor):
    def __init__(self, buffer: Buffer, loads: bool, stores: bool) -> None:
        self.buffer, self.loads, self.stores = buffer, loads, stores
        self.sets: list[IntervalSet] = [NOTHING] * len(buffer.shape)
        self.relaxed: dict[Var, IntervalSet] = {}
        self.evaluator = SetEvaluator(self.relaxed, Analyzer())

    def _relax(self, var: Var, values: IntervalSet) -> None:
        self.relaxed[var] = values
        self.evaluator.relax(self.relaxed)

    def simplified(self, dom: Range) -> Range:
        """A range with simplified ends."""
        return Range.from_min_extent(self.evaluator.simple(dom.min), self.evaluator.simple(dom.extent))

    def _touch(self, indices: tuple[PrimExpr, ...]) -> None:
        self.sets = [join(s, self.evaluator.of(i), self.evaluator) for s, i in zip(self.sets, indices, strict=True)]

    def _range(self, dom: Range) -> IntervalSet:
        low, last = self.evaluator.of(dom.min).min_value, last_of(dom)
        high = None if last is None else self.evaluator.of(self.evaluator.simple(last)).max_value
        return IntervalSet(low, None if high is None else self.evaluator.simple(high))

    def visit_For(self, node: For) -> None:
        """A loop that never runs touches nothing."""
        if isinstance(node.extent, IntImm) and node.extent.value <= 0:
            return
        self.visit(node.min)
        self.visit(node.extent)
        self._relax(node.loop_var, self._range(Range.from_min_extent(node.min, node.extent)))
        self.visit(node.body)

    def visit_LetStmt(self, node: LetStmt) -> None:
        """The variable runs through what its value does."""
        self.visit(node.value)
        if node.value.dtype.is_integer:
            self._relax(node.var, self.evaluator.of(node.value))
        self.visit(node.body)

    def visit_BlockRealize(self, node: BlockRealize) -> None:
        """Axes run through what their bindings do."""
        for value, axis in zip(node.iter_values, node.block.iter_vars, strict=True):
            self.visit(value)
            self._relax(axis.var, self.evaluator.of(value))
        self.visit(node.predicate)
        if node.block.init is not None:
            self.visit(node.block.init)
        self.visit(node.block.body)

    def visit_BufferLoad(self, node: BufferLoad) -> None:
        """A load."""
        if self.loads and node.buffer is self.buffer:
            self._touch(node.indices)
        self.visit_children(node)

    def visit_BufferStore(self, node: BufferStore) -> None:
        """A store."""
        if self.stores and node.buffer is self.buffer:
            self._touch(node.indices)
        self.visit_children(node)


__all__ = ["domain_touched"]
