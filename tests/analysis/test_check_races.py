"""Iterations that meet at an element while they run at the same time are found; those that keep apart are not."""

from __future__ import annotations

import pytest

import tscript
from tscript.analysis import check
from tscript.script import from_source
from tscript.testing.workloads import matmul

HEAD = (
    "@T.prim_func\ndef f(A: T.Buffer((64, 64), 'float32'), B: T.Buffer((64,), 'float32'), "
    "C: T.Buffer((64, 64), 'float32'), I: T.Buffer((64,), 'int32')):\n"
    "    s = T.alloc_buffer((32,), 'float32', scope='shared')\n"
    "    t = T.alloc_buffer((64,), 'float32')\n    u = T.alloc_buffer((4,), 'float32', scope='local')\n"
)  # fmt: skip
THREADS = "bx = T.launch_thread('blockIdx.x', 2)\ntx = T.launch_thread('threadIdx.x', 32)\n"
SYNC = "T.evaluate(T.tvm_storage_sync('shared'))\n"


def kernel(body: str):
    return from_source(HEAD + "".join(f"    {line}\n" for line in body.splitlines()))


RIGHT = {
    "own elements": "for i in T.parallel(64):\n    B[i] = A[i, 0]",
    "own rows": "for i in T.parallel(64):\n    for j in range(64):\n        C[i, j] = C[i, j] + A[i, j]",
    "serial reduction inside": "for i in T.parallel(64):\n    B[i] = T.float32(0)\n    for k in range(64):\n"
    "        B[i] = B[i] + A[i, k]",
    "tiles of a fused loop": "for f in T.parallel(32):\n    for a, b in T.grid(8, 16):\n"
    "        C[f // 4 * 8 + a, f % 4 * 16 + b] = T.float32(0)\n    for a, b in T.grid(8, 16):\n"
    "        C[f // 4 * 8 + a, f % 4 * 16 + b] = C[f // 4 * 8 + a, f % 4 * 16 + b] + A[a, b]",
    "even and odd": "for i in T.parallel(32):\n    B[i * 2] = B[i * 2 + 1]",
    "other row by data": "for i in T.vectorized(64):\n    C[I[0] % 64, i] = A[0, i]",
    "backwards": "for i in T.parallel(64):\n    B[63 - i] = B[63 - i] + A[i, 0]",
    "guarded tail": "for i in T.parallel(5):\n    for j in range(14):\n        if i * 14 + j < 64:\n"
    "            B[i * 14 + j] = A[0, 0]",
    "one iteration": "for i in T.parallel(1):\n    for k in range(64):\n        B[0] = B[0] + A[0, k]",
    "memory of the iteration": "for i in T.parallel(64):\n    with T.block('b'):\n        v = T.axis.spatial(64, i)\n"
    "        T.reads(A[v, 0])\n        T.writes(B[v])\n        w = T.alloc_buffer((1,), 'float32')\n"
    "        w[0] = A[v, 0]\n        B[v] = w[0]",
    "the same for all": "for i in T.parallel(64):\n    t[0] = A[0, 0]\n    B[i] = t[0]",
    "barrier": THREADS + "s[tx] = A[bx, tx]\n" + SYNC + "B[bx * 32 + tx] = s[31 - tx]",
    "barriers in a loop": THREADS + "for k in range(2):\n    s[tx] = A[bx, k * 32 + tx]\n    " + SYNC
    + "    B[bx * 32 + tx] = s[31 - tx]\n    " + SYNC,
    "private to threads": THREADS + "u[0] = A[bx, tx]\nB[bx * 32 + tx] = u[0]",
    "tree": THREADS + "s[tx] = A[bx, tx]\n" + SYNC + "for k in range(5):\n    if tx < T.shift_right(16, k):\n"
    "        s[tx] = s[tx] + s[tx + T.shift_right(16, k)]\n    " + SYNC + "if tx == 0:\n    B[bx] = s[0]",
}  # fmt: skip


@pytest.mark.parametrize("body", RIGHT.values(), ids=list(RIGHT))
def test_iterations_that_keep_apart_give_no_finding(body):
    assert [str(f) for f in check(kernel(body), kinds=("race",))] == []


