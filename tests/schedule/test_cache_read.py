"""cache_read: where the copy stands, what it copies, who reads it, and what is refused."""

from __future__ import annotations

from tests.schedule.check import check_schedule, rejects
from tscript.parser import from_source
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


def test_an_argument_is_copied_whole_at_the_start():
    def steps(s: Schedule) -> None:
        copy = s.cache_read("dbl", 0, "shared.dyn")
        assert s.get(copy).name_hint == "X_shared.dyn"

    check_schedule(
        two,
        steps,
        """
@T.prim_func
def main(X: T.Buffer((8, 12), "float32"), Z: T.Buffer((8, 12), "float32")):
    Y = T.alloc_buffer((8, 12))
    X_shared_dyn = T.alloc_buffer((8, 12), scope="shared.dyn")
    for ax0, ax1 in T.grid(8, 12):
        with T.block("X_shared.dyn"):
            v0, v1 = T.axis.remap("SS", [ax0, ax1])
            T.reads(X[v0, v1])
            T.writes(X_shared_dyn[v0, v1])
            X_shared_dyn[v0, v1] = X[v0, v1]
    for i, j in T.grid(8, 12):
        with T.block("dbl"):
            vi, vj = T.axis.remap("SS", [i, j])
            Y[vi, vj] = X_shared_dyn[vi, vj] * T.float32(2)
    for i, j in T.grid(8, 12):
        with T.block("inc"):
            vi, vj = T.axis.remap("SS", [i, j])
            Z[vi, vj] = Y[vi, vj] + T.float32(1)
""",
    )


def test_an_intermediate_is_copied_between_its_writer_and_its_first_reader():
    check_schedule(
        two,
        lambda s: s.cache_read("inc", "Y", "local"),
        """
@T.prim_func
def main(X: T.Buffer((8, 12), "float32"), Z: T.Buffer((8, 12), "float32")):
    Y = T.alloc_buffer((8, 12))
    Y_local = T.alloc_buffer((8, 12), scope="local")
    for i, j in T.grid(8, 12):
        with T.block("dbl"):
            vi, vj = T.axis.remap("SS", [i, j])
            Y[vi, vj] = X[vi, vj] * T.float32(2)
    for ax0, ax1 in T.grid(8, 12):
        with T.block("Y_local"):
            v0, v1 = T.axis.remap("SS", [ax0, ax1])
            T.reads(Y[v0, v1])
            T.writes(Y_local[v0, v1])
            Y_local[v0, v1] = Y[v0, v1]
    for i, j in T.grid(8, 12):
        with T.block("inc"):
            vi, vj = T.axis.remap("SS", [i, j])
            Z[vi, vj] = Y_local[vi, vj] + T.float32(1)
""",
    )


NESTED = """
@T.prim_func
def main(X: T.Buffer((8, 12), "float32"), Z: T.Buffer((8, 12), "float32")):
    Y = T.alloc_buffer((8, 12))
    for i in range(8):
        for j in range(12):
            with T.block("dbl"):
                vi, vj = T.axis.remap("SS", [i, j])
                Y[vi, vj] = X[vi, vj] * T.float32(2)
        for j in range(12):
            with T.block("inc"):
                vi, vj = T.axis.remap("SS", [i, j])
                Z[vi, vj] = Y[vi, vj] + T.float32(1)
"""


def test_in_a_shared_loop_one_iteration_is_copied_into_a_cache_of_full_size():
    check_schedule(
        from_source(NESTED),
        lambda s: s.cache_read("inc", 0, "shared"),
        """
@T.prim_func
def main(X: T.Buffer((8, 12), "float32"), Z: T.Buffer((8, 12), "float32")):
    Y = T.alloc_buffer((8, 12))
    Y_shared = T.alloc_buffer((8, 12), scope="shared")
    for i in range(8):
        for j in range(12):
            with T.block("dbl"):
                vi, vj = T.axis.remap("SS", [i, j])
                Y[vi, vj] = X[vi, vj] * T.float32(2)
        for ax0, ax1 in T.grid(1, 12):
            with T.block("Y_shared"):
                v0 = T.axis.spatial(8, i + ax0)
                v1 = T.axis.spatial(12, ax1)
                T.reads(Y[v0, v1])
                T.writes(Y_shared[v0, v1])
                Y_shared[v0, v1] = Y[v0, v1]
        for j in range(12):
            with T.block("inc"):
                vi, vj = T.axis.remap("SS", [i, j])
                Z[vi, vj] = Y_shared[vi, vj] + T.float32(1)
""",
    )


