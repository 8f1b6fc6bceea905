"""Every kind of statement in native code, on programs as users write them."""

from __future__ import annotations

import gc
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import tscript
from tscript import interp, nd
from tscript.ir import stmt as st
from tscript.ir.buffer import decl_buffer
from tscript.ir.construct import cast, const, floormod, if_then_else
from tscript.ir.dtype import DataType
from tscript.ir.expr import Call, GlobalVar, Op, PrimType, Var
from tscript.ir.function import IRModule, PrimFunc
from tscript.script import ir as I
from tscript.script import tir as T
from tscript.support.errors import AssertFailed, BuildError, DivisionByZero, ExecutionError, InterpError


def test_reduction_blocks_initialise_once_for_each_output() -> None:
    @T.prim_func
    def main(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4,), "float32")):
        for i, j in T.grid(4, 8):
            with T.block("B"):
                vi, vj = T.axis.remap("SR", [i, j])
                with T.init():
                    B[vi] = T.float32(10)
                B[vi] = B[vi] + A[vi, vj]

    a, b = np.arange(32, dtype=np.float32).reshape(4, 8), np.full(4, 99, np.float32)
    tscript.build(main)(a, b)
    np.testing.assert_array_equal(b, a.sum(1) + 10)


def test_predicates_guard_init_and_body() -> None:
    @T.prim_func
    def main(A: T.Buffer((10,), "int32"), B: T.Buffer((10,), "int32")):
        for i0, i1, k in T.grid(3, 4, 2):
            with T.block("B"):
                v = T.axis.spatial(10, i0 * 4 + i1)
                vk = T.axis.reduce(2, k)
                T.where(i0 * 4 + i1 < 10)
                with T.init():
                    B[v] = 0
                B[v] = B[v] + A[v] * (vk + 1)

    b = np.full(12, 7, np.int32)
    tscript.build(main)(np.arange(10, dtype=np.int32), b[:10])
    assert b.tolist() == [3 * i for i in range(10)] + [7, 7]


def test_local_buffers_live_on_the_stack_or_in_memory_of_their_own() -> None:
    @T.prim_func
    def main(A: T.Buffer((64, 64), "float32"), B: T.Buffer((64, 64), "float32")):
        big = T.alloc_buffer((64, 64))
        for i, j in T.grid(64, 64):
            with T.block("big"):
                vi, vj = T.axis.remap("SS", [i, j])
                small = T.alloc_buffer((2,))
                small[0] = A[vi, vj]
                small[1] = small[0] * T.float32(2)
                big[vi, vj] = small[1] + small[0]
        for i, j in T.grid(64, 64):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = big[vj, vi]

    a = np.random.default_rng(0).random((64, 64), np.float32)
    b = np.zeros_like(a)
    tscript.build(main)(a, b)
    np.testing.assert_array_equal(b, (a * 2 + a).T)


def test_views_of_regions_read_and_write_their_source() -> None:
    @T.prim_func
    def main(A: T.Buffer((8, 8), "int32")):
        for i, j in T.grid(2, 2):
            with T.block("tile"):
                vi, vj = T.axis.remap("SS", [i, j])
                s0 = T.int32()
                s1 = T.int32()
                off = T.int32()
                tile = T.match_buffer(
                    A[vi * 4 : vi * 4 + 4, vj * 4 : vj * 4 + 4], (4, 4), "int32", strides=(s0, s1), elem_offset=off
                )
                for x, y in T.grid(4, 4):
                    tile[x, y] = off * 100 + s0 * 10 + s1 + tile[x, y]

    a = np.zeros((8, 8), np.int32)
    tscript.build(main)(a)
    offsets = np.array([[0, 4], [32, 36]]).repeat(4, 0).repeat(4, 1)
    np.testing.assert_array_equal(a, offsets * 100 + 81)


