"""The default space of GPUs: how many schedules there are, what its parts do, and that all compute the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tscript
from tscript import meta_schedule as ms
from tscript.meta_schedule.mutator import MutateThreadBinding
from tscript.meta_schedule.postproc import RewriteCooperativeFetch, RewriteUnboundBlock, VerifyGPUCode
from tscript.meta_schedule.schedule_rule import AutoBind, CrossThreadReduction
from tscript.meta_schedule.search_strategy.sampler import finish
from tscript.schedule import Schedule
from tscript.script import tir as T
from tscript.support.errors import TuneError
from tscript.testing.workloads import Workload, add, matmul, matvec, rms_norm, softmax, transpose

TARGET = "nvidia/geforce-rtx-3070"
CPU = "llvm -num-cores 1"


def context(func: Any, target: str = TARGET) -> Any:
    space = ms.space_generator.PostOrderApply(sch_rules="cuda", postprocs="cuda", mutator_probs="cuda")
    return ms.TuneContext(func, target=target, space_generator=space, rand_state=1)


def ready(part: Any, target: str = TARGET) -> Any:
    part.initialize_with_tune_context(ms.TuneContext(target=target))
    return part


def sampled(ctx: Any, design: Schedule, seed: int) -> Schedule:
    trace = design.trace.simplified(remove_postproc=True)
    for attempt in range(200):
        made = finish(ctx.mod, trace, ctx.space_generator.postprocs, seed + attempt, True)
        if isinstance(made, Schedule):
            return made
    raise AssertionError("all samples were rejected")


def tags(sch: Schedule, block: str) -> list[tuple[str, int]]:
    loops = [sch.get(x) for x in sch.get_loops(block)]
    return [(x.thread_binding.thread_tag if x.thread_binding is not None else "", int(x.extent)) for x in loops]


def check(sch: Schedule, workload: Workload) -> None:
    rng = np.random.default_rng(0)
    params = [workload.func.buffer_map[p] for p in workload.func.params]
    arrays = [(rng.random([int(x) for x in b.shape]) - 0.5).astype(str(b.dtype)) for b in params]
    tscript.build(sch.mod, target=CPU)["main"](*arrays)
    workload.check(arrays)


@pytest.mark.parametrize(("target", "count"), [("nvidia/nvidia-t4", 1), (TARGET, 3)])
def test_pipelines_are_offered_where_there_are_asynchronous_copies(target: str, count: int) -> None:
    made = context(matmul(128, 128, 128).func, target).generate_design_space()
    assert len(made) == count
    stages = ["software_pipeline_stage" in str(s.mod) for s in made]
    assert sum(stages) == count - 1
    assert all('"vthread.x"' in str(s.mod) and "meta_schedule.cooperative_fetch" in str(s.mod) for s in made)


@pytest.mark.parametrize(
    "workload",
    [
        matmul(64, 64, 64),
        matmul(1, 1, 1),
        softmax(16, 256),
        rms_norm(8, 300),
        matvec(64, 512),
        add(4096),
        transpose(33, 70),
    ],
    ids=lambda w: f"{w.name}-{w.flop}",
)
def test_every_schedule_computes_what_the_program_does(workload: Workload) -> None:
    ctx = context(workload.func)
    for k, design in enumerate(ctx.generate_design_space()):
        sch = sampled(ctx, design, 100 + 40 * k)
        text = str(sch.mod)
        assert "blockIdx.x" in text and "threadIdx.x" in text and "cooperative_fetch" not in text
        check(sch, workload)


def test_the_default_rules_need_to_know_the_gpu() -> None:
    with pytest.raises(ValueError, match="max_threads_per_block"):
        context(add(8).func, "cuda").generate_design_space()


def test_iterations_are_shared_out_evenly() -> None:
    rule = ready(AutoBind(4, [32], 64))
    for n, wanted in (
        (100, [("blockIdx.x", 4), ("threadIdx.x", 32)]),
        (8, [("blockIdx.x", 1), ("threadIdx.x", 8)]),
        (1024, [("blockIdx.x", 4), ("threadIdx.x", 64), ("", 4)]),
    ):
        (sch,) = rule.apply(start := Schedule(add(n).func), start.get_block("C"))
        assert tags(sch, "C") == wanted
        check(sch, add(n))


def test_threads_are_sampled_and_mutated() -> None:
    ctx = context(add(4096).func)
    (design,) = ctx.generate_design_space()
    assert design.trace is not None
    mutator = ready(MutateThreadBinding())
    seen = {t.script() for t in (mutator.apply(design.trace, seed) for seed in range(1, 40)) if t is not None}
    assert len(seen) == 5
    assert design.trace.script() not in seen
    empty = Schedule(add(8).func).trace
    assert empty is not None and mutator.apply(empty, 1) is None


@T.prim_func
def running(A: T.Buffer((65,), "float32")):
    for i in range(64):
        with T.block("A"):
            v = T.axis.opaque(64, i)
            A[v + 1] = A[v + 1] + A[v]


@T.prim_func
def total(A: T.Buffer((64,), "float32"), B: T.Buffer((), "float32")):
    for i in range(64):
        with T.block("B"):
            v = T.axis.reduce(64, i)
            with T.init():
                B[()] = T.float32(0)
            B[()] = B[()] + A[v]


def test_a_block_without_spatial_loops_gets_one_thread() -> None:
    for func, name in ((running, "A"), (total, "B")):
        sch = Schedule(func)
        assert ready(RewriteUnboundBlock()).apply(sch)
        assert tags(sch, name) == [("blockIdx.x", 1), ("threadIdx.x", 1), ("", 64)]


def test_a_block_in_blocks_of_no_threads_is_refused() -> None:
    sch = Schedule(add(64).func)
    sch.bind(sch.get_loops("C")[0], "blockIdx.x")
    assert not ready(RewriteUnboundBlock()).apply(sch)
    with pytest.raises(TuneError, match="bind one of"):
        ready(AutoBind()).apply(sch, sch.get_block("C"))


def test_threads_that_reduce_get_blocks() -> None:
    rule = ready(CrossThreadReduction([32]))
    sch = Schedule(matvec(16, 1000).func)
    made, same = rule.apply(sch, sch.get_block("y"))
    assert same is sch and tags(made, "y") == [("", 16), ("", 32), ("threadIdx.x", 32)]
    assert ready(RewriteUnboundBlock()).apply(made)
    assert tags(made, "y") == [("blockIdx.x", 16), ("", 32), ("threadIdx.x", 32)]
    check(made, matvec(16, 1000))


def test_a_reduction_moves_to_its_consumer() -> None:
    workload = softmax(16, 256)
    ctx = context(workload.func)
    fused = [s for s in ctx.generate_design_space() if 'scope="shared"' in str(s.mod)]
    assert fused
    for k, s in enumerate(fused):
        check(sampled(ctx, s, 10 + k), workload)


def test_a_product_is_tiled_rather_than_reduced_together() -> None:
    rule = ready(CrossThreadReduction([32]))
    sch = Schedule(matmul(64, 64, 64).func)
    assert rule.apply(sch, sch.get_block("C")) == [sch]


def fetching(lanes: int, rows: int = 32, dtype: str = "float32") -> Schedule:
    sch = Schedule(matmul(32, 32, rows, dtype).func)
    i, j, _ = sch.get_loops("C")
    sch.bind(i, "blockIdx.x")
    sch.bind(j, "threadIdx.x")
    copy = sch.cache_read("C", 1, "shared")
    sch.compute_at(copy, i)
    sch.fuse(*sch.get_loops(copy)[-2:])
    sch.annotate(copy, "meta_schedule.cooperative_fetch", lanes)
    assert ready(RewriteCooperativeFetch()).apply(sch)
    return sch


def test_threads_fetch_together() -> None:
    sch = fetching(4)
    assert tags(sch, "B_shared") == [("blockIdx.x", 32), ("", 8), ("threadIdx.x", 32), ("", 4)]
    assert sch.get(sch.get_loops("B_shared")[-1]).kind == tscript.tir.ForKind.VECTORIZED
    assert "cooperative_fetch" not in str(sch.mod)
    check(sch, matmul(32, 32, 32))


def test_vectors_that_do_not_fit_are_single_elements() -> None:
    for sch in (fetching(3), fetching(2, 32, "float64")):
        assert [n for _, n in tags(sch, "B_shared")] == [32, 32, 32]


def test_limits_of_the_gpu_reject() -> None:
    verify = ready(VerifyGPUCode())
    good = fetching(4)
    assert verify.apply(good)
    block = good.get_block("C")
    good.annotate(block, "meta_schedule.thread_extent_low_inclusive", 64)
    assert not verify.apply(good)  # 32 threads
    wide = Schedule(add(4096).func)
    outer, inner, lanes = wide.split(wide.get_loops("C")[0], [None, 32, 8])
    wide.bind(outer, "blockIdx.x")
    wide.bind(inner, "threadIdx.x")
    assert verify.apply(wide)
    wide.vectorize(lanes)  # 32 bytes
    assert not verify.apply(wide)
    virtual = Schedule(add(4096).func)
    outer, middle, inner = virtual.split(virtual.get_loops("C")[0], [None, 16, 32])
    for loop, tag in ((outer, "blockIdx.x"), (middle, "vthread.x"), (inner, "threadIdx.x")):
        virtual.bind(loop, tag)
    assert not verify.apply(virtual)


@pytest.mark.parametrize(("rows", "fits"), [(64, True), (512, False)])
def test_shared_memory_is_limited(rows: int, fits: bool) -> None:
    # A copy of rows x 32 floats: 8 KiB, and 64 KiB, where there are 48.
    assert ready(VerifyGPUCode()).apply(fetching(4, rows)) is fits


def test_loops_of_one_thread_are_equally_long() -> None:
    sch = Schedule(matmul(32, 32, 32).func)
    i, j, _ = sch.get_loops("C")
    sch.bind(i, "blockIdx.x")
    sch.bind(j, "threadIdx.x")
    copy = sch.cache_read("C", 1, "shared")
    sch.compute_at(copy, i)
    _, inner = sch.split(sch.fuse(*sch.get_loops(copy)[-2:]), [None, 16])
    sch.bind(inner, "threadIdx.x")
    assert not ready(VerifyGPUCode()).apply(sch)
