"""Arithmetic, comparison of bits and limits of types: what Python's operators do, and what they have no sign for."""

from __future__ import annotations

import math
from typing import Final

from tscript.ir import construct, semantics
from tscript.ir.construct import const, convert, math_call
from tscript.ir.dtype import BOOL, DataType, int_range
from tscript.ir.expr import GE, Broadcast, Call, FloatImm, IntImm, Op, PrimExpr, Select
from tscript.parser.dialect.values import Value, call, op_function

# -- two operands ---------------------------------------------------------------------------------


@op_function
def floordiv(a: Value, b: Value) -> PrimExpr:
    """`a // b`, rounded down. Raises ZeroDivisionError for a constant 0."""
    return construct.floordiv(a, b)


@op_function
def floormod(a: Value, b: Value) -> PrimExpr:
    """`a % b`, with the sign of `b`."""
    return construct.floormod(a, b)


@op_function
def truncdiv(a: Value, b: Value) -> PrimExpr:
    """Quotient of integers rounded toward zero, as in C."""
    return construct.truncdiv(a, b)


@op_function
def truncmod(a: Value, b: Value) -> PrimExpr:
    """Remainder of `truncdiv`, with the sign of `a`."""
    return construct.truncmod(a, b)


@op_function
def ceildiv(a: Value, b: Value) -> PrimExpr:
    """Quotient rounded up, for every sign of `b`."""
    return construct.ceildiv(a, b)


@op_function
def min(a: Value, b: Value) -> PrimExpr:
    """The smaller value; NaN if either is NaN."""
    return construct.min_(*_like_operands(a, b))


@op_function
def max(a: Value, b: Value) -> PrimExpr:
    """The larger value; NaN if either is NaN."""
    return construct.max_(*_like_operands(a, b))


def _like_operands(a: Value, b: Value) -> tuple[PrimExpr, PrimExpr]:
    x, y = construct.promote(a, b)
    if not (x.dtype.is_float or x.dtype.is_integer):
        raise TypeError(f"min and max take numbers, not {x.dtype!s}")
    return x, y


@op_function
def bitwise_and(a: Value, b: Value) -> PrimExpr:
    """Bits set in both."""
    return construct.bitwise_and(a, b)


@op_function
def bitwise_or(a: Value, b: Value) -> PrimExpr:
    """Bits set in either."""
    return construct.bitwise_or(a, b)


@op_function
def bitwise_xor(a: Value, b: Value) -> PrimExpr:
    """Bits set in one of the two."""
    return construct.bitwise_xor(a, b)


@op_function
def bitwise_not(a: Value) -> PrimExpr:
    """All bits flipped."""
    return construct.bitwise_not(a)


@op_function
def shift_left(a: Value, b: Value) -> PrimExpr:
    """`a << b`, wrapped to the width of the type."""
    return construct.shift_left(a, b)


@op_function
def shift_right(a: Value, b: Value) -> PrimExpr:
    """`a >> b`, rounded down: the sign of signed values stays."""
    return construct.shift_right(a, b)


# -- functions of numbers of any kind -------------------------------------------------------------


@op_function
def abs(x: Value) -> PrimExpr:
    """Magnitude. The smallest signed integer has none in its type and stays as it is."""
    value = convert(x)
    dtype = value.dtype
    if dtype.is_float:
        return math_call("fabs", value)
    if dtype.is_uint:
        return value
    if not dtype.is_int:
        raise TypeError(f"abs takes numbers, not {dtype!s}")
    if isinstance(value, IntImm):
        return IntImm(dtype, semantics.wrap(dtype, -value.value if value.value < 0 else value.value))
    zero = const(0, dtype)
    return Select(construct.compare(GE, value, zero), value, construct.sub(zero, value))


def _rounding(name: str, x: Value) -> PrimExpr:
    value = convert(x)
    if value.dtype.is_integer:
        return value
    if not value.dtype.is_float:
        raise TypeError(f"{name} takes numbers, not {value.dtype!s}")
    return math_call(name, value)


@op_function
def floor(x: Value) -> PrimExpr:
    """Rounded down, in the same type; an integer is itself."""
    return _rounding("floor", x)


@op_function
def ceil(x: Value) -> PrimExpr:
    """Rounded up, in the same type; an integer is itself."""
    return _rounding("ceil", x)


@op_function
def trunc(x: Value) -> PrimExpr:
    """Rounded toward zero, in the same type; an integer is itself."""
    return _rounding("trunc", x)


@op_function
def round(x: Value) -> PrimExpr:
    """Rounded to the nearest integer, in the same type; an integer is itself."""
    return _rounding("round", x)


@op_function
def nearbyint(x: Value) -> PrimExpr:
    """Rounded to the nearest integer, halves to even, in the same type; an integer is itself."""
    return _rounding("nearbyint", x)


