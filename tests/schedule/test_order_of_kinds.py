"""Whether a loop is made parallel or a thread before or after something moves into it makes no difference."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.schedule.check import check_schedule, rejects
from tscript.schedule import LoopRV, Schedule, ScheduleError
from tscript.script import tir as T


@T.prim_func
def overlapping_sums(X: T.Buffer((9, 4), "float32"), Z: T.Buffer((8,), "float32")):
    Y = T.alloc_buffer((9,))
    for i, k in T.grid(9, 4):
        with T.block("Y"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                Y[vi] = T.float32(0)
            Y[vi] = Y[vi] + X[vi, vk]
    for i in range(8):
        with T.block("Z"):
            vi = T.axis.spatial(8, i)
            Z[vi] = Y[vi] + Y[vi + 1]


@T.prim_func
def overlapping_copies(X: T.Buffer((9,), "float32"), Z: T.Buffer((8,), "float32")):
    Y = T.alloc_buffer((9,))
    for i in range(9):
        with T.block("Y"):
            vi = T.axis.spatial(9, i)
            Y[vi] = X[vi] * T.float32(2)
    for i in range(8):
        with T.block("Z"):
            vi = T.axis.spatial(8, i)
            Z[vi] = Y[vi] + Y[vi + 1]


@T.prim_func
def apart(X: T.Buffer((8, 4), "float32"), Z: T.Buffer((8,), "float32")):
    Y = T.alloc_buffer((8,))
    for i, k in T.grid(8, 4):
        with T.block("Y"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                Y[vi] = T.float32(0)
            Y[vi] = Y[vi] + X[vi, vk]
    for i in range(8):
        with T.block("Z"):
            vi = T.axis.spatial(8, i)
            Z[vi] = Y[vi] + T.float32(1)


KINDS: dict[str, Callable[[Schedule, LoopRV], None]] = {
    "parallel": lambda s, loop: s.parallel(loop),
    "thread": lambda s, loop: s.bind(loop, "threadIdx.x"),
    "group": lambda s, loop: s.bind(loop, "blockIdx.x"),
}


def moved(kind: str, first: bool) -> Callable[[Schedule], None]:
    def steps(s: Schedule) -> None:
        (i,) = s.get_loops("Z")
        if first:
            KINDS[kind](s, i)
        s.compute_at("Y", i)
        if not first:
            KINDS[kind](s, i)

    return steps


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_a_sum_that_several_iterations_need_is_not_accumulated_by_them_at_once(kind: str, first: bool) -> None:
    rejects(overlapping_sums, moved(kind, first), "block `Y` writes `Y")


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_iterations_may_write_the_same_values_at_once(kind: str, first: bool) -> None:
    check_schedule(overlapping_copies, moved(kind, first))


@pytest.mark.parametrize("first", [True, False])
def test_iterations_that_keep_to_their_elements_accumulate_at_once(first: bool) -> None:
    check_schedule(apart, moved("parallel", first))


@pytest.mark.parametrize("scope", ["local", "shared", "global"])
def test_threads_have_sums_of_their_own_in_memory_of_their_own(scope: str) -> None:
    def steps(s: Schedule) -> None:
        s.set_scope("Y", 0, scope)
        moved("thread", True)(s)

    if scope == "local":
        check_schedule(overlapping_sums, steps)
    else:
        rejects(overlapping_sums, steps, "bound to threadIdx.x, and its iterations would meet", at=["i"])


def test_without_checks_the_program_is_run_and_shows_it() -> None:
    sch = Schedule(overlapping_sums, enable_check=False)
    with pytest.raises(ScheduleError, match="its iterations race: iteration"):
        moved("parallel", True)(sch)
    moved("parallel", True)(Schedule(overlapping_copies, check="numeric"))
    sch = Schedule(overlapping_copies, enable_check=False)
    moved("parallel", True)(sch)
    assert "T.parallel(8)" in sch.mod.script()


@T.prim_func
def two_parts(X: T.Buffer((8, 4), "float32"), Z: T.Buffer((8, 4), "float32")):
    Y = T.alloc_buffer((8, 4))
    for i in range(8):
        with T.block("Y"):
            vi = T.axis.spatial(8, i)
            T.reads(X[vi, 0:4])
            T.writes(Y[vi, 0:2], Y[vi, 2:4])
            for j in range(4):
                Y[vi, j] = X[vi, j] * T.float32(2)
        with T.block("Z"):
            vi = T.axis.spatial(8, i)
            T.reads(Y[vi, 0:4])
            T.writes(Z[vi, 0:4])
            for j in range(4):
                Z[vi, j] = Y[vi, j] + T.float32(1)


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("cache", ["cache_read", "cache_write"])
def test_a_copy_of_more_than_an_iteration_makes_is_not_taken_by_several_at_once(cache: str, first: bool) -> None:
    def steps(s: Schedule) -> None:
        (i,) = s.get_loops("Y")
        if first:
            s.parallel(i)
        if cache == "cache_read":
            s.cache_read("Z", 0, "global")
        else:
            s.cache_write("Y", 0, "global")
        if not first:
            s.parallel(i)

    rejects(two_parts, steps, "loop `i`")


@pytest.mark.parametrize("kind", ["parallel", "vectorize", "unroll", "threadIdx.x"])
@pytest.mark.parametrize("scope", ["local", "shared", "global"])
@pytest.mark.parametrize("factor", [None, 4])
def test_copies_inside_loops_of_each_kind_compute_the_same(kind: str, scope: str, factor: int | None) -> None:
    @T.prim_func
    def chain(X: T.Buffer((3, 16), "float32"), Z: T.Buffer((3, 16), "float32")):
        Y = T.alloc_buffer((3, 16))
        for i, j in T.grid(3, 16):
            with T.block("Y"):
                vi, vj = T.axis.remap("SS", [i, j])
                Y[vi, vj] = X[vi, vj] * T.float32(2)
            with T.block("Z"):
                vi, vj = T.axis.remap("SS", [i, j])
                Z[vi, vj] = Y[vi, vj] + T.float32(1)

    def steps(s: Schedule) -> None:
        j = s.get_loops("Z")[1]
        if factor is not None:
            _, j = s.split(j, [None, factor])
        s.bind(j, kind) if kind.startswith("thread") else getattr(s, kind)(j)
        s.cache_read("Z", 0, scope)
        s.cache_write("Y", 0, scope)

    check_schedule(chain, steps)
