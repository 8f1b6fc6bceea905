"""Mistakes reported of other compilers: numbers of built programs, calls by learners, and imports that clash."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import warnings
from typing import Any

import numpy as np
import pytest

import tscript
from tscript import interp, nd, te
from tscript.script import tir as T
from tscript.support.errors import CallError

F4 = np.float32


def both(func: Any, *inputs: Any, out: Any) -> Any:
    """The output of a function, its last argument, as native code; the interpreter must give the same numbers."""
    built, read = nd.array(out), nd.array(out)
    tscript.build(func)(*inputs, built)
    interp.run(func, *[nd.array(i) for i in inputs], read)
    np.testing.assert_array_equal(built.numpy().astype(np.float64), read.numpy().astype(np.float64))
    return built.numpy()


@pytest.mark.parametrize("lanes", [1, 8])
def test_bfloat16_stored_as_float32_without_a_cast_widens_by_value(lanes: int) -> None:
    kind = "vectorized" if lanes == 8 else "serial"
    source = f"""
@T.prim_func
def widen(A: T.Buffer((16,), "bfloat16"), B: T.Buffer((16,), "float32")):
    for i in range({16 // lanes}):
        for j in T.{kind}({lanes}):
            B[i * {lanes} + j] = A[i * {lanes} + j]
"""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        func = tscript.script.from_source("from tscript.script import tir as T\n" + source)
    a = nd.array(np.linspace(-3, 3, 16), dtype="bfloat16")
    np.testing.assert_array_equal(both(func, a, out=np.zeros(16, F4)), a.numpy().astype(F4))


def test_float32_of_all_exponents_keeps_nan_and_infinity_in_bfloat16() -> None:
    x = te.placeholder((8,), name="X")
    func = te.create_prim_func([x, te.compute((8,), lambda i: x[i].astype("bfloat16"), name="Y")])
    bits = [0x7FFF8C22, 0xFFFFFFFF, 0x7F800001, 0xFF800001, 0x7F800000, 0xFF800000, 0x7F7FFFFF, 0x80000000]
    a = np.array(bits, np.uint32).view(F4)
    got = both(func, a, out=nd.zeros((8,), "bfloat16")).astype(F4)
    assert np.isnan(got[:4]).all()
    np.testing.assert_array_equal(got[4:], [np.inf, -np.inf, np.inf, 0])
    assert np.signbit(got[7])


@pytest.mark.parametrize("first", [0, 1])
def test_nan_wins_in_clips_as_a_constant_and_as_a_value_of_every_shape(first: int) -> None:
    x = te.placeholder((8,), name="X")

    def clip(i: Any) -> Any:
        low, high = T.float32(0), T.float32(6)
        return te.min(te.max(x[i], low), high) if first else te.min(high, te.max(low, x[i]))

    sch = tscript.tir.Schedule(te.create_prim_func([x, te.compute((8,), clip, name="Y")]))
    a = np.array([np.nan, -1, 0, 3, 7, np.inf, -np.inf, np.nan], F4)
    want = np.array([np.nan, 0, 0, 3, 6, 6, 0, np.nan], F4)
    np.testing.assert_array_equal(both(sch.mod["main"], a, out=np.zeros(8, F4)), want)
    (loop,) = sch.get_loops(sch.get_block("Y"))
    sch.vectorize(loop)
    np.testing.assert_array_equal(both(sch.mod["main"], a, out=np.zeros(8, F4)), want)


@pytest.mark.parametrize("how", ["apart", "compute_at", "compute_inline"])
def test_uint32_differences_wrap_wherever_they_are_computed(how: str) -> None:
    x, y = te.placeholder((4,), "uint32", "X"), te.placeholder((4,), "uint32", "Y")
    d = te.compute((4,), lambda i: x[i] - y[i], name="D")
    func = te.create_prim_func([x, y, te.compute((4,), lambda i: d[i].astype("uint64"), name="E")])
    sch = tscript.tir.Schedule(func)
    if how == "compute_inline":
        sch.compute_inline(sch.get_block("D"))
    elif how == "compute_at":
        sch.compute_at(sch.get_block("D"), sch.get_loops(sch.get_block("E"))[0])
    a, b = np.array([1, 5, 0, 7], np.uint32), np.array([3, 4, 1, 7], np.uint32)
    got = both(sch.mod["main"], a, b, out=np.zeros(4, np.uint64))
    assert got.tolist() == [4294967294, 1, 4294967295, 0]


def test_int64_by_way_of_bool_is_zero_or_one() -> None:
    x = te.placeholder((3,), "int64", "X")
    func = te.create_prim_func([x, te.compute((3,), lambda i: x[i].astype("bool").astype("int32"), name="Y")])
    assert both(func, np.array([-1, 0, 1 << 40]), out=np.zeros(3, np.int32)).tolist() == [1, 0, 1]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16"])
def test_short_integers_wrap_between_shifts_and_compare_at_their_width(dtype: str) -> None:
    bits = int(dtype.lstrip("uint"))
    x = te.placeholder((4,), dtype, "X")
    up = te.const(bits - 4, dtype)
    out = te.compute(
        (4,),
        lambda i: (
            te.max((x[i] << up) >> up, te.min(x[i], te.const(1, dtype))).astype("int64")
            + te.if_then_else(x[i] < te.const(0, dtype), te.const(1000, "int64"), te.const(0, "int64"))
        ),
        name="Y",
    )
    a = np.array([48, 200 if bits == 8 else 40000, 1, 127], np.int64).astype(dtype)
    shifted = (a << np.array(bits - 4, dtype)) >> np.array(bits - 4, dtype)
    want = np.maximum(shifted, np.minimum(a, np.array(1, dtype))).astype(np.int64) + 1000 * (a < 0)
    assert both(te.create_prim_func([x, out]), a, out=np.zeros(4, np.int64)).tolist() == want.tolist()


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float8_e5m2", "float8_e4m3fn", "int8", "uint32", "int64"])
def test_a_maximum_starts_below_every_value_of_its_type(dtype: str) -> None:
    x, k = te.placeholder((4,), dtype, "X"), te.reduce_axis((0, 4), "k")
    func = te.create_prim_func([x, te.compute((1,), lambda i: te.max(x[k], axis=k), name="Y")])
    a = nd.array(np.array([-8, -2, -4, -8] if not dtype.startswith("u") else [0, 0, 0, 0]), dtype=dtype)
    assert float(both(func, a, out=nd.zeros((1,), dtype))[0]) == (-2 if not dtype.startswith("u") else 0)


@T.prim_func
def copy(A: T.Buffer((4, 4), "int64"), B: T.Buffer((4, 4), "int64")):
    for i, j in T.grid(4, 4):
        B[i, j] = A[i, j]


def frozen() -> Any:
    a = np.zeros((4, 4), np.int64)
    a.flags.writeable = False
    return a


GOOD = np.zeros((4, 4), np.int64)


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ((GOOD.astype(np.int32), GOOD), "argument 1 `A` of copy: expected int64[4, 4], got int32[4, 4]; use A.astype"),
        (
            (np.zeros((4, 5), np.int64), GOOD),
            "argument 1 `A` of copy: expected int64[4, 4], got int64[4, 5]; pass an array of shape (4, 4)",
        ),
        (
            (np.zeros(16, np.int64), GOOD),
            "2 dimensions, int64[4, 4], got 1, int64[16]; it has the right number of elements: A.reshape((4, 4))",
        ),
        ((np.int64(3), GOOD), "argument 1 `A` of copy: expected int64[4, 4], got the NumPy scalar"),
        ((np.array(3), GOOD), "argument 1 `A` of copy: expected 2 dimensions, int64[4, 4], got 0"),
        ((np.asfortranarray(np.arange(16).reshape(4, 4)), GOOD), "use np.ascontiguousarray(A)"),
        (([[1] * 4] * 4, GOOD), "got a list; use np.array(A, dtype='int64')"),
        ((GOOD, frozen()), "argument 2 `B` of copy: the kernel writes this array, but it is read-only; pass B.copy()"),
        ((GOOD,), "copy takes 2 arguments, not 1: copy(A: int64[4, 4], B: int64[4, 4])"),
    ],
)
def test_an_argument_of_the_wrong_kind_is_told_in_the_words_of_its_declaration(arguments: Any, what: str) -> None:
    with pytest.raises(CallError) as caught:
        tscript.build(copy)(*arguments)
    assert what in str(caught.value)
    assert "struct" not in str(caught.value)


def test_builds_of_what_is_no_program_are_type_errors() -> None:
    a = te.placeholder((4,), name="A")
    b = te.compute((4,), lambda i: a[i] + 1.0, name="B")
    for arguments in ((b, [a, b]), ([a, b],), (b.op,), (None,), ("copy",), (copy, [a, b]), (copy, 3), ([copy, a],)):
        with pytest.raises(TypeError):
            tscript.build(*arguments)
    with pytest.raises(TypeError):
        tscript.build()  # type: ignore[call-arg]


def fresh(*lines: str) -> None:
    subprocess.run([sys.executable, "-c", "\n".join(lines)], check=True, timeout=120)


BUILD = (
    "import numpy as np",
    "from tscript import te",
    "x = te.placeholder((4,), name='X')",
    "f = te.create_prim_func([x, te.compute((4,), lambda i: x[i] + 1.0, name='Y')])",
    "a, b = np.ones(4, 'float32'), np.zeros(4, 'float32')",
    "tscript.build(f)(a, b)",
    "assert (b == 2).all()",
)


def test_importing_loads_no_compiler_that_could_clash_with_another() -> None:
    check = "assert not [m for m in sys.modules if m.split('.')[0] == 'llvmlite']"
    fresh("import sys, tscript", check, *BUILD[:-2], check, *BUILD[-2:])


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed, so no order to try")
@pytest.mark.parametrize("order", [("torch", "tscript"), ("tscript", "torch")])
def test_torch_is_imported_before_or_after(order: tuple[str, str]) -> None:
    use = ("t = torch.ones(4)", "assert float((t @ t).sum()) == 4")
    fresh(f"import {order[0]}", f"import {order[1]}", *BUILD, *use)
    fresh(f"import {order[0]}", *(BUILD if order[0] == "tscript" else use), f"import {order[1]}", *BUILD, *use)
