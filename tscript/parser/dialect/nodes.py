"""Node classes as functions: they build exactly the node they name, and fold nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import Any

from tscript.ir import expr as ex
from tscript.ir.buffer import Buffer, subscript
from tscript.ir.construct import const, convert
from tscript.ir.dtype import DataType, int_range
from tscript.ir.expr import CommReducer as CommReducerNode
from tscript.ir.expr import ExprLike, IterVar, PrimExpr, Range, SizeVar, Var
from tscript.ir.index_map import IndexMap
from tscript.parser.dialect.control import iter_var, reduce
from tscript.parser.dialect.values import Value
from tscript.support.wording import kind_of
from tscript.target.target import Target


class CallEffectKind(IntEnum):
    """What a call may do beside computing its value."""

    ExprAnnotation = 0
    Pure = 1
    ReadState = 2
    UpdateState = 3
    Opaque = 3
    SpecialCallArg = 4
    EmbedInfo = 5
    ControlJump = 6


def IntImm(dtype: str, value: int) -> ex.IntImm:
    """An integer or bool constant. Raises ValueError when the value does not fit."""
    return ex.IntImm(DataType(dtype), value)


def FloatImm(dtype: str, value: float) -> ex.FloatImm:
    """A floating-point constant."""
    return ex.FloatImm(DataType(dtype), value)


def StringImm(value: str) -> ex.StringImm:
    """A text constant."""
    return ex.StringImm(value)


def _operands(a: Value, b: Value) -> tuple[PrimExpr, PrimExpr]:
    """Both as expressions; a Python number takes the other side's type where it fits."""
    if isinstance(a, PrimExpr) and not isinstance(b, PrimExpr):
        return a, _beside(b, a.dtype)
    if isinstance(b, PrimExpr) and not isinstance(a, PrimExpr):
        return _beside(a, b.dtype), b
    return convert(a), convert(b)


def _beside(value: Value, dtype: DataType) -> PrimExpr:
    fits = dtype.is_float if isinstance(value, float) else dtype.is_float or dtype.is_integer or dtype.is_bool
    if isinstance(value, int) and fits and not dtype.is_float:
        low, high = int_range(dtype.element)
        fits = low <= value <= high
    return const(value, dtype) if fits and isinstance(value, (int, float)) else convert(value)


def Add(a: Value, b: Value) -> ex.Add:
    """`a + b`, not folded; both sides have one type."""
    return ex.Add(*_operands(a, b))


def Sub(a: Value, b: Value) -> ex.Sub:
    """`a - b`, not folded; both sides have one type."""
    return ex.Sub(*_operands(a, b))


def Mul(a: Value, b: Value) -> ex.Mul:
    """`a * b`, not folded; both sides have one type."""
    return ex.Mul(*_operands(a, b))


def Div(a: Value, b: Value) -> ex.Div:
    """`a / b` of floats, `T.truncdiv(a, b)` of integers, not folded; both sides have one type."""
    return ex.Div(*_operands(a, b))


def Mod(a: Value, b: Value) -> ex.Mod:
    """`T.truncmod(a, b)`, not folded; both sides have one type."""
    return ex.Mod(*_operands(a, b))


def FloorDiv(a: Value, b: Value) -> ex.FloorDiv:
    """`a // b`, not folded; both sides have one type."""
    return ex.FloorDiv(*_operands(a, b))


def FloorMod(a: Value, b: Value) -> ex.FloorMod:
    """`a % b`, not folded; both sides have one type."""
    return ex.FloorMod(*_operands(a, b))


def Min(a: Value, b: Value) -> ex.Min:
    """`T.min(a, b)`, not folded; both sides have one type."""
    return ex.Min(*_operands(a, b))


def Max(a: Value, b: Value) -> ex.Max:
    """`T.max(a, b)`, not folded; both sides have one type."""
    return ex.Max(*_operands(a, b))


def EQ(a: Value, b: Value) -> ex.EQ:
    """`a == b`, not folded; both sides have one type."""
    return ex.EQ(*_operands(a, b))


