"""read_at and write_at: where the copy stands, what it copies, who uses it, and what is refused."""

from __future__ import annotations

import pytest

from tests.schedule.check import check_schedule, rejects
from tscript.parser import from_source
from tscript.schedule import Schedule
from tscript.script import tir as T


@T.prim_func
def tiled(A: T.Buffer((32, 32), "float32"), B: T.Buffer((32, 32), "float32"), C: T.Buffer((32, 32), "float32")):
    D = T.alloc_buffer((32, 32))
    for i, j in T.grid(32, 32):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = A[vi, vj] + T.float32(1)
    for i0, j0, k0 in T.grid(4, 4, 4):
        for i, j, k in T.grid(8, 8, 8):
            with T.block("C"):
                vi = T.axis.spatial(32, i0 * 8 + i)
                vj = T.axis.spatial(32, j0 * 8 + j)
                vk = T.axis.reduce(32, k0 * 8 + k)
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + D[vi, vk] * B[vk, vj]


def test_tiles_are_copied_where_a_loop_needs_them() -> None:
    def steps(s: Schedule) -> None:
        loops = s.get_loops("C")
        first = s.read_at(loops[2], "C", 0, "shared.dyn")
        assert s.get(first).name_hint == "D_shared.dyn"
        s.read_at(loops[2], s.get_block("C"), "B", "shared.dyn")
        s.write_at(loops[1], "C", 0, "local")

    sch = check_schedule(
        tiled,
        steps,
        """
@T.prim_func
def main(A: T.Buffer((32, 32), "float32"), B: T.Buffer((32, 32), "float32"), C: T.Buffer((32, 32), "float32")):
    D = T.alloc_buffer((32, 32))
    D_shared_dyn = T.alloc_buffer((32, 32), scope="shared.dyn")
    B_shared_dyn = T.alloc_buffer((32, 32), scope="shared.dyn")
    C_local = T.alloc_buffer((32, 32), scope="local")
    for i, j in T.grid(32, 32):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = A[vi, vj] + T.float32(1)
    for i0, j0 in T.grid(4, 4):
        for k0 in range(4):
            with T.block("D_shared.dyn"):
                v0, v1 = T.axis.remap("SS", [i0, k0])
                T.reads(D[v0 * 8:v0 * 8 + 8, v1 * 8:v1 * 8 + 8])
                T.writes(D_shared_dyn[v0 * 8:v0 * 8 + 8, v1 * 8:v1 * 8 + 8])
                T.block_attr({"auto_copy": 1})
                for ax0, ax1 in T.grid(8, 8):
                    D_shared_dyn[v0 * 8 + ax0, v1 * 8 + ax1] = D[v0 * 8 + ax0, v1 * 8 + ax1]
            with T.block("B_shared.dyn"):
                v0, v1 = T.axis.remap("SS", [j0, k0])
                T.reads(B[v1 * 8:v1 * 8 + 8, v0 * 8:v0 * 8 + 8])
                T.writes(B_shared_dyn[v1 * 8:v1 * 8 + 8, v0 * 8:v0 * 8 + 8])
                T.block_attr({"auto_copy": 1})
                for ax0, ax1 in T.grid(8, 8):
                    B_shared_dyn[v1 * 8 + ax0, v0 * 8 + ax1] = B[v1 * 8 + ax0, v0 * 8 + ax1]
            for i, j, k in T.grid(8, 8, 8):
                with T.block("C"):
                    vi = T.axis.spatial(32, i0 * 8 + i)
                    vj = T.axis.spatial(32, j0 * 8 + j)
                    vk = T.axis.reduce(32, k0 * 8 + k)
                    with T.init():
                        C_local[vi, vj] = T.float32(0)
                    C_local[vi, vj] = C_local[vi, vj] + D_shared_dyn[vi, vk] * B_shared_dyn[vk, vj]
        with T.block("C_local"):
            v0, v1 = T.axis.remap("SS", [i0, j0])
            T.reads(C_local[v0 * 8:v0 * 8 + 8, v1 * 8:v1 * 8 + 8])
            T.writes(C[v0 * 8:v0 * 8 + 8, v1 * 8:v1 * 8 + 8])
            T.block_attr({"auto_copy": 1})
            for ax0, ax1 in T.grid(8, 8):
                C[v0 * 8 + ax0, v1 * 8 + ax1] = C_local[v0 * 8 + ax0, v1 * 8 + ax1]
""",
    )
    line = next(line for line in str(sch.trace).splitlines() if "read_buffer_index=1" in line)
    assert line.strip() == 'b10 = sch.read_at(loop=l3, block=b9, read_buffer_index=1, storage_scope="shared.dyn")'
    kinds = [i[0] for i in sch.trace.as_json()[0]]
    assert kinds.count("ReadAt") == 2 and kinds.count("WriteAt") == 1
    last = sch.trace.as_json()[0][-1]
    assert len(last[1]) == 2 and last[2] == [0, "local"]


