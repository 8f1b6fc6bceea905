"""Reads of memory that nothing wrote are found, and what was written in any of many ways is not."""

from __future__ import annotations

import numpy as np
import pytest

from tscript import interp, lower
from tscript.analysis import check
from tscript.schedule import Schedule
from tscript.script import from_source
from tscript.support.errors import InterpError
from tscript.testing.workloads import small_workloads

HEAD = (
    "@T.prim_func\ndef f(A: T.Buffer((8, 8), 'float32'), B: T.Buffer((8,), 'float32'), I: T.Buffer((8,), 'int32')):\n"
    "    t = T.alloc_buffer((8,), 'float32')\n"
)
COPY = "\nfor i in range(8):\n    B[i] = t[i]"


def kernel(body: str):
    return from_source(HEAD + "".join(f"    {line}\n" for line in body.splitlines()))


def arguments():
    return [np.ones((8, 8), "float32"), np.zeros(8, "float32"), np.ones(8, "int32")]


BLOCK = (
    "for i, k in T.grid(8, 8):\n    with T.block('t'):\n        v, r = T.axis.remap('SR', [i, k])\n{init}"
    "        t[v] = t[v] + A[v, r]"
)
RIGHT = {
    "loop": "for i in range(8):\n    t[i] = A[i, 0]" + COPY,
    "tiled": "for i, j in T.grid(2, 4):\n    t[i * 4 + j] = A[i, 0]" + COPY,
    "two halves": "for i in range(4):\n    t[i] = A[i, 0]\nfor i in range(4):\n    t[i + 4] = A[i, 0]" + COPY,
    "even and odd": "for i in range(4):\n    t[i * 2] = A[i, 0]\n    t[i * 2 + 1] = A[i, 0]" + COPY,
    "both branches": "for i in range(8):\n    if i < 3:\n        t[i] = A[i, 0]\n    else:\n"
        "        t[i] = A[i, 1]" + COPY,
    "init": BLOCK.format(init="        with T.init():\n            t[v] = T.float32(0)\n") + COPY,
    "first iteration": "for i, k in T.grid(8, 8):\n    if k == 0:\n        t[i] = T.float32(0)\n"
        "    t[i] = t[i] + A[i, k]" + COPY,
    "scan": "for i in range(8):\n    if i == 0:\n        t[0] = A[0, 0]\n    else:\n"
        "        t[i] = t[i - 1] + A[i, 0]" + COPY,
    "reversed": "for i in range(8):\n    t[7 - i] = A[i, 0]" + COPY,
    "predicate": "for i, j in T.grid(3, 3):\n    if i * 3 + j < 8:\n        t[i * 3 + j] = A[0, 0]" + COPY,
    "vector": "for i in range(2):\n    t[T.Ramp(i * 4, 1, 4)] = T.Broadcast(T.float32(1), 4)" + COPY,
    "same condition": "for i in range(8):\n    if i % 3 == 1:\n        t[i] = A[i, 0]\nfor i in range(8):\n"
        "    if i % 3 == 1:\n        B[i] = t[i]",
    "guarded read": "for i in range(7):\n    t[i] = A[i, 0]\nfor i in range(8):\n"
        "    B[i] = T.if_then_else(i < 7, t[i], T.float32(0))",
}  # fmt: skip


@pytest.mark.parametrize("body", RIGHT.values(), ids=list(RIGHT))
def test_memory_that_is_written_first_gives_no_finding(body):
    interp.run(kernel(body), *arguments(), check_uninitialized=True)
    assert list(check(kernel(body))) == []


WRONG = {
    "nothing": ("for i in range(8):\n    B[i] = t[i]", {"i": 0}),
    "too few": ("for i in range(7):\n    t[i] = A[i, 0]" + COPY, {"i": 7}),
    "no init": (BLOCK.format(init=""), {"i": 0, "k": 0}),
    "late": ("for i in range(8):\n    B[i] = t[i]\n    t[i] = A[i, 0]", {"i": 0}),
    "ahead": ("for i in range(7):\n    t[i] = A[i, 0]\n    B[i] = t[i + 1]", {"i": 0}),
    "gap": ("for i in range(4):\n    t[i * 2] = A[i, 0]" + COPY, {"i": 1}),
    "fresh each time": (
        "for i in range(8):\n    with T.block('b'):\n        v = T.axis.spatial(8, i)\n        T.reads()\n"
            "        T.writes(B[v])\n"
        "        u = T.alloc_buffer((1,), 'float32')\n        if v == 0:\n            u[0] = T.float32(1)\n"
            "        B[v] = u[0]",
        {"i": 1},
    ),
    "other branch": ("for i in range(8):\n    if i < 3:\n        t[i] = A[i, 0]" + COPY, {"i": 3}),
}  # fmt: skip


@pytest.mark.parametrize(("body", "witness"), WRONG.values(), ids=list(WRONG))
def test_a_read_of_unwritten_memory_is_proven_and_the_interpreter_stops_at_it(body, witness):
    report = check(kernel(body))
    assert [(f.kind, f.status) for f in report] == [("uninitialized", "proven")]
    assert report[0].witness == witness
    with pytest.raises(InterpError):
        interp.run(kernel(body), *arguments(), check_uninitialized=True, check_regions=False)


def test_a_write_that_depends_on_data_leaves_a_possible_finding():
    report = check(kernel("for i in range(8):\n    if I[i] > 0:\n        t[i] = A[i, 0]" + COPY))
    assert [(f.kind, f.status) for f in report] == [("uninitialized", "possible")]


