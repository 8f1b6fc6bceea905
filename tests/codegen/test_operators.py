"""Native operators against `tscript.ir.semantics`, for every data type, in scalars and in vectors."""

from __future__ import annotations

import itertools
import platform
from typing import Any

import numpy as np
import pytest

from tscript.driver import build
from tscript.interp.numeric import next_after
from tscript.ir import expr as ex
from tscript.ir import semantics
from tscript.ir.construct import bitwise_and, bitwise_or, bitwise_xor, ceildiv
from tscript.ir.dtype import DataType, int_range
from tscript.ir.expr import Call, Op
from tscript.ir.semantics import numpy_dtype
from tscript.target.target import Target

INTEGERS = ["int4", "uint4", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float32", "float64"]
DTYPES = [*INTEGERS, *FLOATS, "bool"]
ARITH = ["Add", "Sub", "Mul", "Div", "Mod", "FloorDiv", "FloorMod", "Min", "Max"]
COMPARE = ["EQ", "NE", "LT", "LE", "GT", "GE"]


def samples(dtype: str) -> list[Any]:
    kind = DataType(dtype)
    if kind.is_bool:
        return [0, 1]
    if kind.is_integer:
        low, high = int_range(kind)
        picked = [low, low + 1, -7, -3, -2, -1, 0, 1, 2, 3, 4, 7, 48, 100, high // 2 + 1, high - 1, high]
        return sorted({v for v in picked if low <= v <= high})
    wide = [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, -2.5, 3.0, 7.0, -7.0, 0.1, 100.3, -448.0, 65504.0, 1e-3, 6e-8, 1e-38, 3e38]
    special = [float("inf"), float("-inf"), float("nan")]
    values = [semantics.round_float(kind, v) for v in [*wide, *special]]
    if kind.bits >= 32:
        values += [1e-45, 16777217.0] if kind.bits == 32 else [5e-324, 1e300, 2.0**53 + 2]
    unique = {np.float64(v).tobytes(): v for v in (semantics.round_float(kind, v) for v in values)}
    return list(unique.values())


def pairs(dtype: str, keep: Any = None) -> tuple[list[Any], list[Any]]:
    chosen = [p for p in itertools.product(samples(dtype), repeat=2) if keep is None or keep(*p)]
    # A multiple of four, for vectors.
    chosen += chosen[: -len(chosen) % 4]
    return [a for a, _ in chosen], [b for _, b in chosen]


def to_array(dtype: str, values: list[Any]) -> np.ndarray:
    kind = numpy_dtype(DataType(dtype))
    with np.errstate(over="ignore", invalid="ignore"):
        return np.array(values, np.float64).astype(kind) if DataType(dtype).is_float else np.array(values, kind)


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("dtype", DTYPES)
def test_arithmetic_and_comparisons_follow_the_semantics(dtype: str, lanes: int, elementwise: Any, tools: Any) -> None:
    kind = DataType(dtype)
    rows = []
    for name in ARITH:
        divides = name in ("Div", "Mod", "FloorDiv", "FloorMod") and not kind.is_float
        xs, ys = pairs(dtype, (lambda a, b: b != 0) if divides else None)
        expected = to_array(dtype, [semantics.arith(name, kind, a, b) for a, b in zip(xs, ys, strict=True)])
        rows.append((name, dtype, xs, ys, expected))
    for name in COMPARE:
        xs, ys = pairs(dtype)
        expected = np.array([semantics.COMPARE[name](a, b) for a, b in zip(xs, ys, strict=True)])
        rows.append((name, "bool", xs, ys, expected))
    kernels = [elementwise.add([dtype, dtype], out, len(xs), getattr(ex, name), lanes) for name, out, xs, _, _ in rows]
    for k, (name, out, xs, ys, expected) in zip(kernels, rows, strict=True):
        got = elementwise.run(k, [to_array(dtype, xs), to_array(dtype, ys)], out)
        wrong = np.nonzero(tools.bits(got) != tools.bits(expected))[0]
        assert not len(wrong), [(name, xs[i], ys[i], "got", got[i], "not", expected[i]) for i in wrong[:5]]


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("dtype", INTEGERS)
def test_bit_operators_and_shifts_follow_the_semantics(dtype: str, lanes: int, elementwise: Any) -> None:
    kind = DataType(dtype)
    names = ["bitwise_and", "bitwise_or", "bitwise_xor", "shift_left", "shift_right"]

    def call(name: str) -> Any:
        return lambda a, b: Call(a.dtype, Op.get("tir." + name), (a, b))

    xs, ys = pairs(dtype)
    kernels = [elementwise.add([dtype, dtype], dtype, len(xs), call(n), lanes) for n in names]
    invert = elementwise.add([dtype], dtype, len(xs), lambda a: Call(a.dtype, Op.get("tir.bitwise_not"), (a,)), lanes)
    x, y = to_array(dtype, xs), to_array(dtype, ys)
    for k, name in zip(kernels, names, strict=True):
        expected = to_array(dtype, [semantics.bitwise(name, kind, a, b) for a, b in zip(xs, ys, strict=True)])
        np.testing.assert_array_equal(elementwise.run(k, [x, y], dtype), expected, name)
    expected = to_array(dtype, [semantics.wrap(kind, ~int(v)) for v in xs])
    np.testing.assert_array_equal(elementwise.run(invert, [x], dtype), expected)


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("source", DTYPES)
def test_every_conversion_follows_the_semantics(source: str, lanes: int, elementwise: Any, tools: Any) -> None:
    values = samples(source)
    if DataType(source).is_float:
        more = [2147483647.0, -2147483649.0, 4294967296.0, 1.8446744073709552e19, -0.75, 255.5, 127.9, 480.0, 464.0]
        values += [semantics.round_float(DataType(source), v) for v in more]
    values += values[: -len(values) % 4]
    values = (values * 4)[: max(len(values), 4)]
    x = to_array(source, values)

    def cast_to(target: str) -> Any:
        return lambda a: ex.Cast(DataType(target).with_lanes(a.dtype.lanes), a)

    kernels = [elementwise.add([source], t, len(values), cast_to(t), lanes) for t in DTYPES]
    for k, target in zip(kernels, DTYPES, strict=True):
        convert = [semantics.convert_value(DataType(source), DataType(target), v) for v in values]
        expected, got = to_array(target, convert), elementwise.run(k, [x], target)
        wrong = np.nonzero(tools.bits(got) != tools.bits(expected))[0]
        assert not len(wrong), [(source, target, values[i], "got", got[i], "not", expected[i]) for i in wrong[:5]]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_every_bit_pattern_widens_and_narrows_as_ml_dtypes_does(dtype: str, elementwise: Any, tools: Any) -> None:
    kind = numpy_dtype(DataType(dtype))
    every = np.arange(1 << DataType(dtype).bits).astype(f"uint{DataType(dtype).bits}").view(kind)
    # For each pattern, the float32 halfway to the next one, and its neighbours on both sides.
    wide = every.astype(np.float32)
    with np.errstate(invalid="ignore", over="ignore"):
        half = (wide + np.roll(wide, -1)) / 2
        up, down = np.nextafter(half, np.float32(np.inf)), np.nextafter(half, np.float32(-np.inf))
    nans = np.array([0x7FFF8C22, 0xFFC00001, 0x7F800001], np.uint32).view(np.float32)
    singles = np.concatenate([half, up, down, nans])
    widen = elementwise.add([dtype], "float32", len(every), lambda a: ex.Cast("float32", a))
    narrow = elementwise.add(["float32"], dtype, len(singles), lambda a: ex.Cast(dtype, a))
    copy = elementwise.add([dtype], dtype, len(every), lambda a: a)
    np.testing.assert_array_equal(tools.bits(elementwise.run(widen, [every], "float32")), tools.bits(wide))
    with np.errstate(invalid="ignore", over="ignore"):
        expected = singles.astype(kind)
    np.testing.assert_array_equal(tools.bits(elementwise.run(narrow, [singles], dtype)), tools.bits(expected))
    assert elementwise.run(copy, [every], dtype).tobytes() == every.tobytes()


@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_every_bit_pattern_has_the_neighbours_of_the_semantics(dtype: str, lanes: int, elementwise: Any) -> None:
    width = DataType(dtype).bits
    raw = np.dtype(f"uint{width}")
    every = np.arange(1 << width).astype(raw).view(numpy_dtype(DataType(dtype)))
    with np.errstate(all="ignore"):
        ends = np.array([np.inf, -np.inf, 0.0, -0.0, np.nan]).astype(every.dtype)
    goals = [np.full_like(every, e) for e in ends]
    goals += [every, np.random.default_rng(7).permutation(every)]
    starts, ends = np.tile(every, len(goals)), np.concatenate(goals)
    call = next_after(DataType(dtype))
    with np.errstate(all="ignore"):
        pairs_of_values = zip(starts.astype(float).tolist(), ends.astype(float).tolist(), strict=True)
        expected = np.array([call(x, y) for x, y in pairs_of_values]).astype(every.dtype)
        known = np.nextafter(starts, ends)
        # Of two zeros, NumPy's float16 gives the first; all other types give the second, as C does.
        numbers = ~np.isnan(known.astype(float)) & ((starts.astype(float) != 0) | (ends.astype(float) != 0))
    k = elementwise.add(
        [dtype, dtype], dtype, len(starts), lambda a, b: Call(a.dtype, Op.get("tir.nextafter"), (a, b)), lanes
    )
    got = elementwise.run(k, [starts, ends], dtype)
    np.testing.assert_array_equal(got.view(raw), expected.view(raw))
    np.testing.assert_array_equal(got.view(raw)[numbers], known.view(raw)[numbers])


def test_a_nan_stays_a_nan_and_keeps_its_sign_when_narrowed(elementwise: Any) -> None:
    nan = np.array([0x7FFF8C22, 0xFFFF8C22, 0x7F800001], np.uint32).view(np.float32)
    k = elementwise.add(["float32"], "bfloat16", 3, lambda a: ex.Cast("bfloat16", a))
    got = elementwise.run(k, [nan], "bfloat16")
    assert np.isnan(got.astype(np.float32)).all()
    assert (got.view(np.uint16) >> 15).tolist() == [0, 1, 0]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "float32", "bool"])
