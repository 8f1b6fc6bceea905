"""decompose_padding: everything is filled with the padding, then the inner part is written."""

from __future__ import annotations

import pytest

from tests.schedule.check import Steps, check_schedule, rejects
from tscript.schedule import Schedule, ScheduleError
from tscript.script import tir as T


@T.prim_func
def line(X: T.Buffer((128,), "int32"), Y: T.Buffer((140,), "int32")):
    for i in range(140):
        with T.block("pad"):
            vi = T.axis.spatial(140, i)
            Y[vi] = T.if_then_else(vi >= 6 and vi < 134, X[vi - 6], 0)


@T.prim_func
def image(X: T.Buffer((1, 3, 10, 10), "float32"), Y: T.Buffer((1, 3, 12, 12), "float32")):
    for n, c, i, j in T.grid(1, 3, 12, 12):
        with T.block("pad"):
            vn, vc, vi, vj = T.axis.remap("SSSS", [n, c, i, j])
            Y[vn, vc, vi, vj] = T.if_then_else(
                vi >= 1 and vi < 11 and 1 <= vj and vj < 11, X[vn, vc, vi - 1, vj - 1], T.float32(3)
            )


def _at(which: int) -> Steps:
    def steps(s: Schedule) -> None:
        loop = s.get_loops("pad")[which]
        assert s.can_decompose_padding(s.get_block("pad"), loop)
        fill = s.decompose_padding("pad", loop)
        assert s.get(fill).name_hint == "pad_pad_const"

    return steps


def test_one_dimension():
    sch = check_schedule(
        line,
        _at(0),
        """
@T.prim_func
def main(X: T.Buffer((128,), "int32"), Y: T.Buffer((140,), "int32")):
    for i in range(140):
        with T.block("pad_pad_const"):
            vi = T.axis.spatial(140, i)
            T.reads()
            T.writes(Y[vi])
            Y[vi] = 0
    for i in range(128):
        with T.block("pad"):
            vi = T.axis.spatial(128, i)
            T.reads(X[vi])
            T.writes(Y[vi + 6])
            Y[vi + 6] = X[vi]
""",
    )
    assert "sch.decompose_padding(block=" in str(sch.trace)
    assert "can_decompose_padding" not in str(sch.trace)


def test_loops_outside_stay_and_give_a_guard():
    check_schedule(
        image,
        _at(3),
        """
@T.prim_func
def main(X: T.Buffer((1, 3, 10, 10), "float32"), Y: T.Buffer((1, 3, 12, 12), "float32")):
    for n, c, i in T.grid(1, 3, 12):
        for j in range(12):
            with T.block("pad_pad_const"):
                vn, vc, vi, vj = T.axis.remap("SSSS", [n, c, i, j])
                T.reads()
                T.writes(Y[vn, vc, vi, vj])
                Y[vn, vc, vi, vj] = T.float32(3.0)
        for j in range(10):
            with T.block("pad"):
                vn, vc = T.axis.remap("SS", [n, c])
                vi = T.axis.spatial(10, i - 1)
                vj = T.axis.spatial(10, j)
                T.where(1 <= i and i < 11)
                T.reads(X[vn, vc, vi, vj])
                T.writes(Y[vn, vc, vi + 1, vj + 1])
                Y[vn, vc, vi + 1, vj + 1] = X[vn, vc, vi, vj]
""",
    )


@pytest.mark.parametrize("which", [0, 1, 2])
def test_each_loop(which: int):
    sch = check_schedule(image, _at(which))
    assert [sch.get(r).extent.value for r in sch.get_loops("pad")] == [1, 3, 10, 10]


@pytest.mark.parametrize("which", [2, 3, 4])
def test_split_loops_keep_their_extent_and_get_a_guard(which: int):
    def steps(s: Schedule) -> None:
        s.split(s.get_loops("pad")[2], [None, 5])
        _at(which)(s)

    sch = check_schedule(image, steps)
    assert "i_0 * 5 + i_1 < 11" in sch.mod.script()


def test_fused_loops():
    def steps(s: Schedule) -> None:
        s.fuse(*s.get_loops("pad")[2:])
        _at(2)(s)

    check_schedule(image, steps)


def test_the_guard_of_the_block_is_kept_where_it_says_more():
    @T.prim_func
    def func(X: T.Buffer((128,), "int32"), Y: T.Buffer((140,), "int32"), n: T.int32):
        for i, j in T.grid(9, 16):
            with T.block("pad"):
                vi = T.axis.spatial(140, i * 16 + j)
                T.where(i * 16 + j < 140 and i < n)
                Y[vi] = T.if_then_else(vi >= 6 and vi < 134, X[vi - 6], 0)

    for n in (0, 4, 9):
        sch = check_schedule(func, _at(0), sizes={"n": n})
    assert "T.where(6 <= i * 16 + j and i * 16 + j < 134 and i < n)" in sch.mod.script()


