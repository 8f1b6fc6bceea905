"""Schedules that other compilers got wrong, or refused, or died of: here they compute what the program does."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.schedule.check import check_schedule, rejects
from tscript import interp, te
from tscript.analysis import check
from tscript.driver import build, lower
from tscript.ir.function import PrimFunc
from tscript.schedule import Schedule, ScheduleError
from tscript.script import tir as T
from tscript.support.errors import InterpError, LoweringError
from tscript.tir import TensorIntrin


@T.prim_func
def copy_28(A: T.Buffer((28,), "float32"), B: T.Buffer((28,), "float32")):
    for i in range(28):
        with T.block("B"):
            v = T.axis.spatial(28, i)
            B[v] = A[v] + 1.0


def test_a_cache_behind_a_split_with_overhang_holds_no_more_than_the_buffer() -> None:
    def steps(s: Schedule) -> None:
        s.split(s.get_loops("B")[0], [None, 16])
        s.cache_write("B", 0, "local")

    sch = check_schedule(copy_28, steps)
    assert sch.get(sch.get_loops("B_local")[-1]).extent.value == 28


def total(n: int):
    @T.prim_func
    def func(A: T.Buffer((n,), "int32"), B: T.Buffer((1,), "int32")):
        for u, k in T.grid(1, n):
            with T.block("B"):
                vu, vk = T.axis.remap("SR", [u, k])
                with T.init():
                    B[vu] = 0
                B[vu] = B[vu] + A[vk]

    return func


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("factor", [16, 100, 7])
def test_partial_sums_of_a_guarded_reduction(which: int, factor: int) -> None:
    def steps(s: Schedule) -> None:
        s.rfactor(s.split(s.get_loops("B")[1], [None, factor])[which], 0)

    check_schedule(total(100), steps)


@pytest.mark.parametrize("part", [[49, 1], [1, 49], [7, 7]])
@pytest.mark.parametrize("which", [0, 1])
def test_partial_sums_over_what_may_be_one_value(part: list[int], which: int) -> None:
    @T.prim_func
    def window(A: T.Buffer((10, 10), "int32"), B: T.Buffer((4, 4), "int32")):
        for i, j, p, q in T.grid(4, 4, 7, 7):
            with T.block("B"):
                vi, vj, vp, vq = T.axis.remap("SSRR", [i, j, p, q])
                with T.init():
                    B[vi, vj] = 0
                B[vi, vj] = B[vi, vj] + A[vi + vp, vj + vq]

    def steps(s: Schedule) -> None:
        loops = s.split(s.fuse(*s.get_loops("B")[2:]), part)
        s.rfactor(loops[which], 0)

    sch = check_schedule(window, steps)
    partial = sch.get(sch.get_block("B_rf"))
    reduces = [a for a in partial.iter_vars if a.iter_type == a.CommReduce]
    # Without an axis to reduce over there is nothing to begin.
    assert (partial.init is not None) == bool(reduces)


def test_a_sum_over_lanes_is_refused_with_what_to_do() -> None:
    rejects(total(128), lambda s: s.vectorize(s.get_loops("B")[1]), "accumulate(?s:.*)rfactor", ["k", "B"])


def test_a_cached_index_is_declared_as_it_is_read() -> None:
    @T.prim_func
    def gather(A: T.Buffer((9, 4), "float32"), I: T.Buffer((6,), "int32"), C: T.Buffer((6, 4), "float32")):
        for i, j in T.grid(6, 4):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads(A[I[vi], vj], I[vi])
                T.writes(C[vi, vj])
                C[vi, vj] = A[I[vi], vj]

    sch = Schedule(gather)
    sch.cache_read("C", 1, "local")
    block = sch.get(sch.get_block("C"))
    # In the block as in its signature.
    assert "I[" not in str(block).replace("I_local[", "")
    rng = np.random.default_rng(0)
    a, at = rng.random((9, 4)).astype("float32"), rng.integers(0, 9, 6).astype("int32")
    out = np.zeros((6, 4), "float32")
    interp.run(sch.mod, a, at, out)
    np.testing.assert_array_equal(out, a[at])


@T.prim_func
def shifted(A: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 8), "float32")):
    P = T.alloc_buffer((10, 10))
    for h, w in T.grid(10, 10):
        with T.block("P"):
            vh, vw = T.axis.remap("SS", [h, w])
            P[vh, vw] = T.if_then_else(1 <= vh and vh < 9 and 1 <= vw and vw < 9, A[vh - 1, vw - 1], 0.0)
    for h, w, p, q in T.grid(8, 8, 3, 3):
        with T.block("C"):
            vh, vw, vp, vq = T.axis.remap("SSRR", [h, w, p, q])
            with T.init():
                C[vh, vw] = 0.0
            C[vh, vw] = C[vh, vw] + P[vh + vp, vw + vq]


@T.prim_func
def shifted_by_store(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    P = T.alloc_buffer((10,))
    for h in range(8):
        with T.block("P"):
            vh = T.axis.spatial(8, h)
            P[vh + 1] = A[vh]
    for h, p in T.grid(8, 3):
        with T.block("C"):
            vh, vp = T.axis.remap("SR", [h, p])
            with T.init():
                C[vh] = 0.0
            C[vh] = C[vh] + T.if_then_else(1 <= vh + vp and vh + vp < 9, P[vh + vp], 0.0)


@pytest.mark.parametrize("loop", [0, 1, 2, 3])
def test_a_padded_producer_moves_into_its_window(loop: int) -> None:
    check_schedule(shifted, lambda s: s.compute_at("P", s.get_loops("C")[loop]))
    check_schedule(shifted, lambda s: [s.decompose_padding("P", s.get_loops("P")[0])])
    check_schedule(shifted, lambda s: s.compute_inline("P"))


@pytest.mark.parametrize("factor", [2, 3, 8])
def test_a_reader_of_what_is_written_only_in_part_is_told_so(factor: int) -> None:
    def steps(s: Schedule) -> None:
        s.compute_at("P", s.split(s.get_loops("C")[0], [None, factor])[0])

    rejects(shifted_by_store, steps, "block `C` may read elements that the blocks before it have not written")
    check_schedule(shifted_by_store, lambda s: s.split(s.get_loops("C")[0], [None, factor]))


def test_a_join_of_parts_of_which_one_is_a_single_element() -> None:
    @T.prim_func
    def joined(A: T.Buffer((64,), "float32"), B: T.Buffer((1,), "float32"), C: T.Buffer((63,), "float32"),
               D: T.Buffer((128,), "float32")):  # fmt: skip
        for i in range(128):
            with T.block("D"):
                v = T.axis.spatial(128, i)
                if v < 64:
                    D[v] = A[v]
                else:
                    if v == 64:
                        D[v] = B[0]
                    else:
                        D[v] = C[v - 65]

    def steps(s: Schedule) -> None:
        s.loop_partition(s.get_loops("D")[0], [64, 1, None])

    for change in (lambda s: None, steps):
        text = lower(check_schedule(joined, change).mod).script()
        # The single element stands alone, and the others stay in loops.
        assert text.count("D[") == 3
        assert text.count("range(") <= 3


def test_memory_whose_address_was_given_away_stays_alive() -> None:
    @T.prim_func
    def func(A: T.Buffer((16,), "uint8"), B: T.Buffer((16,), "uint8")):
        first = T.alloc_buffer((16,), "uint8")
        second = T.alloc_buffer((16,), "uint8")
        for i in range(16):
            first[i] = A[i]
        for i in range(16):
            second[i] = T.uint8(7)
        T.evaluate(T.call_extern("handle", "memcpy", second.access_ptr("w"), first.access_ptr("r"), T.int64(8)))
        for i in range(16):
            B[i] = second[i]

    a, b = np.arange(16, dtype="uint8"), np.zeros(16, "uint8")
    build(func)(a, b)
    np.testing.assert_array_equal(b, [*range(8), *[7] * 8])


def test_what_was_never_written_is_told_by_name_and_place() -> None:
    @T.prim_func
    def products(C: T.Buffer((4,), "float32")):
        X = T.alloc_buffer((4,), scope="local")
        Y = T.alloc_buffer((4,), scope="local")
        for i in range(4):
            with T.block("C"):
                v = T.axis.spatial(4, i)
                C[v] = X[v] * Y[v]

    with pytest.raises(InterpError, match="X") as caught:
        interp.run(products, np.zeros(4, "float32"), check_uninitialized=True)
    assert "T.reads" not in str(caught.value)
    assert caught.value.statement is not None
    found = check(products, kinds=("uninitialized",)).proven
    assert [f.message for f in found] == [f"{n}[0] is read before anything has written it" for n in "XY"]
    assert all(f.span is not None and "C[v] = X[v] * Y[v]" in (f.span.render() or "") for f in found)


def test_loops_of_different_sizes_over_one_local_buffer() -> None:
    @T.prim_func
    def func(A: T.Buffer((256,), "float32"), B: T.Buffer((256,), "float32")):
        L = T.alloc_buffer((256,), scope="local")
        for i in range(256):
            with T.block("all"):
                v = T.axis.spatial(256, i)
                L[v] = A[v]
        for i in range(100):
            with T.block("some"):
                v = T.axis.spatial(100, i)
                L[v] = L[v] * 2.0
        for i in range(256):
            with T.block("out"):
                v = T.axis.spatial(256, i)
                B[v] = L[v]

    def steps(s: Schedule) -> None:
        s.vectorize(s.split(s.get_loops("all")[0], [None, 16])[1])
        s.unroll(s.split(s.get_loops("out")[0], [None, 4])[1])

    check_schedule(func, steps)
    check_schedule(func, lambda s: None)


@T.prim_func
def twice_desc(a: T.handle, b: T.handle):
    A = T.match_buffer(a, (4,), offset_factor=1)
    B = T.match_buffer(b, (4,), offset_factor=1)
    with T.block("root"):
        T.reads(A[0:4])
        T.writes(B[0:4])
        for i in range(4):
            with T.block("twice"):
                v = T.axis.spatial(4, i)
                B[v] = A[v] * 2.0


@T.prim_func
def doubled(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32"), C: T.Buffer((16,), "float32")):
    for i in range(16):
        with T.block("B"):
            v = T.axis.spatial(16, i)
            B[v] = A[v] * 2.0
    for i in range(16):
        with T.block("C"):
            v = T.axis.spatial(16, i)
            C[v] = A[v] * 2.0


def test_a_refused_tensorize_leaves_a_schedule_that_goes_on() -> None:
    TensorIntrin.register("tests.twice", twice_desc, twice_desc, override=True)

    def steps(s: Schedule) -> None:
        for name in ("B", "C"):
            (loop,) = s.get_loops(name)
            with pytest.raises(ScheduleError):
                s.tensorize(loop, "tests.twice")
            s.tensorize(s.split(loop, [None, 4])[1], "tests.twice")

    sch = check_schedule(doubled, steps)
    views = [m.buffer for n in ("B_o", "C_o") for m in sch.get(sch.get_block(n)).match_buffers]
    assert len({v.data for v in views}) == len(views) == 4


@pytest.mark.parametrize("start, end", [(4, 12), (3, 10), (1, 2)])
def test_lanes_that_do_not_start_at_zero(start: int, end: int) -> None:
    @T.prim_func
    def func(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
        for i in range(16):
            B[i] = 0.0
        for i in T.vectorized(start, end):
            B[i] = A[i] + 1.0

    a, b, c = np.arange(16, dtype="float32"), np.ones(16, "float32"), np.ones(16, "float32")
    interp.run(func, a, b)
    build(func)(a, c)
    expected = np.where((np.arange(16) >= start) & (np.arange(16) < end), a + 1, 0)
    np.testing.assert_array_equal(b, expected)
    np.testing.assert_array_equal(c, expected)


def test_an_index_with_a_name_inside_lanes() -> None:
    @T.prim_func
    def func(A: T.Buffer((64,), "float32"), B: T.Buffer((8,), "float32")):
        for i in range(8):
            with T.block("B"):
                v = T.axis.spatial(8, i)
                at = v * 7 + 3
                B[v] = A[at] * 2.0

    check_schedule(func, lambda s: s.vectorize(s.get_loops("B")[0]))


@pytest.mark.parametrize("factor", [8, 4, 3])
def test_loops_beyond_the_reach_of_an_int32_count_in_int64(factor: int) -> None:
    wide = te.placeholder((T.int64(1) << 20, T.int64(1) << 14), "int8", "A")
    out = te.compute(wide.shape, lambda i, j: wide[i, j] + T.int8(1), name="B")
    sch = Schedule(te.create_prim_func([wide, out]))
    fused = sch.fuse(*sch.get_loops("B"))
    loops = sch.split(fused, [None, factor])
    assert all(str(sch.get(loop).loop_var.dtype) == "int64" for loop in loops)
    assert sch.get(loops[0]).extent.value == -(-(1 << 34) // factor)


def batched_product(batch: int, n: int) -> PrimFunc:
    @T.prim_func
    def main(A: T.Buffer((batch, n, n), "float32"), B: T.Buffer((batch, n, n), "float32"),
             C: T.Buffer((batch, n, n), "float32")):  # fmt: skip
        Y = T.alloc_buffer((batch, n, n))
        for b, i, j, k in T.grid(batch, n, n, n):
            with T.block("Y"):
                vb, vi, vj, vk = T.axis.remap("SSSR", [b, i, j, k])
                with T.init():
                    Y[vb, vi, vj] = T.float32(0)
                Y[vb, vi, vj] = Y[vb, vi, vj] + A[vb, vi, vk] * B[vb, vk, vj]
        for b, i, j in T.grid(batch, n, n):
            with T.block("C"):
                vb, vi, vj = T.axis.remap("SSS", [b, i, j])
                C[vb, vi, vj] = T.max(Y[vb, vi, vj], T.float32(0))

    return main


@pytest.mark.parametrize("first", ["parallel", "decompose_reduction"])
def test_a_batch_runs_in_parallel_before_or_after_its_sums_are_taken_apart(first: str) -> None:
    def steps(s: Schedule) -> None:
        b, _, j, k = s.get_loops("Y")
        j0, j1 = s.split(j, [None, 4])
        k0, k1 = s.split(k, [None, 2])
        s.reorder(j0, k0, k1, j1)
        s.reverse_compute_at("C", j0)
        if first == "parallel":
            s.parallel(b)
        init = s.decompose_reduction("Y", k0)
        if first != "parallel":
            s.parallel(b)
        s.vectorize(j1)
        s.vectorize(s.get_loops(init)[-1])
        s.unroll(k1)

    small = check_schedule(batched_product(3, 8), steps)
    assert small.mod.script().count("T.parallel(3)") == 1
    large = Schedule(batched_product(16, 128))
    steps(large)
    assert large.mod.script().count("T.parallel(16)") == 1


@pytest.mark.parametrize(
    ("shape", "size"), [((1 << 40, 1 << 40), 1 << 80), ((1 << 31, 1 << 31, 4), 1 << 64), ((1 << 61, 1), 1 << 63)]
)
def test_sizes_of_memory_do_not_wrap(shape: tuple[int, ...], size: int) -> None:
    kind = "uint8" if size != 1 << 63 else "float32"

    @T.prim_func
    def huge(At: T.Buffer((1,), "int64"), B: T.Buffer((4,), "uint8")):
        X = T.alloc_buffer([T.int64(e) for e in shape], kind)
        with T.block("X"):
            # Which element is used is not known, so that the memory keeps its size.
            at = T.meta_var((At[0],) * len(shape))
            T.reads(At[0])
            T.writes(X[tuple(slice(0, n) for n in shape)], B[0])
            X[at] = T.cast(1, kind)
            B[0] = T.uint8(1)

    with pytest.raises(LoweringError, match=f"takes {size} bytes"):
        build(huge)


def test_memory_of_more_than_four_billion_elements_is_all_there() -> None:
    @T.prim_func
    def wide(At: T.Buffer((2,), "int64"), B: T.Buffer((4,), "uint8")):
        X = T.alloc_buffer((T.int64(4294967297),), "uint8")
        with T.block("X"):
            T.reads(At[0:2], X[0:4294967297])
            T.writes(X[0:4294967297], B[0])
            X[At[0]] = T.uint8(1)
            B[0] = X[At[1]]

    assert "X = T.decl_buffer((T.int64(4294967297),)" in lower(wide).script()
    asked = re.search(r"malloc\(i64 (\d+)\)", build(wide).get_source("ll"))
    assert asked is not None and int(asked[1]) >= 4294967297