def test_memory_given_away_is_not_judged():
    report = check(kernel("T.evaluate(T.call_extern('int32', 'fill', t.data))" + COPY))
    assert list(report) == []
    assert "t in f" in report.notes[0]


def test_symbolic_sizes():
    text = (
        "@T.prim_func\ndef f(a: T.handle, b: T.handle):\n    n = T.int64()\n"
        "    A = T.match_buffer(a, (n,), 'float32')\n"
        "    B = T.match_buffer(b, (n,), 'float32')\n    t = T.alloc_buffer((n,), 'float32')\n"
        "    for i in range({}):\n        t[i] = A[i]\n    for i in range(n):\n        B[i] = t[i]\n"
    )
    assert not check(from_source(text.format("n")))
    (finding,) = check(from_source(text.format("n - 1")))
    assert finding.is_proven
    assert finding.witness == {"n": 1, "i": 0}


ROW_SUMS = """
@T.prim_func
def f(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4,), "float32")):
    for i, k in T.grid(4, 8):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
{init}            B[vi] = B[vi] + A[vi, vk]
"""
INIT = "            with T.init():\n                B[vi] = 0.0\n"


def test_an_output_that_is_added_to_without_an_init_is_found_when_it_is_said_to_be_one():
    report = check(from_source(ROW_SUMS.format(init="")))
    # It may be meant to be updated in place, so this is a note.
    assert list(report) == []
    assert "B in f is read before it is written" in report.notes[0]
    assert "note: B in f" in str(report)
    (finding,) = check(from_source(ROW_SUMS.format(init="")), outputs=("B",)).proven
    assert finding.message == "B[0] is read before anything has written it"
    assert finding.witness == {"i": 0, "k": 0}
    assert "T.init()" in finding.hint


def test_outputs_that_are_written_first_are_right():
    report = check(from_source(ROW_SUMS.format(init=INIT)), outputs=("B",))
    assert list(report) == [] and report.notes == ()
    for workload in small_workloads():
        names = [b.name for b in workload.func.buffer_map.values()][-workload.outputs :]
        report = check(workload.func, outputs=names)
        assert list(report) == [] and report.notes == (), workload.name


def test_only_what_is_looked_for_is_told_and_names_must_exist():
    func = from_source(ROW_SUMS.format(init=""))
    assert check(func, kinds=("race",)).notes == ()
    assert not check(func, kinds=("race",), outputs=("B",))
    with pytest.raises(ValueError, match="no parameter 'C' to be an output; the arrays are A, B"):
        check(func, outputs=("C",))


def test_numbers_beyond_64_bits_are_no_obstacle():
    index = "T.cast(T.uint64(18446744073709551615) % T.cast(I[0] + 8, 'uint64'), 'int32')"
    report = check(kernel(f"t[{index}] = 0.0" + COPY))
    assert [f.kind for f in report.possible] == ["out-of-bounds", "uninitialized"] and not report.proven


# What an axis may have no values over: never, or for some sizes and arguments.
OVER_NOTHING = ["0", "n - 1", "T.max(n - 4, 0)", "T.min(m, n)"]


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("extent", OVER_NOTHING)
def test_a_reduction_over_nothing_writes_its_identity(extent: str, split: bool):
    func = from_source(
        "@T.prim_func\ndef f(a: T.handle, B: T.Buffer((4,), 'float32'), m: T.int32):\n"
        "    n = T.int32()\n    A = T.match_buffer(a, (n,), 'float32')\n    t = T.alloc_buffer((4,), 'float32')\n"
        f"    for i, k in T.grid(4, {extent}):\n        with T.block('t'):\n"
        "            v, r = T.axis.remap('SR', [i, k])\n            with T.init():\n"
        "                t[v] = T.float32(0)\n            t[v] = t[v] + A[r]\n"
        "    for i in range(4):\n        B[i] = t[i]\n"
    )
    sch = Schedule(func)
    if split:
        i, k = sch.get_loops("t")
        sch.split(k, [None, 3])
        sch.parallel(i)
    for n, m in ((1, 0), (1, 4), (6, -2), (6, 5)):
        interp.run(sch.mod["main"], np.ones(n, "float32"), np.ones(4, "float32"), m, check_uninitialized=True)
    assert list(check(sch.mod, kinds=("uninitialized",))) == []
    assert check(lower(sch.mod)).proven == []


def test_conditions_that_mean_something_else_at_the_read_decide_nothing():
    for write, read in (("i < 4", "t[7 - i]"), ("A[i, 0] > 0.0", "t[i]")):
        body = f"for i in range(8):\n    if {write}:\n        t[i] = A[i, 0]\nfor i in range(8):\n    B[i] = {read}"
        assert list(check(kernel(body)))
    # Of two cases, one is left out.
    found = check(from_source(
        "@T.prim_func\ndef f(B: T.Buffer((8,), 'float32'), m: T.int32):\n    t = T.alloc_buffer((8,), 'float32')\n"
        "    if m > 3:\n        for i in range(8):\n            t[i] = T.float32(1)\n"
        "    if m < 3:\n        for i in range(8):\n            t[i] = T.float32(2)\n"
        "    for i in range(8):\n        B[i] = t[i]\n"
    ))  # fmt: skip
    assert [f.kind for f in found] == ["uninitialized"]
