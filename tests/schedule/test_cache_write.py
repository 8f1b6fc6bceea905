"""cache_write: the new buffer, the copy back of exactly what was written, and what is refused."""

from __future__ import annotations

from tests.schedule.check import check_schedule, rejects
from tscript.schedule import Schedule
from tscript.script import tir as T


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


def test_an_intermediate_is_copied_back_before_its_reader():
    check_schedule(
        two,
        lambda s: s.cache_write("dbl", 0, "local"),
        """
@T.prim_func
def main(X: T.Buffer((8, 12), "float32"), Z: T.Buffer((8, 12), "float32")):
    Y = T.alloc_buffer((8, 12))
    Y_local = T.alloc_buffer((8, 12), scope="local")
    for i, j in T.grid(8, 12):
        with T.block("dbl"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(X[vi, vj])
            T.writes(Y_local[vi, vj])
            Y_local[vi, vj] = X[vi, vj] * T.float32(2.0)
    for ax0, ax1 in T.grid(8, 12):
        with T.block("Y_local"):
            v0, v1 = T.axis.remap("SS", [ax0, ax1])
            T.reads(Y_local[v0, v1])
            T.writes(Y[v0, v1])
            Y[v0, v1] = Y_local[v0, v1]
    for i, j in T.grid(8, 12):
        with T.block("inc"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(Y[vi, vj])
            T.writes(Z[vi, vj])
            Z[vi, vj] = Y[vi, vj] + T.float32(1.0)
""",
    )


