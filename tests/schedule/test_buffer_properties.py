"""Steps that change what buffers and signatures say: separators, types, hidden accesses, regions given by hand."""

from __future__ import annotations

from typing import Any

import pytest

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


@T.prim_func
def views(X: T.Buffer((8, 4), "float32"), Z: T.Buffer((8, 4), "float32")):
    for i in range(8):
        with T.block("row"):
            vi = T.axis.spatial(8, i)
            T.reads(X[vi, 0:4])
            T.writes(Z[vi, 0:4])
            Y = T.alloc_buffer((1, 4))
            for j in range(4):
                with T.block("fill"):
                    vj = T.axis.spatial(4, j)
                    Y[0, vj] = X[vi, vj]
            with T.block("use"):
                T.reads(Y[0, 0:4])
                T.writes(Z[vi, 0:4])
                V = T.match_buffer(Y[0:1, 0:4], (1, 4), offset_factor=1)
                W = T.match_buffer(Y[0, 0:4], (4,), offset_factor=1)
                for j in range(4):
                    Z[vi, j] = W[j] + V[0, j]


# -- set_axis_separator ---------------------------------------------------------------------------


def test_separators_of_an_allocation_and_of_a_parameter():
    def steps(s: Schedule) -> None:
        s.set_axis_separator("dbl", ("write", 0), [1])
        s.set_axis_separator("inc", "Z", [1])

    sch = check_schedule(two, steps)
    text = sch.mod.script()
    assert "Y = T.alloc_buffer((8, 12), axis_separators=[1])" in text
    assert "Z = T.match_buffer(Z_handle, (8, 12), axis_separators=[1])" in text
    assert (
        str(sch.trace).splitlines()[3] == '  sch.set_axis_separator(block=b0, buffer=("write", 0), axis_separators=[1])'
    )
    assert sch.trace.as_json()[0][1] == ["SetAxisSeparator", ["b0"], [0, 1, [1]], []]


def test_none_means_no_separators_and_nothing_changes_where_they_are_the_same():
    sch = Schedule(two)
    before = sch.mod["main"]
    sch.set_axis_separator("dbl", "Y", None)
    assert sch.mod["main"] is before
    assert "axis_separators=[]" in str(sch.trace)


def test_views_follow_where_they_have_as_many_dimensions():
    with pytest.warns(UserWarning, match="the view `W` has 1 dimensions") as seen:
        sch = Schedule(views)
        sch.set_axis_separator("fill", ("write", 0), [1])
    assert [w.filename for w in seen] == [__file__]
    views_now = [m.buffer for m in sch.get(sch.get_block("use")).match_buffers]
    assert [[int(k) for k in b.axis_separators] for b in views_now] == [[1], [0]]


def test_wrong_separators_are_refused():
    rejects(two, lambda s: s.set_axis_separator("dbl", "Y", [3]), "none at 3", ["dbl"])
    rejects(two, lambda s: s.set_axis_separator("dbl", "Y", [2, 1]), "must ascend", ["dbl"])
    rejects(two, lambda s: s.set_axis_separator("dbl", "Y", [0.5]), "is an integer", error=TypeError)
    rejects(two, lambda s: s.set_axis_separator("dbl", 0, [1]), "a buffer is given by", error=TypeError)
    rejects(views, lambda s: s.set_axis_separator("row", ("read", 1), [1]), "no read number 1", ["row"])


# -- unsafe_set_dtype -----------------------------------------------------------------------------


def test_stores_convert_to_the_type_and_loads_convert_back():
    sch = check_schedule(
        two,
        lambda s: s.unsafe_set_dtype("dbl", 0, "float16"),
        """
@T.prim_func
def main(X: T.Buffer((8, 12), "float32"), Z: T.Buffer((8, 12), "float32")):
    Y = T.alloc_buffer((8, 12), "float16")
    for i, j in T.grid(8, 12):
        with T.block("dbl"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(X[vi, vj])
            T.writes(Y[vi, vj])
            Y[vi, vj] = T.Cast("float16", X[vi, vj] * T.float32(2))
    for i, j in T.grid(8, 12):
        with T.block("inc"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(Y[vi, vj])
            T.writes(Z[vi, vj])
            Z[vi, vj] = T.Cast("float32", Y[vi, vj]) + T.float32(1)
""",
    )
    assert str(sch.trace).endswith('sch.unsafe_set_dtype(block=b0, buffer_index=0, dtype="float16")')
    assert sch.trace.as_json()[0][-1] == ["UnsafeSetDType", ["b0"], [0, "float16"], []]


