"""Constants fold in the operand's type: every operator and type against NumPy, ml_dtypes or plain Python."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from tscript.ir import construct as c
from tscript.ir import expr as ex
from tscript.ir.construct import cast, const
from tscript.ir.dtype import DataType, int_range
from tscript.ir.expr import Broadcast, FloatImm, IntImm, SizeVar, Var
from tscript.ir.semantics import arith, bitwise, convert_value, round_float

INTS = [f"{k}{b}" for k in ("int", "uint") for b in (8, 16, 32, 64)]
NUMPY: dict[str, Any] = {
    "float16": np.float16, "float32": np.float32, "float64": np.float64, "bfloat16": ml_dtypes.bfloat16,
    "float8_e4m3fn": ml_dtypes.float8_e4m3fn, "float8_e5m2": ml_dtypes.float8_e5m2,
    **{n: np.dtype(n).type for n in INTS},
}  # fmt: skip
FLOATS = [0.0, -0.0, 1.0, -1.0, 0.1, 2.5, -7.25, 1e30, -1e-30, 3e38, 65504.0, math.inf, -math.inf, math.nan]


def edges(dtype: str) -> list[int]:
    low, high = int_range(DataType(dtype))
    return sorted({v for v in (low, low + 1, -7, -3, -1, 0, 1, 2, 3, 7, high // 3, high - 1, high) if low <= v <= high})


def wrapped(dtype: str, value: int) -> int:
    bits = DataType(dtype).bits
    return int.from_bytes((value % (1 << bits)).to_bytes(bits // 8, "little"), "little", signed=dtype.startswith("int"))


def truncated(a: int, b: int) -> int:
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


INT_OPERATORS: dict[str, tuple[Callable[..., Any], Callable[[int, int], int]]] = {
    "add": (c.add, operator.add),
    "sub": (c.sub, operator.sub),
    "mul": (c.mul, operator.mul),
    "floordiv": (c.floordiv, operator.floordiv),
    "floormod": (c.floormod, operator.mod),
    "truncdiv": (c.truncdiv, truncated),
    "truncmod": (c.truncmod, lambda a, b: a - b * truncated(a, b)),
    "ceildiv": (c.ceildiv, lambda a, b: -((-a) // b)),
    "min": (c.min_, min),
    "max": (c.max_, max),
    "and": (c.bitwise_and, operator.and_),
    "or": (c.bitwise_or, operator.or_),
    "xor": (c.bitwise_xor, operator.xor),
}


@pytest.mark.parametrize("dtype", INTS)
@pytest.mark.parametrize("name", list(INT_OPERATORS))
def test_integers_fold_as_python_integers_wrapped(dtype: str, name: str) -> None:
    build, expected = INT_OPERATORS[name]
    for a in edges(dtype):
        for b in edges(dtype):
            x, y = IntImm(dtype, a), IntImm(dtype, b)
            if b == 0 and ("div" in name or "mod" in name):
                with pytest.raises(ZeroDivisionError, match="division by the constant zero"):
                    build(x, y)
            else:
                assert build(x, y) is IntImm(dtype, wrapped(dtype, expected(a, b))), (a, b)


@pytest.mark.parametrize("dtype", INTS)
def test_shifts_fold_for_counts_below_the_width(dtype: str) -> None:
    bits = DataType(dtype).bits
    for a in edges(dtype):
        for n in (0, 1, bits - 1):
            x, y = IntImm(dtype, a), IntImm(dtype, n)
            assert c.shift_left(x, y) is IntImm(dtype, wrapped(dtype, a << n))
            assert c.shift_right(x, y) is IntImm(dtype, a >> n)
        for n in (bits, -1):
            if n >= 0 or dtype.startswith("int"):
                with pytest.raises(ValueError, match="the count lies between"):
                    c.shift_left(IntImm(dtype, a), IntImm(dtype, n))


@pytest.mark.parametrize("dtype", INTS)
def test_a_shift_by_the_width_or_more_runs_the_value_out(dtype: str) -> None:
    bits = DataType(dtype).bits
    for a in edges(dtype):
        for n in (bits, bits + 5, -1):
            assert bitwise("shift_left", DataType(dtype), a, n) == 0
            assert bitwise("shift_right", DataType(dtype), a, n) == (-1 if a < 0 else 0)


COMPARISONS = {
    ex.EQ: operator.eq,
    ex.NE: operator.ne,
    ex.LT: operator.lt,
    ex.LE: operator.le,
    ex.GT: operator.gt,
    ex.GE: operator.ge,
}


@pytest.mark.parametrize("dtype", [*INTS, "float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("node", list(COMPARISONS))
def test_comparisons_fold_to_bools(dtype: str, node: Any) -> None:
    values: list[Any] = edges(dtype) if dtype in INTS else FLOATS
    for a in values:
        for b in values:
            if dtype in INTS:
                expected = COMPARISONS[node](a, b)
            else:
                with np.errstate(all="ignore"):
                    expected = (
                        COMPARISONS[node](np.float32(a).astype(NUMPY[dtype]), np.float32(b).astype(NUMPY[dtype]))
                        if (dtype != "float64")
                        else COMPARISONS[node](a, b)
                    )
            assert c.compare(node, const(a, dtype), const(b, dtype)) is IntImm("bool", int(expected)), (a, b)


def same_float(got: float, want: float) -> bool:
    if want != want:
        return got != got
    return got == want and math.copysign(1, got) == math.copysign(1, want)


FLOAT_OPERATORS: dict[str, tuple[Callable[..., Any], Callable[[Any, Any], Any]]] = {
    "add": (c.add, np.add),
    "sub": (c.sub, np.subtract),
    "mul": (c.mul, np.multiply),
    "div": (c.div, np.divide),
    "min": (c.min_, np.minimum),
    "max": (c.max_, np.maximum),
    "floormod": (c.floormod, np.mod),
    "truncmod": (c.truncmod, np.fmod),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", list(FLOAT_OPERATORS))
def test_floats_fold_as_numpy_computes(dtype: str, name: str) -> None:
    build, expected = FLOAT_OPERATORS[name]
    kind = NUMPY[dtype]
    for a in FLOATS:
        for b in FLOATS:
            with np.errstate(all="ignore"):
                p, q = kind(a), kind(b)
                want = float(expected(p, q))
            if name in ("min", "max") and p == 0 and q == 0:
                # NumPy leaves the sign open; here -0.0 is the smaller one.
                pick = min if name == "min" else max
                want = math.copysign(0.0, pick(math.copysign(1, p), math.copysign(1, q)))
            got = build(FloatImm(dtype, a), FloatImm(dtype, b))
            assert isinstance(got, FloatImm) and got.dtype == dtype
            assert same_float(round_float(DataType(dtype), got.value), want), (a, b, got.value, want)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_floor_of_a_quotient_folds(dtype: str) -> None:
    for a in (7.5, -7.5, 0.3, -0.0, math.inf, math.nan):
        for b in (2.0, -2.0, 0.1, math.inf):
            quotient = float(NUMPY[dtype](a)) / float(NUMPY[dtype](b))
            want = quotient if not math.isfinite(quotient) else float(math.floor(quotient))
            got = c.floordiv(FloatImm(dtype, a), FloatImm(dtype, b))
            assert isinstance(got, FloatImm) and same_float(got.value, float(NUMPY[dtype](want)))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_small_floats_are_left_to_run_time(dtype: str) -> None:
    one, two = FloatImm(dtype, 1.0), FloatImm(dtype, 2.0)
    assert isinstance(c.add(one, two), ex.Add)
    assert isinstance(c.div(two, two.replace(value=0.5)), ex.Div)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize("kind", ["Add", "Sub", "Mul", "Div"])
def test_small_floats_compute_in_single_precision_and_round(dtype: str, kind: str) -> None:
    numpy_kind = NUMPY[dtype]
    function = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide}[kind]
    with np.errstate(all="ignore"):
        values = [float(np.float32(v).astype(numpy_kind)) for v in FLOATS]
        for a in values:
            for b in values:
                want = float(function(np.float32(a), np.float32(b)).astype(numpy_kind))
                assert same_float(float(arith(kind, DataType(dtype), a, b)), want), (a, b)


# -- casts --------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", INTS)
@pytest.mark.parametrize("target", [*INTS, "float16", "float32", "float64", "bfloat16", "bool"])
def test_integers_cast_as_numpy_does(source: str, target: str) -> None:
    for v in edges(source):
        got = cast(IntImm(source, v), target)
        if target == "bool":
            want: Any = v != 0
        else:
            with np.errstate(all="ignore"):
                middle = np.array(v, source)
                small = target in ("float16", "bfloat16")
                want = (middle.astype(np.float32) if small else middle).astype(NUMPY[target]).item()
        assert got is const(want, target), v


@pytest.mark.parametrize("source", ["float16", "float32", "float64", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize("target", INTS)
def test_floats_cast_to_integers_by_truncation_with_saturation(source: str, target: str) -> None:
    low, high = int_range(DataType(target))
    for v in [*FLOATS, 127.9, -128.9, 255.5, 2.0**31, 2.0**63, -(2.0**63)]:
        with np.errstate(all="ignore"):
            held = v if source == "float64" else float(np.float32(v).astype(NUMPY[source]))
        if held != held:
            want = 0
        else:
            want = low if held <= low else high if held >= high else math.trunc(held)
        assert cast(FloatImm(source, v), target) is IntImm(target, want), v


@pytest.mark.parametrize("target", ["float16", "float32", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_floats_cast_to_smaller_floats_to_nearest_even(target: str) -> None:
    with np.errstate(all="ignore"):
        for v in [*FLOATS, 1.0 + 2**-11, 1.0 + 3 * 2**-11, 448.0, 464.0, 465.0, 57344.0, 61440.0, 2.0**-25]:
            want = float(np.float32(v).astype(NUMPY[target]))
            got = cast(FloatImm("float64", v), target)
            assert isinstance(got, FloatImm) and same_float(got.value, want), v


@given(some.integers(-(2**63), 2**63 - 1))
def test_a_large_integer_is_rounded_to_float32_once(k: int) -> None:
    assert convert_value(DataType("int64"), DataType("float32"), k) == float(np.array(k, np.int64).astype(np.float32))


@given(some.floats(), some.floats())
def test_any_two_doubles_fold_as_python_adds_and_multiplies(a: float, b: float) -> None:
    for build, function in ((c.add, operator.add), (c.mul, operator.mul), (c.sub, operator.sub)):
        got = build(FloatImm("float64", a), FloatImm("float64", b))
        assert isinstance(got, FloatImm) and same_float(got.value, function(a, b))


def test_vectors_of_constants_cast_lane_by_lane() -> None:
    assert cast(Broadcast(const(300), 4), "uint8x4") is Broadcast(const(44, "uint8"), 4)
    assert cast(const(1.5), "int32x2") is Broadcast(const(1), 2)
    with pytest.raises(TypeError, match="the lanes differ"):
        cast(Broadcast(const(1), 2), "int32x4")
    with pytest.raises(TypeError, match=r"use T\.reinterpret"):
        cast(Var("p", "handle"), "int64")


# -- identities ---------------------------------------------------------------------------------

i, f, h, u, flag = Var("i"), Var("f", "float32"), Var("h", "float16"), Var("u", "uint8"), Var("flag", "bool")


@pytest.mark.parametrize(
    ("built", "expected"),
    [
        (i + 0, i), (0 + i, i), (i - 0, i), (i * 1, i), (1 * i, i), (f * 1.0, f), (f / 1.0, f), (i // 1, i),
        (i * 0, const(0)), (0 * i, const(0)), (i % 1, const(0)), (c.floordiv(0, i), const(0)),
        (c.truncmod(0, i), const(0)),
        (i << 0, i), (i >> 0, i), (c.min_(i, i), i), (c.max_(f, f), f), (cast(i, "int32"), i),
        (c.and_(flag, True), flag), (c.and_(False, flag), const(False)), (c.or_(flag, True), const(True)),
        (c.or_(False, flag), flag), (c.not_(True), const(False)), (cast(i, "float32") * 0.0, const(0.0)),
        (c.if_then_else(True, i, i + 1), i), (c.if_then_else(False, i, i + 1), i + 1),
        (const(3, "int8") - const(3, "int8"), const(0, "int8")), (const(0.5) - 0.5, const(0.0)),
    ],
)  # fmt: skip
def test_identities_that_hold_for_every_value_fold(built: Any, expected: Any) -> None:
    assert built is expected


@pytest.mark.parametrize(
    ("built", "node"),
    [
        (f + 0.0, ex.Add), (f - 0.0, ex.Sub), (f * 0.0, ex.Mul), (f - f, ex.Sub), (i - i, ex.Sub), (f / f, ex.Div),
        (h * 0.0, ex.Mul), (cast(i, "float16") * 0.0, ex.Mul), (i * 4 + i, ex.Add), (i // i, ex.FloorDiv),
    ],
)  # fmt: skip
def test_what_could_change_a_value_stays(built: Any, node: Any) -> None:
    assert type(built) is node


def test_a_constant_zero_divisor_is_refused_also_in_vectors() -> None:
    for build in (c.floordiv, c.floormod, c.truncdiv, c.truncmod, c.ceildiv):
        for zero in (0, Broadcast(const(0), 4)):
            with pytest.raises(ZeroDivisionError, match="division by the constant zero"):
                build(i, zero)


def test_negation_is_a_product_with_minus_one() -> None:
    assert -i is i * -1
    assert -const(-128, "int8") is const(-128, "int8")
    assert -u is const(0, "uint8") - u
    assert math.copysign(1, (-const(0.0)).value) == -1  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize("b", [3, -3, 1, 7])
def test_the_rounded_up_quotient_of_variables_is_right(b: int) -> None:
    x = Var("x", "int64")
    built = c.ceildiv(x, const(b, "int64"))
    for a in range(-20, 20):
        value = ex.Add(built, IntImm("int64", 0))
        assert evaluate(value, {x: a}) == -((-a) // b)


def evaluate(e: Any, env: dict[Var, int]) -> int:
    """Plain Python evaluation of integer expressions."""
    if isinstance(e, Var):
        return env[e]
    if isinstance(e, IntImm):
        return e.value
    if isinstance(e, ex.Cast):
        return int(evaluate(e.value, env))
    table = {
        ex.Add: operator.add, ex.Sub: operator.sub, ex.Mul: operator.mul, ex.FloorDiv: operator.floordiv,
        ex.FloorMod: operator.mod, ex.NE: operator.ne,
    }  # fmt: skip
    return int(table[type(e)](evaluate(e.a, env), evaluate(e.b, env)))


def test_rounding_up_takes_the_short_form_only_for_a_positive_divisor() -> None:
    n, m = SizeVar("n"), Var("m")
    assert c.ceildiv(i, n) is (i + n - 1) // n
    assert c.ceildiv(i, 4) is (i + 4 - 1) // 4
    assert c.ceildiv(i, m) is 0 - (0 - i) // m
    v = Var("v", "uint8")
    for a in (0, 1, 254, 255):
        assert evaluate(c.ceildiv(v, const(2, "uint8")), {v: a}) == (a + 1) // 2
    with pytest.raises(TypeError, match="takes integers"):
        c.ceildiv(f, 2.0)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: i / i, "quotient of two integers"),
        (lambda: c.truncdiv(f, f), "takes integers"),
        (lambda: f & f, "takes integers"),
        (lambda: ~f, "takes integers"),
        (lambda: c.and_(i, flag), "a condition is a bool"),
        (lambda: c.if_then_else(i, 1, 2), "a condition is a bool"),
        (lambda: c.if_then_else(Broadcast(flag, 2), 1, 2), "one condition"),
        (lambda: c.if_then_else(flag, i, f), "the branches differ"),
        (lambda: Var("p", "handle") + 1, "takes no arithmetic"),
        (lambda: c.min_(Var("p", "handle"), Var("q", "handle")), "takes numbers"),
        (lambda: c.math_call("exp", i), "takes floats"),
        (lambda: c.call_intrin("int32", "tir.shift_left", i), "takes 2 arguments, not 1"),
        (lambda: const(1.5, "int32"), "is no integer"),
        (lambda: const(object()), "not a number"),  # pyright: ignore[reportArgumentType]
        (lambda: h + Var("b", "bfloat16"), "no common type"),
        (lambda: c.add(Broadcast(i, 2), Broadcast(i, 4)), "2 and 4 lanes"),
    ],
)
def test_what_has_no_meaning_is_a_type_error(build: Callable[[], Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        build()


def test_numbers_too_large_for_their_type_are_value_errors() -> None:
    for make in (
        lambda: const(2**63),
        lambda: const(300, "int8"),
        lambda: const(10**400, "float64"),
        lambda: const("x"),
    ):
        with pytest.raises(ValueError):
            make()


# -- promotion ----------------------------------------------------------------------------------

PROMOTION = [
    ("int32", "int64", "int64"), ("int8", "int16", "int16"), ("uint8", "uint32", "uint32"),
    ("int32", "uint32", "uint32"),
    ("int64", "uint32", "int64"), ("uint64", "int32", "uint64"), ("int8", "uint16", "uint16"), ("bool", "int8", "int8"),
    ("bool", "uint64", "uint64"), ("bool", "float16", "float16"),
    ("int64", "float16", "float16"), ("int32", "float32", "float32"),
    ("float16", "float32", "float32"), ("float32", "float64", "float64"), ("bfloat16", "float32", "float32"),
    ("uint8", "bfloat16", "bfloat16"), ("float8_e4m3fn", "float16", "float16"), ("float8_e5m2", "bfloat16", "bfloat16"),
    ("int32", "float8_e4m3fn", "float8_e4m3fn"),
]  # fmt: skip


@pytest.mark.parametrize(("one", "two", "common"), PROMOTION)
def test_operands_meet_in_their_common_type(one: str, two: str, common: str) -> None:
    a, b = Var("a", one), Var("b", two)
    for x, y in ((a, b), (b, a)):
        p, q = c.promote(x, y)
        assert p.dtype == q.dtype == common
        assert p is cast(x, common) and q is cast(y, common)


def test_equal_types_stay_and_two_bools_add_up_as_integers() -> None:
    assert (i + Var("j")).dtype == "int32"
    assert (flag + flag).dtype == "int32"


def test_a_scalar_is_broadcast_to_the_lanes_of_the_other_side() -> None:
    v = Var("v", "int64x4")
    got = i + v
    assert got is ex.Add(cast(Broadcast(i, 4), "int64x4"), v)
    assert (v * 2).b is Broadcast(const(2, "int64"), 4)  # pyright: ignore[reportAttributeAccessIssue]


def test_python_numbers_take_part_as_the_language_says() -> None:
    assert (u + 1).dtype == "int32"
    assert (Var("b", "int64") + 1).b is const(1, "int64")  # pyright: ignore[reportAttributeAccessIssue]
    assert (i + 1.5) is ex.Add(cast(i, "float32"), const(1.5))
    assert (h * 2.0) is ex.Mul(h, FloatImm("float16", 2.0))
    assert (h * 2) is ex.Mul(h, FloatImm("float16", 2.0))
    # numpy.float64 is a Python float; the other NumPy scalars bring their own type.
    assert (f + np.float64(1.5)).dtype == "float32"
    assert (h + np.float32(1.5)).dtype == "float32"
    assert (u + np.uint8(1)).dtype == "uint8"
    assert (Var("w", "uint32") + -1).b is const(2**32 - 1, "uint32")  # pyright: ignore[reportAttributeAccessIssue]


def test_a_compared_python_number_takes_the_other_type() -> None:
    assert (u < 200).b is const(200, "uint8")  # pyright: ignore[reportAttributeAccessIssue]
    assert (h > 1).b is FloatImm("float16", 1.0)  # pyright: ignore[reportAttributeAccessIssue]
    assert (u < 300).b is const(300)  # pyright: ignore[reportAttributeAccessIssue]
    assert (i < 1.5).a is cast(i, "float32")  # pyright: ignore[reportAttributeAccessIssue]


def test_a_float_constant_keeps_its_text_and_is_rounded_where_it_is_used() -> None:
    tenth = const(0.1)
    assert tenth.value == 0.1  # pyright: ignore[reportAttributeAccessIssue]
    assert cast(tenth, "float64").value == float(np.float32(0.1))  # pyright: ignore[reportAttributeAccessIssue]
    assert (tenth == const(float(np.float32(0.1)))) is const(True)
