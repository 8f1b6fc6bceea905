"""Allocations share memory where their lives do not meet, and memory is taken outside of loops."""

from __future__ import annotations

import numpy as np
import pytest

import tscript
from tscript import interp
from tscript.ir.function import PrimFunc
from tscript.ir.functor import post_order_visit
from tscript.ir.stmt import Allocate
from tscript.lower.pipeline import CPU_PIPELINE
from tscript.lower.share import share_storage
from tscript.script import tir as T


def allocations(func: PrimFunc) -> list[int]:
    """How many elements each allocation of a program takes, in the order of the text."""
    found: list[int] = []

    def note(node: object) -> None:
        if isinstance(node, Allocate):
            found.append(int(np.prod([int(e) for e in node.extents])))

    post_order_visit(func.body, note)
    return found[::-1]


def shared(func: PrimFunc) -> tuple[list[int], str]:
    """What is allocated in the end, and the program, of which native code must do what the interpreter does."""
    rng = np.random.default_rng(0)
    arrays = [rng.integers(0, 9, [int(n) for n in b.shape]).astype(str(b.dtype)) for b in func.buffer_map.values()]
    native, expected, lowered = ([a.copy() for a in arrays] for _ in range(3))
    tscript.build(func)(*native)
    interp.run(func, *expected)
    (low,) = tscript.lower(func).functions.values()
    interp.run(low, *lowered)
    for got, same, want in zip(native, lowered, expected, strict=True):
        np.testing.assert_array_equal(got, want)
        np.testing.assert_array_equal(same, want)
    return allocations(low), low.script()


@T.prim_func
def chain(A: T.Buffer((64, 64), "float32"), D: T.Buffer((64, 64), "float32")):
    B = T.decl_buffer((64, 64))
    C = T.decl_buffer((64, 64))
    E = T.decl_buffer((64, 64))
    for i, j in T.grid(64, 64):
        B[i, j] = A[i, j] + T.float32(1)
    for i, j in T.grid(64, 64):
        C[i, j] = B[j, i] * T.float32(2)
    for i, j in T.grid(64, 64):
        E[i, j] = C[j, i] * T.float32(3)
    for i, j in T.grid(64, 64):
        D[i, j] = E[63 - i, j] - T.float32(1)


def test_a_life_that_is_over_leaves_its_memory_to_the_next():
    found, text = shared(chain)
    assert found == [4096, 4096], text
    assert text.count("data=B)") == 2, text


@T.prim_func
def pointwise(A: T.Buffer((4096,), "float32"), D: T.Buffer((4096,), "float32")):
    B = T.decl_buffer((4096,))
    C = T.decl_buffer((4096,))
    for i in range(4096):
        B[i] = A[4095 - i]
    for i in T.vectorized(4096):
        C[i] = B[i] * B[i] + T.float32(1)
    for i in range(4096):
        D[i] = C[4095 - i]


@T.prim_func
def turned(A: T.Buffer((4096,), "float32"), D: T.Buffer((4096,), "float32")):
    B = T.decl_buffer((4096,))
    C = T.decl_buffer((4096,))
    for i in range(4096):
        B[i] = A[i]
    for i in range(4096):
        C[i] = B[4095 - i]
    for i in range(4096):
        D[i] = C[4095 - i]


@T.prim_func
def again(A: T.Buffer((4096,), "float32"), D: T.Buffer((4096,), "float32")):
    B = T.decl_buffer((4096,))
    C = T.decl_buffer((4096,))
    for i in range(4096):
        B[i] = A[i]
    for i, j in T.grid(2, 4096):
        C[j] = B[j] + T.Cast("float32", i)
    for i in range(4096):
        D[i] = C[4095 - i]


@T.prim_func
def read_twice(A: T.Buffer((4096,), "float32"), D: T.Buffer((4096,), "float32")):
    B = T.decl_buffer((4096,))
    C = T.decl_buffer((4096,))
    for i in range(4096):
        B[i] = A[i]
    for i in range(4096):
        C[i] = B[i] + T.float32(1)
        D[i] = B[(i + 4095) % 4096]
    for i in range(4096):
        D[i] = D[i] + C[4095 - i]


def test_each_element_may_replace_the_one_that_it_is_made_of():
    found, text = shared(pointwise)
    assert found == [4096], text


@pytest.mark.parametrize("func", [turned, again, read_twice])
def test_what_is_read_later_is_not_replaced(func: PrimFunc):
    found, text = shared(func)
    assert found == [4096, 4096], text


@T.prim_func
def carried(A: T.Buffer((8, 1024), "int32"), D: T.Buffer((8, 1024), "int32")):
    B = T.decl_buffer((1024,), "int32")
    C = T.decl_buffer((1024,), "int32")
    for j in range(1024):
        B[j] = 1
    for i in range(8):
        for j in range(1024):
            B[j] = B[j] + A[i, j]
        for j in range(1024):
            C[j] = A[i, 1023 - j]
        for j in range(1024):
            D[i, j] = C[1023 - j]
    for j in range(1024):
        D[0, j] = D[0, j] + B[j]


def test_what_a_loop_hands_on_lives_throughout_it():
    found, text = shared(carried)
    assert found == [1024, 1024], text


@T.prim_func
def staged(A: T.Buffer((8, 1024), "int32"), D: T.Buffer((8, 1024), "int32")):
    for i in range(8):
        B = T.decl_buffer((1024,), "int32")
        for j in range(1024):
            B[j] = A[i, 1023 - j]
        C = T.decl_buffer((512,), "int32")
        for j in range(512):
            C[j] = B[j * 2] + B[j * 2 + 1]
        E = T.decl_buffer((2048,), "int32")
        for j in range(2048):
            E[j] = C[j % 512]
        for j in range(1024):
            D[i, j] = E[2047 - j]


