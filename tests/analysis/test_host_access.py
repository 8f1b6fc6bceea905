"""Loops that were not bound are named, all in one message."""

from __future__ import annotations

import pytest

import tscript
from tscript.analysis.host_access import unbound_loops
from tscript.schedule import Schedule
from tscript.script import tir as T
from tscript.support.errors import BuildError
from tscript.target import Target


@T.prim_func
def copies(A: T.Buffer((8, 4), "float32"), B: T.Buffer((8, 4), "float32"), C: T.Buffer((8, 4), "float32")):
    for i, j in T.grid(8, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj]
    for p, q in T.grid(8, 4):
        with T.block("C"):
            vp, vq = T.axis.remap("SS", [p, q])
            C[vp, vq] = B[vp, vq] + 1.0


def test_one_message_names_all_loops_that_no_thread_runs() -> None:
    assert unbound_loops(copies) == ["i", "p"]
    with pytest.raises(BuildError) as caught:
        tscript.build(copies, target="cuda")
    assert str(caught.value).count("no thread runs") == 1
    assert 'no thread runs i, p in copies: bind loops first, as sch.bind(loop, "blockIdx.x")' in str(caught.value)


def test_bound_loops_are_left_out() -> None:
    sch = Schedule(copies)
    sch.bind(sch.get_loops("B")[0], "blockIdx.x")
    assert unbound_loops(sch.mod["main"]) == ["p"]
    # A loop in the middle is enough for what is in it; what is around it runs on the host.
    sch.bind(sch.get_loops("C")[1], "threadIdx.x")
    assert unbound_loops(sch.mod["main"]) == []
    with pytest.raises(BuildError) as caught:
        tscript.build(sch.mod, target="cuda")
    assert "no thread runs" not in str(caught.value)


def test_statements_outside_of_loops_and_programs_for_cpus() -> None:
    @T.prim_func
    def single(A: T.Buffer((1,), "float32")):
        A[0] = 1.0

    assert unbound_loops(single) == [""]
    with pytest.raises(BuildError, match="statements outside of loops in single"):
        tscript.build(single, target="cuda")
    for target, right in (("cuda", False), ("llvm", True)):
        assert tscript.tir.analysis.verify_memory(single.with_attr("target", Target(target))) is right
    assert tscript.tir.analysis.verify_memory(single)

    @T.prim_func
    def launched(A: T.Buffer((4,), "float32")):
        tx = T.launch_thread("threadIdx.x", 4)
        A[tx] = 1.0

    assert tscript.tir.analysis.verify_memory(launched.with_attr("target", Target("cuda")))
