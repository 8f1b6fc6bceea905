"""reverse_compute_inline: the producer stores the consumer's result, guards, and what is refused."""

from __future__ import annotations

from tests.schedule.check import check_schedule, rejects
from tscript.schedule import Schedule
from tscript.script import tir as T


def inline_c(s: Schedule) -> None:
    s.reverse_compute_inline("C")


def test_the_producer_stores_what_the_consumer_made_and_keeps_its_name():
    @T.prim_func
    def func(A: T.Buffer((8, 12), "float32"), C: T.Buffer((12, 8), "float32")):
        B = T.alloc_buffer((8, 12))
        for i, j in T.grid(8, 12):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(2)
        for i, j in T.grid(8, 12):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vj, vi] = B[vi, vj] + T.float32(1)

    def steps(s: Schedule) -> None:
        block = s.get_block("B")
        inline_c(s)
        assert s.get(block).name_hint == "B"

    check_schedule(
        func,
        steps,
        """
@T.prim_func
def main(A: T.Buffer((8, 12), "float32"), C: T.Buffer((12, 8), "float32")):
    for i, j in T.grid(8, 12):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(A[vi, vj])
            T.writes(C[vj, vi])
            C[vj, vi] = A[vi, vj] * T.float32(2) + T.float32(1)
""",
    )


@T.prim_func
def crop(A: T.Buffer((16,), "float32"), C: T.Buffer((6,), "float32")):
    B = T.alloc_buffer((16,))
    for i in range(16):
        with T.block("B"):
            v = T.axis.spatial(16, i)
            B[v] = A[v] * T.float32(2)
    for i in range(6):
        with T.block("C"):
            v = T.axis.spatial(6, i)
            C[v] = B[v + 3]


def test_a_consumer_of_a_part_guards_the_producer():
    check_schedule(
        crop,
        inline_c,
        """
@T.prim_func
def main(A: T.Buffer((16,), "float32"), C: T.Buffer((6,), "float32")):
    for i in range(16):
        with T.block("B"):
            v = T.axis.spatial(16, i)
            T.where(3 <= i and i < 9)
            T.reads(A[v])
            T.writes(C[v - 3])
            C[v - 3] = A[v] * T.float32(2)
""",
    )


def test_a_later_cache_write_honours_the_guard():
    def steps(s: Schedule) -> None:
        inline_c(s)
        s.cache_write("B", 0, "global")

    check_schedule(crop, steps)


def test_the_guard_and_the_condition_of_the_producer_stay():
    @T.prim_func
    def guarded(A: T.Buffer((16,), "float32"), C: T.Buffer((6,), "float32")):
        B = T.alloc_buffer((16,))
        for i_0, i_1 in T.grid(4, 4):
            with T.block("B"):
                v = T.axis.spatial(14, i_0 * 4 + i_1)
                T.where(i_0 * 4 + i_1 < 14)
                B[v] = A[v + 2] * T.float32(2)
        for i in range(6):
            with T.block("C"):
                v = T.axis.spatial(6, i)
                C[v] = B[v + 3]

    sch = check_schedule(guarded, inline_c)
    assert "i_0 * 4 + i_1 < 14" in sch.mod.script()

    @T.prim_func
    def condition(A: T.Buffer((16,), "float32"), C: T.Buffer((6,), "float32")):
        B = T.alloc_buffer((16,))
        for i in range(16):
            with T.block("B"):
                v = T.axis.spatial(16, i)
                if v >= 2:
                    B[v] = A[v] * T.float32(2)
        for i in range(6):
            with T.block("C"):
                v = T.axis.spatial(6, i)
                C[v] = B[v + 3]

    check_schedule(condition, inline_c)


def test_split_and_joined_shapes_are_followed():
    @T.prim_func
    def joined(A: T.Buffer((8, 12), "float32"), C: T.Buffer((96,), "float32")):
        B = T.alloc_buffer((8, 12))
        for i, j in T.grid(8, 12):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj]
        for i in range(96):
            with T.block("C"):
                v = T.axis.spatial(96, i)
                C[v] = B[v // 12, v % 12]

    sch = check_schedule(joined, inline_c)
    assert "C[vi * 12 + vj] = A[vi, vj]" in sch.mod.script()

    @T.prim_func
    def split(A: T.Buffer((96,), "float32"), C: T.Buffer((8, 12), "float32")):
        B = T.alloc_buffer((96,))
        for i in range(96):
            with T.block("B"):
                v = T.axis.spatial(96, i)
                B[v] = A[v]
        for i, j in T.grid(8, 12):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi * 12 + vj]

    sch = check_schedule(split, inline_c)
    assert "C[v // 12, v % 12] = A[v]" in sch.mod.script()


def test_other_inputs_unit_axes_symbolic_sizes_and_wide_indices():
    @T.prim_func
    def func(a: T.handle, e: T.handle, c: T.handle, n: T.int64):
        A = T.match_buffer(a, (n, 6), "int32")
        E = T.match_buffer(e, (n,), "int32")
        C = T.match_buffer(c, (n, 1, 6), "int32")
        B = T.alloc_buffer((n, 6), "int32")
        for i, j in T.grid(n, 6):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * 3
        for i, u, j in T.grid(n, 1, 6):
            with T.block("C"):
                vi, vu, vj = T.axis.remap("SSS", [i, u, j])
                C[vi, vu, vj] = B[vi, vj] * B[vi, vj] + E[vi]

    for n in (0, 1, 5):
        sch = check_schedule(func, inline_c, sizes={"n": n})
    assert "T.reads(A[vi, vj], E[vi])" in sch.mod.script()


