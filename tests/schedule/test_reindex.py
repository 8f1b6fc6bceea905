"""reindex, reindex_cache_read and reindex_cache_write: copies in the order of the axes of a block."""

from __future__ import annotations

from typing import Any

from tests.schedule.check import Packed, check_schedule, rejects
from tscript.schedule import Schedule
from tscript.script import tir as T


@T.prim_func
def red(X: T.Buffer((14, 6), "float32"), Y: T.Buffer((14,), "float32")):
    for k, i in T.grid(6, 14):
        with T.block("r"):
            vk, vi = T.axis.remap("RS", [k, i])
            with T.init():
                Y[vi] = T.float32(0)
            Y[vi] = Y[vi] + X[vi, vk] * T.float32(2)


@T.prim_func
def two(X: T.Buffer((8, 12), "float32"), Z: T.Buffer((8, 12), "float32")):
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


# -- reindex --------------------------------------------------------------------------------------


def test_reads_and_writes_follow_the_axes():
    def steps(s: Schedule) -> None:
        s.reindex("r", ("read", 0))
        s.reindex("r", ("write", 0))

    sch = check_schedule(
        red,
        steps,
        """
@T.prim_func
def main(X: T.Buffer((14, 6), "float32"), Y: T.Buffer((14,), "float32")):
    X_reindex = T.alloc_buffer((6, 14))
    Y_reindex = T.alloc_buffer((14,))
    for ax0, ax1 in T.grid(6, 14):
        with T.block("X_reindex_reindex"):
            v0, v1 = T.axis.remap("SS", [ax0, ax1])
            T.reads(X[v1, v0])
            T.writes(X_reindex[v0, v1])
            X_reindex[v0, v1] = X[v1, v0]
    for k, i in T.grid(6, 14):
        with T.block("r"):
            vk, vi = T.axis.remap("RS", [k, i])
            T.reads(X_reindex[vk, vi])
            T.writes(Y_reindex[vi])
            with T.init():
                Y_reindex[vi] = T.float32(0)
            Y_reindex[vi] = Y_reindex[vi] + X_reindex[vk, vi] * T.float32(2)
    for ax0 in range(14):
        with T.block("Y_reindex"):
            v0 = T.axis.spatial(14, ax0)
            T.reads(Y_reindex[v0])
            T.writes(Y[v0])
            Y[v0] = Y_reindex[v0]
""",
    )
    assert '  b1 = sch.reindex(block=b0, buffer=("read", 0))' in str(sch.trace).splitlines()
    assert [r for r in sch.trace.as_json()[0] if r[0] == "ReIndex"] == [
        ["ReIndex", ["b0"], [0, 0], ["b1"]],
        ["ReIndex", ["b2"], [0, 1], ["b3"]],
    ]


