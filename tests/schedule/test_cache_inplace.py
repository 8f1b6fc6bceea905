"""cache_inplace: copies around a block that changes a buffer in place, and what is refused."""

from __future__ import annotations

import pytest

from tests.schedule.check import check_schedule, rejects
from tscript.parser import from_source
from tscript.schedule import Schedule
from tscript.script import tir as T


@T.prim_func
def update(A: T.Buffer((8, 6), "float32"), B: T.Buffer((8, 6), "float32")):
    for i, j in T.grid(8, 6):
        with T.block("A"):
            vi, vj = T.axis.remap("SS", [i, j])
            A[vi, vj] = A[vi, vj] * T.float32(2) + B[vi, vj]
    for i, j in T.grid(8, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj]


def test_one_element_is_copied_there_and_back() -> None:
    def steps(s: Schedule) -> None:
        there, back = s.cache_inplace("A", 0, "local")
        assert s.get(there).writes[0].buffer is s.get(back).reads[0].buffer
        assert s.get(s.get_block("A")).reads[0].buffer.name == "A_local"

    sch = check_schedule(
        update,
        steps,
        """
@T.prim_func
def main(A: T.Buffer((8, 6), "float32"), B: T.Buffer((8, 6), "float32")):
    A_local = T.alloc_buffer((8, 6), scope="local")
    for i, j in T.grid(8, 6):
        for ax0, ax1 in T.grid(1, 1):
            with T.block("A_local"):
                v0 = T.axis.spatial(8, i + ax0)
                v1 = T.axis.spatial(6, j + ax1)
                T.reads(A[v0, v1])
                T.writes(A_local[v0, v1])
                A_local[v0, v1] = A[v0, v1]
        with T.block("A"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(A_local[vi, vj], B[vi, vj])
            T.writes(A_local[vi, vj])
            A_local[vi, vj] = A_local[vi, vj] * T.float32(2) + B[vi, vj]
        for ax0, ax1 in T.grid(1, 1):
            with T.block("A_local"):
                v0 = T.axis.spatial(8, i + ax0)
                v1 = T.axis.spatial(6, j + ax1)
                T.reads(A_local[v0, v1])
                T.writes(A[v0, v1])
                A[v0, v1] = A_local[v0, v1]
    for i, j in T.grid(8, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj]
""",
    )
    text = str(sch.trace)
    assert '  b1, b2 = sch.cache_inplace(block=b0, read_buffer_index=0, storage_scope="local")' in text
    assert sch.trace.as_json()[0][1] == ["CacheInplace", ["b0"], [0, "local"], ["b1", "b2"]]


def test_a_row_of_a_block_with_loops_inside_is_copied_whole() -> None:
    @T.prim_func
    def func(A: T.Buffer((8, 6), "float32"), B: T.Buffer((8, 6), "float32")):
        for i in range(8):
            with T.block("A"):
                vi = T.axis.spatial(8, i)
                for j in range(6):
                    A[vi, j] = A[vi, j] * T.float32(2) + B[vi, j]

    sch = check_schedule(func, lambda s: s.cache_inplace("A", "A", "global"))
    assert sch.mod.script().count("for ax0, ax1 in T.grid(1, 6)") == 2


def test_neighbours_that_are_read_come_along_but_only_what_is_written_goes_back() -> None:
    func = from_source("""
@T.prim_func
def main(A: T.Buffer((10,), "float32")):
    for i in range(9):
        with T.block("A"):
            v = T.axis.opaque(9, i)
            T.reads(A[v:v + 2])
            T.writes(A[v + 1])
            A[v + 1] = A[v] + A[v + 1]
""")
    sch = check_schedule(func, lambda s: s.cache_inplace("A", 0, "local"))
    there, back = (s for s in sch.state.child_blocks(sch.function_root(None)[1]) if s.block.name_hint == "A_local")
    assert [str(sch.state.loops_of(b)[-1].loop.extent) for b in (there, back)] == ["2", "1"]


def test_elements_that_are_written_now_and_then_keep_their_values() -> None:
    func = from_source("""
@T.prim_func
def main(A: T.Buffer((12,), "float32"), B: T.Buffer((12,), "float32")):
    for i in range(6):
        with T.block("A"):
            v = T.axis.spatial(6, i)
            T.reads(A[v * 2], B[v])
            T.writes(A[v * 2:v * 2 + 2])
            A[v * 2] = A[v * 2] + B[v]
            if B[v] > T.float32(0):
                A[v * 2 + 1] = B[v]
""")
    check_schedule(func, lambda s: s.cache_inplace("A", 0, "local"))


def test_copies_run_where_the_block_does_and_stay_inside_the_buffer() -> None:
    def steps(s: Schedule) -> None:
        i, _ = s.get_loops("A")
        s.split(i, [3, 3])
        s.cache_inplace("A", 0, "local")

    sch = check_schedule(update, steps)
    assert sch.mod.script().count("T.where(i_0 * 3 + i_1 < 8)") == 3


