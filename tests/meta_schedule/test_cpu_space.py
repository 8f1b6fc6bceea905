"""The default space of CPUs: its traces, what its parts do, and that every schedule of it computes the same."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest

import tscript
from tscript import meta_schedule as ms
from tscript.ir.function import PrimFunc
from tscript.meta_schedule.mutator import MutateComputeLocation, MutateParallel, MutateTileSize, MutateUnroll
from tscript.meta_schedule.mutator.mutator import Mutator
from tscript.meta_schedule.postproc import RewriteParallelVectorizeUnroll, RewriteReductionBlock
from tscript.meta_schedule.schedule_rule import AddRFactor, RegisterTiling
from tscript.meta_schedule.search_strategy.sampler import finish
from tscript.schedule import Schedule
from tscript.schedule.trace import Trace
from tscript.script import tir as T
from tscript.testing.workloads import Workload, batch_matmul, conv2d, matmul, matvec, rms_norm, softmax, transpose

TARGET = "llvm -num-cores 1"


def context(func: Any, kind: str = "llvm", target: str = TARGET) -> Any:
    space = ms.space_generator.PostOrderApply(sch_rules=kind, postprocs=kind, mutator_probs=kind)
    return ms.TuneContext(func, target=target, space_generator=space, rand_state=1)


def designs(ctx: Any) -> list[Trace]:
    return [s.trace.simplified(remove_postproc=True) for s in ctx.generate_design_space()]


def tiled(trace: Trace, structure: str) -> bool:
    return f'ann_val="{structure}"' in trace.script()


def sampled(ctx: Any, trace: Trace, seed: int) -> Schedule:
    """A schedule with other samples, the first of several attempts that no postprocessor rejects."""
    for attempt in range(12):
        made = finish(ctx.mod, trace, ctx.space_generator.postprocs, seed + attempt, True)
        if isinstance(made, Schedule):
            return made
        assert "rejected it" in made
    raise AssertionError("all samples were rejected")


def finished(ctx: Any, trace: Trace, seed: int, fresh: bool = True) -> Schedule:
    made = finish(ctx.mod, trace, ctx.space_generator.postprocs, seed, fresh)
    assert not isinstance(made, str), made
    return made


WORKLOADS = [
    matmul(32, 48, 64),
    matmul(13, 37, 11),
    matmul(1, 1, 1),
    batch_matmul(2, 8, 20, 12),
    matvec(24, 96),
    softmax(6, 70),
    rms_norm(5, 33),
    conv2d(6, 5, 18),
    transpose(9, 20),
]


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda w: f"{w.name}-{w.flop}")
def test_every_schedule_computes_what_the_program_does(workload: Workload) -> None:
    ctx = context(workload.func)
    rng = np.random.default_rng(0)
    for k, trace in enumerate(designs(ctx)):
        sch = sampled(ctx, trace, 100 + 20 * k)
        kernel = tscript.build(sch.mod, target=TARGET)["main"]
        params = [workload.func.buffer_map[p] for p in workload.func.params]
        arrays = [(rng.random([int(x) for x in b.shape]) - 0.5).astype(str(b.dtype)) for b in params]
        kernel(*arrays)
        workload.check(arrays)


LINES = """
b0 = sch.get_block(name="C", func_name="main")
b1 = sch.get_block(name="root", func_name="main")
sch.annotate(block_or_loop=b0, ann_key="meta_schedule.tiling_structure", ann_val="SSRSRS")
l2, l3, l4 = sch.get_loops(block=b0)
v5, v6, v7, v8 = sch.sample_perfect_tile(loop=l2, n=4, max_innermost_factor=64, decision=[2, 8, 2, 4])
l9, l10, l11, l12 = sch.split(loop=l2, factors=[v5, v6, v7, v8], <as usual>)
v13, v14, v15, v16 = sch.sample_perfect_tile(loop=l3, n=4, max_innermost_factor=64, decision=[4, 4, 1, 8])
l17, l18, l19, l20 = sch.split(loop=l3, factors=[v13, v14, v15, v16], <as usual>)
v21, v22 = sch.sample_perfect_tile(loop=l4, n=2, max_innermost_factor=64, decision=[64, 2])
l23, l24 = sch.split(loop=l4, factors=[v21, v22], <as usual>)
sch.reorder(l9, l17, l10, l18, l23, l11, l19, l24, l12, l20)
b25 = sch.cache_write(block=b0, write_buffer_index=0, storage_scope="global")
sch.reverse_compute_at(block=b25, loop=l18, preserve_unit_loops=True, index=-1)
sch.annotate(block_or_loop=b1, ann_key="meta_schedule.parallel", ann_val=16)
sch.annotate(block_or_loop=b1, ann_key="meta_schedule.vectorize", ann_val=64)
v26 = sch.sample_categorical(candidates=[0, 16, 64, 512], probs=[0.25, 0.25, 0.25, 0.25], decision=2)
sch.annotate(block_or_loop=b1, ann_key="meta_schedule.unroll_explicit", ann_val=v26)
sch.enter_postproc()
b27 = sch.get_block(name="root", func_name="main")
sch.unannotate(block_or_loop=b27, ann_key="meta_schedule.parallel")
sch.unannotate(block_or_loop=b27, ann_key="meta_schedule.vectorize")
sch.unannotate(block_or_loop=b27, ann_key="meta_schedule.unroll_explicit")
b28, b29 = sch.get_child_blocks(b27)
l30, l31, l32, l33, l34, l35, l36, l37, l38, l39 = sch.get_loops(block=b28)
l40 = sch.fuse(l30, l31, l32, preserve_unit_iters=True)
sch.parallel(loop=l40)
l41 = sch.fuse(l39, preserve_unit_iters=True)
sch.vectorize(loop=l41)
sch.annotate(block_or_loop=l40, ann_key="pragma_auto_unroll_max_step", ann_val=64)
sch.annotate(block_or_loop=l40, ann_key="pragma_unroll_explicit", ann_val=1)
l42, l43, l44, l45 = sch.get_loops(block=b29)
l46 = sch.fuse(l45, preserve_unit_iters=True)
sch.vectorize(loop=l46)
b47 = sch.get_block(name="C", func_name="main")
l48, l49, l50, l51, l52, l53, l54, l55 = sch.get_loops(block=b47)
b56 = sch.decompose_reduction(block=b47, loop=l50)
""".replace("<as usual>", "preserve_unit_iters=True, disable_predication=False")
"""The trace that users of TVM see for the product of two matrices of 128 x 128, with its sizes."""


def test_the_trace_of_a_matrix_product_is_the_known_one() -> None:
    ctx = context(matmul(128, 128, 128).func)
    trace = next(t for t in designs(ctx) if tiled(t, "SSRSRS") and "loop=l18, preserve" in t.script())
    chosen = iter([[2, 8, 2, 4], [4, 4, 1, 8], [64, 2], 2])
    sampled = [i for i in trace.insts if i.kind.has_decision]
    for inst in sampled:
        trace = trace.with_decision(inst, next(chosen), remove_postproc=True)
    sch = finished(ctx, trace, 1, fresh=False)
    assert sch.trace is not None
    assert sch.trace.as_python() == LINES.strip().splitlines()


def test_a_consumer_that_passes_elements_on_gives_three_tilings_in_order() -> None:
    @T.prim_func
    def relu(A: T.Buffer((64, 64)), B: T.Buffer((64, 64)), D: T.Buffer((64, 64))):
        C = T.alloc_buffer((64, 64))
        for i, j, k in T.grid(64, 64, 64):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = 0.0
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
        for i, j in T.grid(64, 64):
            with T.block("D"):
                vi, vj = T.axis.remap("SS", [i, j])
                D[vi, vj] = T.max(C[vi, vj], T.float32(0))

    known = [t for t in designs(context(relu, target="llvm -num-cores 4")) if tiled(t, "SSRSRS")]
    fused = [[i for i in t.insts if i.kind.name == "ReverseComputeAt"] for t in known]
    assert [len(f) for f in fused] == [0, 1, 1]
    names = [line for t in known for line in t.as_python() if "reverse_compute_at" in line]
    assert "loop=l18" in names[0] and "loop=l17" in names[1]


def test_partial_results_are_offered_for_few_results_of_long_sums() -> None:
    rule = AddRFactor(16, 64)
    rule.initialize_with_tune_context(ms.TuneContext(target=TARGET))
    for workload, count in ((matmul(4, 4, 256), 3), (matmul(64, 64, 64), 1)):
        sch = Schedule(workload.func, seed=1)
        made = rule.apply(sch, sch.get_block("C"))
        assert len(made) == count and made[-1] is sch
        partial = [s for s in made[:-1] if len(s.get(s.get_block("root")).alloc_buffers) == 1]
        assert len(partial) == count - 1
    off = AddRFactor(-1)
    off.initialize_with_tune_context(ms.TuneContext(target=TARGET))
    assert len(off.apply(sch, sch.get_block("C"))) == 1


def test_register_tiles_leave_room_for_operands() -> None:
    rule = RegisterTiling(vectors=(2,), panels=False)
    rule.initialize_with_tune_context(ms.TuneContext(target="llvm -mcpu=skylake-avx512 -num-cores 1"))
    for seed in range(1, 20):
        sch = Schedule(matmul(100, 70, 9).func, seed=seed)
        made, same = rule.apply(sch, sch.get_block("C"))
        assert same is sch
        rows, vectors, lanes = (int(made.get(x).extent) for x in made.get_loops("C")[-3:])
        assert (vectors, lanes) == (2, 16) and 1 <= rows * vectors <= 28


def test_a_product_of_unknown_size_is_left_alone_or_discarded() -> None:
    @T.prim_func
    def dynamic(a: T.handle, b: T.handle, c: T.handle):
        n = T.int32()
        A, B, C = (
            T.match_buffer(a, (n, 16), "float32"),
            T.match_buffer(b, (16, 8), "float32"),
            T.match_buffer(c, (n, 8), "float32"),
        )
        for i, j, k in T.grid(n, 8, 16):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = 0.0
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]

    ctx = context(dynamic)
    for k, trace in enumerate(designs(ctx)):
        made = finish(ctx.mod, trace, ctx.space_generator.postprocs, k + 1, True)
        assert isinstance(made, str) and "DisallowDynamicLoop" in made


def test_an_empty_product_goes_through() -> None:
    ctx = context(matmul(8, 8, 0).func)
    for k, trace in enumerate(designs(ctx)):
        finish(ctx.mod, trace, ctx.space_generator.postprocs, k + 1, True)


def test_blocks_that_depend_on_their_order_stay_serial() -> None:
    @T.prim_func
    def running(A: T.Buffer((64,), "float32")):
        for i in range(63):
            with T.block("A"):
                v = T.axis.spatial(63, i)
                A[v + 1] = A[v + 1] + A[v]

    sch = Schedule(running)
    root = sch.get_block("root")
    sch.annotate(root, "meta_schedule.parallel", 16)
    sch.annotate(root, "meta_schedule.vectorize", 16)
    assert RewriteParallelVectorizeUnroll().apply(sch)
    assert all(sch.get(x).kind == tscript.tir.ForKind.SERIAL for x in sch.get_loops("A"))
    assert not sch.get(sch.get_block("root")).annotations


def test_lanes_stay_within_the_limit() -> None:
    sch = Schedule(transpose(12, 100).func)
    sch.annotate(sch.get_block("root"), "meta_schedule.vectorize", 16)
    assert RewriteParallelVectorizeUnroll().apply(sch)
    last = sch.get(sch.get_loops("B")[-1])
    assert (int(last.extent), last.kind) == (12, tscript.tir.ForKind.VECTORIZED)


def test_a_start_is_moved_before_the_reduction() -> None:
    sch = Schedule(matmul(8, 8, 8).func)
    i, j, k = sch.get_loops("C")
    sch.reorder(i, k, j)
    assert RewriteReductionBlock().apply(sch)
    assert len(sch.get_loops("C_init")) == 2 and sch.get(sch.get_block("C_update")).init is None
    before = str(sch.mod)
    assert RewriteReductionBlock().apply(sch) and str(sch.mod) == before


def decisions(trace: Trace, name: str) -> list[Any]:
    return [trace.decisions[i] for i in trace.insts if i.kind.name == name]


def mutated(mutator: Mutator, ctx: Any, trace: Trace) -> list[Trace]:
    mutator.initialize_with_tune_context(ctx)
    made = [mutator.apply(trace, seed) for seed in range(1, 30)]
    first, again = made[0], mutator.apply(trace, 1)
    assert (first is None) == (again is None)
    if first is not None and again is not None:
        assert first.script() == again.script()
    found = [t for t in made if t is not None]
    for t in found:
        assert t.script() != trace.script() and "enter_postproc" not in t.script()
    return found


@pytest.fixture(scope="module")
def tuned() -> tuple[Any, Trace]:
    ctx = context(matmul(64, 64, 64).func)
    trace = next(t for t in designs(ctx) if tiled(t, "SSRSRS"))
    made = finished(ctx, trace, 3).trace
    assert made is not None
    return ctx, made


def test_tile_sizes_keep_their_product(tuned: tuple[Any, Trace]) -> None:
    ctx, trace = tuned
    found = mutated(MutateTileSize(), ctx, trace)
    assert len({t.script() for t in found}) > 10
    for t in found:
        tiles = decisions(t, "SamplePerfectTile")
        assert all(prod(s) == 64 and s[-1] <= 64 for s in tiles)
        changed = [a != b for a, b in zip(tiles, decisions(trace, "SamplePerfectTile"), strict=True)]
        assert sum(changed) == 1
        finished(ctx, t, 1, fresh=False)


def test_numbers_that_loops_are_split_by_are_sampled_otherwise() -> None:
    ctx = context(transpose(64, 64).func)

    def sampled(sch: Schedule) -> None:
        i, j = sch.get_loops("B")
        sch.split(i, [None, sch.sample_categorical([2, 4, 8], [1 / 3] * 3)])
        sch.annotate(j, "number", sch.sample_categorical([5, 6, 7], [1 / 3] * 3))

    sch = Schedule(ctx.mod, seed=3)
    sampled(sch)
    factor, other = decisions(sch.trace, "SampleCategorical")
    found = [decisions(t, "SampleCategorical") for t in mutated(MutateTileSize(), ctx, sch.trace)]
    assert {f for f, _ in found} == {0, 1, 2} - {factor}
    assert {o for _, o in found} == {other}


def test_another_number_of_steps_is_unrolled(tuned: tuple[Any, Trace]) -> None:
    ctx, trace = tuned
    (now,) = decisions(trace, "SampleCategorical")
    assert {decisions(t, "SampleCategorical")[0] for t in mutated(MutateUnroll(), ctx, trace)} == {0, 1, 2, 3} - {now}


def test_another_number_of_loops_runs_in_parallel(tuned: tuple[Any, Trace]) -> None:
    ctx, trace = tuned
    found = mutated(MutateParallel(16), ctx, trace)
    programs = {str(finished(ctx, t, 1, fresh=False).mod) for t in found}
    assert found and str(finished(ctx, trace, 1, fresh=False).mod) not in programs


def test_a_block_is_computed_elsewhere() -> None:
    ctx = context(softmax(8, 64).func)
    trace = next(t for t in designs(ctx) if "sample_compute_location" in t.script())
    found = mutated(MutateComputeLocation(), ctx, trace)
    for t in found:
        a, b = (decisions(x, "SampleComputeLocation") for x in (t, trace))
        assert sum(x != y for x, y in zip(a, b, strict=True)) == 1
    assert found


def test_nothing_to_change_gives_none() -> None:
    func: PrimFunc = matmul(4, 4, 4).func
    ctx = context(func)
    empty = Schedule(func).trace
    assert empty is not None
    for mutator in (MutateTileSize(), MutateUnroll(), MutateComputeLocation(), MutateParallel(4)):
        mutator.initialize_with_tune_context(ctx)
        assert mutator.apply(empty, 1) is None
