"""Reductions whose instances begin the same element anew: only the order that is written gives their result."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.schedule.check import check_schedule, rejects
from tscript import compare
from tscript.ir.function import PrimFunc
from tscript.ir.stmt import Block
from tscript.schedule import Schedule, ScheduleError
from tscript.schedule.shared_elements import shared_element
from tscript.script import from_source


def sums(
    at: str, extent: str = "8", init: str = "with T.init():\n                C[{at}] = T.float32(0)", rows: int = 16
) -> PrimFunc:
    """Sums of rows into the element that `at` says."""
    return from_source(f"""
@T.prim_func
def main(a: T.handle, C: T.Buffer(({rows},), "float32")):
    {"n = T.int32()" if extent == "n" else ""}
    A = T.match_buffer(a, ({extent}, 4), "float32")
    for i, k in T.grid({extent}, 4):
        with T.block("C"):
            v, r = T.axis.remap("SR", [i, k])
            {init.format(at=at)}
            C[{at}] = C[{at}] + A[v, r]
""")


STEPS: dict[str, Callable[[Schedule], object]] = {
    "reorder": lambda s: s.reorder(*reversed(s.get_loops("C"))),
    "parallel": lambda s: s.parallel(s.get_loops("C")[0]),
    "vectorize": lambda s: s.vectorize(s.get_loops("C")[0]),
    "bind": lambda s: s.bind(s.get_loops("C")[0], "threadIdx.x"),
    "decompose_reduction": lambda s: s.decompose_reduction("C", s.get_loops("C")[0]),
    "rfactor": lambda s: s.rfactor(s.get_loops("C")[1], 0),
}


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("at", ["v // 2", "v % 4", "T.max(v - 3, 0)"])
def test_what_would_change_the_order_is_refused(name: str, at: str) -> None:
    rejects(sums(at), STEPS[name], "C")
    with_sizes = sums(at, "n")
    sch = Schedule(with_sizes)
    try:
        STEPS[name](sch)
    except ScheduleError:
        return
    assert compare(with_sizes, sch, sizes={"n": 8})


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize(("at", "pair"), [("v % 100", "100"), ("T.min(v, 150)", "151"), ("v * v % 120", "")])
def test_instances_that_share_an_element_far_apart_are_found(name: str, at: str, pair: str) -> None:
    func = sums(at, "200", rows=200)
    rejects(func, STEPS[name], "C")
    sch = Schedule(func)
    block = sch.get(sch.get_block("C"))
    assert isinstance(block, Block) and pair in shared_element(block)


@pytest.mark.parametrize("name", ["reorder", "parallel", "decompose_reduction"])
def test_instances_that_are_not_seen_to_have_elements_of_their_own_are_refused(name: str) -> None:
    func = from_source("""
@T.prim_func
def main(A: T.Buffer((8, 4), "float32"), I: T.Buffer((8,), "int32"), C: T.Buffer((16,), "float32")):
    for i, k in T.grid(8, 4):
        with T.block("C"):
            v, r = T.axis.remap("SR", [i, k])
            with T.init():
                C[I[v]] = T.float32(0)
            C[I[v]] = C[I[v]] + A[v, r]
""")
    rejects(func, STEPS[name], "C")


@pytest.mark.parametrize("at", ["v", "v + 3", "7 - v", "v * 2", "(v + 3) % 8", "v % 4 * 2 + v // 4"])
@pytest.mark.parametrize("name", ["reorder", "parallel", "decompose_reduction"])
def test_elements_of_their_own_are_free(name: str, at: str) -> None:
    func = sums(at)
    sch = Schedule(func)
    block = sch.get(sch.get_block("C"))
    assert isinstance(block, Block) and not shared_element(block)
    check_schedule(func, STEPS[name])


def test_sums_without_an_init_may_come_in_any_order() -> None:
    check_schedule(sums("v // 2", init="pass"), STEPS["reorder"])


def overlapping(width: int) -> PrimFunc:
    """Each instance sums into three elements, the next one into those `width` further on."""
    return from_source(f"""
@T.prim_func
def main(A: T.Buffer((6, 4), "float32"), C: T.Buffer((24,), "float32")):
    for i, k in T.grid(6, 4):
        with T.block("C"):
            v, r = T.axis.remap("SR", [i, k])
            T.reads(C[v * {width}:v * {width} + 3], A[v, r])
            T.writes(C[v * {width}:v * {width} + 3])
            with T.init():
                for c in range(3):
                    C[v * {width} + c] = T.float32(0)
            for c in range(3):
                C[v * {width} + c] = C[v * {width} + c] + A[v, r]
""")


@pytest.mark.parametrize("name", ["reorder", "parallel", "decompose_reduction"])
def test_regions_of_instances_that_overlap_are_found(name: str) -> None:
    rejects(overlapping(2), STEPS[name], "C")
    check_schedule(overlapping(3), STEPS[name])
