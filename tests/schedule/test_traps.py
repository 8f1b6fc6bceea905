"""Programs over which users of other compilers stumbled."""

from __future__ import annotations

from typing import Any

import pytest

from tests.schedule.check import check_schedule, rejects
from tscript.schedule import Schedule, ScheduleError
from tscript.script import tir as T


@T.prim_func
def batched(A: T.Buffer((4, 8, 8), "float32"), B: T.Buffer((4, 8, 8), "float32"), C: T.Buffer((4, 8, 8), "float32")):
    Y = T.alloc_buffer((4, 8, 8))
    for n, i, j, k in T.grid(4, 8, 8, 8):
        with T.block("Y"):
            vn, vi, vj, vk = T.axis.remap("SSSR", [n, i, j, k])
            with T.init():
                Y[vn, vi, vj] = 0.0
            Y[vn, vi, vj] = Y[vn, vi, vj] + A[vn, vi, vk] * B[vn, vk, vj]
    for n, i, j in T.grid(4, 8, 8):
        with T.block("C"):
            vn, vi, vj = T.axis.remap("SSS", [n, i, j])
            C[vn, vi, vj] = T.max(Y[vn, vi, vj], 0.0)


@pytest.mark.parametrize("when", ["before", "after"])
def test_the_batch_loop_may_be_parallel_before_and_after_the_init_is_taken_out(when: str) -> None:
    def steps(s: Schedule) -> None:
        n, i, j, k = s.get_loops("Y")
        j0, j1 = s.split(j, [None, 4])
        k0, k1 = s.split(k, [None, 4])
        s.reorder(n, i, j0, k0, k1, j1)
        s.reverse_compute_at("C", j0)
        if when == "before":
            s.parallel(n)
        s.decompose_reduction("Y", k0)
        if when == "after":
            s.parallel(n)

    check_schedule(batched, steps)


@T.prim_func
def all_reduced(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4,), "float32")):
    for b, k in T.grid(4, 8):
        with T.block("B"):
            vb, vk = T.axis.remap("RR", [b, k])
            B[vb] = B[vb] + A[vb, vk]


def test_an_output_axis_that_is_declared_as_reduction_is_told_so() -> None:
    rejects(
        all_reduced,
        lambda s: s.parallel(s.get_loops("B")[0]),
        r"`vb` of block `B` is declared as a reduce axis, though it is a subscript of the output(?s:.*)T.axis.spatial",
        at=["b", "B"],
    )
    rejects(all_reduced, lambda s: s.parallel(s.get_loops("B")[1]), "accumulate into the same elements(?s:.*)rfactor")


@T.prim_func
def empty(A: T.Buffer((4,), "float32")):
    for i, j, k in T.grid(0, 8, 8):
        with T.block("A"):
            vi, _vj, _vk = T.axis.remap("SSS", [i, j, k])
            A[vi] = 1.0


def test_loops_of_no_iterations_are_scheduled_like_others() -> None:
    def steps(s: Schedule) -> None:
        outer, _ = s.split(s.fuse(*s.get_loops("A")), [None, 4])
        s.parallel(outer)

    check_schedule(empty, steps)


@T.prim_func
def triangle(A: T.Buffer((4,), "float32")):
    for i in range(4):
        for j in range(i + 1):
            with T.block("A"):
                _vi, vj = T.axis.remap("SS", [i, j])
                A[vj] = 1.0


def test_loops_of_which_one_depends_on_the_other_are_not_fused() -> None:
    rejects(triangle, lambda s: s.fuse(*s.get_loops("A")), "depends on loop `i`", at=["j", "i"])


