"""rfactor: partial results, what combines them, which updates are known reductions, and what is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import tscript as tvm
from tests.schedule.check import Steps, check_schedule, rejects
from tscript import te
from tscript.ir.function import PrimFunc
from tscript.ir.occurrences import variables
from tscript.schedule import Schedule
from tscript.script import tir as T
from tscript.te import register_reducer


@T.prim_func
def row_sum(X: T.Buffer((8, 12), "float32"), Y: T.Buffer((8,), "float32")):
    for i, k in T.grid(8, 12):
        with T.block("sum"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                Y[vi] = T.float32(0)
            Y[vi] = Y[vi] + X[vi, vk]


def _factor(factors: list[int | None], which: int, axis: int = 0, block: str = "sum", loop: int = 1) -> Steps:
    def steps(s: Schedule) -> None:
        parts = s.split(s.get_loops(block)[loop], factors)
        rf = s.rfactor(parts[which], axis)
        assert s.get(rf).name_hint == f"{block}_rf"

    return steps


def test_the_outer_loop_of_a_split_reduction():
    check_schedule(
        row_sum,
        _factor([3, 4], 0),
        """
@T.prim_func
def main(X: T.Buffer((8, 12), "float32"), Y: T.Buffer((8,), "float32")):
    Y_rf = T.alloc_buffer((3, 8))
    for i, k_0, k_1 in T.grid(8, 3, 4):
        with T.block("sum_rf"):
            vk_0, vi, vk_1 = T.axis.remap("SSR", [k_0, i, k_1])
            T.reads(X[vi, vk_0 * 4 + vk_1])
            T.writes(Y_rf[vk_0, vi])
            with T.init():
                Y_rf[vk_0, vi] = T.float32(0.0)
            Y_rf[vk_0, vi] = Y_rf[vk_0, vi] + X[vi, vk_0 * 4 + vk_1]
    for i, k_0 in T.grid(8, 3):
        with T.block("sum"):
            vk_0, vi = T.axis.remap("RS", [k_0, i])
            T.reads(Y_rf[vk_0, vi])
            T.writes(Y[vi])
            with T.init():
                Y[vi] = T.float32(0.0)
            Y[vi] = Y[vi] + Y_rf[vk_0, vi]
""",
    )


def test_a_whole_reduction_leaves_no_reduce_axis_and_no_init():
    check_schedule(
        row_sum,
        lambda s: s.rfactor(s.get_loops("sum")[1], -1),
        """
@T.prim_func
def main(X: T.Buffer((8, 12), "float32"), Y: T.Buffer((8,), "float32")):
    Y_rf = T.alloc_buffer((8, 12))
    for i, k in T.grid(8, 12):
        with T.block("sum_rf"):
            vk, vi = T.axis.remap("SS", [k, i])
            T.reads(X[vi, vk])
            T.writes(Y_rf[vi, vk])
            Y_rf[vi, vk] = X[vi, vk]
    for i, k in T.grid(8, 12):
        with T.block("sum"):
            vk, vi = T.axis.remap("RS", [k, i])
            T.reads(Y_rf[vi, vk])
            T.writes(Y[vi])
            with T.init():
                Y[vi] = T.float32(0.0)
            Y[vi] = Y[vi] + Y_rf[vi, vk]