def test_under_a_loop_that_overhangs_the_copy_is_guarded():
    @T.prim_func
    def func(X: T.Buffer((10,), "float32"), Z: T.Buffer((10,), "float32")):
        Y = T.alloc_buffer((10,))
        for i_0 in range(3):
            for i_1 in range(4):
                with T.block("dbl"):
                    v = T.axis.spatial(10, i_0 * 4 + i_1)
                    T.where(i_0 * 4 + i_1 < 10)
                    Y[v] = X[v] * T.float32(2)
            for i_1 in range(4):
                with T.block("inc"):
                    v = T.axis.spatial(10, i_0 * 4 + i_1)
                    T.where(i_0 * 4 + i_1 < 10)
                    Z[v] = Y[v] + T.float32(1)

    sch = check_schedule(func, lambda s: s.cache_read("inc", 0, "local"))
    text = sch.mod.script()
    assert "for ax0 in range(4)" in text
    assert "T.where(i_0 * 4 + ax0 < 10)" in text


def test_where_only_part_is_written_the_cache_is_that_part():
    @T.prim_func
    def func(X: T.Buffer((6,), "float32"), Z: T.Buffer((6,), "float32")):
        Y = T.alloc_buffer((16,))
        for i in range(6):
            with T.block("dbl"):
                v = T.axis.spatial(6, i)
                Y[v + 4] = X[v] * T.float32(2)
        for i in range(6):
            with T.block("inc"):
                v = T.axis.spatial(6, i)
                Z[v] = Y[v + 4] + T.float32(1)

    check_schedule(
        func,
        lambda s: s.cache_read("inc", 0, "local"),
        """
@T.prim_func
def main(X: T.Buffer((6,), "float32"), Z: T.Buffer((6,), "float32")):
    Y = T.alloc_buffer((16,))
    Y_local = T.alloc_buffer((6,), scope="local")
    for i in range(6):
        with T.block("dbl"):
            v = T.axis.spatial(6, i)
            Y[v + 4] = X[v] * T.float32(2)
    for ax0 in range(6):
        with T.block("Y_local"):
            v0 = T.axis.spatial(6, ax0)
            T.reads(Y[4 + v0])
            T.writes(Y_local[v0])
            Y_local[v0] = Y[4 + v0]
    for i in range(6):
        with T.block("inc"):
            v = T.axis.spatial(6, i)
            Z[v] = Y_local[v] + T.float32(1)
""",
    )


def test_inside_a_block_what_it_declares_to_read_is_copied():
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

    check_schedule(
        func,
        lambda s: s.cache_read("inner", 0, "local"),
        """
@T.prim_func
def main(X: T.Buffer((8, 12), "float32"), Z: T.Buffer((8, 12), "float32")):
    for i, j_0 in T.grid(8, 3):
        with T.block("outer"):
            vi, vj_o = T.axis.remap("SS", [i, j_0])
            T.reads(X[vi, vj_o * 4 : vj_o * 4 + 4])
            T.writes(Z[vi, vj_o * 4 : vj_o * 4 + 4])
            X_local = T.alloc_buffer((1, 4), scope="local")
            for ax0, ax1 in T.grid(1, 4):
                with T.block("X_local"):
                    v0, v1 = T.axis.remap("SS", [ax0, ax1])
                    T.reads(X[vi + v0, vj_o * 4 + v1])
                    T.writes(X_local[v0, v1])
                    X_local[v0, v1] = X[vi + v0, vj_o * 4 + v1]
            for j_1 in range(4):
                with T.block("inner"):
                    vj_i = T.axis.spatial(4, j_1)
                    T.reads(X_local[0, vj_i])
                    T.writes(Z[vi, vj_o * 4 + vj_i])
                    Z[vi, vj_o * 4 + vj_i] = X_local[0, vj_i] + T.float32(1)
""",
    )


