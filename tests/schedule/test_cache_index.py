"""cache_index: which subscripts get a table, how tables are filled, and what is left alone."""

from __future__ import annotations

import pytest

from tests.schedule.check import check_schedule, rejects
from tscript.parser import from_source
from tscript.schedule import Schedule
from tscript.script import tir as T


@T.prim_func
def resize(A: T.Buffer((1, 3, 40, 40), "float32"), B: T.Buffer((1, 3, 20, 24), "float32")):
    for a, b, c, d in T.grid(1, 3, 20, 24):
        with T.block("B"):
            n, m, vi, vj = T.axis.remap("SSSS", [a, b, c, d])
            B[n, m, vi, vj] = A[n, m, vi // 4 + vj // 4, vj // 2] + A[n, m, vi // 4, vj // 2]


def tables(sch: Schedule) -> list[str]:
    """What the tables hold, in order."""
    blocks = [sch.get(b) for b in sch.get_child_blocks(sch.get_block("root"))]
    return [str(b.body.value) for b in blocks if b.name_hint.startswith("index_")]


def test_subscripts_come_from_tables_the_largest_first() -> None:
    def steps(s: Schedule) -> None:
        made = s.cache_index("B", "global")
        assert [s.get(b).name_hint for b in made] == ["index_0", "index_1", "index_2"]

    check_schedule(
        resize,
        steps,
        """
@T.prim_func
def main(A: T.Buffer((1, 3, 40, 40), "float32"), B: T.Buffer((1, 3, 20, 24), "float32")):
    index_var_0 = T.alloc_buffer((20, 24), "int32")
    index_var_1 = T.alloc_buffer((24,), "int32")
    index_var_2 = T.alloc_buffer((20,), "int32")
    for ax0, ax1 in T.grid(20, 24):
        with T.block("index_0"):
            v0, v1 = T.axis.remap("SS", [ax0, ax1])
            T.reads()
            T.writes(index_var_0[v0, v1])
            index_var_0[v0, v1] = v0 // 4 + v1 // 4
    for ax0 in range(24):
        with T.block("index_1"):
            v0 = T.axis.spatial(24, ax0)
            T.reads()
            T.writes(index_var_1[v0])
            index_var_1[v0] = v0 // 2
    for ax0 in range(20):
        with T.block("index_2"):
            v0 = T.axis.spatial(20, ax0)
            T.reads()
            T.writes(index_var_2[v0])
            index_var_2[v0] = v0 // 4
    for a, b, c, d in T.grid(1, 3, 20, 24):
        with T.block("B"):
            n, m, vi, vj = T.axis.remap("SSSS", [a, b, c, d])
            T.reads(A[n, m, vi // 4:vi // 4 + (vj // 4 + 1), vj // 2], index_var_0[vi, vj], index_var_1[vj],
                index_var_2[vi])
            T.writes(B[n, m, vi, vj])
            B[n, m, vi, vj] = (A[n, m, index_var_0[vi, vj], index_var_1[vj]]
                + A[n, m, index_var_2[vi], index_var_1[vj]])
""",
    )


def test_with_a_threshold_what_is_rare_is_taken_apart() -> None:
    sch = check_schedule(resize, lambda s: s.cache_index("B", "local", 2))
    assert tables(sch) == ["v0 // 2", "v0 // 4"]
    body = str(sch.get(sch.get_block("B")).body)
    assert "index_var_1[vi] + vj // 4" in body
    assert "vi // 4" not in body
    assert {b.scope() for b in sch.get(sch.get_block("root")).alloc_buffers} == {"local"}


def test_a_threshold_that_nothing_reaches_changes_nothing() -> None:
    def steps(s: Schedule) -> None:
        assert s.cache_index("B", "global", cse_thresh=3) == []

    sch = check_schedule(resize, steps, resize)
    assert str(sch.trace).splitlines()[-1] == '  sch.cache_index(block=b0, storage_scope="global", cse_thresh=3)'


def test_the_trace_names_every_block() -> None:
    sch = check_schedule(resize, lambda s: s.cache_index("B", "shared", 2))
    assert (
        str(sch.trace).splitlines()[-1] == '  b1, b2 = sch.cache_index(block=b0, storage_scope="shared", cse_thresh=2)'
    )
    assert sch.trace.as_json()[0][-1] == ["CacheIndex", ["b0"], ["shared", 2], ["b1", "b2"]]


def test_equal_values_written_differently_share_a_table() -> None:
    @T.prim_func
    def func(A: T.Buffer((24,), "float32"), B: T.Buffer((8,), "float32")):
        for i in range(8):
            with T.block("B"):
                v = T.axis.spatial(8, i)
                B[v] = A[v * 2 + 3] + A[3 + 2 * v] + A[v + (v + 3)]

    sch = check_schedule(func, lambda s: s.cache_index("B", "global", 3))
    assert tables(sch) == ["v0 * 2 + 3"]


def test_a_block_under_loops_that_overhang_fills_its_tables_under_the_same_condition() -> None:
    @T.prim_func
    def func(A: T.Buffer((40,), "float32"), B: T.Buffer((8, 16), "float32")):
        for i, j in T.grid(8, 16):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi * 2 + vj // 2] + A[vi // 2]

    def steps(s: Schedule) -> None:
        i, _ = s.get_loops("B")
        s.split(i, [3, 3])
        s.cache_index("B", "global")

    sch = check_schedule(func, steps)
    text = sch.mod.script()
    assert "for ax0, ax1, ax2 in T.grid(3, 3, 16)" in text
    assert text.count("T.where(ax0 * 3 + ax1 < 8)") == 2
    assert "index_var_0 = T.alloc_buffer((8, 16), " in text


def test_a_condition_on_other_loops_does_not_let_an_axis_leave_its_domain() -> None:
    func = from_source("""
@T.prim_func
def main(A: T.Buffer((40,), "float32"), B: T.Buffer((8, 4), "float32")):
    for i, j in T.grid(10, 4):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            vj = T.axis.spatial(4, j)
            T.where(i + j < 8)
            B[vi, vj] = A[vi * 3 + 1] + A[vj * 2]
""")
    sch = check_schedule(func, lambda s: s.cache_index("B", "global"))
    assert tables(sch) == ["v0 * 3 + 1", "v0 * 2"]
    assert "T.where(ax0 < 8)" in sch.mod.script()


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_sizes_may_be_symbols_of_any_width(dtype: str) -> None:
    func = from_source(f"""
@T.prim_func
def main(a: T.handle, b: T.handle):
    n = T.int{dtype[3:]}()
    A = T.match_buffer(a, (n * 2,))
    B = T.match_buffer(b, (n,))
    for i in range(n):
        with T.block("B"):
            v = T.axis.spatial(n, i)
            B[v] = A[v + n // 2] + A[v * 2]
""")
    sch = check_schedule(func, lambda s: s.cache_index("B", "global"), sizes={"n": 7})
    assert [t.replace("T.int64(2)", "2") for t in tables(sch)] == ["v0 + n // 2", "v0 * 2"]
    first = sch.get(sch.get_block("root")).alloc_buffers[0]
    assert first.dtype == dtype and str(first.shape[0]) == "n"


def test_reductions_unit_axes_and_domains_that_start_late() -> None:
    func = from_source("""
@T.prim_func
def main(A: T.Buffer((60,), "float32"), B: T.Buffer((20,), "float32")):
    for u, i, k in T.grid(1, 8, 3):
        with T.block("B"):
            vu = T.axis.spatial(1, u)
            vi = T.axis.spatial((4, 12), i + 4)
            vk = T.axis.reduce(3, k)
            with T.init():
                B[vi + vu + 1] = T.float32(0)
            B[vi + vu + 1] = B[vi + vu + 1] + A[vi * 4 + vk * 2]
""")
    sch = check_schedule(func, lambda s: s.cache_index("B", "global"))
    assert tables(sch) == ["v0 * 4 + v1 * 2", "v1 + v0 + 1"]
    assert "index_var_0[v0 - 4, v1] = v0 * 4 + v1 * 2" in sch.mod.script()
    assert "B[index_var_1[vu, vi - 4]] = T.float32(0" in sch.mod.script()


def test_what_may_fail_reads_memory_or_belongs_to_a_loop_inside_stays() -> None:
    func = from_source("""
@T.prim_func
def main(P: T.Buffer((8,), "int32"), A: T.Buffer((64,), "float32"), B: T.Buffer((8,), "float32"), d: T.int32):
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            B[v] = T.float32(0)
            for t in range(4):
                B[v] = B[v] + A[v * 4 + t] + T.if_then_else(d > 0, A[(v * 3) // d], T.float32(0)) + A[P[v] * 2 + 8]
""")
    sch = check_schedule(func, lambda s: s.cache_index("B", "global"), sizes={"d": 3})
    assert tables(sch) == ["v0 * 4", "v0 * 3"]
    for d in (0, 1):
        check_schedule(func, lambda s: s.cache_index("B", "global"), sizes={"d": d})


def test_subscripts_of_inner_blocks_are_their_own() -> None:
    @T.prim_func
    def func(A: T.Buffer((64,), "float32"), B: T.Buffer((8, 4), "float32")):
        for i in range(8):
            with T.block("outer"):
                v = T.axis.spatial(8, i)
                for j in range(4):
                    with T.block("B"):
                        w = T.axis.spatial(4, j)
                        B[v, w] = A[v * 4 + w * 3]

    check_schedule(func, lambda s: s.cache_index("outer", "global"), func)
    sch = check_schedule(func, lambda s: s.cache_index("B", "global"))
    # Seen from the inner block, the outer axis is known outside its scope.
    text = sch.mod.script()
    assert "index_var_0[v0] = v * 4 + v0 * 3" in text
    assert text.index("outer") < text.index("index_var_0 = T.alloc_buffer") < text.index("index_0")


def test_several_functions_and_steps_after_it() -> None:
    @T.prim_func
    def func(A: T.Buffer((32,), "float32"), B: T.Buffer((8,), "float32")):
        for i in range(8):
            with T.block("B"):
                v = T.axis.spatial(8, i)
                B[v] = A[v * 3]

    def steps(s: Schedule) -> None:
        (table,) = s.cache_index("B", "global")
        i, _ = s.split(s.get_loops("B")[0], [4, 2])
        s.compute_at(table, i)
        s.parallel(i)

    sch = check_schedule(func, steps)
    assert "index_var_0[v0] = v0 * 3" in sch.mod.script()


def test_wrong_arguments_are_refused() -> None:
    rejects(resize, lambda s: s.cache_index("root", "global"), "root of its function", ["root"])
    rejects(resize, lambda s: s.cache_index("B", "moon"), "no storage scope 'moon'")
    rejects(resize, lambda s: s.cache_index("B", "global", -1), "cannot be -1", error=ValueError)
    rejects(resize, lambda s: s.cache_index("B", "global", 1.5), "an integer, not 1.5", error=TypeError)  # type: ignore[arg-type]
