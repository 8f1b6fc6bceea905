"""Reductions may be reordered where their form leaves the order free, and not where it is seen to matter."""

from __future__ import annotations

import pytest

from tests.schedule.check import check_schedule, rejects
from tscript.parser import from_source
from tscript.schedule import Schedule

PROGRAM = """
@T.prim_func
def main(A: T.Buffer((4, 6), "float32"), B: T.Buffer((4,), "float32")):
    for i, k_0, k_1 in T.grid(4, 2, 3):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            vk = T.axis.reduce(6, k_0 * 3 + k_1)
            B[vi] = {update}
"""


def turned(sch: Schedule) -> None:
    _, outer, inner = sch.get_loops("B")
    sch.reorder(inner, outer)


@pytest.mark.parametrize(
    "update",
    [
        "B[vi] + A[vi, vk]",
        "A[vi, vk] + B[vi]",
        "B[vi] - A[vi, vk]",
        "A[vi, vk] * T.float32(2) + (T.float32(1) + (B[vi] - T.float32(3)))",
        "A[vi, vk] * B[vi]",
        "T.max(A[vi, vk], T.max(B[vi], T.float32(0)))",
        "T.min(B[vi], A[vi, vk])",
        "T.Select(B[vi] < A[vi, vk], A[vi, vk], B[vi])",
        "T.Select(A[vi, vk] > T.float32(0), B[vi] + A[vi, vk], B[vi])",
        "T.if_then_else(vk > 2, B[vi] - A[vi, vk], B[vi] + T.float32(1))",
        "T.Select(A[vi, vk] > T.float32(0), T.float32(1), B[vi])",
        "T.sqrt(B[vi] * B[vi] + A[vi, vk] * A[vi, vk])",
        "B[vi] * T.float32(2) + T.float32(1)",
    ],
)
def test_a_free_order_is_changed(update):
    check_schedule(from_source(PROGRAM.format(update=update)), turned, exact=False)


@pytest.mark.parametrize(
    "update",
    [
        "A[vi, vk] - B[vi]",
        "A[vi, vk] / B[vi]",
        "B[vi] * T.float32(2) + A[vi, vk]",
        "T.min(B[vi] + A[vi, vk], T.float32(1))",
        "T.max(T.min(B[vi], A[vi, vk]), T.float32(-1))",
        "B[vi] * B[vi] + A[vi, vk]",
        "T.float32(1) + (A[vi, vk] - B[vi])",
        "T.Select(A[vi, vk] > T.float32(0), B[vi] + A[vi, vk], B[vi] * T.float32(2))",
        "T.if_then_else(vk > 2, A[vi, vk], B[vi] + A[vi, vk])",
        "T.Select(A[vi, vk] > T.float32(0), A[vi, vk], B[vi])",
        "A[vi, vk]",
    ],
)
def test_an_order_that_matters_is_kept(update):
    rejects(
        from_source(PROGRAM.format(update=update)),
        turned,
        r"iteration \(i=0, k_0=0, k_1=1\) writes B\[0\], iteration \(i=0, k_0=1, k_1=0\)",
        at=["k_0", "k_1", "B"],
    )


def test_bitwise_operations_are_free_as_long_as_they_are_alone():
    program = PROGRAM.replace("float32", "int32")
    for update in ("B[vi] & A[vi, vk]", "A[vi, vk] | B[vi]", "(B[vi] ^ A[vi, vk]) ^ 3"):
        check_schedule(from_source(program.format(update=update)), turned)
    for update in ("(B[vi] & A[vi, vk]) + 1", "(A[vi, vk] - B[vi]) | A[vi, vk]"):
        rejects(from_source(program.format(update=update)), turned, "writes", at=["k_0", "k_1", "B"])


def test_a_store_under_a_condition_counts_as_a_choice():
    program = PROGRAM.replace("B[vi] = ", "if A[vi, vk] > T.float32(0):\n                B[vi] = ")
    check_schedule(from_source(program.format(update="B[vi] + A[vi, vk]")), turned, exact=False)
    for update in ("A[vi, vk]", "A[vi, vk] - B[vi]"):
        rejects(from_source(program.format(update=update)), turned, "writes", at=["k_0", "k_1", "B"])


STARTED = """
@T.prim_func
def main(A: T.Buffer((6, 5), "int32"), D: T.Buffer((6,), "int32")):
    B = T.alloc_buffer((6,), "int32")
    for i, k in T.grid(6, 5):
        with T.block("B"):
            vi = T.axis.spatial(6, i)
            vk = T.axis.reduce(5, {k})
            with T.init():
                B[vi] = 0
            B[vi] = A[vi, vk] - B[vi]
    for i in range(6):
        with T.block("D"):
            vi = T.axis.spatial(6, i)
            D[vi] = B[vi]
"""


def test_updates_from_an_init_keep_their_order_too():
    func = from_source(STARTED.format(k="k"))

    def split_and_turned(sch: Schedule) -> None:
        i, k = sch.get_loops("B")
        outer, inner = sch.split(k, [None, 2])
        sch.reorder(inner, outer, i)

    rejects(func, split_and_turned, "writes `?B")
    check_schedule(func, lambda s: s.reorder(*reversed(s.get_loops("B"))))


def test_a_block_that_moves_runs_its_updates_in_the_same_order():
    def moved(sch: Schedule) -> None:
        sch.compute_at("B", sch.get_loops("D")[0])

    check_schedule(from_source(STARTED.format(k="k")), moved)

    def in_pieces(sch: Schedule) -> None:
        sch.split(sch.get_loops("B")[1], [None, 2])
        moved(sch)

    check_schedule(from_source(STARTED.format(k="k")), in_pieces)
    turned = STARTED.replace("6, 5", "6, 4").replace("reduce(5", "reduce(4").replace("i, k in T.grid(6, 4)", "{loops}")
    for loops, k in (("i, a, b in T.grid(6, 2, 2)", "a * 2 + b"), ("i, a, b, k in T.grid(6, 2, 2, 1)", "a * 2 + b")):
        check_schedule(from_source(turned.format(loops=loops, k=k)), moved)
    func = from_source(turned.format(loops="i, a, b in T.grid(6, 2, 2)", k="b * 2 + a"))
    rejects(func, moved, "depends on the order of its updates", at=["B"])


def test_a_block_whose_axes_change_keeps_the_order_that_matters():
    func = from_source(STARTED.format(k="k"))
    rejects(func, lambda s: s.transform_block_layout("B", lambda i, k: (i, 4 - k)), "order of the iterations")
