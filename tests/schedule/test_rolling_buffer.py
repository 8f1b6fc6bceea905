"""rolling_buffer: circular buffers, what is no longer computed twice, chains of stages, and what is refused."""

from __future__ import annotations

import pytest

from tests.schedule.check import check_schedule, rejects
from tscript.parser import from_source
from tscript.schedule import Schedule
from tscript.script import tir as T


@T.prim_func
def pools(A: T.Buffer((12, 12), "int8"), C: T.Buffer((8, 8), "int8")):
    B = T.alloc_buffer((10, 10), "int8")
    for i0, i1 in T.grid(2, 2):
        for ax0, ax1 in T.grid(6, 6):
            with T.block("B"):
                v0 = T.axis.spatial(10, i0 * 4 + ax0)
                v1 = T.axis.spatial(10, i1 * 4 + ax1)
                B[v0, v1] = T.int8(0)
                for r0, r1 in T.grid(3, 3):
                    B[v0, v1] = T.max(B[v0, v1], A[v0 + r0, v1 + r1])
        for ax0, ax1 in T.grid(4, 4):
            with T.block("C"):
                v0 = T.axis.spatial(8, i0 * 4 + ax0)
                v1 = T.axis.spatial(8, i1 * 4 + ax1)
                C[v0, v1] = T.int8(0)
                for r0, r1 in T.grid(3, 3):
                    C[v0, v1] = T.max(C[v0, v1], B[v0 + r0, v1 + r1])


def test_the_outermost_dimension_goes_round_and_nothing_is_computed_twice() -> None:
    sch = check_schedule(
        pools,
        lambda s: s.rolling_buffer("B", 0),
        """
@T.prim_func
def main(A: T.Buffer((12, 12), "int8"), C: T.Buffer((8, 8), "int8")):
    B = T.alloc_buffer((6, 10), "int8")
    for i0, i1 in T.grid(2, 2):
        for ax0, ax1 in T.grid(6, 6):
            with T.block("B"):
                v0 = T.axis.opaque(10, i0 * 4 + ax0)
                v1 = T.axis.spatial(10, i1 * 4 + ax1)
                T.where((i0 < 1 or 2 <= ax0) and (i1 < 1 or 2 <= ax1))
                T.reads(B[v0 % 6, v1], A[v0:v0 + 3, v1:v1 + 3])
                T.writes(B[v0 % 6, v1])
                B[v0 % 6, v1] = T.int8(0)
                for r0, r1 in T.grid(3, 3):
                    B[v0 % 6, v1] = T.max(B[v0 % 6, v1], A[v0 + r0, v1 + r1])
        for ax0, ax1 in T.grid(4, 4):
            with T.block("C"):
                v0 = T.axis.opaque(8, i0 * 4 + ax0)
                v1 = T.axis.spatial(8, i1 * 4 + ax1)
                T.reads(C[v0, v1], B[0:6, v1:v1 + 3])
                T.writes(C[v0, v1])
                C[v0, v1] = T.int8(0)
                for r0, r1 in T.grid(3, 3):
                    C[v0, v1] = T.max(C[v0, v1], B[(v0 + r0) % 6, v1 + r1])
""",
    )
    assert str(sch.trace).splitlines()[-1] == "  sch.rolling_buffer(block=b0, write_buffer_index=0)"
    assert sch.trace.as_json()[0][-1] == ["RollingBuffer", ["b0"], [0], []]


