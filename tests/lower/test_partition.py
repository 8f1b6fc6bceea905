"""Guards: what is decided, what is cut, and what stays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tscript import interp
from tscript.driver import build
from tscript.ir.function import IRModule
from tscript.ir.well_formed import verify_well_formed
from tscript.lower.partition import partition_loops
from tscript.lower.pipeline import CPU_PIPELINE, run_passes
from tscript.schedule import Schedule
from tscript.script import from_source
from tscript.script import tir as T

HEAD = "@T.prim_func\ndef f(A: T.Buffer((64,), 'int32'), B: T.Buffer((64,), 'int32'), n: T.int32):\n"


def kernel(text: str) -> Any:
    return from_source(HEAD + "    T.func_attr({'tir.noalias': True})\n" + text)


# Each with how many conditions are left.
CASES: dict[str, tuple[str, int]] = {
    "always true": (
        """
    for i in range(8):
        if i < 8 and i * 2 + 1 < 16:
            B[i] = A[i]
""",
        0,
    ),
    "never true": (
        """
    for i in range(8):
        B[i] = A[i]
        if i > 7:
            B[i] = 0
""",
        0,
    ),
    "a split that leaves a rest": (
        """
    for i0, i1 in T.grid(7, 4):
        if i0 * 4 + i1 < 26:
            B[i0 * 4 + i1] = A[i0 * 4 + i1] + 1
""",
        0,
    ),
    "two splits": (
        """
    for i0, j0, i1, j1 in T.grid(2, 2, 3, 4):
        if i0 * 3 + i1 < 5 and j0 * 4 + j1 < 6:
            B[(i0 * 3 + i1) * 8 + j0 * 4 + j1] = A[j0 * 4 + j1] + 1
""",
        1,
    ),
    "from below": (
        """
    for i in range(16):
        if i - 3 >= 0:
            B[i] = A[i - 3]
""",
        0,
    ),
    "falling": (
        """
    for i in range(16):
        if 9 - i * 2 > 0:
            B[i] = A[i]
        else:
            B[i] = 7
""",
        0,
    ),
    "one iteration": (
        """
    for i in range(16):
        if i == 5:
            B[i] = A[i]
        if i != 9:
            B[i + 16] = A[i]
""",
        2,
    ),
    "the first iteration": (
        """
    for i in range(4):
        for k in range(8):
            if k == 0:
                B[i] = 0
            B[i] = B[i] + A[i * 8 + k]
""",
        0,
    ),
    "the first iteration of two loops": (
        """
    for i in range(4):
        for k0, k1 in T.grid(4, 2):
            if k0 == 0 and k1 == 0:
                B[i] = 0
            B[i] = B[i] + A[i * 8 + k0 * 2 + k1]
""",
        0,
    ),
    "the first iteration of a split loop": (
        """
    for i in range(4):
        for k0, k1 in T.grid(4, 2):
            if k0 * 2 + k1 == 0:
                B[i] = 0
            B[i] = B[i] + A[i * 8 + k0 * 2 + k1]
""",
        0,
    ),
    "the first iteration around other loops": (
        """
    for k in range(8):
        for i in range(4):
            if k == 0:
                B[i] = 0
            B[i] = B[i] + A[i * 8 + k]
""",
        0,
    ),
    "the first iteration, if there is one": (
        """
    for k in range(n):
        if k == 0:
            B[0] = 0
        B[0] = B[0] + A[k]
""",
        1,
    ),
    "not the first iteration": (
        """
    for k in range(8):
        if not k == 0:
            B[0] = B[0] + 100
        B[0] = B[0] + A[k]