def test_choices_and_logic_work_lane_by_lane(dtype: str, elementwise: Any) -> None:
    xs, ys = pairs(dtype)
    x, y = to_array(dtype, xs), to_array(dtype, ys)
    chosen = lambda a, b: ex.Select(ex.LT(a, b), a, b)
    names = [elementwise.add([dtype, dtype], dtype, len(xs), chosen, lanes) for lanes in (1, 4)]
    logic = lambda a, b: ex.Not(ex.Or(ex.And(ex.LT(a, b), ex.NE(a, b)), ex.EQ(a, b)))
    tests = [elementwise.add([dtype, dtype], "bool", len(xs), logic, lanes) for lanes in (1, 4)]
    for k in names:
        np.testing.assert_array_equal(elementwise.run(k, [x, y], dtype), np.where(x < y, x, y))
    for k in tests:
        np.testing.assert_array_equal(elementwise.run(k, [x, y], "bool"), ~((x < y) | (x == y)))


def test_fixed_divisors_agree_with_divisors_read_at_run_time(elementwise: Any) -> None:
    x = np.array([-128, -127, -17, -16, -8, -7, -1, 0, 1, 6, 7, 8, 16, 127], np.int8)
    divisors = [-128, -16, -7, -3, -1, 1, 2, 3, 4, 7, 16, 64, 127]
    names = [
        (
            kind,
            d,
            elementwise.add(["int8"], "int8", len(x), lambda a, k=kind, d=d: getattr(ex, k)(a, ex.IntImm("int8", d))),
        )
        for kind in ("Div", "Mod", "FloorDiv", "FloorMod")
        for d in divisors
    ]
    for kind, d, k in names:
        expected = [semantics.arith(kind, DataType("int8"), int(v), d) for v in x]
        assert elementwise.run(k, [x], "int8").tolist() == expected, (kind, d)


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_sum_of_a_product_is_rounded_once_or_twice_as_the_target_says(dtype: str, lanes: int, tools: Any) -> None:
    if platform.machine() in ("x86_64", "AMD64") and "fma" not in Target("llvm").features:
        pytest.skip("this CPU has no instruction for it")
    rng = np.random.default_rng(0)
    a, b, c = rng.standard_normal((3, 1024)).astype(dtype)
    forms = {
        "left": (lambda x, y, z: x * y + z, lambda x, y, z: x * y + z),
        "right": (lambda x, y, z: z + x * y, lambda x, y, z: x * y + z),
        "taken off": (lambda x, y, z: z - x * y, lambda x, y, z: z - x * y),
        "less": (lambda x, y, z: x * y - z, lambda x, y, z: x * y - z),
    }
    kernels = tools.Elementwise()
    names = {k: kernels.add([dtype] * 3, dtype, 1024, f, lanes) for k, (f, _) in forms.items()}
    strict, fused = (build(kernels.module(), f"llvm -fast-math-contract={n}") for n in (0, 1))
    default = kernels.build()
    wide = [v.astype(np.longdouble) for v in (a, b, c)]
    for key, (_, f) in forms.items():
        twice, once, plain = (np.empty_like(a) for _ in range(3))
        strict[names[key]](a, b, c, twice)
        fused[names[key]](a, b, c, once)
        default[names[key]](a, b, c, plain)
        np.testing.assert_array_equal(twice, f(a, b, c), key)
        if dtype == "float32":
            # Products of two float32 are exact there.
            np.testing.assert_array_equal(once, f(*(v.astype(np.float64) for v in (a, b, c))).astype(dtype), key)
        assert (once != twice).any() and np.abs(once - f(*wide)).max() <= np.abs(twice - f(*wide)).max()
        np.testing.assert_array_equal(plain, once, key)