WRONG = {
    "reduction": ("for i in range(64):\n    for k in T.parallel(64):\n        B[i] = B[i] + A[i, k]", "B[0]"),
    "lanes": ("for k in T.vectorized(64):\n    B[0] = B[0] + A[0, k]", "B[0]"),
    "neighbour": ("for i in T.parallel(63):\n    B[i] = B[i + 1]", "B[1]"),
    "tiles overlap": ("for i in T.parallel(7):\n    for j in range(9):\n        B[i * 8 + j] = A[i, j]", "B[8]"),
    "quotient": ("for i in T.parallel(64):\n    B[i // 2] = A[i, 0]", "B[0]"),
    "one temporary": ("for i in T.parallel(64):\n    t[0] = A[i, 0]\n    B[i] = t[0]", "t[0]"),
    "read before": ("for i in T.parallel(64):\n    B[i] = t[0]\n    t[0] = A[0, 0]", "t[0]"),
    "two statements": ("for i in T.parallel(32):\n    B[i] = A[i, 0]\n    C[0, i] = B[31 - i]", "B[0]"),
    "threads of a block": (THREADS + "for k in range(2):\n    B[bx] = B[bx] + A[tx, k]", "B[0]"),
    "blocks": (THREADS + "B[tx] = A[bx, tx]", "B[0]"),
    "no barrier": (THREADS + "s[tx] = A[bx, tx]\nB[bx * 32 + tx] = s[31 - tx]", "s[0]"),
    "barrier too early": (THREADS + SYNC + "s[tx] = A[bx, tx]\nB[bx * 32 + tx] = s[31 - tx]", "s[0]"),
    "no barrier around the loop": (
        THREADS + "for k in range(2):\n    s[tx] = A[bx, k * 32 + tx]\n"
            "    " + SYNC + "    B[bx * 32 + tx] = s[31 - tx]",
        "s[0]",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("body", "element"), WRONG.values(), ids=list(WRONG))
def test_iterations_that_meet_are_proven_to(body, element):
    report = check(kernel(body), kinds=("race",))
    assert report.proven, body
    assert all(f.is_proven for f in report)
    assert report[0].kind == "race"
    assert f"writes {element} and iteration (" in report[0].message
    assert report[0].span is not None
    assert "try: " in str(report[0])


def test_what_depends_on_data_is_possible():
    for body in (
        "for i in T.parallel(64):\n    B[I[i]] = A[i, 0]",
        "for i in T.parallel(64):\n    if I[i] > 0:\n        B[0] = A[i, 0]",
    ):
        assert [f.status for f in check(kernel(body), kinds=("race",))] == ["possible"]


def test_sizes_may_be_symbolic_and_loops_long():
    text = (
        "@T.prim_func\ndef f(a: T.handle, b: T.handle):\n    n = T.int64()\n"
        "    A = T.match_buffer(a, (n, n), 'float32')\n"
        "    B = T.match_buffer(b, (n,), 'float32')\n    for i in T.{}(n):\n        for k in T.{}(n):\n"
        "            B[i] = B[i] + A[i, k]\n"
    )
    assert not check(from_source(text.format("parallel", "serial")))
    (finding,) = check(from_source(text.format("serial", "parallel")))
    assert finding.is_proven
    assert finding.witness == {"n": 2}
    sch = tscript.tir.Schedule(matmul(2048, 2048, 2048).func)
    i, j, _ = sch.get_loops("C")
    (io, _), (jo, jj) = sch.split(i, [None, 32]), sch.split(j, [None, 64])
    sch.reorder(io, jo, sch.get_loops("C")[1], jj)
    sch.parallel(sch.fuse(io, jo))
    sch.vectorize(jj)
    assert not check(sch.mod)


def test_a_reduction_with_an_init_may_run_over_threads():
    sch = tscript.tir.Schedule(matmul(8, 8, 32).func)
    i, _, k = sch.get_loops("C")
    sch.bind(i, "blockIdx.x")
    sch.bind(k, "threadIdx.x")
    assert "threadIdx.x" in str(sch.mod)
    assert not check(sch.mod, kinds=("race",))


OVERLAPPING = (
    "for i in T.parallel(8):\n    for d in range(2):\n"
    "        with T.LetStmt(i + d) as v:\n            t[v] = {value}\n    {after}"
)


def test_elements_that_all_iterations_rewrite_alike_before_they_read_them_are_no_race() -> None:
    right = OVERLAPPING.format(value="A[v, 0] * T.float32(2)", after="B[i] = t[i] + t[i + 1]")
    report = check(kernel(right))
    assert not any(f.kind == "race" for f in (*report.proven, *report.possible))
    for value, after in (
        ("A[v, i]", "B[i] = t[i] + t[i + 1]"),
        ("B[v]", "B[i] = t[i]"),
        ("t[v] + T.float32(1)", "B[i] = t[i]"),
        ("A[v, 0]", "B[i] = t[i + 2]"),
        ("A[v, d]", "B[i] = t[i]"),
    ):
        report = check(kernel(OVERLAPPING.format(value=value, after=after)))
        assert any(f.kind == "race" for f in (*report.proven, *report.possible)), (value, after)
