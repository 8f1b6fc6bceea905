"""merge: nests that follow one another become one; loop_partition: one loop becomes several in sequence."""

from __future__ import annotations

import random
from itertools import product

import numpy as np
import pytest

from tests.schedule.check import check_schedule, rejects
from tests.schedule.test_split import rowsum, scale
from tscript import interp
from tscript.driver import build
from tscript.ir.function import PrimFunc
from tscript.parser import from_source
from tscript.schedule import Schedule, ScheduleError
from tscript.script import tir as T
from tscript.testing.workloads import matmul


@T.prim_func
def three(X: T.Buffer((8, 12), "int32"), Z: T.Buffer((8, 12), "int32"), W: T.Buffer((8, 12, 4), "int32")):
    Y = T.alloc_buffer((8, 12), "int32")
    for i, j in T.grid(8, 12):
        with T.block("double"):
            vi, vj = T.axis.remap("SS", [i, j])
            Y[vi, vj] = X[vi, vj] * 2
    for i, j in T.grid(8, 12):
        with T.block("more"):
            vi, vj = T.axis.remap("SS", [i, j])
            Z[vi, vj] = Y[vi, vj] + 1
    for i, j, k in T.grid(8, 12, 4):
        with T.block("wide"):
            vi, vj, vk = T.axis.remap("SSS", [i, j, k])
            W[vi, vj, vk] = Z[vi, vj] + vk


def at(level: int, *blocks: str):
    return lambda s: s.merge(*[s.get_loops(b)[level] for b in blocks])


def test_bodies_run_in_turn_in_the_last_place() -> None:
    @T.prim_func
    def expected(X: T.Buffer((8, 12), "int32"), Z: T.Buffer((8, 12), "int32"), W: T.Buffer((8, 12, 4), "int32")):
        Y = T.alloc_buffer((8, 12), "int32")
        for i_m, j_m in T.grid(8, 12):
            with T.block("double"):
                vi, vj = T.axis.remap("SS", [i_m, j_m])
                Y[vi, vj] = X[vi, vj] * 2
            with T.block("more"):
                vi, vj = T.axis.remap("SS", [i_m, j_m])
                Z[vi, vj] = Y[vi, vj] + 1
            for k in range(4):
                with T.block("wide"):
                    vi, vj, vk = T.axis.remap("SSS", [i_m, j_m, k])
                    W[vi, vj, vk] = Z[vi, vj] + vk

    sch = check_schedule(three, at(1, "double", "more", "wide"), expected)
    assert str(sch.trace).splitlines()[-1] == "  l10 = sch.merge(l2, l5, l8)"
    assert sch.trace.as_json()[0][-1] == ["Merge", ["l2", "l5", "l8"], [], ["l10"]]


def test_outer_loops_only_or_two_of_three_nests() -> None:
    check_schedule(three, at(0, "double", "more"))
    check_schedule(three, at(0, "more", "wide"))


def test_handles_of_the_blocks_and_of_loops_inside_stay() -> None:
    sch = Schedule(three)
    k = sch.get_loops("wide")[2]
    block = sch.get_block("more")
    gone = sch.get_loops("double")[0]
    new = sch.merge(*[sch.get_loops(b)[1] for b in ("double", "more", "wide")])
    assert sch.get(k).loop_var.name == "k" and sch.get(block).name_hint == "more"
    assert sch.get(new).loop_var.name == "j_m"
    with pytest.raises(ValueError, match="merged into i_m, j_m"):
        sch.get(gone)


def test_what_depends_on_other_iterations_is_not_merged() -> None:
    @T.prim_func
    def shifted(A: T.Buffer((9,), "int32"), B: T.Buffer((8,), "int32")):
        for i in range(8):
            with T.block("A"):
                v = T.axis.spatial(8, i)
                A[v] = v
        for i in range(8):
            with T.block("B"):
                v = T.axis.spatial(8, i)
                B[v] = A[v + 1]

    error = rejects(
        shifted,
        at(0, "A", "B"),
        r"`A\[i_m\]` and `A\[i_m \+ 1\]`, so they cannot run in turn: "
        r"iteration \(i_m=1\) writes A\[1\], iteration \(i_m=0\) reads it",
        ["i", "i"],
    )
    assert "an iteration of loop `i` would touch what a later one of loop `i` does" in str(error)