def test_what_a_guard_leaves_out_is_not_read():
    @T.prim_func
    def conv(X: T.Buffer((8,), "float32"), Y: T.Buffer((8,), "float32")):
        for i, k in T.grid(8, 3):
            with T.block("Y"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    Y[vi] = T.float32(0)
                Y[vi] = Y[vi] + T.if_then_else(1 <= vi + vk and vi + vk < 9, X[vi + vk - 1], T.float32(0))

    sch = check_schedule(conv, lambda s: s.reindex("Y", ("read", 0)))
    text = sch.mod.script()
    assert "X_reindex = T.alloc_buffer((8, 3))" in text and "T.where(" in text


def test_int64_symbolic_unit_and_nested():
    @T.prim_func
    def func(x: T.handle, y: T.handle, n: T.int64):
        X = T.match_buffer(x, (T.int64(1), n), "float32")
        Y = T.match_buffer(y, (n, T.int64(1)), "float32")
        for i, j in T.grid(n, T.int64(1)):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                Y[vi, vj] = X[vj, vi]

    check_schedule(func, lambda s: (s.reindex("B", "X"), s.reindex("B", "Y")))

    @T.prim_func
    def nested(X: T.Buffer((8, 4), "int32"), Y: T.Buffer((8, 4), "int32")):
        for i in range(8):
            with T.block("outer"):
                vi = T.axis.spatial(8, i)
                T.reads(X[vi, 0:4])
                T.writes(Y[vi, 0:4])
                for j in range(4):
                    with T.block("inner"):
                        vj = T.axis.spatial(4, j)
                        Y[vi, vj] = X[vi, 3 - vj]

    check_schedule(nested, lambda s: s.reindex("inner", ("read", 0)))
    check_schedule(nested, lambda s: s.reindex("inner", ("write", 0)))


def test_reindex_refuses_what_a_copy_cannot_stand_for():
    rejects(two, lambda s: s.reindex("inc", ("read", 0)), "more in its body", ["i", "j"])

    @T.prim_func
    def twice(X: T.Buffer((9,), "int32"), Y: T.Buffer((8,), "int32")):
        for i in range(8):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                Y[vi] = X[vi] + X[vi + 1]

    rejects(twice, lambda s: s.reindex("B", "X"), "2 different subscripts", ["B"])

    @T.prim_func
    def part(X: T.Buffer((8,), "int32"), Y: T.Buffer((8,), "int32")):
        for i in range(8):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                T.where(i < 6)
                Y[vi] = X[vi]

    rejects(part, lambda s: s.reindex("B", "Y"), "all values of its axes", ["B"])
    check_schedule(part, lambda s: s.reindex("B", "X"))

    @T.prim_func
    def collide(X: T.Buffer((8,), "int32"), Y: T.Buffer((4,), "int32")):
        for i in range(8):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                Y[vi // 2] = X[vi]

    rejects(collide, lambda s: s.reindex("B", "Y"), "in several runs", ["B"])

    @T.prim_func
    def inplace(X: T.Buffer((8,), "int32")):
        for i in range(8):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                X[vi] = X[vi] * 2

    rejects(inplace, lambda s: s.reindex("B", ("read", 0)), "also writes `X`", ["B"])
    rejects(inplace, lambda s: s.reindex("B", ("write", 0)), "builds on what", ["B"])
    rejects(red, lambda s: s.reindex("root", "X"), "is the root", ["root"])


# -- reindex_cache_read, reindex_cache_write ------------------------------------------------------


def test_caches_are_laid_out_by_a_map_of_the_axes():
    def steps(s: Schedule) -> None:
        s.reindex_cache_read("r", 0, "shared", lambda k, i: [i // 2, k, i % 2])
        s.reindex_cache_write("r", 0, "shared", lambda k, i: [i // 2, i % 2])

    sch = check_schedule(
        red,
        steps,
        """
@T.prim_func
def main(X: T.Buffer((14, 6), "float32"), Y: T.Buffer((14,), "float32")):
    X_shared = T.alloc_buffer((7, 6, 2), scope="shared")
    Y_shared = T.alloc_buffer((7, 2), scope="shared")
    for k, i in T.grid(6, 14):
        with T.block("X_shared"):
            vk, vi = T.axis.remap("SS", [k, i])
            T.reads(X[vi, vk])
            T.writes(X_shared[vi // 2, vk, vi % 2])
            X_shared[vi // 2, vk, vi % 2] = X[vi, vk]
    for k, i in T.grid(6, 14):
        with T.block("r"):
            vk, vi = T.axis.remap("RS", [k, i])
            T.reads(X_shared[vi // 2, vk, vi % 2])
            T.writes(Y_shared[vi // 2, vi % 2])
            with T.init():
                Y_shared[vi // 2, vi % 2] = T.float32(0)
            Y_shared[vi // 2, vi % 2] = Y_shared[vi // 2, vi % 2] + X_shared[vi // 2, vk, vi % 2] * T.float32(2)
    for i in range(14):
        with T.block("Y_shared"):
            vi = T.axis.spatial(14, i)
            T.reads(Y_shared[vi // 2, vi % 2])
            T.writes(Y[vi])
            Y[vi] = Y_shared[vi // 2, vi % 2]
""",
    )
    lines = str(sch.trace).splitlines()
    assert lines[3] == (
        '  b1 = sch.reindex_cache_read(block=b0, read_buffer_index=0, storage_scope="shared", '
        "index_map=lambda k, i: (i // 2, k, i % 2,))"
    )
    kind, inputs, attrs, outputs = sch.trace.as_json()[0][1]
    assert (kind, inputs[0], attrs, outputs) == ("ReindexCacheRead", "b0", [0, "shared"], ["b1"])


def test_copies_between_blocks_of_one_loop_stay_in_it():
    sch = check_schedule(two, lambda s: s.reindex_cache_read("inc", 0, "local", lambda i, j: [j, i]))
    loops = [s.loop.loop_var.name for s in sch.state.loops_of(sch.get_sref(sch.get_block("Y_local")))]
    assert loops == ["i", "j"]
    sch = check_schedule(two, lambda s: s.reindex_cache_write("dbl", 0, "local", lambda i, j: [i * 12 + j]))
    loops = [s.loop.loop_var.name for s in sch.state.loops_of(sch.get_sref(sch.get_block("Y_local")))]
    assert loops == ["i", "j"]


def test_guards_go_along_and_split_loops_are_kept():
    def steps(s: Schedule) -> None:
        s.split(s.get_loops("r")[1], [None, 4])
        s.reindex_cache_read("r", 0, "local", lambda k, i: [k, i])
        s.reindex_cache_write("r", 0, "local", lambda k, i: [i])

    sch = check_schedule(red, steps)
    assert sch.mod.script().count("T.where(i_0 * 4 + i_1 < 14)") == 3


def test_guards_that_use_loops_of_one_iteration_are_kept():
    def steps(s: Schedule) -> None:
        s.split(s.get_loops("r")[1], [None, 16], preserve_unit_iters=False)
        s.reindex_cache_read("r", 0, "local", lambda k, i: [k, i])
        s.reindex_cache_write("r", 0, "local", lambda k, i: [i])

    sch = check_schedule(red, steps)
    assert sch.mod.script().count("T.where(i_1 < 14)") == 2


def test_maps_that_do_not_fit_are_refused():
    def read(f: Any) -> Any:
        return lambda s: s.reindex_cache_read("r", 0, "shared", f)

    rejects(red, read(lambda k, i: [i]), "uses the axes `vi`", ["r"])
    rejects(red, read(lambda k: [k]), "takes 1 indices", ["r"])
    rejects(red, read(lambda k, i: [k + i]), "cannot be mapped so", ["r"])
    rejects(red, lambda s: s.reindex_cache_write("r", 0, "shared", lambda k, i: [k, i]), "uses the axes", ["r"])
    rejects(red, lambda s: s.reindex_cache_read("r", 0, "nowhere", lambda k, i: [k, i]), "no storage scope")
    rejects(red, lambda s: s.reindex_cache_write("r", 1, "shared", lambda k, i: [i]), "no write number 1", ["r"])


def test_all_of_it_with_int64():
    @T.prim_func
    def wide(X: T.Buffer((T.int64(14), T.int64(6)), "float32"), Y: T.Buffer((T.int64(14),), "float32")):
        for k, i in T.grid(T.int64(6), T.int64(14)):
            with T.block("r"):
                vk, vi = T.axis.remap("RS", [k, i])
                with T.init():
                    Y[vi] = T.float32(0)
                Y[vi] = Y[vi] + X[vi, vk]

    def caches(s: Schedule) -> None:
        s.reindex_cache_read("r", 0, "shared", lambda k, i: [i // 2, k, i % 2])
        s.reindex_cache_write("r", 0, "shared", lambda k, i: [i // 2, i % 2])
        s.transform_layout("r", ("read", 0), lambda a, b, c: [a * 12 + b * 2 + c])
        s.transform_layout("r", ("write", 0), lambda a, b: [a // 4, a % 4, b], pad_value=0)
        s.transform_block_layout("r", lambda k, i: [i // 7, k, i % 7])

    def reindexed(s: Schedule) -> None:
        s.reindex("r", ("read", 0))
        s.reindex("r", "Y")
        s.annotate_buffer_access(s.get_block("r"), 0, "read", lambda k, i: [k, (i, i + 1)])
        s.transform_layout("Y_reindex", ("write", 0), lambda i: [i // 4, i % 4], pad_value=5)

    check_schedule(wide, caches)
    check_schedule(wide, reindexed, packed={1: Packed(lambda i: [i // 4, i % 4], 5)})
