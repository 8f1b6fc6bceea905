"""split: one loop becomes several."""

from __future__ import annotations

import numpy as np
import pytest

from tests.schedule.check import check_schedule, rejects
from tscript.schedule import Schedule
from tscript.script import tir as T


@T.prim_func
def rowsum(X: T.Buffer((8, 12), "float32"), Y: T.Buffer((8,), "float32")):
    for i, k in T.grid(8, 12):
        with T.block("sum"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                Y[vi] = T.float32(0)
            Y[vi] = Y[vi] + X[vi, vk]


@T.prim_func
def scale(a: T.handle, b: T.handle, n: T.int32):
    A = T.match_buffer(a, (n * 16,), "float32")
    B = T.match_buffer(b, (n * 16,), "float32")
    for i in range(n * 16):
        with T.block("B"):
            v = T.axis.spatial(n * 16, i)
            B[v] = A[v] * T.float32(2)


def test_a_factor_that_does_not_divide_guards_the_block() -> None:
    @T.prim_func
    def expected(X: T.Buffer((8, 12), "float32"), Y: T.Buffer((8,), "float32")):
        for i_0, i_1, k in T.grid(3, 3, 12):
            with T.block("sum"):
                vi = T.axis.spatial(8, i_0 * 3 + i_1)
                vk = T.axis.reduce(12, k)
                T.where(i_0 * 3 + i_1 < 8)
                with T.init():
                    Y[vi] = T.float32(0)
                Y[vi] = Y[vi] + X[vi, vk]

    sch = check_schedule(rowsum, lambda s: s.split(s.get_loops("sum")[0], [None, 3]), expected)
    assert str(sch.trace).splitlines()[-1] == (
        "  l3, l4 = sch.split(loop=l1, factors=[None, 3], preserve_unit_iters=True, disable_predication=False)"
    )
    assert sch.trace.as_json()[0][-1] == ["Split", ["l1", "None", 3], [1, 0], ["l3", "l4"]]


def test_unit_loops_stay_in_bindings_or_not() -> None:
    def text(preserve: bool) -> str:
        sch = check_schedule(rowsum, lambda s: s.split(s.get_loops("sum")[0], [1, 8], preserve_unit_iters=preserve))
        return sch.mod.script()

    assert 'T.axis.remap("SR", [i_1, k])' in text(False)
    assert "vi = T.axis.spatial(8, i_0 * 8 + i_1)" in text(True)


@pytest.mark.parametrize(
    "factors", [[2, 2, 2], [None, 2, 2], [2, None, 2], [2, 2, None], [8], [None], [3, 3], [1, 8, 1]]
)
def test_any_number_of_factors(factors: list[int | None]) -> None:
    sch = check_schedule(rowsum, lambda s: s.split(s.get_loops("sum")[0], factors))
    extents = [int(sch.get(rv).extent) for rv in sch.trace.insts[-1].outputs]
    assert len(extents) == len(factors) and np.prod(extents) >= 8
    assert ("T.where" in sch.mod.script()) == (np.prod(extents) > 8)


def test_three_factors_bind_by_one_sum_and_guard_by_the_joined_form() -> None:
    sch = check_schedule(rowsum, lambda s: s.split(s.get_loops("sum")[0], [2, 3, 2]))
    text = sch.mod.script()
    assert "vi = T.axis.spatial(8, i_0 * 6 + i_1 * 2 + i_2)" in text
    assert "T.where((i_0 * 3 + i_1) * 2 + i_2 < 8)" in text


def test_split_again_joins_guards_old_first() -> None:
    def steps(s: Schedule) -> None:
        _, inner = s.split(s.get_loops("sum")[0], [None, 3])
        s.split(inner, [None, 2])

    text = check_schedule(rowsum, steps).mod.script()
    assert "T.where(i_0 * 3 + (i_1_0 * 2 + i_1_1) < 8 and i_1_0 * 2 + i_1_1 < 3)" in text


def test_predication_can_be_left_out_on_request() -> None:
    def steps(s: Schedule) -> None:
        s.split(s.get_loops("sum")[1], [None, 12], disable_predication=True)

    assert "T.where" not in check_schedule(rowsum, steps).mod.script()
    unsafe = Schedule(rowsum)
    unsafe.split(unsafe.get_loops("sum")[1], [None, 5], disable_predication=True)
    assert "T.where" not in unsafe.mod.script()


def test_an_extent_that_is_known_to_divide_needs_no_guard_and_another_keeps_it() -> None:
    def by(f: int) -> str:
        sch = check_schedule(scale, lambda s: s.split(s.get_loops("B")[0], [None, f]), sizes={"n": 3})
        return sch.mod.script()

    assert "T.where" not in by(16) and "range(n)" not in by(8)
    assert "T.grid(n * 2, 8)" in by(8)
    assert "T.where(i_0 * 32 + i_1 < n * 16)" in by(32)


@pytest.mark.parametrize("n", [0, 1, 2, 3])
@pytest.mark.parametrize("factor", [32, 36, 256])
def test_symbolic_sizes_with_common_factors_keep_the_guard(n: int, factor: int) -> None:
    @T.prim_func
    def f(a: T.handle, b: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n, 3, 16), "int32")
        B = T.match_buffer(b, (n, 3, 16), "int32")
        for i, j, k in T.grid(n, 3, 16):
            with T.block("B"):
                v = T.axis.remap("SSS", [i, j, k])
                B[v[0], v[1], v[2]] = A[v[0], v[1], v[2]] + 1

    def steps(s: Schedule) -> None:
        s.split(s.fuse(*s.get_loops("B")), [None, factor])

    assert "T.where" in check_schedule(f, steps, sizes={"n": n}).mod.script()