# -- who reads the copy -------------------------------------------------------------------------------


@T.prim_func
def fan_out(X: T.Buffer((8,), "float32"), Z: T.Buffer((8,), "float32"), W: T.Buffer((8,), "float32")):
    Y = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("Y"):
            v = T.axis.spatial(8, i)
            Y[v] = X[v]
    for i in range(8):
        with T.block("Z"):
            v = T.axis.spatial(8, i)
            Z[v] = Y[v] + X[v]
    for i in range(8):
        with T.block("W"):
            v = T.axis.spatial(8, i)
            W[v] = Y[v] * X[v]


def test_without_consumer_blocks_all_later_readers_use_the_copy():
    sch = check_schedule(fan_out, lambda s: s.cache_read("Z", "Y", "local"))
    assert [sch.get(b).name_hint for b in sch.get_consumers(sch.get_block("Y_local"))] == ["Z", "W"]


def test_with_consumer_blocks_only_those_use_it_and_the_copy_stands_before_them():
    def steps(s: Schedule) -> None:
        s.cache_read("W", "Y", "local", consumer_blocks=["W"])

    sch = check_schedule(fan_out, steps)
    text = sch.mod.script()
    assert "Z[v] = Y[v] + X[v]" in text and "W[v] = Y_local[v] * X[v]" in text
    assert text.index('T.block("Z")') < text.index('T.block("Y_local")') < text.index('T.block("W")')
    assert str(sch.trace).endswith(
        '  b2 = sch.cache_read(block=b0, read_buffer_index=0, storage_scope="local", consumer_blocks=[b1])'
    )


def test_subscripts_and_declared_reads_use_the_copy_too():
    @T.prim_func
    def gather(A: T.Buffer((9, 4), "float32"), B: T.Buffer((6,), "int32"), C: T.Buffer((6, 4), "float32")):
        for i, j in T.grid(6, 4):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = A[B[vi] % 9, vj]

    def steps(s: Schedule) -> None:
        s.cache_read("C", "B", "global")

    sch = check_schedule(gather, steps)
    text = sch.mod.script()
    assert "T.reads(A[B_global[vi] % 9, vj], B_global[vi])" in text
    assert "C[vi, vj] = A[B_global[vi] % 9, vj]" in text


def test_views_in_consumers_are_views_of_the_copy():
    @T.prim_func
    def func(X: T.Buffer((8, 4), "float32"), Z: T.Buffer((8, 4), "float32")):
        for i in range(8):
            with T.block("Z"):
                vi = T.axis.spatial(8, i)
                T.reads(X[vi, 0:4])
                T.writes(Z[vi, 0:4])
                V = T.match_buffer(X[vi, 0:4], (4,), offset_factor=1)
                for j in range(4):
                    Z[vi, j] = V[j] + T.float32(1)

    sch = check_schedule(func, lambda s: s.cache_read("Z", 0, "global"))
    assert "T.match_buffer(X_global[vi, 0:4], (4,)" in sch.mod.script()


def test_symbolic_sizes_and_wide_indices_work():
    @T.prim_func
    def func(x: T.handle, z: T.handle, n: T.int64):
        X = T.match_buffer(x, (n, 3), "int8")
        Z = T.match_buffer(z, (n, 3), "int8")
        Y = T.alloc_buffer((n, 3), "int8")
        for i, j in T.grid(n, 3):
            with T.block("Y"):
                vi, vj = T.axis.remap("SS", [i, j])
                Y[vi, vj] = X[vi, vj]
        for i, j in T.grid(n, 3):
            with T.block("Z"):
                vi, vj = T.axis.remap("SS", [i, j])
                Z[vi, vj] = Y[vi, vj]

    def steps(s: Schedule) -> None:
        s.cache_read("Y", 0, "local")
        s.cache_read("Z", 0, "local")

    for n in (0, 1, 4):
        check_schedule(func, steps, sizes={"n": n})