def test_reductions_integers_and_views_follow():
    @T.prim_func
    def func(X: T.Buffer((8, 6), "int32"), Z: T.Buffer((8,), "int32")):
        Y = T.alloc_buffer((8,), "int32")
        for i, k in T.grid(8, 6):
            with T.block("sum"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    Y[vi] = 0
                Y[vi] = Y[vi] + X[vi, vk]
        for i in range(8):
            with T.block("use"):
                vi = T.axis.spatial(8, i)
                Z[vi] = Y[Y[vi] * 0 + vi]

    sch = check_schedule(func, lambda s: s.unsafe_set_dtype("sum", "Y", "int64"))
    assert 'Y[vi] = T.Cast("int64", 0)' in sch.mod.script()
    check_schedule(views, lambda s: s.unsafe_set_dtype("fill", 0, "float64"))


def test_the_type_it_has_changes_nothing():
    sch = Schedule(two)
    before = sch.mod["main"]
    sch.unsafe_set_dtype("dbl", 0, "float32")
    assert sch.mod["main"] is before


def test_types_that_cannot_be_are_refused():
    rejects(two, lambda s: s.unsafe_set_dtype("inc", 0, "float16"), "`Z` is not allocated", ["inc"])
    rejects(two, lambda s: s.unsafe_set_dtype("dbl", 0, "float17"), "no type 'float17'")
    rejects(two, lambda s: s.unsafe_set_dtype("dbl", 0, "handle"), "cannot hold values")
    rejects(two, lambda s: s.unsafe_set_dtype("dbl", 0, "float32x4"), "lanes differ", ["dbl"])
    rejects(two, lambda s: s.unsafe_set_dtype("dbl", 0, 16), "is a text", error=TypeError)

    @T.prim_func
    def pointer(Z: T.Buffer((8,), "float32")):
        Y = T.alloc_buffer((8,))
        for i in range(8):
            with T.block("Y"):
                vi = T.axis.spatial(8, i)
                Y[vi] = T.float32(1)
        with T.block("call"):
            T.reads(Y[0:8])
            T.writes(Z[0:8])
            T.evaluate(T.call_extern("int32", "f", Y.data, Z.data))

    rejects(pointer, lambda s: s.unsafe_set_dtype("Y", 0, "float16"), "pointer of `Y`")


# -- unsafe_hide_buffer_access --------------------------------------------------------------------


def test_accesses_leave_the_signature_only():
    @T.prim_func
    def func(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
        D = T.alloc_buffer((8,))
        for i in range(8):
            with T.block("C"):
                v = T.axis.spatial(8, i)
                T.reads(A[v], B[v])
                T.writes(D[v], C[v])
                T.block_attr({"explicit_read_region": [1]})
                D[v] = A[v]
                C[v] = B[v]

    def steps(s: Schedule) -> None:
        block = s.get_block("C")
        s.unsafe_hide_buffer_access(block, "read", [0])

    sch = check_schedule(func, steps, regions=False)
    text, stored = str(sch.trace), sch.trace.as_json()[0][-1]
    block = sch.get(sch.get_block("C"))
    assert [r.buffer.name for r in block.reads] == ["B"]
    assert [int(k) for k in block.annotations["explicit_read_region"]] == [0]
    assert text.endswith('sch.unsafe_hide_buffer_access(block=b0, buf_type="read", buf_index_array=[0])')
    assert stored == ["UnsafeHideBufferAccess", ["b0", '"read"', [0]], [], []]

    def align(s: Schedule) -> None:
        s.storage_align("C", "D", 0, 32, 4)
        s.unsafe_hide_buffer_access(s.get_block("C"), "write", [1])

    sch = check_schedule(func, align, regions=False)
    assert '"buffer_dim_align": [[0, 0, 32, 4]]' in sch.mod.script()

    def hide_both(s: Schedule) -> None:
        s.storage_align("C", "D", 0, 32, 4)
        s.unsafe_hide_buffer_access(s.get_block("C"), "write", [1, 0])
        s.unsafe_hide_buffer_access(s.get_block("C"), "read", [1])

    sch = check_schedule(func, hide_both, regions=False)
    assert "buffer_dim_align" not in sch.mod.script() and "explicit_read_region" not in sch.mod.script()


def test_wrong_accesses_are_refused():
    def hide(*args: Any) -> Any:
        return lambda s: s.unsafe_hide_buffer_access(s.get_block("dbl"), *args)

    rejects(two, hide("reads", [0]), "not 'reads'", ["dbl"])
    rejects(two, hide("read", [1]), "no number 1", ["dbl"])
    rejects(two, hide("read", [-1]), "no number -1", ["dbl"])
    rejects(two, hide("read", ["0"]), "is an integer", error=TypeError)


# -- annotate_buffer_access -----------------------------------------------------------------------


@T.prim_func
def resize(X: T.Buffer((16, 4), "float32"), Z: T.Buffer((8, 4), "float32")):
    for i, j in T.grid(8, 4):
        with T.block("Z"):
            vi, vj = T.axis.remap("SS", [i, j])
            Z[vi, vj] = X[T.Cast("int32", T.floor(T.Cast("float32", vi) * T.float32(1.9))), vj]


def annotated(*args: Any) -> Any:
    return lambda s: s.annotate_buffer_access(s.get_block("Z"), *args)


def test_a_region_given_by_hand_is_kept_and_marked():
    sch = check_schedule(resize, annotated(0, "read", lambda vi, vj: [(vi, vi * 2 + 1), vj]))
    text, stored = str(sch.trace), sch.trace.as_json()[0][-1]
    block = sch.get(sch.get_block("Z"))
    assert str(block.reads[0]) == "X[vi:vi + (vi + 1), vj]"
    assert [int(k) for k in block.annotations["explicit_read_region"]] == [0]
    assert text.splitlines()[-1] == (
        '  sch.annotate_buffer_access(block=b0, buffer_index=0, buf_type="read", '
        "gen_new_ranges=lambda vi, vj: [(vi, vi * 2 + 1), (vj, vj + 1)])"
    )
    kind, inputs, attrs, outputs = stored
    assert (kind, inputs[:3], attrs, outputs) == ("AnnotateBufferAccess", ["b0", 0, '"read"'], [], [])

    def both(s: Schedule) -> None:
        annotated("X", "read", lambda i, j: [(0, 16), (0, 4)])(s)
        annotated(0, "write", lambda i, j: [i, j])(s)
        annotated(0, "read", lambda i, j: [(0, 15), (0, 4)])(s)

    sch = check_schedule(resize, both)
    assert '"explicit_read_region": [0], "explicit_write_region": [0]' in sch.mod.script()


def test_accesses_that_a_region_leaves_out_are_found():
    @T.prim_func
    def shifted(X: T.Buffer((10,), "float32"), Z: T.Buffer((8,), "float32")):
        for i in range(8):
            with T.block("Z"):
                vi = T.axis.spatial(8, i)
                Z[vi] = X[vi] + X[vi + 2]

    check_schedule(shifted, annotated(0, "read", lambda v: [(v, v + 3)]))
    check_schedule(shifted, annotated(0, "read", lambda v: [(v // 4 * 4, v // 4 * 4 + 6)]))
    rejects(shifted, annotated(0, "read", lambda v: [(v, v + 2)]), "where vi = 0", ["Z"])
    rejects(shifted, annotated(0, "read", lambda v: [(1, 10)]), "where vi = 0", ["Z"])
    rejects(shifted, annotated(0, "write", lambda v: [(0, 8)]), "not seen to write all of", ["Z"])
    rejects(shifted, annotated(0, "write", lambda v: [v + 1]), "does not hold", ["Z"])
    rejects(resize, annotated(0, "read", lambda i, j: [(i, i * 2 + 1), 0]), "dimension 1", ["Z"])


def test_guarded_accesses_need_not_be_in_the_region():
    @T.prim_func
    def padded(X: T.Buffer((8,), "float32"), Z: T.Buffer((10,), "float32")):
        for i in range(10):
            with T.block("Z"):
                vi = T.axis.spatial(10, i)
                T.reads(X[vi - 1])
                Z[vi] = T.if_then_else(1 <= vi and vi < 9, X[vi - 1], T.float32(0))

    check_schedule(padded, annotated(0, "read", lambda v: [(v - 1, v)]))


def test_wrong_ranges_are_refused():
    rejects(resize, annotated(0, "read", lambda i, j: [i]), "1 ranges are given", ["Z"])
    rejects(resize, annotated(0, "read", lambda i, j: [i, (j, j, j)]), "a begin and an end", ["Z"])
    rejects(resize, annotated(0, "read", lambda i, j: [i, j * 0.5]), "no integer", ["Z"])
    rejects(resize, annotated(1, "read", lambda i, j: [i, j]), "no read number 1", ["Z"])
    rejects(resize, annotated(0, "reed", lambda i, j: [i, j]), "not 'reed'", ["Z"])
    rejects(resize, annotated(0, "read", 3), "a function of the axes", error=TypeError)
