"""Every kind of statement, and how memory is seen through views, pointers and calls."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tscript import interp
from tscript.ir import expr as ex
from tscript.ir import stmt as st
from tscript.ir.buffer import decl_buffer
from tscript.ir.expr import IntImm, IterVar, Range, Var
from tscript.ir.function import PrimFunc
from tscript.script import ir as I
from tscript.script import tir as T
from tscript.support.errors import InterpError


def int32(value: int) -> IntImm:
    return IntImm("int32", value)


def test_matmul_with_init_rounds_every_product_and_sum() -> None:
    @T.prim_func
    def mm(A: T.Buffer((16, 8), "float32"), B: T.Buffer((8, 4), "float32"), C: T.Buffer((16, 4), "float32")):
        for i, j, k in T.grid(16, 4, 8):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]

    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((16, 8), "float32"), rng.standard_normal((8, 4), "float32")
    c, want = np.full((16, 4), 7, "float32"), np.zeros((16, 4), "float32")
    for k in range(8):
        want = want + a[:, k : k + 1] * b[k : k + 1]
    interp.run(mm, a, b, c)
    assert (c == want).all()


def test_init_runs_where_all_reduce_axes_are_at_their_minimum() -> None:
    @T.prim_func
    def f(A: T.Buffer((4, 6), "int32"), C: T.Buffer((4,), "int32")):
        for i, k0, k1 in T.grid(4, 2, 3):
            with T.block("C"):
                vi = T.axis.spatial(4, i)
                vk = T.axis.reduce((1, 7), k0 * 3 + k1 + 1)
                T.reads(A[vi, vk - 1])
                T.writes(C[vi])
                with T.init():
                    C[vi] = 100
                C[vi] = C[vi] + A[vi, vk - 1]

    a = np.arange(24, dtype="int32").reshape(4, 6)
    c = np.zeros(4, "int32")
    interp.run(f, a, c)
    assert c.tolist() == (a.sum(1) + 100).tolist()


def test_a_block_runs_only_where_its_predicate_holds() -> None:
    @T.prim_func
    def f(A: T.Buffer((10,), "int32")):
        for i, j in T.grid(4, 3):
            with T.block("A"):
                v = T.axis.spatial(10, i * 3 + j)
                T.where(i * 3 + j < 10)
                A[v] = v

    a = np.full(10, -1, "int32")
    interp.run(f, a)
    assert a.tolist() == list(range(10))


def test_loops_of_all_kinds_run_in_order_from_their_start() -> None:
    @T.prim_func
    def f(A: T.Buffer((6, 3), "int32"), n: T.int32):
        for i in range(1, 3):
            A[0, i] = i
        for i in T.parallel(n):
            A[1, i] = i
        for i in T.vectorized(1, 3):
            A[2, i] = i
        for i in T.unroll(3):
            A[3, i] = i
        for i in T.thread_binding(3, "threadIdx.x"):
            A[4, i] = i
        for i in range(n - 3):
            A[5, i] = i

    a = np.zeros((6, 3), "int32")
    interp.run(f, a, 3)
    assert a.tolist() == [[0, 1, 2], [0, 1, 2], [0, 1, 2], [0, 1, 2], [0, 1, 2], [0, 0, 0]]


def test_while_if_and_let_follow_the_values_at_run_time() -> None:
    @T.prim_func
    def collatz(A: T.Buffer((8,), "int32"), S: T.Buffer((1,), "int32")):
        for i in range(8):
            S[0] = 0
            while A[i] > 1:
                half: T.int32 = A[i] // 2
                if A[i] % 2 == 0:
                    A[i] = half
                else:
                    A[i] = A[i] * 3 + 1
                S[0] = S[0] + 1
            A[i] = S[0]

    def steps(n: int) -> int:
        return 0 if n <= 1 else 1 + steps(n // 2 if n % 2 == 0 else 3 * n + 1)

    a = np.arange(1, 9, dtype="int32")
    interp.run(collatz, a, np.zeros(1, "int32"))
    assert a.tolist() == [steps(n) for n in range(1, 9)]


def test_if_then_else_evaluates_one_side_and_select_both() -> None:
    @T.prim_func
    def lazy(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
        for i in range(4):
            B[i] = T.if_then_else(i > 0, A[i - 1], -1)

    @T.prim_func
    def eager(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
        for i in range(4):
            B[i] = T.Select(i > 0, A[i - 1], -1)

    a, b = np.array([5, 6, 7, 8], "int32"), np.zeros(4, "int32")
    interp.run(lazy, a, b)
    assert b.tolist() == [-1, 5, 6, 7]
    with pytest.raises(InterpError, match=r"A\[-1\] is out of bounds"):
        interp.run(eager, a, b)


def test_and_and_or_evaluate_both_sides() -> None:
    @T.prim_func
    def f(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "bool")):
        for i in range(4):
            B[i] = i < 3 and A[i + 1] > 0

    with pytest.raises(InterpError, match=r"A\[4\]"):
        interp.run(f, np.ones(4, "int32"), np.zeros(4, bool))


def test_a_let_expression_binds_once() -> None:
    a, b = decl_buffer((4,), "int32", name="A"), decl_buffer((4,), "int32", name="B")
    i, x = Var("i"), Var("x")
    value = ex.Let(x, ex.Add(ex.BufferLoad(a, (i,)), int32(1)), ex.Mul(x, x))
    f = PrimFunc((a, b), st.For(i, int32(0), int32(4), 0, st.BufferStore(b, value, (i,))))
    got = np.zeros(4, "int32")
    interp.run(f, np.arange(4, dtype="int32"), got)
    assert got.tolist() == [1, 4, 9, 16]


def test_views_with_another_type_see_the_same_bytes() -> None:
    @T.prim_func
    def f(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "uint32")):
        V = T.Buffer((4,), "uint32", data=A.data)
        H = T.Buffer((8,), "uint16", data=A.data)
        for i in range(4):
            B[i] = V[i]
        V[0] = T.uint32(1073741824)
        H[3] = T.uint16(16384)

    a, b = np.array([1.0, 0.5, -2.0, 3.0], "float32"), np.zeros(4, "uint32")
    bits = a.view("uint32").tolist()
    interp.run(f, a, b)
    assert b.tolist() == bits
    assert a[:2].tolist() == [2.0, 2.0]


def test_allocations_decl_buffers_and_offsets_address_one_memory() -> None:
    @T.prim_func
    def f(B: T.Buffer((4,), "float32")):
        p = T.allocate([16], "float32", "global")
        whole = T.decl_buffer((16,), "float32", data=p)
        part = T.decl_buffer((4,), "float32", data=p, elem_offset=3, strides=(2,))
        for i in range(16):
            whole[i] = T.Cast("float32", i)
        for i in range(4):
            B[i] = part[i]

    b = np.zeros(4, "float32")
    interp.run(f, b)
    assert b.tolist() == [3.0, 5.0, 7.0, 9.0]


def test_constant_memory_holds_its_data_and_refuses_stores() -> None:
    @T.prim_func
    def f(B: T.Buffer((3,), "int32")):
        p = T.allocate_const([7, 8, 9], "int32", [3])
        K = T.decl_buffer((3,), "int32", data=p)
        for i in range(3):
            B[i] = K[i]

    @T.prim_func
    def store():
        p = T.allocate_const([7, 8, 9], "int32", [3])
        K = T.decl_buffer((3,), "int32", data=p)
        K[0] = 1

    b = np.zeros(3, "int32")
    interp.run(f, b)
    assert b.tolist() == [7, 8, 9]
    with pytest.raises(InterpError, match="read-only memory"):
        interp.run(store)


def test_match_buffer_views_bind_strides_offset_and_sizes() -> None:
    @T.prim_func
    def f(A: T.Buffer((8, 8), "int32"), S: T.Buffer((2,), "int32")):
        for i, j in T.grid(2, 2):
            with T.block("tile"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads(A[vi * 4 : vi * 4 + 4, vj * 4 : vj * 4 + 4])
                T.writes(A[vi * 4 : vi * 4 + 4, vj * 4 : vj * 4 + 4], S[0:2])
                s0 = T.int32()
                off = T.int32()
                V = T.match_buffer(
                    A[vi * 4 : vi * 4 + 4, vj * 4 : vj * 4 + 4], (4, 4), "int32", strides=(s0, 1), elem_offset=off
                )
                for x, y in T.grid(4, 4):
                    V[x, y] = vi * 1000 + vj * 100 + x * 10 + y
                S[0] = s0
                S[1] = off

    a, s = np.zeros((8, 8), "int32"), np.zeros(2, "int32")
    interp.run(f, a, s)
    r = np.arange(8)
    want = (r[:, None] // 4) * 1000 + (r // 4) * 100 + (r[:, None] % 4) * 10 + r % 4
    assert (a == want).all()
    assert s.tolist() == [8, 36]


def test_the_address_of_a_view_leads_to_the_start_of_its_region() -> None:
    got: list[int] = []
    interp.register_extern("interp_test_peek", lambda p: got.append(int(p.numpy("int32", 1)[0])))

    @T.prim_func
    def f(A: T.Buffer((4, 8), "int32"), n: T.int32):
        with T.block("view"):
            T.reads(A[n : n + 2, 4:8])
            T.writes()
            off = T.int32()
            V = T.match_buffer(A[n : n + 2, 4:8], (2, 4), "int32")
            W = T.match_buffer(A[n : n + 2, 4:8], (2, 4), "int32", elem_offset=off)
            T.evaluate(T.call_extern("int32", "interp_test_peek", V.data))
            T.evaluate(T.call_extern("int32", "interp_test_peek", V.access_ptr("r", offset=2)))
            T.evaluate(T.call_extern("int32", "interp_test_peek", W.data))
            T.evaluate(T.call_extern("int32", "interp_test_peek", W.access_ptr("r", offset=2)))

    interp.run(f, np.arange(32, dtype="int32").reshape(4, 8), 1)
    assert got == [12, 14, 0, 14]


def test_the_address_of_an_element_of_a_view_leads_there_through_views_of_views() -> None:
    got: list[int] = []
    interp.register_extern("interp_test_peek", lambda p: got.append(int(p.numpy("int32", 1)[0])))

    @T.prim_func
    def f(A: T.Buffer((4, 8), "int32"), n: T.int32):
        with T.block("view"):
            T.reads(A[n : n + 2, 4:8])
            T.writes()
            step = T.int32()
            V = T.match_buffer(A[n : n + 2, 4:8], (2, 4), "int32", strides=[step, 1])
            T.evaluate(T.call_extern("int32", "interp_test_peek", T.address_of(V[1, 2])))
            with T.block("inner"):
                T.reads(V[1, 1:3])
                T.writes()
                W = T.match_buffer(V[1, 1:3], (2,), "int32")
                T.evaluate(T.call_extern("int32", "interp_test_peek", T.address_of(W[1])))
                T.evaluate(T.call_extern("int32", "interp_test_peek", W.data))

    interp.run(f, np.arange(32, dtype="int32").reshape(4, 8), 1)
    assert got == [22, 22, 21]


def test_a_block_with_a_view_may_stand_in_two_places() -> None:
    a, v, step = decl_buffer((8, 4), "int32", name="A"), Var("v"), Var("step")
    shown = decl_buffer((2, 2), "int32", name="V", strides=[step, 1])
    rows = (Range.from_min_extent(v, int32(2)), Range.from_min_extent(int32(1), int32(2)))
    region = st.BufferRegion(a, rows)
    axis = IterVar(Range.from_min_extent(int32(0), int32(8)), v, IterVar.Opaque)
    body = st.BufferStore(shown, ex.Add(v, step), (int32(1), int32(1)))
    block = st.Block((axis,), (), (region,), "b", body, match_buffers=(st.MatchBufferRegion(shown, region),))
    here = st.BlockRealize((int32(0),), IntImm("bool", 1), block)
    i = Var("i")
    there = st.For(i, int32(2), int32(2), 0, st.BlockRealize((ex.Mul(i, int32(2)),), IntImm("bool", 1), block))
    out = np.zeros((8, 4), "int32")
    interp.run(PrimFunc((a,), st.seq(here, there)), out)
    want = np.zeros((8, 4), "int32")
    want[1, 2], want[5, 2], want[7, 2] = 4, 8, 10
    assert (out == want).all()


def test_buffers_are_bound_by_realize_attributes_and_prefetches_do_nothing() -> None:
    a, s = decl_buffer((4,), "int32", name="A"), decl_buffer((20,), "int32", name="S")
    i, j = Var("i"), Var("j")
    put = st.BufferStore(s, ex.Mul(i, int32(3)), (ex.Add(i, int32(10)),))
    get = st.BufferStore(a, ex.BufferLoad(s, (ex.Add(j, int32(10)),)), (j,))
    bounds = (Range.from_min_extent(int32(10), int32(4)),)
    body = st.seq(
        st.Prefetch(a, (Range.from_min_extent(int32(0), int32(4)),)),
        st.For(i, int32(0), int32(4), 0, put),
        st.For(j, int32(0), int32(4), 0, get),
    )
    out = np.zeros(4, "int32")
    interp.run(PrimFunc((a,), st.BufferRealize(s, bounds, IntImm("bool", 1), body)), out)
    assert out.tolist() == [0, 3, 6, 9]
    low = st.BufferStore(s, int32(1), (int32(9),))
    with pytest.raises(InterpError, match=r"S\[9\] is out of bounds.*goes from 10 to 13"):
        interp.run(PrimFunc((a,), st.BufferRealize(s, bounds, IntImm("bool", 1), low)), out)


def test_vector_loads_stores_shuffles_and_predicates() -> None:
    a, b = decl_buffer((8,), "float32", name="A"), decl_buffer((8,), "float32", name="B")
    ramp = ex.Ramp(int32(0), int32(1), 4)
    back = ex.Ramp(int32(7), int32(-1), 4)
    mask = ex.LT(ramp, ex.Broadcast(int32(2), 4))
    whole = ex.Shuffle((ex.BufferLoad(a, (ramp,)), ex.BufferLoad(a, (back,))), tuple(int32(i) for i in (7, 0, 4, 1)))
    body = st.seq(
        st.BufferStore(b, whole, (ramp,)),
        st.BufferStore(b, ex.BufferLoad(a, (ex.Ramp(int32(6), int32(1), 4),), mask), (ex.Ramp(int32(4), int32(1), 4),)),
        st.BufferStore(b, ex.Broadcast(ex.FloatImm("float32", 50.0), 4), (ex.Ramp(int32(6), int32(1), 4),), mask),
    )
    out = np.zeros(8, "float32")
    interp.run(PrimFunc((a, b), body), np.arange(8, dtype="float32"), out)
    assert out.tolist() == [4.0, 0.0, 7.0, 1.0, 6.0, 7.0, 50.0, 50.0]


def test_buffers_of_vector_elements_load_and_store_whole_vectors() -> None:
    a, b = decl_buffer((3,), "int32x4", name="A"), decl_buffer((3,), "int32x4", name="B")
    i = Var("i")
    value = ex.Add(ex.BufferLoad(a, (i,)), ex.Broadcast(i, 4))
    data, out = np.arange(12, dtype="int32").reshape(3, 4), np.zeros((3, 4), "int32")
    interp.run(PrimFunc((a, b), st.For(i, int32(0), int32(3), 0, st.BufferStore(b, value, (i,)))), data, out)
    assert (out == data + np.arange(3)[:, None]).all()


def test_functions_call_each_other_with_addresses_and_return_values() -> None:
    @I.ir_module
    class Module:
        @T.prim_func
        def square(x: T.int32) -> T.int32:
            return x * x

        @T.prim_func
        def fill(p: T.handle, n: T.int32):
            A = T.match_buffer(p, (n,), "int32")
            for i in range(n):
                A[i] = Module.square(i)

        @T.prim_func
        def main(A: T.Buffer((6,), "int32")):
            Module.fill(A.data, 4)

    a = np.full(6, -1, "int32")
    interp.run(Module, a)
    assert a.tolist() == [0, 1, 4, 9, -1, -1]
    assert interp.run(Module, 12, entry="square") == 144


def test_external_functions_get_numbers_and_pointers() -> None:
    seen: list[Any] = []

    @interp.register_extern("interp_test_scale")
    def scale(pointer: interp.Pointer, factor: float, label: str) -> int:
        seen.append(label)
        pointer.numpy("float32", 2)[:] *= factor
        return 3

    @T.prim_func
    def f(A: T.Buffer((6,), "float32"), B: T.Buffer((1,), "int32")):
        T.evaluate(T.call_extern("int32", "interp_test_scale", A.data, T.float32(2), "whole"))
        T.evaluate(T.call_packed("interp_test_scale", T.address_of(A[2]), T.float32(3), "element"))
        B[0] = T.call_extern("int32", "interp_test_scale", A.access_ptr("w", offset=4), T.float32(4), "access")

    a, b = np.ones(6, "float32"), np.zeros(1, "int32")
    interp.run(f, a, b)
    assert a.tolist() == [2.0, 2.0, 3.0, 3.0, 4.0, 4.0]
    assert (seen, b[0]) == (["whole", "element", "access"], 3)


def test_an_exception_of_an_external_function_arrives_unchanged() -> None:
    def broken() -> int:
        raise KeyError("mine")

    interp.register_extern("interp_test_broken", broken)

    @T.prim_func
    def f():
        T.evaluate(T.call_extern("int32", "interp_test_broken"))

    with pytest.raises(KeyError, match="mine"):
        interp.run(f)


def test_more_loops_than_python_can_nest_run() -> None:
    a = decl_buffer((1,), "int32", name="A")
    body: st.Stmt = st.BufferStore(a, ex.Add(ex.BufferLoad(a, (int32(0),)), int32(1)), (int32(0),))
    for depth in range(40):
        body = st.For(Var(f"i{depth}"), int32(0), int32(2 if depth % 13 == 0 else 1), 0, body)
    out = np.zeros(1, "int32")
    interp.run(PrimFunc((a,), body), out)
    assert out[0] == 16


def test_very_deep_and_widely_shared_expressions_translate() -> None:
    a = decl_buffer((2,), "int64", name="A")
    load: ex.PrimExpr = ex.BufferLoad(a, (int32(0),))
    deep = load
    for _ in range(3000):
        deep = ex.Add(ex.Mul(deep, IntImm("int64", 3)), IntImm("int64", 1))
    doubled = load
    for _ in range(60):
        doubled = ex.Sub(ex.Mul(doubled, doubled), doubled)
    want, wide, mask = 3, 3, 2**64 - 1
    for _ in range(3000):
        want = (want * 3 + 1) & mask
    for _ in range(60):
        wide = (wide * wide - wide) & mask
    out = np.array([3, 0], "int64")
    interp.run(PrimFunc((a,), st.BufferStore(a, deep, (int32(1),))), out)
    assert int(out[1]) & mask == want
    interp.run(PrimFunc((a,), st.BufferStore(a, doubled, (int32(1),))), out)
    assert int(out[1]) & mask == wide


def test_a_value_read_before_a_store_is_not_read_again_after_it() -> None:
    @T.prim_func
    def swap(A: T.Buffer((2,), "int32")):
        first: T.int32 = A[0]
        A[0] = A[1]
        A[1] = first

    a = np.array([1, 2], "int32")
    interp.run(swap, a)
    assert a.tolist() == [2, 1]


def test_a_condition_on_memory_is_evaluated_again_after_a_store() -> None:
    @T.prim_func
    def f(A: T.Buffer((2,), "int32")):
        if A[0] > 0:
            A[0] = 0
            for _ in range(3):
                if A[0] > 0:
                    A[1] = A[1] + 1

    a = np.array([1, 0], "int32")
    interp.run(f, a)
    assert a.tolist() == [0, 0]


def test_the_generated_source_is_readable_text() -> None:
    @T.prim_func
    def f(A: T.Buffer((4,), "int32")):
        for i in range(4):
            A[i] = i * 2

    text = interp.compile(f).source
    assert "for i in range(4):" in text
    assert "m_A[i] = i * 2" in text


def test_allocated_buffers_honour_their_own_strides() -> None:
    @T.prim_func
    def f(B: T.Buffer((3, 4), "int32")):
        S = T.alloc_buffer((3, 4), "int32", strides=(7, 1))
        for i, j in T.grid(3, 4):
            S[i, j] = i * 10 + j
        for i, j in T.grid(3, 4):
            B[i, j] = S[i, j]

    b = np.zeros((3, 4), "int32")
    interp.run(f, b)
    assert b.tolist() == [[i * 10 + j for j in range(4)] for i in range(3)]


def test_axis_kinds_other_than_reduce_do_not_hold_back_init() -> None:
    a = decl_buffer((3,), "int32", name="A")
    v = Var("v")
    axis = IterVar(Range.from_min_extent(int32(0), int32(3)), v, IterVar.Opaque)
    point = st.BufferRegion(a, (Range.from_min_extent(v, int32(1)),))
    add = st.BufferStore(a, ex.Add(ex.BufferLoad(a, (v,)), int32(5)), (v,))
    block = st.Block((axis,), (), (point,), "b", add, init=st.BufferStore(a, int32(1), (v,)))
    i = Var("i")
    loop = st.For(i, int32(0), int32(3), 0, st.BlockRealize((i,), IntImm("bool", 1), block))
    out = np.full(3, 99, "int32")
    interp.run(PrimFunc((a,), loop), out)
    assert out.tolist() == [6, 6, 6]