def test_inside_a_common_loop():
    @T.prim_func
    def func(A: T.Buffer((8, 12), "float32"), C: T.Buffer((8, 12), "float32")):
        B = T.alloc_buffer((8, 12))
        for i in range(8):
            for j in range(12):
                with T.block("B"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    B[vi, vj] = A[vi, vj] * T.float32(2)
            for j in range(12):
                with T.block("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = B[vi, vj] + T.float32(1)

    check_schedule(func, inline_c)


def test_a_guard_that_cuts_off_the_overhang_of_a_split_is_no_hindrance():
    @T.prim_func
    def func(A: T.Buffer((10,), "float32"), C: T.Buffer((10,), "float32")):
        B = T.alloc_buffer((10,))
        for i in range(10):
            with T.block("B"):
                v = T.axis.spatial(10, i)
                B[v] = A[v]
        for i in range(10):
            with T.block("C"):
                v = T.axis.spatial(10, i)
                C[v] = B[v] + T.float32(1)

    def steps(s: Schedule) -> None:
        s.split(s.get_loops("C")[0], [None, 4])
        inline_c(s)

    sch = check_schedule(func, steps)
    assert "T.where" not in sch.mod.script()


# -- refused ------------------------------------------------------------------------------------------


def test_a_reduction_as_consumer_or_producer_is_refused():
    @T.prim_func
    def func(A: T.Buffer((8, 4), "float32"), D: T.Buffer((8,), "float32")):
        B = T.alloc_buffer((8, 4))
        C = T.alloc_buffer((8,))
        for i, j in T.grid(8, 4):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj]
        for i, j in T.grid(8, 4):
            with T.block("C"):
                vi, vj = T.axis.remap("SR", [i, j])
                with T.init():
                    C[vi] = T.float32(0)
                C[vi] = C[vi] + B[vi, vj]
        for i in range(8):
            with T.block("D"):
                v = T.axis.spatial(8, i)
                D[v] = C[v]

    rejects(func, inline_c, "has a T.init", ["C"])
    rejects(func, lambda s: s.reverse_compute_inline("D"), "not complete", ["C"])
    rejects(func, lambda s: s.reverse_compute_inline("B"), "it reads none", ["B", "root"])


def test_a_second_reader_and_several_producers_are_refused():
    @T.prim_func
    def readers(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32"), D: T.Buffer((8,), "float32")):
        B = T.alloc_buffer((8,))
        for i in range(8):
            with T.block("B"):
                v = T.axis.spatial(8, i)
                B[v] = A[v]
        for i in range(8):
            with T.block("C"):
                v = T.axis.spatial(8, i)
                C[v] = B[v]
        for i in range(8):
            with T.block("D"):
                v = T.axis.spatial(8, i)
                D[v] = B[v]

    rejects(readers, inline_c, "read by", ["D"])

    @T.prim_func
    def producers(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
        B = T.alloc_buffer((8,))
        D = T.alloc_buffer((8,))
        for i in range(8):
            with T.block("B"):
                v = T.axis.spatial(8, i)
                B[v] = A[v]
        for i in range(8):
            with T.block("D"):
                v = T.axis.spatial(8, i)
                D[v] = A[v]
        for i in range(8):
            with T.block("C"):
                v = T.axis.spatial(8, i)
                C[v] = B[v] + D[v]

    rejects(producers, inline_c, "`B`, `D`", ["C", "root"])


def test_subscripts_that_differ_or_lose_an_axis_and_partial_loops_are_refused():
    @T.prim_func
    def several(A: T.Buffer((8,), "float32"), C: T.Buffer((7,), "float32")):
        B = T.alloc_buffer((8,))
        for i in range(8):
            with T.block("B"):
                v = T.axis.spatial(8, i)
                B[v] = A[v]
        for i in range(7):
            with T.block("C"):
                v = T.axis.spatial(7, i)
                C[v] = B[v] + B[v + 1]

    rejects(several, inline_c, "at several places", ["C"])

    @T.prim_func
    def broadcast(A: T.Buffer((8,), "float32"), C: T.Buffer((8, 4), "float32")):
        B = T.alloc_buffer((8,))
        for i in range(8):
            with T.block("B"):
                v = T.axis.spatial(8, i)
                B[v] = A[v]
        for i, j in T.grid(8, 4):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi]

    rejects(broadcast, inline_c, "do not determine", ["C"])

    @T.prim_func
    def partial(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
        B = T.alloc_buffer((8,))
        for i in range(8):
            with T.block("B"):
                v = T.axis.spatial(8, i)
                B[v] = A[v]
        for i in range(4):
            with T.block("C"):
                v = T.axis.spatial(8, i)
                C[v] = B[v]

    rejects(partial, inline_c, "over the whole domain of its axis `v`", ["C"])

    @T.prim_func
    def guarded(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32"), n: T.int32):
        B = T.alloc_buffer((8,))
        for i in range(8):
            with T.block("B"):
                v = T.axis.spatial(8, i)
                B[v] = A[v]
        for i in range(8):
            with T.block("C"):
                v = T.axis.spatial(8, i)
                T.where(i < n)
                C[v] = B[v]

    rejects(guarded, inline_c, "guarded by `i < n`, do not run", ["C"])


def test_instances_that_read_nothing_are_not_lost():
    @T.prim_func
    def pad(A: T.Buffer((16,), "float32"), C: T.Buffer((20,), "float32")):
        B = T.alloc_buffer((16,))
        for i in range(16):
            with T.block("B"):
                v = T.axis.spatial(16, i)
                B[v] = A[v]
        for i in range(20):
            with T.block("C"):
                v = T.axis.spatial(20, i)
                C[v] = T.if_then_else(v >= 2 and v < 18, B[v - 2], T.float32(7))

    rejects(pad, inline_c, "outside of `B`", ["C"])
