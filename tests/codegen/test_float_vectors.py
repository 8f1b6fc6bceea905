"""Operations on long vectors of floats have the bits of the plain ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tscript.driver import build
from tscript.script import from_source
from tscript.target import Target

COUNT = 1 << 12
TARGETS = ["llvm", "llvm -mcpu=haswell", "llvm -mcpu=x86-64"]
TRICKY = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 3.0, 1e-30, -1e-30, 1e30, 2.0**-126, 2.0**-149, 2.0**127]


def kernel(text: str, dtype: str, lanes: int, target: str = "llvm") -> Any:
    """C[v] = `text` of A[v], B[v] and the number D[0]."""
    func = from_source(
        f"""
@T.prim_func
def main(A: T.Buffer(({COUNT},), "{dtype}"), B: T.Buffer(({COUNT},), "{dtype}"), D: T.Buffer((1,), "{dtype}"),
         C: T.Buffer(({COUNT},), "{dtype}")):
    T.func_attr({{"global_symbol": "main", "tir.noalias": True}})
    for i in range({COUNT // lanes}):
        for v in T.vectorized({lanes}):
            C[i * {lanes} + v] = {text}
"""
    )
    return build(func, target=target)["main"]


def bits_of(x: Any) -> Any:
    return x.view(np.uint32 if x.dtype == np.float32 else np.uint64)


def same(got: Any, want: Any) -> None:
    """The same bits, or NaN on both sides."""
    equal = (bits_of(got) == bits_of(want)) | (np.isnan(got) & np.isnan(want))
    assert equal.all(), (got[~equal][:3], want[~equal][:3])


def any_bits(rng: Any, dtype: str, count: int = COUNT) -> Any:
    raw = rng.integers(0, 256, count * np.dtype(dtype).itemsize, np.uint8)
    return raw.view(dtype)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("dtype", "lanes"), [("float32", 64), ("float32", 8), ("float64", 32), ("float64", 4)])
def test_vectors_divided_by_one_number_are_rounded_as_divisions_are(dtype: str, lanes: int, target: str) -> None:
    divide = kernel(f"A[i * {lanes} + v] / D[0]", dtype, lanes, target)
    rng = np.random.default_rng(0)
    out, unused = np.empty((2, COUNT), dtype)
    with np.errstate(all="ignore"):
        for round_ in range(60):
            # Mantissas of all kinds, near each other in size; then everything there is.
            a = (rng.random(COUNT) + 1).astype(dtype) if round_ % 3 else any_bits(rng, dtype)
            d = (rng.random(1) * 3 + 0.01).astype(dtype) if round_ % 2 else any_bits(rng, dtype, 1)
            divide(a, unused, d, out)
            same(out, a / d)
        for d in TRICKY:
            a = np.resize(np.array(TRICKY, dtype), COUNT)
            divide(a, unused, np.array([d], dtype), out)
            same(out, a / np.array(d, dtype))


def test_small_and_large_quotients_are_rounded_as_divisions_are() -> None:
    divide = kernel("A[i * 64 + v] / D[0]", "float32", 64)
    rng = np.random.default_rng(1)
    out, unused = np.empty((2, COUNT), np.float32)
    for exponent in range(-149, 128, 3):
        a = np.ldexp(rng.random(COUNT, np.float32) + 1, exponent).astype(np.float32)
        for scale in (-33, -30, -29, 0, 7, 29, 30, 33):
            d = np.ldexp(rng.random(1, np.float32) + 1, scale).astype(np.float32)
            with np.errstate(all="ignore"):
                divide(a, unused, d, out)
                same(out, a / d)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("dtype", "lanes"), [("float32", 64), ("float32", 16), ("float64", 8), ("float32", 4)])
def test_extremes_order_zeros_and_let_nan_win(dtype: str, lanes: int, target: str) -> None:
    rng = np.random.default_rng(2)
    a, b = any_bits(rng, dtype), any_bits(rng, dtype)
    pairs = np.array([(x, y) for x in TRICKY for y in TRICKY], dtype)
    a[: len(pairs)], b[: len(pairs)] = pairs.T
    out, d = np.empty(COUNT, dtype), np.zeros(1, dtype)
    with np.errstate(all="ignore"):
        for name in ("max", "min"):
            kernel(f"T.{name}(A[i * {lanes} + v], B[i * {lanes} + v])", dtype, lanes, target)(a, b, d, out)
            one = np.maximum if name == "max" else np.minimum
            want = one(a, b)
            zeros = (a == 0) & (b == 0)
            negative = np.signbit(a) & np.signbit(b) if name == "max" else np.signbit(a) | np.signbit(b)
            want[zeros] = np.where(negative, -0.0, 0.0).astype(dtype)[zeros]
            same(out, want)


def test_a_division_by_what_stays_the_same_has_none_in_the_loop() -> None:
    if "avx512f" not in Target("llvm").features:
        pytest.skip("the text is that for AVX-512")
    func = from_source(
        """
@T.prim_func
def main(A: T.Buffer((4096,), "float32"), D: T.Buffer((1,), "float32"), C: T.Buffer((4096,), "float32")):
    T.func_attr({"global_symbol": "main", "tir.noalias": True})
    for i in range(64):
        for v in T.vectorized(64):
            C[i * 64 + v] = A[i * 64 + v] / D[0]
"""
    )
    text = build(func).get_source("ll")
    quick = next(block for block in text.split("\n\n") if "llvm.fma.v64f32" in block)
    assert "fdiv <64 x float>" not in quick and text.count("fdiv float 1.0") == 1


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("lanes", [8, 64])
@pytest.mark.parametrize("dtype", ["int32", "uint64"])
def test_integers_divided_by_one_number_are_truncated(dtype: str, lanes: int, target: str) -> None:
    f = kernel("T.Div(A[i * LANES + v], D[0])".replace("LANES", str(lanes)), dtype, lanes, target)
    a = np.random.default_rng(0).integers(0, 1 << 31, COUNT).astype(dtype)
    c = np.zeros_like(a)
    f(a, a, np.array([7], dtype), c)
    np.testing.assert_array_equal(c, a // a.dtype.type(7))
