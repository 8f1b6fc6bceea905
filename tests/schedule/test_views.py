"""Views of buffers follow what becomes of the buffers."""

from __future__ import annotations

import pytest

from tests.schedule.check import check_schedule
from tscript.schedule import Schedule
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