def test_a_buffer_without_dimensions_is_copied_by_a_block_without_loops():
    @T.prim_func
    def func(X: T.Buffer((), "float32"), Z: T.Buffer((), "float32")):
        Y = T.alloc_buffer(())
        with T.block("Y"):
            Y[()] = X[()]
        with T.block("Z"):
            Z[()] = Y[()] + T.float32(1)

    check_schedule(func, lambda s: s.cache_read("Z", 0, "local"))


def test_a_strided_argument_gets_a_compact_copy():
    @T.prim_func
    def func(x: T.handle, Z: T.Buffer((8,), "float32")):
        X = T.match_buffer(x, (8,), strides=(1,), offset_factor=1)
        for i in range(8):
            with T.block("Z"):
                v = T.axis.spatial(8, i)
                Z[v] = X[v]

    sch = check_schedule(func, lambda s: s.cache_read("Z", 0, "local"))
    assert 'X_local = T.alloc_buffer((8,), scope="local")' in sch.mod.script()


# -- refused ------------------------------------------------------------------------------------------


def test_wrong_arguments_are_refused():
    rejects(two, lambda s: s.cache_read("dbl", 1, "local"), "no read number 1.*\n.*0: X", ["dbl"])
    rejects(two, lambda s: s.cache_read("dbl", "Z", "local"), "does not read `Z`", ["dbl"])
    rejects(two, lambda s: s.cache_read("dbl", 0, "registers"), "no storage scope 'registers'", [])
    rejects(two, lambda s: s.cache_read("root", 0, "local"), "root of its function", ["root"])
    rejects(two, lambda s: s.cache_read("dbl", 0.5, "local"), "index, its name", error=TypeError)
    rejects(two, lambda s: s.cache_read("dbl", 0, "local", ["inc"]), "does not read `X`", ["inc", "root"])


def test_several_writers_are_refused():
    @T.prim_func
    def func(X: T.Buffer((8,), "float32"), Z: T.Buffer((8,), "float32")):
        Y = T.alloc_buffer((8,))
        for i in range(4):
            with T.block("low"):
                v = T.axis.spatial(4, i)
                Y[v] = X[v]
        for i in range(4):
            with T.block("high"):
                v = T.axis.spatial(4, i)
                Y[v + 4] = X[v + 4]
        for i in range(8):
            with T.block("Z"):
                v = T.axis.spatial(8, i)
                Z[v] = Y[v]

    rejects(func, lambda s: s.cache_read("Z", 0, "local"), "several blocks", ["low", "high"])


def test_a_reader_that_is_not_covered_or_comes_before_the_writer_is_refused():
    @T.prim_func
    def func(X: T.Buffer((8,), "float32"), Z: T.Buffer((8,), "float32")):
        Y = T.alloc_buffer((9,))
        for i in range(8):
            with T.block("Y"):
                v = T.axis.spatial(8, i)
                Y[v + 1] = X[v]
            with T.block("Z"):
                v = T.axis.spatial(8, i)
                Z[v] = Y[v]

    rejects(func, lambda s: s.cache_read("Z", 0, "local"), "have not written", ["Z"])

    @T.prim_func
    def early(X: T.Buffer((8,), "float32"), Z: T.Buffer((8,), "float32")):
        for i in range(8):
            with T.block("Z"):
                v = T.axis.spatial(8, i)
                Z[v] = X[v]
        for i in range(8):
            with T.block("X"):
                v = T.axis.spatial(8, i)
                X[v] = T.float32(0)

    rejects(early, lambda s: s.cache_read("Z", 0, "local"), "before", ["Z", "X"])