@T.prim_func
def chain(A: T.Buffer((14,), "float32"), D: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((12,))
    C = T.alloc_buffer((10,))
    for i in range(12):
        with T.block("B"):
            v = T.axis.spatial(12, i)
            B[v] = A[v] + A[v + 1] + A[v + 2]
    for i in range(10):
        with T.block("C"):
            v = T.axis.spatial(10, i)
            C[v] = B[v] + B[v + 1] + B[v + 2]
    for i in range(8):
        with T.block("D"):
            v = T.axis.spatial(8, i)
            D[v] = C[v] + C[v + 1] + C[v + 2]


@pytest.mark.parametrize("order", ["BC", "CB"])
@pytest.mark.parametrize("tile", [1, 2, 3])
def test_stages_of_a_chain_roll_in_any_order(order: str, tile: int) -> None:
    def steps(s: Schedule) -> None:
        outer, _ = s.split(s.get_loops("D")[0], [None, tile])
        s.compute_at("C", outer)
        s.compute_at("B", outer)
        for name in order:
            s.rolling_buffer(name, 0)

    if tile == 3:  # the last tile overhangs
        check_schedule(chain, steps)
        return
    sch = check_schedule(chain, steps)
    shapes = {b.name: int(b.shape[0]) for b in sch.get(sch.get_block("root")).alloc_buffers}
    assert shapes == {"B": tile + 4, "C": tile + 2}


def test_a_chain_of_three_rolls_in_every_order() -> None:
    @T.prim_func
    def four(A: T.Buffer((14,), "float32"), E: T.Buffer((6,), "float32")):
        B = T.alloc_buffer((12,))
        C = T.alloc_buffer((10,))
        D = T.alloc_buffer((8,))
        for i in range(12):
            with T.block("B"):
                v = T.axis.spatial(12, i)
                B[v] = A[v] + A[v + 2]
        for i in range(10):
            with T.block("C"):
                v = T.axis.spatial(10, i)
                C[v] = B[v] + B[v + 2]
        for i in range(8):
            with T.block("D"):
                v = T.axis.spatial(8, i)
                D[v] = C[v] * C[v + 2]
        for i in range(6):
            with T.block("E"):
                v = T.axis.spatial(6, i)
                E[v] = D[v] + D[v + 1] + D[v + 2]

    def in_order(names: str) -> None:
        def steps(s: Schedule) -> None:
            (loop,) = s.get_loops("E")
            for name in "DCB":
                s.compute_at(name, loop)
            for name in names:
                s.rolling_buffer(name, 0)

        check_schedule(four, steps, native=names == "BCD")

    # The producers of D read two apart: what D needs of C are three elements, of which two are needed again.
    for names in ("BCD", "DCB", "CDB", "BDC"):
        in_order(names)


def strided(stride: str, window: int, length: int) -> str:
    return f"""
@T.prim_func
def main(A: T.Buffer((40,), "float32"), C: T.Buffer((8, {window}), "float32")):
    B = T.alloc_buffer((40,))
    for i in range(8):
        for k in range({window}):
            with T.block("B"):
                v = T.axis.spatial(40, {stride} + k)
                B[v] = A[v] * T.float32(2)
        for k in range({window}):
            with T.block("C"):
                vi, vk = T.axis.remap("SS", [i, k])
                T.reads(B[{stride.replace("i", "vi")} + vk])
                T.writes(C[vi, vk])
                C[vi, vk] = B[{stride.replace("i", "vi")} + vk]
"""


@pytest.mark.parametrize(
    ("stride", "window", "condition"),
    [("i", 4, "3 <= k"), ("i * 3", 5, "2 <= k"), ("i * 3 + 2", 5, "2 <= k"), ("i * 3 // 2", 4, "2 <= k")],
)
def test_windows_may_move_in_steps_and_fractions(stride: str, window: int, condition: str) -> None:
    sch = check_schedule(from_source(strided(stride, window, 40)), lambda s: s.rolling_buffer("B", 0))
    text = sch.mod.script()
    assert f"T.where(i < 1 or {condition})" in text
    assert f"B = T.alloc_buffer(({window},))" in text


def test_windows_that_do_not_overlap_are_refused() -> None:
    rejects(from_source(strided("i * 4", 4, 40)), lambda s: s.rolling_buffer("B", 0), "does not overlap", ["B"])


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_symbolic_sizes_unit_loops_and_reductions(dtype: str) -> None:
    func = from_source(f"""
@T.prim_func
def main(a: T.handle, c: T.handle):
    n = T.int{dtype[3:]}()
    A = T.match_buffer(a, (n + 2, 5))
    C = T.match_buffer(c, (1, n))
    B = T.alloc_buffer((n + 2,))
    for u, i in T.grid(1, n):
        for t, k in T.grid(T.{dtype}(3), 5):
            with T.block("B"):
                v = T.axis.spatial(n + 2, i + t)
                vk = T.axis.reduce(5, k)
                with T.init():
                    B[v] = T.float32(0)
                B[v] = B[v] + A[v, vk]
        with T.block("C"):
            vu, v = T.axis.remap("SS", [u, i])
            C[vu, v] = B[v] + B[v + 1] + B[v + 2]
""")
    sch = check_schedule(func, lambda s: s.rolling_buffer("B", "B"), sizes={"n": 7})
    assert "B = T.alloc_buffer((3,))" in sch.mod.script() or "T.int64(3)" in sch.mod.script()
    for n in (0, 1, 2):
        check_schedule(func, lambda s: s.rolling_buffer("B", 0), sizes={"n": n})


def test_several_consumers_and_an_outer_loop_that_starts_again() -> None:
    func = from_source("""
@T.prim_func
def main(A: T.Buffer((10,), "float32"), C: T.Buffer((3, 8), "float32"), D: T.Buffer((3, 8), "float32")):
    B = T.alloc_buffer((10,))
    for o, i in T.grid(3, 8):
        for t in range(3):
            with T.block("B"):
                v = T.axis.spatial(10, i + t)
                B[v] = A[v] * T.float32(2)
        with T.block("C"):
            vo, v = T.axis.remap("SS", [o, i])
            C[vo, v] = B[v] + B[v + 2]
        with T.block("D"):
            vo, v = T.axis.remap("SS", [o, i])
            D[vo, v] = B[v + 1]
""")
    check_schedule(func, lambda s: s.rolling_buffer("B", 0))


def test_a_loop_between_those_that_move_the_window() -> None:
    func = from_source("""
@T.prim_func
def main(A: T.Buffer((10, 9), "float32"), C: T.Buffer((8, 4, 7), "float32")):
    B = T.alloc_buffer((10, 9))
    for i, k, j in T.grid(8, 4, 7):
        for t, u in T.grid(3, 3):
            with T.block("B"):
                v = T.axis.spatial(10, i + t)
                w = T.axis.spatial(9, j + u)
                B[v, w] = A[v, w] * T.float32(2)
        for t, u in T.grid(3, 3):
            with T.block("C"):
                vi, vk, vj = T.axis.remap("SSS", [i, k, j])
                vt, vu = T.axis.remap("RR", [t, u])
                with T.init():
                    C[vi, vk, vj] = T.float32(0)
                C[vi, vk, vj] = C[vi, vk, vj] + B[vi + vt, vj + vu]
""")
    check_schedule(func, lambda s: s.rolling_buffer("B", 0))


def test_windows_that_are_clipped_at_the_ends() -> None:
    @T.prim_func
    def padded(A: T.Buffer((10,), "float32"), C: T.Buffer((10,), "float32")):
        B = T.alloc_buffer((10,))
        for i in range(10):
            with T.block("B"):
                v = T.axis.spatial(10, i)
                B[v] = A[v] * T.float32(2)
        for i in range(10):
            with T.block("C"):
                v = T.axis.spatial(10, i)
                C[v] = T.if_then_else(0 < v, B[v - 1], T.float32(0)) + B[v]

    def steps(s: Schedule) -> None:
        outer, _ = s.split(s.get_loops("C")[0], [None, 4])
        s.compute_at("B", outer)
        s.rolling_buffer("B", 0)

    sch = check_schedule(padded, steps)
    assert "B = T.alloc_buffer((5,))" in sch.mod.script()


def moved(s: Schedule) -> None:
    (loop,) = s.get_loops("D")
    s.compute_at("C", loop)


def test_what_cannot_roll_is_refused() -> None:
    rejects(chain, lambda s: s.rolling_buffer("D", 0), "used outside", ["D", "root"])
    rejects(chain, lambda s: s.rolling_buffer("C", 0), "under no common loop", ["C"])
    rejects(chain, lambda s: s.rolling_buffer("C", 1), "no write number 1", ["C"])
    rejects(chain, lambda s: s.rolling_buffer("root", 0), "root")

    def twice(s: Schedule) -> None:
        moved(s)
        s.rolling_buffer("C", 0)
        s.rolling_buffer("C", 0)

    rejects(chain, twice, "")


def test_loops_that_run_at_once_and_windows_askew_are_refused() -> None:
    diagonal = from_source("""
@T.prim_func
def main(A: T.Buffer((10, 10), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((10, 10))
    for i in range(8):
        for t, u in T.grid(3, 3):
            with T.block("B"):
                v = T.axis.spatial(10, i + t)
                w = T.axis.spatial(10, i + u)
                B[v, w] = A[v, w] * T.float32(2)
        with T.block("C"):
            v = T.axis.spatial(8, i)
            C[v] = B[v, v + 2] + B[v + 2, v]
""")
    rejects(diagonal, lambda s: s.rolling_buffer("B", 0), "move together|no box|not known to be a box")
    holes = from_source("""
@T.prim_func
def main(A: T.Buffer((40,), "float32"), C: T.Buffer((8, 4), "float32")):
    B = T.alloc_buffer((40,))
    for i in range(8):
        for t in range(4):
            with T.block("B"):
                v = T.axis.spatial(40, i * 3 + t * 2)
                B[v] = A[v] * T.float32(2)
        for t in range(4):
            with T.block("C"):
                vi, vt = T.axis.remap("SS", [i, t])
                T.reads(B[vi * 3 + vt * 2])
                T.writes(C[vi, vt])
                C[vi, vt] = B[vi * 3 + vt * 2]
""")
    rejects(holes, lambda s: s.rolling_buffer("B", 0), "")
    shared = from_source("""
@T.prim_func
def main(A: T.Buffer((10,), "float32"), C: T.Buffer((3, 8), "float32")):
    B = T.alloc_buffer((10,))
    for o in T.parallel(3):
        for i in range(8):
            for t in range(3):
                with T.block("B"):
                    v = T.axis.spatial(10, i + t)
                    B[v] = A[v] * T.float32(2)
            with T.block("C"):
                vo, v = T.axis.remap("SS", [o, i])
                C[vo, v] = B[v] + B[v + 2]
""")
    rejects(shared, lambda s: s.rolling_buffer("B", 0), "is parallel", ["o"])


def test_a_source_that_changes_while_the_loops_run_is_refused() -> None:
    sums = from_source("""
@T.prim_func
def main(A: T.Buffer((4, 10), "float32"), C: T.Buffer((4, 8), "float32")):
    S = T.alloc_buffer((10,))
    B = T.alloc_buffer((10,))
    for o in range(4):
        for t in range(10):
            with T.block("S"):
                v = T.axis.spatial(10, t)
                vo = T.axis.reduce(4, o)
                with T.init():
                    S[v] = T.float32(0)
                S[v] = S[v] + A[vo, v]
        for i in range(8):
            for t in range(3):
                with T.block("B"):
                    v = T.axis.spatial(10, i + t)
                    B[v] = S[v] * T.float32(2)
            with T.block("C"):
                vo, v = T.axis.remap("SS", [o, i])
                C[vo, v] = B[v] + B[v + 2]
""")
    rejects(sums, lambda s: s.rolling_buffer("B", 0), "accumulates over", ["S", "o"])


def test_uses_that_no_block_declares_are_refused() -> None:
    def steps(s: Schedule) -> None:
        moved(s)
        (loop,) = s.get_loops("D")
        s.loop_partition(loop, [4])
        s.rolling_buffer("C", 0)

    rejects(chain, steps, "")


def rolled(s: Schedule) -> None:
    s.rolling_buffer("B", 0)


def test_steps_that_would_break_what_is_kept_are_refused() -> None:
    def bind_in_order(s: Schedule) -> None:
        s.set_scope("B", 0, "local")
        rolled(s)
        s.bind(s.get_loops("C")[0], "threadIdx.x")

    rejects(pools, bind_in_order, "opaque", ["i0", "B"])

    def bind_inner(s: Schedule) -> None:
        s.set_scope("B", 0, "local")
        rolled(s)
        s.bind(s.get_loops("C")[1], "threadIdx.x")

    rejects(pools, bind_inner, "", ["i1", "C"])

    def reordered(s: Schedule) -> None:
        rolled(s)
        i0, i1, *_ = s.get_loops("B")
        s.reorder(i1, i0)

    rejects(pools, reordered, "")

    def cached(s: Schedule) -> None:
        rolled(s)
        s.cache_write("B", 0, "global")

    rejects(pools, cached, "")
    for step in (
        lambda s: s.cache_read("C", "B", "global"),
        lambda s: s.parallel(s.get_loops("C")[0]),
        lambda s: s.parallel(s.get_loops("C")[1]),
        lambda s: s.read_at(s.get_loops("C")[1], "C", "B", "global"),
        lambda s: s.write_at(s.get_loops("C")[1], "B", 0, "global"),
    ):
        rejects(pools, lambda s, step=step: (rolled(s), step(s)), "")


def test_steps_that_keep_the_order_are_fine() -> None:
    def steps(s: Schedule) -> None:
        rolled(s)
        i0, i1, _, ax1 = s.get_loops("C")
        s.vectorize(s.split(ax1, [None, 2])[1])
        s.split(i0, [2, 1])
        s.unroll(i1)

    check_schedule(pools, steps)


def test_a_window_that_moves_with_a_loop_its_reader_reduces_over_is_refused():
    # The axis would become opaque, and the init would run in each of its iterations.
    @T.prim_func
    def windows(A: T.Buffer((8,), "float32"), C: T.Buffer((6,), "float32")):
        B = T.alloc_buffer((8,))
        for r in range(3):
            for i in range(6):
                with T.block("B"):
                    v = T.axis.spatial(8, r + i)
                    B[v] = A[v] * 2.0
            for i in range(6):
                with T.block("C"):
                    vi, vr = T.axis.remap("SR", [i, r])
                    with T.init():
                        C[vi] = 0.0
                    C[vi] = C[vi] + B[vi + vr]

    rejects(windows, lambda s: s.rolling_buffer("B", 0), "over which .* reduces", ["r", "C"])