PIPE = """
@T.prim_func
def main(A: T.Buffer((10, 6), "float32"), C: T.Buffer((10, 6), "float32"), E: T.Buffer((10, 6), "float32")):
    B = T.alloc_buffer((10, 6))
    for i in range(10):
        for j in range(6):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(2)
        for j in range(6):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vj] + A[vi, vj]
        for j in range(6):
            with T.block("E"):
                vi, vj = T.axis.remap("SS", [i, j])
                E[vi, vj] = B[vi, vj] * A[vi, 5 - vj]
"""


def test_all_readers_after_the_copy_use_it() -> None:
    sch = check_schedule(from_source(PIPE), lambda s: s.read_at(s.get_loops("C")[0], "C", "B", "local"))
    text = sch.mod.script()
    assert "B_local[vi, vj] + A" in text and "B_local[vi, vj] * A" in text
    assert text.index('T.block("B")') < text.index('T.block("B_local")') < text.index('T.block("C")')
    sch = check_schedule(from_source(PIPE), lambda s: s.read_at(s.get_loops("C")[0], "E", "A", "local"))
    text = sch.mod.script()
    assert text.index('T.block("A_local")') < text.index('T.block("B")')
    assert " A[vi" not in text[text.index('T.block("B")') :]


def test_a_result_is_copied_back_behind_its_writer_and_before_later_readers() -> None:
    sch = check_schedule(from_source(PIPE), lambda s: s.write_at(s.get_loops("C")[0], "B", 0, "local"))
    text = sch.mod.script()
    assert text.index('T.block("B")') < text.index('T.block("B_local")') < text.index('T.block("C")')
    assert "B_local[vi, vj] = A[vi, vj]" in text and "C[vi, vj] = B[vi, vj]" in text


def test_loops_that_overhang_copy_only_what_is_there() -> None:
    def steps(s: Schedule) -> None:
        i, _ = s.split(s.get_loops("C")[0], [3, 4])
        s.read_at(i, "B", 0, "local")
        s.write_at(i, "E", 0, "local")

    sch = check_schedule(from_source(PIPE), steps)
    text = sch.mod.script()
    assert "if v0 * 4 + ax0 < 10" in text
    assert text.count("for ax0, ax1 in T.grid(4, 6)") == 2


def test_an_initialization_of_its_own_and_its_update_share_the_new_buffer() -> None:
    def steps(s: Schedule) -> None:
        loops = s.get_loops("C")
        s.decompose_reduction("C", loops[2])
        s.write_at(loops[1], "C_update", 0, "local")

    sch = check_schedule(tiled, steps)
    assert "C_local[vi, vj] = T.float32(0" in sch.mod.script()


def test_sums_that_go_on_and_values_from_before_are_refused() -> None:
    rejects(
        tiled, lambda s: s.write_at(s.get_loops("C")[2], "C", 0, "local"), "goes on accumulating", ["C", "k0", "k0"]
    )

    def split_off(s: Schedule) -> None:
        loops = s.get_loops("C")
        s.decompose_reduction("C", loops[2])
        s.write_at(loops[2], "C_update", 0, "local")

    rejects(tiled, split_off, "held before the iteration", ["C_update", "k0"])
    in_place = from_source("""
@T.prim_func
def main(A: T.Buffer((8, 4), "float32")):
    for i, j in T.grid(8, 4):
        with T.block("A"):
            vi, vj = T.axis.remap("SS", [i, j])
            A[vi, vj] = A[vi, vj] + T.float32(1)
""")
    rejects(in_place, lambda s: s.write_at(s.get_loops("A")[0], "A", 0, "local"), "held before", ["A", "i"])
    rejects(in_place, lambda s: s.read_at(s.get_loops("A")[0], "A", 0, "local"), "after it has been copied", ["A", "i"])