def NE(a: Value, b: Value) -> ex.NE:
    """`a != b`, not folded; both sides have one type."""
    return ex.NE(*_operands(a, b))


def LT(a: Value, b: Value) -> ex.LT:
    """`a < b`, not folded; both sides have one type."""
    return ex.LT(*_operands(a, b))


def LE(a: Value, b: Value) -> ex.LE:
    """`a <= b`, not folded; both sides have one type."""
    return ex.LE(*_operands(a, b))


def GT(a: Value, b: Value) -> ex.GT:
    """`a > b`, not folded; both sides have one type."""
    return ex.GT(*_operands(a, b))


def GE(a: Value, b: Value) -> ex.GE:
    """`a >= b`, not folded; both sides have one type."""
    return ex.GE(*_operands(a, b))


def And(a: Value, b: Value) -> ex.And:
    """`a and b`, not folded; both sides have one type."""
    return ex.And(*_operands(a, b))


def Or(a: Value, b: Value) -> ex.Or:
    """`a or b`, not folded; both sides have one type."""
    return ex.Or(*_operands(a, b))


def Not(a: Value) -> ex.Not:
    """`not a`, not folded."""
    return ex.Not(convert(a))


def BufferLoad(buffer: Buffer, indices: Sequence[Any], predicate: PrimExpr | None = None) -> ex.BufferLoad:
    """An element of a buffer; with a predicate, the lanes where it holds."""
    loaded = subscript(buffer, tuple(indices))
    if not isinstance(loaded, ex.BufferLoad):
        raise TypeError(f"T.BufferLoad of {buffer.name} takes indices, not slices without a step")
    return ex.BufferLoad(buffer, loaded.indices, predicate)


def ProducerLoad(producer: Any, indices: Sequence[Value]) -> ex.ProducerLoad:
    """An element of a tensor expression."""
    return ex.ProducerLoad(producer, tuple(convert(i) for i in indices))


def CommReducer(
    lhs: Sequence[Var], rhs: Sequence[Var], result: Sequence[Value], identity_element: Sequence[Value]
) -> CommReducerNode:
    """An associative, commutative combination; `comm_reducer` makes one from a function."""
    for side in (lhs, rhs):
        for v in side:
            if not isinstance(v, Var):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise TypeError(f"the operands of T.CommReducer are variables, not {kind_of(v)}")
    return CommReducerNode(
        tuple(lhs), tuple(rhs), tuple(convert(r) for r in result), tuple(convert(e) for e in identity_element)
    )


def Reduce(
    combiner: CommReducerNode,
    src: Sequence[Value],
    rdom: Sequence[ex.IterVar],
    condition: Value,
    value_index: int,
    init: Sequence[Value] = (),
) -> PrimExpr:
    """A reduction of `src` over the axes `rdom`."""
    return reduce(combiner, src, init, rdom, condition, value_index)


def index_map(
    mapping: Callable[..., Any],
    *,
    inverse_index_map: Callable[..., Any] | IndexMap | None = None,
    index_dtype: str = "int64",
) -> IndexMap:
    """The map from indices to indices that a function describes."""
    return IndexMap.from_func(mapping, inverse_index_map=inverse_index_map, index_dtype=index_dtype)


def target(target_config: str | Mapping[str, Any], host: str | Mapping[str, Any] | None = None) -> Any:
    """A target, from its text or attributes."""
    return Target(target_config, host)


__all__ = [
    "Add", "And", "BufferLoad", "CallEffectKind", "CommReducer", "Div", "EQ", "ExprLike", "FloatImm", "FloorDiv",
    "FloorMod", "GE", "GT", "IntImm", "IterVar", "LE", "LT", "Max", "Min", "Mod", "Mul", "NE", "Not", "Or",
    "ProducerLoad", "Range", "Reduce", "SizeVar", "StringImm", "Sub", "Var", "index_map", "iter_var", "target",
]  # fmt: skip
