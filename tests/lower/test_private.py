"""Memory that one iteration of a parallel loop uses is taken inside it, and only as much as it touches."""

from __future__ import annotations

import numpy as np
import pytest

import tscript
from tscript.ir.function import PrimFunc
from tscript.runtime import num_threads, set_num_threads
from tscript.script import tir as T
from tscript.tir import Schedule


@T.prim_func
def blur(A: T.Buffer((130, 20), "float32"), C: T.Buffer((128, 20), "float32")):
    B = T.alloc_buffer((130, 20))
    for i, j in T.grid(130, 20):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for i, j in T.grid(128, 20):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + B[vi + 1, vj] + B[vi + 2, vj]


def scheduled(parts: int, kind: str = "parallel") -> PrimFunc:
    sch = Schedule(blur)
    i, _ = sch.get_loops("C")
    outer, _ = sch.split(i, [parts, None])
    sch.compute_at("B", outer)
    if kind == "parallel":
        sch.parallel(outer)
    return sch.mod["main"]


def lowered(func: PrimFunc) -> str:
    (found,) = tscript.lower(func).functions.values()
    return found.script()


def test_what_neighbours_both_compute_is_computed_in_memory_of_each():
    text = lowered(scheduled(8))
    assert text.index("T.parallel(8)") < text.index("B = T.decl_buffer((360,))"), text
    before = num_threads()
    try:
        a = np.random.default_rng(0).random((130, 20)).astype("float32")
        lib = tscript.build(scheduled(8))
        for threads in (1, 2, 5):
            set_num_threads(threads)
            for _ in range(20):
                c = np.zeros((128, 20), "float32")
                lib(a, c)
                np.testing.assert_array_equal(c, 2 * a[:-2] + 2 * a[1:-1] + 2 * a[2:])
    finally:
        set_num_threads(before)


def test_a_last_part_that_is_cut_off_stays_inside():
    lib = tscript.build(scheduled(7))
    a = np.random.default_rng(0).random((130, 20)).astype("float32")
    c = np.zeros((128, 20), "float32")
    lib(a, c)
    np.testing.assert_array_equal(c, 2 * a[:-2] + 2 * a[1:-1] + 2 * a[2:])


def test_memory_stays_where_a_loop_in_order_may_hand_on_what_is_in_it():
    text = lowered(scheduled(8, "serial"))
    assert text.index("B = T.decl_buffer((2600,))") < text.index("for ")


@T.prim_func
def used_after(A: T.Buffer((64,), "int32"), C: T.Buffer((64,), "int32")):
    B = T.decl_buffer((64,), "int32")
    for i in T.parallel(64):
        B[i] = A[i] * 2
    for i in T.parallel(64):
        C[i] = B[63 - i]


@T.prim_func
def by_address(A: T.Buffer((64,), "int32")):
    B = T.decl_buffer((4, 64), "int32")
    for i in T.parallel(64):
        B[1, i] = A[i]
        T.evaluate(T.call_extern("int32", "memset", T.address_of(B[2, 0]), 0, 4))
        A[i] = B[1, i] + B[2, 0]


@T.prim_func
def by_loaded_index(A: T.Buffer((64,), "int32")):
    B = T.decl_buffer((64, 8), "int32")
    for i in T.parallel(64):
        for j in range(8):
            B[A[i], j] = i + j
        A[i] = B[A[i], 3]


def test_what_several_loops_use_stays_around_them():
    text = lowered(used_after)
    assert text.index("decl_buffer") < text.index("T.parallel")
    a, c = np.arange(64).astype("int32"), np.zeros(64, "int32")
    tscript.build(used_after)(a, c)
    assert (c == 2 * a[::-1]).all()


@pytest.mark.parametrize("func", [by_address, by_loaded_index])
def test_memory_whose_touched_part_is_unknown_moves_whole(func):
    text = lowered(func)
    size = 256 if func is by_address else 512
    assert text.index("T.parallel") < text.index(f"T.decl_buffer(({size},)"), text
    a = np.arange(64).astype("int32")
    tscript.build(func)(a)
    assert (a == (np.arange(64) if func is by_address else np.arange(64) + 3)).all()
