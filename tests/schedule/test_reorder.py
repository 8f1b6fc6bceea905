"""reorder: loops in another order, where that changes no result."""

from __future__ import annotations

import pytest

from tests.schedule.check import check_schedule, rejects
from tests.schedule.test_split import rowsum
from tscript.schedule import Schedule
from tscript.script import tir as T


@T.prim_func
def cube(A: T.Buffer((4, 6, 5), "int32"), B: T.Buffer((4, 6, 5), "int32")):
    for i, j, k in T.grid(4, 6, 5):
        with T.block("B"):
            vi, vj, vk = T.axis.remap("SSS", [i, j, k])
            B[vi, vj, vk] = A[vi, vj, vk] + 1


def reordered(*order: int):
    def steps(s: Schedule) -> None:
        loops = s.get_loops("B")
        s.reorder(*[loops[k] for k in order])

    return steps


def test_loops_take_the_given_order() -> None:
    @T.prim_func
    def expected(A: T.Buffer((4, 6, 5), "int32"), B: T.Buffer((4, 6, 5), "int32")):
        for k, i, j in T.grid(5, 4, 6):
            with T.block("B"):
                vi, vj, vk = T.axis.remap("SSS", [i, j, k])
                B[vi, vj, vk] = A[vi, vj, vk] + 1

    sch = check_schedule(cube, reordered(2, 0, 1), expected)
    assert str(sch.trace).splitlines()[-1] == "  sch.reorder(l3, l1, l2)"
    assert sch.trace.as_json()[0][-1] == ["Reorder", ["l3", "l1", "l2"], [], []]


def test_loops_that_are_not_given_stay_in_their_places() -> None:
    sch = check_schedule(cube, reordered(2, 0))
    assert [sch.get(rv).loop_var.name for rv in sch.get_loops("B")] == ["k", "j", "i"]


def test_none_or_one_loop_changes_nothing_and_is_recorded() -> None:
    for order in ((), (1,), (0, 1, 2)):
        sch = check_schedule(cube, reordered(*order), cube)
        assert sch.trace.insts[-1].kind.name == "Reorder"


def test_kinds_annotations_and_handles_go_along() -> None:
    def steps(s: Schedule) -> None:
        i, j, k = s.get_loops("B")
        s.unroll(k)
        s.annotate(j, "hint", 1)
        s.parallel(i)
        s.reorder(k, j, i)
        assert [s.get(rv).loop_var.name for rv in (i, j, k)] == ["i", "j", "k"]

    text = check_schedule(cube, steps).mod.script()
    assert "for k in T.unroll(5):" in text and 'annotations={"hint": 1}' in text and "for i in T.parallel(4):" in text


def test_tiles_with_guards() -> None:
    @T.prim_func
    def expected(X: T.Buffer((8, 12), "float32"), Y: T.Buffer((8,), "float32")):
        for k_0, i_0, i_1, k_1 in T.grid(3, 2, 5, 4):
            with T.block("sum"):
                vi = T.axis.spatial(8, i_0 * 5 + i_1)
                vk = T.axis.reduce(12, k_0 * 4 + k_1)
                T.where(i_0 * 5 + i_1 < 8)
                with T.init():
                    Y[vi] = T.float32(0)
                Y[vi] = Y[vi] + X[vi, vk]

    def steps(s: Schedule) -> None:
        i, k = s.get_loops("sum")
        i0, i1 = s.split(i, [2, 5])
        k0, k1 = s.split(k, [3, 4])
        s.reorder(k0, i0, i1, k1)

    check_schedule(rowsum, steps, expected)


@pytest.mark.parametrize("n", [0, 1, 5])
def test_symbolic_extents(n: int) -> None:
    @T.prim_func
    def f(a: T.handle, b: T.handle):
        n, m = T.int32(), T.int32()
        A = T.match_buffer(a, (n, m), "int32")
        B = T.match_buffer(b, (n, m), "int32")
        for i, j in T.grid(n, m):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * 2

    def steps(s: Schedule) -> None:
        i, j = s.get_loops("B")
        i0, i1 = s.split(i, [None, 4])
        j0, j1 = s.split(j, [None, 2])
        s.reorder(j0, i0, j1, i1)

    check_schedule(f, steps, sizes={"n": n})