@pytest.mark.parametrize("lanes", [1, 4])
def test_sub_word_integers_wrap_at_their_width(lanes: int, elementwise: Any) -> None:
    x = np.array([48, 200, 255, 128], np.uint8)
    four = lambda a: ex.IntImm("uint8", 4) if a.dtype.lanes == 1 else ex.Broadcast(ex.IntImm("uint8", 4), 4)
    up_down = lambda a: (a << four(a)) >> four(a)
    wide = lambda a: ex.Cast(DataType("int32").with_lanes(a.dtype.lanes), a)
    shifted = elementwise.add(["uint8"], "uint8", 4, up_down, lanes)
    widened = elementwise.add(["uint8"], "int32", 4, wide, lanes)
    assert elementwise.run(shifted, [x], "uint8").tolist() == [(int(v) << 4 & 255) >> 4 for v in x]
    assert elementwise.run(widened, [x], "int32").tolist() == [48, 200, 255, 128]


def test_a_difference_below_zero_wraps_in_uint32(elementwise: Any) -> None:
    k = elementwise.add(["uint32", "uint32"], "uint32", 2, lambda a, b: a - b)
    got = elementwise.run(k, [np.array([3, 9], np.uint32), np.array([5, 2], np.uint32)], "uint32")
    assert got.tolist() == [4294967294, 7]