@pytest.mark.parametrize("extent", [0, 1])
def test_loops_of_no_and_one_iteration(extent: int) -> None:
    @T.prim_func
    def f(A: T.Buffer((extent,), "int32")):
        for i in range(extent):
            with T.block("A"):
                v = T.axis.spatial(extent, i)
                A[v] = A[v] + 1

    check_schedule(f, lambda s: s.split(s.get_loops("A")[0], [None, 4]))
    check_schedule(f, lambda s: s.split(s.get_loops("A")[0], [2, None]))


def test_int64_loops_give_int64_loops() -> None:
    @T.prim_func
    def f(A: T.Buffer((T.int64(10),), "int32")):
        for i in range(T.int64(10)):
            with T.block("A"):
                v = T.axis.spatial(T.int64(10), i)
                A[v] = A[v] * 2

    sch = check_schedule(f, lambda s: s.split(s.get_loops("A")[0], [None, 4]))
    assert all(str(sch.get(rv).loop_var.dtype) == "int64" for rv in sch.trace.insts[-1].outputs)


def test_factors_may_be_sampled_and_computed() -> None:
    def steps(s: Schedule) -> None:
        i, k = s.get_loops("sum")
        s.split(i, s.sample_perfect_tile(i, n=2))
        v = s.sample_categorical([2, 3], [0.5, 0.5], decision=1)
        s.split(k, [None, v * 2])

    sch = check_schedule(rowsum, steps)
    assert "factors=[None, v7 * 2]" in str(sch.trace)
    assert sch.trace.as_json()[0][-1][1] == ["l2", "None", "v7 * 2"]


def test_several_blocks_below_are_all_guarded() -> None:
    @T.prim_func
    def two(A: T.Buffer((10,), "int32"), B: T.Buffer((10,), "int32")):
        for i in range(10):
            with T.block("A"):
                v = T.axis.spatial(10, i)
                A[v] = v
            for _ in range(1):
                with T.block("B"):
                    v = T.axis.spatial(10, i)
                    B[v] = A[v] + v

    text = check_schedule(two, lambda s: s.split(s.get_loops("A")[0], [None, 4])).mod.script()
    assert text.count("T.where(i_0 * 4 + i_1 < 10)") == 2


def test_handles_of_other_statements_stay_valid_and_the_old_loop_says_what_became_of_it() -> None:
    sch = Schedule(rowsum)
    block = sch.get_block("sum")
    i, k = sch.get_loops(block)
    sch.split(i, [None, 3])
    assert sch.get(k).loop_var.name == "k" and sch.get(block).name_hint == "sum"
    with pytest.raises(ValueError, match=r"no longer exists: it was split into i_0, i_1 by step 2"):
        sch.get(i)


def test_what_cannot_be_split_is_refused() -> None:
    def split(*args, **kwargs):
        return lambda s: s.split(s.get_loops("sum")[0], *args, **kwargs)

    rejects(rowsum, split([None, None]), "2 factors of loop `i` are None", ["i"])
    rejects(rowsum, split([0, 8]), "factor 0 of loop `i` is 0", ["i"])
    rejects(rowsum, split([8, -1]), "factor 1 of loop `i` is -1; .*\n.*use None", ["i"])
    rejects(rowsum, split([]), "no factor is given", ["i"])
    rejects(rowsum, split([2, 3]), "multiply to 6, which is not known to reach the extent `8`", ["i"])
    rejects(scale, lambda s: s.split(s.get_loops("B")[0], [4, 4]), r"reach the extent `n \* 16`", ["i"])
    rejects(rowsum, split([None, 1 << 31]), "more than int32 holds", ["i"])
    rejects(rowsum, split(3), "factors are a list", error=TypeError)
    rejects(rowsum, split([2.0, 4]), "a factor is an integer", error=TypeError)
    rejects(rowsum, split([True, 8]), "a factor is an integer", error=TypeError)

    def bound(s: Schedule) -> None:
        s.bind(s.get_loops("sum")[0], "threadIdx.x")
        s.split(s.get_loops("sum")[0], [2, 4])

    rejects(rowsum, bound, "is bound to threadIdx.x", ["i"])

    def noted(s: Schedule) -> None:
        s.annotate(s.get_loops("sum")[0], "hint", 1)
        s.split(s.get_loops("sum")[0], [2, 4])

    rejects(rowsum, noted, "has annotations, which would be lost: 'hint'", ["i"])

    @T.prim_func
    def shifted(A: T.Buffer((8,), "int32")):
        for i in range(2, 8):
            with T.block("A"):
                v = T.axis.spatial(8, i)
                A[v] = 1

    rejects(shifted, lambda s: s.split(s.get_loops("A")[0], [2, 3]), "starts at `2`", ["i"])


def test_a_handle_of_something_else_is_refused() -> None:
    with pytest.raises(TypeError, match="expected a loop"):
        sch = Schedule(rowsum)
        sch.split(sch.get_block("sum"), [2, 4])
    with pytest.raises(IndexError, match="handles belong to the schedule"):
        other = Schedule(rowsum)
        Schedule(rowsum).split(other.get_loops("sum")[0], [2, 4])