@T.prim_func
def counted(A: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.block("count"):
            vi = T.axis.spatial(4, i)
            A[vi] = A[vi] + 1.0
    for i in range(4):
        with T.block("count"):
            vi = T.axis.spatial(4, i)
            A[vi] = A[vi] + 1.0


def test_a_name_that_several_blocks_have_finds_none_and_all_are_shown() -> None:
    with pytest.raises(ScheduleError, match="2 blocks of main are called 'count'") as caught:
        Schedule(counted).get_block("count")
    assert len(caught.value.at) == 2
    assert str(caught.value).count("^^^") >= 2


@T.prim_func
def shifted(X: T.Buffer((6,), "float32"), Y: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("Y"):
            vi = T.axis.spatial(8, i)
            Y[vi] = T.if_then_else(1 <= vi and vi < 7, X[vi - 1], T.float32(0))


def test_a_copy_of_what_a_guarded_access_declares_stays_inside_the_buffer() -> None:
    def steps(s: Schedule) -> None:
        s.loop_partition(s.get_loops("Y")[0], [3, None])
        s.cache_read("Y_i0", 0, "global")

    check_schedule(shifted, steps)


def test_a_block_without_axes_stays_in_the_loops_it_uses() -> None:
    def steps(s: Schedule) -> None:
        s.loop_partition(s.get_loops("Y")[2], [3, None])
        s.reverse_compute_at("Y_j_common", s.get_loops("C")[0])

    @T.prim_func
    def pair(A: T.Buffer((4, 4, 8), "float32"), C: T.Buffer((4, 4, 8), "float32")):
        B = T.alloc_buffer((4, 4, 8))
        for n, i, j in T.grid(4, 4, 8):
            with T.block("C"):
                v0, v1, v2 = T.axis.remap("SSS", [n, i, j])
                B[v0, v1, v2] = A[v0, v1, v2] + 1.0
        for n, i, j in T.grid(4, 4, 8):
            with T.block("Y"):
                v0, v1, v2 = T.axis.remap("SSS", [n, i, j])
                C[v0, v1, v2] = B[v0, v1, v2] * 2.0

    rejects(pair, steps, "has no axes and uses loop `n` directly", at=["Y_j_common", "n"])


def test_a_sum_that_goes_on_in_later_runs_of_its_scope_is_not_cached_there() -> None:
    @T.prim_func
    def matvec(A: T.Buffer((4, 3), "float32"), x: T.Buffer((3,), "float32"), y: T.Buffer((4,), "float32")):
        for k, i in T.grid(3, 4):
            with T.block("y"):
                vk, vi = T.axis.remap("RS", [k, i])
                with T.init():
                    y[vi] = 0.0
                y[vi] = y[vi] + A[vi, vk] * x[vk]

    def steps(s: Schedule) -> None:
        s.loop_partition(s.get_loops("y")[1], [1, None])
        s.cache_write("y_i0", 0, "global")

    rejects(matvec, steps, "goes on accumulating into `y`", at=["y_i0", "y_i0_partition"])


@pytest.mark.parametrize("cache", ["cache_read", "cache_write"])
def test_a_copy_of_what_is_declared_beyond_the_buffer_is_empty(cache: str) -> None:
    @T.prim_func
    def rows(X: T.Buffer((9,), "float32"), Y: T.Buffer((9,), "float32")):
        for i in range(9):
            with T.block("Y"):
                v = T.axis.spatial(9, i)
                Y[v] = X[v] * 2.0

    def steps(s: Schedule) -> None:
        outer, _ = s.split(s.get_loops("Y")[0], [8, 4])
        s.loop_partition(outer, [3, None])
        if cache == "cache_read":
            s.cache_read("Y_i_01_partition", 0, "global")
        getattr(s, cache)("Y_i_01", 0, "global")

    check_schedule(rows, steps)


@pytest.mark.parametrize("n", [0, 1, 2, 9, 40])
def test_a_copy_of_a_part_whose_size_may_be_negative_has_the_size_of_the_buffer(n: int) -> None:
    @T.prim_func
    def rows(x: T.handle, y: T.handle):
        n = T.int32()
        X = T.match_buffer(x, (n,))
        Y = T.match_buffer(y, (n,))
        for i in range(n):
            with T.block("Y"):
                v = T.axis.spatial(n, i)
                Y[v] = X[v] * 2.0

    def steps(s: Schedule) -> None:
        outer, _ = s.split(s.get_loops("Y")[0], [8, None])
        s.loop_partition(outer, [3, None])
        s.cache_read("Y_i_01", 0, "global")

    check_schedule(rows, steps, sizes={"n": n})


@pytest.mark.parametrize("shape", [(4, 0), (0, 4), (0, 0)])
@pytest.mark.parametrize("kind", ["parallel", "vectorize", "unroll", "threadIdx.x", "blockIdx.x"])
def test_loops_without_iterations_are_fused_split_and_run_at_once(shape: tuple[int, int], kind: str) -> None:
    m, n = shape

    @T.prim_func
    def func(X: T.Buffer((m, n), "float32"), Y: T.Buffer((m, n), "float32")):
        for i, j in T.grid(m, n):
            with T.block("Y"):
                vi, vj = T.axis.remap("SS", [i, j])
                Y[vi, vj] = X[vi, vj] * 2.0

    def steps(s: Schedule) -> None:
        _, inner = s.split(s.fuse(*s.get_loops("Y")), [None, 4])
        s.bind(inner, kind) if "Idx" in kind else getattr(s, kind)(inner)

    check_schedule(func, steps)


@T.prim_func
def three_stages(a: T.handle, d: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n,))
    D = T.match_buffer(d, (n,))
    B = T.alloc_buffer((n,))
    C = T.alloc_buffer((n,))
    for i in range(n):
        with T.block("B"):
            v = T.axis.spatial(n, i)
            B[v] = A[v] + 1.0
    for i in range(n):
        with T.block("C"):
            v = T.axis.spatial(n, i)
            C[v] = B[v] * 2.0
    for i in range(n):
        with T.block("D"):
            v = T.axis.spatial(n, i)
            D[v] = C[v] - 3.0


def test_a_producer_is_not_computed_inside_lanes_but_beside_them() -> None:
    def inside(s: Schedule) -> None:
        _, inner = s.split(s.get_loops("D")[0], [None, 8])
        s.vectorize(inner)
        s.compute_at("C", inner)

    rejects(three_stages, inside, "`i_1` is vectorized, and a nest of loops cannot be put inside its lanes", at=["i_1"])

    def beside(s: Schedule) -> None:
        outer, inner = s.split(s.get_loops("D")[0], [None, 8])
        s.vectorize(inner)
        s.compute_at("C", outer)
        s.compute_at("B", outer)

    for n in (0, 1, 8, 13):
        check_schedule(three_stages, beside, sizes={"n": n})


@T.prim_func
def reduced_backwards(A: T.Buffer((4, 6), "float32"), C: T.Buffer((4,), "float32"), D: T.Buffer((4,), "float32")):
    for i, k in T.grid(4, 6):
        with T.block("C"):
            vi = T.axis.spatial(4, i)
            vk = T.axis.reduce(6, 5 - k)
            with T.init():
                C[vi] = 0.0
            C[vi] = C[vi] + A[vi, vk]
    for i in range(4):
        with T.block("D"):
            vi = T.axis.spatial(4, i)
            D[vi] = C[vi] * 2.0


@pytest.mark.parametrize(
    "step",
    [
        lambda s: s.decompose_reduction("C", s.get_loops("C")[0]),
        lambda s: s.decompose_reduction("C", s.get_loops("C")[1]),
        lambda s: s.compute_at("C", s.get_loops("D")[0]),
        lambda s: s.rfactor(s.get_loops("C")[1], 0),
        lambda s: s.blockize(s.get_loops("C")[1]),
        lambda s: s.loop_partition(s.get_loops("C")[1], [2, None]),
        lambda s: s.pad_einsum("C", [1, 4]),
        lambda s: s.reorder(*reversed(s.get_loops("C"))),
    ],
)
def test_a_reduction_whose_init_runs_last_is_not_reordered(step: Any) -> None:
    # As written, the init of the last iteration undoes the others: an order that no step may change.
    rejects(reduced_backwards, step, "affine|neither complete|cannot be divided")