def test_minus_one_cast_to_bool_and_back_is_one(elementwise: Any) -> None:
    k = elementwise.add(["int64"], "int32", 2, lambda a: ex.Cast("int32", ex.Cast("bool", a)))
    assert elementwise.run(k, [np.array([-1, 0])], "int32").tolist() == [1, 0]


def test_a_mask_can_be_built_from_bits(elementwise: Any) -> None:
    k = elementwise.add(["int32", "int32"], "int32", 2, lambda a, b: bitwise_or(bitwise_and(a, b), bitwise_xor(a, b)))
    assert elementwise.run(k, [np.array([5, 9], np.int32), np.array([3, 8], np.int32)], "int32").tolist() == [7, 9]


@pytest.mark.parametrize("dtype", INTEGERS)
def test_ceildiv_rounds_up_for_all_signs(dtype: str, elementwise: Any) -> None:
    kind = DataType(dtype)
    # No larger values: they would overflow on the way, which is wrong for indices.
    values = [v for v in [-3, -2, -1, 0, 1, 2, 3] if int_range(kind)[0] <= v]
    rows = [(a, b) for a, b in itertools.product(values, values) if b != 0]
    xs, ys = [a for a, _ in rows], [b for _, b in rows]
    made = elementwise.add([dtype, dtype], dtype, len(rows), ceildiv)
    expected = to_array(dtype, [-(-a // b) for a, b in rows])
    np.testing.assert_array_equal(elementwise.run(made, [to_array(dtype, xs), to_array(dtype, ys)], dtype), expected)