def test_what_is_written_in_part_is_refused() -> None:
    strided = from_source("""
@T.prim_func
def main(A: T.Buffer((8, 4), "float32"), B: T.Buffer((8, 8), "float32")):
    for i, j in T.grid(8, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj * 2] = A[vi, vj]
""")
    rejects(strided, lambda s: s.write_at(s.get_loops("B")[0], "B", 0, "local"), "does not write", ["B", "i"])
    check_schedule(strided, lambda s: s.write_at(s.get_loops("B")[1], "B", 0, "local"))
    halves = from_source("""
@T.prim_func
def main(A: T.Buffer((8, 4), "float32"), B: T.Buffer((8, 8), "float32")):
    for i in range(8):
        for j in range(4):
            with T.block("left"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj]
        for j in range(4):
            with T.block("right"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj + 4] = A[vi, vj]
""")
    rejects(halves, lambda s: s.write_at(s.get_loops("left")[0], "left", 0, "local"), "different parts")


def test_positions_that_depend_on_data_copy_whole_dimensions() -> None:
    func = from_source("""
@T.prim_func
def main(P: T.Buffer((8,), "int32"), A: T.Buffer((8, 5), "float32"), B: T.Buffer((8, 5), "float32")):
    for i, j in T.grid(8, 5):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(P[vi], A[T.min(T.max(P[vi], 0), 7), vj])
            T.writes(B[vi, vj])
            B[vi, vj] = A[T.min(T.max(P[vi], 0), 7), vj]
""")
    sch = check_schedule(func, lambda s: s.read_at(s.get_loops("B")[0], "B", "A", "local"))
    assert "for ax0, ax1 in T.grid(8, 5)" in sch.mod.script()


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_symbolic_sizes_unit_loops_and_loops_that_depend_on_others(dtype: str) -> None:
    func = from_source(f"""
@T.prim_func
def main(a: T.handle, b: T.handle):
    n = T.int{dtype[3:]}()
    A = T.match_buffer(a, (1, n, n))
    B = T.match_buffer(b, (1, n, n))
    for u, i, j in T.grid(1, n, n):
        with T.block("B"):
            vu, vi, vj = T.axis.remap("SSS", [u, i, j])
            B[vu, vi, vj] = A[vu, vj, vi] * T.float32(2)
""")
    for depth in (0, 1, 2):

        def steps(s: Schedule, depth: int = depth) -> None:
            loop = s.get_loops("B")[depth]
            s.read_at(loop, "B", 0, "shared")
            s.write_at(loop, "B", 0, "shared")

        check_schedule(func, steps, sizes={"n": 5})
    triangle = from_source("""
@T.prim_func
def main(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):
    for i in range(8):
        for j in range(i + 1):
            for k in range(1):
                with T.block("B"):
                    vi = T.axis.spatial(8, i)
                    vj = T.axis.spatial(8, j)
                    B[vi, vj] = A[vi, vj]
""")
    check_schedule(triangle, lambda s: s.read_at(s.get_loops("B")[1], "B", 0, "local"))
    check_schedule(triangle, lambda s: s.read_at(s.get_loops("B")[0], "B", 0, "local"))


def test_threads_lanes_and_strange_loops() -> None:
    def private(s: Schedule) -> None:
        i, j, *_ = s.get_loops("D")
        s.bind(j, "threadIdx.x")
        s.read_at(i, "D", 0, "local")

    rejects(tiled, private, "`local` memory of its own", ["j", "i"])

    def shared(s: Schedule) -> None:
        i, j, *_ = s.get_loops("D")
        s.bind(j, "threadIdx.x")
        s.read_at(i, "D", 0, "shared")

    check_schedule(tiled, shared, native=False)

    def lanes(s: Schedule) -> None:
        j = s.get_loops("D")[1]
        s.vectorize(j)
        s.read_at(j, "D", 0, "local")

    rejects(tiled, lanes, "is vectorized", ["j"])
    rejects(tiled, lambda s: s.read_at(s.get_loops("D")[0], "C", 0, "local"), "none of the loops around", ["i", "C"])
    rejects(tiled, lambda s: s.read_at(s.get_loops("D")[0], "D", 4, "local"), "no read number 4", ["D"])
    rejects(tiled, lambda s: s.write_at(s.get_loops("D")[0], "D", "A", "local"), "does not write `A`", ["D"])
    rejects(tiled, lambda s: s.write_at(s.get_loops("D")[0], "D", 0, "attic"), "no storage scope")


