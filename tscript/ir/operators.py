"""Python's operators on expressions. What each does is filled in by `construct`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from tscript.ir.expr import ExprLike, IterVar, PrimExpr


class Operators:
    """Where `construct` puts the functions behind Python's operators (it needs the nodes first)."""

    table: ClassVar[dict[str, Callable[..., Any]]] = {}


def operate(name: str, *args: object) -> Any:
    """The result of the operator called `name`."""
    return Operators.table[name](*args)


class Arithmetic:
    """Python's operators, each building an expression."""

    __slots__ = ()

    def __add__(self, other: ExprLike | IterVar) -> PrimExpr:
        return operate("add", self, other)

    def __radd__(self, other: ExprLike | IterVar) -> PrimExpr:
        return operate("add", other, self)

    def __sub__(self, other: ExprLike | IterVar) -> PrimExpr:
        return operate("sub", self, other)

    def __rsub__(self, other: ExprLike | IterVar) -> PrimExpr:
        return operate("sub", other, self)

    def __mul__(self, other: ExprLike | IterVar) -> PrimExpr:
        return operate("mul", self, other)

    def __rmul__(self, other: ExprLike | IterVar) -> PrimExpr:
        return operate("mul", other, self)

    def __truediv__(self, other: ExprLike | IterVar) -> PrimExpr:
        return operate("div", self, other)

    def __rtruediv__(self, other: ExprLike | IterVar) -> PrimExpr:
        return operate("div", other, self)

    def __floordiv__(self, other: ExprLike | IterVar) -> PrimExpr:
        return operate("floordiv", self, other)

    def __rfloordiv__(self, other: ExprLike | IterVar) -> PrimExpr:
        return operate("floordiv", other, self)

    def __mod__(self, other: ExprLike | IterVar) -> PrimExpr:
        return operate("floormod", self, other)

    def __rmod__(self, other: ExprLike | IterVar) -> PrimExpr:
        return operate("floormod", other, self)

    def __neg__(self) -> PrimExpr:
        return operate("neg", self)

    def __lshift__(self, other: ExprLike | IterVar) -> PrimExpr:
        return operate("shift_left", self, other)

    def __rlshift__(self, other: ExprLike | IterVar) -> PrimExpr:
        return operate("shift_left", other, self)

    def __rshift__(self, other: ExprLike | IterVar) -> PrimExpr:
        return operate("shift_right", self, other)

    def __rrshift__(self, other: ExprLike | IterVar) -> PrimExpr:
        return operate("shift_right", other, self)

    def __and__(self, other: ExprLike | IterVar) -> PrimExpr:
        return operate("bitwise_and", self, other)

    def __rand__(self, other: ExprLike | IterVar) -> PrimExpr:
        return operate("bitwise_and", other, self)

    def __or__(self, other: ExprLike | IterVar) -> PrimExpr:
        return operate("bitwise_or", self, other)

    def __ror__(self, other: ExprLike | IterVar) -> PrimExpr:
        return operate("bitwise_or", other, self)

    def __xor__(self, other: ExprLike | IterVar) -> PrimExpr:
        return operate("bitwise_xor", self, other)

    def __rxor__(self, other: ExprLike | IterVar) -> PrimExpr:
        return operate("bitwise_xor", other, self)

    def __invert__(self) -> PrimExpr:
        return operate("bitwise_not", self)

    def __lt__(self, other: ExprLike | IterVar) -> PrimExpr:
        return operate("lt", self, other)

    def __le__(self, other: ExprLike | IterVar) -> PrimExpr:
        return operate("le", self, other)

    def __gt__(self, other: ExprLike | IterVar) -> PrimExpr:
        return operate("gt", self, other)

    def __ge__(self, other: ExprLike | IterVar) -> PrimExpr:
        return operate("ge", self, other)