def test_what_was_made_in_earlier_iterations_may_be_read() -> None:
    @T.prim_func
    def lagging(A: T.Buffer((9, 8), "int32"), C: T.Buffer((8, 8), "int32")):
        B = T.alloc_buffer((9, 8), "int32")
        for i, j in T.grid(8, 8):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * 3
        for i, j in T.grid(8, 8):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi // 2, vj] + 1
        for i, j in T.grid(8, 8):
            with T.block("A"):
                vi, vj = T.axis.remap("SS", [i, j])
                A[vi, vj] = vi

    check_schedule(lagging, at(1, "B", "C"))
    check_schedule(lagging, at(0, "B", "C", "A"))

    @T.prim_func
    def columns(A: T.Buffer((8, 8), "int32"), B: T.Buffer((8, 9), "int32"), C: T.Buffer((8, 8), "int32")):
        for i, j in T.grid(8, 8):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * 3
        for i, j in T.grid(8, 8):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vj + 1] + 1

    check_schedule(columns, at(0, "B", "C"))
    rejects(
        columns,
        at(1, "B", "C"),
        r"iteration \(i_m=0, j_m=1\) writes B\[0, 1\], iteration \(i_m=0, j_m=0\) reads it",
        ["j", "j"],
    )

    @T.prim_func
    def overwritten(A: T.Buffer((9,), "int32"), B: T.Buffer((8,), "int32")):
        for i in range(8):
            with T.block("B"):
                v = T.axis.spatial(8, i)
                B[v] = A[v]
        for i in range(8):
            with T.block("A"):
                v = T.axis.spatial(8, i)
                A[v + 1] = v

    rejects(
        overwritten,
        at(0, "B", "A"),
        r"iteration \(i_m=1\) reads A\[1\], iteration \(i_m=0\) writes it",
        ["i", "i"],
    )


FORMS = ["{v}", "{v}", "{v} + 1", "{v} + 2", "{v} // 2", "{v} * 2", "{v} % 3", "3 - {v} // 2", "{v} + {w}", "1"]


def _two_nests(seed: int) -> tuple[PrimFunc, int, bool]:
    """Two nests in a row, how many of their loops to merge, and whether an iteration would overtake another one."""
    rng = random.Random(seed)
    n, m, depth = rng.choice([2, 4, 5]), rng.choice([1, 3, 4]), rng.choice([1, 2])
    first, second = ([rng.choice(FORMS).format(v=v, w=w) for v, w in (("i", "j"), ("j", "i"))] for _ in range(2))
    backwards = rng.random() < 0.3
    texts = [f"X[{', '.join(first)}] = A[i, j] * 3 + i", f"B[i, j] = X[{', '.join(second)}] + j"]
    source = "from tscript.script import tir as T\n@T.prim_func\n"
    source += 'def f(A: T.Buffer((16, 16), "int32"), B: T.Buffer((16, 16), "int32"), X: T.Buffer((16, 16), "int32")):\n'
    for name, text in zip("PQ", reversed(texts) if backwards else texts, strict=True):
        axes = text.replace("i", "vi").replace("j", "vj")
        source += f'    for i, j in T.grid({n}, {m}):\n        with T.block("{name}"):\n'
        source += f'            vi, vj = T.axis.remap("SS", [i, j])\n            {axes}\n'
    points = list(product(range(n), range(m)))
    elements = [[eval(f"({', '.join(t)})", {}, {"i": i, "j": j}) for i, j in points] for t in (first, second)]
    ran = list(reversed(elements)) if backwards else elements
    overtaken = any(
        p[:depth] > q[:depth] and ran[0][a] == ran[1][b] for a, p in enumerate(points) for b, q in enumerate(points)
    )
    func = from_source(source)
    assert isinstance(func, PrimFunc)
    return func, depth, overtaken


def _results(func: PrimFunc, native: bool) -> list[np.ndarray]:
    arrays = [np.random.default_rng(k).integers(-9, 9, (16, 16)).astype(np.int32) for k in range(3)]
    if native:
        build(func.with_attr("global_symbol", "main"), target="llvm")["main"](*arrays)
    else:
        interp.run(func, *arrays)
    return arrays


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_nests_are_merged_exactly_where_none_is_overtaken(first: int) -> None:
    merged = refused = 0
    for seed in range(first, first + 50):
        func, depth, overtaken = _two_nests(seed)
        sch = Schedule(func)
        try:
            sch.merge(*[sch.get_loops(b)[depth - 1] for b in "PQ"])
        except ScheduleError as error:
            refused += 1
            assert overtaken, f"{seed}: {error}"
            assert "so they cannot run in turn: iteration (" in str(error)
        else:
            merged += 1
            assert not overtaken, f"{seed}:\n{func.script()}"
            for got, expected in zip(_results(sch.mod["main"], seed % 10 == 0), _results(func, False), strict=True):
                np.testing.assert_array_equal(got, expected, err_msg=f"{seed}\n{sch.mod.script()}")
    assert merged > 5
    assert refused > 5


def test_what_stands_between_is_not_passed_by_what_it_uses() -> None:
    rejects(three, at(1, "double", "wide"), "`Y` is used by what stands between loop `i`", ["i"])


