"""What a wrong program is told: the element, the statement, the loop values."""

from __future__ import annotations

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


def test_an_access_out_of_bounds_names_buffer_subscripts_statement_and_loops() -> None:
    @T.prim_func
    def f(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32")):
        for i, j in T.grid(4, 8):
            B[i, j] = A[i, j + 1]

    with pytest.raises(InterpError) as caught:
        interp.run(f, np.zeros((4, 8), "float32"), np.zeros((4, 8), "float32"))
    e = caught.value
    assert (e.buffer, e.indices) == ("A", (0, 8))
    assert e.statement == "B[i, j] = A[i, j + 1]"
    assert e.loop_values == {"i": 0, "j": 7}
    assert e.span is not None
    assert str(e).splitlines()[:3] == [
        "A[0, 8] is out of bounds: subscript 1 is 8, dimension 1 of A goes from 0 to 7 (shape (4, 8))",
        "  in: B[i, j] = A[i, j + 1]",
        "  with i = 0, j = 7",
    ]


def test_a_negative_subscript_is_out_of_bounds() -> None:
    @T.prim_func
    def f(A: T.Buffer((4,), "int32"), n: T.int32):
        A[n] = 1

    with pytest.raises(InterpError, match=r"A\[-1\] is out of bounds: subscript 0 is -1") as caught:
        interp.run(f, np.zeros(4, "int32"), -1)
    assert caught.value.statement == "A[n] = 1"


def test_results_written_before_the_error_stay_in_the_array() -> None:
    @T.prim_func
    def f(A: T.Buffer((4,), "int32")):
        for i in range(5):
            A[i] = 7

    a = np.zeros(4, "int32")
    with pytest.raises(InterpError, match=r"A\[4\]"):
        interp.run(f, a)
    assert a.tolist() == [7, 7, 7, 7]


def test_a_vector_access_beyond_the_end_names_the_lane() -> None:
    a = decl_buffer((6,), "int32", name="A")
    store = st.BufferStore(a, ex.Broadcast(int32(1), 4), (ex.Ramp(int32(3), int32(1), 4),))
    with pytest.raises(InterpError, match=r"A\[6\] is out of bounds"):
        interp.run(PrimFunc((a,), store), np.zeros(6, "int32"))


def test_division_by_zero_names_the_statement_and_the_loop() -> None:
    @T.prim_func
    def f(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
        for i in range(4):
            B[i] = 100 // A[i]

    with pytest.raises(InterpError, match="division by zero") as caught:
        interp.run(f, np.array([1, 2, 0, 4], "int32"), np.zeros(4, "int32"))
    assert caught.value.statement == "B[i] = 100 // A[i]"
    assert caught.value.loop_values == {"i": 2}


def test_a_division_in_a_loop_that_never_runs_is_no_error() -> None:
    @T.prim_func
    def f(A: T.Buffer((4,), "int32"), n: T.int32, d: T.int32):
        for i in range(n):
            A[100 // d] = i

    interp.run(f, np.zeros(4, "int32"), 0, 0)


def test_a_read_of_memory_nobody_wrote_is_found_element_by_element() -> None:
    @T.prim_func
    def f(B: T.Buffer((8,), "int16")):
        S = T.alloc_buffer((8,), "int16")
        for i in range(7):
            S[i] = T.int16(1)
        for i in range(8):
            B[i] = S[i]

    b = np.zeros(8, "int16")
    interp.run(f, b)
    assert b.tolist() == [1] * 7 + [-1]
    with pytest.raises(InterpError, match=r"S\[7\] is read but was never written") as caught:
        interp.run(f, b, check_uninitialized=True)
    assert caught.value.loop_values == {"i": 7}


def test_half_written_elements_count_as_unwritten_through_a_wider_view() -> None:
    @T.prim_func
    def f(B: T.Buffer((2,), "int32"), n: T.int32):
        p = T.allocate([4], "int16", "global")
        H = T.decl_buffer((4,), "int16", data=p)
        W = T.decl_buffer((2,), "int32", data=p)
        for i in range(n):
            H[i] = T.int16(1)
        for i in range(2):
            B[i] = W[i]

    b = np.zeros(2, "int32")
    interp.run(f, b, 4, check_uninitialized=True)
    assert b.tolist() == [65537, 65537]
    with pytest.raises(InterpError, match=r"W\[1\] is read but was never written"):
        interp.run(f, b, 3, check_uninitialized=True)


def test_an_undefined_value_makes_its_element_unwritten_again() -> None:
    @T.prim_func
    def f(A: T.Buffer((2,), "int32"), B: T.Buffer((2,), "int32")):
        A[1] = T.undef()
        for i in range(2):
            B[i] = A[i]

    a, undef = decl_buffer((2,), "int32", name="A"), ex.Call("int32", "tir.undef", ())
    b = decl_buffer((2,), "int32", name="B")
    body = st.seq(st.BufferStore(a, undef, (int32(1),)), st.BufferStore(b, ex.BufferLoad(a, (int32(1),)), (int32(0),)))
    del f
    with pytest.raises(InterpError, match=r"A\[1\] is read but was never written"):
        interp.run(PrimFunc((a, b), body), np.zeros(2, "int32"), np.zeros(2, "int32"), check_uninitialized=True)


def test_vector_reads_are_checked_for_being_written() -> None:
    a, s = decl_buffer((4,), "int32", name="A"), decl_buffer((4,), "int32", name="S")
    ramp = ex.Ramp(int32(0), int32(1), 4)
    body = st.seq(
        st.BufferStore(s, ex.Broadcast(int32(1), 2), (ex.Ramp(int32(0), int32(1), 2),)),
        st.BufferStore(a, ex.BufferLoad(s, (ramp,)), (ramp,)),
    )
    root = st.BlockRealize((), IntImm("bool", 1), st.Block((), (), (), "root", body, alloc_buffers=(s,)))
    with pytest.raises(InterpError, match="never written"):
        interp.run(PrimFunc((a,), root), np.zeros(4, "int32"), check_uninitialized=True)


def test_a_binding_outside_its_domain_names_block_axis_and_value() -> None:
    @T.prim_func
    def f(A: T.Buffer((16,), "int32")):
        for i, j in T.grid(4, 4):
            with T.block("fill"):
                v = T.axis.spatial(14, i * 4 + j)
                T.writes(A[v])
                A[v] = 1

    with pytest.raises(InterpError) as caught:
        interp.run(f, np.zeros(16, "int32"))
    assert caught.value.reason.startswith("axis v of block 'fill' is bound to 14, outside its domain 0 to 13")
    assert caught.value.statement == 'with T.block("fill"):'
    assert caught.value.loop_values == {"i": 3, "j": 2, "v": 14}


@pytest.mark.parametrize("kind", ["read", "written"])
def test_an_access_outside_the_declared_regions_names_the_block(kind: str) -> None:
    @T.prim_func
    def reads(A: T.Buffer((9,), "int32"), B: T.Buffer((9,), "int32")):
        for i in range(8):
            with T.block("copy"):
                v = T.axis.spatial(8, i)
                T.reads(A[v])
                T.writes(B[v])
                B[v] = A[v] + A[v + 1]

    @T.prim_func
    def writes(A: T.Buffer((9,), "int32"), B: T.Buffer((9,), "int32")):
        for i in range(8):
            with T.block("copy"):
                v = T.axis.spatial(8, i)
                T.reads(A[v])
                T.writes(B[0:8])
                B[v + 1] = A[v]

    program, where = (reads, "A[1]") if kind == "read" else (writes, "B[8]")
    a, b = np.zeros(9, "int32"), np.zeros(9, "int32")
    with pytest.raises(InterpError) as caught:
        interp.run(program, a, b)
    listed = "T.reads" if kind == "read" else "T.writes"
    assert caught.value.reason.startswith(f"{where} is {kind} outside the {listed} region of block 'copy'")
    interp.run(program, a, b, check_regions=False)


def test_an_undeclared_buffer_is_outside_every_region() -> None:
    @T.prim_func
    def f(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
        for i in range(4):
            with T.block("copy"):
                v = T.axis.spatial(4, i)
                T.reads()
                T.writes(B[v])
                B[v] = A[v]

    with pytest.raises(InterpError, match=r"A\[0\] is read outside the T.reads region of block 'copy'"):
        interp.run(f, np.zeros(4, "int32"), np.zeros(4, "int32"))


def test_regions_of_outer_blocks_bind_inner_accesses_too() -> None:
    @T.prim_func
    def f(A: T.Buffer((16,), "int32"), n: T.int32):
        for i in range(4):
            with T.block("outer"):
                vo = T.axis.spatial(4, i)
                T.writes(A[vo * 4 : vo * 4 + 4])
                for j in range(n):
                    with T.block("inner"):
                        vi = T.axis.spatial(16, vo * 4 + j)
                        T.writes(A[vi])
                        A[vi] = vi

    a = np.zeros(16, "int32")
    interp.run(f, a, 4)
    assert a.tolist() == list(range(16))
    with pytest.raises(InterpError, match=r"A\[4\] is written outside the T.writes region of block 'outer'"):
        interp.run(f, a, 5)


def test_failed_assertions_and_assumptions_give_their_text() -> None:
    @T.prim_func
    def f(A: T.Buffer((4,), "int32")):
        for i in range(4):
            assert A[i] > 0, "all elements are positive"
            A[i] = A[i] - 1

    with pytest.raises(InterpError, match="assertion failed: all elements are positive") as caught:
        interp.run(f, np.array([1, 1, 0, 1], "int32"))
    assert caught.value.loop_values == {"i": 2}
    assert caught.value.statement == 'assert A[i] > 0, "all elements are positive"'

    @T.prim_func
    def g(n: T.int32):
        T.evaluate(T.assume(n > 3))

    interp.run(g, 4)
    with pytest.raises(InterpError, match=r"condition of T\.assume does not hold"):
        interp.run(g, 3)


def test_an_endless_loop_ends_with_the_step_budget() -> None:
    @T.prim_func
    def f(A: T.Buffer((1,), "int32")):
        while A[0] < 1:
            A[0] = 0

    with pytest.raises(InterpError, match="more than the 1000 loop iterations"):
        interp.run(f, np.zeros(1, "int32"), max_steps=1000)


def test_the_step_budget_counts_every_iteration() -> None:
    @T.prim_func
    def f(A: T.Buffer((1,), "int32")):
        for i, j in T.grid(10, 9):
            A[0] = i + j

    interp.run(f, np.zeros(1, "int32"), max_steps=100)
    with pytest.raises(InterpError, match="99 loop iterations"):
        interp.run(f, np.zeros(1, "int32"), max_steps=99)


def test_unknown_external_functions_and_intrinsics_say_what_to_do() -> None:
    @T.prim_func
    def f():
        T.evaluate(T.call_extern("int32", "no_such_function", 1))

    with pytest.raises(InterpError, match=r"'no_such_function' is not known.*register_extern"):
        interp.run(f)
    lost = PrimFunc((), st.Evaluate(ex.Call("handle", "tir.ptx_commit_group", ())))
    with pytest.raises(InterpError, match="ptx_commit_group has no meaning in the interpreter"):
        interp.run(lost)


def test_endless_recursion_is_reported() -> None:
    @I.ir_module
    class Module:
        @T.prim_func
        def main(n: T.int32) -> T.int32:
            return Module.main(n + 1)

    with pytest.raises(InterpError, match="call each other too deeply"):
        interp.run(Module, 0)


def test_buffers_larger_than_their_memory_and_impossible_allocations_are_refused() -> None:
    @T.prim_func
    def f(A: T.Buffer((4,), "int32")):
        V = T.Buffer((5,), "int32", data=A.data)
        V[0] = 1

    with pytest.raises(InterpError, match=r"buffer V of shape \(5,\) takes elements 0 to 4 of its memory, which has 4"):
        interp.run(f, np.zeros(4, "int32"))

    @T.prim_func
    def huge(n: T.int64):
        p = T.allocate([n, 4294967297], "uint8", "global")
        V = T.Buffer((1,), "uint8", data=p)
        V[0] = T.uint8(1)

    with pytest.raises(InterpError, match="the allocation of p is 18446744086594453506 bytes"):
        interp.run(huge, 4294967298)


def test_a_match_buffer_beyond_its_source_is_refused() -> None:
    @T.prim_func
    def f(A: T.Buffer((8,), "int32"), n: T.int32):
        with T.block("view"):
            T.writes(A[0:8])
            V = T.match_buffer(A[n : n + 4], (4,), "int32")
            V[0] = 1

    interp.run(f, np.zeros(8, "int32"), 4)
    with pytest.raises(InterpError, match=r"the region A\[5:9\] of a match_buffer is out of bounds"):
        interp.run(f, np.zeros(8, "int32"), 5)


def test_variables_and_buffers_that_nothing_defines_are_named() -> None:
    a = decl_buffer((4,), "int32", name="A")
    with pytest.raises(InterpError, match="variable n is used but nothing gives it a value") as caught:
        interp.run(PrimFunc((a,), st.BufferStore(a, Var("n"), (int32(0),))), np.zeros(4, "int32"))
    assert caught.value.statement == "A[0] = n"
    lost = decl_buffer((4,), "int32", name="Lost")
    with pytest.raises(InterpError, match="buffer Lost is used but nothing allocates it"):
        interp.run(PrimFunc((a,), st.BufferStore(lost, int32(1), (int32(0),))), np.zeros(4, "int32"))
    axis = IterVar(Range.from_min_extent(int32(0), int32(4)), Var("v"), 0)
    bare = st.Block((axis,), (), (), "b", st.Evaluate(int32(0)))
    with pytest.raises(InterpError, match="block 'b' has axes that nothing binds"):
        interp.run(PrimFunc((), bare))


def test_a_module_of_several_functions_needs_an_entry() -> None:
    @I.ir_module
    class Module:
        @T.prim_func
        def one(n: T.int32) -> T.int32:
            return n

        @T.prim_func
        def two(n: T.int32) -> T.int32:
            return n + 1

    with pytest.raises(InterpError, match="which function is to run"):
        interp.run(Module, 1)
    with pytest.raises(InterpError, match="no function 'three'; it has: one, two"):
        interp.run(Module, 1, entry="three")