def test_inner_blocks_follow_the_copy_of_the_outer_one() -> None:
    nested = from_source("""
@T.prim_func
def main(A: T.Buffer((8, 4), "float32"), B: T.Buffer((8, 4), "float32")):
    for i in range(8):
        with T.block("outer"):
            vi = T.axis.spatial(8, i)
            for j in range(4):
                with T.block("inner"):
                    vj = T.axis.spatial(4, j)
                    B[vi, vj] = A[vi, vj] * T.float32(3)
""")

    def steps(s: Schedule) -> None:
        s.read_at(s.get_loops("outer")[0], "outer", 0, "local")
        s.write_at(s.get_loops("inner")[0], "inner", 0, "local")

    check_schedule(nested, steps)


def test_a_copy_that_depends_on_loops_beyond_a_block_without_axes_is_refused():
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
        s.read_at(s.get_loops("C_k1")[0], "C_k1", 1, "global")

    rejects(total, steps, r"depends on the loop `i` outside")


GUARDED = """
@T.prim_func
def main(A: T.Buffer((24,), "int32"), C: T.Buffer((24,), "int32")):
    with T.block("part"):
        T.reads({reads})
        T.writes(C[2:12])
        for i, j in T.grid(3, 4):
            with T.block("C"):
                T.where(i * 4 + j < 10)
                v = T.axis.spatial({extent}, i * 4 + j)
                C[v + 2] = A[v + 1] * 2
"""


@pytest.mark.parametrize("extent", [10, 12])
@pytest.mark.parametrize("loop", [0, 1])
def test_what_a_condition_or_a_block_around_leaves_out_is_not_copied(extent, loop):
    func = from_source(GUARDED.format(reads="A[1:11]", extent=extent))
    check_schedule(func, lambda s: s.read_at(s.get_loops("C")[loop], "C", 0, "local"))
    check_schedule(func, lambda s: s.cache_read("C", 0, "local"))


def test_a_copy_keeps_to_one_of_several_regions_that_a_block_around_declares():
    func = from_source(GUARDED.format(reads="A[1:5], A[5:11]", extent=10))
    for loop in (0, 1):
        check_schedule(func, lambda s, k=loop: s.read_at(s.get_loops("C")[k], "C", 0, "local"))
    check_schedule(func, lambda s: s.cache_read("C", 0, "local"))
    check_schedule(func, lambda s: s.reindex("C", ("read", 0)))
    check_schedule(func, lambda s: s.reindex_cache_read("C", 0, "local", lambda i: i))


def test_a_loop_cut_in_parts_and_split_unevenly_copies_what_its_part_reads():
    func = from_source("""
@T.prim_func
def main(A: T.Buffer((8, 4), "int32"), B: T.Buffer((8, 4), "int32")):
    for i, j in T.grid(8, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + 1
""")

    def cut(s: Schedule, place: int) -> None:
        s.loop_partition(s.get_loops("B")[0], [1, None])
        s.split(s.get_loops("B_i0")[0], [None, 3])
        s.read_at(s.get_loops("B_i0")[place], "B_i0", 0, "local")

    for place in range(3):
        check_schedule(func, lambda s, k=place: cut(s, k))


def test_readers_under_different_conditions_share_what_both_leave_out():
    func = from_source("""
@T.prim_func
def main(A: T.Buffer((16,), "int32"), C: T.Buffer((16,), "int32"), D: T.Buffer((16,), "int32")):
    with T.block("part"):
        T.reads(A[0:12])
        T.writes(C[0:10], D[0:12])
        for i in range(16):
            with T.block("C"):
                T.where(i < 10)
                v = T.axis.spatial(16, i)
                C[v] = A[v] * 2
            with T.block("D"):
                T.where(i < 12)
                v = T.axis.spatial(16, i)
                D[v] = A[v] + 1
""")
    check_schedule(func, lambda s: s.read_at(s.get_loops("C")[0], "C", 0, "local"))
