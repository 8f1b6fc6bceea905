"""The default spaces of Hexagon and ARM processors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tscript
from tscript import meta_schedule as ms
from tscript.meta_schedule.postproc import DisallowAsyncStridedMemCopy, VerifyVTCMLimit
from tscript.meta_schedule.schedule_rule import MultiLevelTilingWideVector
from tscript.meta_schedule.search_strategy.sampler import finish
from tscript.schedule import Schedule
from tscript.testing.workloads import Workload, add, matmul, softmax

CPU = "llvm -num-cores 1"
ARM = "llvm -mtriple=aarch64-linux-gnu -mattr=+neon{} -num-cores 2"


def context(func: Any, target: str) -> Any:
    return ms.TuneContext(func, target=target, space_generator="post-order-apply", rand_state=1)


# Hexagon's vectors are too long for the registers of the processor that runs the tests.
@pytest.mark.filterwarnings("ignore:main. the loop over")
@pytest.mark.parametrize("target", ["hexagon -num-cores 1", ARM.format(""), ARM.format(",+dotprod")])
@pytest.mark.parametrize("workload", [matmul(16, 96, 24), matmul(5, 37, 3), softmax(6, 40)], ids=lambda w: str(w.flop))
def test_every_schedule_computes_what_the_program_does(target: str, workload: Workload) -> None:
    ctx = context(workload.func, target)
    rng = np.random.default_rng(0)
    for k, design in enumerate(ctx.generate_design_space()):
        trace = design.trace.simplified(remove_postproc=True)
        tries = (finish(ctx.mod, trace, ctx.space_generator.postprocs, 30 * k + n, True) for n in range(1, 20))
        sch = next(s for s in tries if isinstance(s, Schedule))
        params = [workload.func.buffer_map[p] for p in workload.func.params]
        arrays = [(rng.random([int(x) for x in b.shape]) - 0.5).astype(str(b.dtype)) for b in params]
        tscript.build(sch.mod, target=CPU)["main"](*arrays)
        workload.check(arrays)


def extents(sch: Schedule) -> list[int]:
    return [int(sch.get(x).extent) for x in sch.get_loops("C")]


@pytest.mark.parametrize(
    ("columns", "bits", "lanes"), [(96, 1024, 32), (20, 1024, 20), (96, 128, 4), (50, 1024, 32), (32, 1024, 32)]
)
def test_the_innermost_loop_is_a_vector(columns: int, bits: int, lanes: int) -> None:
    rule = MultiLevelTilingWideVector("SRSRS", bits)
    for seed in range(1, 6):
        sch = Schedule(matmul(8, columns, 8).func, seed=seed)
        (made,) = rule.apply(sch, sch.get_block("C"))
        assert extents(made)[-1] == lanes
    with pytest.raises(ValueError, match="vector_length_in_bits"):
        MultiLevelTilingWideVector("SRSRS", 0)


def test_fast_memory_is_limited() -> None:
    def ready(target: str) -> VerifyVTCMLimit:
        check = VerifyVTCMLimit()
        check.initialize_with_tune_context(ms.TuneContext(target=target))
        return check

    sch = Schedule(add(512).func)
    outer, _ = sch.split(sch.get_loops("C")[0], [None, 128])
    copy = sch.cache_read("C", 0, "global.vtcm")
    assert not ready("hexagon -vtcm-capacity=1024").apply(sch)
    assert ready("hexagon -vtcm-capacity=2048").apply(sch) and ready("hexagon").apply(sch)
    sch.compute_at(copy, outer)  # 128 floats at a time
    assert ready("hexagon -vtcm-capacity=1024").apply(sch)


@pytest.mark.parametrize(("number", "fits"), [(0, True), (1, False)])
def test_asynchronous_copies_are_of_neighbours(number: int, fits: bool) -> None:
    sch = Schedule(matmul(8, 8, 8).func)
    i, j, _ = sch.get_loops("C")
    loop = i
    if number:
        sch.reorder(j, i)
        loop = j
    copy = sch.cache_read("C", number, "global.vtcm")
    sch.compute_at(copy, loop)
    assert DisallowAsyncStridedMemCopy().apply(sch)
    sch.annotate(loop, "software_pipeline_stage", [0, 1])
    sch.annotate(loop, "software_pipeline_order", [0, 1])
    sch.annotate(loop, "software_pipeline_async_stages", [0])
    assert DisallowAsyncStridedMemCopy().apply(sch) is fits