def test_loops_that_run_over_a_part_of_the_axis():
    @T.prim_func
    def func(X: T.Buffer((128,), "int32"), Y: T.Buffer((140,), "int32")):
        for i in range(3, 100):
            with T.block("pad"):
                vi = T.axis.spatial(140, i)
                Y[vi] = T.if_then_else(vi >= 6 and vi < 134, X[vi - 6], 0)

    sch = check_schedule(func, _at(0))
    assert sch.get(sch.get_loops("pad")[0]).extent.value == 94


def test_kinds_of_loops_stay_with_the_inner_part_and_the_filling_is_serial():
    def steps(s: Schedule) -> None:
        _, c, i, j = s.get_loops("pad")
        s.parallel(i)
        s.vectorize(j)
        s.annotate(c, "note", 1)
        _at(1)(s)

    text = check_schedule(image, steps).mod.script()
    assert text.count("T.parallel(10)") == text.count("T.vectorized(10)") == 1
    assert text.count('"note"') == 1


@pytest.mark.parametrize("n", [0, 1, 2, 7])
def test_symbolic_sizes(n: int):
    @T.prim_func
    def func(x: T.handle, y: T.handle):
        n = T.int32()
        X = T.match_buffer(x, (n,), "float32")
        Y = T.match_buffer(y, (n + 4,), "float32")
        for i in range(n + 4):
            with T.block("pad"):
                vi = T.axis.spatial(n + 4, i)
                Y[vi] = T.if_then_else(2 <= vi and vi < n + 2, X[vi - 2], T.float32(0))

    sch = check_schedule(func, _at(0), sizes={"n": n})
    assert "for i in range(n):" in sch.mod.script()


@pytest.mark.parametrize("n", [0, 3, 9])
def test_sizes_that_may_leave_nothing_inside(n: int):
    @T.prim_func
    def func(X: T.Buffer((8,), "float32"), Y: T.Buffer((8,), "float32"), n: T.int32):
        for i in range(8):
            with T.block("pad"):
                vi = T.axis.spatial(8, i)
                Y[vi] = T.if_then_else(vi >= 2 and vi < n - 1, X[vi], T.float32(0))

    check_schedule(func, _at(0), sizes={"n": n})


def test_int64_units_scales_and_values_of_more_than_one_load():
    @T.prim_func
    def func(X: T.Buffer((T.int64(5), T.int64(1)), "int32"), Y: T.Buffer((T.int64(12), T.int64(1)), "int32")):
        for i, u in T.grid(T.int64(12), T.int64(1)):
            with T.block("pad"):
                vi, vu = T.axis.remap("SS", [i, u])
                Y[vi, vu] = T.if_then_else(
                    vi * T.int64(2) >= T.int64(3) and vi // T.int64(2) < T.int64(3) and vu >= T.int64(0),
                    X[vi - T.int64(2), vu] * 2 + X[T.int64(0), vu],
                    -1,
                )

    sch = check_schedule(func, _at(0))
    assert sch.get(sch.get_loops("pad")[0]).extent.value == 4


