"""Prefetches ask for each line of a region, change nothing, and never fail."""

from __future__ import annotations

import numpy as np
import pytest

from tscript import interp
from tscript.driver import build, lower
from tscript.ir.function import PrimFunc
from tscript.ir.structural import assert_structural_equal
from tscript.script import from_source

HEAD = """
@T.prim_func
def main(a: T.handle, B: T.Buffer((64, 64), "float32"), m: T.int32):
    T.func_attr({"global_symbol": "main", "tir.noalias": True})
    n = T.int32()
    A = T.match_buffer(a, (n, 64))
    S = T.alloc_buffer((), "float32")
    S[()] = T.float32(1)
    for i in range(64):
        PREFETCH
        for j in KIND(64):
            INNER
            B[i, j] = A[i % n, j] + S[()]
"""


def program(prefetch: str = "pass", inner: str = "pass", kind: str = "range") -> PrimFunc:
    lines = HEAD.replace("PREFETCH", prefetch).replace("INNER", inner).replace("KIND", kind).split("\n")
    return from_source("\n".join(line for line in lines if line.strip() != "pass"))


def run(func: PrimFunc) -> str:
    """The LLVM code of `func`, which computes what it should."""
    a = np.arange(5 * 64, dtype=np.float32).reshape(5, 64)
    built = build(func)
    for f in (built["main"], lambda *args: interp.run(func, *args), lambda *args: interp.run(lower(func), *args)):
        b = np.zeros((64, 64), np.float32)
        f(a, b, 0)
        np.testing.assert_array_equal(b, a[np.arange(64) % 5] + 1)
    return built.get_source("ll")


@pytest.mark.parametrize(
    "region",
    [
        "[i + 1, slice(0, 64)]",
        "[i + 1, 0]",
        "[T.Range(i, i + m), slice(0, 64)]",
        "[i + (1 << 20), slice(-1000000, 1000000)]",
        "[0 - i, slice(60, 70)]",
    ],
)
def test_every_region_is_asked_for_wherever_it_lies(region: str) -> None:
    assert "@llvm.prefetch" in run(program(f"T.prefetch(A, {region})"))


def test_a_region_takes_one_request_for_a_line() -> None:
    lowered = lower(program("T.prefetch(A, [T.Range(i, i + 2), slice(0, 64)])"))
    text = lowered["main"].script()
    at = "(i + line0) * 64 + line1 * 16"
    assert "for line0, line1 in T.grid(2, 4):" in text and f"T.Range({at}, {at} + 1)" in text
    assert_structural_equal(lower(lowered), lowered)


def test_a_hint_never_fails() -> None:
    assert "llvm.prefetch" not in run(program("T.prefetch(A, [i // m, 0])"))
    assert "llvm.prefetch" not in run(program("T.prefetch(A, [T.Cast('int32', A[i, 0]), 0])"))


def test_hints_keep_a_loop_from_nothing() -> None:
    text = run(program(inner="T.prefetch(A, [i + 1, j])", kind="T.vectorized"))
    assert "x float>" in text and "@llvm.prefetch" in text


def test_memory_without_dimensions() -> None:
    assert "@llvm.prefetch" in run(program("T.prefetch(S, [])"))
