"""transform_block_layout: new loops and axes for a block, whose body goes through the inverse map."""

from __future__ import annotations

from typing import Any

import pytest

from tests.schedule.check import check_schedule, rejects
from tscript.ir.expr import IterVar
from tscript.ir.index_map import IndexMap
from tscript.schedule import Schedule
from tscript.script import tir as T


@T.prim_func
def matmul(A: T.Buffer((8, 6), "float32"), B: T.Buffer((6, 4), "float32"), C: T.Buffer((8, 4), "float32")):
    for i, j, k in T.grid(8, 4, 6):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


def test_axes_are_fused_split_and_permuted():
    sch = check_schedule(
        matmul,
        lambda s: s.transform_block_layout("C", lambda i, j, k: [k // 2, i * 4 + j, k % 2]),
        """
@T.prim_func
def main(A: T.Buffer((8, 6), "float32"), B: T.Buffer((6, 4), "float32"), C: T.Buffer((8, 4), "float32")):
    for ax0, ax1, ax2 in T.grid(3, 32, 2):
        with T.block("C"):
            v0, v1, v2 = T.axis.remap("RSR", [ax0, ax1, ax2])
            T.reads(A[v1 // 4, v0 * 2 + v2], B[v0 * 2 + v2, v1 % 4])
            T.writes(C[v1 // 4, v1 % 4])
            with T.init():
                C[v1 // 4, v1 % 4] = T.float32(0)
            C[v1 // 4, v1 % 4] = C[v1 // 4, v1 % 4] + A[v1 // 4, v0 * 2 + v2] * B[v0 * 2 + v2, v1 % 4]
""",
    )
    assert str(sch.trace).splitlines()[-1] == (
        "  sch.transform_block_layout(block=b0, index_map=lambda i, j, k: (k // 2, i * 4 + j, k % 2,))"
    )
    kind, inputs, attrs, outputs = sch.trace.as_json()[0][-1]
    assert (kind, inputs, outputs) == ("TransformBlockLayout", ["b0"], []) and attrs[0].startswith("{")


def test_a_block_keeps_its_handle_and_loops_lose_theirs():
    sch = Schedule(matmul)
    block = sch.get_block("C")
    loops = sch.get_loops(block)
    sch.transform_block_layout(block, lambda i, j, k: [i, j, k])
    assert sch.get(block).name_hint == "C"
    for loop in loops:
        with pytest.raises(ValueError, match="counted anew"):
            sch.get(loop)


def test_axes_in_another_order_than_their_loops_and_guards():
    @T.prim_func
    def func(A: T.Buffer((8, 6), "int32"), B: T.Buffer((8, 6), "int32")):
        for j, i in T.grid(6, 8):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.where(i * 6 + j < 40)
                B[vi, vj] = A[vi, vj] + 1

    sch = check_schedule(func, lambda s: s.transform_block_layout("B", lambda i, j: [i * 6 + j]))
    assert "T.where(ax0 < 40)" in sch.mod.script()
    sch = check_schedule(func, lambda s: s.transform_block_layout("B", lambda i, j: [j // 2, i, j % 2]))
    assert "T.where(" in sch.mod.script()


def test_mirrored_unit_int64_and_symbolic_axes():
    check_schedule(matmul, lambda s: s.transform_block_layout("C", lambda i, j, k: [7 - i, 5 - k, j]))

    @T.prim_func
    def unit(A: T.Buffer((1, 8, 1), "float32"), B: T.Buffer((1,), "float32")):
        for i, k, j in T.grid(1, 8, 1):
            with T.block("B"):
                vi, vk, vj = T.axis.remap("SRR", [i, k, j])
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] = B[vi] + A[vi, vk, vj]

    sch = check_schedule(unit, lambda s: s.transform_block_layout("B", lambda i, k, j: [i, k, j]))
    kinds = [a.iter_type for a in sch.get(sch.get_block("B")).iter_vars]
    assert kinds == [IterVar.DataPar, IterVar.CommReduce, IterVar.DataPar]
    check_schedule(unit, lambda s: s.transform_block_layout("B", lambda i, k, j: [i + k + j]))

    @T.prim_func
    def wide(A: T.Buffer((T.int64(8), T.int64(6)), "float32"), B: T.Buffer((T.int64(8), T.int64(6)), "float32")):
        for i, j in T.grid(T.int64(8), T.int64(6)):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj]

    sch = check_schedule(wide, lambda s: s.transform_block_layout("B", lambda i, j: [i * 6 + j]))
    assert [a.var.dtype for a in sch.get(sch.get_block("B")).iter_vars] == ["int64"]

    @T.prim_func
    def symbolic(a: T.handle, b: T.handle, n: T.int32):
        A = T.match_buffer(a, (n, 6))
        B = T.match_buffer(b, (n, 6))
        for i, j in T.grid(n, 6):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj]

    check_schedule(symbolic, lambda s: s.transform_block_layout("B", lambda i, j: [j // 3, i, j % 3]))
    rejects(symbolic, lambda s: s.transform_block_layout("B", lambda i, j: [i // 4, i % 4, j]), "every point", ["B"])


def test_other_steps_find_their_way_in_the_new_nest():
    def decompose(s: Schedule) -> None:
        s.transform_block_layout("C", lambda i, j, k: [k // 2, 7 - i, j, k % 2])
        s.decompose_reduction("C", s.get_loops("C")[0])

    def factor(s: Schedule) -> None:
        s.transform_block_layout("C", lambda i, j, k: [5 - k, i, j])
        s.rfactor(s.get_loops("C")[0], 0)

    def copies(s: Schedule) -> None:
        s.transform_block_layout("C", lambda i, j, k: [i // 2, i % 2, j, 5 - k])
        s.reindex("C", ("read", 0))
        s.reindex("C", ("write", 0))

    for steps in (decompose, factor, copies):
        check_schedule(matmul, steps)


def test_nested_blocks_follow():
    @T.prim_func
    def func(A: T.Buffer((8, 4), "float32"), B: T.Buffer((8, 4), "float32")):
        for i in range(8):
            with T.block("outer"):
                vi = T.axis.spatial(8, i)
                T.reads(A[vi, 0:4])
                T.writes(B[vi, 0:4])
                for j in range(4):
                    with T.block("inner"):
                        vj = T.axis.spatial(4, j)
                        B[vi, vj] = A[vi, vj] * T.Cast("float32", vi)

    def steps(s: Schedule) -> None:
        inner = s.get_block("inner")
        s.transform_block_layout("outer", lambda i: [i // 2, i % 2])
        s.transform_block_layout(inner, lambda j: [j // 2, j % 2])

    sch = check_schedule(func, steps)
    assert str(sch.get(sch.get_block("inner")).reads[0]) == "A[v0 * 2 + v1, v0_1 * 2 + v1_1]"


def test_maps_that_do_not_fit_are_refused():
    def by(f: Any) -> Any:
        return lambda s: s.transform_block_layout("C", f)

    rejects(matmul, by(lambda i, j: [i, j]), "takes 2 indices", ["C"])
    rejects(matmul, by(lambda i, j, k: [i, j, k // 4, k % 4]), "every point", ["C"])
    rejects(matmul, by(lambda i, j, k: [i, j]), "same place", ["C"])
    rejects(matmul, by(lambda i, j, k: [i, j ^ 1, k]), "inverse of the index map is not known", ["C"])
    rejects(matmul, by(lambda i, j, k: [i, j * 6 + k]), "spatial and from reduce", ["C"])
    rejects(matmul, by(lambda i, j, k: [i, IndexMap.AXIS_SEPARATOR, j, k]), "no axis separator", ["C"])
    given = IndexMap.from_func(lambda i, j, k: [i, j ^ 1, k], inverse_index_map=lambda i, j, k: [i, j ^ 1, k])
    check_schedule(matmul, by(given))


def test_nests_that_do_not_fit_are_refused():
    same = lambda *i: i

    def split(s: Schedule) -> None:
        s.split(s.get_loops("C")[0], [2, 4])
        s.transform_block_layout("C", same)

    rejects(matmul, split, "not bound to a loop of its own", ["C"])
    rejects(matmul, lambda s: s.transform_block_layout("root", same), "no loop", ["root"])

    def bound(s: Schedule) -> None:
        s.bind(s.get_loops("C")[0], "threadIdx.x")
        s.transform_block_layout("C", same)

    rejects(matmul, bound, "bound to a thread", ["i"])

    @T.prim_func
    def two(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
        for i in range(8):
            with T.block("A"):
                vi = T.axis.spatial(8, i)
                A[vi] = vi
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                B[vi] = A[vi]

    rejects(two, lambda s: s.transform_block_layout("B", lambda i: [i // 2, i % 2]), "more in its body", ["i", "B"])

    @T.prim_func
    def again(A: T.Buffer((8,), "int32")):
        for t, i in T.grid(3, 8):  # noqa: B007
            with T.block("A"):
                vi = T.axis.spatial(8, i)
                A[vi] = A[vi] + 1

    rejects(again, lambda s: s.transform_block_layout("A", lambda i: [i]), "again and again", ["t", "A"])


def test_blocks_whose_order_matters_are_refused():
    @T.prim_func
    def scan(A: T.Buffer((9,), "int32")):
        for i in range(8):
            with T.block("A"):
                vi = T.axis.spatial(8, i)
                A[vi + 1] = A[vi + 1] + A[vi]

    rejects(scan, lambda s: s.transform_block_layout("A", lambda i: [7 - i]), "order of the iterations")

    @T.prim_func
    def last(A: T.Buffer((8,), "int32"), B: T.Buffer((1,), "int32")):
        for i in range(8):
            with T.block("B"):
                vi = T.axis.opaque(8, i)
                B[0] = A[vi]

    rejects(last, lambda s: s.transform_block_layout("B", lambda i: [7 - i]), "neither spatial nor reduce", ["B"])

    @T.prim_func
    def spatial_last(A: T.Buffer((8,), "int32"), B: T.Buffer((1,), "int32")):
        for i in range(8):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                B[0] = A[vi]

    rejects(spatial_last, lambda s: s.transform_block_layout("B", lambda i: [7 - i]), "order of the iterations")

    @T.prim_func
    def guarded(A: T.Buffer((8,), "int32"), B: T.Buffer((1,), "int32")):
        for k in range(8):
            with T.block("B"):
                vk = T.axis.reduce(8, k)
                T.where(k < 6)
                with T.init():
                    B[0] = 0
                B[0] = B[0] + A[vk]

    rejects(guarded, lambda s: s.transform_block_layout("B", lambda k: [7 - k]), "skips some", ["B"])
