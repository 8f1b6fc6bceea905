"""Copies of statements with variables replaced: what becomes constant by that is computed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tscript.ir import construct
from tscript.ir.expr import Add, And, Cast, CmpExpr, FloorDiv, FloorMod, IntImm, Let, Mul, Not, Or, PrimExpr, Sub, Var
from tscript.ir.functor import Substitute
from tscript.ir.stmt import For, IfThenElse, Stmt, is_no_op, seq


class Copy(Substitute):
    """A copy with variables replaced and, if `fresh`, new variables for all that it defines."""

    def __init__(self, values: Mapping[Var, PrimExpr], fresh: bool = False) -> None:
        super().__init__(values)
        self._fresh = fresh

    def define(self, var: Var) -> Var:
        """The variable to bind where `var` was bound."""
        if not self._fresh:
            return super().define(var)
        new = var.copy_with()
        self._variables[var] = new
        return new

    def rewrite_Let(self, e: Let) -> Any:
        """The variable gets its replacement before the body is looked at."""
        value = self.rewrite(e.value)
        var = self.define(e.var)
        return Let(var, value, self.rewrite(e.body))

    def rewrite_IfThenElse(self, s: IfThenElse) -> Any:
        """Where the condition has become constant, only the branch that is taken is copied."""
        condition = self.rewrite(s.condition)
        if isinstance(condition, IntImm):
            taken = s.then_case if condition.value else s.else_case
            return seq() if taken is None else self.rewrite(taken)
        then = self.rewrite(s.then_case)
        otherwise = None if s.else_case is None else self.rewrite(s.else_case)
        if condition is s.condition and then is s.then_case and otherwise is s.else_case:
            return s
        return s.replace(condition=condition, then_case=then, else_case=otherwise)

    def leave_For(self, loop: For) -> Stmt:
        """A loop in which nothing is left to do goes."""
        return loop if not is_no_op(loop.body) else seq()

    def leave_Add(self, e: Add) -> PrimExpr:
        """A sum, folded."""
        return construct.add(e.a, e.b) if e.dtype.is_int else e

    def leave_Sub(self, e: Sub) -> PrimExpr:
        """A difference, folded."""
        return construct.sub(e.a, e.b) if e.dtype.is_int else e

    def leave_Mul(self, e: Mul) -> PrimExpr:
        """A product, folded."""
        return construct.mul(e.a, e.b) if e.dtype.is_int else e

    def leave_FloorDiv(self, e: FloorDiv) -> PrimExpr:
        """A quotient, folded."""
        return construct.floordiv(e.a, e.b) if e.dtype.is_int and _is_nonzero(e.b) else e

    def leave_FloorMod(self, e: FloorMod) -> PrimExpr:
        """A remainder, folded."""
        return construct.floormod(e.a, e.b) if e.dtype.is_int and _is_nonzero(e.b) else e

    def leave_Cast(self, e: Cast) -> PrimExpr:
        """A cast, folded."""
        return construct.cast(e.value, e.dtype) if isinstance(e.value, IntImm) else e

    def leave_CmpExpr(self, e: CmpExpr) -> PrimExpr:
        """A comparison, folded."""
        return construct.compare(type(e), e.a, e.b) if e.a.dtype.is_integer else e

    def leave_And(self, e: And) -> PrimExpr:
        """A conjunction, folded."""
        return construct.and_(e.a, e.b)

    def leave_Or(self, e: Or) -> PrimExpr:
        """A disjunction, folded."""
        return construct.or_(e.a, e.b)

    def leave_Not(self, e: Not) -> PrimExpr:
        """A negation, folded."""
        return construct.not_(e.a)


def _is_nonzero(e: PrimExpr) -> bool:
    return isinstance(e, IntImm) and e.value != 0