def test_a_consumer_in_the_same_loop_and_one_after():
    @T.prim_func
    def func(X: T.Buffer((8, 10), "float32"), Z: T.Buffer((8, 10), "float32")):
        Y = T.alloc_buffer((8, 12))
        for i in range(8):
            for j in range(12):
                with T.block("pad"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    Y[vi, vj] = T.if_then_else(1 <= vj and vj < 11, X[vi, vj - 1], T.float32(0))
            for j in range(10):
                with T.block("sum"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    Z[vi, vj] = Y[vi, vj] + Y[vi, vj + 1] + Y[vi, vj + 2]

    for which in (0, 1):
        check_schedule(func, _at(which))


def test_inside_another_block():
    @T.prim_func
    def func(X: T.Buffer((4, 10), "float32"), Y: T.Buffer((4, 12), "float32")):
        for i in range(4):
            with T.block("outer"):
                vo = T.axis.spatial(4, i)
                for j in range(12):
                    with T.block("pad"):
                        vj = T.axis.spatial(12, j)
                        Y[vo, vj] = T.if_then_else(1 <= vj and vj < 11, X[vo, vj - 1], T.Cast("float32", vo))

    check_schedule(func, _at(0))


def test_the_filling_can_be_scheduled_on():
    def steps(s: Schedule) -> None:
        fill = s.decompose_padding("pad", s.get_loops("pad")[1])
        s.vectorize(s.get_loops(fill)[-1])
        s.parallel(s.get_loops(fill)[1])

    check_schedule(image, steps)


# -- what is refused --------------------------------------------------------------------------------


def _refused(func: object, match: str, at: list[str] | None = None, which: int = 0) -> None:
    sch = Schedule(func)
    assert not sch.can_decompose_padding(sch.get_block("pad"), sch.get_loops("pad")[which])
    rejects(func, lambda s: s.decompose_padding("pad", s.get_loops("pad")[which]), match, at)


def test_conditions_that_are_no_box():
    @T.prim_func
    def func(X: T.Buffer((8,), "int32"), Y: T.Buffer((8, 8), "int32")):
        for i, j in T.grid(8, 8):
            with T.block("pad"):
                vi, vj = T.axis.remap("SS", [i, j])
                Y[vi, vj] = T.if_then_else(vj <= vi, X[vj], 0)

    _refused(func, "does not limit one axis", ["pad"])

    @T.prim_func
    def odd(X: T.Buffer((8,), "int32"), Y: T.Buffer((16,), "int32")):
        for i in range(16):
            with T.block("pad"):
                vi = T.axis.spatial(16, i)
                Y[vi] = T.if_then_else(vi % 2 == 0, X[vi // 2], 0)

    _refused(odd, "does not limit one axis", ["pad"])


@pytest.mark.parametrize(("low", "match"), [(0, "nothing is padded"), (16, "never holds")])
def test_conditions_that_hold_everywhere_or_nowhere(low: int, match: str):
    @T.prim_func
    def func(X: T.Buffer((32,), "int32"), Y: T.Buffer((16,), "int32")):
        for i in range(16):
            with T.block("pad"):
                vi = T.axis.spatial(16, i)
                Y[vi] = T.if_then_else(vi + 0 >= low, X[vi], 0)

    _refused(func, match, ["pad"])


def test_bodies_that_do_not_pad():
    @T.prim_func
    def plain(X: T.Buffer((16,), "int32"), Y: T.Buffer((16,), "int32")):
        for i in range(16):
            with T.block("pad"):
                vi = T.axis.spatial(16, i)
                Y[vi] = X[vi]

    _refused(plain, "is not one store of", ["pad"])

    @T.prim_func
    def reads(X: T.Buffer((16,), "int32"), Y: T.Buffer((16,), "int32")):
        for i in range(16):
            with T.block("pad"):
                vi = T.axis.spatial(16, i)
                Y[vi] = T.if_then_else(vi >= 2, X[vi - 2], X[vi])

    _refused(reads, "the padding `X\\[vi\\]` of block `pad` reads memory", ["pad"])


def test_instances_that_write_the_same_element():
    @T.prim_func
    def func(X: T.Buffer((16,), "int32"), Y: T.Buffer((8,), "int32")):
        for i in range(16):
            with T.block("pad"):
                vi = T.axis.spatial(16, i)
                Y[vi // 2] = T.if_then_else(vi >= 3, X[vi], 0)

    _refused(func, "may write the same element", ["pad"])


def test_blocks_that_are_not_complete():
    @T.prim_func
    def func(X: T.Buffer((16,), "int32"), Y: T.Buffer((16,), "int32")):
        for i in range(16):
            with T.block("pad"):
                vi = T.axis.opaque(16, i)
                Y[vi] = T.if_then_else(vi >= 3, X[vi], 0)

    _refused(func, "is not complete", ["pad"])


def test_a_block_before_it_that_reads_the_old_values():
    @T.prim_func
    def func(X: T.Buffer((16,), "int32"), Y: T.Buffer((16,), "int32"), Z: T.Buffer((16,), "int32")):
        for i in range(16):
            with T.block("old"):
                vi = T.axis.spatial(16, i)
                Z[vi] = Y[vi]
            with T.block("pad"):
                vi = T.axis.spatial(16, i)
                Y[vi] = T.if_then_else(vi >= 3, X[vi - 3], 0)

    _refused(func, "reads what block `pad` writes", ["old", "pad"])


def test_threads():
    def steps(s: Schedule) -> None:
        i = s.get_loops("pad")[0]
        s.bind(i, "threadIdx.x")
        s.decompose_padding("pad", i)

    rejects(line, steps, "is bound to threads", ["i"])


def test_loops_and_blocks_of_elsewhere():
    @T.prim_func
    def two(X: T.Buffer((128,), "int32"), Y: T.Buffer((140,), "int32"), Z: T.Buffer((140,), "int32")):
        for i in range(140):
            with T.block("pad"):
                vi = T.axis.spatial(140, i)
                Y[vi] = T.if_then_else(vi >= 6 and vi < 134, X[vi - 6], 0)
        for i in range(140):
            with T.block("Z"):
                vi = T.axis.spatial(140, i)
                Z[vi] = Y[vi]

    rejects(two, lambda s: s.decompose_padding("pad", s.get_loops("Z")[0]), "none of the loops", ["i", "pad"])
    sch = Schedule(two)
    loop = sch.get_loops("pad")[0]
    inner, _ = sch.split(loop, [None, 4])
    block = sch.get_block("pad")
    steps = len(sch.trace.insts)
    for where in (inner, "i_0", "i_1"):
        assert sch.can_decompose_padding("pad", where) and sch.can_decompose_padding(block, where)
    with pytest.raises(ScheduleError, match="no block 'pid'"):
        sch.can_decompose_padding("pid", inner)
    with pytest.raises(TypeError):
        sch.can_decompose_padding(1, inner)  # type: ignore[arg-type]
    # A question leaves nothing behind.
    assert len(sch.trace.insts) == steps
