"""Python values and expressions of other types as operands: constants, casts, and the common type of two operands."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import ModuleType
from typing import Any, TypeGuard

import numpy as np

from tscript.ir import expr as ex
from tscript.ir import semantics
from tscript.ir.base import FrozenDict, Node
from tscript.ir.dtype import BOOL, FLOAT32, INT32, INT64, DataType, int_range
from tscript.ir.expr import Broadcast, Cast, ExprLike, FloatImm, IntImm, PrimExpr, StringImm
from tscript.support.wording import kind_of, shown_int

Number = int | float
_LEAST, _MOST = int_range(INT32)


def const(value: Number | str | np.generic[Any], dtype: str | None = None) -> PrimExpr:
    """A constant. Without `dtype`: bool for bools, int32 (int64 if too large) for ints, float32 for floats.

    Raises ValueError for an integer that does not fit, TypeError for what is no number.

    >>> const(3, "int8").dtype
    'int8'
    """
    if isinstance(value, np.generic):
        return const(value.item(), str(value.dtype) if dtype is None else dtype)
    if isinstance(value, str):
        if value not in ("inf", "-inf", "nan"):
            raise ValueError(f"{value!r} is no number; the texts 'inf', '-inf' and 'nan' are")
        value = float(value)
    kind = _natural_dtype(value) if dtype is None else DataType(dtype)
    if kind.lanes != 1:
        return Broadcast(const(value, kind.element), kind.lanes)
    if kind.is_float:
        return FloatImm(kind, _float(kind, value))
    if kind.is_bool:
        if not isinstance(value, (bool, int, float)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"a bool is made of True, False or a number, not of {kind_of(value)}")
        return IntImm(kind, int(bool(value)))
    if not kind.is_integer:
        raise TypeError(f"there are no constants of type {kind!s}")
    if isinstance(value, float):
        if not math.isfinite(value) or not value.is_integer():
            raise TypeError(f"{value!r} is no integer; write a cast to make it {kind!s}")
        value = int(value)
    if not isinstance(value, int):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"a constant of type {kind!s} is made of a number, not of {kind_of(value)}")
    return IntImm(kind, value)


def _float(kind: DataType, value: Number) -> float:
    """`value` as a float; a type that cannot hold it rounds it where it is used."""
    if not isinstance(value, (int, float)):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"a constant of type {kind!s} is made of a number, not of {kind_of(value)}")
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"{shown_int(int(value))} is beyond every float") from None


def _natural_dtype(value: Number) -> DataType:
    if isinstance(value, bool):
        return BOOL
    if isinstance(value, float):
        return FLOAT32
    if not isinstance(value, int):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"{value!r} is {kind_of(value)}, not a number")
    low, high = int_range(INT32)
    if low <= value <= high:
        return INT32
    low, high = int_range(INT64)
    if low <= value <= high:
        return INT64
    digits = shown_int(value)
    if 0 <= value < 1 << 64:
        raise ValueError(f"{digits} is beyond int64; give the type, as in T.uint64({digits})")
    raise ValueError(f"{digits} is beyond every integer type")


def _is_number(value: object) -> TypeGuard[Number | np.generic[Any]]:
    return isinstance(value, (bool, int, float, np.generic))


def convert(value: Any) -> PrimExpr:
    """A Python number, NumPy scalar or text as an expression; expressions as they are.

    Raises TypeError for anything else.
    """
    if isinstance(value, PrimExpr):
        return value
    if value.__class__ is int and _LEAST <= value <= _MOST:
        return IntImm(INT32, value)
    if isinstance(value, str):
        return StringImm(value)
    if _is_number(value):
        return const(value)
    as_expr = getattr(value, "as_expr", None)
    if callable(as_expr):
        return as_expr()  # pyright: ignore[reportReturnType]
    if isinstance(value, ex.IterVar):
        return value.var
    # What may stand instead is told by the classes of things that are often mistaken for values.
    instead = getattr(value, "instead_of_value", None)
    remedy = f"; {instead}" if isinstance(instead, str) and not isinstance(value, type) else ""
    raise TypeError(f"{kind_of(value)} cannot be used as a scalar value{remedy}")


def convert_attr(value: Any) -> Any:
    """An attribute value in the form the IR keeps."""
    if _is_number(value):
        return const(value)
    if isinstance(value, StringImm):
        return value.value
    if isinstance(value, (list, tuple)):
        return tuple(convert_attr(v) for v in value)  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, Mapping):
        return FrozenDict({k: convert_attr(v) for k, v in value.items()})  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if value is None or isinstance(value, (str, Node, np.ndarray)):
        return value  # pyright: ignore[reportUnknownVariableType]
    if is_value_object(value):
        return value  # pyright: ignore[reportUnknownVariableType]
    raise TypeError(f"{kind_of(value)} cannot be the value of an attribute")  # pyright: ignore[reportUnknownArgumentType]


def is_value_object(value: object) -> bool:
    """Whether an object compares and hashes by content, as a target does: such objects are kept as attributes."""
    kind = type(value)
    if callable(value) or isinstance(value, (ModuleType, set, frozenset, bytes, complex, range, slice)):
        return False
    return kind.__eq__ is not object.__eq__ and kind.__hash__ not in (None, object.__hash__)


def is_const_int(e: object, value: int) -> bool:
    """Whether `e` is the integer constant `value`."""
    return isinstance(e, IntImm) and e.value == value


def cast(value: ExprLike, dtype: str) -> PrimExpr:
    """`value` converted to `dtype`; constants fold, and a scalar is broadcast to a vector type."""
    e, target = convert(value), DataType(dtype)
    if e.dtype is target:
        return e
    if target.lanes != e.dtype.lanes:
        if e.dtype.lanes != 1:
            raise TypeError(f"cannot cast {e.dtype!s} to {target!s}: the lanes differ")
        return Broadcast(cast(e, target.element), target.lanes)
    if isinstance(e, (IntImm, FloatImm)) and (target.is_float or target.is_integer or target.is_bool):
        number = rounded(e)
        return const(semantics.convert_value(e.dtype, target, number), target)
    if isinstance(e, Broadcast):
        return Broadcast(cast(e.value, target.element), e.lanes)
    if target.is_handle or e.dtype.is_handle:
        raise TypeError(f"cannot cast {e.dtype!s} to {target!s}; use T.reinterpret")
    return Cast(target, e)


def rounded(e: IntImm | FloatImm) -> Number:
    """The number a constant stands for: a float's value rounded to its type."""
    return e.value if isinstance(e, IntImm) else semantics.round_float(e.dtype, e.value)


