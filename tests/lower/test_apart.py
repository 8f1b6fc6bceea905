"""Functions that promise nothing of their arrays: fast where these do not overlap, right where they do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tscript import interp
from tscript.driver import build, lower
from tscript.lower.apart import may_meet
from tscript.script import from_source

HEAD = "@T.prim_func\ndef f({}):\n    T.func_attr({{'global_symbol': 'f'}})\n"
SUMS = HEAD.format("A: T.Buffer((64,), 'int32'), B: T.Buffer((64,), 'int32')") + (
    "    for i in range(16):\n        for k in range(4):\n            B[i] = B[i] * 3 + A[i * 4 + k]\n"
)
SIZES = """@T.prim_func
def f(a: T.handle, b: T.handle):
    T.func_attr({'global_symbol': 'f'})
    n = T.int32()
    A = T.match_buffer(a, (n, 4), 'int32')
    B = T.match_buffer(b, (n,), 'int32')
    for i in range(n):
        for k in range(4):
            B[i] = B[i] * 3 + A[i, k]
"""
THREADS = HEAD.format("A: T.Buffer((64,), 'int32'), B: T.Buffer((64,), 'int32')") + (
    "    for i in T.parallel(16):\n        for k in range(4):\n            B[i] = B[i] * 3 + A[i * 4 + k]\n"
)


def func(text: str) -> Any:
    return from_source(text)


@pytest.mark.parametrize("text", [SUMS, SIZES])
@pytest.mark.parametrize("shift", [-64, -60, -17, -1, 0, 1, 3, 15, 40, 63, 64])
def test_arrays_that_overlap_are_treated_as_the_interpreter_treats_them(text: str, shift: int) -> None:
    f = func(text)
    assert may_meet(lower(f)["f"])

    def arguments() -> tuple[Any, Any, Any]:
        memory = np.random.default_rng(0).integers(-9, 9, 256, dtype=np.int32)
        a, b = memory[96:160], memory[96 + shift :]
        return (memory, a.reshape(16, 4), b[:16]) if text is SIZES else (memory, a, b[:64])

    expected, a, b = arguments()
    interp.run(f, a, b)
    native, x, y = arguments()
    build(f)["f"](x, y)
    assert native.tolist() == expected.tolist()


def test_the_version_for_separate_arrays_keeps_sums_in_registers() -> None:
    ir = build(func(SUMS), target="llvm -opt-level=0").get_source("ll")
    assert ".kernel.apart" in ir and ".kernel.any" in ir


def test_parallel_loops_have_both_versions() -> None:
    f = func(THREADS)
    a, b = np.random.default_rng(1).integers(-9, 9, (2, 64), dtype=np.int32)
    expected = b.copy()
    interp.run(f, a, expected)
    build(f)["f"](a, b)
    assert b.tolist() == expected.tolist()


CASES = {
    "a promise": SUMS.replace("'f'}", "'f', 'tir.noalias': True}"),
    "one array": HEAD.format("A: T.Buffer((4,), 'int32')") + "    for i in range(4):\n        A[i] = A[i] + 1\n",
    "no loop": HEAD.format("A: T.Buffer((4,), 'int32'), B: T.Buffer((4,), 'int32')") + "    B[0] = A[0]\n",
    "an address": HEAD.format("A: T.Buffer((4,), 'int32'), B: T.Buffer((4,), 'int32')")
    + "    P: T.handle('int32') = T.address_of(A[0])\n    V = T.Buffer((4,), 'int32', data=P)\n"
    + "    for i in range(4):\n        B[i] = V[i]\n",
    "strides": HEAD.format("A: T.Buffer((4,), 'int32', strides=[2]), B: T.Buffer((4,), 'int32')")
    + "    for i in range(4):\n        B[i] = A[i]\n",
    "only read": HEAD.format("A: T.Buffer((4,), 'int32'), B: T.Buffer((4,), 'int32')")
    + "    for i in range(4):\n        T.evaluate(A[i] + B[i])\n",
}


@pytest.mark.parametrize("case", CASES)
def test_one_version_is_enough(case: str) -> None:
    assert not may_meet(lower(func(CASES[case]))["f"])
    assert ".kernel.apart" not in build(func(CASES[case]), target="llvm -opt-level=0").get_source("ll")
