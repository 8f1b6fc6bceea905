"""Steps that would change what is computed are refused with the iterations that show it, word by word."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tests.schedule.check import check_schedule, rejects
from tests.schedule.test_compute_at import padded, window
from tests.schedule.test_order_of_kinds import moved, overlapping_sums
from tscript.ir.function import PrimFunc
from tscript.schedule import Schedule
from tscript.script import tir as T

Steps = Callable[[Schedule], Any]


@T.prim_func
def row_sums(X: T.Buffer((4, 8), "int32"), Y: T.Buffer((4,), "int32")):
    for i, k in T.grid(4, 8):
        with T.block("Y"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                Y[vi] = 0
            Y[vi] = Y[vi] + X[vi, vk]


@T.prim_func
def diagonal(A: T.Buffer((6, 6), "int32")):
    for i, j in T.grid(5, 5):
        with T.block("A"):
            vi, vj = T.axis.remap("SS", [i, j])
            A[vi + 1, vj] = A[vi, vj + 1] + 1


@T.prim_func
def shifted(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    B = T.alloc_buffer((9,), "int32")
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            B[v] = A[v] * 2
    for i in range(8):
        with T.block("C"):
            v = T.axis.spatial(8, i)
            C[v] = B[v + 1]


@T.prim_func
def same_nest(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32"), D: T.Buffer((8,), "int32")):
    B = T.alloc_buffer((8,), "int32")
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            B[v] = A[v] * 2
        with T.block("C"):
            v = T.axis.spatial(8, i)
            C[v] = B[v // 2]
    for i in range(8):
        with T.block("D"):
            v = T.axis.spatial(8, i)
            D[v] = C[v]


@T.prim_func
def overwritten(A: T.Buffer((9,), "int32"), B: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            B[v] = A[v + 1]
    for i in range(8):
        with T.block("A"):
            v = T.axis.spatial(8, i)
            A[v] = v
    for i in range(8):
        with T.block("C"):
            v = T.axis.spatial(8, i)
            C[v] = B[v]


@T.prim_func
def summed(A: T.Buffer((4, 8), "int32"), S: T.Buffer((8,), "int32")):
    B = T.alloc_buffer((4, 8), "int32")
    for k, i in T.grid(4, 8):
        with T.block("B"):
            vk, vi = T.axis.remap("SS", [k, i])
            B[3 - vk, vi] = A[vk, vi] + 1
    for i, k in T.grid(8, 4):
        with T.block("S"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                S[vi] = 0
            S[vi] = S[vi] + B[vk, vi]


@T.prim_func
def repeated(A: T.Buffer((8,), "int32"), S: T.Buffer((1,), "int32")):
    B = T.alloc_buffer((8,), "int32")
    for _t, u in T.grid(2, 8):
        with T.block("B"):
            v = T.axis.spatial(8, u)
            B[v] = A[v] + 1
    for k in range(8):
        with T.block("S"):
            vk = T.axis.reduce(8, k)
            with T.init():
                S[0] = 0
            S[0] = S[0] + B[vk]


@T.prim_func
def local_values(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    B = T.alloc_buffer((8,), "int32", scope="local")
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            B[v] = A[v] * 2
        with T.block("C"):
            v = T.axis.spatial(8, i)
            C[v] = B[v // 2]


def on(block: str, k: int, method: str, *args: Any) -> Steps:
    return lambda s: getattr(s, method)(s.get_loops(block)[k], *args)


def under(method: str, block: str, other: str, k: int = 0) -> Steps:
    return lambda s: getattr(s, method)(block, s.get_loops(other)[k])


@dataclass
class Case:
    """A step that is refused, and the first line of the error."""

    name: str
    func: PrimFunc
    steps: Steps
    text: str


def near(s: Schedule, first: str, second: str) -> None:
    s.merge(s.get_loops(first)[0], s.get_loops(second)[0])


CASES = [
    Case(
        "parallel",
        diagonal,
        on("A", 0, "parallel"),
        "parallel: loop `i` cannot be parallel: block `A` writes `A[i + 1, j]` and block `A` reads `A[i, j + "
        "1]`: iteration (i=0, j=1) writes A[1, 1], iteration (i=1, j=0) reads it",
    ),
    Case(
        "parallel, sums",
        row_sums,
        on("Y", 1, "parallel"),
        "parallel: loop `k` cannot be parallel: its iterations accumulate into the same elements through the "
        "reduce axis `vk` of block `Y`: iteration (i=0, k=0) writes Y[0], iteration (i=0, k=1) writes it too",
    ),
    Case(
        "vectorize",
        diagonal,
        on("A", 0, "vectorize"),
        "vectorize: loop `i` cannot be vectorized: block `A` writes `A[i + 1, j]` and block `A` reads `A[i, j"
        " + 1]`: iteration (i=0, j=1) writes A[1, 1], iteration (i=1, j=0) reads it",
    ),
    Case(
        "bind",
        diagonal,
        on("A", 0, "bind", "blockIdx.x"),
        "bind: loop `i` cannot be bound to blockIdx.x: block `A` writes `A[i + 1, j]` and block `A` reads "
        "`A[i, j + 1]`: iteration (i=0, j=1) writes A[1, 1], iteration (i=1, j=0) reads it",
    ),
    Case(
        "bind, own memory",
        local_values,
        on("B", 0, "bind", "threadIdx.x"),
        "bind: loop `i` cannot be bound to threadIdx.x: block `C` may read elements of `B` that others write,"
        " and each thread has `local` memory of its own: iteration (i=1) reads B[0], which iteration (i=0) "
        "writes",
    ),
    Case(
        "reorder",
        diagonal,
        lambda s: s.reorder(*reversed(s.get_loops("A"))),
        "reorder: loop `i` cannot go inside loop `j`: block `A` writes `A[i + 1, j]` and block `A` reads "
        "`A[i, j + 1]`: iteration (i=0, j=1) writes A[1, 1], iteration (i=1, j=0) reads it; the new order "
        "would run them the other way round",
    ),
    Case(
        "merge",
        shifted,
        lambda s: near(s, "B", "C"),
        "merge: an iteration of loop `i` would touch what a later one of loop `i` does: `B[i_m]` and `B[i_m +"
        " 1]`, so they cannot run in turn: iteration (i_m=1) writes B[1], iteration (i_m=0) reads it",
    ),
    Case(
        "compute_at, not a pipeline",
        same_nest,
        under("compute_at", "C", "D"),
        "compute_at: the blocks of block `root` are no pipeline of stages: block `C` may read elements that "
        "the blocks before it have not written in the same iteration of the loops around both: iteration "
        "(i=1) reads B[0], which iteration (i=0) writes",
    ),
    Case(
        "compute_at, overwritten",
        overwritten,
        under("compute_at", "B", "C"),
        "compute_at: the blocks of block `root` are no pipeline of stages: block `A` overwrites what block "
        "`B` reads before it: iteration (i=0) reads A[1], iteration (i=1) writes it",
    ),
    Case(
        "compute_at, threads meet",
        overlapping_sums,
        moved("group", True),
        "compute_at: loop `i` is bound to blockIdx.x, and its iterations would meet: block `Y` writes "
        "`Y[ax0]`: iteration (i=0, ax0=0, ax1=0) writes Y[0], iteration (i=1, ax0=0, ax1=0) writes it too",
    ),
    Case(
        "reverse_compute_at, not made yet",
        window,
        under("reverse_compute_at", "C", "B"),
        "reverse_compute_at: in one iteration of loop `i`, block `C` would read elements of `B` that other "
        "iterations make: iteration (i=1) writes B[1], iteration (i=0, ax0=2, ax1=1) reads it",
    ),
    Case(
        "reverse_compute_at, lost",
        padded,
        under("reverse_compute_at", "C", "B"),
        "reverse_compute_at: not every value of the axis `v` of block `C` is certain to be run by some "
        "iteration of loop `i`: none runs v=0",
    ),
    Case(
        "reverse_compute_at, start",
        summed,
        under("reverse_compute_at", "S", "B"),
        "reverse_compute_at: block `S` would be reduced in parts that do not begin with the first values of "
        "`vk`, to which the init belongs: an iteration of loop `k` begins at `3 - k`: iteration (k=0), the "
        "first, begins at 3",
    ),
    Case(
        "reverse_compute_at, twice",
        repeated,
        under("reverse_compute_at", "S", "B"),
        "reverse_compute_at: block `S` would be reduced in parts, one in each iteration of loop `_t`, and some"
        " parts could be added twice: iterations (_t=0) and (_t=1) would both run vk=0",
    ),
    Case(
        "cache_read",
        same_nest,
        lambda s: s.cache_read("C", 0, "shared"),
        "cache_read: block `C` may read elements that the blocks before it have not written in the same "
        "iteration of common loops: iteration (i=1) reads B[0], which iteration (i=0) writes",
    ),
    Case(
        "transform_block_layout",
        diagonal,
        lambda s: s.transform_block_layout("A", lambda i, j: (j, i)),
        "transform_block_layout: the order of the iterations of block `A` matters: block `A` writes `A[i + 1,"
        " j]` and block `A` reads `A[i, j + 1]`: iteration (i=0, j=1) writes A[1, 1], iteration (i=1, j=0) "
        "reads it",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_the_iterations_are_named(case: Case) -> None:
    error = rejects(case.func, case.steps, "")
    assert str(error).splitlines()[0] == case.text


def test_fused_loops_and_parts_of_a_loop_run_in_the_old_order() -> None:
    check_schedule(diagonal, lambda s: s.fuse(*s.get_loops("A")))
    check_schedule(diagonal, lambda s: s.loop_partition(s.get_loops("A")[0], [2]))
    check_schedule(diagonal, lambda s: s.split(s.get_loops("A")[0], [None, 2]))
    check_schedule(row_sums, lambda s: s.loop_partition(s.get_loops("Y")[1], [3]))