def test_an_order_that_changes_what_is_read_is_refused() -> None:
    @T.prim_func
    def diagonal(A: T.Buffer((6, 6), "int32")):
        for i, j in T.grid(5, 5):
            with T.block("A"):
                vi, vj = T.axis.remap("SS", [i, j])
                A[vi + 1, vj] = A[vi, vj + 1] + 1

    @T.prim_func
    def downwards(A: T.Buffer((6, 6), "int32")):
        for i, j in T.grid(5, 6):
            with T.block("A"):
                vi, vj = T.axis.remap("SS", [i, j])
                A[vi + 1, vj] = A[vi, vj] + 1

    error = rejects(
        diagonal,
        lambda s: s.reorder(*reversed(s.get_loops("A"))),
        r"loop `i` cannot go inside loop `j`: block `A` writes `A\[i \+ 1, j\]` and block `A` reads `A\[i, j \+ 1\]`",
        ["i", "j", "A"],
    )
    assert "iteration (i=0, j=1) writes A[1, 1], iteration (i=1, j=0) reads it" in str(error)
    assert "keep the order" in error.hint
    check_schedule(downwards, lambda s: s.reorder(*reversed(s.get_loops("A"))))


def test_skewed_accesses_are_seen() -> None:
    @T.prim_func
    def skewed(A: T.Buffer((12,), "int32"), B: T.Buffer((6, 6), "int32")):
        for i, j in T.grid(6, 6):
            with T.block("A"):
                vi, vj = T.axis.remap("SS", [i, j])
                A[vi + vj] = A[vi + vj] * 2 + vi
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi + vj]

    rejects(skewed, lambda s: s.reorder(*reversed(s.get_loops("A"))), "loop `i` cannot go inside loop `j`")


def test_rewritten_tiles_may_be_moved() -> None:
    @T.prim_func
    def tiles(A: T.Buffer((8, 8), "int32"), C: T.Buffer((8, 8), "int32")):
        B = T.alloc_buffer((8, 8), "int32")
        for i0, j0 in T.grid(2, 2):
            for i1, j in T.grid(4, 8):
                with T.block("B"):
                    vi = T.axis.spatial(8, i0 * 4 + i1)
                    vj = T.axis.spatial(8, j)
                    B[vi, vj] = A[vi, vj] + 1
            for i1, j1 in T.grid(4, 4):
                with T.block("C"):
                    vi = T.axis.spatial(8, i0 * 4 + i1)
                    vj = T.axis.spatial(8, j0 * 4 + j1)
                    C[vi, vj] = B[vi, 7 - vj]

    check_schedule(tiles, lambda s: s.reorder(s.get_loops("B")[1], s.get_loops("B")[0]))


def test_what_cannot_be_reordered_is_refused() -> None:
    rejects(cube, reordered(0, 0), "loop `i` is given more than once", ["i"])

    @T.prim_func
    def two(A: T.Buffer((4, 4), "int32"), B: T.Buffer((4, 4), "int32")):
        for i, j in T.grid(4, 4):
            with T.block("A"):
                vi, vj = T.axis.remap("SS", [i, j])
                A[vi, vj] = 1
        for i in range(4):
            for j in range(4):
                with T.block("B"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    B[vi, vj] = 1
            for j in range(4):
                with T.block("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    B[vi, vj] = 2

    def mixed(s: Schedule) -> None:
        s.reorder(s.get_loops("A")[0], s.get_loops("B")[1])

    rejects(two, mixed, "do not lie on one chain", ["j", "i"])
    rejects(two, lambda s: s.reorder(*reversed(s.get_loops("B"))), "loop `i` has more in its body than loop `j`")

    @T.prim_func
    def triangle(A: T.Buffer((6, 6), "int32")):
        for i in range(6):
            for j in range(i + 1):
                with T.block("A"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    A[vi, vj] = 1

    rejects(triangle, lambda s: s.reorder(*reversed(s.get_loops("A"))), "loop `j` runs over .* depends on loop `i`")

    @T.prim_func
    def ordered(A: T.Buffer((6, 6), "int32")):
        for i, j in T.grid(6, 6):
            with T.block("A"):
                vi = T.axis.scan(6, i)
                vj = T.axis.spatial(6, j)
                A[vi, vj] = 1

    rejects(ordered, lambda s: s.reorder(*reversed(s.get_loops("A"))), "axis `vi` of block `A` is neither", ["A", "i"])

    @T.prim_func
    def product(A: T.Buffer((36,), "int32")):
        for i, j in T.grid(6, 6):
            with T.block("A"):
                v = T.axis.spatial(36, i * j)
                A[v] = v

    rejects(product, lambda s: s.reorder(*reversed(s.get_loops("A"))), "not bound to an affine map", ["A", "i"])
