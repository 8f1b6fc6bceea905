"""fuse: several loops become one."""

from __future__ import annotations

import pytest

from tests.schedule.check import check_schedule, rejects
from tests.schedule.test_split import rowsum
from tscript.equivalence import compare
from tscript.schedule import Schedule, ScheduleError
from tscript.script import tir as T


@T.prim_func
def cube(A: T.Buffer((4, 6, 5), "int32"), B: T.Buffer((4, 6, 5), "int32")):
    for i, j, k in T.grid(4, 6, 5):
        with T.block("B"):
            vi, vj, vk = T.axis.remap("SSS", [i, j, k])
            B[vi, vj, vk] = A[vi, vj, vk] + 1


def test_three_loops_become_one_with_quotients_and_remainders() -> None:
    @T.prim_func
    def expected(A: T.Buffer((4, 6, 5), "int32"), B: T.Buffer((4, 6, 5), "int32")):
        for i_j_k_fused in range(120):
            with T.block("B"):
                vi = T.axis.spatial(4, i_j_k_fused // 30)
                vj = T.axis.spatial(6, i_j_k_fused % 30 // 5)
                vk = T.axis.spatial(5, i_j_k_fused % 5)
                B[vi, vj, vk] = A[vi, vj, vk] + 1

    sch = check_schedule(cube, lambda s: s.fuse(*s.get_loops("B")), expected)
    assert str(sch.trace).splitlines()[-1] == "  l4 = sch.fuse(l1, l2, l3, preserve_unit_iters=True)"
    assert sch.trace.as_json()[0][-1] == ["Fuse", ["l1", "l2", "l3"], [1], ["l4"]]


def test_fuse_of_inner_or_outer_loops_or_a_single_one() -> None:
    for pick in ([0, 1], [1, 2], [1]):
        check_schedule(cube, lambda s, pick=pick: s.fuse(*[s.get_loops("B")[k] for k in pick]))


def test_split_then_fuse_across_kinds_of_axes() -> None:
    @T.prim_func
    def expected(X: T.Buffer((8, 12), "float32"), Y: T.Buffer((8,), "float32")):
        for i_k_0_fused, k_1 in T.grid(24, 4):
            with T.block("sum"):
                vi = T.axis.spatial(8, i_k_0_fused // 3)
                vk = T.axis.reduce(12, i_k_0_fused % 3 * 4 + k_1)
                with T.init():
                    Y[vi] = T.float32(0)
                Y[vi] = Y[vi] + X[vi, vk]

    def steps(s: Schedule) -> None:
        i, k = s.get_loops("sum")
        s.fuse(i, s.split(k, [3, 4])[0])

    check_schedule(rowsum, steps, expected)


def test_unit_loops_have_one_value() -> None:
    @T.prim_func
    def thin(A: T.Buffer((1, 6, 1), "int32")):
        for i, j, k in T.grid(1, 6, 1):
            with T.block("A"):
                vi, vj, vk = T.axis.remap("SSS", [i, j, k])
                A[vi, vj, vk] = A[vi, vj, vk] + vj

    text = check_schedule(thin, lambda s: s.fuse(*s.get_loops("A"))).mod.script()
    assert "vi = T.axis.spatial(1, 0)" in text and "vj = T.axis.spatial(6, i_j_k_fused)" in text


@pytest.mark.parametrize("shape", [(4, 0), (0, 4), (0, 0), (0, 1)])
def test_loops_without_iterations_fuse_and_run(shape: tuple[int, int]) -> None:
    n, m = shape

    @T.prim_func
    def f(A: T.Buffer((n, m), "int32")):
        for i, j in T.grid(n, m):
            with T.block("A"):
                vi, vj = T.axis.remap("SS", [i, j])
                A[vi, vj] = A[vi, vj] + 1

    def steps(s: Schedule) -> None:
        outer, inner = s.split(s.fuse(*s.get_loops("A")), [None, 4])
        s.bind(outer, "blockIdx.x")
        s.bind(inner, "threadIdx.x")

    check_schedule(f, steps)
    check_schedule(f, lambda s: s.parallel(s.fuse(*s.get_loops("A"))))


def test_symbolic_and_int64_loops() -> None:
    @T.prim_func
    def f(a: T.handle, n: T.int64):
        m = T.int64()
        A = T.match_buffer(a, (n, m), "int32")
        for i, j in T.grid(n, m):
            with T.block("A"):
                vi, vj = T.axis.remap("SS", [i, j])
                A[vi, vj] = A[vi, vj] + 1

    sch = check_schedule(f, lambda s: s.fuse(*s.get_loops("A")), sizes={"n": 3, "m": 4})
    loop = sch.get(sch.get_loops("A")[0])
    assert str(loop.extent) == "n * m" and loop.loop_var.dtype == "int64"


def test_loops_of_different_types_take_the_wider_one() -> None:
    @T.prim_func
    def f(A: T.Buffer((4, T.int64(6)), "int32")):
        for i in range(4):
            for j in range(T.int64(6)):
                with T.block("A"):
                    vi = T.axis.spatial(4, i)
                    vj = T.axis.spatial(T.int64(6), j)
                    A[vi, vj] = A[vi, vj] + 1

    sch = check_schedule(f, lambda s: s.fuse(*s.get_loops("A")))
    assert sch.get(sch.get_loops("A")[0]).loop_var.dtype == "int64"


def test_kinds_are_dropped() -> None:
    def steps(s: Schedule) -> None:
        i, j, _ = s.get_loops("B")
        s.parallel(i)
        s.fuse(i, j)

    assert "T.grid(24, 5)" in check_schedule(cube, steps).mod.script()


def test_a_range_that_depends_on_another_loop_is_refused() -> None:
    @T.prim_func
    def triangle(A: T.Buffer((6, 6), "int32")):
        for i in range(6):
            for j in range(i + 1):
                with T.block("A"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    A[vi, vj] = 1

    rejects(triangle, lambda s: s.fuse(*s.get_loops("A")), r"loop `j` runs over \[0, .*depends on loop `i`", ["j", "i"])


def test_what_cannot_be_fused_is_refused() -> None:
    def fuse(*pick: int):
        return lambda s: s.fuse(*[s.get_loops("B")[k] for k in pick])

    rejects(cube, fuse(1, 0), "loop `i` is not directly inside loop `j`", ["i", "j"])
    rejects(cube, fuse(0, 2), "loop `k` is not directly inside loop `i`", ["k", "i"])
    rejects(cube, fuse(0, 0), "is not directly inside", ["i", "i"])
    rejects(cube, fuse(), "at least one loop", error=ValueError)

    @T.prim_func
    def wide(A: T.Buffer((8, 6), "int32")):
        for i in range(8):
            with T.block("first"):
                vi = T.axis.spatial(8, i)
                A[vi, 0] = 1
            for j in range(5):
                with T.block("rest"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    A[vi, vj + 1] = 2

    rejects(wide, lambda s: s.fuse(*s.get_loops("rest")), "loop `i` has more in its body than loop `j`", ["i", "j"])

    @T.prim_func
    def big(A: T.Buffer((100000, 100000), "int8")):
        for i, j in T.grid(100000, 100000):
            with T.block("A"):
                vi, vj = T.axis.remap("SS", [i, j])
                A[vi, vj] = T.int8(1)

    rejects(big, lambda s: s.fuse(*s.get_loops("A")), "10000000000 iterations, more than int32 holds")


@T.prim_func
def plane(A: T.Buffer((64, 48), "float32"), B: T.Buffer((64, 48), "float32")):
    for i, j in T.grid(64, 48):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + T.float32(1)


def test_a_fused_loop_that_is_split_askew_keeps_showing_in_the_bindings() -> None:
    def steps(s: Schedule) -> None:
        s.split(s.fuse(*s.get_loops("B")), [None, 8, 4])

    sch = check_schedule(plane, steps)
    text = sch.mod.script()
    assert "vi = T.axis.spatial(64, (i_j_fused_0 * 32 + i_j_fused_1 * 4 + i_j_fused_2) // 48)" in text
    assert "vj = T.axis.spatial(48, (i_j_fused_0 * 32 + i_j_fused_1 * 4 + i_j_fused_2) % 48)" in text


def test_a_copy_follows_a_fused_loop_that_is_split_askew() -> None:
    def steps(s: Schedule) -> None:
        copy = s.cache_write("B", 0, "local")
        _, threads, _ = s.split(s.fuse(*s.get_loops("B")), [None, 8, 4])
        s.reverse_compute_at(copy, threads)

    sch = check_schedule(plane, steps)
    assert "for ax0 in range(4):" in sch.mod.script()


@T.prim_func
def nothing(A: T.Buffer((0, 4), "int32"), B: T.Buffer((4,), "int32")):
    C = T.alloc_buffer((0, 4), "int32")
    for i, j in T.grid(0, 4):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj] + 1
    for j, k in T.grid(4, 0):
        with T.block("B"):
            vj, vk = T.axis.remap("SR", [j, k])
            with T.init():
                B[vj] = 7
            B[vj] = B[vj] + C[vk, vj]


def test_a_reduction_over_nothing_keeps_its_init() -> None:
    sch = Schedule(nothing)
    before = sch.mod
    with pytest.raises(ScheduleError, match="`B` reduces over nothing and still writes what its init says"):
        sch.fuse(*sch.get_loops("B"))
    assert sch.mod["main"] is before["main"]
    sch.decompose_reduction("B", sch.get_loops("B")[0])
    sch.fuse(*sch.get_loops("B_update"))
    assert compare(nothing, sch.mod).equal