def test_thread_loops_and_launched_threads_run_one_after_the_other() -> None:
    @T.prim_func
    def main(A: T.Buffer((4, 8), "int32"), B: T.Buffer((8,), "int32")):
        for bx in T.thread_binding(4, thread="blockIdx.x"):
            for tx in T.thread_binding(8, thread="threadIdx.x"):
                with T.block("A"):
                    vi, vj = T.axis.remap("SS", [bx, tx])
                    A[vi, vj] = vi * 8 + vj
        with T.launch_thread("threadIdx.x", 8) as t:
            B[t] = t * t

    a, b = np.zeros((4, 8), np.int32), np.zeros(8, np.int32)
    tscript.build(main)(a, b)
    assert a.ravel().tolist() == list(range(32))
    assert b.tolist() == [i * i for i in range(8)]


def test_loops_of_every_kind_start_anywhere_and_may_be_empty() -> None:
    @T.prim_func
    def main(A: T.Buffer((16,), "int32"), n: T.int32):
        for i in T.serial(2, 5):
            A[i] = A[i] + 1
        for i in T.vectorized(4, 12):
            A[i] = A[i] * 10 + i
        for i in T.unroll(14, 16):
            A[i] = i
        for i in T.parallel(n, n + 2):
            A[i] = 7
        for i in range(0):
            A[i] = 1000
        for i in range(n, 0):
            A[i] = 2000

    a = np.ones(16, np.int32)
    tscript.build(main)(a, 0)
    want = np.ones(16, np.int32)
    want[2:5] += 1
    want[4:12] = want[4:12] * 10 + np.arange(4, 12)
    want[14:16], want[0:2] = [14, 15], 7
    assert a.tolist() == want.tolist()


def test_while_loops_lets_and_branches() -> None:
    @T.prim_func
    def main(n: T.int32, A: T.Buffer((2,), "int32")):
        A[0] = n
        A[1] = 0
        while A[0] != 1:
            half = A[0] // 2
            if A[0] % 2 == 0:
                A[0] = half
            else:
                A[0] = A[0] * 3 + 1
            A[1] = A[1] + 1

    a = np.zeros(2, np.int32)
    tscript.build(main)(27, a)
    assert a.tolist() == [1, 111]


def test_a_let_keeps_the_value_it_had_when_its_source_is_overwritten() -> None:
    @T.prim_func
    def main(A: T.Buffer((2,), "int32"), B: T.Buffer((2,), "int32")):
        t = A[0]
        A[0] = 100
        B[0] = t
        B[1] = A[0] + t

    a, b = np.array([5, 6], np.int32), np.zeros(2, np.int32)
    tscript.build(main)(a, b)
    assert b.tolist() == [5, 105]