def test_a_condition_on_data_that_changes_is_not_asked_again() -> None:
    func = from_source("""
@T.prim_func
def main(A: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("A"):
            v = T.axis.spatial(8, i)
            T.where(T.float32(0) < A[i])
            T.reads(A[v])
            T.writes(A[v])
            A[v] = T.float32(0) - A[v]
""")
    sch = check_schedule(func, lambda s: s.cache_inplace("A", 0, "local"))
    assert sch.mod.script().count("T.where") == 1


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_symbolic_sizes_unit_axes_and_nested_blocks(dtype: str) -> None:
    func = from_source(f"""
@T.prim_func
def main(a: T.handle):
    n = T.int{dtype[3:]}()
    A = T.match_buffer(a, (1, n))
    for u, i in T.grid(1, n):
        with T.block("outer"):
            vu, vi = T.axis.remap("SS", [u, i])
            for k in range(3):
                with T.block("inner"):
                    vk = T.axis.opaque(3, k)
                    A[vu, vi] = A[vu, vi] * T.float32(2) + T.float32(1)
""")
    for name in ("outer", "inner"):
        check_schedule(func, lambda s, name=name: s.cache_inplace(name, 0, "local"), sizes={"n": 7})


def test_what_cannot_be_copied_is_refused() -> None:
    rejects(update, lambda s: s.cache_inplace("B", 0, "local"), "reads `A` but does not write it", ["B"])
    rejects(update, lambda s: s.cache_inplace("A", 2, "local"), "no read number 2", ["A"])
    rejects(update, lambda s: s.cache_inplace("A", 0, "nowhere"), "no storage scope")
    rejects(update, lambda s: s.cache_inplace("root", 0, "local"), "root")

    def lanes(s: Schedule) -> None:
        _, j = s.get_loops("A")
        s.vectorize(j)
        s.cache_inplace("A", 0, "local")

    rejects(update, lanes, "is vectorized", ["j"])


def test_positions_that_depend_on_data_and_second_regions_are_refused() -> None:
    func = from_source("""
@T.prim_func
def main(P: T.Buffer((8,), "int32"), A: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("A"):
            v = T.axis.opaque(8, i)
            T.reads(P[v], A[P[v]])
            T.writes(A[P[v]])
            A[P[v]] = A[P[v]] + T.float32(1)
""")
    rejects(func, lambda s: s.cache_inplace("A", "A", "local"), "depends on data", ["A"])
    func = from_source("""
@T.prim_func
def main(A: T.Buffer((16,), "float32")):
    for i in range(8):
        with T.block("A"):
            v = T.axis.opaque(8, i)
            T.reads(A[v], A[v + 8])
            T.writes(A[v], A[v + 8])
            A[v] = A[v + 8]
            A[v + 8] = A[v]
""")
    rejects(func, lambda s: s.cache_inplace("A", 0, "local"), "2 regions of `A`", ["A"])


def test_a_second_name_for_the_same_memory_is_refused() -> None:
    func = from_source("""
@T.prim_func
def main(A: T.Buffer((16,), "float32")):
    with T.block("root"):
        V = T.match_buffer(A[0:16], (16,), offset_factor=1)
        for i in range(8):
            with T.block("A"):
                v = T.axis.opaque(8, i)
                T.reads(A[v], V[v])
                T.writes(A[v])
                A[v] = V[v] + A[v]
""")
    rejects(func, lambda s: s.cache_inplace("A", "A", "local"), "as `V` too", ["A"])


def test_a_block_around_declares_to_read_what_is_copied() -> None:
    func = from_source("""
@T.prim_func
def main(A: T.Buffer((9,), "float32")):
    for i in range(1, 9):
        with T.block("A"):
            v = T.axis.opaque((1, 9), i)
            A[v] = A[v - 1]
""")
    check_schedule(func, lambda s: s.cache_inplace("A", 0, "local"))

    def in_a_block(s: Schedule) -> None:
        s.blockize(s.get_loops("A")[0])
        s.cache_inplace("A", 0, "local")

    rejects(func, in_a_block, "the copy would read `A.*` writes but does not declare to read", ["A_o", "A"])


def test_a_part_of_a_loop_declares_to_read_what_is_copied() -> None:
    func = from_source("""
@T.prim_func
def main(A: T.Buffer((8, 4), "int32"), B: T.Buffer((8, 4), "int32")):
    for i, j in T.grid(8, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + T.if_then_else(vi > 0, B[vi - 1, vj], 0)
""")

    def in_parts(s: Schedule) -> None:
        s.loop_partition(s.get_loops("B")[1], [1, None])
        s.cache_inplace(
            s.get_child_blocks(s.get_child_blocks(s.get_child_blocks(s.get_block("root"))[0])[0])[0], 1, "local"
        )

    rejects(func, in_parts, "the copy would read `B.*` writes but does not declare to read")
    check_schedule(func, lambda s: s.cache_inplace("B", 1, "local"))
