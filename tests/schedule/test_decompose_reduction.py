"""decompose_reduction: the init in loops of its own, its guard, and where it may not be moved."""

from __future__ import annotations

from tests.schedule.check import check_schedule, rejects
from tscript.parser import from_source
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


def test_the_init_stands_before_the_loop_and_the_update_reads_its_result():
    def steps(s: Schedule) -> None:
        init = s.decompose_reduction("sum", s.get_loops("sum")[1])
        assert s.get(init).name_hint == "sum_init"

    check_schedule(
        row_sum,
        steps,
        """
@T.prim_func
def main(X: T.Buffer((8, 12), "float32"), Y: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("sum_init"):
            vi = T.axis.spatial(8, i)
            T.reads()
            T.writes(Y[vi])
            Y[vi] = T.float32(0.0)
        for k in range(12):
            with T.block("sum_update"):
                vi, vk = T.axis.remap("SR", [i, k])
                T.reads(Y[vi], X[vi, vk])
                T.writes(Y[vi])
                Y[vi] = Y[vi] + X[vi, vk]
""",
    )


def test_spatial_loops_inside_are_copied_with_their_kind_but_not_their_annotations():
    @T.prim_func
    def func(X: T.Buffer((8, 12), "float32"), Y: T.Buffer((8,), "float32")):
        for k in T.serial(12, annotations={"note": 1}):
            for i in T.parallel(8, annotations={"note": 2}):
                with T.block("sum"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    T.block_attr({"mark": 3})
                    with T.init():
                        Y[vi] = T.float32(0)
                    Y[vi] = Y[vi] + X[vi, vk]

    check_schedule(
        func,
        lambda s: s.decompose_reduction("sum", s.get_loops("sum")[0]),
        """
@T.prim_func
def main(X: T.Buffer((8, 12), "float32"), Y: T.Buffer((8,), "float32")):
    for i_init in T.parallel(8):
        with T.block("sum_init"):
            vi = T.axis.spatial(8, i_init)
            T.reads()
            T.writes(Y[vi])
            T.block_attr({"mark": 3})
            Y[vi] = T.float32(0.0)
    for k in T.serial(12, annotations={"note": 1}):
        for i in T.parallel(8, annotations={"note": 2}):
            with T.block("sum_update"):
                vi, vk = T.axis.remap("SR", [i, k])
                T.reads(Y[vi], X[vi, vk])
                T.writes(Y[vi])
                T.block_attr({"mark": 3})
                Y[vi] = Y[vi] + X[vi, vk]
""",
    )


def test_the_old_handle_is_that_of_the_update():
    sch = Schedule(row_sum)
    block = sch.get_block("sum")
    sch.decompose_reduction(block, sch.get_loops(block)[0])
    assert sch.get(block).name_hint == "sum_update"
    assert [sch.get(b).name_hint for b in sch.get_producers(block)] == ["sum_init"]


# -- guards -----------------------------------------------------------------------------------------


@T.prim_func
def guarded(X: T.Buffer((10, 7), "float32"), Y: T.Buffer((10,), "float32")):
    for i_0, k_0, i_1, k_1 in T.grid(3, 2, 4, 4):
        with T.block("sum"):
            vi = T.axis.spatial(10, i_0 * 4 + i_1)
            vk = T.axis.reduce(7, k_0 * 4 + k_1)
            T.where(i_0 * 4 + i_1 < 10 and k_0 * 4 + k_1 < 7)
            with T.init():
                Y[vi] = T.float32(0)
            Y[vi] = Y[vi] + X[vi, vk]


def test_the_init_keeps_the_guard_of_spatial_axes_and_drops_that_of_reduce_axes():
    check_schedule(
        guarded,
        lambda s: s.decompose_reduction("sum", s.get_loops("sum")[1]),
        """
@T.prim_func
def main(X: T.Buffer((10, 7), "float32"), Y: T.Buffer((10,), "float32")):
    for i_0 in range(3):
        for i_1_init in range(4):
            with T.block("sum_init"):
                vi = T.axis.spatial(10, i_0 * 4 + i_1_init)
                T.where(i_0 * 4 + i_1_init < 10)
                T.reads()
                T.writes(Y[vi])
                Y[vi] = T.float32(0.0)
        for k_0, i_1, k_1 in T.grid(2, 4, 4):
            with T.block("sum_update"):
                vi = T.axis.spatial(10, i_0 * 4 + i_1)
                vk = T.axis.reduce(7, k_0 * 4 + k_1)
                T.where(i_0 * 4 + i_1 < 10 and k_0 * 4 + k_1 < 7)
                T.reads(Y[vi], X[vi, vk])
                T.writes(Y[vi])
                Y[vi] = Y[vi] + X[vi, vk]
""",
    )


def test_guards_of_any_form_go_along():
    @T.prim_func
    def func(X: T.Buffer((10, 7), "float32"), Y: T.Buffer((10,), "float32"), n: T.int32):
        for i, k in T.grid(10, 7):
            with T.block("sum"):
                vi, vk = T.axis.remap("SR", [i, k])
                T.where((i % 3 == 0 or n > 4) and k + i <= 12 and i >= 1)
                with T.init():
                    Y[vi] = T.float32(0)
                Y[vi] = Y[vi] + X[vi, vk]

    for n in (2, 9):
        sch = check_schedule(func, lambda s: s.decompose_reduction("sum", s.get_loops("sum")[0]), sizes={"n": n})
    text = sch.mod.script()
    # Read at the first reduce iteration, `k + i <= 12` holds always; the last condition comes first.
    assert "T.where(i_init >= 1 and (i_init % 3 == 0 or n > 4))" in text


def test_a_guard_of_the_reduction_that_may_fail_at_its_start_guards_the_init_too():
    @T.prim_func
    def func(X: T.Buffer((10, 7), "float32"), Y: T.Buffer((10,), "float32"), n: T.int32):
        for i, k in T.grid(10, 7):
            with T.block("sum"):
                vi, vk = T.axis.remap("SR", [i, k])
                T.where(k + i < n)
                with T.init():
                    Y[vi] = T.float32(0)
                Y[vi] = Y[vi] + X[vi, vk]

    sch = check_schedule(func, lambda s: s.decompose_reduction("sum", s.get_loops("sum")[0]), sizes={"n": 4})
    assert "T.where(i_init < n)" in sch.mod.script()


def test_a_sum_to_one_element_whose_axis_is_split_far_beyond_it_is_reset_once():
    @T.prim_func
    def func(X: T.Buffer((1, 9), "float32"), Y: T.Buffer((1,), "float32")):
        for i_0, i_1, k in T.grid(1, 20, 9):
            with T.block("sum"):
                vi = T.axis.spatial(1, i_0 * 20 + i_1)
                vk = T.axis.reduce(9, k)
                T.where(i_0 * 20 + i_1 < 1)
                with T.init():
                    Y[vi] = T.float32(0)
                Y[vi] = Y[vi] + X[vi, vk]

    for at in range(3):
        sch = check_schedule(func, lambda s, at=at: s.decompose_reduction("sum", s.get_loops("sum")[at]))
        assert sch.mod.script().count("T.where(") == 2


# -- forms of reductions ----------------------------------------------------------------------------


def test_loops_that_spatial_and_reduce_axes_share_are_copied():
    @T.prim_func
    def func(X: T.Buffer((8, 12), "float32"), Y: T.Buffer((8,), "float32")):
        for f, k_1 in T.grid(24, 4):
            with T.block("sum"):
                vi = T.axis.spatial(8, f // 3)
                vk = T.axis.reduce(12, f % 3 * 4 + k_1)
                with T.init():
                    Y[vi] = T.float32(0)
                Y[vi] = Y[vi] + X[vi, vk]

    sch = check_schedule(func, lambda s: s.decompose_reduction("sum", s.get_loops("sum")[0]))
    assert "for f_init in range(24)" in sch.mod.script()
    rejects(func, lambda s: s.decompose_reduction("sum", s.get_loops("sum")[1]), "outside", ["f", "k_1", "sum"])


def test_several_buffers_an_init_that_reads_and_symbolic_sizes():
    @T.prim_func
    def func(x: T.handle, bias: T.handle, y: T.handle, n: T.int64, m: T.int64):
        X = T.match_buffer(x, (n, m), "int32")
        B = T.match_buffer(bias, (n,), "int32")
        Y = T.match_buffer(y, (n,), "int32")
        Z = T.alloc_buffer((n,), "int32")
        for k, i in T.grid(m, n):
            with T.block("sum"):
                vk, vi = T.axis.remap("RS", [k, i])
                with T.init():
                    Y[vi] = B[vi]
                    Z[vi] = 1
                Y[vi] = Y[vi] + X[vi, vk] * Z[vi]
                Z[vi] = Z[vi] * 2

    sch = check_schedule(func, lambda s: s.decompose_reduction("sum", s.get_loops("sum")[0]))
    assert "T.reads(B[vi])" in sch.mod.script()
    assert "T.reads(Y[vi], Z[vi], B[vi], X[vi, vk])" in sch.mod.script()


def test_a_view_used_by_the_init_is_made_anew():
    @T.prim_func
    def func(X: T.Buffer((8, 12), "float32"), Y: T.Buffer((8,), "float32")):
        for i, k in T.grid(8, 12):
            with T.block("sum"):
                vi, vk = T.axis.remap("SR", [i, k])
                T.reads(X[vi, vk])
                T.writes(Y[vi])
                V = T.match_buffer(Y[vi], (1,))
                with T.init():
                    V[0] = T.float32(0)
                V[0] = V[0] + X[vi, vk]

    sch = check_schedule(func, lambda s: s.decompose_reduction("sum", s.get_loops("sum")[0]))
    assert sch.mod.script().count("T.match_buffer(Y[vi], (1,))") == 2


# -- refused ----------------------------------------------------------------------------------------


def test_a_loop_elsewhere_a_loop_inside_the_reduction_and_a_missing_init_are_refused():
    @T.prim_func
    def func(X: T.Buffer((8, 12), "float32"), Y: T.Buffer((8,), "float32"), Z: T.Buffer((8,), "float32")):
        for i, k0, k1 in T.grid(8, 3, 4):
            with T.block("sum"):
                vi = T.axis.spatial(8, i)
                vk = T.axis.reduce(12, k0 * 4 + k1)
                with T.init():
                    Y[vi] = T.float32(0)
                Y[vi] = Y[vi] + X[vi, vk]
        for j in range(8):
            with T.block("copy"):
                vj = T.axis.spatial(8, j)
                Z[vj] = Y[vj]

    rejects(func, lambda s: s.decompose_reduction("sum", s.get_loops("copy")[0]), "none of the loops", ["j", "sum"])
    rejects(func, lambda s: s.decompose_reduction("sum", s.get_loops("sum")[2]), "repeated", ["k0", "k1", "sum"])
    rejects(func, lambda s: s.decompose_reduction("copy", s.get_loops("copy")[0]), "no T.init", ["copy"])


def test_a_loop_that_repeats_the_update_is_refused():
    @T.prim_func
    def func(X: T.Buffer((8, 12), "float32"), Y: T.Buffer((8,), "float32")):
        for i, k, _u in T.grid(8, 12, 2):
            with T.block("sum"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    Y[vi] = T.float32(0)
                Y[vi] = Y[vi] + X[vi, vk]

    rejects(func, lambda s: s.decompose_reduction("sum", s.get_loops("sum")[1]), "repeats", ["_u", "sum"])


def test_a_repeated_reduction_is_reset_each_time():
    @T.prim_func
    def func(X: T.Buffer((8, 12), "float32"), Y: T.Buffer((8,), "float32")):
        for _u, i, k in T.grid(2, 8, 12):
            with T.block("sum"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    Y[vi] = T.float32(0)
                Y[vi] = Y[vi] + X[vi, vk]

    check_schedule(func, lambda s: s.decompose_reduction("sum", s.get_loops("sum")[1]))


def test_a_reduction_under_a_condition_is_refused():
    @T.prim_func
    def func(X: T.Buffer((8, 12), "float32"), Y: T.Buffer((8,), "float32"), n: T.int32):
        for i, k in T.grid(8, 12):
            if i < n:
                with T.block("sum"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        Y[vi] = T.float32(0)
                    Y[vi] = Y[vi] + X[vi, vk]

    rejects(func, lambda s: s.decompose_reduction("sum", s.get_loops("sum")[0]), "no loop", ["i", "sum"])


def test_a_block_that_watches_the_accumulation_is_refused():
    @T.prim_func
    def func(X: T.Buffer((8, 12), "float32"), Y: T.Buffer((8,), "float32"), Z: T.Buffer((8, 12), "float32")):
        for i, k in T.grid(8, 12):
            with T.block("before"):
                vi, vk = T.axis.remap("SS", [i, k])
                Z[vi, vk] = Y[vi]
            with T.block("sum"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    Y[vi] = T.float32(0)
                Y[vi] = Y[vi] + X[vi, vk]

    rejects(func, lambda s: s.decompose_reduction("sum", s.get_loops("sum")[1]), "before it is", ["before", "sum"])


def test_a_consumer_inside_the_loop_may_stay():
    @T.prim_func
    def func(X: T.Buffer((8, 12), "float32"), Z: T.Buffer((8,), "float32")):
        Y = T.alloc_buffer((8,))
        for i in range(8):
            for k in range(12):
                with T.block("sum"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        Y[vi] = T.float32(0)
                    Y[vi] = Y[vi] + X[vi, vk]
            with T.block("copy"):
                vi = T.axis.spatial(8, i)
                Z[vi] = Y[vi]

    for at in range(2):
        check_schedule(func, lambda s, at=at: s.decompose_reduction("sum", s.get_loops("sum")[at]))


def test_a_block_that_is_no_reduction_is_refused_with_the_reason():
    @T.prim_func
    def func(X: T.Buffer((8, 12), "float32"), Y: T.Buffer((8,), "float32")):
        for i, k in T.grid(8, 12):
            with T.block("sum"):
                vi, vk = T.axis.remap("RR", [i, k])
                with T.init():
                    Y[vi] = T.float32(0)
                Y[vi] = Y[vi] + X[vi, vk]

    rejects(func, lambda s: s.decompose_reduction("sum", s.get_loops("sum")[0]), "depend on a reduce axis", ["sum"])


def test_inside_the_split_loop_of_a_consumer_init_and_update_share_the_guard():
    @T.prim_func
    def func(X: T.Buffer((101, 5), "float32"), Z: T.Buffer((101,), "float32")):
        Y = T.alloc_buffer((101,))
        for i, k in T.grid(101, 5):
            with T.block("sum"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    Y[vi] = T.float32(0)
                Y[vi] = Y[vi] + X[vi, vk]
        for i in range(101):
            with T.block("copy"):
                v = T.axis.spatial(101, i)
                Z[v] = Y[v]

    def steps(s: Schedule) -> None:
        outer, _ = s.split(s.get_loops("copy")[0], [None, 100])
        s.compute_at("sum", outer)
        s.decompose_reduction("sum", s.get_loops("sum")[-1])

    check_schedule(func, steps)


def test_fused_and_split_with_overhang_on_either_side():
    @T.prim_func
    def func(X: T.Buffer((10, 7, 3, 5), "float32"), Y: T.Buffer((10, 7), "float32")):
        for i, j, k, m in T.grid(10, 7, 3, 5):
            with T.block("sum"):
                vi, vj, vk, vm = T.axis.remap("SSRR", [i, j, k, m])
                with T.init():
                    Y[vi, vj] = T.float32(0)
                Y[vi, vj] = Y[vi, vj] + X[vi, vj, vk, vm]

    def steps(s: Schedule) -> None:
        i, j, k, m = s.get_loops("sum")
        outer, inner = s.split(s.fuse(i, j), [None, 16])
        first, second = s.split(s.fuse(k, m), [None, 4])
        s.reorder(outer, first, inner, second)
        s.decompose_reduction("sum", first)

    sch = check_schedule(func, steps)
    assert "T.where(i_j_fused_0 * 16 + i_j_fused_1_init < 70)" in sch.mod.script()


def test_a_root_that_declares_what_it_reads_declares_the_accumulator_too() -> None:
    func = from_source("""
@T.prim_func
def main(A: T.Buffer((4, 6), "int32"), C: T.Buffer((4,), "int32")):
    with T.block("root"):
        T.reads(A[0:4, 0:6])
        T.writes(C[0:4])
        for i, k in T.grid(4, 6):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    C[vi] = 0
                C[vi] = C[vi] + A[vi, vk]
""")
    for loop in (0, 1):
        check_schedule(func, lambda s, k=loop: s.decompose_reduction("C", s.get_loops("C")[k]))
    sch = Schedule(func)
    sch.decompose_reduction("C", sch.get_loops("C")[1])
    assert [str(r) for r in sch.get(sch.get_block("root")).reads] == ["C[0:4]", "A[0:4, 0:6]"]
    check_schedule(func, lambda s: s.loop_partition(s.get_loops("C")[1], [2, None]))
