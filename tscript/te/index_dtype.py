"""Changing the type of all index arithmetic of a function."""

from __future__ import annotations

from typing import Any

from tscript.ir import construct as make
from tscript.ir import expr as ex
from tscript.ir import stmt as st
from tscript.ir.buffer import Buffer
from tscript.ir.dtype import DataType
from tscript.ir.expr import IntImm, IterVar, PrimExpr, Range, Var
from tscript.ir.function import PrimFunc
from tscript.ir.functor import Rewriter
from tscript.ir.occurrences import any_below


def with_index_dtype(func: PrimFunc, dtype: str) -> PrimFunc:
    """`func` with loop variables, extents, shapes and subscripts of the integer type `dtype`.

    Where an axis is used as a value, it is cast back, so that values keep their types. Raises ValueError
    for what is no signed integer type of 32 or 64 bits.
    """
    target = DataType(dtype)
    if not target.is_int or target.bits not in (32, 64):
        raise ValueError(f"index arithmetic is done in int32 or int64, not in {dtype}")
    change = _IndexDtype(target)
    buffer_map = {p: change.map_buffer(b) for p, b in func.buffer_map.items()}
    params = tuple(change.variables.get(p, p) for p in func.params)
    body = change.rewrite(func.body)
    return func.replace(params=params, buffer_map=buffer_map, body=body)


class _Index(Rewriter):
    """Rewrites an expression in index position: variables and constants take the new type."""

    def __init__(self, owner: _IndexDtype) -> None:
        super().__init__()
        self.owner = owner

    def rewrite_Var(self, node: Var) -> PrimExpr:
        """The variable of the new type."""
        return self.owner.index_var(node)

    def rewrite_IntImm(self, node: IntImm) -> PrimExpr:
        """The constant in the new type."""
        return IntImm(self.owner.target, node.value) if node.dtype.is_int and node.dtype.bits >= 32 else node

    def rewrite_BufferLoad(self, node: ex.BufferLoad) -> PrimExpr:
        """A loaded subscript keeps its type and is cast."""
        return make.cast(self.owner.rewrite(node), self.owner.target)

    def rewrite_Cast(self, node: ex.Cast) -> PrimExpr:
        """A cast to an index type is one to the new type."""
        return make.cast(self.owner.rewrite(node.value), self.owner.target)

    def rewrite_Call(self, node: ex.Call) -> PrimExpr:
        """What a call computes is a value."""
        return make.cast(self.owner.rewrite(node), self.owner.target)

    def rewrite_Select(self, node: ex.Select) -> PrimExpr:
        """The condition is a value, the branches are indices."""
        return ex.Select(
            self.owner.rewrite(node.condition), self.rewrite(node.true_value), self.rewrite(node.false_value)
        )


class _IndexDtype(Rewriter):
    def __init__(self, target: DataType) -> None:
        super().__init__()
        self.target = target
        self.variables: dict[Var, Var] = {}
        self.index = _Index(self)

    def index_var(self, var: Var) -> Var:
        """The variable of the new type that stands for `var`."""
        if not var.dtype.is_int or var.dtype is self.target:
            return var
        if var not in self.variables:
            self.variables[var] = var.copy_with(dtype=self.target)
        return self.variables[var]

    def rewrite_Var(self, node: Var) -> PrimExpr:
        """As a value, the variable has its old type."""
        new = self.variables.get(node)
        return node if new is None else make.cast(new, node.dtype)

    def rewrite_CmpExpr(self, node: ex.CmpExpr) -> PrimExpr:
        """Indices are compared as such, so that conditions on axes still are conditions on axes."""
        a, b = self.rewrite(node.a), self.rewrite(node.b)
        if node.a.dtype.is_int and all(self._is_index(side) for side in (node.a, node.b)):
            a, b = self.index.rewrite(node.a), self.index.rewrite(node.b)
        return node if a is node.a and b is node.b else make.compare(type(node), a, b)

    def _is_index(self, e: PrimExpr) -> bool:
        """Whether it is made of axes and constants only."""
        return not any_below(
            e,
            lambda n: (
                n not in self.variables if isinstance(n, Var) else not isinstance(n, (IntImm, ex.ArithExpr))
            ),
        )  # fmt: skip

    def rewrite_buffer(self, buffer: Buffer) -> Buffer:
        """Shape, strides and offset are indices."""
        return buffer.replace(
            shape=tuple(self.index.rewrite(s) for s in buffer.shape),
            strides=tuple(self.index.rewrite(s) for s in buffer.strides),
            elem_offset=self.index.rewrite(buffer.elem_offset),
        )

    def _indices(self, node: Any) -> tuple[PrimExpr, ...]:
        return tuple(self.index.rewrite(i) for i in node.indices)

    def rewrite_BufferLoad(self, node: ex.BufferLoad) -> PrimExpr:
        """Subscripts are indices."""
        return ex.BufferLoad(self.map_buffer(node.buffer), self._indices(node), node.predicate)

    def rewrite_BufferStore(self, node: st.BufferStore) -> st.Stmt:
        """Subscripts are indices."""
        return node.replace(
            buffer=self.map_buffer(node.buffer), value=self.rewrite(node.value), indices=self._indices(node)
        )

    def rewrite_For(self, node: st.For) -> st.Stmt:
        """Start and extent are indices."""
        var = self.index_var(node.loop_var)
        low, extent = self.index.rewrite(node.min), self.index.rewrite(node.extent)
        return node.replace(loop_var=var, min=low, extent=extent, body=self.rewrite(node.body))

    def rewrite_Range(self, node: Range) -> Range:
        """Ends are indices."""
        return Range.from_min_extent(self.index.rewrite(node.min), self.index.rewrite(node.extent))

    def rewrite_IterVar(self, node: IterVar) -> IterVar:
        """An axis takes the new type."""
        return node.replace(dom=None if node.dom is None else self.rewrite(node.dom), var=self.index_var(node.var))

    def rewrite_BlockRealize(self, node: st.BlockRealize) -> st.Stmt:
        """Bindings are indices."""
        values = tuple(self.index.rewrite(v) for v in node.iter_values)
        return node.replace(iter_values=values, predicate=self.rewrite(node.predicate), block=self.rewrite(node.block))
