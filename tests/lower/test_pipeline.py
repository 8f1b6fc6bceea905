"""Lowering passes: what each leaves, and what is refused."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

import tscript
from tscript.codegen.llvm.module import emit_module
from tscript.driver import build, lower
from tscript.ir.function import IRModule
from tscript.ir.structural import assert_structural_equal
from tscript.ir.well_formed import verify_well_formed
from tscript.lower.pipeline import CPU_PIPELINE, Pass, run_passes
from tscript.lower.unroll import unroll_loops
from tscript.lower.vectorize import vectorize_loops
from tscript.script import tir as T
from tscript.support.errors import InternalError, LoweringError


@T.prim_func
def everything(a: T.handle, B: T.Buffer((16, 16), "float32"), c: T.handle):
    T.func_attr({"global_symbol": "everything", "tir.noalias": True})
    n = T.int32()
    s0 = T.int32()
    A = T.match_buffer(a, (n, 16), "float32")
    C = T.match_buffer(c, (16, 16), "float32", strides=(s0, 1))
    W = T.alloc_buffer((16, 16), "float32")
    for i, j in T.grid(4, 4):
        with T.block("tile"):
            vi, vj = T.axis.remap("SS", [i, j])
            tile = T.match_buffer(W[vi * 4 : vi * 4 + 4, vj * 4 : vj * 4 + 4], (4, 4), "float32", offset_factor=1)
            for x in range(4):
                for y in T.vectorized(4):
                    with T.block("fill"):
                        vx, vy = T.axis.remap("SS", [x, y])
                        tile[vx, vy] = B[vi * 4 + vx, vj * 4 + vy] + T.float32(1)
    for i in T.thread_binding(16, thread="blockIdx.x"):
        for j0, j1 in T.grid(4, 5):
            for k in range(n):
                with T.block("sum"):
                    vi = T.axis.spatial(16, i)
                    vj = T.axis.spatial(16, j0 * 5 + j1)
                    vk = T.axis.reduce(n, k)
                    T.where(j0 * 5 + j1 < 16)
                    with T.init():
                        C[vi, vj] = T.float32(0)
                    C[vi, vj] = C[vi, vj] + A[vk, vj] * W[vi, vj]
    for i in T.unroll(3):
        with T.block("last"):
            vi = T.axis.spatial(3, i)
            t: T.float32 = C[vi, 0]
            C[vi, 0] = t * t


def test_every_pass_leaves_a_program_that_is_well_formed_and_reads_back() -> None:
    seen: list[str] = []

    def watch(name, func) -> None:
        verify_well_formed(func)
        assert_structural_equal(tscript.script.from_source(func.script()), func)
        seen.append(name)

    lower(everything, watch=watch)
    assert seen == [p.name for p in CPU_PIPELINE]


def test_each_pass_computes_the_same_as_the_program() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.random((3, 16), np.float32), rng.random((16, 16), np.float32)
    expected = np.zeros((16, 16), np.float32)
    for k in range(3):
        expected = expected + a[k] * (b + np.float32(1))
    expected[:3, 0] *= expected[:3, 0]
    results = []

    def watch(name, func) -> None:
        c = np.zeros((16, 20), np.float32)
        # NumPy rounds products before it adds them.
        build(IRModule({"everything": func}), "llvm -fast-math-contract=0")["everything"](a, b, c[:, :16])
        results.append(name)
        np.testing.assert_array_equal(c[:, :16], expected, name)

    lower(everything, watch=watch)
    assert len(results) == len(CPU_PIPELINE)


def test_lowering_a_lowered_program_changes_nothing() -> None:
    once = lower(everything)
    assert_structural_equal(lower(once), once)


def test_a_pipeline_whose_pass_lacks_what_it_needs_is_a_defect() -> None:
    with pytest.raises(InternalError, match="the pass x needs no_blocks, which no pass before it gives"):
        run_passes(everything, [Pass("x", lambda f: f, needs=frozenset({"no_blocks"}))])


def test_index_arithmetic_leaves_int32_only_where_it_might_overflow() -> None:
    @T.prim_func
    def main(a: T.handle, B: T.Buffer((1024, 1024), "float32"), C: T.Buffer((65536, 65536), "int8"), n: T.int32):
        m = T.int32()
        A = T.match_buffer(a, (m, m), "float32")
        for i, j in T.grid(1024, 1024):
            B[i, j] = T.float32(0)
        for i, j in T.grid(65536, 65536):
            C[i, j] = T.int8(0)
        for i, j in T.grid(m, m):
            A[i, j] = T.float32(0)
        B[n // 100000 * 3, 0] = T.float32(1)

    text = lower(main).script()
    stores = [
        line.strip() for line in text.split("\n") if " = T." in line and "[" in line and "decl_buffer" not in line
    ]
    assert "B_1[i * 1024 + j] = T.float32(0.0)" in stores
    assert 'C_1[T.Cast("int64", i) * T.int64(65536) + T.Cast("int64", j)] = T.int8(0)' in stores
    assert 'A_1[T.Cast("int64", i) * T.Cast("int64", m) + T.Cast("int64", j)] = T.float32(0.0)' in stores
    code = emit_module(lower(main)).text
    assert "mul i32" not in code and "mul nsw i32" not in code


def test_an_index_beyond_int32_reaches_the_right_element() -> None:
    @T.prim_func
    def main(A: T.Buffer((70000, 70000), "int8"), i: T.int32, j: T.int32) -> T.int64:
        return T.reinterpret("int64", T.address_of(A[i, j])) - T.reinterpret("int64", T.address_of(A[0, 0]))

    lib = build(main)
    # The pages of this array are never touched.
    big = np.lib.stride_tricks.as_strided(np.zeros(1, np.int8), (70000, 70000), (0, 0))
    with pytest.raises(TypeError, match="compact"):
        lib(big, 1, 1)
    sparse = np.empty((70000, 70000), np.int8)
    assert lib(sparse, 69999, 69999) == 69999 * 70000 + 69999


def test_buffers_of_more_bytes_than_an_address_counts_are_refused() -> None:
    @T.prim_func
    def main(A: T.Buffer((4,), "float32")):
        W = T.alloc_buffer((T.int64(1) << T.int64(40), T.int64(1) << T.int64(40)), "float32")
        W[T.Cast("int64", A[1]), T.Cast("int64", A[2])] = A[0]

    size = 1 << 82
    with pytest.raises(LoweringError, match=f"the buffer W of shape .* takes {size} bytes"):
        build(main)


def test_a_buffer_just_over_four_gigabytes_is_compiled_with_its_true_size() -> None:
    @T.prim_func
    def main(A: T.Buffer((4,), "uint8")):
        W = T.alloc_buffer((T.int64(4294967297),), "uint8")
        T.evaluate(T.call_extern("handle", "memset", W.data, 1, T.int64(1)))
        A[0] = W[T.int64(0)]

    assert "add i64 4294967297, 64" in emit_module(lower(main)).text


@pytest.mark.parametrize("form", ["written", "cut"])
def test_a_constant_row_far_into_a_large_array_is_where_it_is(form: str) -> None:
    @T.prim_func
    def written(A: T.Buffer((50000, 50000), "int8")):
        for j in range(49998, 50000):
            A[49999, j] = T.int8(1)

    @T.prim_func
    def cut(A: T.Buffer((50000, 50000), "int8")):
        for i, j in T.grid(50000, 50000):
            if i == 49999 and j >= 49998:
                A[i, j] = T.int8(1)

    # 49999 * 50000 is beyond int32.
    text = lower(written if form == "written" else cut)[form].script()
    assert "T.int64(2499950000)" in text
    a = np.zeros((50000, 50000), np.int8)  # touched in one page only
    build(written if form == "written" else cut, target="llvm")(a)
    assert a[49999, 49997:].tolist() == [0, 1, 1]


def test_an_absurd_unroll_is_refused_with_advice() -> None:
    @T.prim_func
    def main(A: T.Buffer((1000000000,), "float32")):
        for i in T.unroll(1000000000):
            A[i] = T.float32(0)

    with pytest.raises(
        LoweringError, match=r"(?s)the loop over i has 1000000000 iterations, too many to unroll.*try: split it"
    ):
        build(main)


def test_unrolled_copies_define_variables_of_their_own() -> None:
    @T.prim_func
    def main(A: T.Buffer((4,), "float32")):
        for i in T.unroll(2, 4):
            t: T.float32 = A[i]
            for j in range(2):
                A[j] = t

    done = unroll_loops(main)
    verify_well_formed(IRModule({"main": done}))
    assert done.script().count("t") > 2 and "T.unroll" not in done.script()


def test_threads_that_wait_for_each_other_are_refused_on_a_cpu() -> None:
    @T.prim_func
    def main(A: T.Buffer((8,), "float32")):
        with T.launch_thread("threadIdx.x", 8) as t:
            A[t] = T.float32(0)
            T.evaluate(T.tvm_storage_sync("shared"))

    with pytest.raises(LoweringError, match=r'(?s)T\.tvm_storage_sync waits for the other threads.*target="cuda"'):
        build(main)


def test_the_pointer_of_a_view_starts_where_its_region_does() -> None:
    @T.prim_func
    def main(A: T.Buffer((8, 8), "int32"), B: T.Buffer((8, 8), "int32")):
        for i, j in T.grid(2, 2):
            with T.block("copy"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads(A[vi * 4 : vi * 4 + 4, vj * 4 : vj * 4 + 4])
                T.writes(B[vi * 4 : vi * 4 + 4, vj * 4 : vj * 4 + 4])
                a = T.match_buffer(A[vi * 4 : vi * 4 + 4, vj * 4 : vj * 4 + 4], (4, 4), "int32")
                b = T.match_buffer(B[vi * 4 : vi * 4 + 4, vj * 4 : vj * 4 + 4], (4, 4), "int32", offset_factor=1)
                for x in range(4):
                    target = T.meta_var(b.access_ptr("w", offset=x * 8))
                    source = T.meta_var(a.access_ptr("r", offset=x * 8))
                    T.evaluate(T.call_extern("handle", "memcpy", target, source, T.int64(16)))
                b[0, 0] = a[0, 0] + 1

    lower(main, watch=lambda name, func: verify_well_formed(func))
    a, b = np.arange(64, dtype=np.int32).reshape(8, 8), np.zeros((8, 8), np.int32)
    build(main)(a, b)
    expected = a.copy()
    expected[::4, ::4] += 1
    np.testing.assert_array_equal(b, expected)


def test_one_thread_index_launched_twice_becomes_two_loops() -> None:
    @T.prim_func
    def main(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
        tx = T.env_thread("threadIdx.x")
        with T.launch_thread(tx, 8):
            A[tx] = tx
        with T.launch_thread(tx, 8):
            B[tx] = tx * 2

    verify_well_formed(lower(main))
    a, b = np.zeros(8, np.int32), np.zeros(8, np.int32)
    build(main)(a, b)
    assert a.tolist() == list(range(8)) and b.tolist() == list(range(0, 16, 2))


def vectorized(func) -> str:
    passes = itertools.takewhile(lambda p: p.run is not vectorize_loops, CPU_PIPELINE)
    return vectorize_loops(run_passes(func, list(passes))).script()


def test_independent_lanes_become_a_vector() -> None:
    @T.prim_func
    def main(A: T.Buffer((8, 16), "float16"), B: T.Buffer((8, 16), "uint8"), n: T.int32):
        T.func_attr({"tir.noalias": True})
        for i in range(8):
            for j in T.vectorized(4, 12):
                B[i, j] = T.Cast("uint8", T.sqrt(A[i, j]) + T.Cast("float16", n) * A[i, 0])

    text = vectorized(main)
    assert "T.vectorized" not in text and "for j" not in text
    assert "B_1[i * 16 + 4:i * 16 + 4 + 8]" in text


@pytest.mark.parametrize("case", ["carried", "reduction", "may_alias"])
def test_dependent_lanes_stay_a_loop_with_the_right_result(case: str) -> None:
    @T.prim_func
    def carried(A: T.Buffer((9,), "int32"), B: T.Buffer((9,), "int32")):
        for j in T.vectorized(8):
            A[j + 1] = A[j] + B[j]

    @T.prim_func
    def reduction(A: T.Buffer((9,), "int32"), B: T.Buffer((9,), "int32")):
        for j in T.vectorized(8):
            A[0] = A[0] + B[j]

    @T.prim_func
    def may_alias(A: T.Buffer((9,), "int32"), B: T.Buffer((9,), "int32")):
        for j in T.vectorized(8):
            A[j + 1] = B[j] + 1

    func = {"carried": carried, "reduction": reduction, "may_alias": may_alias}[case]
    assert re.search(r"for j in range\(8\)", vectorized(func))
    a, b = np.ones(9, np.int32), np.arange(9, dtype=np.int32)
    if case == "may_alias":
        build(func)(a, a)
        assert a.tolist() == list(range(1, 10))
    else:
        build(func)(a, b)
        assert a.tolist() == ([1, *np.cumsum(b)[:8] + 1] if case == "carried" else [29] + [1] * 8)


def test_a_vector_loop_of_two_with_a_gather_is_right() -> None:
    @T.prim_func
    def main(A: T.Buffer((16,), "float32"), I: T.Buffer((4,), "int32"), B: T.Buffer((4,), "float32")):
        T.func_attr({"tir.noalias": True})
        for j in T.vectorized(4):
            B[j] = A[I[j] * 2 + j] + A[15 - j * 3]

    assert "for j" not in vectorized(main)
    a, at, b = np.arange(16, dtype=np.float32), np.array([3, 0, 5, 1], np.int32), np.zeros(4, np.float32)
    build(main)(a, at, b)
    assert b.tolist() == [a[at[j] * 2 + j] + a[15 - j * 3] for j in range(4)]


def test_very_deep_indices_and_values_are_lowered() -> None:
    @T.prim_func
    def main(A: T.Buffer((4096,), "int32"), B: T.Buffer((8, 1024), "int32"), n: T.int32):
        T.func_attr({"tir.noalias": True})
        for j in T.vectorized(4):
            A[j] = many_times(B[0, many_times(j, n)], n)

    b = np.arange(8192, dtype=np.int32).reshape(8, 1024)
    a = np.zeros(4096, np.int32)
    build(main)(a, b, 1)
    assert a[:4].tolist() == [4000 + i for i in range(4)]


def many_times(x, n):
    for _ in range(2000):
        x = x + n
    return x