""",
    )


@pytest.mark.parametrize("axis", [-2, -1, 0, 1])
def test_the_new_dimension_counts_from_either_end(axis: int):
    sch = check_schedule(row_sum, _factor([3, 4], 1, axis))
    rf = sch.get(sch.get_block("sum_rf")).writes[0].buffer
    assert rf.name == "Y.rf"
    assert [int(e.value) for e in rf.shape] == ([4, 8] if axis % 2 == 0 else [8, 4])
    assert f"  b5 = sch.rfactor(loop=l4, factor_axis={axis})\n" in str(sch.trace)


def test_handles_of_the_block_and_of_the_loops_that_stay_are_those_of_the_last_stage():
    sch = Schedule(row_sum)
    block = sch.get_block("sum")
    i, k = sch.get_loops(block)
    k_0, k_1 = sch.split(k, [3, 4])
    rf = sch.rfactor(k_1, 0)
    assert sch.get(block).name_hint == "sum"
    assert [sch.get(b).name_hint for b in sch.get_producers(block)] == ["sum_rf"]
    assert [sch.get(r) for r in sch.get_loops(block)] == [sch.get(i), sch.get(k_1)]
    assert len(sch.get_loops(rf)) == 3
    with pytest.raises(ValueError, match="no longer exists"):
        sch.get(k_0)


# -- guards -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("factors", "which"), [([None, 5], 0), ([None, 5], 1), ([2, 8], 1), ([5, None], 0)])
def test_a_guard_on_the_reduction_goes_along_in_the_new_loops(factors: list[int | None], which: int):
    sch = check_schedule(row_sum, _factor(factors, which))
    assert "T.where(" in sch.mod.script()
    final = sch.get_sref(sch.get_block("sum"))
    around = {r.loop.loop_var.name for r in sch.state.loops_of(final)}
    assert {v.name for v in variables(sch.state.realize_of(final).predicate)} <= around


def test_partial_results_that_no_iteration_makes_are_not_combined():
    # Split by [5, 3], the last of the five has nothing to do.
    sch = check_schedule(row_sum, _factor([5, 3], 0))
    final = sch.state.realize_of(sch.get_sref(sch.get_block("sum")))
    assert str(final.predicate) == "k_0 < 4"


def test_the_guard_of_spatial_axes_holds_in_both_stages():
    def steps(s: Schedule) -> None:
        i, _ = s.get_loops("sum")
        s.split(i, [3, 3])
        s.rfactor(s.get_loops("sum")[2], 0)

    sch = check_schedule(row_sum, steps)
    assert sch.mod.script().count("T.where(i_0 * 3 + i_1 < 8)") == 2


def test_a_guard_that_may_skip_the_first_iteration_is_refused():
    @T.prim_func
    def func(X: T.Buffer((8, 12), "float32"), Y: T.Buffer((8,), "float32")):
        for i, k_0, k_1 in T.grid(8, 3, 4):
            with T.block("sum"):
                vi = T.axis.spatial(8, i)
                vk = T.axis.reduce(12, k_0 * 4 + k_1)
                T.where(k_0 * 4 + k_1 >= i or k_1 == 0)
                with T.init():
                    Y[vi] = T.float32(0)
                Y[vi] = Y[vi] + X[vi, vk]

    rejects(func, lambda s: s.rfactor(s.get_loops("sum")[2], 0), "partial result would have no start", ["sum"])


def test_a_reduction_that_never_takes_its_first_value_is_refused():
    @T.prim_func
    def func(X: T.Buffer((8, 12), "float32"), Y: T.Buffer((8,), "float32")):
        for i, k in T.grid(8, 11):
            with T.block("sum"):
                vi = T.axis.spatial(8, i)
                vk = T.axis.reduce(12, k + 1)
                with T.init():
                    Y[vi] = T.float32(0)
                Y[vi] = Y[vi] + X[vi, vk]

    rejects(func, lambda s: s.rfactor(s.get_loops("sum")[1], 0), "never takes its first value", ["sum"])


# -- shapes of loops --------------------------------------------------------------------------------


@T.prim_func
def window(X: T.Buffer((2, 21, 14), "float32"), Y: T.Buffer((2, 3, 2), "float32")):
    for b, i, j, p, q in T.grid(2, 3, 2, 7, 7):
        with T.block("sum"):
            vb, vi, vj, vp, vq = T.axis.remap("SSSRR", [b, i, j, p, q])
            with T.init():
                Y[vb, vi, vj] = T.float32(0)
            Y[vb, vi, vj] += X[vb, vi * 7 + vp, vj * 7 + vq]


@pytest.mark.parametrize("which", [3, 4])
def test_one_of_several_reduce_axes(which: int):
    sch = check_schedule(window, lambda s: s.rfactor(s.get_loops("sum")[which], 1))
    assert [str(a.var) for a in sch.get(sch.get_block("sum")).iter_vars] == [f"v{'pq'[which - 3]}", "vb", "vi", "vj"]


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("which", [0, 1])
def test_fused_reduce_loops_split_again(which: int, keep: bool):
    def steps(s: Schedule) -> None:
        loops = s.get_loops("sum")
        parts = s.split(s.fuse(*loops[3:]), [49, 1], preserve_unit_iters=keep)
        s.rfactor(parts[which], 0)

    sch = check_schedule(window, steps)
    rf = sch.get(sch.get_block("sum_rf"))
    assert (rf.init is None) == (which == 0 and not keep)


@pytest.mark.parametrize("which", [0, 1])
def test_axes_that_share_a_loop_with_a_factored_one_are_replaced_with_it(which: int):
    def steps(s: Schedule) -> None:
        loops = s.get_loops("sum")
        parts = s.split(s.fuse(*loops[3:]), [7, 7])
        s.rfactor(parts[which], 0)
        s.reorder(*s.get_loops("sum_rf")[::-1])

    check_schedule(window, steps)


@pytest.mark.parametrize("which", [0, 1])
def test_unevenly_split_fused_loops(which: int):
    def steps(s: Schedule) -> None:
        loops = s.get_loops("sum")
        s.rfactor(s.split(s.fuse(*loops[3:]), [None, 16])[which], -1)

    check_schedule(window, steps)


def test_the_reduction_may_be_outside_the_spatial_loops():
    def steps(s: Schedule) -> None:
        i, k = s.get_loops("sum")
        s.reorder(k, i)
        s.rfactor(k, 0)

    check_schedule(row_sum, steps)


def test_kinds_and_annotations_of_loops_and_blocks_are_in_both_stages():
    @T.prim_func
    def func(X: T.Buffer((8, 12), "float32"), Y: T.Buffer((8,), "float32")):
        for i in T.parallel(8, annotations={"note": 1}):
            for k_0 in T.serial(3):
                for k_1 in T.unroll(4):
                    with T.block("sum"):
                        vi = T.axis.spatial(8, i)
                        vk = T.axis.reduce(12, k_0 * 4 + k_1)
                        T.block_attr({"mark": 3})
                        with T.init():
                            Y[vi] = T.float32(0)
                        Y[vi] = Y[vi] + X[vi, vk]

    text = check_schedule(func, lambda s: s.rfactor(s.get_loops("sum")[1], 0)).mod.script()
    assert text.count('T.parallel(8, annotations={"note": 1})') == 2
    assert text.count('T.block_attr({"mark": 3})') == 2
    assert text.count("T.unroll(4)") == 1


@T.prim_func
def before_and_after(X: T.Buffer((8, 12), "float32"), Z: T.Buffer((8,), "float32")):
    P = T.alloc_buffer((8, 12))
    Y = T.alloc_buffer((8,))
    for i, k in T.grid(8, 12):
        with T.block("P"):
            vi, vk = T.axis.remap("SS", [i, k])
            P[vi, vk] = X[vi, vk] * T.float32(2)
    for i, k in T.grid(8, 12):
        with T.block("sum"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                Y[vi] = T.float32(0)
            Y[vi] = Y[vi] + P[vi, vk]
    for i in range(8):
        with T.block("Z"):
            vi = T.axis.spatial(8, i)
            Z[vi] = Y[vi] + T.float32(1)


def test_a_consumer_in_the_same_loop_stays_with_the_block():
    def steps(s: Schedule) -> None:
        s.reverse_compute_at("Z", s.get_loops("sum")[0])
        s.rfactor(s.get_loops("sum")[1], 0)

    sch = check_schedule(before_and_after, steps)
    assert len(sch.get_loops(sch.get_block("Z"))) == 1
    assert sch.get(sch.get_loops("Z")[0]) is sch.get(sch.get_loops("sum")[0])


def test_partial_results_stay_after_a_producer_in_the_same_loop():
    def steps(s: Schedule) -> None:
        s.compute_at("P", s.get_loops("sum")[0])
        s.rfactor(s.get_loops("sum")[1], 0)

    sch = check_schedule(before_and_after, steps)
    outer = {b: sch.get(sch.get_loops(b)[0]) for b in ("P", "sum_rf", "sum")}
    assert outer["P"] is outer["sum_rf"] is outer["sum"]


def test_both_stages_can_be_scheduled_on():
    def steps(s: Schedule) -> None:
        k_0, _ = s.split(s.get_loops("sum")[1], [3, 4])
        rf = s.rfactor(k_0, 0)
        i, k_0, _ = s.get_loops(rf)
        s.reorder(k_0, i)
        s.parallel(k_0)
        s.reverse_compute_at("Z", s.get_loops("sum")[0])
        s.decompose_reduction("sum", s.get_loops("sum")[1])

    check_schedule(before_and_after, steps)


@pytest.mark.parametrize("n", [1, 3, 15, 16, 17, 40])
@pytest.mark.parametrize("which", [0, 1])
def test_symbolic_extents(n: int, which: int):
    @T.prim_func
    def func(x: T.handle, y: T.handle):
        n, m = T.int32(), T.int32()
        X = T.match_buffer(x, (m, n), "float32")
        Y = T.match_buffer(y, (m,), "float32")
        for i, k in T.grid(m, n):
            with T.block("sum"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    Y[vi] = T.float32(0)
                Y[vi] = Y[vi] + X[vi, vk]

    check_schedule(func, _factor([None, 16], which), sizes={"n": n, "m": 3})


def test_a_sum_over_nothing_stays_its_identity():
    @T.prim_func
    def func(x: T.handle, Y: T.Buffer((3,), "float32")):
        n = T.int32()
        X = T.match_buffer(x, (3, n, 4), "float32")
        for i, k, j in T.grid(3, n, 4):
            with T.block("sum"):
                vi, vk, vj = T.axis.remap("SRR", [i, k, j])
                with T.init():
                    Y[vi] = T.float32(0)
                Y[vi] = Y[vi] + X[vi, vk, vj]

    for n in (0, 2):
        sch = check_schedule(func, lambda s: s.rfactor(s.get_loops("sum")[2], 0), sizes={"n": n})
    assert "T.where(" not in sch.mod.script()


def test_int64_extents_units_and_starts_other_than_zero():
    @T.prim_func
    def func(X: T.Buffer((T.int64(2), T.int64(12)), "int32"), Y: T.Buffer((T.int64(2),), "int32")):
        for i in range(T.int64(2)):
            for u in range(T.int64(1)):
                for k in T.serial(T.int64(3), T.int64(9)):
                    with T.block("sum"):
                        vi = T.axis.spatial(T.int64(2), i)
                        vu = T.axis.reduce(T.int64(1), u)
                        vk = T.axis.reduce((T.int64(3), T.int64(9)), k)
                        with T.init():
                            Y[vi] = 0
                        Y[vi] = Y[vi] + X[vi, vk + vu]

    for which in (1, 2):
        sch = check_schedule(func, lambda s, which=which: s.rfactor(s.get_loops("sum")[which], 0))
    assert "vk - T.int64(3)" in sch.mod.script()


def test_a_sum_to_one_element():
    @T.prim_func
    def func(X: T.Buffer((12,), "float32"), Y: T.Buffer((), "float32")):
        for k in range(12):
            with T.block("sum"):
                vk = T.axis.reduce(12, k)
                with T.init():
                    Y[()] = T.float32(0)
                Y[()] = Y[()] + X[vk]

    for axis in (0, -1):
        check_schedule(func, _factor([3, 4], 0, axis, loop=0))


def test_a_reduction_inside_another_block():
    @T.prim_func
    def func(X: T.Buffer((8, 12), "float32"), Y: T.Buffer((8,), "float32")):
        for io in range(2):
            with T.block("outer"):
                vo = T.axis.spatial(2, io)
                T.reads(X[vo * 4 : vo * 4 + 4, 0:12])
                T.writes(Y[vo * 4 : vo * 4 + 4])
                for i, k in T.grid(4, 12):
                    with T.block("sum"):
                        vi, vk = T.axis.remap("SR", [i, k])
                        with T.init():
                            Y[vo * 4 + vi] = T.float32(0)
                        Y[vo * 4 + vi] = Y[vo * 4 + vi] + X[vo * 4 + vi, vk]

    sch = check_schedule(func, _factor([3, 4], 0))
    assert [b.name for b in sch.get(sch.get_block("outer")).alloc_buffers] == ["Y.rf"]


# -- reductions -------------------------------------------------------------------------------------


def _one(dtype: str, start: float, update: Callable[..., object]) -> PrimFunc:
    @T.prim_func
    def func(X: T.Buffer((4, 12), dtype), Y: T.Buffer((4,), dtype)):
        for i, k in T.grid(4, 12):
            with T.block("sum"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    Y[vi] = T.Cast(dtype, start) if dtype == "bool" else tvm.tir.const(start, dtype)
                Y[vi] = update(Y[vi], X[vi, vk])

    return func


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "int8", "int64", "uint8"])
@pytest.mark.parametrize("flip", [False, True])
@pytest.mark.parametrize("name", ["sum", "prod", "min", "max"])
def test_the_reductions_of_te_with_operands_in_either_order(name: str, dtype: str, flip: bool):
    combine = {"sum": tvm.tir.Add, "prod": tvm.tir.Mul, "min": tvm.tir.Min, "max": tvm.tir.Max}[name]
    start = {"sum": 0, "prod": 1, "min": 3, "max": 0}[name]
    func = _one(dtype, start, (lambda a, x: combine(x, a)) if flip else combine)
    exact = not (dtype == "float16" and name == "prod")
    check_schedule(func, _factor([3, 4], 0), exact=exact, native=exact)
    check_schedule(func, lambda s: s.rfactor(s.get_loops("sum")[1], 0), exact=exact, native=exact)


@pytest.mark.parametrize("dtype", ["int32", "uint8"])
@pytest.mark.parametrize(("name", "start"), [("bitwise_and", -1), ("bitwise_or", 0), ("bitwise_xor", 0)])
def test_bitwise_reductions(name: str, start: int, dtype: str):
    start = 255 if dtype == "uint8" and start < 0 else start
    check_schedule(_one(dtype, start, lambda a, x: getattr(tvm.tir, name)(x, a)), _factor([3, 4], 1))


def test_logical_reductions():
    @T.prim_func
    def func(X: T.Buffer((4, 12), "bool"), A: T.Buffer((4,), "bool"), O: T.Buffer((4,), "bool")):
        for i, k in T.grid(4, 12):
            with T.block("sum"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    A[vi] = T.bool(True)
                    O[vi] = T.bool(False)
                A[vi] = A[vi] and X[vi, vk]
                O[vi] = X[vi, vk] or O[vi]

    check_schedule(func, _factor([3, 4], 1))


def _argmax(better: Callable[..., object], pick: Callable[..., object], index_first: bool = True) -> PrimFunc:
    x = te.placeholder((4, 12), "int32", name="X")
    at = te.placeholder((4, 12), "int32", name="I")
    k = te.reduce_axis((0, 12), "k")
    i, v = (0, 1) if index_first else (1, 0)

    def combine(a: tuple[object, ...], b: tuple[object, ...]) -> tuple[object, ...]:
        index = tvm.tir.Select(better(a[v], b[v], a[i], b[i]), a[i], b[i])
        value = pick(a[v], b[v])
        return (index, value) if index_first else (value, index)

    def start(*types: str) -> tuple[object, ...]:
        found = (te.const(-1, types[i]), te.min_value(types[v]))
        return found if index_first else found[::-1]

    argmax = te.comm_reducer(combine, start, name="argmax")
    source = (lambda r: (at[r, k], x[r, k])) if index_first else (lambda r: (x[r, k], at[r, k]))
    outs = te.compute((4,), lambda r: argmax(source(r), axis=k), name="sum")
    return te.create_prim_func([x, at, *outs])


@pytest.mark.parametrize("index_first", [True, False])
@pytest.mark.parametrize(("which", "factors"), [(0, [3, 4]), (1, [3, 4]), (0, [1, 12]), (0, [12, 1])])
def test_an_argmax_that_prefers_the_smaller_index(index_first: bool, which: int, factors: list[int | None]):
    func = _argmax(
        lambda a, b, i, j: tvm.tir.any(a > b, tvm.tir.all(a == b, i < j)),
        lambda a, b: tvm.tir.Select(a > b, a, b),
        index_first,
    )
    sch = check_schedule(func, _factor(factors, which))
    assert len(sch.get(sch.get_block("sum_rf")).writes) == 2
    assert "v_sum_v0_rf: T.int32" in sch.mod.script()


def test_an_argmax_that_takes_the_first_of_the_largest():
    # The outer loop keeps the order, so even ties fall as before.
    for pick in (lambda a, b: tvm.tir.Select(a >= b, a, b), lambda a, b: tvm.tir.max(a, b)):
        check_schedule(_argmax(lambda a, b, i, j: a >= b, pick), _factor([3, 4], 0))


@T.prim_func
def argmin(X: T.Buffer((4, 12), "float16"), At: T.Buffer((4,), "int64"), Least: T.Buffer((4,), "float16")):
    for i, k in T.grid(4, 12):
        with T.block("sum"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                At[vi] = T.int64(-1)
                Least[vi] = T.max_value("float16")
            at: T.int64 = T.if_then_else(
                Least[vi] < X[vi, vk] or (Least[vi] == X[vi, vk] and At[vi] < T.Cast("int64", vk)),
                At[vi],
                T.Cast("int64", vk),
            )
            least: T.float16 = T.min(X[vi, vk], Least[vi])
            At[vi] = at
            Least[vi] = least


def test_an_argmin_written_by_hand_from_the_largest_finite_value():
    check_schedule(argmin, _factor([3, 4], 1, -1))


def test_several_sums_at_once_need_no_names():
    @T.prim_func
    def func(X: T.Buffer((4, 12), "float32"), S: T.Buffer((4,), "float32"), Q: T.Buffer((4,), "float32")):
        for i, k in T.grid(4, 12):
            with T.block("sum"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    Q[vi] = T.float32(0)
                    S[vi] = T.float32(-1e30)
                S[vi] = T.max(S[vi], X[vi, vk])
                Q[vi] = Q[vi] + X[vi, vk] * X[vi, vk]

    check_schedule(func, _factor([None, 5], 0))


def test_a_reduction_of_ones_own():
    x = te.placeholder((4, 12), "int32", name="X")
    k = te.reduce_axis((0, 12), "k")
    # (1 + a) (1 + b) - 1
    grow = te.comm_reducer(lambda a, b: a * b + a + b, lambda t: te.const(0, t), name="grow")
    y = te.compute((4,), lambda i: grow(x[i, k], axis=k), name="sum")
    func = te.create_prim_func([x, y])
    for which in (0, 1):
        check_schedule(func, _factor([3, 4], which))


def test_complex_products_are_registered_by_hand():
    def product(a: tuple[object, ...], b: tuple[object, ...]) -> tuple[object, ...]:
        return a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]

    @T.prim_func
    def func(X: T.Buffer((4, 6, 2), "int16"), R: T.Buffer((4,), "int16"), I: T.Buffer((4,), "int16")):
        for i, k in T.grid(4, 6):
            with T.block("sum"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    R[vi] = T.int16(1)
                    I[vi] = T.int16(0)
                r: T.int16 = R[vi] * X[vi, vk, 0] - I[vi] * X[vi, vk, 1]
                m: T.int16 = R[vi] * X[vi, vk, 1] + I[vi] * X[vi, vk, 0]
                R[vi] = r
                I[vi] = m

    steps = _factor([3, 2], 0)
    error = rejects(func, steps, "no known reduction", ["sum"])
    assert "te.register_reducer, in every process that schedules the program" in str(error)
    register_reducer(te.comm_reducer(product, lambda s, t: (te.const(1, s), te.const(0, t)), name="complex product"))
    check_schedule(func, steps)


def test_terms_under_a_condition():
    x = te.placeholder((8, 12), name="X")
    k = te.reduce_axis((0, 12), "k")
    y = te.compute((8,), lambda i: te.sum(x[i, k], axis=k, where=k <= i), name="sum")
    func = te.create_prim_func([x, y])
    check_schedule(func, _factor([3, 4], 0))
    check_schedule(func, lambda s: s.rfactor(s.get_loops("sum")[1], 0))


def test_a_start_that_would_count_several_times_is_refused():
    x = te.placeholder((8, 12), name="X")
    b = te.placeholder((8,), name="B")
    k = te.reduce_axis((0, 12), "k")
    y = te.compute((8,), lambda i: te.sum(x[i, k], axis=k, init=b[i]), name="sum")
    error = rejects(te.create_prim_func([x, b, y]), _factor([3, 4], 0), "count several times", ["sum"])
    assert "not the identity `T.float32(0.0)`" in str(error)
    rejects(_one("int32", 2, tvm.tir.Mul), _factor([3, 4], 0), "starts from `2`.*identity `1`", ["sum"])


def test_a_maximum_may_start_from_anything():
    x = te.placeholder((8, 12), name="X")
    b = te.placeholder((8,), name="B")
    k = te.reduce_axis((0, 12), "k")
    y = te.compute((8,), lambda i: te.max(x[i, k], axis=k, init=b[i]), name="sum")
    check_schedule(te.create_prim_func([x, b, y]), _factor([3, 4], 0))


@pytest.mark.parametrize(
    "update",
    [
        tvm.tir.Sub,
        lambda a, x: x - a,
        lambda a, x: a + x * a,
        lambda a, x: a,
        lambda a, x: x,
        lambda a, x: tvm.tir.max(a + x, tvm.tir.const(0, "int32")),
    ],
)
def test_updates_that_are_no_reduction_are_refused(update: Callable[..., object]):
    rejects(_one("int32", 0, update), _factor([3, 4], 0), "no known reduction", ["sum"])


# -- what is refused --------------------------------------------------------------------------------


@pytest.mark.parametrize("axis", [-3, 2])
def test_places_that_are_no_dimension(axis: int):
    rejects(row_sum, _factor([3, 4], 0, axis), f"factor_axis {axis} is no place", ["sum"])


def test_the_axis_is_an_integer():
    rejects(row_sum, lambda s: s.rfactor(s.get_loops("sum")[1], 0.0), "factor_axis is an integer", error=TypeError)


def test_loops_that_are_not_of_the_reduction_alone():
    rejects(
        row_sum, lambda s: s.rfactor(s.get_loops("sum")[0], 0), "spatial axes of block `sum` run over", ["i", "sum"]
    )

    def fused(s: Schedule) -> None:
        s.rfactor(s.split(s.fuse(*s.get_loops("sum")), [None, 4])[1], 0)

    rejects(row_sum, fused, "both spatial and reduce axes|spatial axes of")


def test_loops_of_another_kind():
    def steps(s: Schedule) -> None:
        k = s.get_loops("sum")[1]
        s.unroll(k)
        s.rfactor(k, 0)

    rejects(row_sum, steps, "`k` is a loop of kind `unroll`, not serial", ["k"])


def test_loops_with_more_than_the_reduction_in_them():
    @T.prim_func
    def func(X: T.Buffer((8, 12), "float32"), Y: T.Buffer((8,), "float32"), Z: T.Buffer((8, 12), "float32")):
        for i, k in T.grid(8, 12):
            with T.block("sum"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    Y[vi] = T.float32(0)
                Y[vi] = Y[vi] + X[vi, vk]
            with T.block("Z"):
                vi, vk = T.axis.remap("SS", [i, k])
                Z[vi, vk] = X[vi, vk]

    rejects(func, lambda s: s.rfactor(s.get_loops("sum")[1], 0), "has 2 blocks in it", ["k", "sum", "Z"])


def test_blocks_that_are_no_reduction():
    rejects(before_and_after, lambda s: s.rfactor(s.get_loops("P")[1], 0), "is not a reduction", ["P"])

    def decomposed(s: Schedule) -> None:
        k = s.get_loops("sum")[1]
        s.decompose_reduction("sum", k)
        s.rfactor(k, 0)

    rejects(row_sum, decomposed, "no T.init", ["sum_update"])


def test_elements_that_instances_share():
    @T.prim_func
    def func(X: T.Buffer((8, 12), "float32"), Y: T.Buffer((4,), "float32")):
        for k, i in T.grid(12, 8):
            with T.block("sum"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    Y[vi // 2] = T.float32(0)
                Y[vi // 2] = Y[vi // 2] + X[vi, vk]

    rejects(func, lambda s: s.rfactor(s.get_loops("sum")[0], 0), "both begin Y", ["sum"])


def test_a_body_that_reads_other_elements_of_its_output():
    @T.prim_func
    def func(X: T.Buffer((8, 12), "float32"), Y: T.Buffer((9,), "float32")):
        for i, k in T.grid(8, 12):
            with T.block("sum"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    Y[vi] = T.float32(0)
                Y[vi] = Y[vi] + X[vi, vk] * Y[vi + 1]

    rejects(func, lambda s: s.rfactor(s.get_loops("sum")[1], 0), "accumulates into other elements", ["sum"])


def test_updates_of_several_buffers_that_see_each_other():
    @T.prim_func
    def func(X: T.Buffer((8, 12), "float32"), S: T.Buffer((8,), "float32"), Q: T.Buffer((8,), "float32")):
        for i, k in T.grid(8, 12):
            with T.block("sum"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    S[vi] = T.float32(0)
                    Q[vi] = T.float32(0)
                S[vi] = S[vi] + X[vi, vk]
                Q[vi] = Q[vi] + S[vi]

    rejects(func, lambda s: s.rfactor(s.get_loops("sum")[1], 0), "store before it has changed", ["sum"])


def test_init_and_body_of_different_buffers():
    @T.prim_func
    def func(X: T.Buffer((8, 12), "float32"), S: T.Buffer((8,), "float32"), Q: T.Buffer((8,), "float32")):
        for i, k in T.grid(8, 12):
            with T.block("sum"):
                vi, vk = T.axis.remap("SR", [i, k])
                T.writes(S[vi], Q[vi])
                with T.init():
                    Q[vi] = T.float32(0)
                S[vi] = S[vi] + X[vi, vk]

    rejects(func, lambda s: s.rfactor(s.get_loops("sum")[1], 0), "not store to the same buffers", ["sum"])


def test_ranges_that_change_from_iteration_to_iteration():
    @T.prim_func
    def func(X: T.Buffer((8, 12), "float32"), Y: T.Buffer((8,), "float32")):
        for i in range(8):
            for k in range(i + 1):
                with T.block("sum"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        Y[vi] = T.float32(0)
                    Y[vi] = Y[vi] + X[vi, vk]

    rejects(
        func, lambda s: s.rfactor(s.get_loops("sum")[1], 0), "not an affine|not the same in all iterations|not bound"
    )


def test_loops_that_only_repeat():
    @T.prim_func
    def func(X: T.Buffer((8, 12), "float32"), Y: T.Buffer((8,), "float32")):
        for i, k, _again in T.grid(8, 12, 2):
            with T.block("sum"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    Y[vi] = T.float32(0)
                Y[vi] = Y[vi] + X[vi, vk]

    for which in (1, 2):
        rejects(func, lambda s, which=which: s.rfactor(s.get_loops("sum")[which], 0), "repeats", ["_again", "sum"])
