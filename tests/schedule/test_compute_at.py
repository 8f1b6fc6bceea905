"""compute_at and reverse_compute_at: instances moved, guards, what is refused."""

from __future__ import annotations

import pytest

from tests.schedule.check import check_schedule, rejects
from tests.schedule.test_fuse import nothing
from tscript.schedule import Schedule, ScheduleError
from tscript.script import tir as T


@T.prim_func
def two(A: T.Buffer((16, 16), "float32"), C: T.Buffer((16, 16), "float32")):
    B = T.alloc_buffer((16, 16))
    for i, j in T.grid(16, 16):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2.0
    for i, j in T.grid(16, 16):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + 1.0


@T.prim_func
def window(A: T.Buffer((18,), "float32"), C: T.Buffer((16,), "float32")):
    B = T.alloc_buffer((18,))
    for i in range(18):
        with T.block("B"):
            vi = T.axis.spatial(18, i)
            B[vi] = A[vi] * 2.0
    for i, r in T.grid(16, 3):
        with T.block("C"):
            vi, vr = T.axis.remap("SR", [i, r])
            with T.init():
                C[vi] = 0.0
            C[vi] = C[vi] + B[vi + vr]


@T.prim_func
def matmul_relu(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 8), "float32")):
    Y = T.alloc_buffer((8, 8))
    for i, j, k in T.grid(8, 8, 8):
        with T.block("Y"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                Y[vi, vj] = 0.0
            Y[vi, vj] = Y[vi, vj] + A[vi, vk] * B[vk, vj]
    for i, j in T.grid(8, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = T.max(Y[vi, vj], 0.0)


@T.prim_func
def rows(A: T.Buffer((8, 6), "float32"), S: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8, 6))
    for i, j in T.grid(8, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + 1.0
    for i, j in T.grid(8, 6):
        with T.block("S"):
            vi, vj = T.axis.remap("SR", [i, j])
            with T.init():
                S[vi] = 0.0
            S[vi] = S[vi] + B[vi, vj]


def at(sch: Schedule, block: str, loop: int, of: str, **options: object) -> None:
    sch.compute_at(sch.get_block(block), sch.get_loops(of)[loop], **options)


def reverse_at(sch: Schedule, block: str, loop: int, of: str, **options: object) -> None:
    sch.reverse_compute_at(sch.get_block(block), sch.get_loops(of)[loop], **options)


def test_a_producer_runs_over_the_row_that_its_consumer_needs() -> None:
    sch = check_schedule(two, lambda s: at(s, "B", 0, "C"))
    text = sch.mod.script()
    assert "for i in range(16):\n            for ax0 in range(16):" in text
    assert 'vi, vj = T.axis.remap("SS", [i, ax0])' in text


def test_at_the_innermost_loop_no_loops_are_left() -> None:
    sch = check_schedule(two, lambda s: at(s, "B", 1, "C"))
    assert 'for i, j in T.grid(16, 16):\n            with T.block("B"):' in sch.mod.script()


def test_unit_loops_are_kept_when_asked() -> None:
    sch = check_schedule(two, lambda s: at(s, "B", 1, "C", preserve_unit_loops=True))
    assert "for ax0, ax1 in T.grid(1, 1):" in sch.mod.script()


def test_overlapping_windows_are_computed_for_each_iteration() -> None:
    sch = check_schedule(window, lambda s: at(s, "B", 0, "C"))
    assert "for ax0 in range(3):" in sch.mod.script()
    assert "vi = T.axis.spatial(18, i + ax0)" in sch.mod.script()


@pytest.mark.parametrize("factor", [1, 3, 4, 5, 16, 20])
def test_a_tile_that_does_not_divide_is_guarded(factor: int) -> None:
    def steps(s: Schedule) -> None:
        outer, _ = s.split(s.get_loops("C")[0], [None, factor])
        s.compute_at("B", outer)

    check_schedule(window, steps)
    check_schedule(two, steps)


@pytest.mark.parametrize("factor", [1, 2, 3, 4, 8])
def test_the_consumer_of_a_reduction_follows_a_tile_of_it(factor: int) -> None:
    def steps(s: Schedule) -> None:
        _, j, k = s.get_loops("Y")
        j0, j1 = s.split(j, [None, factor])
        s.reorder(j0, k, j1)
        s.reverse_compute_at("C", j0)

    check_schedule(matmul_relu, steps)


def test_a_consumer_inside_the_reduction_is_computed_again_until_it_is_final() -> None:
    check_schedule(matmul_relu, lambda s: reverse_at(s, "C", 2, "Y"))


def test_a_reduction_may_follow_the_rows_it_sums() -> None:
    check_schedule(rows, lambda s: reverse_at(s, "S", 0, "B"))
    check_schedule(rows, lambda s: reverse_at(s, "S", 1, "B"))


def test_a_window_reduction_cannot_follow_single_elements() -> None:
    example = r"iteration \(i=1\) writes B\[1\], iteration \(i=0, ax0=2, ax1=1\) reads it"
    rejects(window, lambda s: reverse_at(s, "C", 0, "B"), f"other iterations make: {example}")


def test_misplaced_moves_are_refused_with_the_reason() -> None:
    rejects(two, lambda s: at(s, "C", 0, "B"), "used outside|not under")
    rejects(two, lambda s: at(s, "B", 0, "B"), "around")
    rejects(two, lambda s: at(s, "B", 0, "C", index=5), "no place", error=ValueError)


def test_a_vectorized_loop_takes_no_nest() -> None:
    def steps(s: Schedule) -> None:
        s.vectorize(s.get_loops("C")[1])
        s.compute_at("B", s.get_loops("C")[1])

    rejects(two, steps, "vectorized")


def test_symbolic_and_zero_extents() -> None:
    @T.prim_func
    def symbolic(a: T.handle, c: T.handle):
        n = T.int64()
        A = T.match_buffer(a, (n, 4))
        C = T.match_buffer(c, (n, 4))
        B = T.alloc_buffer((n, 4))
        for i, j in T.grid(n, 4):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * 2.0
        for i, j in T.grid(n, 4):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vj] + 1.0

    for n in (0, 1, 7):
        check_schedule(symbolic, lambda s: at(s, "B", 0, "C"), sizes={"n": n})
        check_schedule(symbolic, lambda s: reverse_at(s, "C", 0, "B"), sizes={"n": n})


@T.prim_func
def padded(A: T.Buffer((16,), "float32"), C: T.Buffer((20,), "float32")):
    B = T.alloc_buffer((16,))
    for i in range(16):
        with T.block("B"):
            v = T.axis.spatial(16, i)
            B[v] = A[v]
    for i in range(20):
        with T.block("C"):
            v = T.axis.spatial(20, i)
            C[v] = T.if_then_else(2 <= v and v < 18, B[v - 2], T.float32(7))


def test_instances_that_read_nothing_the_producer_makes_are_not_lost() -> None:
    rejects(padded, lambda s: reverse_at(s, "C", 0, "B"), "not every value of the axis `v`", at=["C", "i"])


def test_a_consumer_follows_fused_and_overhanging_loops() -> None:
    def fused(s: Schedule) -> None:
        loop = s.fuse(*s.get_loops("B"))
        outer, _ = s.split(loop, [None, 16])
        s.reverse_compute_at("C", outer)

    check_schedule(two, fused)

    def overhanging(s: Schedule) -> None:
        i, j = s.get_loops("B")
        i0, i1 = s.split(i, [None, 6])
        j0, j1 = s.split(j, [None, 5])
        s.reorder(i0, j0, i1, j1)
        s.reverse_compute_at("C", j0)

    check_schedule(two, overhanging)


@pytest.mark.parametrize("thread", ["threadIdx.x", "blockIdx.x"])
def test_a_thread_consumes_only_what_it_makes_itself(thread: str) -> None:
    def steps(s: Schedule) -> None:
        i, _ = s.get_loops("B")
        s.bind(i, thread)
        s.reverse_compute_at("C", i)

    sch = check_schedule(two, steps, native=False)
    assert [sch.get(r).loop_var.name for r in sch.get_loops("C")] == ["i", "ax0"]


@T.prim_func
def backwards(A: T.Buffer((4, 6), "float32"), C: T.Buffer((4,), "float32")):
    B = T.alloc_buffer((4, 6))
    for i, j in T.grid(4, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, 5 - vj] = A[vi, vj]
    for i, k in T.grid(4, 6):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = 0.0
            C[vi] = C[vi] + B[vi, vk]


def test_a_reduction_does_not_follow_a_producer_that_makes_its_last_part_first():
    # The init belongs to the first part, and would undo the others.
    rejects(
        backwards,
        lambda s: s.reverse_compute_at("C", s.get_loops("B")[1]),
        r"do not begin with the first values of `vk`",
        at=["C", "j"],
    )
    check_schedule(backwards, lambda s: s.reverse_compute_at("C", s.get_loops("B")[0]))


def test_loops_of_one_iteration_do_not_hide_that_a_block_writes_all_that_is_read():
    @T.prim_func
    def two_steps(A: T.Buffer((30, 40), "float32"), C: T.Buffer((30, 40), "float32")):
        B = T.alloc_buffer((30, 40))
        for i, j in T.grid(30, 40):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + T.float32(1)
        for i, j in T.grid(30, 40):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vj] * T.float32(2)

    def steps(s):
        i, j = s.get_loops("B")
        i_0, i_1 = s.split(i, [None, 9])
        j_0, j_1, j_2 = s.split(j, [None, 3, 16])
        s.reorder(i_0, j_0, i_1, j_1, j_2)
        s.reverse_compute_at("C", j_0)

    sch = check_schedule(two_steps, steps)
    assert len(sch.get_loops("C")) > 2


@pytest.mark.parametrize("loop", [0, 1])
def test_a_reduction_over_nothing_stays_out_of_loops_without_iterations(loop: int) -> None:
    sch = Schedule(nothing)
    before = sch.mod
    with pytest.raises(ScheduleError, match="`B` reduces over what may be empty"):
        sch.reverse_compute_at("B", sch.get_loops("C")[loop])
    assert sch.mod["main"] is before["main"]
