"""Per-store features against values computed by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tscript.meta_schedule import TuneContext
from tscript.meta_schedule.candidate import MeasureCandidate
from tscript.meta_schedule.feature_extractor import FeatureExtractor, PerStoreFeature, RandomFeatureExtractor
from tscript.schedule import Schedule
from tscript.script import tir as T


@T.prim_func
def matmul(A: T.Buffer((128, 128), "float32"), B: T.Buffer((128, 128), "float32"), C: T.Buffer((128, 128), "float32")):
    for i, j, k in T.grid(128, 128, 128):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0.0
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


def rows(program, schedule=lambda sch: None, target="llvm", **options):
    sch = Schedule(program)
    schedule(sch)
    context = TuneContext(program, target=target)
    [found] = PerStoreFeature(**options).extract_from(context, [MeasureCandidate(sch, [])])
    return found


def s(*values):
    return [math.log2(v + 1) for v in values]


def buffer(row, n):
    return row[57 + 18 * n : 57 + 18 * (n + 1)]


def tiled(sch):
    i, j, k = sch.get_loops(sch.get_block("C"))
    i0, i1 = sch.split(i, [None, 8])
    j0, j1 = sch.split(j, [None, 16])
    k0, k1 = sch.split(k, [None, 4])
    sch.reorder(i0, j0, k0, i1, k1, j1)
    sch.vectorize(j1)
    sch.unroll(k1)
    sch.parallel(i0)


def test_the_computation_of_a_matmul():
    [row] = rows(matmul)
    assert row.shape == (164,)
    assert np.allclose(row[:16], s(0, 128**3, 128**3, *[0] * 13))
    for first in (16, 27, 38):
        assert row[first : first + 11].tolist() == [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]
    assert row[49] == 0 and np.allclose(row[50:57], 1)


def test_the_buffers_of_a_matmul():
    [row] = rows(matmul)
    p, all_of_it = 128**3, 128 * 128 * 4
    # B: the innermost loop strides over rows, so each access is a line; it comes back when `i` steps.
    assert np.allclose(
        buffer(row, 0),
        [1, 0, 0, *s(4 * p, all_of_it, p, 1024), 1, 0, 0, *s(128 * 128, (128 * 128 + 128 + 128) * 4, 128),
         *s(4 * p / 128, all_of_it / 128, p / 128, 8), *s(128)],
    )  # fmt: skip
    # A: 16 accesses share a line; it comes back when `j` steps.
    assert np.allclose(
        buffer(row, 1),
        [1, 0, 0, *s(4 * p, all_of_it, p / 16, 1024), 1, 0, 0, *s(128, (1 + 128 + 128) * 4, 128),
         *s(4 * p / 128, all_of_it / 128, p / 16 / 128, 8), *s(1)],
    )  # fmt: skip
    # C: the same element in all iterations of `k`.
    assert np.allclose(
        buffer(row, 2),
        [0, 0, 1, *s(4 * p, all_of_it, p / 128 / 16, 1024), 1, 0, 0, *s(1, 12, 128),
         *s(4 * p / 128, all_of_it / 128, p / 128 / 16 / 128, 8), *s(0)],
    )  # fmt: skip
    assert not row[57 + 54 : 147].any()


def test_arithmetic_intensity_allocation_and_nest():
    [row] = rows(matmul)
    done = [2 * 128, 2 * 128**2, 2 * 128**3]
    intensity = [done[0] / (257 * 4), done[1] / ((128 + 128 + 128 * 128) * 4), done[2] / (3 * 128 * 128 * 4)]
    points = [done[2] * (n + 1) / 10 for n in range(10)]
    by_hand = [intensity[1] + (intensity[2] - intensity[1]) * (x - done[1]) / (done[2] - done[1]) for x in points]
    assert np.allclose(row[147:157], s(*by_hand))
    assert np.allclose(row[157:161], s(128 * 128 * 4, 128 * 128, 1, 128**3))
    assert np.allclose(row[161:164], s(128**3, 3, 0))


def test_kinds_of_loops_after_tiling():
    [row] = rows(matmul, tiled)
    for first, extent in ((16, 16), (27, 4), (38, 16)):
        assert np.allclose(row[first : first + 11], [*s(1, extent, extent), 0, 0, 0, 0, 0, 0, 0, 1])
    assert np.allclose(row[161:164], s(128**3, 6, 0))
    # Two products and two sums for each of C, A and B.
    assert np.allclose(row[7:16], s(0, 6 * 128**3, 6 * 128**3, 0, 0, 0, 0, 0, 0))


def test_the_buffers_of_a_tiled_matmul():
    [row] = rows(matmul, tiled)
    p = 128**3
    by_name = {int(np.argmax(buffer(row, n)[:3])): buffer(row, n) for n in range(3)}
    c = by_name[2]  # read and written
    # C[i0 * 8 + i1, j0 * 16 + j1] stays while k1 steps: 16 iterations later, and 16 + 1 + 16 elements.
    assert np.allclose(c[10:13], s(16, (16 + 1 + 16) * 4, 4))
    assert np.allclose(c[17], math.log2(2))
    assert np.allclose(c[5], math.log2(p / 16 + 1))


def test_index_arithmetic_counts_in_loads_alone():
    def split(sch):
        i, _, _ = sch.get_loops(sch.get_block("C"))
        sch.split(i, [None, 8])

    [row] = rows(matmul, split)
    # i0 * 8 + i1 occurs in the loads of C and A; that of the store does not count.
    assert np.allclose(row[7:16], s(0, 2 * 128**3, 2 * 128**3, 0, 0, 0, 0, 0, 0))


def test_auto_unroll_of_the_nearest_loop():
    def annotate(sch):
        i, j, _ = sch.get_loops(sch.get_block("C"))
        sch.annotate(i, "pragma_auto_unroll_max_step", 16)
        sch.annotate(j, "pragma_auto_unroll_max_step", 64)

    assert np.isclose(rows(matmul, annotate)[0, 163], math.log2(65))


def test_a_buffer_within_loops_shrinks():
    def local_sums(sch):
        block = sch.get_block("C")
        copy = sch.cache_write(block, 0, "global")
        i, j, k = sch.get_loops(block)
        i0, i1 = sch.split(i, [None, 8])
        j0, j1 = sch.split(j, [None, 16])
        sch.reorder(i0, j0, k, i1, j1)
        sch.reverse_compute_at(copy, j0)

    update, copy = rows(matmul, local_sums)
    assert np.allclose(update[157:161], s(8 * 16 * 4, 8 * 16 * 128, 128, 128**3 / 128))
    assert np.allclose(copy[157:161], s(128 * 128 * 4, 128 * 128, 1, 128 * 128))
    sums = next(buffer(copy, n) for n in range(2) if buffer(copy, n)[0])
    # Each step of j0 uses the same memory again, after the 8 * 16 elements of both buffers.
    assert sums[7:10].tolist() == [1, 0, 0]
    assert np.allclose(sums[10:13], s(8 * 16, 2 * 16 * 8 * 4, 8))


@T.prim_func
def twice(A: T.Buffer((64, 32), "float32"), B: T.Buffer((64, 32), "float32"), C: T.Buffer((64, 32), "float32")):
    for i in range(64):
        for j in range(32):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * 2.0
        for k in range(32):
            with T.block("C"):
                vi, vk = T.axis.remap("SS", [i, k])
                C[vi, vk] = B[vi, vk] + 1.0


def test_reuse_by_the_next_store():
    _, second = rows(twice)
    read = next(buffer(second, n) for n in range(2) if buffer(second, n)[0])
    # Under one step of `i` both touch the row: distance 64 * 32 elements / 64 iterations, the bytes of both buffers.
    assert read[7:10].tolist() == [0, 1, 0]
    assert np.allclose(read[10:13], s(32, 2 * 32 * 4, 1))


def test_rows_come_in_order_and_literals_give_none():
    @T.prim_func
    def program(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), C: T.Buffer((8,), "int32")):
        for i in range(8):
            A[i] = 0.0
        for i in range(8):
            C[i] = i
            B[i] = A[i]

    found = rows(program)
    assert len(found) == 2
    assert np.allclose(found[:, 157], s(32, 32))
    assert np.count_nonzero(found[0, 57:147].reshape(5, 18)[:, 1]) == 1  # C is only written


def test_what_never_runs_is_zero():
    @T.prim_func
    def nothing(A: T.Buffer((8,), "float32"), B: T.Buffer((8, 0), "float32")):
        for i, j in T.grid(8, 0):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi] + 1.0

    [row] = rows(nothing)
    assert row.shape == (164,) and not row.any()
    assert rows(nothing, extract_workload=True).shape == (1, 172)


def test_symbolic_extents_count_as_one_iteration():
    @T.prim_func
    def program(a: T.handle, b: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n, 16), "float32")
        B = T.match_buffer(b, (n, 16), "float32")
        for i, j in T.grid(n, 16):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + 1.0

    [row] = rows(program)
    assert np.allclose(row[161:163], s(16, 2))
    assert np.allclose(buffer(row, 0)[3:7], s(64, 64, 1, 1))


def test_gathers_touch_all_that_they_may():
    @T.prim_func
    def gather(A: T.Buffer((100,), "float32"), I: T.Buffer((8,), "int32"), B: T.Buffer((8,), "float32")):
        for i in range(8):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                B[vi] = A[I[vi]]

    [row] = rows(gather)
    assert any(np.isclose(buffer(row, n)[4], math.log2(401)) for n in range(3))
    assert np.isfinite(row).all()


def test_programs_without_loops_and_selects():
    @T.prim_func
    def scalar(A: T.Buffer((1,), "float32"), B: T.Buffer((1,), "float32")):
        B[0] = T.Select(A[0] > 1.0, A[0], T.exp(A[0]))

    [row] = rows(scalar)
    assert np.allclose(buffer(row, 0)[3:7], s(4, 1, 1, 1))
    assert not row[147:157].any()
    assert row[15] == 1 and row[4] == 1 and row[5] == 1


def test_fused_loops_reach_all_rows():
    def fuse(sch):
        i, j, _ = sch.get_loops(sch.get_block("C"))
        sch.fuse(i, j)

    plain, fused = rows(matmul)[0], rows(matmul, fuse)[0]
    for n in range(3):
        assert np.isclose(buffer(plain, n)[4], buffer(fused, n)[4])


def test_workload_flags_come_from_the_names_of_the_program():
    @T.prim_func
    def program(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        for i in range(8):
            with T.block("T_Matmul_NN"):
                vi = T.axis.spatial(8, i)
                B[vi] = A[vi]

    assert rows(program, extract_workload=True)[0, 164:].tolist() == [0, 0, 0, 0, 1, 0, 0, 0]


def test_features_of_a_view_are_those_of_its_source():
    @T.prim_func
    def plain(A: T.Buffer((64, 64), "float32"), B: T.Buffer((64, 64), "float32")):
        for i, j in T.grid(64, 64):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + 1.0

    @T.prim_func
    def views(A: T.Buffer((64, 64), "float32"), B: T.Buffer((64, 64), "float32")):
        for i, j in T.grid(64, 64):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads(A[vi, vj])
                T.writes(B[vi, vj])
                V = T.match_buffer(B[vi, vj], (), "float32")
                V[()] = A[vi, vj] + 1.0

    assert np.allclose(rows(plain), rows(views))


def test_the_words_and_the_random_extractor():
    assert isinstance(FeatureExtractor.create("per-store-feature"), PerStoreFeature)
    first = RandomFeatureExtractor(feature_size=7, max_block_num=3, seed=1).extract_from(None, [0, 0, 0, 0])
    again = RandomFeatureExtractor(feature_size=7, max_block_num=3, seed=1).extract_from(None, [0, 0, 0, 0])
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert {f.shape[1] for f in first} == {7} and all(1 <= f.shape[0] <= 3 for f in first)


@pytest.mark.parametrize("buffers", [1, 2, 7])
def test_fewer_or_more_buffers(buffers):
    [row] = rows(matmul, buffers_per_store=buffers)
    assert row.shape == (74 + 18 * buffers,)
    assert np.allclose(row[-3:], s(128**3, 3, 0))


@T.prim_func
def dense(A: T.Buffer((16, 32), "uint8"), B: T.Buffer((2, 8, 16, 4), "int8"), C: T.Buffer((16, 2, 16), "int32")):
    for i, jo, ji, ko, ki in T.grid(16, 2, 16, 8, 4):
        with T.block("C"):
            vi, vjo, vji, vko, vki = T.axis.remap("SSSRR", [i, jo, ji, ko, ki])
            with T.init():
                C[vi, vjo, vji] = 0
            C[vi, vjo, vji] = C[vi, vjo, vji] + T.cast(A[vi, vko * 4 + vki], "int32") * T.cast(
                B[vjo, vko, vji, vki], "int32"
            )


def test_a_store_of_an_instruction_counts_its_products_and_sums():
    def tensorized(sch):
        block = sch.get_block("C")
        i, jo, ji, ko, ki = sch.get_loops(block)
        sch.reorder(i, jo, ko, ji, ki)
        sch.decompose_reduction(block, i)
        sch.tensorize(ji, "dot_16x4_vnni")

    [row] = rows(dense, tensorized)
    times = 16 * 2 * 8
    assert np.allclose(row[7:16], s(0, 64 * times, 64 * times, *[0] * 6))
    used = {round(2 ** buffer(row, n)[4] - 1): buffer(row, n) for n in range(3)}
    assert sorted(used) == [16 * 32, 2 * 8 * 16 * 4, 16 * 2 * 16 * 4]
    assert np.allclose(used[1024][3], s(64 * times))  # bytes of B: 64 for each instruction
    assert np.allclose(used[512][3], s(4 * times))
    assert used[2048][:3].tolist() == [0, 0, 1]


@T.prim_func
def tiles(A: T.Buffer((32, 128), "int8"), B: T.Buffer((32, 32, 4), "int8"), C: T.Buffer((32, 32), "int32")):
    for i, j, k in T.grid(32, 32, 128):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            C[vi, vj] = C[vi, vj] + T.cast(A[vi, vk], "int32") * T.cast(B[vk // 4, vj, vk % 4], "int32")


def test_a_block_of_calls_is_a_row_of_the_regions_that_it_declares():
    def tensorized(sch):
        i, j, k = sch.get_loops(sch.get_block("C"))
        i, i1 = sch.split(i, [None, 16])
        j, j1 = sch.split(j, [None, 16])
        k, k1 = sch.split(k, [None, 64])
        sch.reorder(i, j, k, i1, j1, k1)
        sch.tensorize(i1, "amx_16x16x64_s8s8s32")

    [row] = rows(tiles, tensorized)
    assert np.allclose(row[7:16], s(0, 32 * 32 * 128, 32 * 32 * 128, *[0] * 6))
    [written] = [buffer(row, n) for n in range(3) if buffer(row, n)[:3].tolist() == [0, 0, 1]]
    assert np.allclose(written[3], s(8 * 16 * 16 * 4))
    read = [buffer(row, n) for n in range(3) if buffer(row, n)[:3].tolist() == [1, 0, 0]]
    assert np.allclose([b[3] for b in read], s(8 * 16 * 64, 8 * 16 * 64))