def _classify(name: str, x: Value, for_integers: bool) -> PrimExpr:
    value = convert(x)
    result = BOOL.with_lanes(value.dtype.lanes)
    if value.dtype.is_integer or value.dtype.is_bool:
        return const(for_integers, result)
    if not value.dtype.is_float:
        raise TypeError(f"{name} takes numbers, not {value.dtype!s}")
    return Call(result, Op.get("tir." + name), (value,))


@op_function
def isnan(x: Value) -> PrimExpr:
    """Whether `x` is NaN; False for integers."""
    return _classify("isnan", x, for_integers=False)


@op_function
def isinf(x: Value) -> PrimExpr:
    """Whether `x` is infinite; False for integers."""
    return _classify("isinf", x, for_integers=False)


@op_function
def isfinite(x: Value) -> PrimExpr:
    """Whether `x` is neither infinite nor NaN; True for integers."""
    return _classify("isfinite", x, for_integers=True)


def _of_integer(name: str, x: Value, result: DataType | None = None) -> PrimExpr:
    value = convert(x)
    if not value.dtype.is_integer:
        raise TypeError(f"{name} takes integers, not {value.dtype!s}")
    return Call(
        value.dtype if result is None else result.with_lanes(value.dtype.lanes), Op.get("tir." + name), (value,)
    )


@op_function
def popcount(x: Value) -> PrimExpr:
    """Number of bits set, in the type of `x`."""
    return _of_integer("popcount", x)


@op_function
def clz(x: Value) -> PrimExpr:
    """Number of zero bits above the highest set one, as int32; the width of the type for 0."""
    return _of_integer("clz", x, DataType("int32"))


@op_function
def q_multiply_shift(x: Value, y: Value, q: Value, s: Value) -> PrimExpr:
    """Fixed-point product: `round(x * y * 2**-s)` of int32 values with `q` fraction bits."""
    return call("int32", "q_multiply_shift", x, y, q, s)


@op_function
def q_multiply_shift_per_axis(
    x: Value, y: Value, ls: Value, rs: Value, q: Value, is_lshift_required: Value, is_rshift_required: Value
) -> PrimExpr:
    """`q_multiply_shift` with a left shift before and a right shift after the product."""
    args = (x, y, ls, rs, q, is_lshift_required, is_rshift_required)
    return call("int32", "q_multiply_shift_per_axis", *args)


# -- limits ---------------------------------------------------------------------------------------

# type: (largest finite value, whether it has infinity)
_FLOAT_LIMITS: Final[dict[str, tuple[float, bool]]] = {
    "float16": (65504.0, True),
    "float32": (float((2 - 2**-23) * 2.0**127), True),
    "float64": (float.fromhex("0x1.fffffffffffffp+1023"), True),
    "bfloat16": (float((2 - 2**-7) * 2.0**127), True),
    "float8_e4m3fn": (448.0, False),
    "float8_e5m2": (57344.0, True),
    "float4_e2m1fn": (6.0, False),
}


def max_value(dtype: str) -> PrimExpr:
    """The largest finite value of a type."""
    return _limit(DataType(dtype), upper=True)


def min_value(dtype: str) -> PrimExpr:
    """The smallest (most negative) finite value of a type: what a maximum starts from."""
    return _limit(DataType(dtype), upper=False)


def _limit(kind: DataType, upper: bool) -> PrimExpr:
    if kind.lanes != 1:
        return Broadcast(_limit(kind.element, upper), kind.lanes)
    if kind.is_float:
        largest = _FLOAT_LIMITS[str(kind)][0]
        return FloatImm(kind, largest if upper else -largest)
    if not (kind.is_integer or kind.is_bool):
        raise TypeError(f"{kind!s} has no largest or smallest value")
    return IntImm(kind, int_range(kind)[1 if upper else 0])


def infinity(dtype: str) -> PrimExpr:
    """Infinity in a float type. Raises TypeError for a type that has none, with what to use instead."""
    kind = DataType(dtype)
    if not kind.is_float or not _FLOAT_LIMITS[str(kind.element)][1]:
        raise TypeError(f'{kind!s} has no infinity; its largest value is T.max_value("{kind!s}")')
    return const(math.inf, kind)


__all__ = [
    "floordiv", "floormod", "truncdiv", "truncmod", "ceildiv", "min", "max", "bitwise_and", "bitwise_or",
    "bitwise_xor", "bitwise_not", "shift_left", "shift_right", "abs", "floor", "ceil", "trunc", "round", "nearbyint",
    "isnan", "isinf", "isfinite", "popcount", "clz", "q_multiply_shift", "q_multiply_shift_per_axis", "max_value",
    "min_value", "infinity",
]  # fmt: skip
