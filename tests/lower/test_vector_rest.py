"""Vectorised loops that are no plain runs over neighbours, on processors with vectors of every width."""

from __future__ import annotations

import numpy as np
import pytest

from tscript import interp
from tscript.driver import build
from tscript.script import from_source

BODIES = {
    "a condition and a name that differ between lanes": """
    for i in T.vectorized(37):
        k: T.int32 = i * 3 % 11
        if A[i] > T.float32(0) and k != 4:
            B[i] = A[k] / T.Cast("float32", k + 1)
        else:
            B[i] = A[k] - T.Cast("float32", i)
""",
    "a start that is not zero, of another length": """
    for i in T.vectorized(3, 32):
        B[i] = A[i + 1] * A[i]
""",
    "places read from memory": "    for i in T.vectorized(64):\n        B[I[i]] = A[I[63 - i]] + A[i * 7 % 64]\n",
    "vectors in vectors": """
    for i in T.vectorized(6):
        for j in T.vectorized(9):
            B[i * 9 + j] = A[j * 6 + i]
""",
    "a loop in lanes whose length differs": """
    for i in T.vectorized(16):
        B[i] = T.float32(0)
        for j in range(i):
            B[i] = B[i] + A[j]
""",
    "the largest of all lanes": "    for i in T.vectorized(61):\n        B[0] = T.max(B[0], A[i])\n",
    "a sum of integers over lanes": "    for i in T.vectorized(45):\n        I[0] = I[0] + I[i + 3] * i\n",
    "many more iterations than lanes": """
    for i in T.vectorized(4001):
        B[i % 64] = A[i % 64] + T.Cast('float32', i % 64)
""",
}


@pytest.mark.parametrize("target", ["llvm", "llvm -mcpu=haswell", "llvm -mcpu=x86-64"])
@pytest.mark.parametrize("what", BODIES)
def test_lanes_compute_what_iterations_in_turn_do(what: str, target: str) -> None:
    arrays = 'A: T.Buffer((65,), "float32"), B: T.Buffer((64,), "float32"), I: T.Buffer((64,), "int32")'
    head = f"@T.prim_func\ndef main({arrays}):\n"
    note = '    T.func_attr({"global_symbol": "main", "tir.noalias": True})\n'
    func = from_source(head + note + BODIES[what].lstrip("\n"))
    rng = np.random.default_rng(0)
    args = [rng.integers(-9, 9, 65).astype("float32"), np.zeros(64, "float32"), rng.permutation(64).astype("int32")]
    found: list[list[np.ndarray]] = []
    for run in (build(func, target=target), lambda *a: interp.run(func, *a)):
        mine = [a.copy() for a in args]
        run(*mine)
        found.append(mine)
    for got, want in zip(*found, strict=True):
        np.testing.assert_array_equal(got, want)
