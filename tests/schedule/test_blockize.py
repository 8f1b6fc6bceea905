"""blockize: a loop, or blocks next to each other, as the body of a block."""

from __future__ import annotations

import pytest

from tests.schedule.check import check_schedule, rejects
from tscript.schedule import Schedule
from tscript.script import tir as T


@T.prim_func
def row_sum(X: T.Buffer((8, 12), "float32"), Y: T.Buffer((8,), "float32")):
    for i, k in T.grid(8, 12):
        with T.block("sum"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                Y[vi] = T.float32(0)
            Y[vi] = Y[vi] + X[vi, vk]


@T.prim_func
def two(X: T.Buffer((8, 12), "float32"), Z: T.Buffer((8, 12), "float32")):
    Y = T.alloc_buffer((8, 12))
    for i, j in T.grid(8, 12):
        with T.block("dbl"):
            vi, vj = T.axis.remap("SS", [i, j])
            Y[vi, vj] = X[vi, vj] * T.float32(2)
    for i, j in T.grid(8, 12):
        with T.block("inc"):
            vi, vj = T.axis.remap("SS", [i, j])
            Z[vi, vj] = Y[vi, vj] + T.float32(1)


@T.prim_func
def matmul(A: T.Buffer((16, 8), "float32"), B: T.Buffer((8, 12), "float32"), C: T.Buffer((16, 12), "float32")):
    for i, j, k in T.grid(16, 12, 8):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


def test_a_reduction_keeps_its_init_outside():
    def steps(s: Schedule) -> None:
        _, k = s.get_loops("sum")
        _, k_1 = s.split(k, [None, 4])
        s.blockize(k_1)

    sch = check_schedule(
        row_sum,
        steps,
        """
@T.prim_func
def main(X: T.Buffer((8, 12), "float32"), Y: T.Buffer((8,), "float32")):
    for i, k_0 in T.grid(8, 3):
        with T.block("sum_o"):
            vi_o, vk_o = T.axis.remap("SR", [i, k_0])
            T.reads(X[vi_o, vk_o * 4:vk_o * 4 + 4])
            T.writes(Y[vi_o])
            with T.init():
                with T.block("sum_init"):
                    T.reads()
                    T.writes(Y[vi_o])
                    Y[vi_o] = T.float32(0.0)
            for k_1 in range(4):
                with T.block("sum"):
                    vk_i = T.axis.reduce(4, k_1)
                    T.reads(Y[vi_o], X[vi_o, vk_o * 4 + vk_i])
                    T.writes(Y[vi_o])
                    Y[vi_o] = Y[vi_o] + X[vi_o, vk_o * 4 + vk_i]
""",
    )
    assert str(sch.trace).endswith("= sch.blockize(target=l4, preserve_unit_iters=True)")


def test_a_tile_of_a_matmul():
    def steps(s: Schedule) -> None:
        i, j, k = s.get_loops("C")
        i_0, i_1 = s.split(i, [None, 4])
        j_0, j_1 = s.split(j, [None, 6])
        s.reorder(i_0, j_0, i_1, j_1, k)
        s.blockize(i_1)

    check_schedule(
        matmul,
        steps,
        """
@T.prim_func
def main(A: T.Buffer((16, 8), "float32"), B: T.Buffer((8, 12), "float32"), C: T.Buffer((16, 12), "float32")):
    for i_0, j_0 in T.grid(4, 2):
        with T.block("C_o"):
            vi_o, vj_o = T.axis.remap("SS", [i_0, j_0])
            vk_o = T.axis.reduce(1, 0)
            T.reads(A[vi_o * 4:vi_o * 4 + 4, 0:8], B[0:8, vj_o * 6:vj_o * 6 + 6])
            T.writes(C[vi_o * 4:vi_o * 4 + 4, vj_o * 6:vj_o * 6 + 6])
            with T.init():
                for i_1, j_1 in T.grid(4, 6):
                    with T.block("C_init"):
                        vi_i_init, vj_i_init = T.axis.remap("SS", [i_1, j_1])
                        T.reads()
                        T.writes(C[vi_o * 4 + vi_i_init, vj_o * 6 + vj_i_init])
                        C[vi_o * 4 + vi_i_init, vj_o * 6 + vj_i_init] = T.float32(0)
            for i_1, j_1, k in T.grid(4, 6, 8):
                with T.block("C"):
                    vi_i, vj_i, vk_i = T.axis.remap("SSR", [i_1, j_1, k])
                    T.reads(C[vi_o * 4 + vi_i, vj_o * 6 + vj_i], A[vi_o * 4 + vi_i, vk_i], B[vk_i, vj_o * 6 + vj_i])
                    T.writes(C[vi_o * 4 + vi_i, vj_o * 6 + vj_i])
                    C[vi_o * 4 + vi_i, vj_o * 6 + vj_i] = C[vi_o * 4 + vi_i, vj_o * 6 + vj_i] + (
                        A[vi_o * 4 + vi_i, vk_i] * B[vk_i, vj_o * 6 + vj_i]
                    )
""",
    )


def test_handles_the_inner_block_keeps_its_own():
    sch = Schedule(row_sum)
    block = sch.get_block("sum")
    i, k = sch.get_loops(block)
    outer = sch.blockize(k)
    assert sch.get(block).name_hint == "sum"
    assert sch.get(outer).name_hint == "sum_o"
    assert [sch.get(r) for r in sch.get_loops(outer)] == [sch.get(i)]
    assert [sch.get(r) for r in sch.get_loops(block)] == [sch.get(k)]
    assert [b is not None for b in sch.get_child_blocks(outer)] == [True]


@pytest.mark.parametrize("preserve", [True, False])
@pytest.mark.parametrize("which", [0, 1, 2])
def test_whole_programs_and_unit_parts(which: int, preserve: bool):
    def steps(s: Schedule) -> None:
        s.blockize(s.get_loops("C")[which], preserve_unit_iters=preserve)

    check_schedule(matmul, steps)


@pytest.mark.parametrize("preserve", [True, False])
def test_unit_loops(preserve: bool):
    def steps(s: Schedule) -> None:
        i, k = s.get_loops("sum")
        i_0, i_1 = s.split(i, [8, 1])
        s.reorder(i_0, k, i_1)
        s.blockize(i_1, preserve_unit_iters=preserve)

    text = check_schedule(row_sum, steps).mod.script()
    assert "vi_o, vk_o" in text or "vi_o = T.axis.spatial(8, i_0)" in text


def test_a_condition_goes_where_its_loops_are():
    def steps(s: Schedule) -> None:
        i, k = s.get_loops("sum")
        s.split(i, [3, 3])
        _, k_1 = s.split(k, [3, 4])
        s.blockize(k_1)

    text = check_schedule(row_sum, steps).mod.script()
    assert text.index("T.where(") < text.index("sum_init")


def test_a_condition_that_mixes_both_is_refused():
    def steps(s: Schedule) -> None:
        _, k = s.get_loops("sum")
        _, k_1 = s.split(k, [None, 5])
        s.blockize(k_1)

    rejects(row_sum, steps, "cannot be divided", ["sum", "k_1"])


def test_loops_and_axes_that_do_not_start_at_zero():
    @T.prim_func
    def shifted(X: T.Buffer((20,), "float32"), Y: T.Buffer((20,), "float32")):
        for i, j in T.grid(3, 4):
            with T.block("copy"):
                v = T.axis.spatial((5, 17), i * 4 + j + 5)
                Y[v] = X[v] + T.float32(1)

    sch = check_schedule(shifted, lambda s: s.blockize(s.get_loops("copy")[1]))
    assert "v_o * 4 + v_i + 5" in sch.mod.script()


def test_a_reduce_axis_that_skips_its_first_value_is_refused():
    @T.prim_func
    def skips(X: T.Buffer((20,), "float32"), Y: T.Buffer((1,), "float32")):
        for k_0, k_1 in T.grid(2, 5):
            with T.block("sum"):
                k = T.axis.reduce(20, k_0 * 5 + k_1 + 5)
                with T.init():
                    Y[0] = T.float32(0)
                Y[0] = Y[0] + X[k]

    rejects(skips, lambda s: s.blockize(s.get_loops("sum")[1]), "does not start at its first value", ["sum"])


def test_int64_and_symbolic_sizes():
    @T.prim_func
    def func(x: T.handle, y: T.handle, n: T.int64):
        X = T.match_buffer(x, (n, T.int64(16)))
        Y = T.match_buffer(y, (n, T.int64(16)))
        for i, j in T.grid(n, T.int64(16)):
            with T.block("copy"):
                vi, vj = T.axis.remap("SS", [i, j])
                Y[vi, vj] = X[vi, vj] * T.float32(3)

    def steps(s: Schedule) -> None:
        _, j = s.get_loops("copy")
        _, j_1 = s.split(j, [None, 4])
        s.blockize(j_1)

    text = check_schedule(func, steps, sizes={"n": 6}).mod.script()
    assert "vi_o = T.axis.spatial(n, i)" in text or "vi_o, vj_o = T.axis.remap" in text
    check_schedule(func, lambda s: s.blockize(s.get_loops("copy")[0]), sizes={"n": 6})


def test_an_index_that_no_split_made_is_divided_by_use():
    @T.prim_func
    def func(X: T.Buffer((8, 4), "float32"), Y: T.Buffer((16, 4), "float32")):
        for i, j in T.grid(8, 4):
            with T.block("copy"):
                vi = T.axis.spatial(15, i * 2)
                vj = T.axis.spatial(4, j)
                T.reads(X[vi // 2, vj])
                T.writes(Y[vi, vj])
                Y[vi, vj] = X[vi // 2, vj]

    check_schedule(func, lambda s: s.blockize(s.get_loops("copy")[1]))


def test_nested_blocks_and_annotations_stay():
    @T.prim_func
    def func(X: T.Buffer((8, 4), "float32"), Y: T.Buffer((8, 4), "float32")):
        for i in range(8):
            with T.block("row"):
                vi = T.axis.spatial(8, i)
                T.reads(X[vi, 0:4])
                T.writes(Y[vi, 0:4])
                T.block_attr({"note": 1})
                V = T.match_buffer(X[vi, 0:4], (4,), offset_factor=1)
                for j in range(4):
                    with T.block("element"):
                        vj = T.axis.spatial(4, j)
                        Y[vi, vj] = V[vj]

    def steps(s: Schedule) -> None:
        (i,) = s.get_loops("row")
        element = s.get_block("element")
        _, i_1 = s.split(i, [2, 4])
        s.blockize(i_1)
        s.get_loops(element)

    text = check_schedule(func, steps).mod.script()
    assert text.index("row_o") < text.index('"note"')


def test_twice():
    def steps(s: Schedule) -> None:
        i, j, k = s.get_loops("C")
        i_0, i_1, i_2 = s.split(i, [2, 2, 4])
        s.reorder(i_0, i_1, j, k, i_2)
        s.blockize(i_2)
        s.blockize(s.get_loops("C_o")[2])

    check_schedule(matmul, steps)


# -- a list of blocks -----------------------------------------------------------------------------


def _rows(s: Schedule) -> None:
    s.compute_at("dbl", s.get_loops("inc")[0])


def test_blocks_of_a_loop():
    def steps(s: Schedule) -> None:
        _rows(s)
        s.blockize([s.get_block("dbl"), s.get_block("inc")])

    sch = check_schedule(
        two,
        steps,
        """
@T.prim_func
def main(X: T.Buffer((8, 12), "float32"), Z: T.Buffer((8, 12), "float32")):
    Y = T.alloc_buffer((8, 12))
    for i in range(8):
        with T.block("outer_dbl_inc_"):
            vi_o = T.axis.spatial(8, i)
            vj_o = T.axis.spatial(1, 0)
            T.reads(X[vi_o, 0:12], Y[vi_o, 0:12])
            T.writes(Y[vi_o, 0:12], Z[vi_o, 0:12])
            for ax0 in range(12):
                with T.block("dbl"):
                    vj_i = T.axis.spatial(12, ax0)
                    T.reads(X[vi_o, vj_i])
                    T.writes(Y[vi_o, vj_i])
                    Y[vi_o, vj_i] = X[vi_o, vj_i] * T.float32(2.0)
            for j in range(12):
                with T.block("inc"):
                    vj_i = T.axis.spatial(12, j)
                    T.reads(Y[vi_o, vj_i])
                    T.writes(Z[vi_o, vj_i])
                    Z[vi_o, vj_i] = Y[vi_o, vj_i] + T.float32(1.0)
""",
    )
    assert "sch.blockize(target=[b" in str(sch.trace)


def test_the_order_of_the_list_does_not_matter_and_the_root_may_be_above():
    def steps(s: Schedule) -> None:
        s.blockize([s.get_block("inc"), s.get_block("dbl")])

    text = check_schedule(two, steps).mod.script()
    assert "outer_dbl_inc_" in text


def test_a_single_block():
    check_schedule(two, lambda s: s.blockize([s.get_block("inc")]))
    rejects(row_sum, lambda s: s.blockize([s.get_block("sum")]), "not spatial", ["sum"])


def test_a_reduction_in_the_list_keeps_its_init():
    @T.prim_func
    def func(X: T.Buffer((8, 12), "float32"), Y: T.Buffer((8,), "float32"), Z: T.Buffer((8,), "float32")):
        for i in range(8):
            for k in range(12):
                with T.block("sum"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        Y[vi] = T.float32(0)
                    Y[vi] = Y[vi] + X[vi, vk]
            with T.block("half"):
                vi = T.axis.spatial(8, i)
                Z[vi] = Y[vi] * T.float32(0.5)

    check_schedule(func, lambda s: s.blockize([s.get_block("sum"), s.get_block("half")]))


@pytest.mark.parametrize(
    ("names", "reason"),
    [([], "no block is given"), (["dbl", "dbl"], "given twice"), (["root"], "root")],
)
def test_lists_that_are_none(names: list[str], reason: str):
    rejects(two, lambda s: s.blockize([s.get_block(n) for n in names]), reason)


def test_blocks_apart_are_refused():
    @T.prim_func
    def three(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
        for i in range(8):
            with T.block("a"):
                v = T.axis.spatial(8, i)
                A[v] = T.float32(1)
        for i in range(8):
            with T.block("b"):
                v = T.axis.spatial(8, i)
                B[v] = T.float32(2)
        for i in range(8):
            with T.block("c"):
                v = T.axis.spatial(8, i)
                C[v] = T.float32(3)

    rejects(three, lambda s: s.blockize([s.get_block("a"), s.get_block("c")]), "stands between", ["a", "c"])
    check_schedule(three, lambda s: s.blockize([s.get_block("b"), s.get_block("c")]))


def test_blocks_that_run_over_other_loops_outside_are_refused():
    @T.prim_func
    def func(X: T.Buffer((8, 8), "float32"), Y: T.Buffer((8, 8), "float32"), Z: T.Buffer((8,), "float32")):
        for i, j in T.grid(8, 8):
            with T.block("a"):
                vi, vj = T.axis.remap("SS", [i, j])
                Y[vi, vj] = X[vi, vj]
            with T.block("b"):
                vi = T.axis.spatial(8, i)
                Z[vi] = T.float32(1)

    rejects(func, lambda s: s.blockize([s.get_block("a"), s.get_block("b")]), "no axis of block `b`", ["b", "a"])


def test_a_reduction_over_loops_outside_is_refused():
    @T.prim_func
    def func(X: T.Buffer((8, 8), "float32"), Y: T.Buffer((8,), "float32"), Z: T.Buffer((8, 8), "float32")):
        for i, j in T.grid(8, 8):
            with T.block("a"):
                vi, vj = T.axis.remap("SR", [i, j])
                with T.init():
                    Y[vi] = T.float32(0)
                Y[vi] = Y[vi] + X[vi, vj]
            with T.block("b"):
                vi, vj = T.axis.remap("SS", [i, j])
                Z[vi, vj] = T.float32(1)

    rejects(func, lambda s: s.blockize([s.get_block("a"), s.get_block("b")]), "not spatial", ["a"])


def test_a_loop_with_several_blocks_and_what_is_no_target():
    def several(s: Schedule) -> None:
        _rows(s)
        s.blockize(s.get_loops("inc")[0])

    rejects(two, several, "has 2 blocks below it", ["i", "dbl", "inc"])
    rejects(two, lambda s: s.blockize(3), "takes a loop or a list", error=TypeError)
    rejects(two, lambda s: s.blockize(["dbl"]), "expected a block", error=TypeError)


def test_a_block_without_axes_that_uses_the_loop_is_known_by_all_it_touches():
    @T.prim_func
    def total(A: T.Buffer((4, 12), "float32"), C: T.Buffer((4,), "float32")):
        for i, k in T.grid(4, 12):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    C[vi] = 0.0
                C[vi] = C[vi] + A[vi, vk]

    def steps(s: Schedule):
        s.loop_partition(s.get_loops("C")[1], [5, None])
        (loop,) = s.get_loops("C_k_common")
        outer = s.get(s.blockize(loop))
        assert [str(r) for r in outer.writes] == ["C[0:4]"]

    check_schedule(total, steps)
