"""Thread launches: plain order, barriers, shared and private memory, reductions across threads."""

from __future__ import annotations

import numpy as np
import pytest

from tscript import interp
from tscript.ir import expr as ex
from tscript.ir import stmt as st
from tscript.ir.buffer import decl_buffer
from tscript.ir.expr import Call, CommReducer, IntImm, IterVar, StringImm, Var
from tscript.ir.function import PrimFunc
from tscript.script import ir as I
from tscript.script import tir as T
from tscript.support.errors import InterpError


def int32(value: int) -> IntImm:
    return IntImm("int32", value)


def test_threads_without_barriers_run_outer_to_inner_in_ascending_order() -> None:
    @T.prim_func
    def f(A: T.Buffer((24,), "int32"), N: T.Buffer((1,), "int32")):
        bx = T.launch_thread("blockIdx.x", 2)
        ty = T.launch_thread("threadIdx.y", 3)
        tx = T.launch_thread("threadIdx.x", 4)
        A[bx * 12 + ty * 4 + tx] = N[0]
        N[0] = N[0] + 1

    a = np.zeros(24, "int32")
    interp.run(f, a, np.zeros(1, "int32"))
    assert a.tolist() == list(range(24))


def test_launches_of_the_same_axis_share_one_index() -> None:
    @T.prim_func
    def f(A: T.Buffer((4,), "int32")):
        tx = T.env_thread("threadIdx.x")
        with T.launch_thread(tx, 4):
            A[tx] = A[tx] + 1
            with T.launch_thread(tx, 4):
                A[tx] = A[tx] + 10

    a = np.zeros(4, "int32")
    interp.run(f, a)
    assert a.tolist() == [11, 11, 11, 11]


@pytest.mark.parametrize("inner", [4, 2])
def test_a_second_name_for_a_launched_index_is_the_same_thread(inner: int) -> None:
    a, t, u = decl_buffer((4,), "int32", name="A"), Var("t"), Var("u")
    first, second = (IterVar(None, v, IterVar.ThreadIndex, "threadIdx.x") for v in (t, u))
    body: st.Stmt = st.BufferStore(a, ex.Add(ex.BufferLoad(a, (u,)), int32(1)), (u,))
    body = st.AttrStmt(second, "thread_extent", int32(inner), body)
    out = np.zeros(4, "int32")
    interp.run(PrimFunc((a,), st.AttrStmt(first, "thread_extent", int32(4), body)), out)
    assert out.tolist() == [int(i < inner) for i in range(4)]


def test_virtual_threads_run_one_after_the_other() -> None:
    a, v = decl_buffer((3,), "int32", name="A"), Var("v")
    axis = IterVar(None, v, IterVar.ThreadIndex, "vthread.x")
    body = st.BufferStore(a, ex.Add(ex.BufferLoad(a, (v,)), v), (v,))
    out = np.full(3, 5, "int32")
    interp.run(PrimFunc((a,), st.AttrStmt(axis, "virtual_thread", int32(3), body)), out)
    assert out.tolist() == [5, 6, 7]


@T.prim_func
def tree_sum(A: T.Buffer((128,), "float32"), B: T.Buffer((4,), "float32")):
    bx = T.launch_thread("blockIdx.x", 4)
    S = T.allocate([32], "float32", "shared")
    Sb = T.decl_buffer((32,), "float32", data=S, scope="shared")
    tx = T.launch_thread("threadIdx.x", 32)
    Sb[tx] = A[bx * 32 + tx]
    T.tvm_storage_sync("shared")
    for k in range(5):
        if tx < T.shift_right(16, k):
            Sb[tx] = Sb[tx] + Sb[tx + T.shift_right(16, k)]
        T.tvm_storage_sync("shared")
    if tx == 0:
        B[bx] = Sb[0]


def test_barriers_order_the_stores_of_all_threads() -> None:
    a, b = np.arange(128, dtype="float32"), np.zeros(4, "float32")
    interp.run(tree_sum, a, b, check_uninitialized=True)
    assert b.tolist() == a.reshape(4, 32).sum(1).tolist()


