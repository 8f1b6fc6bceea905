"""Functions that generated code calls: rounding, division, conversion and the math operators.

None of the float functions raises: domain errors give NaN and overflow infinity, as IEEE arithmetic does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tscript.interp.memory import codec, to_float32
from tscript.ir import semantics
from tscript.ir.dtype import DataType

Float1 = Callable[[float], float]


def _total(fast: Callable[..., float], exact: Callable[..., Any]) -> Callable[..., float]:
    """`fast`, and where it raises the NumPy function, which follows IEEE at the edges."""

    def call(*args: float) -> float:
        try:
            return fast(*args)
        except (ValueError, OverflowError, ZeroDivisionError):
            with np.errstate(all="ignore"):
                return float(exact(*[np.float64(a) for a in args]))

    return call


def _sigmoid(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-x)) if x > -700 else math.exp(x)


def _round_half_away(x: float) -> float:
    if x != x or math.isinf(x) or abs(x) >= 2.0**52:
        return x
    whole = math.floor(abs(x))
    return math.copysign(whole + (abs(x) - whole >= 0.5), x)


def _whole(fn: Callable[[float], int]) -> Float1:
    def call(x: float) -> float:
        if x != x or math.isinf(x):
            return x
        return math.copysign(fn(x), x) if x else x

    return call


def _exp2(x: float) -> float:
    return 2.0**x


def _exp10(x: float) -> float:
    return 10.0**x


def _exp10_exact(x: float) -> Any:
    return np.power(10.0, x)


def _rsqrt(x: float) -> float:
    return 1.0 / math.sqrt(x)


def _rsqrt_exact(x: float) -> Any:
    return np.float64(1.0) / np.sqrt(x)


def _ldexp_exact(x: float, n: float) -> Any:
    return np.ldexp(x, int(max(-100000, min(100000, n))))


def _ldexp(x: float, n: float) -> float:
    if n != n:
        return n
    return math.ldexp(x, int(max(-100000, min(100000, n))))


MATH: dict[str, Callable[..., float]] = {
    "exp": _total(math.exp, np.exp),
    "exp2": _total(_exp2, np.exp2),
    "exp10": _total(_exp10, _exp10_exact),
    "log": _total(math.log, np.log),
    "log2": _total(math.log2, np.log2),
    "log10": _total(math.log10, np.log10),
    "log1p": _total(math.log1p, np.log1p),
    "sqrt": _total(math.sqrt, np.sqrt),
    "rsqrt": _total(_rsqrt, _rsqrt_exact),
    "sin": _total(math.sin, np.sin),
    "cos": _total(math.cos, np.cos),
    "tan": _total(math.tan, np.tan),
    "asin": _total(math.asin, np.arcsin),
    "acos": _total(math.acos, np.arccos),
    "atan": math.atan,
    "sinh": _total(math.sinh, np.sinh),
    "cosh": _total(math.cosh, np.cosh),
    "tanh": math.tanh,
    "asinh": math.asinh,
    "acosh": _total(math.acosh, np.arccosh),
    "atanh": _total(math.atanh, np.arctanh),
    "erf": math.erf,
    "sigmoid": _sigmoid,
    "floor": _whole(math.floor),
    "ceil": _whole(math.ceil),
    "trunc": _whole(math.trunc),
    "round": _round_half_away,
    "nearbyint": _whole(round),
    "fabs": math.fabs,
    "atan2": math.atan2,
    "fmod": semantics.FLOAT_BINARY["Mod"],
    "hypot": _total(math.hypot, np.hypot),
    "copysign": math.copysign,
    "ldexp": _total(_ldexp, _ldexp_exact),
    "pow": _total(math.pow, np.power),
}
"""Math operators on doubles; the caller rounds the result to its type."""

WHOLE_NUMBERS = frozenset({"floor", "ceil", "trunc", "round", "nearbyint"})
"""Operators that leave an integer as it is."""


def float_rounder(dtype: DataType) -> Float1:
    """The function that rounds a double to `dtype`."""
    narrow = codec(dtype)
    if narrow is not None:
        return narrow.round
    return to_float32 if dtype.bits == 32 else float


def next_after(dtype: DataType) -> Callable[[float, float], float]:
    """The operator `nextafter` of `dtype`: the neighbour of the first value toward the second."""
    rounding = float_rounder(dtype)
    kind = semantics.numpy_dtype(dtype)
    raw = np.dtype(f"uint{dtype.bytes * 8}")

    def call(a: float, b: float) -> float:
        if a != a or b != b or a == b:
            return b if a == b else math.nan
        if a == 0:
            tiny = float(np.array(1, dtype=raw).view(kind).astype(np.float64))
            return math.copysign(tiny, b)
        with np.errstate(all="ignore"):
            bits = int(np.array(a, dtype=np.float64).astype(kind).view(raw))
            bits += 1 if (a < b) == (a > 0) else -1
            return rounding(float(np.array(bits, dtype=raw).view(kind).astype(np.float64)))

    return call


def to_integer(x: float, low: int, high: int) -> int:
    """A float as an integer: the fraction dropped, the nearest bound beyond the range, 0 for NaN."""
    if x != x:
        return 0
    return low if x <= low else high if x >= high else int(x)


def mod_trunc(a: int, b: int) -> int:
    """Remainder of division toward zero."""
    return a - b * semantics.trunc_div(a, b)


def count_leading_zeros(value: int, bits: int) -> int:
    """Zero bits above the highest set bit of a `bits` wide number."""
    return bits - (value & ((1 << bits) - 1)).bit_length()


def q_multiply_shift(x: int, y: int, q: int, s: int) -> int:
    """Fixed-point product of `x` and `y` (with `q` fraction bits) times 2**s, rounded half up."""
    return _fixed_point(x, y, max(s, 0), max(-s, 0) + q)


def q_multiply_shift_per_axis(x: int, y: int, ls: int, rs: int, q: int, left: int, right: int) -> int:
    """As `q_multiply_shift`, with both shift counts given."""
    return _fixed_point(x, y, ls if left else 0, (rs if right else 0) + q)


def _fixed_point(x: int, y: int, left: int, right: int) -> int:
    wide = DataType("int64")
    product = semantics.wrap(wide, semantics.wrap(wide, x << left) * y)
    rounding = 1 << (right - 1) if right else 0
    return semantics.wrap(DataType("int32"), semantics.wrap(wide, product + rounding) >> right)


def dot4(a: Sequence[int] | int, b: Sequence[int] | int, c: int, signed: bool) -> int:
    """`c` plus the sum of products of four bytes each."""
    xs, ys = _four_bytes(a, signed), _four_bytes(b, signed)
    return c + sum(x * y for x, y in zip(xs, ys, strict=True))


def _four_bytes(value: Sequence[int] | int, signed: bool) -> Sequence[int]:
    if not isinstance(value, int):
        return value
    raw = (value & 0xFFFFFFFF).to_bytes(4, "little")
    return [b - 256 if signed and b > 127 else b for b in raw]


def to_bits(dtype: DataType, values: Any) -> bytes:
    """The bytes of one value or of a sequence of lanes."""
    lanes = values if dtype.lanes > 1 else [values]
    narrow = codec(dtype.element)
    if narrow is not None:
        return b"".join(narrow.encode(v).to_bytes(dtype.bytes, "little") for v in lanes)
    if dtype.is_float:
        return np.array(lanes, dtype=f"<f{dtype.bytes}").tobytes()
    mask = (1 << (8 * dtype.bytes)) - 1
    return b"".join((int(v) & mask).to_bytes(dtype.bytes, "little") for v in lanes)


def from_bits(dtype: DataType, raw: bytes) -> Any:
    """The value or the list of lanes that `raw` holds."""
    size = dtype.bytes
    parts = [raw[i : i + size] for i in range(0, len(raw), size)]
    narrow = codec(dtype.element)
    if narrow is not None:
        lanes: list[Any] = [narrow.decode[int.from_bytes(p, "little")] for p in parts]
    elif dtype.is_float:
        lanes = np.frombuffer(raw, dtype=f"<f{size}").astype(np.float64).tolist()
    else:
        lanes = [semantics.wrap(dtype, int.from_bytes(p, "little")) for p in parts]
    return lanes if dtype.lanes > 1 else lanes[0]


def reinterpret(source: DataType, target: DataType, value: Any) -> Any:
    """The same bits as another type."""
    return from_bits(target, to_bits(source, value))