def test_what_cannot_be_merged_is_refused() -> None:
    @T.prim_func
    def uneven(A: T.Buffer((8, 4), "int32"), B: T.Buffer((8, 5), "int32")):
        for i, j in T.grid(8, 4):
            with T.block("A"):
                vi, vj = T.axis.remap("SS", [i, j])
                A[vi, vj] = 1
        for i, j in T.grid(8, 5):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = 1

    rejects(uneven, at(1, "A", "B"), "loop `j` has the extent `4`, but loop `j` has `5`", ["j", "j"])
    rejects(uneven, lambda s: s.merge(s.get_loops("A")[0], s.get_loops("B")[1]), "differ in depth", ["i", "j"])
    rejects(uneven, lambda s: s.merge(s.get_loops("A")[0]), "at least two", error=ValueError)
    rejects(uneven, lambda s: s.merge(*s.get_loops("A")), "is around the others", ["i"])
    rejects(uneven, lambda s: s.merge(*[s.get_loops("A")[0]] * 2), "more than once", ["i"])

    def noted(s: Schedule) -> None:
        s.annotate(s.get_loops("A")[0], "hint", 1)
        at(0, "A", "B")(s)

    rejects(uneven, noted, "has annotations", ["i"])


def test_a_loop_is_cut_into_parts_that_follow_one_another() -> None:
    @T.prim_func
    def twice(A: T.Buffer((64, 8), "int32"), B: T.Buffer((64, 8), "int32")):
        for i, j in T.grid(64, 8):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * 2

    @T.prim_func
    def expected(A: T.Buffer((64, 8), "int32"), B: T.Buffer((64, 8), "int32")):
        with T.block("root"):
            T.reads()
            T.writes()
            with T.block("B_i_common"):
                with T.block("B_i0_partition"):
                    for i0, j in T.grid(60, 8):
                        with T.block("B_i0"):
                            vi, vj = T.axis.remap("SS", [i0, j])
                            B[vi, vj] = A[vi, vj] * 2
                with T.block("B_i1_partition"):
                    for i1 in range(60, 64):
                        for j in range(8):
                            with T.block("B_i1"):
                                vi = T.axis.spatial((60, 64), i1)
                                vj = T.axis.spatial(8, j)
                                B[vi, vj] = A[vi, vj] * 2

    def steps(s: Schedule) -> None:
        assert [s.get(rv).loop_var.name for rv in s.loop_partition(s.get_loops("B")[0], [60])] == ["i0", "i1"]

    sch = check_schedule(twice, steps, expected)
    assert (
        str(sch.trace).splitlines()[-1]
        == "  l3, l4 = sch.loop_partition(loop=l1, factors=[60], preserve_unit_iters=True)"
    )
    assert sch.trace.as_json()[0][-1] == ["LoopPartition", ["l1", 60], [1], ["l3", "l4"]]


@pytest.mark.parametrize("factors", [[2, None, 1], [None, 3], [1, 1, 1], [2]])
@pytest.mark.parametrize("loop", [0, 1, 2])
def test_parts_of_every_loop_of_a_reduction_compute_the_same(factors: list[int | None], loop: int) -> None:
    func = matmul(8, 6, 7).func
    check_schedule(func, lambda s: s.loop_partition(s.get_loops("C")[loop], factors))


def test_the_parts_of_a_reduction_start_once() -> None:
    text = check_schedule(rowsum, lambda s: s.loop_partition(s.get_loops("sum")[1], [4, 4])).mod.script()
    assert text.count("T.init()") == 1


def test_a_loop_over_spatial_and_reduce_axes_is_cut_only_without_its_start() -> None:
    def fused(s: Schedule) -> None:
        s.loop_partition(s.fuse(*s.get_loops("sum")), [30])

    error = rejects(rowsum, fused, "counts through spatial and reduce axes of block `sum`", ["sum"])
    assert "decompose_reduction" in error.hint

    def decomposed(s: Schedule) -> None:
        loops = s.get_loops("sum")
        s.decompose_reduction("sum", loops[0])
        s.loop_partition(s.fuse(*loops), [30])

    check_schedule(rowsum, decomposed)


def test_nested_parts_of_a_sum_are_declared_all_the_way_up() -> None:
    def steps(s: Schedule) -> None:
        i, _, _ = s.get_loops("C")
        s.loop_partition(i, [3])
        s.loop_partition(s.get_loops("C_i0")[2], [2])

    check_schedule(matmul(6, 4, 5).func, steps)


def test_what_cannot_be_cut_is_refused() -> None:
    part = lambda factors: lambda s: s.loop_partition(s.get_loops("sum")[0], factors)
    rejects(rowsum, part([4, 4]), "have 8 iterations, which leaves nothing of the 8", ["i"])
    rejects(rowsum, part([9, None]), "leaves nothing", ["i"])
    rejects(rowsum, part([None, None]), "only one can be inferred", ["i"])
    rejects(rowsum, part([0, 4]), "factor 0 of loop `i` is 0", ["i"])
    rejects(scale, lambda s: s.loop_partition(s.get_loops("B")[0], [4]), "only constant bounds", ["i"])
    rejects(three, lambda s: s.loop_partition(at(1, "double", "more")(s), [4]), "more than a single block", ["j_m"])