def test_memory_is_taken_outside_of_loops_and_as_large_as_its_largest_user():
    found, text = shared(staged)
    assert found == [2048, 512], text
    assert max(text.index("T.allocate([2048]"), text.index("T.allocate([512]")) < text.index("for i in"), text


@T.prim_func
def in_parallel(A: T.Buffer((8, 1024), "int32"), D: T.Buffer((8, 1024), "int32")):
    for i in T.parallel(8):
        B = T.decl_buffer((1024,), "int32")
        for j in range(1024):
            B[j] = A[i, 1023 - j]
        C = T.decl_buffer((1024,), "int32")
        for j in range(1024):
            C[j] = B[1023 - j] * 2
        E = T.decl_buffer((1024,), "int32")
        for j in range(1024):
            E[j] = C[1023 - j] * 2
        for j in range(1024):
            D[i, j] = E[1023 - j]


def test_iterations_that_run_at_the_same_time_share_nothing_with_each_other():
    found, text = shared(in_parallel)
    assert found == [1024, 1024], text
    assert text.index("T.parallel") < text.index("decl_buffer((1024,)"), text


@T.prim_func
def by_address(A: T.Buffer((1024,), "int32"), D: T.Buffer((1024,), "int32")):
    B = T.decl_buffer((1024,), "int32")
    C = T.decl_buffer((1024,), "int32")
    for j in range(1024):
        B[j] = A[1023 - j]
    pointer: T.handle("int32") = T.address_of(B[512])
    V = T.decl_buffer((512,), "int32", data=pointer)
    for j in range(512):
        D[j] = V[j]
        D[j + 512] = V[511 - j]
    for j in range(1024):
        C[j] = D[1023 - j]
    for j in range(1024):
        D[j] = D[j] + C[1023 - j]


@T.prim_func
def of_two_types(A: T.Buffer((1024,), "int32"), D: T.Buffer((1024,), "int32")):
    B = T.decl_buffer((1024,), "int32")
    C = T.decl_buffer((1024,), "float32")
    for j in range(1024):
        B[j] = A[1023 - j]
    for j in range(1024):
        D[j] = B[1023 - j]
    for j in range(1024):
        C[j] = T.Cast("float32", D[j])
    for j in range(1024):
        D[j] = T.Cast("int32", C[1023 - j])


@T.prim_func
def of_two_scopes(A: T.Buffer((1024,), "int32"), D: T.Buffer((1024,), "int32")):
    B = T.decl_buffer((1024,), "int32")
    C = T.decl_buffer((1024,), "int32", scope="local")
    for j in range(1024):
        B[j] = A[1023 - j]
    for j in range(1024):
        D[j] = B[1023 - j]
    for j in range(1024):
        C[j] = D[1023 - j]
    for j in range(1024):
        D[j] = C[1023 - j]


@T.prim_func
def of_two_alignments(A: T.Buffer((1024,), "int32"), D: T.Buffer((1024,), "int32")):
    B = T.decl_buffer((1024,), "int32", align=32)
    C = T.decl_buffer((1024,), "int32")
    for j in range(1024):
        B[j] = A[1023 - j]
    for j in range(1024):
        D[j] = B[1023 - j]
    for j in range(1024):
        C[j] = D[1023 - j]
    for j in range(1024):
        D[j] = C[1023 - j]


@T.prim_func
def small(A: T.Buffer((64,), "int32"), D: T.Buffer((64,), "int32")):
    B = T.decl_buffer((64,), "int32")
    C = T.decl_buffer((64,), "int32")
    for j in range(64):
        B[j] = A[63 - j]
    for j in range(64):
        D[j] = B[63 - j]
    for j in range(64):
        C[j] = D[63 - j]
    for j in range(64):
        D[j] = C[63 - j]


@pytest.mark.parametrize("func", [by_address, of_two_types, of_two_scopes, of_two_alignments, small])
def test_memory_that_differs_or_is_reached_by_address_stays_apart(func: PrimFunc):
    found, text = shared(func)
    assert len(found) == 2 and len(set(found)) == 1, text


def test_large_memory_is_not_taken_before_it_is_wanted():
    @T.prim_func
    def func(A: T.Buffer((4,), "int8"), n: T.int32):
        for _i in range(n):
            B = T.decl_buffer((1 << 40,), "int8")
            for j in range(4):
                B[j + (A[j] != 0) * 4] = A[j]
            for j in range(4):
                A[j] = B[3 - j + (A[j] != 0) * 4]

    (low,) = tscript.lower(func).functions.values()
    text = low.script()
    assert text.index("for _i in range(n)") < text.index("B = T.decl_buffer"), text
    a = np.arange(4, dtype="int8")
    tscript.build(func)(a, 0)
    assert a.tolist() == [0, 1, 2, 3]


def test_the_pass_can_be_left_out():
    without = [p for p in CPU_PIPELINE if p.name != "share_storage"]
    lib = tscript.build(chain, pipeline=without)
    a = np.arange(4096, dtype="float32").reshape(64, 64)
    d, same = np.zeros((64, 64), "float32"), np.zeros((64, 64), "float32")
    lib(a, d)
    tscript.build(chain)(a, same)
    np.testing.assert_array_equal(d, same)


def test_a_program_without_anything_to_share_comes_back_itself():
    (low,) = tscript.lower(small).functions.values()
    assert share_storage(low) is low


def test_what_was_shared_stays_so():
    (low,) = tscript.lower(chain).functions.values()
    assert allocations(share_storage(low)) == [4096, 4096]
