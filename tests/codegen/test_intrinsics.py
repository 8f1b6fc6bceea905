"""Native intrinsics against the interpreter's definitions, and the refusal of those that need a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tscript.driver import build
from tscript.interp import numeric
from tscript.ir import expr as ex
from tscript.ir import stmt as st
from tscript.ir.buffer import decl_buffer
from tscript.ir.construct import const
from tscript.ir.dtype import DataType
from tscript.ir.expr import Call, Op
from tscript.ir.semantics import numpy_dtype
from tscript.script import tir as T
from tscript.support.errors import BuildError

FLOATS = ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float32", "float64"]
EXACT = "sqrt floor ceil trunc round nearbyint fabs copysign fmod".split()
UNARY = (
    "exp exp2 exp10 log log2 log10 log1p sqrt rsqrt sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf "
    "sigmoid floor ceil trunc round nearbyint fabs"
).split()
BINARY = "atan2 fmod hypot copysign ldexp pow".split()
POINTS = [0.0, -0.0, 0.25, 0.5, -0.5, 1.0, -1.0, 1.5, 2.5, -2.5, 3.0, -3.5, 7.25, 0.1, 20.0, -6.0]
SPECIAL = [float("inf"), float("-inf"), float("nan"), 1e-3]
EPSILON = {
    "float16": 2**-10,
    "bfloat16": 2**-7,
    "float8_e4m3fn": 2**-3,
    "float8_e5m2": 2**-2,
    "float32": 2**-23,
    "float64": 2**-52,
}


def call(name: str, dtype: str | None = None) -> Any:
    def made(*args: Any) -> Any:
        kind = args[0].dtype if dtype is None else DataType(dtype).with_lanes(args[0].dtype.lanes)
        return Call(kind, Op.get("tir." + name), args)

    return made


def expected(name: str, dtype: str, *arrays: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        wide = [a.astype(np.float64) for a in arrays]
        values = [numeric.MATH[name](*(float(v) for v in row)) for row in zip(*wide, strict=True)]
        return (
            np.array(values, np.float64)
            .astype(np.float32 if dtype != "float64" else np.float64)
            .astype(numpy_dtype(DataType(dtype)))
        )


def assert_close(got: np.ndarray, want: np.ndarray, name: str, dtype: str) -> None:
    with np.errstate(all="ignore"):
        g, w = got.astype(np.float64), want.astype(np.float64)
        same = (g == w) | (np.isnan(g) & np.isnan(w))
        tolerance = 0.0 if name in EXACT else (4 if dtype in ("float32", "float64") else 1.01) * EPSILON[dtype]
        near = np.abs(g - w) <= tolerance * np.maximum(np.abs(w), 1e-30)
    bad = np.nonzero(~(same | near))[0]
    assert not len(bad), [(name, dtype, int(i), got[i], "not", want[i]) for i in bad[:4]]


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("dtype", FLOATS)
def test_math_functions_agree_with_the_interpreter(dtype: str, lanes: int, elementwise: Any) -> None:
    kind = numpy_dtype(DataType(dtype))
    with np.errstate(all="ignore"):
        x = np.array(POINTS + SPECIAL).astype(kind)
        y = np.array(POINTS[::-1] + SPECIAL[::-1]).astype(kind)
    unary = [(n, elementwise.add([dtype], dtype, len(x), call(n), lanes)) for n in UNARY]
    binary = [(n, elementwise.add([dtype] * 2, dtype, len(x), call(n), lanes)) for n in BINARY]
    for name, k in unary:
        assert_close(elementwise.run(k, [x], dtype), expected(name, dtype, x), name, dtype)
    for name, k in binary:
        assert_close(elementwise.run(k, [x, y], dtype), expected(name, dtype, x, y), name, dtype)


@pytest.mark.parametrize("dtype", FLOATS)
def test_tests_of_special_values_agree_with_numpy(dtype: str, elementwise: Any) -> None:
    with np.errstate(all="ignore"):
        x = np.array(POINTS + SPECIAL).astype(numpy_dtype(DataType(dtype)))
    tests = [(n, lanes) for n in ("isnan", "isinf", "isfinite") for lanes in (1, 4)]
    names = [(n, elementwise.add([dtype], "bool", len(x), call(n, "bool"), lanes)) for n, lanes in tests]
    for name, k in names:
        np.testing.assert_array_equal(elementwise.run(k, [x], "bool"), getattr(np, name)(x.astype(np.float64)), name)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32", "int64", "uint64"])
def test_bits_are_counted_at_the_width_of_the_type(dtype: str, elementwise: Any) -> None:
    width = DataType(dtype).bits
    x = np.array([0, 1, 2, 3, 100, 127], dtype)
    ones = elementwise.add([dtype], dtype, len(x), call("popcount"))
    zeros = elementwise.add([dtype], "int32", len(x), call("clz", "int32"))
    assert elementwise.run(ones, [x], dtype).tolist() == [int(v).bit_count() for v in x]
    assert elementwise.run(zeros, [x], "int32").tolist() == [width - int(v).bit_length() for v in x]


def test_fixed_point_products_round_half_up(elementwise: Any) -> None:
    x = np.array([100, -100, 7, -7, 2**30, -(2**31), 0, 12345], np.int32)
    cases = [(1 << 30, 31, -2), (1 << 30, 31, 3), (2**31 - 1, 31, 0), (3, 1, -1), (5, 0, 0)]

    def product(y: int, q: int, s: int) -> Any:
        return lambda a: call("q_multiply_shift")(a, const(y), const(q), const(s))

    names = [elementwise.add(["int32"], "int32", len(x), product(*c)) for c in cases]
    for name, c in zip(names, cases, strict=True):
        want = [numeric.q_multiply_shift(int(v), *c) for v in x]
        assert elementwise.run(name, [x], "int32").tolist() == want, c


def test_reinterpretation_keeps_bits(elementwise: Any) -> None:
    cases = [
        ("float32", "int32"),
        ("float16", "uint16"),
        ("bfloat16", "int16"),
        ("float8_e5m2", "uint8"),
        ("float64", "int64"),
    ]
    names = [elementwise.add([s], t, 4, call("reinterpret", t), lanes) for s, t in cases for lanes in (1, 4)]
    back = [elementwise.add([t], s, 4, call("reinterpret", s)) for s, t in cases]
    for n, (source, target) in enumerate(cases):
        x = np.array([1.5, -2.0, 0.0, 3.0]).astype(numpy_dtype(DataType(source)))
        for k in names[2 * n : 2 * n + 2]:
            np.testing.assert_array_equal(elementwise.run(k, [x], target), x.view(target))
        np.testing.assert_array_equal(elementwise.run(back[n], [x.view(target)], source), x)


def test_vectors_are_cut_joined_and_shuffled(tools: Any) -> None:
    a, out = decl_buffer((8,), "int32", name="a"), decl_buffer((16,), "int32", name="out")
    whole = a[0:8:1]
    low, high = (Call("int32x4", Op.get(f"tir.vector{n}"), (whole,)) for n in ("low", "high"))
    joined = Call("int32x8", Op.get("tir.vectorcombine"), (high, low))
    picked = ex.Shuffle((whole,), tuple(const(i) for i in (7, 5, 3, 1, 0, 2, 4, 6)))
    body = st.seq(
        st.BufferStore(out, joined, (ex.Ramp(const(0), const(1), 8),)),
        st.BufferStore(out, picked, (ex.Ramp(const(8), const(1), 8),)),
    )
    result = np.zeros(16, np.int32)
    build(tools.kernel([a, out], body))(np.arange(8, dtype=np.int32), result)
    assert result.tolist() == [4, 5, 6, 7, 0, 1, 2, 3, 7, 5, 3, 1, 0, 2, 4, 6]


def test_external_functions_are_called_by_name() -> None:
    @T.prim_func
    def main(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "float64")):
        for i in range(4):
            A[i] = T.call_extern("int32", "abs", A[i])
            B[i] = T.call_pure_extern("float64", "cbrt", B[i])

    a, b = np.array([-3, 4, -5, 0], np.int32), np.array([8.0, 27.0, -1.0, 0.0])
    build(main)(a, b)
    assert a.tolist() == [3, 4, 5, 0]
    np.testing.assert_allclose(b, [2, 3, -1, 0])


def test_an_unknown_external_function_is_refused_before_anything_runs() -> None:
    @T.prim_func
    def main(A: T.Buffer((4,), "int32")):
        A[0] = T.call_extern("int32", "no_such_function_anywhere", A[0])

    with pytest.raises(BuildError, match=r"(?s)no_such_function_anywhere.*RTLD_GLOBAL"):
        build(main)


def test_intrinsics_of_gpus_are_refused_naming_the_statement() -> None:
    @T.prim_func
    def main(A: T.Buffer((4,), "int32")):
        A[0] = 1
        T.evaluate(T.ptx_commit_group())

    with pytest.raises(BuildError, match=r"(?s)T\.ptx_commit_group on a CPU.*in: T\.ptx_commit_group\(\).*cuda"):
        build(main)


def test_math_functions_of_integers_are_refused_before_llvm_sees_them(tools: Any) -> None:
    a = decl_buffer((4,), "int32", name="a")
    body = st.BufferStore(a, Call("int32", Op.get("tir.exp"), (a[0],)), (const(0),))
    with pytest.raises(BuildError, match=r"exp of an int32"):
        build(tools.kernel([a], body))


def test_llvm_intrinsics_are_called_by_their_full_name(elementwise: Any) -> None:
    fused = lambda a, b: Call("float32", Op.get("tir.call_llvm_pure_intrin"), (ex.StringImm("llvm.fma.f32"), a, b, a))
    k = elementwise.add(["float32"] * 2, "float32", 4, fused)
    x = np.array([1, 2, 3, 4], np.float32)
    assert elementwise.run(k, [x, x], "float32").tolist() == [2, 6, 12, 20]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("llvm.no.such.thing", "LLVM has no intrinsic called llvm.no.such.thing"),
        ("llvm.nvvm.read.ptx.sreg.tid.x", "belongs to nvvm processors, and this is none"),
        ("llvm.amdgcn.readfirstlane.i32", "belongs to amdgcn processors"),
        ("fma", "full name"),
    ],
)
def test_llvm_intrinsics_that_cannot_be_selected_are_refused(name: str, reason: str) -> None:
    @T.prim_func
    def main(A: T.Buffer((4,), "int32")):
        A[0] = T.call_llvm_pure_intrin("int32", name, A[1])

    with pytest.raises(BuildError, match=reason):
        build(main)
