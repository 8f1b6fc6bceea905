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
    ],
)
def test_an_order_that_matters_is_kept(update):
    rejects(
        from_source(PROGRAM.format(update=update)),
        turned,
        r"iteration \(i=0, k_0=0, k_1=1\) writes B\[0\], iteration \(i=0, k_0=1, k_1=0\)",
        at=["k_0", "k_1", "B"],
    )
