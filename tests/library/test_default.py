"""The default schedule: sound for anything, parallel and vectorised where that is legal."""

from __future__ import annotations

import numpy as np
import pytest

import tscript
from tscript import library, te
from tscript.analysis import check
from tscript.library.default import schedule_default
from tscript.script import tir as T
from tscript.testing import workloads

ForKind = tscript.tir.ForKind


def kinds(sch, block):
    return [ForKind.NAMES[sch.get(loop).kind] for loop in sch.get_loops(block)]


@pytest.mark.parametrize(
    "workload",
    [
        workloads.add(1),
        workloads.add(100_003),
        workloads.rms_norm(7, 33),
        workloads.matmul(17, 33, 5),
        workloads.softmax(9, 70),
    ],
    ids=lambda w: w.name,
)
def test_results_stay_the_same_and_the_trace_replays(workload):
    sch = tscript.tir.Schedule(workload.func)
    schedule_default(sch, tscript.target.Target("llvm -mcpu=skylake-avx512"))
    assert tscript.compare(workload.func, sch.mod["main"]).equal
    assert list(check(sch.mod["main"])) == []
    again = tscript.tir.Schedule(workload.func)
    sch.trace.apply_to_schedule(again, remove_postproc=False)
    tscript.ir.assert_structural_equal(again.mod, sch.mod)


def test_a_chain_becomes_one_parallel_vectorised_loop():
    a = te.placeholder((300, 300), name="A")
    b = te.compute((300, 300), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((300, 300), lambda i, j: b[i, j] * 2.0, name="C")
    sch = library.schedule(te.create_prim_func([a, c]), "llvm -mcpu=skylake-avx512")
    assert kinds(sch, "C") == ["parallel", "vectorized"]
    assert [sch.get(x).name_hint for x in sch.get_child_blocks(sch.get_block("root"))] == ["C"]


def test_loops_whose_iterations_depend_on_each_other_stay_serial():
    @T.prim_func
    def scan(A: T.Buffer((100_000,), "float32")):
        for i in range(99_999):
            with T.block("A"):
                v = T.axis.opaque(99_999, i)
                A[v + 1] = A[v + 1] + A[v]

    sch = library.schedule(scan, "llvm")
    assert kinds(sch, "A") == ["serial"]


def test_what_is_no_program_or_no_cpu_is_refused():
    func = workloads.add(8).func
    with pytest.raises(TypeError, match="not for a int"):
        library.schedule(3)
    with pytest.raises(ValueError, match="schedules for CPUs"):
        library.schedule(func, "cuda")


def test_symbolic_extents_keep_guards():
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    c = te.compute((n,), lambda i: a[i] * 2.0, name="C")
    func = te.create_prim_func([a, c])
    kernel = tscript.build(library.schedule(func).mod)["main"]
    x = np.arange(37, dtype=np.float32)
    y = np.empty_like(x)
    kernel(x, y)
    np.testing.assert_array_equal(y, 2 * x)
