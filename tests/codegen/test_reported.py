"""What other compilers wrote wrong code for: limits of types, vectors of odd types, names of overwritten elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tscript import interp
from tscript.driver import build
from tscript.ir.dtype import DataType
from tscript.ir.function import PrimFunc
from tscript.ir.semantics import numpy_dtype
from tscript.script import from_source
from tscript.script import tir as T
from tscript.support.errors import BuildError, LoweringError, ScriptError

FLOATS = ["float16", "bfloat16", "float32", "float64"]
INTEGERS = ["int8", "uint8", "int16", "int32", "int64", "uint64"]


def results(func: PrimFunc, *inputs: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
    """What the interpreter and native code leave in the last parameter, of the shape and type of the first."""
    out = [np.zeros_like(inputs[0]) for _ in range(2)]
    interp.run(func, *inputs, out[0])
    build(func)(*inputs, out[1])
    return out


@pytest.mark.parametrize("dtype", FLOATS)
def test_a_maximum_begins_at_minus_infinity(dtype: str) -> None:
    @T.prim_func
    def largest(A: T.Buffer((4, 8), dtype), B: T.Buffer((4, 8), dtype)):
        for i, k in T.grid(4, 8):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    B[vi, 0] = T.cast(T.float32("-inf"), dtype)
                B[vi, 0] = T.max(B[vi, 0], A[vi, vk])

    a = np.random.default_rng(0).normal(size=(4, 8)).astype(numpy_dtype(DataType(dtype)))
    a[1] = -np.inf
    a[2, 3] = np.inf
    for found in results(largest, a):
        np.testing.assert_array_equal(found[:, 0], a.max(1))


@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("dtype", FLOATS + INTEGERS)
def test_limits_of_every_type(dtype: str, lanes: int) -> None:
    kind = numpy_dtype(DataType(dtype))
    extreme = [2**63 - 1, -(2**63)] if dtype == "int64" else [2**64 - 1, 0] if dtype == "uint64" else [120, 0]
    a = np.array([*range(14), *extreme], kind)

    @T.prim_func
    def clipped(A: T.Buffer((16,), dtype), B: T.Buffer((16,), dtype)):
        for o in range(16 // lanes):
            for i in T.vectorized(lanes):
                with T.block("B"):
                    v = T.axis.spatial(16, o * lanes + i)
                    B[v] = T.max(T.min(A[v], T.cast(7, dtype)), T.cast(2, dtype))

    for found in results(clipped, a):
        np.testing.assert_array_equal(found, np.minimum(np.maximum(a, kind.type(2)), kind.type(7)))


@pytest.mark.parametrize("name", ["sinh", "cosh", "tanh", "exp", "log", "sqrt", "erf", "atan"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_functions_of_vectors_with_wide_subscripts(dtype: str, name: str) -> None:
    function = getattr(T, name)

    @T.prim_func
    def func(A: T.Buffer((T.int64(16),), dtype), B: T.Buffer((T.int64(16),), dtype)):
        B[T.ramp(T.int64(0), T.int64(2), 8)] = function(A[T.ramp(T.int64(8), T.int64(1), 8)])

    a = np.linspace(0.25, 2, 16).astype(numpy_dtype(DataType(dtype)))
    one, two = (found.astype("float32") for found in results(func, a))
    np.testing.assert_allclose(two, one, rtol=1e-2 if dtype != "float32" else 1e-5)
    assert np.all(one[1::2] == 0) and np.all(np.isfinite(one))
    if hasattr(np, name):
        expected = getattr(np, name)(a[8:].astype("float64"))
        np.testing.assert_allclose(one[::2], expected, rtol=2e-2 if dtype != "float32" else 1e-5)


@pytest.mark.parametrize("target", ["llvm", "llvm -mcpu=haswell", "llvm -mcpu=x86-64"])
@pytest.mark.parametrize("shape", [(3, 2, 2), (3, 1, 4), (2, 3, 16)])
def test_a_choice_between_bytes_by_lanes_of_float16(shape: tuple[int, int, int], target: str) -> None:
    @T.prim_func
    def zeros(A: T.Buffer(shape, "float16"), B: T.Buffer(shape, "uint8")):
        for i, j in T.grid(shape[0], shape[1]):
            for k in T.vectorized(shape[2]):
                B[i, j, k] = T.Select(A[i, j, k] == T.float16(0), T.uint8(0), T.uint8(1))

    a = np.random.default_rng(0).integers(0, 2, shape).astype("float16")
    a[0, 0, 0], a[-1, -1, -1] = -0.0, np.nan
    for run in (build(zeros, target=target), lambda *args: interp.run(zeros, *args)):
        b = np.full(shape, 7, "uint8")
        run(a, b)
        np.testing.assert_array_equal(b, a != 0)


@pytest.mark.parametrize("name", ["exp", "sin", "sqrt", "log", "tanh", "erf"])
@pytest.mark.parametrize("dtype", ["int32", "uint8", "bool"])
def test_functions_of_floats_refuse_integers_where_they_stand(name: str, dtype: str) -> None:
    with pytest.raises(ScriptError, match=rf"(?s){name} takes floats, not {dtype}.*T\.Cast.*:5:16"):
        from_source(
            f'@T.prim_func\ndef main(A: T.Buffer((4,), "{dtype}"), B: T.Buffer((4,), "float32")):\n'
            f"    for i in range(4):\n\n        B[i] = T.{name}(A[i])\n"
        )


@pytest.mark.parametrize("bound", ["t: T.float32 = A[i]", "t = A[i]"])
@pytest.mark.parametrize("loop", ["range", "T.vectorized", "T.unroll"])
def test_a_name_keeps_the_element_that_is_overwritten_then(loop: str, bound: str) -> None:
    func = from_source(
        f"""
@T.prim_func
def main(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    for i in {loop}(16):
        {bound}
        A[i] = T.float32(-1)
        B[i] = t + A[i]
"""
    )
    a = np.arange(16, dtype="float32")
    for run in (build(func), lambda *args: interp.run(func, *args)):
        mine, b = a.copy(), np.zeros_like(a)
        run(mine, b)
        np.testing.assert_array_equal(b, a - 1)
        assert (mine == -1).all()


@pytest.mark.parametrize("bound", ["t: T.float32 = ", "t = "])
def test_a_name_bound_again_under_a_condition_is_refused(bound: str) -> None:
    with pytest.raises(
        ScriptError, match="(?s)t is bound outside at line 3; the new value would be lost.*if_then_else"
    ):
        from_source(
            f'@T.prim_func\ndef main(A: T.Buffer((4,), "float32"), c: T.int32):\n    {bound}A[0]\n'
            f"    if c > 0:\n        {bound}T.float32(9)\n    A[1] = t\n"
        )


def test_a_barrier_that_some_threads_do_not_reach_is_never_dropped() -> None:
    @T.prim_func
    def main(A: T.Buffer((64,), "int32")):
        S = T.alloc_buffer((64,), "int32", scope="shared")
        for i in T.thread_binding(64, thread="threadIdx.x"):
            S[i] = i
            if i < 33:
                T.evaluate(T.tvm_storage_sync("shared"))
            A[i] = S[(i + 1) % 64]

    with pytest.raises(LoweringError, match="tvm_storage_sync waits for the other threads"):
        build(main)


def test_a_loop_that_no_thread_runs_is_named() -> None:
    @T.prim_func
    def copy(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
        for row in range(4):
            B[row] = A[row]

    with pytest.raises(BuildError, match="(?s)no thread runs row in copy: bind loops first"):
        build(copy, target="cuda")