# -- promotion ------------------------------------------------------------------------------------


def promote(a: ExprLike, b: ExprLike) -> tuple[PrimExpr, PrimExpr]:
    """Both operands in their common type (and lanes).

    A Python float beside a float expression takes that expression's type. Otherwise: wider of two
    floats, float over integer, wider of two integers, unsigned over signed of the same width.
    """
    x, y = (a, b) if isinstance(a, PrimExpr) and isinstance(b, PrimExpr) else _convert_pair(a, b)
    if x.dtype is y.dtype:
        return x, y
    x, y = match_lanes(x, y)
    s, t = x.dtype, y.dtype
    if s is t:
        return x, y
    for side in (s, t):
        if side.is_handle or side.code == "void":
            raise TypeError(f"{_noun(x, y, side)} takes no arithmetic")
    target = _wider(s, t)
    return cast(x, target), cast(y, target)


def _noun(x: PrimExpr, y: PrimExpr, dtype: DataType) -> str:
    if isinstance(x, StringImm) or isinstance(y, StringImm):
        return "a text"
    return f"a value of type {dtype!s}"


def _convert_pair(a: ExprLike, b: ExprLike) -> tuple[PrimExpr, PrimExpr]:
    if isinstance(a, float) and isinstance(b, PrimExpr) and b.dtype.is_float:
        return const(a, b.dtype.element), b
    if isinstance(b, float) and isinstance(a, PrimExpr) and a.dtype.is_float:
        return a, const(b, a.dtype.element)
    return convert(a), convert(b)


def match_lanes(x: PrimExpr, y: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
    """Both operands with the same number of lanes: a scalar is broadcast."""
    m, n = x.dtype.lanes, y.dtype.lanes
    if m == n:
        return x, y
    if m == 1:
        return Broadcast(x, n), y
    if n == 1:
        return x, Broadcast(y, m)
    raise TypeError(f"vectors of {m} and {n} lanes cannot be combined")


def _wider(s: DataType, t: DataType) -> DataType:
    if s.is_float or t.is_float:
        if s.is_float and t.is_float:
            if s.bits == t.bits:
                raise TypeError(f"{s!s} and {t!s} have no common type; cast one of them")
            return s if s.bits > t.bits else t
        return s if s.is_float else t
    if s.is_bool or t.is_bool:
        return t if s.is_bool else s
    if s.code == t.code or s.bits != t.bits:
        return s if s.bits > t.bits else t
    return s if s.is_uint else t