""",
        0,
    ),
    "a size known at run time": (
        """
    for i0, i1 in T.grid((n + 3) // 4, 4):
        if i0 * 4 + i1 < n:
            B[i0 * 4 + i1] = A[i0 * 4 + i1]
""",
        1,
    ),
    "a size known at run time, from above": (
        """
    for i in range(16):
        if n <= i:
            B[i] = A[i]
""",
        1,
    ),
    "a parallel loop": (
        """
    for i0 in T.parallel(7):
        for i1 in range(4):
            if i0 * 4 + i1 < 26:
                B[i0 * 4 + i1] = A[i0 * 4 + i1]
""",
        2,
    ),
    "a parallel loop of a size known at run time": (
        """
    for i0 in T.parallel((n + 3) // 4):
        for i1 in range(4):
            if i0 * 4 + i1 < n:
                B[i0 * 4 + i1] = A[i0 * 4 + i1]
""",
        2,
    ),
    "a vectorised loop": (
        """
    for i in T.vectorized(16):
        if i < 11:
            B[i] = A[i]
""",
        1,
    ),
    "both of two conditions": (
        """
    for i in range(32):
        if i < 20 or i >= 28:
            B[i] = A[i]
""",
        0,
    ),
    "what memory holds": (
        """
    for i in range(16):
        if A[i] + 1 > A[i]:
            B[i] = 1
""",
        1,
    ),
    "a place that differs in each outer iteration": (
        """
    for i, j in T.grid(8, 8):
        if j < i:
            B[i * 8 + j] = 1
""",
        1,
    ),
    "from a start other than zero": (
        """
    for i in range(3, 19):
        if i * 2 < 20:
            B[i] = A[i]
""",
        0,
    ),
    "an allocation and a name inside": (
        """
    for i in range(16):
        w = T.decl_buffer((1,), "int32")
        w[0] = A[i]
        x: T.int32 = w[0] * 2
        if i < 10:
            B[i] = x
""",
        0,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_guards_are_decided_or_cut_and_the_result_is_the_same(case: str) -> None:
    text, left = CASES[case]
    func = kernel(text)
    got = partition_loops(func)
    verify_well_formed(got)
    assert got.script().count("if ") == left, got.script()
    assert from_source(got.script()).script() == got.script()
    native = build(func.with_attr("global_symbol", "f"))["f"]
    for n in (0, 1, 4, 7, 16, 30):
        rng = np.random.default_rng(n)
        a, b = rng.integers(-99, 99, (2, 64), dtype=np.int32)
        if case == "what memory holds":
            a[3] = 2**31 - 1
        expected, here, compiled = b.copy(), b.copy(), b.copy()
        interp.run(func, a, expected, n)
        interp.run(got, a, here, n)
        native(a, compiled, n)
        assert here.tolist() == expected.tolist() == compiled.tolist()


def test_what_has_no_guards_is_the_same_object() -> None:
    func = kernel("    for i, j in T.grid(8, 8):\n        B[i * 8 + j] = A[j]\n")
    assert partition_loops(func) is func
    # Where it would be cut again and again, a guard stays.
    deep = kernel("    for i, j in T.grid(8, 8):\n        if i * j < n:\n            B[i * 8 + j] = A[j]\n")
    assert partition_loops(deep) is deep


def test_copies_are_limited() -> None:
    @T.prim_func
    def pad(A: T.Buffer((4, 4, 4, 4), "float32"), B: T.Buffer((9, 9, 9, 9), "float32")):
        for i, j, k, m in T.grid(9, 9, 9, 9):
            if i > 2 and i < 7 and j > 2 and j < 7 and k > 2 and k < 7 and m > 2 and m < 7:
                B[i, j, k, m] = A[i - 3, j - 3, k - 3, m - 3]

    got = partition_loops(pad)
    a, b = np.random.default_rng(0).random((4, 4, 4, 4), np.float32), np.zeros((9,) * 4, np.float32)
    interp.run(got, a, b)
    np.testing.assert_array_equal(b[3:7, 3:7, 3:7, 3:7], a)
    assert b.sum(dtype=np.float64) == a.sum(dtype=np.float64)


@pytest.mark.parametrize("order", ["i0 j0 k i1 j1 j2", "i0 j0 i1 k j1 j2"])
@pytest.mark.parametrize("decomposed", [True, False])
def test_a_matmul_of_odd_sizes_is_vectors_and_registers_all_over(order: str, decomposed: bool) -> None:
    @T.prim_func
    def matmul(A: T.Buffer((13, 9), "float32"), B: T.Buffer((9, 39), "float32"), C: T.Buffer((13, 39), "float32")):
        T.func_attr({"tir.noalias": True, "global_symbol": "matmul"})
        for i, j, k in T.grid(13, 39, 9):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]

    s = Schedule(IRModule({"matmul": matmul}))
    block = s.get_block("C")
    i, j, k = s.get_loops(block)
    loops = {"k": k}
    loops["i0"], loops["i1"] = s.split(i, [None, 4])
    loops["j0"], loops["j1"], loops["j2"] = s.split(j, [None, 2, 8])
    s.reorder(*(loops[n] for n in order.split()))
    s.unroll(loops["i1"])
    s.unroll(loops["j1"])
    s.vectorize(loops["j2"])
    if decomposed:
        s.decompose_reduction(block, loops["k"])
    text = run_passes(s.mod["matmul"], CPU_PIPELINE).script()
    assert "if " not in text and "range(8)" not in text and text.count("_tile") > 8, text
    a, b = np.random.default_rng(0).random((2, 64, 64), np.float32)
    a, b, c = a[:13, :9].copy(), b[:9, :39].copy(), np.empty((13, 39), np.float32)
    build(s.mod)["matmul"](a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-5)


def test_conditions_whose_arithmetic_wraps_are_left_as_they_are():
    @T.prim_func
    def func(A: T.Buffer((4, 4), "int32"), s: T.int32):
        for i, j in T.grid(4, 4):
            if s >= T.Add(2147483647, s):
                A[i, j] = 1
            if T.Sub(2147483647, -2147483648) > i:
                A[i, j] = 2
            if T.Mul(i + 1, 1073741824) < 0:
                A[i, j] = A[i, j] + 10

    for value in (-5, 0, 3, 2147483647):
        expected, got = np.zeros((4, 4), np.int32), np.zeros((4, 4), np.int32)
        interp.run(func, expected, value)
        build(func, target="llvm")(got, value)
        np.testing.assert_array_equal(got, expected)
    assert expected.any()