def test_shared_memory_allocated_by_the_threads_is_one_for_the_block_and_local_one_for_each() -> None:
    @T.prim_func
    def reverse(A: T.Buffer((2, 8), "int32")):
        bx = T.launch_thread("blockIdx.x", 2)
        L = T.allocate([1], "int32", "local")
        mine = T.decl_buffer((1,), "int32", data=L, scope="local")
        ty = T.launch_thread("threadIdx.y", 2)
        tx = T.launch_thread("threadIdx.x", 4)
        for _ in range(3):
            S = T.allocate([8], "int32", "shared")
            Sb = T.decl_buffer((8,), "int32", data=S, scope="shared")
            mine[0] = A[bx, ty * 4 + tx]
            Sb[7 - (ty * 4 + tx)] = mine[0]
            T.tvm_storage_sync("shared")
            A[bx, ty * 4 + tx] = Sb[ty * 4 + tx] + mine[0] * 100
            T.tvm_storage_sync("shared")

    a = np.arange(16, dtype="int32").reshape(2, 8)
    want = a.copy()
    for _ in range(3):
        want = want[:, ::-1] + want * 100
    interp.run(reverse, a, check_uninitialized=True)
    assert (a == want).all()


def test_thread_bound_loops_with_barriers_behave_like_launches() -> None:
    @T.prim_func
    def rotate(A: T.Buffer((8,), "int32")):
        with T.block("root"):
            T.reads()
            T.writes()
            S = T.alloc_buffer((8,), "int32", scope="shared")
            for tx in T.thread_binding(8, thread="threadIdx.x"):
                S[tx] = A[tx]
                T.tvm_storage_sync("shared")
                A[tx] = S[(tx + 1) % 8]

    a = np.arange(8, dtype="int32")
    interp.run(rotate, a)
    assert a.tolist() == [1, 2, 3, 4, 5, 6, 7, 0]


def test_a_smaller_launch_inside_leaves_the_other_threads_out() -> None:
    @T.prim_func
    def f(A: T.Buffer((8,), "int32")):
        for tx in T.thread_binding(8, thread="threadIdx.x"):
            A[tx] = 1
            T.tvm_storage_sync("shared")
            for t2 in T.thread_binding(3, thread="threadIdx.x"):
                A[t2] = A[t2] + A[7 - t2]

    a = np.zeros(8, "int32")
    interp.run(f, a)
    assert a.tolist() == [2, 2, 2, 1, 1, 1, 1, 1]


def test_a_barrier_in_a_branch_that_not_all_threads_take_is_an_error() -> None:
    @T.prim_func
    def f(A: T.Buffer((4,), "int32")):
        tx = T.launch_thread("threadIdx.x", 4)
        if tx < 2:
            T.tvm_storage_sync("shared")
        A[tx] = 1

    with pytest.raises(InterpError, match=r"divergent barrier: thread \(0, 0, 0\).*thread \(2, 0, 0\) never reaches"):
        interp.run(f, np.zeros(4, "int32"))


def test_two_different_barriers_at_once_are_an_error() -> None:
    @T.prim_func
    def f(A: T.Buffer((4,), "int32")):
        tx = T.launch_thread("threadIdx.x", 4)
        if tx < 3:
            T.tvm_storage_sync("shared")
            A[tx] = 1
        else:
            T.tvm_storage_sync("shared")
            A[tx] = 2

    with pytest.raises(InterpError, match=r"threads \(0, 0, 0\) and \(3, 0, 0\).*wait at different barriers"):
        interp.run(f, np.zeros(4, "int32"))


def test_an_error_inside_a_thread_tells_the_thread_index() -> None:
    @T.prim_func
    def f(A: T.Buffer((4,), "int32")):
        for tx in T.thread_binding(5, thread="threadIdx.x"):
            T.tvm_storage_sync("shared")
            A[tx] = 1

    with pytest.raises(InterpError, match=r"A\[4\] is out of bounds") as caught:
        interp.run(f, np.zeros(4, "int32"))
    assert caught.value.loop_values == {"tx": 4}
    assert caught.value.statement == "A[tx] = 1"


