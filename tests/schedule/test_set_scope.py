"""set_scope and storage_align: other memory for a buffer, and strides it shall have."""

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


def test_the_buffer_is_renamed_everywhere_and_strides_are_asked_for():
    def steps(s: Schedule) -> None:
        s.set_scope("dbl", 0, "shared")
        s.storage_align("dbl", 0, -1, 32, 4)

    sch = check_schedule(
        two,
        steps,
        """
@T.prim_func
def main(X: T.Buffer((8, 12), "float32"), Z: T.Buffer((8, 12), "float32")):
    Y_shared = T.alloc_buffer((8, 12), scope="shared")
    for i, j in T.grid(8, 12):
        with T.block("dbl"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(X[vi, vj])
            T.writes(Y_shared[vi, vj])
            T.block_attr({"buffer_dim_align": [[0, 1, 32, 4]]})
            Y_shared[vi, vj] = X[vi, vj] * T.float32(2.0)
    for i, j in T.grid(8, 12):
        with T.block("inc"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(Y_shared[vi, vj])
            T.writes(Z[vi, vj])
            Z[vi, vj] = Y_shared[vi, vj] + T.float32(1.0)
""",
    )
    assert str(sch.trace).endswith("sch.storage_align(block=b1, buffer_index=0, axis=-1, factor=32, offset=4)")


def test_the_scope_it_has_already_changes_nothing():
    sch = Schedule(two)
    before = sch.mod["main"]
    sch.set_scope("dbl", "Y", "global")
    sch.set_scope("dbl", "Y", "")
    assert sch.mod["main"] is before
    assert len(sch.trace.insts) == 4


def test_views_follow_at_any_depth_and_allocations_inside_blocks_are_found():
    @T.prim_func
    def func(X: T.Buffer((8, 4), "float32"), Z: T.Buffer((8, 4), "float32")):
        for i in range(8):
            with T.block("row"):
                vi = T.axis.spatial(8, i)
                T.reads(X[vi, 0:4])
                T.writes(Z[vi, 0:4])
                Y = T.alloc_buffer((4,))
                for j in range(4):
                    with T.block("fill"):
                        vj = T.axis.spatial(4, j)
                        Y[vj] = X[vi, vj]
                with T.block("use"):
                    T.reads(Y[0:4])
                    T.writes(Z[vi, 0:4])
                    V = T.match_buffer(Y[0:4], (4,), offset_factor=1)
                    with T.block("deep"):
                        T.reads(V[0:4])
                        T.writes(Z[vi, 0:4])
                        W = T.match_buffer(V[0:4], (4,), offset_factor=1)
                        for j in range(4):
                            Z[vi, j] = W[j]

    sch = check_schedule(func, lambda s: s.set_scope("fill", 0, "local"))
    text = sch.mod.script()
    assert 'V = T.match_buffer(Y_local[0:4], (4,), scope="local", offset_factor=1)' in text
    assert 'W = T.match_buffer(V[0:4], (4,), scope="local", offset_factor=1)' in text


def test_an_entry_for_the_same_dimension_is_replaced():
    def steps(s: Schedule) -> None:
        s.storage_align("dbl", "Y", 0, 32, 4)
        s.storage_align("dbl", 0, 1, 16, 0)
        s.storage_align("dbl", 0, -2, 8, 2)

    sch = check_schedule(two, steps)
    assert '"buffer_dim_align": [[0, 0, 8, 2], [0, 1, 16, 0]]' in sch.mod.script()


def test_what_is_no_allocated_buffer_of_the_block_is_refused():
    rejects(two, lambda s: s.set_scope("inc", 0, "shared"), "`Z` is not allocated", ["inc"])
    rejects(two, lambda s: s.set_scope("dbl", "X", "shared"), "does not write `X`", ["dbl"])
    rejects(two, lambda s: s.set_scope("dbl", 2, "shared"), "no write number 2", ["dbl"])
    rejects(two, lambda s: s.set_scope("dbl", 0, "somewhere"), "no storage scope", [])
    rejects(two, lambda s: s.storage_align("inc", 0, 0, 8, 0), "`Z` is not allocated", ["inc"])


def test_strides_that_cannot_be_are_refused():
    rejects(two, lambda s: s.storage_align("dbl", 0, 2, 8, 0), "no dimension 2", ["dbl"])
    rejects(two, lambda s: s.storage_align("dbl", 0, -3, 8, 0), "no dimension -3", ["dbl"])
    rejects(two, lambda s: s.storage_align("dbl", 0, 0, 0, 0), "multiple of 0", ["dbl"])
    rejects(two, lambda s: s.storage_align("dbl", 0, 0.5, 8, 0), "the axis is an integer", error=TypeError)

    def steps(s: Schedule) -> None:
        s.annotate(s.get_block("dbl"), "buffer_dim_align", "wide")
        s.storage_align("dbl", 0, 0, 8, 0)

    rejects(two, steps, "is no list of", ["dbl"])


def test_the_index_of_the_only_buffer_may_be_left_out():
    sch = check_schedule(two, lambda s: s.storage_align("dbl", -1, 32, offset=4))
    assert str(sch.trace).endswith("sch.storage_align(block=b0, buffer_index=0, axis=-1, factor=32, offset=4)")
    rejects(two, lambda s: s.storage_align("dbl", 2, 8, offset=0), "no dimension 2", ["dbl"])
    rejects(two, lambda s: s.storage_align("dbl", "Y", 0), "lacks a factor", error=TypeError)
    rejects(two, lambda s: s.storage_align("root", 0, 8, offset=4), "writes 0 buffers", ["root"])