def test_a_result_is_copied_back_at_the_end_and_init_and_reads_use_the_cache():
    @T.prim_func
    def row_sum(X: T.Buffer((8, 12), "float32"), Y: T.Buffer((8,), "float32")):
        for i, k in T.grid(8, 12):
            with T.block("sum"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    Y[vi] = T.float32(0)
                Y[vi] = Y[vi] + X[vi, vk]

    check_schedule(
        row_sum,
        lambda s: s.cache_write("sum", "Y", "global"),
        """
@T.prim_func
def main(X: T.Buffer((8, 12), "float32"), Y: T.Buffer((8,), "float32")):
    Y_global = T.alloc_buffer((8,))
    for i, k in T.grid(8, 12):
        with T.block("sum"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                Y_global[vi] = T.float32(0)
            Y_global[vi] = Y_global[vi] + X[vi, vk]
    for ax0 in range(8):
        with T.block("Y_global"):
            v0 = T.axis.spatial(8, ax0)
            T.reads(Y_global[v0])
            T.writes(Y[v0])
            Y[v0] = Y_global[v0]
""",
    )


def test_consumer_blocks_read_the_new_buffer():
    sch = check_schedule(two, lambda s: s.cache_write("dbl", 0, "local", consumer_blocks=["inc"]))
    text = sch.mod.script()
    assert "Z[vi, vj] = Y_local[vi, vj]" in text
    assert text.index('T.block("inc")') < text.index('T.block("Y_local")')


# -- exactly what was written -------------------------------------------------------------------------


def test_after_a_split_that_overhangs_the_extent_is_copied_back():
    @T.prim_func
    def func(X: T.Buffer((28,), "float32"), Y: T.Buffer((28,), "float32")):
        for i in range(28):
            with T.block("Y"):
                v = T.axis.spatial(28, i)
                Y[v] = X[v]

    def steps(s: Schedule) -> None:
        s.split(s.get_loops("Y")[0], [None, 16])
        copy = s.cache_write("Y", 0, "global")
        assert [s.get(loop).extent.value for loop in s.get_loops(copy)] == [28]

    check_schedule(func, steps)


def test_only_the_elements_under_the_guard_are_copied_back():
    @T.prim_func
    def func(X: T.Buffer((28,), "float32"), Y: T.Buffer((28,), "float32")):
        for i in range(28):
            with T.block("Y"):
                v = T.axis.spatial(28, i)
                T.where(2 <= i and i < 20)
                Y[v] = X[v]

    check_schedule(
        func,
        lambda s: s.cache_write("Y", 0, "global"),
        """
@T.prim_func
def main(X: T.Buffer((28,), "float32"), Y: T.Buffer((28,), "float32")):
    Y_global = T.alloc_buffer((18,))
    for i in range(28):
        with T.block("Y"):
            v = T.axis.spatial(28, i)
            T.where(2 <= i and i < 20)
            T.reads(X[v])
            T.writes(Y_global[v - 2])
            Y_global[v - 2] = X[v]
    for ax0 in range(18):
        with T.block("Y_global"):
            v0 = T.axis.spatial(18, ax0)
            T.reads(Y_global[v0])
            T.writes(Y[2 + v0])
            Y[2 + v0] = Y_global[v0]
""",
    )


def test_a_guard_with_a_symbolic_end_goes_along():
    @T.prim_func
    def func(X: T.Buffer((28,), "float32"), Y: T.Buffer((28,), "float32"), n: T.int32, m: T.int32):
        for i in range(28):
            with T.block("Y"):
                v = T.axis.spatial(28, i)
                T.where(i < n and m > 3)
                Y[v] = X[v]

    for n, m in ((5, 9), (40, 9), (5, 2)):
        check_schedule(func, lambda s: s.cache_write("Y", 0, "global"), sizes={"n": n, "m": m})


def test_inside_a_loop_the_copy_is_guarded_as_the_writer_is():
    @T.prim_func
    def func(X: T.Buffer((10,), "float32"), Y: T.Buffer((10,), "float32"), Z: T.Buffer((10,), "float32")):
        for i_0 in range(3):
            for i_1 in range(4):
                with T.block("Y"):
                    v = T.axis.spatial(10, i_0 * 4 + i_1)
                    T.where(i_0 * 4 + i_1 < 10)
                    Y[v] = X[v] * T.float32(2)
            for i_1 in range(4):
                with T.block("Z"):
                    v = T.axis.spatial(10, i_0 * 4 + i_1)
                    T.where(i_0 * 4 + i_1 < 10)
                    Z[v] = Y[v] + T.float32(1)

    sch = check_schedule(func, lambda s: s.cache_write("Y", 0, "local"))
    assert sch.mod.script().count("T.where(i_0 * 4 + ax0 < 10)") == 1


def test_a_condition_in_the_body_is_honoured_by_refusing():
    @T.prim_func
    def func(X: T.Buffer((8,), "float32"), Y: T.Buffer((8,), "float32")):
        for i in range(8):
            with T.block("Y"):
                v = T.axis.spatial(8, i)
                if v < 5:
                    Y[v] = X[v]

    rejects(func, lambda s: s.cache_write("Y", 0, "global"), "would overwrite", ["Y"])


def test_scattered_writes_to_a_result_are_refused_and_to_an_intermediate_copied_with_their_surroundings():
    @T.prim_func
    def func(X: T.Buffer((8,), "float32"), Y: T.Buffer((16,), "float32")):
        for i in range(8):
            with T.block("Y"):
                v = T.axis.spatial(8, i)
                Y[v * 2] = X[v]

    rejects(func, lambda s: s.cache_write("Y", 0, "global"), "would overwrite", ["Y"])

    @T.prim_func
    def local(X: T.Buffer((8,), "float32"), Z: T.Buffer((8,), "float32")):
        Y = T.alloc_buffer((16,))
        for i in range(8):
            with T.block("Y"):
                v = T.axis.spatial(8, i)
                Y[v * 2] = X[v]
        for i in range(8):
            with T.block("Z"):
                v = T.axis.spatial(8, i)
                Z[v] = Y[v * 2]

    check_schedule(local, lambda s: s.cache_write("Y", 0, "global"))


def test_a_blocked_nest_is_seen_to_write_all_it_declares():
    @T.prim_func
    def func(X: T.Buffer((8, 12), "float32"), Z: T.Buffer((8, 12), "float32")):
        for i, j_0 in T.grid(8, 3):
            with T.block("outer"):
                vi, vj_o = T.axis.remap("SS", [i, j_0])
                T.reads(X[vi, vj_o * 4 : vj_o * 4 + 4])
                T.writes(Z[vi, vj_o * 4 : vj_o * 4 + 4])
                for j_1 in range(4):
                    with T.block("inner"):
                        vj_i = T.axis.spatial(4, j_1)
                        Z[vi, vj_o * 4 + vj_i] = X[vi, vj_o * 4 + vj_i] + T.float32(1)

    check_schedule(func, lambda s: s.cache_write("outer", 0, "global"))
    check_schedule(func, lambda s: s.cache_write("inner", 0, "global"))

    @T.prim_func
    def gaps(X: T.Buffer((8, 12), "float32"), Z: T.Buffer((8, 12), "float32")):
        for i, j_0 in T.grid(8, 3):
            with T.block("outer"):
                vi, vj_o = T.axis.remap("SS", [i, j_0])
                T.reads(X[vi, vj_o * 4 : vj_o * 4 + 4])
                T.writes(Z[vi, vj_o * 4 : vj_o * 4 + 4])
                for j_1 in range(3):
                    with T.block("inner"):
                        vj_i = T.axis.spatial(4, j_1)
                        Z[vi, vj_o * 4 + vj_i] = X[vi, vj_o * 4 + vj_i] + T.float32(1)

    rejects(gaps, lambda s: s.cache_write("outer", 0, "global"), "would overwrite", ["outer"])
    check_schedule(gaps, lambda s: s.cache_write("inner", 0, "global"))


def test_symbolic_sizes_work():
    @T.prim_func
    def func(x: T.handle, z: T.handle, n: T.int64):
        X = T.match_buffer(x, (n, 3), "int8")
        Z = T.match_buffer(z, (n, 3), "int8")
        for i, j in T.grid(n, 3):
            with T.block("Z"):
                vi, vj = T.axis.remap("SS", [i, j])
                Z[vi, vj] = X[vi, vj]

    for n in (0, 1, 4):
        check_schedule(func, lambda s: s.cache_write("Z", 0, "local"), sizes={"n": n})


# -- refused ------------------------------------------------------------------------------------------


def test_wrong_arguments_are_refused():
    rejects(two, lambda s: s.cache_write("dbl", 1, "local"), "no write number 1.*\n.*0: Y", ["dbl"])
    rejects(two, lambda s: s.cache_write("dbl", "X", "local"), "does not write `X`", ["dbl"])
    rejects(two, lambda s: s.cache_write("dbl", 0, "stack"), "no storage scope 'stack'", [])
    rejects(two, lambda s: s.cache_write("root", 0, "local"), "root of its function", ["root"])
    rejects(two, lambda s: s.cache_write("inc", 0, "local", ["dbl"]), "does not read `Z`", ["dbl", "inc"])


def test_a_block_that_builds_on_earlier_contents_or_shares_its_buffer_is_refused():
    @T.prim_func
    def func(X: T.Buffer((8,), "float32"), Y: T.Buffer((8,), "float32")):
        for i in range(8):
            with T.block("Y"):
                v = T.axis.spatial(8, i)
                Y[v] = Y[v] + X[v]

    rejects(func, lambda s: s.cache_write("Y", 0, "global"), "builds on", ["Y"])

    @T.prim_func
    def row_sum(X: T.Buffer((8, 12), "float32"), Y: T.Buffer((8,), "float32")):
        for i, k in T.grid(8, 12):
            with T.block("sum"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    Y[vi] = T.float32(0)
                Y[vi] = Y[vi] + X[vi, vk]

    def steps(s: Schedule) -> None:
        s.decompose_reduction("sum", s.get_loops("sum")[1])
        s.cache_write("sum_update", 0, "global")

    rejects(row_sum, steps, "several blocks", ["sum_init", "sum_update"])


@T.prim_func
def carried(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    last = T.alloc_buffer((8,), "int32")
    for i in range(8):
        with T.block("take"):
            vi = T.axis.opaque(8, i)
            last[vi] = T.if_then_else(vi > 0, B[vi - 1], 0)
        with T.block("add"):
            vi = T.axis.opaque(8, i)
            B[vi] = A[vi] + last[vi]


def test_a_copy_back_after_the_loop_is_refused_where_a_block_in_it_reads_earlier_results():
    rejects(carried, lambda sch: sch.cache_write("add", 0, "shared"), match="would miss what earlier iterations")
    for steps in (
        lambda sch: sch.reindex_cache_write("add", 0, "shared", lambda i: i),
        lambda sch: sch.write_at(sch.get_loops("add")[0], "add", 0, "shared"),
    ):
        rejects(carried, steps, match="overwrites what block `take` reads before it")


def test_a_copy_back_in_the_loop_serves_what_reads_it_there():
    check_schedule(carried, lambda sch: sch.cache_write("take", 0, "shared"), regions=False)