def test_returning_early_ends_one_thread_only() -> None:
    @T.prim_func
    def f(A: T.Buffer((4,), "int32")):
        tx = T.launch_thread("threadIdx.x", 4)
        if tx == 1:
            T.evaluate(T.ret(0))
        A[tx] = 1

    a = np.zeros(4, "int32")
    interp.run(f, a)
    assert a.tolist() == [1, 0, 1, 1]


def test_deep_loops_around_a_barrier_still_meet() -> None:
    a, tx = decl_buffer((4,), "int32", name="A"), Var("tx")
    axis = IterVar(None, tx, IterVar.ThreadIndex, "threadIdx.x")
    other = ex.FloorMod(ex.Add(tx, int32(1)), int32(4))
    sync = st.Evaluate(Call("int32", "tir.tvm_storage_sync", (StringImm("shared"),)))
    value = Var("x")
    swap = st.LetStmt(value, ex.BufferLoad(a, (other,)), st.seq(sync, st.BufferStore(a, value, (tx,)), sync))
    body: st.Stmt = swap
    for depth in range(20):
        body = st.For(Var(f"i{depth}"), int32(0), int32(1), 0, body)
    out = np.arange(4, dtype="int32")
    interp.run(PrimFunc((a,), st.AttrStmt(axis, "thread_extent", int32(4), body)), out)
    assert out.tolist() == [1, 2, 3, 0]


@pytest.mark.parametrize("reduce_both", [False, True])
def test_a_reduction_across_threads_combines_those_that_differ_in_the_given_indices(reduce_both: bool) -> None:
    a, b = decl_buffer((2, 4), "float32", name="A"), decl_buffer((2, 4), "float32", name="B")
    r = decl_buffer((1,), "float32", name="r", scope="local")
    tx, ty = Var("tx"), Var("ty")
    x_axis = IterVar(None, tx, IterVar.ThreadIndex, "threadIdx.x")
    y_axis = IterVar(None, ty, IterVar.ThreadIndex, "threadIdx.y")
    left, right = Var("x", "float32"), Var("y", "float32")
    total = CommReducer((left,), (right,), (ex.Add(left, right),), (ex.FloatImm("float32", 0.0),))
    zero = int32(0)
    threads = (tx, ty) if reduce_both else (tx,)
    call = Call(
        "handle",
        "tir.tvm_thread_allreduce",
        (IntImm("uint32", 1), ex.BufferLoad(a, (ty, tx)), ex.NE(tx, int32(1)), ex.BufferLoad(r, (zero,)), *threads),
    )
    inner: st.Stmt = st.AttrStmt(total, "reduce_scope", ex.Call("handle", "tir.undef", ()), st.Evaluate(call))
    inner = st.seq(inner, st.BufferStore(b, ex.BufferLoad(r, (zero,)), (ty, tx)))
    inner = st.Allocate(r.data, "float32", (int32(1),), IntImm("bool", 1), inner)
    inner = st.AttrStmt(x_axis, "thread_extent", int32(4), inner)
    f = PrimFunc((a, b), st.AttrStmt(y_axis, "thread_extent", int32(2), inner))
    data, out = np.arange(8, dtype="float32").reshape(2, 4), np.zeros((2, 4), "float32")
    interp.run(f, data, out)
    kept = data[:, [0, 2, 3]]
    want = kept.sum() if reduce_both else kept.sum(1)[:, None]
    assert (out == np.broadcast_to(want, (2, 4))).all()


def test_a_barrier_in_a_function_that_threads_call_is_refused() -> None:
    @I.ir_module
    class Module:
        @T.prim_func
        def wait():
            T.tvm_storage_sync("shared")

        @T.prim_func
        def main():
            for _ in T.thread_binding(4, thread="threadIdx.x"):
                Module.wait()

    with pytest.raises(InterpError, match="call wait, which has a barrier"):
        interp.run(Module)


def test_a_grid_wide_barrier_is_refused() -> None:
    @T.prim_func
    def f():
        T.tvm_storage_sync("global")

    with pytest.raises(InterpError, match="barrier of all blocks"):
        interp.run(f)
