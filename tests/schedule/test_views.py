"""Views of buffers follow what becomes of the buffers."""

from __future__ import annotations

import pytest

from tests.schedule.check import check_schedule
from tscript.schedule import Schedule, ScheduleError
from tscript.script import tir as T


@T.prim_func
def rows(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):
    C = T.alloc_buffer((8, 8))
    for i, j in T.grid(8, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj] + T.float32(1)
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            T.reads(C[vi * 2 : vi * 2 + 2, 0:8])
            T.writes(B[vi * 2 : vi * 2 + 2, 0:8])
            Cv = T.match_buffer(C[vi * 2 : vi * 2 + 2, 0:8], (2, 8), offset_factor=1)
            Bv = T.match_buffer(B[vi * 2 : vi * 2 + 2, 0:8], (2, 8), offset_factor=1)
            for x, y in T.grid(2, 8):
                Bv[x, y] = Cv[x, y] * T.float32(3)


@pytest.mark.parametrize("scope", ["shared", "local", "shared.dyn"])
def test_a_view_of_a_cache_lies_where_the_cache_does(scope: str) -> None:
    sch = check_schedule(rows, lambda s: s.cache_read("B", 0, scope), native=False)
    (view, _) = sch.get(sch.get_block("B")).match_buffers
    assert view.source.buffer.name == f"C_{scope}"
    assert view.buffer.scope() == scope and view.buffer.name == "Cv"
    sch = check_schedule(rows, lambda s: s.cache_write("B", 0, scope), native=False)
    (_, view) = sch.get(sch.get_block("B")).match_buffers
    assert view.buffer.scope() == scope


def test_parts_of_a_loop_have_views_of_their_own() -> None:
    def steps(s: Schedule) -> None:
        s.loop_partition(s.get_loops("B")[0], [1, 2])

    sch = check_schedule(rows, steps)
    views = [sch.get(sch.get_block(f"B_i{k}")).match_buffers[0].buffer for k in range(3)]
    assert len({v.elem_offset for v in views}) == 3


@T.prim_func
def two_views(A: T.Buffer((4, 4), "int32"), B: T.Buffer((4, 4), "int32")):
    for i in range(4):
        with T.block("row"):
            vi = T.axis.spatial(4, i)
            T.reads(B[vi, 0:4], A[vi, 0:4])
            T.writes(A[vi, 0:4])
            R = T.match_buffer(A[vi, 0:4], (4,), "int32", offset_factor=1)
            S = T.match_buffer(A[vi, 0:4], (4,), "int32", offset_factor=1)
            for j in range(4):
                with T.block("fill"):
                    vj = T.axis.spatial(4, j)
                    T.reads(B[vi, vj])
                    T.writes(R[vj])
                    R[vj] = B[vi, vj]
            for j in range(4):
                with T.block("double"):
                    vj = T.axis.spatial(4, j)
                    T.reads(S[vj])
                    T.writes(S[vj])
                    S[vj] = S[vj] * 2


@pytest.mark.parametrize("step", ["cache_write", "reindex_cache_write"])
def test_what_is_used_under_another_name_has_no_copy_written(step: str) -> None:
    sch = Schedule(two_views)
    before = sch.mod
    with pytest.raises(ScheduleError, match="uses the memory of `R` as `S`, which no copy follows"):
        getattr(sch, step)("fill", 0, "local", *((lambda j: (j,),) if "reindex" in step else ()))
    assert sch.mod["main"] is before["main"]
