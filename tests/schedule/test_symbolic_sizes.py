"""Schedules of programs whose sizes are known at the call: tiles that do not divide, fused loops, partial sums."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.schedule.check import check_replay
from tscript import compare
from tscript.analysis import check
from tscript.ir.function import PrimFunc
from tscript.ir.stmt import For
from tscript.schedule import Schedule
from tscript.script import from_source
from tscript.script import tir as T
from tscript.tir.analysis import loop_conflict


def product(dtype: str) -> PrimFunc:
    """A product of matrices of any sizes, and what is done with it."""
    return from_source(f"""
@T.prim_func
def main(a: T.handle, b: T.handle, d: T.handle):
    n, m, p = T.{dtype}(), T.{dtype}(), T.{dtype}()
    A = T.match_buffer(a, (n, p), "float32")
    B = T.match_buffer(b, (p, m), "float32")
    D = T.match_buffer(d, (n, m), "float32")
    C = T.alloc_buffer((n, m), "float32")
    for i, j, k in T.grid(n, m, p):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
    for i, j in T.grid(n, m):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = T.max(C[vi, vj], T.float32(0))
""")


SIZES = ({"n": 1, "m": 1, "p": 1}, {"n": 7, "m": 5, "p": 3}, {"n": 16, "m": 8, "p": 24}, {"n": 9, "m": 17, "p": 10})


def partial_sums(sch: Schedule, which: int) -> None:
    _, _, k = sch.get_loops("C")
    sch.rfactor(sch.split(k, [None, 8])[which], 0)


def consumer_in_a_tile(sch: Schedule) -> None:
    i, _, _ = sch.get_loops("C")
    outer, _ = sch.split(i, [None, 8])
    sch.reverse_compute_at("D", outer)


def tiled_twice(sch: Schedule) -> None:
    i, j, k = sch.get_loops("C")
    i0, i1 = sch.split(i, [None, 4])
    j0, j1 = sch.split(j, [None, 8])
    k0, k1 = sch.split(k, [None, 4])
    sch.reorder(i0, j0, k0, i1, k1, j1)
    sch.reverse_compute_at("D", j0)
    sch.parallel(i0)
    sch.vectorize(j1)


def producer_in_a_tile(sch: Schedule) -> None:
    outer, _ = sch.split(sch.get_loops("D")[0], [None, 8])
    sch.compute_at("C", outer)
    k = sch.get_loops("C")[-1]
    sch.split(k, [None, 5])
    sch.unroll(sch.get_loops("C")[-1])


def fused_and_parallel(sch: Schedule) -> None:
    sch.parallel(sch.fuse(*sch.get_loops("C")[:2]))
    sch.parallel(sch.fuse(*sch.get_loops("D")))


def fused_and_bound(sch: Schedule) -> None:
    for block in ("C", "D"):
        outer, inner = sch.split(sch.fuse(*sch.get_loops(block)[:2]), [None, 16])
        sch.bind(outer, "blockIdx.x")
        sch.bind(inner, "threadIdx.x")


STEPS: dict[str, Callable[[Schedule], None]] = {
    "partial sums inside": lambda s: partial_sums(s, 1),
    "partial sums outside": lambda s: partial_sums(s, 0),
    "consumer in a tile": consumer_in_a_tile,
    "tiled twice": tiled_twice,
    "producer in a tile": producer_in_a_tile,
    "fused and parallel": fused_and_parallel,
    "fused and bound": fused_and_bound,
}


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("name", STEPS)
def test_steps_on_sizes_that_are_not_known(name: str, dtype: str) -> None:
    func = product(dtype)
    sch = Schedule(func, debug_mask="all")
    STEPS[name](sch)
    for sizes in SIZES:
        assert compare(func, sch, sizes=sizes), name
    assert sch.verify()
    check_replay(func, sch)
    assert check(sch.mod).proven == []


def test_three_fused_loops_are_told_apart() -> None:
    @T.prim_func
    def sums(a: T.handle, c: T.handle):
        n, m, p, q = T.int32(), T.int32(), T.int32(), T.int32()
        A = T.match_buffer(a, (n, m, p, q), "float32")
        C = T.match_buffer(c, (n, m, p), "float32")
        for i, j, k, r in T.grid(n, m, p, q):
            with T.block("C"):
                vi, vj, vk, vr = T.axis.remap("SSSR", [i, j, k, r])
                with T.init():
                    C[vi, vj, vk] = T.float32(0)
                C[vi, vj, vk] = C[vi, vj, vk] + A[vi, vj, vk, vr]

    sch = Schedule(sums)
    outer, inner = sch.split(sch.fuse(*sch.get_loops("C")[:3]), [None, 128])
    sch.bind(outer, "blockIdx.x")
    sch.bind(inner, "threadIdx.x")
    assert compare(sums, sch, sizes={"n": 3, "m": 7, "p": 9})


def scattered(at: str) -> For:
    """A loop that stores at what is read off its variable."""
    func = from_source(f"""
@T.prim_func
def main(c: T.handle, s: T.int32):
    n, m = T.int32(), T.int32()
    C = T.match_buffer(c, (n, m), "float32")
    for f in range(n):
        C[{at}] = T.float32(1)
""")
    assert isinstance(func.body, For)
    return func.body


@pytest.mark.parametrize("at", ["f // s % n, f % m", "f // m, f // m % m", "f // m, (f + 1) % m", "f // m, f % s % m"])
def test_a_quotient_and_a_rest_that_do_not_belong_together_tell_nothing(at: str) -> None:
    loop = scattered(at)
    assert loop_conflict(loop, loop) is not None


@pytest.mark.parametrize("at", ["f // m, f % m", "f % m, f // m", "(f + 1) // m, (f + 1) % m"])
def test_a_quotient_and_its_rest_tell_all(at: str) -> None:
    loop = scattered(at)
    assert loop_conflict(loop, loop) is None
