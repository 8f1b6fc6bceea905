"""Every operator on every type against NumPy, ml_dtypes or unbounded Python integers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tscript
from tscript import interp
from tscript.ir import expr as ex
from tscript.ir import stmt as st
from tscript.ir.buffer import decl_buffer
from tscript.ir.construct import ceildiv
from tscript.ir.dtype import DataType
from tscript.ir.expr import Call, IntImm, PrimExpr, Var
from tscript.ir.function import PrimFunc
from tscript.ir.semantics import numpy_dtype
from tscript.script import tir as T
from tscript.support.errors import InterpError

INTS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float32", "float64"]
NUMPY = {
    "bool": np.dtype(np.bool_),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float8_e4m3fn": np.dtype(ml_dtypes.float8_e4m3fn),
    "float8_e5m2": np.dtype(ml_dtypes.float8_e5m2),
}


def numpy_type(name: str) -> np.dtype[Any]:
    return NUMPY.get(name) or np.dtype(name)


def int32(value: int) -> IntImm:
    return IntImm("int32", value)


def apply(make: Callable[..., PrimExpr], out: str, *columns: np.ndarray, lanes: int = 1) -> np.ndarray:
    """`make(*loads)` for each row of `columns`, computed one by one or in vectors of `lanes`."""
    names = {np.dtype(v): k for k, v in NUMPY.items()}
    count = len(columns[0])
    padded = -(-count // lanes) * lanes
    buffers = [decl_buffer((padded,), names.get(c.dtype, str(c.dtype)), name=f"A{n}") for n, c in enumerate(columns)]
    result = decl_buffer((padded,), out, name="R")
    i = Var("i")
    index: PrimExpr = i if lanes == 1 else ex.Ramp(ex.Mul(i, int32(lanes)), int32(1), lanes)
    loads = [ex.BufferLoad(b, (index,)) for b in buffers]
    body = st.BufferStore(result, make(*loads), (index,))
    loop = st.For(i, int32(0), int32(padded // lanes), st.ForKind.SERIAL, body)
    got = np.zeros(padded, numpy_type(out))
    arrays = [np.concatenate([c, np.repeat(c[-1:], padded - count)]) for c in columns]
    interp.run(PrimFunc((*buffers, result), loop), *arrays, got)
    return got[:count]


def limits(dtype: str) -> tuple[int, int]:
    bits = int(dtype.lstrip("uint"))
    return (0, 2**bits - 1) if dtype[0] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def wrap(dtype: str, value: int) -> int:
    low, high = limits(dtype)
    return (value - low) % (high - low + 1) + low


def int_values(dtype: str) -> list[int]:
    low, high = limits(dtype)
    wanted = {low, low + 1, low // 2, -7, -3, -2, -1, 0, 1, 2, 3, 7, 48, high // 2 + 1, high - 1, high}
    return sorted(v for v in wanted if low <= v <= high)


def pairs(values: list[Any], dtype: str, keep: Callable[[Any, Any], bool] = lambda a, b: True) -> tuple[Any, Any]:
    rows = [(a, b) for a, b in itertools.product(values, values) if keep(a, b)]
    return tuple(np.array(c, dtype=numpy_type(dtype)) for c in zip(*rows, strict=True))


def trunc_div(a: int, b: int) -> int:
    return int(math.copysign(1, a) * math.copysign(1, b)) * (abs(a) // abs(b))


INT_OPS: dict[type[ex.BinaryExpr], Callable[[int, int], int]] = {
    ex.Add: lambda a, b: a + b,
    ex.Sub: lambda a, b: a - b,
    ex.Mul: lambda a, b: a * b,
    ex.Min: min,
    ex.Max: max,
    ex.FloorDiv: lambda a, b: a // b,
    ex.FloorMod: lambda a, b: a % b,
    ex.Div: trunc_div,
    ex.Mod: lambda a, b: a - b * trunc_div(a, b),
}
DIVISIONS = (ex.FloorDiv, ex.FloorMod, ex.Div, ex.Mod)
COMPARISONS = {
    ex.EQ: np.equal,
    ex.NE: np.not_equal,
    ex.LT: np.less,
    ex.LE: np.less_equal,
    ex.GT: np.greater,
    ex.GE: np.greater_equal,
}


@pytest.mark.parametrize("dtype", INTS)
@pytest.mark.parametrize("op", INT_OPS, ids=lambda c: c.__name__)
def test_integer_arithmetic_wraps_at_the_declared_width(op: type[ex.BinaryExpr], dtype: str) -> None:
    a, b = pairs(int_values(dtype), dtype, lambda x, y: y != 0 or op not in DIVISIONS)
    want = [wrap(dtype, INT_OPS[op](x, y)) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    assert apply(op, dtype, a, b).tolist() == want
    assert apply(op, dtype, a, b, lanes=4).tolist() == want


@pytest.mark.parametrize("divisor", [-4, -3, -1, 1, 3, 4, 16])
@pytest.mark.parametrize("op", DIVISIONS, ids=lambda c: c.__name__)
def test_division_by_a_constant_agrees_with_python_for_all_signs(op: type[ex.BinaryExpr], divisor: int) -> None:
    a = np.arange(-40, 41, dtype="int32")
    want = [INT_OPS[op](x, divisor) for x in a.tolist()]
    assert apply(lambda x: op(x, int32(divisor)), "int32", a).tolist() == want


@pytest.mark.parametrize(("quotient", "remainder"), [(ex.FloorDiv, ex.FloorMod), (ex.Div, ex.Mod)])
def test_quotient_times_divisor_plus_remainder_is_the_dividend(quotient: Any, remainder: Any) -> None:
    a, b = pairs([-7, -5, -3, -1, 0, 2, 7], "int32", lambda x, y: y != 0)
    q, r = apply(quotient, "int32", a, b), apply(remainder, "int32", a, b)
    assert (b * q + r == a).all()


@pytest.mark.parametrize("dtype", INTS)
def test_ceildiv_rounds_up_for_all_signs(dtype: str) -> None:
    # The largest and smallest values would overflow on the way, which is wrong for indices.
    values = [v for v in [-9, -8, -7, -3, -2, -1, 0, 1, 2, 3, 6, 7, 8, 9] if limits(dtype)[0] <= v]
    a, b = pairs(values, dtype, lambda x, y: y != 0)
    want = [wrap(dtype, -(-x // y)) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    assert apply(ceildiv, dtype, a, b).tolist() == want
    if dtype == "int32":
        assert apply(ceildiv, dtype, np.array([7], dtype), np.array([-3], dtype)).tolist() == [-2]


def test_index_arithmetic_with_loop_variables_uses_floor_and_truncation_as_written() -> None:
    x = np.array([-10], "int32")
    value = lambda v: ex.Add(int32(241), ex.Mul(v, int32(48)))
    assert apply(lambda v: ex.Div(value(v), int32(16)), "int32", x).tolist() == [-14]
    assert apply(lambda v: ex.FloorDiv(value(v), int32(16)), "int32", x).tolist() == [-15]


@pytest.mark.parametrize("dtype", INTS + FLOATS)
@pytest.mark.parametrize("op", COMPARISONS, ids=lambda c: c.__name__)
def test_comparisons_agree_with_numpy(op: type[ex.BinaryExpr], dtype: str) -> None:
    values = float_values(dtype) if dtype in FLOATS else int_values(dtype)
    a, b = pairs(values, dtype)
    with np.errstate(invalid="ignore"):
        want = COMPARISONS[op](a, b)
    assert apply(op, "bool", a, b).tolist() == want.tolist()
    assert apply(op, "bool", a, b, lanes=2).tolist() == want.tolist()


BIT_OPS = {"bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor}


@pytest.mark.parametrize("dtype", INTS)
@pytest.mark.parametrize("name", BIT_OPS)
def test_bit_operators_agree_with_numpy(name: str, dtype: str) -> None:
    a, b = pairs(int_values(dtype), dtype)
    got = apply(lambda x, y: Call(x.dtype, "tir." + name, (x, y)), dtype, a, b)
    assert got.tolist() == BIT_OPS[name](a, b).tolist()
    flipped = apply(lambda x, y: Call(x.dtype, "tir.bitwise_not", (x,)), dtype, a, b)
    assert flipped.tolist() == (~a).tolist()


@pytest.mark.parametrize("dtype", INTS)
def test_shifts_wrap_and_counts_beyond_the_width_empty_the_value(dtype: str) -> None:
    bits = DataType(dtype).bits
    counts = sorted({0, 1, 4, bits - 1, bits, bits + 1, limits(dtype)[1], *([-1] if dtype[0] == "i" else [])})
    rows = list(itertools.product(int_values(dtype), counts))
    a, b = (np.array(c, dtype=dtype) for c in zip(*rows, strict=True))
    left = [wrap(dtype, x << n) if 0 <= n < bits else 0 for x, n in rows]
    right = [x >> n if 0 <= n < bits else (-1 if x < 0 else 0) for x, n in rows]
    assert apply(lambda x, y: Call(x.dtype, "tir.shift_left", (x, y)), dtype, a, b).tolist() == left
    assert apply(lambda x, y: Call(x.dtype, "tir.shift_right", (x, y)), dtype, a, b).tolist() == right


@pytest.mark.parametrize("dtype", INTS)
def test_popcount_and_leading_zeros_count_the_bits_of_the_type(dtype: str) -> None:
    bits = DataType(dtype).bits
    a = np.array(int_values(dtype), dtype=dtype)
    raw = [x % 2**bits for x in a.tolist()]
    got = apply(lambda x: Call(x.dtype, "tir.popcount", (x,)), dtype, a)
    assert got.tolist() == [bin(x).count("1") for x in raw]
    got = apply(lambda x: Call(x.dtype, "tir.clz", (x,)), dtype, a)
    assert got.tolist() == [bits - x.bit_length() for x in raw]


# -- floats ---------------------------------------------------------------------------------------


def float_values(dtype: str) -> list[float]:
    kind = numpy_type(dtype)
    info = ml_dtypes.finfo(kind)
    raw = [0.0, -0.0, 1.0, -1.0, 1.5, 0.1, -0.3, 3.0, 7.25, -2.5, 100.0, math.inf, -math.inf, math.nan,
           float(info.max), float(info.tiny), float(info.smallest_subnormal)]  # fmt: skip
    with np.errstate(all="ignore"):
        return (
            np.array(raw, np.float64)
            .astype(np.float32 if kind.itemsize < 4 else kind)
            .astype(kind)
            .astype(np.float64)
            .tolist()
        )


def rounded(dtype: str, values: np.ndarray) -> np.ndarray:
    """Float32 (or double) results rounded to the type."""
    kind = numpy_type(dtype)
    with np.errstate(all="ignore"):
        return values.astype(kind)


def assert_same_floats(got: np.ndarray, want: np.ndarray) -> None:
    g, w = got.astype(np.float64), want.astype(np.float64)
    same = (g == w) & (np.signbit(g) == np.signbit(w)) | np.isnan(g) & np.isnan(w)
    assert same.all(), list(zip(g[~same], w[~same], strict=True))


FLOAT_OPS: dict[type[ex.BinaryExpr], Callable[..., np.ndarray]] = {
    ex.Add: np.add,
    ex.Sub: np.subtract,
    ex.Mul: np.multiply,
    ex.Div: np.divide,
    ex.Mod: np.fmod,
    ex.Min: np.minimum,
    ex.Max: np.maximum,
}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", FLOAT_OPS, ids=lambda c: c.__name__)
def test_float_arithmetic_rounds_after_every_operation(op: type[ex.BinaryExpr], dtype: str) -> None:
    a, b = pairs(float_values(dtype), dtype)
    wide = np.float64 if dtype == "float64" else np.float32
    with np.errstate(all="ignore"):
        want = rounded(dtype, FLOAT_OPS[op](a.astype(wide), b.astype(wide)))
    got, vector = apply(op, dtype, a, b), apply(op, dtype, a, b, lanes=4)
    if op in (ex.Min, ex.Max):
        # NumPy leaves open which of two zeros it picks.
        got, vector, want = got + got.dtype.type(0), vector + vector.dtype.type(0), want + want.dtype.type(0)
    assert_same_floats(got, want)
    assert_same_floats(vector, want)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_sums_are_not_contracted(dtype: str) -> None:
    rng = np.random.default_rng(7)
    a, b, c = (rng.standard_normal(64).astype(np.float32).astype(numpy_type(dtype)) for _ in range(3))
    got = apply(lambda x, y, z: ex.Add(ex.Mul(x, y), z), dtype, a, b, c)
    product = rounded(dtype, a.astype(np.float32) * b.astype(np.float32))
    assert_same_floats(got, rounded(dtype, product.astype(np.float32) + c.astype(np.float32)))


@pytest.mark.parametrize("dtype", FLOATS)
def test_nan_wins_in_min_and_max_on_either_side(dtype: str) -> None:
    a = np.array([math.nan, 1.0, math.nan], numpy_type(dtype))
    b = np.array([1.0, math.nan, math.nan], numpy_type(dtype))
    for op, lanes in itertools.product((ex.Min, ex.Max), (1, 3)):
        assert np.isnan(apply(op, dtype, a, b, lanes=lanes).astype(np.float64)).all()
    for op in (ex.Min, ex.Max):
        constant = apply(lambda x, op=op: op(x, ex.FloatImm(dtype, math.nan)), dtype, b)
        assert np.isnan(constant.astype(np.float64)).all()


@pytest.mark.parametrize("where", [0, 5])
def test_a_nan_anywhere_in_a_max_reduction_stays(where: int) -> None:
    a, r = decl_buffer((6,), name="A"), decl_buffer((1,), name="R")
    k, zero = Var("k"), int32(0)
    update = st.BufferStore(r, ex.Max(ex.BufferLoad(r, (zero,)), ex.BufferLoad(a, (k,))), (zero,))
    data, out = np.arange(6, dtype="float32"), np.full(1, -np.inf, "float32")
    data[where] = np.nan
    interp.run(PrimFunc((a, r), st.For(k, zero, int32(6), 0, update)), data, out)
    assert np.isnan(out[0])


def test_floor_division_of_floats_rounds_down() -> None:
    a, b = pairs([7.0, -7.0, 0.5, -0.5, 6.0], "float64")
    assert apply(ex.FloorDiv, "float64", a, b).tolist() == np.floor(a / b).tolist()
    assert apply(ex.FloorMod, "float64", a, b).tolist() == np.mod(a, b).tolist()


MATH: dict[str, Callable[..., Any]] = {
    "exp": np.exp, "exp2": np.exp2, "exp10": lambda x: np.power(10.0, x), "log": np.log, "log2": np.log2,
    "log10": np.log10, "log1p": np.log1p, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "sin": np.sin,
    "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh,
    "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc,
    "nearbyint": np.rint, "fabs": np.fabs,
}  # fmt: skip


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", MATH)
def test_math_functions_never_raise_and_agree_with_numpy(name: str, dtype: str) -> None:
    a = np.array([*float_values(dtype), 800.0, -800.0, 2.5, 0.5], np.float64)
    with np.errstate(all="ignore"):
        a = a.astype(numpy_type(dtype))
        exact = MATH[name](a.astype(np.float64))
        want = rounded(dtype, exact.astype(np.float32) if dtype != "float64" else exact)
    got = apply(lambda x: Call(x.dtype, "tir." + name, (x,)), dtype, a)
    # Two libraries may differ in the last bit of a double, and so, rarely, in the last bit of a narrow type.
    step = float(ml_dtypes.finfo(numpy_type(dtype)).eps)
    np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol=2 * step)


MATH2 = {"atan2": np.arctan2, "fmod": np.fmod, "hypot": np.hypot, "copysign": np.copysign, "pow": np.power}


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("name", MATH2)
def test_math_functions_of_two_arguments_agree_with_numpy(name: str, dtype: str) -> None:
    a, b = pairs(float_values(dtype), dtype)
    with np.errstate(all="ignore"):
        want = rounded(dtype, MATH2[name](a.astype(np.float64), b.astype(np.float64)))
    got = apply(lambda x, y: Call(x.dtype, "tir." + name, (x, y)), dtype, a, b)
    step = float(np.finfo(dtype).eps)
    np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol=2 * step)


def test_round_takes_halves_away_from_zero_and_nearbyint_to_even() -> None:
    a = np.array([0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.49999997], "float32")
    got = apply(lambda x: Call(x.dtype, "tir.round", (x,)), "float32", a)
    assert got.tolist() == [1.0, 2.0, 3.0, -1.0, -2.0, -3.0, 0.0]
    got = apply(lambda x: Call(x.dtype, "tir.nearbyint", (x,)), "float32", a)
    assert got.tolist() == [0.0, 2.0, 2.0, -0.0, -2.0, -2.0, 0.0]


def test_rounding_operators_leave_integers_alone() -> None:
    a = np.array([-3, 5], "int32")
    for name in ("floor", "ceil", "round", "trunc", "nearbyint"):
        assert apply(lambda x, n=name: Call(x.dtype, "tir." + n, (x,)), "int32", a).tolist() == [-3, 5]


def test_erf_is_that_of_the_c_library() -> None:
    a = np.array([-2.0, -0.5, 0.0, 0.25, 3.0, math.inf], "float64")
    got = apply(lambda x: Call(x.dtype, "tir.erf", (x,)), "float64", a)
    assert got.tolist() == [math.erf(x) for x in a.tolist()]


def test_ldexp_scales_by_a_power_of_two_and_overflows_to_infinity() -> None:
    a, n = np.array([1.5, -1.0, 1.0], "float32"), np.array([3, 2000, -2000], "int32")
    got = apply(lambda x, y: Call(x.dtype, "tir.ldexp", (x, y)), "float32", a, n)
    assert got.tolist() == [12.0, -math.inf, 0.0]


@pytest.mark.parametrize("dtype", FLOATS)
def test_nextafter_steps_to_the_neighbour_in_the_type(dtype: str) -> None:
    kind = numpy_type(dtype)
    a, b = np.array([1.0, 1.0, 0.0, -1.5, 2.0], kind), np.array([2.0, -1.0, 1.0, 3.0, 2.0], kind)
    got = apply(lambda x, y: Call(x.dtype, "tir.nextafter", (x, y)), dtype, a, b)
    assert_same_floats(got, np.nextafter(a, b))


def test_classification_tells_nan_infinite_and_finite_apart() -> None:
    a = np.array([math.nan, math.inf, -math.inf, 0.0, 3.0], "float32")
    tests = {"isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite}
    for name, want in tests.items():
        got = apply(lambda x, n=name: Call("bool", "tir." + n, (x,)), "bool", a)
        assert got.tolist() == want(a).tolist()
    whole = apply(lambda x: Call("bool", "tir.isnan", (x,)), "bool", np.array([1], "int32"))
    assert whole.tolist() == [False]


# -- conversions ----------------------------------------------------------------------------------


@pytest.mark.parametrize("source", INTS)
@pytest.mark.parametrize("target", INTS)
def test_integer_casts_wrap(source: str, target: str) -> None:
    a = np.array(int_values(source), source)
    want = [wrap(target, x) for x in a.tolist()]
    assert apply(lambda x: ex.Cast(DataType(target), x), target, a).tolist() == want


@pytest.mark.parametrize("source", FLOATS)
@pytest.mark.parametrize("target", INTS)
def test_float_to_integer_casts_truncate_saturate_and_send_nan_to_zero(source: str, target: str) -> None:
    a = np.array(float_values(source), numpy_type(source))
    low, high = limits(target)

    def cast(x: float) -> int:
        if math.isnan(x):
            return 0
        return max(low, min(high, math.trunc(x))) if math.isfinite(x) else (high if x > 0 else low)

    want = [cast(x) for x in a.astype(np.float64).tolist()]
    assert apply(lambda x: ex.Cast(DataType(target), x), target, a).tolist() == want
    got = apply(lambda x: ex.Cast(DataType(target).with_lanes(2), x), target, a, lanes=2)
    assert got.tolist() == want


@pytest.mark.parametrize("target", FLOATS)
@pytest.mark.parametrize("source", INTS)
def test_integer_to_float_casts_round_once(source: str, target: str) -> None:
    low, high = limits(source)
    extra = [v for v in (2**24 + 1, 2**53 + 1, 2**62 + 2**38 + 1, -(2**24) - 1) if low <= v <= high]
    a = np.array([*int_values(source), *extra], source)
    with np.errstate(over="ignore"):
        want = a.astype(target) if target == "float64" else a.astype(np.float32).astype(numpy_type(target))
    assert_same_floats(apply(lambda x: ex.Cast(DataType(target), x), target, a), want)


@pytest.mark.parametrize("target", FLOATS)
@pytest.mark.parametrize("source", FLOATS)
def test_float_casts_round_to_nearest_even_and_keep_nan(source: str, target: str) -> None:
    a = np.array([*float_values(source), 1 + 2.0**-8, 1 + 3 * 2.0**-8, 1 + 2.0**-11, 448.0, 465.0], np.float64)
    with np.errstate(all="ignore"):
        a = a.astype(numpy_type(source))
        wide = a.astype(np.float32) if target != "float64" else a
        want = wide.astype(numpy_type(target))
    assert_same_floats(apply(lambda x: ex.Cast(DataType(target), x), target, a), want)


def test_float32_nans_of_all_bit_patterns_stay_nan_in_bfloat16() -> None:
    bits = np.array([0x7FFF8C22, 0x7FFFFFFF, 0xFFFF8000, 0x7F800001, 0x7F800000, 0xFF800000], np.uint32)
    got = apply(lambda x: ex.Cast(DataType("bfloat16"), x), "bfloat16", bits.view(np.float32)).astype(np.float32)
    assert np.isnan(got[:4]).all()
    assert got[4:].tolist() == [math.inf, -math.inf]


def test_minus_one_by_way_of_bool_is_one() -> None:
    a = np.array([-1, 0, 5], "int64")
    got = apply(lambda x: ex.Cast(DataType("int32"), ex.Cast(DataType("bool"), x)), "int32", a)
    assert got.tolist() == [1, 0, 1]


def test_unsigned_difference_wraps_in_every_use() -> None:
    a, b = np.array([1], "uint32"), np.array([3], "uint32")
    assert apply(ex.Sub, "uint32", a, b).tolist() == [4294967294]
    doubled = apply(lambda x, y: ex.FloorDiv(ex.Sub(x, y), IntImm("uint32", 2)), "uint32", a, b)
    assert doubled.tolist() == [2147483647]
    wider = apply(lambda x, y: ex.Cast(DataType("int64"), ex.Sub(x, y)), "int64", a, b)
    assert wider.tolist() == [4294967294]


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int16"])
def test_small_integers_wrap_between_shifts_and_keep_their_sign_bit(dtype: str) -> None:
    bits = DataType(dtype).bits
    four = IntImm(dtype, bits // 2)
    top = limits(dtype)[1] - 5 if dtype[0] == "u" else -6
    a = np.array([48, 3, top], dtype)
    left = lambda x: Call(x.dtype, "tir.shift_left", (x, four))
    got = apply(lambda x: Call(x.dtype, "tir.shift_right", (left(x), four)), dtype, a)
    assert got.tolist() == [wrap(dtype, x << bits // 2) >> bits // 2 for x in a.tolist()]
    assert apply(lambda x: ex.Cast(DataType("int32"), x), "int32", a).tolist() == a.tolist()
    assert apply(lambda x: ex.Max(x, IntImm(dtype, 50)), dtype, a).tolist() == [max(x, 50) for x in a.tolist()]
    assert apply(lambda x: ex.LT(x, IntImm(dtype, 50)), "bool", a).tolist() == [x < 50 for x in a.tolist()]


@pytest.mark.parametrize(
    ("source", "target"),
    [("float32", "int32"), ("int32", "float32"), ("float16", "uint16"), ("int64", "float64"), ("uint8", "int8"),
     ("bfloat16", "int16")],
)  # fmt: skip
def test_reinterpret_keeps_the_bits(source: str, target: str) -> None:
    raw = np.array([0, 1, 0x3C, 0x7F], np.uint64)
    width = numpy_type(source).itemsize * 8
    a = (raw << np.uint64(width - 8)).astype(f"uint{width}").view(numpy_type(source))
    a = np.where(np.isnan(a.astype(np.float64)), numpy_type(source).type(1), a).astype(numpy_type(source))
    got = apply(lambda x: Call(DataType(target), "tir.reinterpret", (x,)), target, a)
    assert got.tobytes() == a.tobytes()


@pytest.mark.parametrize(
    ("x", "y", "q", "s"),
    [(100, 1 << 30, 31, 0), (-77, 1 << 30, 31, 2), (12345, 1518500250, 31, -3), (-(2**31), 2**31 - 1, 31, 0)],
)
def test_q_multiply_shift_rounds_half_up(x: int, y: int, q: int, s: int) -> None:
    a = np.array([x], "int32")
    args = [IntImm("int32", v) for v in (y, q, s)]
    got = apply(lambda v: Call("int32", "tir.q_multiply_shift", (v, *args)), "int32", a)
    shift = q + max(-s, 0)
    assert got.tolist() == [wrap("int32", ((x << max(s, 0)) * y + (1 << (shift - 1))) >> shift)]


def test_bools_combine_and_negate() -> None:
    a, b = np.array([0, 0, 1, 1], bool), np.array([0, 1, 0, 1], bool)
    assert apply(ex.And, "bool", a, b).tolist() == (a & b).tolist()
    assert apply(ex.Or, "bool", a, b, lanes=4).tolist() == (a | b).tolist()
    assert apply(lambda x, y: ex.Not(x), "bool", a, b).tolist() == (~a).tolist()


def test_integer_division_by_zero_is_an_error_in_all_four_divisions() -> None:
    a, b = np.array([3], "int32"), np.array([0], "int32")
    for op in DIVISIONS:
        with pytest.raises(InterpError, match="division by zero"):
            apply(op, "int32", a, b)


def test_float_division_by_zero_is_infinite_or_nan() -> None:
    a, b = np.array([1.0, -1.0, 0.0, 1.0], "float32"), np.array([0.0, 0.0, 0.0, -0.0], "float32")
    got = apply(ex.Div, "float32", a, b)
    assert got[:2].tolist() == [math.inf, -math.inf]
    assert np.isnan(got[2])
    assert got[3] == -math.inf


def test_half_precision_compare_and_select_to_bytes_is_the_same_in_vectors() -> None:
    a = np.array([0.0, 1.0, -0.0, 2.0, 0.0, 3.0, -1.0, 0.0, 1.0, 0.0, 5.0, 0.0], "float16")
    zero, one = IntImm("uint8", 0), IntImm("uint8", 1)

    def make(x: PrimExpr) -> PrimExpr:
        n = x.dtype.lanes
        wide: Callable[[PrimExpr], PrimExpr] = (lambda e: e) if n == 1 else (lambda e: ex.Broadcast(e, n))
        return ex.Select(ex.EQ(x, wide(ex.FloatImm("float16", 0.0))), wide(zero), wide(one))

    want = (a != 0).astype("uint8").tolist()
    for lanes in (1, 2, 4):
        assert apply(make, "uint8", a, lanes=lanes).tolist() == want


@pytest.mark.parametrize("dtype", ["int4", "uint4"])
def test_memory_of_integers_below_a_byte(dtype: str) -> None:
    low = -8 if dtype == "int4" else 0

    @T.prim_func
    def kernel(A: T.Buffer((16,), dtype), F: T.Buffer((16,), "float32"), W: T.Buffer((16,), "int32"),
               V: T.Buffer((16,), dtype), B: T.Buffer((16,), dtype)):  # fmt: skip
        S = T.alloc_buffer((16,), dtype)
        for i in range(16):
            F[i] = T.Cast("float32", A[i])
            W[i] = T.Cast("int32", A[i]) * T.Cast("int32", A[15 - i])
            S[i] = T.min(A[i], A[15 - i]) - T.Cast(dtype, 1)
        V[0:16] = S[0:16]
        for i in range(16):
            B[i] = T.Select(i % 2 == 0, T.Cast(dtype, F[i]), S[i])

    kind = numpy_dtype(DataType(dtype))
    values = np.arange(low, low + 16)
    slow = [values.astype(kind), np.zeros(16, "float32"), np.zeros(16, "int32"), *np.zeros((2, 16), kind)]
    native = [a.copy() for a in slow]
    interp.run(kernel, *slow)
    np.testing.assert_array_equal(slow[1], values)
    np.testing.assert_array_equal(slow[2], values * values[::-1])
    less = np.minimum(values, values[::-1]) - 1
    less = np.where(less < low, less + 16, less)
    np.testing.assert_array_equal(slow[3].astype("int32"), less)
    np.testing.assert_array_equal(slow[4].astype("int32"), np.where(np.arange(16) % 2 == 0, values, less))
    tscript.build(kernel)(*native)
    for s, n in zip(slow, native, strict=True):
        assert s.tobytes() == n.tobytes()
