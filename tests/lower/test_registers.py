"""Register tiles: what is kept in registers across a loop, and what must not be."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from tscript import interp
from tscript.driver import build, lower
from tscript.ir.function import IRModule
from tscript.ir.well_formed import verify_well_formed
from tscript.lower.registers import promote_tiles
from tscript.schedule import Schedule
from tscript.script import from_source
from tscript.script import tir as T


@T.prim_func
def matmul(A: T.Buffer((24, 40), "float32"), B: T.Buffer((40, 64), "float32"), C: T.Buffer((24, 64), "float32")):
    T.func_attr({"tir.noalias": True})
    for i, j, k in T.grid(24, 64, 40):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


def tiled() -> Any:
    s = Schedule(IRModule({"matmul": matmul.with_attr("global_symbol", "matmul")}))
    block = s.get_block("C")
    i, j, k = s.get_loops(block)
    i0, i1 = s.split(i, [None, 8])
    j0, j1, j2 = s.split(j, [None, 2, 16])
    s.reorder(j0, i0, k, i1, j1, j2)
    s.unroll(i1)
    s.unroll(j1)
    s.vectorize(j2)
    s.decompose_reduction(block, k)
    return s.mod


def test_a_tile_of_an_output_lives_in_registers_across_the_reduction() -> None:
    text = lower(tiled())["matmul"].script()
    loop = text[text.index("for k in") :]
    assert 'decl_buffer((16,), "float32x16"' in text
    inside = loop[: loop.index("C_1[")]
    assert inside.count("C_tile[") == 32 and "A_1[" in inside and "B_1[" in inside
    a, b = np.random.default_rng(0).random((2, 64, 64), np.float32)
    a, b, c = a[:24, :40].copy(), b[:40].copy(), np.empty((24, 64), np.float32)
    build(tiled())["matmul"](a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-5)


def test_the_code_of_the_inner_loop_has_no_stores_and_one_load_of_each_vector() -> None:
    ir = build(tiled()).get_source("ll")
    body = next(part for part in re.split(r"\n\n|\n(?=[\w.\"]+:)", ir) if part.count("llvm.fmuladd") >= 16)
    assert body.count("llvm.fmuladd") % 16 == 0 and "store" not in body
    assert body.count("load <16 x float>") == 2 * (body.count("llvm.fmuladd") // 16)


def kernel(text: str) -> Any:
    head = "@T.prim_func\ndef f(A: T.Buffer((64,), 'int32'), B: T.Buffer((64,), 'int32'), n: T.int32):\n"
    return from_source(head + "    T.func_attr({'tir.noalias': True})\n" + text)


PROMOTED = {
    "a sum": """
    for k in range(16):
        B[3] = B[3] + A[k]
""",
    "two elements": """
    for i in range(8):
        for k in range(4):
            B[i * 2] = B[i * 2] + A[k]
            B[i * 2 + 1] = B[i * 2] + A[k + 4]
""",
    "across two loops": """
    for i in range(8):
        for k0, k1 in T.grid(4, 2):
            B[i] = B[i] + A[k0 * 2 + k1]
""",
    "a loop that may not run": """
    for k in range(n):
        B[5] = B[5] + A[k]
""",
    "stored before it is loaded": """
    for k in range(4):
        B[5] = A[k]
        B[6] = B[6] + B[5] * 2
""",
    "vectors": """
    for k in range(4):
        B[0:4] = B[0:4] + A[k * 4:k * 4 + 4]
        B[8:12] = B[8:12] - A[k * 4:k * 4 + 4]
""",
    "only the inner loop": """
    for i in range(8):
        for k in range(4):
            B[i] = B[i] + A[i * 4 + k]
""",
    "a condition that only reads": """
    for k in range(16):
        if A[k] > B[0]:
            B[0] = A[k]
""",
}
LEFT = {
    "places that move": """
    for k in range(15):
        B[k + 1] = B[k] + A[k]
""",
    "places that may meet": """
    for k in range(16):
        B[n] = B[n] + A[k]
        B[3] = B[3] + 1
""",
    "overlapping vectors": """
    for k in range(4):
        B[0:4] = B[0:4] + A[k * 4:k * 4 + 4]
        B[2:6] = B[2:6] - A[k * 4:k * 4 + 4]
""",
    "the same memory at a place that moves": """
    for k in range(16):
        B[3] = B[3] + B[k]
""",
    "only under a condition": """
    for k in range(16):
        if k > n:
            B[63] = B[63] + A[k]
""",
    "a place that is loaded": """
    for k in range(4):
        B[A[0] % 4] = B[A[0] % 4] + k
