"""What each operator computes, on Python numbers: the one definition that constants fold by.

The page `tutorials/contributing/semantics.md` says the same in prose; table tests hold the folder, the
interpreter and native code to it. Integers are Python ints in the range of their type, bools are 0 and 1,
floats are Python floats that are exactly representable in their type.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Final

import ml_dtypes
import numpy as np

from tscript.ir.dtype import DataType, int_range

Number = int | float

NUMPY_TYPES: Final[dict[str, np.dtype[np.generic]]] = {
    "bool": np.dtype(np.bool_),
    "float16": np.dtype(np.float16),
    "float32": np.dtype(np.float32),
    "float64": np.dtype(np.float64),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float8_e4m3fn": np.dtype(ml_dtypes.float8_e4m3fn),
    "float8_e5m2": np.dtype(ml_dtypes.float8_e5m2),
    "float4_e2m1fn": np.dtype(ml_dtypes.float4_e2m1fn),
    "int4": np.dtype(ml_dtypes.int4),
    "uint4": np.dtype(ml_dtypes.uint4),
    **{f"{k}{b}": np.dtype(f"{k}{b}") for k in ("int", "uint") for b in (8, 16, 32, 64)},
}


def numpy_dtype(dtype: DataType) -> np.dtype[np.generic]:
    """The NumPy type of one lane; TypeError where there is none."""
    found = NUMPY_TYPES.get(str(dtype.element))
    if found is None:
        raise TypeError(f"{dtype!s} has no NumPy type")
    return found


def wrap(dtype: DataType, value: int) -> int:
    """`value` modulo 2**bits, in the range of `dtype`; a bool is whether it is not zero."""
    if dtype.is_bool:
        return int(value != 0)
    bits = dtype.bits
    value &= (1 << bits) - 1
    return value - (1 << bits) if dtype.is_int and value >> (bits - 1) else value


def round_float(dtype: DataType, value: float) -> float:
    """`value` rounded to `dtype`, to nearest, ties to even; NaN stays NaN.

    Values beyond the range become infinite, or NaN in float8_e4m3fn, which has no infinity. Types below
    32 bits are rounded by way of float32, as hardware and our native code do.
    """
    if dtype.bits == 64 or value != value:
        return float(value)
    try:
        single: float = struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        single = math.copysign(math.inf, value)
    if dtype.bits == 32:
        return single
    with np.errstate(over="ignore", invalid="ignore"):
        return float(np.float32(single).astype(numpy_dtype(dtype)))


def trunc_div(a: int, b: int) -> int:
    """Quotient rounded toward zero."""
    q = abs(a) // abs(b)
    return q if (a >= 0) == (b >= 0) else -q


def _min(a: Number, b: Number) -> Number:
    return a if a != a or a < b or (a == b and not _is_positive_zero(a)) else b


def _max(a: Number, b: Number) -> Number:
    return a if a != a or a > b or (a == b and not _is_negative_zero(a)) else b


def _is_negative_zero(x: Number) -> bool:
    return x == 0 and math.copysign(1, x) < 0


def _is_positive_zero(x: Number) -> bool:
    return x == 0 and math.copysign(1, x) > 0


def _float_div(a: float, b: float) -> float:
    if b == 0:
        if a == 0 or a != a:
            return math.nan
        return math.copysign(math.inf, a) * math.copysign(1, b)
    try:
        return a / b
    except OverflowError:
        return math.copysign(math.inf, a) * math.copysign(1, b)


def _float_floordiv(a: float, b: float) -> float:
    q = _float_div(a, b)
    return q if math.isinf(q) or q != q else float(math.floor(q))


def _float_floormod(a: float, b: float) -> float:
    if b == 0 or math.isinf(a) or a != a or b != b:
        return math.nan
    if math.isinf(b):
        return math.copysign(0.0, b) if a == 0 else a if (a > 0) == (b > 0) else b
    r = math.fmod(a, b)
    if r == 0:
        return math.copysign(0.0, b)
    return r + b if (r > 0) != (b > 0) else r


def _float_mod(a: float, b: float) -> float:
    return math.nan if b == 0 or math.isinf(a) or a != a or b != b else math.fmod(a, b)


INT_BINARY: Final[dict[str, Callable[[int, int], int]]] = {
    "Add": lambda a, b: a + b,
    "Sub": lambda a, b: a - b,
    "Mul": lambda a, b: a * b,
    "Div": trunc_div,
    "Mod": lambda a, b: a - b * trunc_div(a, b),
    "FloorDiv": lambda a, b: a // b,
    "FloorMod": lambda a, b: a % b,
    "Min": min,
    "Max": max,
}
FLOAT_BINARY: Final[dict[str, Callable[[float, float], float]]] = {
    "Add": lambda a, b: a + b,
    "Sub": lambda a, b: a - b,
    "Mul": lambda a, b: a * b,
    "Div": _float_div,
    "Mod": _float_mod,
    "FloorDiv": _float_floordiv,
    "FloorMod": _float_floormod,
    "Min": _min,
    "Max": _max,
}
COMPARE: Final[dict[str, Callable[[Number, Number], bool]]] = {
    "EQ": lambda a, b: a == b,
    "NE": lambda a, b: a != b,
    "LT": lambda a, b: a < b,
    "LE": lambda a, b: a <= b,
    "GT": lambda a, b: a > b,
    "GE": lambda a, b: a >= b,
}


def arith(kind: str, dtype: DataType, a: Number, b: Number) -> Number:
    """The result of the binary node class `kind` on two values of `dtype`.

    Raises ZeroDivisionError for an integer division or remainder by zero.
    """
    if dtype.is_float:
        return round_float(dtype, FLOAT_BINARY[kind](a, b))
    return wrap(dtype, INT_BINARY[kind](int(a), int(b)))


def bitwise(kind: str, dtype: DataType, a: int, b: int) -> int:
    """`bitwise_and`, `bitwise_or`, `bitwise_xor`, `shift_left`, `shift_right` on two values of `dtype`.

    A shift by the number of bits or more gives 0 (-1 for a negative number shifted right); so does a
    shift by a negative count, which is taken as a large unsigned one.
    """
    match kind:
        case "bitwise_and":
            return a & b
        case "bitwise_or":
            return a | b
        case "bitwise_xor":
            return a ^ b
        case "shift_left":
            return wrap(dtype, a << b) if 0 <= b < dtype.bits else 0
        case "shift_right":
            return a >> b if 0 <= b < dtype.bits else (-1 if a < 0 else 0)
        case _:
            raise KeyError(kind)


def convert_value(source: DataType, target: DataType, value: Number) -> Number:
    """`value` of type `source` as a value of type `target`.

    To bool: whether it is not zero. Integers wrap. Floats become integers by dropping the fraction;
    values out of range become the nearest bound, and NaN 0.
    """
    if target.is_bool:
        return int(value != 0)
    if target.is_float:
        if isinstance(value, int) and not source.is_float:
            return round_int(target, value)
        return round_float(target, value)
    if source.is_float:
        if value != value:
            return 0
        low, high = int_range(target)
        return low if value <= low else high if value >= high else math.trunc(value)
    return wrap(target, int(value))


def round_int(dtype: DataType, value: int) -> float:
    """An integer rounded once to `dtype` (to float32 first for narrower types)."""
    if dtype.bits == 64:
        return float(value)
    with np.errstate(over="ignore"):
        # NumPy converts 64-bit integers to float32 in one rounding; going by way of a double would take two.
        narrow = float(np.array(value, dtype="uint64" if value >= 1 << 63 else "int64").astype(np.float32))
    return narrow if dtype.bits == 32 else round_float(dtype, narrow)
