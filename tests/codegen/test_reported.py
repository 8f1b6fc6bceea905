"""Types that other compilers wrote wrong code for: infinities, wide and narrow limits, wide subscripts of vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tscript import interp
from tscript.driver import build
from tscript.ir.dtype import DataType
from tscript.ir.function import PrimFunc
from tscript.ir.semantics import numpy_dtype
from tscript.script import tir as T

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
