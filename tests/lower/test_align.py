"""Strides that blocks ask for are those of the lowered program, of views, and of the interpreter."""

from __future__ import annotations

import numpy as np
import pytest

import tscript
from tscript import interp
from tscript.ir.function import PrimFunc
from tscript.lower.align import align_buffers
from tscript.script import tir as T
from tscript.tir import Schedule


@T.prim_func
def twice(A: T.Buffer((20, 30), "int32"), C: T.Buffer((20, 30), "int32")):
    B = T.alloc_buffer((20, 30), "int32")
    for i, j in T.grid(20, 30):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[19 - vi, 29 - vj] + 1
    for i, j in T.grid(20, 30):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, 29 - vj] * 2


def agree(func: PrimFunc) -> dict[str, str]:
    """The program after each pass; native code does what the interpreter does, before and after all of them."""
    seen: dict[str, str] = {}
    low = tscript.lower(func, watch=lambda name, f: seen.__setitem__(name, f.script()))
    a = np.arange(600, dtype="int32").reshape(20, 30)
    results = [np.zeros((20, 30), "int32") for _ in range(3)]
    tscript.build(func)(a, results[0])
    interp.run(func, a, results[1])
    interp.run(next(iter(low.functions.values())), a, results[2])
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])
    return seen


@pytest.mark.parametrize(
    ("axis", "factor", "offset", "strides", "size"),
    [
        (0, 32, 8, "(40, 1)", 19 * 40 + 30),
        (0, 30, 0, None, 600),
        (0, 1, 0, None, 600),
        (0, 7, 3, "(31, 1)", 19 * 31 + 30),
        (1, 2, 0, "(60, 2)", 19 * 60 + 29 * 2 + 1),
        (-2, 16, 20, "(36, 1)", 19 * 36 + 30),
    ],
)
def test_a_stride_is_the_next_one_that_leaves_the_rest(
    axis: int, factor: int, offset: int, strides: str | None, size: int
):
    sch = Schedule(twice)
    sch.storage_align("B", 0, axis, factor, offset)
    seen = agree(sch.mod["main"])
    assert strides is None or f"strides={strides}" in seen["align_buffers"], seen["align_buffers"]
    assert f"T.decl_buffer(({size},)" in seen["share_storage"] or size == 600, seen["share_storage"]


def test_what_is_cut_to_a_tile_has_the_strides_asked_for_of_the_tile():
    sch = Schedule(twice)
    i, _ = sch.get_loops("C")
    i0, _ = sch.split(i, [4, 5])
    sch.compute_at("B", i0)
    sch.storage_align("B", 0, 0, 32, 4)
    seen = agree(sch.mod["main"])
    assert 'T.decl_buffer((5, 30), "int32", data=B, strides=(36, 1))' in seen["compact_buffers"], seen[
        "compact_buffers"
    ]
    assert f"T.decl_buffer(({4 * 36 + 30},)" in seen["share_storage"], seen["share_storage"]


@T.prim_func
def through_view(A: T.Buffer((20, 30), "int32"), C: T.Buffer((20, 30), "int32")):
    B = T.alloc_buffer((20, 30), "int32")
    for i, j in T.grid(20, 30):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.block_attr({"buffer_dim_align": [[0, 0, 32, 8]]})
            B[vi, vj] = A[vi, vj]
    for i in range(5):
        with T.block("C"):
            vi = T.axis.spatial(5, i)
            T.reads(B[vi * 4 : vi * 4 + 4, 0:30])
            T.writes(C[vi * 4 : vi * 4 + 4, 0:30])
            s0, s1 = T.int32(), T.int32()
            V = T.match_buffer(B[vi * 4 : vi * 4 + 4, 0:30], (4, 30), "int32", strides=(s0, s1), offset_factor=1)
            for x, y in T.grid(4, 30):
                C[vi * 4 + x, y] = V[x, y] + s0 * 1000 + s1


def test_views_see_the_strides_in_both_kinds_of_runs():
    agree(through_view)
    a, c = np.zeros((20, 30), "int32"), np.zeros((20, 30), "int32")
    tscript.build(through_view)(a, c)
    assert (c == 40001).all()


def test_symbolic_shapes_get_symbolic_strides():
    @T.prim_func
    def func(a: T.handle, c: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (20, n), "int32")
        C = T.match_buffer(c, (20, n), "int32")
        B = T.alloc_buffer((20, n), "int32")
        for i, j in T.grid(20, n):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.block_attr({"buffer_dim_align": [[0, 0, 16, 0]]})
                B[vi, vj] = A[vi, vj]
        for i, j in T.grid(20, n):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[19 - vi, vj]

    for n in (0, 1, 16, 30):
        a = np.arange(20 * n, dtype="int32").reshape(20, n)
        c, same = np.zeros((20, n), "int32"), np.zeros((20, n), "int32")
        tscript.build(func)(a, c)
        interp.run(func, a, same)
        np.testing.assert_array_equal(c, a[::-1])
        np.testing.assert_array_equal(same, a[::-1])


def test_a_program_that_asks_for_nothing_comes_back_itself():
    assert align_buffers(twice) is twice