""",
}


@pytest.mark.parametrize("case", [*PROMOTED, *LEFT])
def test_what_is_promoted_computes_the_same_and_the_rest_is_left_as_it_is(case: str) -> None:
    func = kernel({**PROMOTED, **LEFT}[case])
    # Lowered already, so that the pass is all that runs.
    got = promote_tiles(func)
    if case in LEFT:
        assert got is func
    else:
        assert "_tile" in got.script() and promote_tiles(got).script().count("allocate") == got.script().count(
            "allocate"
        )
        verify_well_formed(got)
    for n in (0, 1, 7):
        rng = np.random.default_rng(n)
        a, b = rng.integers(-99, 99, (2, 64), dtype=np.int32)
        expected, here, native = b.copy(), b.copy(), b.copy()
        interp.run(func, a, expected, n)
        interp.run(got, a, here, n)
        build(got.with_attr("global_symbol", "f"))["f"](a, native, n)
        assert here.tolist() == expected.tolist() == native.tolist()


def test_parameters_that_may_overlap_stay_in_memory() -> None:
    func = kernel(PROMOTED["a sum"]).without_attr("tir.noalias")
    assert promote_tiles(func) is func


def test_memory_whose_address_is_taken_stays_in_memory() -> None:
    @T.prim_func
    def main(B: T.Buffer((8,), "int32")):
        T.func_attr({"tir.noalias": True})
        W = T.decl_buffer((4,), "int32")
        P: T.handle("int32") = T.address_of(W[0])
        V = T.Buffer((4,), "int32", data=P)
        for k in range(4):
            W[0] = W[0] + V[k]
        B[0] = W[0]

    assert promote_tiles(main) is main


def test_memory_taken_in_the_loop_is_no_tile() -> None:
    @T.prim_func
    def main(B: T.Buffer((8,), "int32")):
        for k in range(4):
            W = T.decl_buffer((1,), "int32")
            W[0] = k
            W[0] = W[0] + 1
            B[k] = W[0]

    assert promote_tiles(main) is main


def test_a_parallel_loop_shares_no_registers() -> None:
    @T.prim_func
    def main(B: T.Buffer((8,), "int32")):
        for _ in T.parallel(4):
            B[0] = 1

    assert promote_tiles(main) is main


def sums(index: str, first: str = "pass") -> Any:
    """Sums of rows whose start is set under a condition that is known when the program runs only."""
    return from_source(
        "@T.prim_func\n"
        "def main(A: T.Buffer((6, 40), 'float32'), B: T.Buffer((6,), 'float32'), n: T.int32):\n"
        "    T.func_attr({'tir.noalias': True})\n"
        "    total = T.decl_buffer((6,))\n"
        f"    {first}\n"
        "    for i in range(6):\n"
        "        for k0 in range(10):\n"
        "            for k1 in range(4):\n"
        "                if k0 * 4 + k1 == n:\n"
        f"                    total[{index}] = T.float32(0)\n"
        f"                total[{index}] = total[{index}] + A[i, k0 * 4 + k1]\n"
        f"        B[i] = total[{index}]\n"
    )


@pytest.mark.parametrize("index", ["i", "5 - i"])
def test_what_nothing_was_stored_in_is_not_loaded_into_a_tile(index: str) -> None:
    func = sums(index)
    low = lower(func)["main"]
    assert "total_tile[0] + A" in low.script()
    assert not re.search(r"total_tile\w*\[0\] = total\[", low.script())
    a, b = np.random.default_rng(0).random((6, 40), np.float32), np.zeros(6, np.float32)
    interp.run(low, a, b, 0, check_uninitialized=True)
    np.testing.assert_allclose(b, a.sum(1), rtol=1e-5)


@pytest.mark.parametrize(
    ("index", "first"),
    [
        # Another iteration of the loop around stored there.
        ("i // 2", "pass"),
        # Something else stored there.
        ("i", "total[2] = T.float32(7)"),
    ],
)
def test_what_may_have_been_stored_before_is_loaded_into_a_tile(index: str, first: str) -> None:
    func = sums(index, first)
    low = lower(func)["main"]
    assert re.search(r"total_tile\w*\[0\] = total\[", low.script())
    a = np.random.default_rng(0).random((6, 40), np.float32)
    expected, got, native = (np.zeros(6, np.float32) for _ in range(3))
    interp.run(func, a, expected, 0)
    interp.run(low, a, got, 0)
    build(func)(a, native, 0)
    np.testing.assert_array_equal(got, expected)
    np.testing.assert_allclose(native, expected, rtol=1e-5)


def test_a_loop_inside_uses_the_tile_of_the_loop_around() -> None:
    text = lower(sums("i"))["main"].script()
    assert set(re.findall(r"total_tile\w*", text)) == {"total_tile"}