def test_conditions_keep_unsafe_reads_and_divisions_from_running() -> None:
    @T.prim_func
    def main(A: T.Buffer((4,), "int32"), i: T.int32, d: T.int32, B: T.Buffer((4,), "int32")):
        B[0] = T.if_then_else(i < 4, A[i], -1)
        B[1] = T.if_then_else(d != 0, 12 // d, -2)
        B[2] = T.Select(i < 4, A[i], -3)
        B[3] = 0
        if i < 4 and A[i] > 0:
            B[3] = 1

    lib = tscript.build(main)
    a, b = np.array([5, 6, 7, 8], np.int32), np.zeros(4, np.int32)
    lib(a, 2, 4, b)
    assert b.tolist() == [7, 3, 7, 1]
    lib(a, 1 << 30, 0, b)
    assert b.tolist() == [-1, -2, -3, 0]


def test_a_returned_value_reaches_python_in_its_type() -> None:
    @I.ir_module
    class Module:
        @T.prim_func
        def count(n: T.int32) -> T.int32:
            if n < 0:
                return T.int32(-1)
            return n * 2

        @T.prim_func
        def ratio(x: T.float32) -> T.float32:
            return x / T.float32(4)

        @T.prim_func
        def positive(x: T.int64) -> T.bool:
            return x > T.int64(0)

        @T.prim_func
        def half(x: T.float16) -> T.float16:
            return x * T.float16(0.5)

    lib = tscript.build(Module)
    assert lib["count"](-5) == -1 and lib["count"](21) == 42
    assert lib["ratio"](3) == 0.75
    assert lib["positive"](1 << 40) is True and lib["positive"](-1) is False
    assert lib["half"](3.0) == 1.5


def test_functions_of_a_module_call_each_other() -> None:
    @I.ir_module
    class Module:
        @T.prim_func(private=True)
        def square(x: T.int32) -> T.int32:
            return x * x

        @T.prim_func(private=True)
        def fill(p: T.handle("int32"), n: T.int32):
            A = T.decl_buffer((16,), "int32", data=p)
            for i in range(n):
                A[i] = Module.square(i)

        @T.prim_func
        def main(A: T.Buffer((16,), "int32"), n: T.int32):
            Module.fill(A.data, n)

    lib = tscript.build(Module)
    a = np.zeros(16, np.int32)
    lib(a, 5)
    assert a.tolist() == [0, 1, 4, 9, 16] + [0] * 11
    assert lib.names == ("main",)


def test_a_failure_in_a_called_function_is_one_of_the_caller() -> None:
    @I.ir_module
    class Module:
        @T.prim_func(private=True)
        def divide(x: T.int32, y: T.int32) -> T.int32:
            return x // y

        @T.prim_func
        def main(A: T.Buffer((2,), "int32"), y: T.int32):
            A[0] = Module.divide(A[1], y)

    lib = tscript.build(Module)
    a = np.array([0, 9], np.int32)
    lib(a, 2)
    assert a[0] == 4
    with pytest.raises(DivisionByZero, match="division by zero"):
        lib(a, 0)


def test_a_division_by_zero_raises_and_names_the_statement() -> None:
    @T.prim_func
    def main(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
        for i in range(8):
            A[i] = A[i] // B[i]

    lib = tscript.build(main)
    a, b = np.arange(8, dtype=np.int32), np.ones(8, np.int32)
    lib(a, b)
    b[5] = 0
    with pytest.raises(ZeroDivisionError, match=r"(?s)main: division by zero.*A.*\[i\] = .*// "):
        lib(a, b)


def test_the_smallest_integer_divided_by_minus_one_wraps() -> None:
    @T.prim_func
    def main(A: T.Buffer((2,), "int32"), d: T.int32):
        A[0] = A[0] // d
        A[1] = A[1] % d

    a = np.array([-(2**31)] * 2, np.int32)
    tscript.build(main)(a, -1)
    assert a.tolist() == [-(2**31), 0]


def test_a_failed_assertion_raises_its_message() -> None:
    @T.prim_func
    def main(A: T.Buffer((4,), "int32"), n: T.int32):
        big = T.alloc_buffer((4096,), "int32")
        assert n <= 4, "n is at most 4"
        for i in range(n):
            big[i] = i
            A[i] = big[i] + 1

    lib = tscript.build(main)
    a = np.zeros(4, np.int32)
    lib(a, 4)
    assert a.tolist() == [1, 2, 3, 4]
    with pytest.raises(AssertFailed, match="main: n is at most 4") as failed:
        lib(a, 5)
    line = next(text for text in Path(__file__).read_text(encoding="utf-8").split("\n") if '"n is at most 4"' in text)
    assert f"| {line}\n" in str(failed.value)
    with pytest.raises(AssertionError):
        lib(a, 6)


def test_memory_is_given_back_on_every_way_out() -> None:
    @T.prim_func
    def main(n: T.int32, A: T.Buffer((1,), "int32")) -> T.int32:
        for k in range(2):
            with T.block("w"):
                vk = T.axis.spatial(2, k)
                work = T.alloc_buffer((1 << 20,), "int32")
                T.evaluate(T.call_extern("handle", "memset", work.data, n, T.int64(4 << 20)))
                A[0] = work[n]
                assert n != 3, "three"
                if n == 2:
                    return T.int32(5)
        return T.int32(6)

    lib = tscript.build(main)
    a = np.zeros(1, np.int32)

    def pages() -> int:
        with open("/proc/self/statm") as f:
            return int(f.read().split()[1])

    lib(1, a)
    before = pages()
    for _ in range(20):
        assert lib(1, a) == 6
        assert lib(2, a) == 5
        with pytest.raises(AssertFailed):
            lib(3, a)
    # Each call fills 1024 pages at least once: a single leak would show.
    assert pages() - before < 1024


def test_symbolic_sizes_and_dynamic_allocations() -> None:
    @T.prim_func
    def main(a: T.handle, b: T.handle):
        n = T.int32()
        m = T.int64()
        A = T.match_buffer(a, (n, m), "float32")
        B = T.match_buffer(b, (m, n), "float32")
        W = T.alloc_buffer((n, m), "float32")
        for i, j in T.grid(n, m):
            with T.block("W"):
                vi, vj = T.axis.remap("SS", [i, j])
                W[vi, vj] = A[vi, vj] + T.float32(1)
        for i, j in T.grid(n, m):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vj, vi] = W[vi, vj]

    lib = tscript.build(main)
    for shape in ((3, 5), (1, 1), (0, 4), (40, 30)):
        a = np.random.default_rng(1).random(shape, np.float32)
        b = np.zeros(shape[::-1], np.float32)
        lib(a, b)
        np.testing.assert_array_equal(b, a.T + 1)


def test_an_allocation_of_a_negative_or_absurd_size_raises() -> None:
    @T.prim_func
    def main(n: T.int64, at: T.Buffer((1,), "int64"), A: T.Buffer((1,), "float32")):
        w = T.alloc_buffer((n, n), "float32")
        # Which element is used is not known, so that the memory keeps its size.
        w[at[0], at[0]] = T.float32(1)
        A[0] = w[at[0], at[0]]

    lib = tscript.build(main)
    a, at = np.zeros(1, np.float32), np.zeros(1, np.int64)
    lib(4, at, a)
    assert a[0] == 1
    for n in (-1, 1 << 40, (1 << 62) + 1):
        with pytest.raises(ExecutionError, match="allocation `w` is negative or too large|not enough memory"):
            lib(n, at, a)


def test_constant_arrays_are_part_of_the_code() -> None:
    @T.prim_func
    def main(A: T.Buffer((4,), "float32"), B: T.Buffer((3,), "int8")):
        c = T.allocate_const([1.5, 2.5, -3.0, 0.0], "float32", [4])
        C = T.decl_buffer((4,), "float32", data=c)
        d = T.allocate_const([1, -2, 34], "int8", [3])
        D = T.decl_buffer((3,), "int8", data=d)
        for i in range(4):
            A[i] = C[i] * T.float32(2)
        for i in range(3):
            B[i] = D[i]

    a, b = np.zeros(4, np.float32), np.zeros(3, np.int8)
    tscript.build(main)(a, b)
    assert a.tolist() == [3, 5, -6, 0]
    assert b.tolist() == [1, -2, 34]


def test_addresses_of_elements_are_passed_to_c() -> None:
    @T.prim_func
    def main(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
        T.evaluate(T.call_extern("handle", "memcpy", T.address_of(B[2]), A.access_ptr("r", offset=1), T.int64(12)))

    a, b = np.arange(8, dtype=np.int32), np.zeros(8, np.int32)
    tscript.build(main)(a, b)
    assert b.tolist() == [0, 0, 1, 2, 3, 0, 0, 0]


def test_vector_loads_and_stores_with_strides_and_masks() -> None:
    @T.prim_func
    def main(A: T.Buffer((16,), "float16"), B: T.Buffer((16,), "float16"), C: T.Buffer((4,), "float16")):
        B[0:16:2] = A[0:8]
        B[1:16:2] = A[0:16:2] + A[1:16:2]
        always = T.meta_var(T.Broadcast(T.bool(True), 4))
        first_two = T.meta_var(T.get_active_lane_mask("boolx4", 1, 3))
        C.vstore([0], A.vload([12], "float16x4", predicate=always), predicate=first_two)

    a = np.arange(16, dtype=np.float16)
    b, c = np.zeros(16, np.float16), np.full(4, -1, np.float16)
    tscript.build(main)(a, b, c)
    np.testing.assert_array_equal(b[0::2], a[:8])
    np.testing.assert_array_equal(b[1::2], a[0::2] + a[1::2])
    assert c.tolist() == [12, 13, -1, -1]


def test_buffers_of_vectors_hold_their_lanes_side_by_side() -> None:
    @T.prim_func
    def main(A: T.Buffer((4,), "float32x4"), B: T.Buffer((4,), "float32x4")):
        for i in range(4):
            B[3 - i] = A[i] * T.Broadcast(T.float32(2), 4)

    a = nd.empty((4,), "float32x4")
    a.copyfrom(np.arange(16, dtype=np.float32).reshape(4, 4))
    b = nd.zeros((4,), "float32x4")
    tscript.build(main)(a, b)
    np.testing.assert_array_equal(b.numpy(), a.numpy()[::-1] * 2)


def test_a_rectified_comparison_of_float16_is_right_in_vectors() -> None:
    @T.prim_func
    def main(
        A: T.Buffer((3, 2, 2), "float16"),
        B: T.Buffer((3, 2, 2), "uint8"),
        C: T.Buffer((3, 1, 4), "float16"),
        D: T.Buffer((3, 1, 4), "uint8"),
    ):
        T.func_attr({"tir.noalias": True})
        for i, j in T.grid(3, 2):
            for k in T.vectorized(2):
                B[i, j, k] = T.Select(A[i, j, k] == T.float16(0), T.uint8(0), T.uint8(1))
        for i, j in T.grid(3, 1):
            for k in T.vectorized(4):
                D[i, j, k] = T.Select(C[i, j, k] == T.float16(0), T.uint8(0), T.uint8(1))

    values = np.array([0, 1, -0.0, 2, 6e-8, 0, 3, 0, np.inf, np.nan, 0, 5], np.float16)
    a, c = values.reshape(3, 2, 2), values.reshape(3, 1, 4)
    b, d = np.full((3, 2, 2), 9, np.uint8), np.full((3, 1, 4), 9, np.uint8)
    tscript.build(main)(a, b, c, d)
    np.testing.assert_array_equal(b, a != 0)
    np.testing.assert_array_equal(d, c != 0)


def test_bfloat16_widens_by_value_in_scalars_and_vectors() -> None:
    @T.prim_func
    def main(A: T.Buffer((16,), "bfloat16"), B: T.Buffer((16,), "float32"), C: T.Buffer((16,), "float32")):
        for i in range(16):
            B[i] = T.Cast("float32", A[i])
        for i in range(2):
            for j in T.vectorized(8):
                C[i * 8 + j] = T.Cast("float32", A[i * 8 + j])

    a = nd.array(np.linspace(-3, 3, 16), dtype="bfloat16")
    b, c = np.zeros(16, np.float32), np.zeros(16, np.float32)
    tscript.build(main)(a, b, c)
    np.testing.assert_array_equal(b, a.numpy().astype(np.float32))
    np.testing.assert_array_equal(c, b)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_a_nan_wins_in_reductions_wherever_it_stands(dtype: str) -> None:
    @T.prim_func
    def main(A: T.Buffer((6,), dtype), B: T.Buffer((2,), dtype)):
        for k in range(6):
            with T.block("B"):
                vk = T.axis.reduce(6, k)
                with T.init():
                    B[0] = T.min_value(dtype)
                    B[1] = T.max_value(dtype)
                B[0] = T.max(B[0], A[vk])
                B[1] = T.min(A[vk], B[1])

    lib = tscript.build(main)
    for at in (0, 3, 5, None):
        values = np.array([3, -1, 2, 5, 0, 4], np.float64)
        if at is not None:
            values[at] = np.nan
        a, b = nd.array(values, dtype=dtype), nd.zeros(2, dtype)
        lib(a, b)
        got = b.numpy().astype(np.float64)
        assert np.isnan(got).all() if at is not None else got.tolist() == [5, -1]


def test_very_deep_expressions_are_built() -> None:
    @T.prim_func
    def main(A: T.Buffer((1,), "int32"), n: T.int32):
        A[0] = deep(A[0], n)

    def check(lib: tscript.runtime.Module) -> None:
        a = np.array([1], np.int32)
        lib(a, 2)
        assert a[0] == 2001

    check(tscript.build(main))


def deep(x, n):
    for _ in range(1000):
        x = x + n
    return x


def test_an_expression_that_is_shared_grows_the_code_only_once() -> None:
    @T.prim_func
    def main(A: T.Buffer((1,), "uint64")):
        A[0] = doubled(A[0])

    a = np.array([1], np.uint64)
    tscript.build(main)(a)
    assert a[0] == 1 << 60


def doubled(x):
    for _ in range(60):
        x = x + x
    return x


def test_unsupported_types_and_leftover_constructs_are_named() -> None:
    @T.prim_func
    def main(A: T.Buffer((4,), "float4_e2m1fn"), B: T.Buffer((4,), "float32")):
        for i in range(4):
            B[i] = T.Cast("float32", A[i])

    with pytest.raises(BuildError, match="float4_e2m1fn"):
        tscript.build(main)


def test_absurdly_long_vectors_are_refused() -> None:
    @T.prim_func
    def main(A: T.Buffer((1048576,), "float32")):
        A[0:1048576] = T.Broadcast(T.float32(1), 1048576)

    with pytest.raises(BuildError, match="vectors of 1048576 lanes; 1024 is the most"):
        tscript.build(main)


def test_vectors_of_the_longest_allowed_kind_are_built() -> None:
    @T.prim_func
    def main(A: T.Buffer((1024,), "int32")):
        A[0:1024] = A[0:1024] * T.Broadcast(3, 1024)

    a = np.arange(1024, dtype=np.int32)
    tscript.build(main)(a)
    assert a.tolist() == list(range(0, 3072, 3))


def test_functions_that_call_themselves_without_end_fail_instead_of_crashing() -> None:
    n, fac, odd, even = Var("n"), GlobalVar("fac"), GlobalVar("odd"), GlobalVar("even")

    def result(e):
        return st.Evaluate(Call("int32", Op.get("tir.ret"), (e,)))

    def function(name, body):
        return PrimFunc((n,), body, PrimType(DataType("int32")), {}, {"global_symbol": name})

    end = st.IfThenElse(n == 0, result(const(1)), None)
    functions = {
        fac: function("fac", st.SeqStmt([end, result(n * Call("int32", fac, (n - 1,)))])),
        odd: function("odd", st.SeqStmt([end, result(1 - Call("int32", even, (n - 1,)))])),
        even: function("even", st.SeqStmt([end, result(1 - Call("int32", odd, (n - 1,)))])),
    }
    mod = IRModule(functions)
    lib = tscript.build(mod)
    for name, count in (("fac", 5), ("odd", 6), ("even", 7), ("fac", 400)):
        assert lib[name](count) == interp.run(mod, count, entry=name)
    for name in ("fac", "odd"):
        with pytest.raises(ExecutionError, match="call each other too deeply"):
            lib[name](-1)
        with pytest.raises(InterpError, match="call each other too deeply"):
            interp.run(mod, -1, entry=name)


def test_narrow_float_parameters_are_rounded_when_they_come_in() -> None:
    for dtype in ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"):
        x, out = Var("x", dtype), decl_buffer((1,), "float64", name="out")
        func = PrimFunc((x, out), st.BufferStore(out, cast(x, "float64"), (const(0),)), None, None, {})
        for value in (9.0, 2049.0, 0.3, 1e30):
            expected, got = np.zeros(1), np.zeros(1)
            interp.run(func, value, expected)
            tscript.build(func)["main"](value, got)
            np.testing.assert_array_equal(got, expected)


def test_loops_reach_the_ends_of_64_bits() -> None:
    for dtype, start in (("uint64", 2**63 - 2), ("uint64", 2**64 - 5), ("int64", 2**63 - 5), ("int64", -(2**63))):
        out, k = decl_buffer((7,), "int64", name="out"), Var("k", dtype)
        at = cast(floormod(k, const(7, dtype)), "int64")
        body = st.BufferStore(out, cast(k, "int64"), (at,))
        func = PrimFunc((out,), st.For(k, const(start, dtype), const(5, dtype), 0, body))
        expected, got = np.full(7, -1), np.full(7, -1)
        interp.run(func, expected)
        tscript.build(func)["main"](got)
        assert got.tolist() == expected.tolist() and (got != -1).sum() >= 4


def test_bytes_read_as_bools_are_stored_as_true_or_false() -> None:
    @T.prim_func
    def main(A: T.Buffer((8,), "int8"), B: T.Buffer((8,), "bool")):
        flags = T.decl_buffer((8,), "bool", data=A.data)
        for i in range(8):
            B[i] = flags[i]

    b = np.zeros(8, np.bool_)
    tscript.build(main)(np.arange(8, dtype=np.int8), b)
    assert b.view(np.uint8).tolist() == [0] + [1] * 7


def test_choices_that_share_what_they_choose_from_stay_small() -> None:
    a = decl_buffer((4,), "int32", name="A")
    e = a[0]
    for _ in range(60):
        e = if_then_else(e > 3, e, a[2])
    text = tscript.build(PrimFunc((a,), st.BufferStore(a, e, (const(3),)))).get_source("ll")
    assert len(text) < 20_000


def test_code_that_llvm_refuses_leaves_nothing_behind_that_crashes_later() -> None:
    n, a = Var("n"), decl_buffer((4,), "int32", name="A")
    call = T.call_llvm_pure_intrin("int32", "llvm.ctpop.i32", T.uint32(1), n, n)
    func = PrimFunc((a, n), st.BufferStore(a, call, (const(0),)))
    for _ in range(3):
        with pytest.raises(BuildError):
            tscript.build(func)
        gc.collect()


def test_a_call_with_a_number_for_an_array_is_refused() -> None:
    a, callee = decl_buffer((4,), "int32", name="A"), GlobalVar("callee")
    inner = PrimFunc((a,), st.BufferStore(a, const(1), (const(0),)), None, None, {"global_symbol": "callee"})
    outer = PrimFunc((a,), st.Evaluate(Call("int32", callee, (const(1),))), None, None, {"global_symbol": "main"})
    mod = IRModule({callee: inner, GlobalVar("main"): outer})
    with pytest.raises(InterpError, match="callee takes a handle for .*, not an int32"):
        interp.run(mod, np.zeros(4, np.int32))
    with pytest.raises(BuildError, match="a call of callee with an int32"):
        tscript.build(mod)


@pytest.mark.parametrize("row, column, lanes", [(0, 0, 64), (2, 0, 16), (1, 3, 6), (3, 2, 2), (0, 1, 63), (4, 3, 1)])
def test_a_vector_longer_than_a_row_goes_on_with_the_next(row: int, column: int, lanes: int) -> None:
    kind = f"int8x{lanes}" if lanes > 1 else "int8"

    @T.prim_func
    def func(A: T.Buffer((16, 4), "int8"), B: T.Buffer((64,), "int8")):
        with T.block("B"):
            B[0:lanes] = A.vload([row, column], kind)

    a = np.arange(64, dtype="int8").reshape(16, 4)
    expected = np.full(64, -1, "int8")
    expected[:lanes] = a.ravel()[4 * row + column :][:lanes]
    for run in (partial(interp.run, func), tscript.build(func)):
        b = np.full(64, -1, "int8")
        run(a, b)
        np.testing.assert_array_equal(b, expected)
    rows = range(row, row + (column + lanes + 3) // 4)
    (region,) = func.body.block.reads
    assert (region.region[0].min.value, region.region[0].extent.value) == (row, len(rows))


def test_a_vector_longer_than_a_row_of_padded_memory_is_out_of_bounds() -> None:
    @T.prim_func
    def func(a: T.handle, B: T.Buffer((8,), "int8")):
        A = T.match_buffer(a, (2, 4), "int8", strides=[6, 1])
        B[0:8] = A.vload([0, 0], "int8x8")

    with pytest.raises(InterpError, match="out of bounds"):
        interp.run(func, np.zeros((2, 6), "int8")[:, :4], np.zeros(8, "int8"))
