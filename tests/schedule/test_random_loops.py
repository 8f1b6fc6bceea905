"""Random steps on loops: what is accepted computes the same, also when parallel iterations run backwards."""

from __future__ import annotations

import random

import pytest

from tests.schedule.check import check_same_results
from tscript.ir.expr import Var
from tscript.ir.function import PrimFunc
from tscript.ir.functor import Rewriter, substitute
from tscript.ir.stmt import For, ForKind, Stmt
from tscript.ir.well_formed import verify_well_formed
from tscript.schedule import Schedule, ScheduleError
from tscript.script import tir as T
from tscript.testing.workloads import matmul, small_workloads


@T.prim_func
def in_place(A: T.Buffer((8, 9), "int32")):
    for i, j in T.grid(7, 8):
        with T.block("A"):
            vi, vj = T.axis.remap("SS", [i, j])
            A[vi + 1, vj] = A[vi, vj] * 2 + A[vi + 1, vj + 1]


@T.prim_func
def skewed(A: T.Buffer((14,), "int32"), B: T.Buffer((7, 8), "int32")):
    for i, j in T.grid(7, 8):
        with T.block("A"):
            vi, vj = T.axis.remap("SS", [i, j])
            A[vi + vj] = A[vi + vj] * 2 + vi
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi + vj]


@T.prim_func
def windows(A: T.Buffer((20,), "int32"), C: T.Buffer((16, 3), "int32")):
    B = T.alloc_buffer((20,), "int32")
    D = T.alloc_buffer((16,), "int32")
    for i, j in T.grid(4, 3):
        for a in range(6):
            with T.block("B"):
                v = T.axis.spatial(20, i * 4 + a)
                B[v] = A[v] * 2
        for b, k in T.grid(4, 3):
            with T.block("D"):
                v = T.axis.spatial(16, i * 4 + b)
                vk = T.axis.reduce(3, k)
                with T.init():
                    D[v] = 0
                D[v] = D[v] + B[v + vk]
        for b in range(4):
            with T.block("C"):
                v = T.axis.spatial(16, i * 4 + b)
                vj = T.axis.spatial(3, j)
                C[v, vj] = D[v] + vj


@T.prim_func
def carried(A: T.Buffer((12, 5), "int32"), B: T.Buffer((12, 5), "int32")):
    for i, j in T.grid(10, 5):
        with T.block("A"):
            vi, vj = T.axis.remap("SS", [i, j])
            A[vi, vj] = vi * 5 + vj
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi + 1, vj] + A[vi, 4 - vj]


PROGRAMS: list[PrimFunc] = [
    in_place,
    skewed,
    windows,
    carried,
    matmul(6, 7, 5, "int8", "int32").func,
    *[w.func for w in small_workloads() if w.name in ("softmax", "transpose", "conv2d", "batch_matmul")],
]


class _Backwards(Rewriter):
    """Parallel and vectorized loops run from their end."""

    def rewrite_For(self, node: For) -> Stmt:
        if node.kind not in (ForKind.PARALLEL, ForKind.VECTORIZED):
            return self.rewrite_children(node)
        var: Var = node.loop_var
        body = substitute(node.body, {var: node.extent - 1 - var + node.min * 2})
        return self.rewrite_children(node.replace(body=body, kind=ForKind.SERIAL))


def _step(sch: Schedule, rng: random.Random) -> None:
    (root,) = sch.state.roots
    blocks = [b for b in sch.state.blocks_below(root) if sch.state.loops_of(b)]
    block = sch.block_of(rng.choice(blocks).block)
    loops = [sch.loop_of(r.loop) for r in sch.state.loops_of(sch.get_sref(block))]
    loop = rng.choice(loops)
    match rng.randrange(7):
        case 0:
            factor = rng.randint(1, 5)
            sch.split(loop, rng.choice([[None, factor], [factor, None], [None, factor, 2]]), rng.random() < 0.5)
        case 1:
            k = rng.randrange(len(loops))
            sch.fuse(*loops[k : k + rng.randint(1, 3)], preserve_unit_iters=rng.random() < 0.5)
        case 2:
            sch.reorder(*rng.sample(loops, min(len(loops), rng.randint(2, 4))))
        case 3:
            sch.parallel(loop)
        case 4:
            sch.vectorize(loop)
        case 5:
            sch.loop_partition(loop, [rng.randint(1, 3)])
        case _:
            others = [sch.loop_of(r.loop) for b in blocks for r in sch.state.loops_of(b)]
            sch.merge(loop, rng.choice(others))


@pytest.mark.parametrize("seed", range(60))
def test_accepted_steps_change_no_result(seed: int) -> None:
    rng = random.Random(seed)
    func = PROGRAMS[seed % len(PROGRAMS)]
    sch = Schedule(func, seed=seed + 1, debug_mask="all")
    done = 0
    for _ in range(10):
        before = sch.mod.script()
        count = len(sch.trace.insts)
        try:
            _step(sch, rng)
            done += 1
        except ScheduleError as e:
            assert str(e) and sch.mod.script() == before and len(sch.trace.insts) == count
    verify_well_formed(sch.mod)
    backwards = {v: f.with_body(_Backwards().rewrite(f.body)) for v, f in sch.mod.functions.items()}
    check_same_results(func, sch.mod.replace(functions=backwards), {}, native=False, exact=False)
    check_same_results(func, sch.mod, {}, native=seed % 3 == 0, exact=False)
    assert done or seed
