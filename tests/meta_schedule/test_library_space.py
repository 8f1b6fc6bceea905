"""The library's schedules in the space of CPUs: offered, left alone by other rules, replayed, and right."""

from __future__ import annotations

from typing import Any

import pytest

import tscript
from tscript import meta_schedule as ms
from tscript.library import schedule
from tscript.meta_schedule.schedule_rule import LibrarySchedule
from tscript.meta_schedule.schedule_rule.schedule_rule import ScheduleRule
from tscript.meta_schedule.search_strategy.sampler import finish
from tscript.schedule import Schedule
from tscript.schedule.trace import Trace
from tscript.testing.workloads import Workload, argmax, conv2d, matmul, matvec, rms_norm, softmax, transpose

TARGET = "llvm -mcpu=skylake-avx512 -num-cores 2"
WORKLOADS = [
    matmul(32, 48, 16),
    matmul(37, 19, 23),
    conv2d(8, 4, 16),
    softmax(6, 40),
    rms_norm(5, 33),
    transpose(24, 40),
    matvec(17, 64),
]


def offered(workload: Workload) -> tuple[Any, list[Schedule]]:
    space = ms.space_generator.PostOrderApply()
    context: Any = ms.TuneContext(workload.func, target=TARGET, space_generator=space, rand_state=1)
    return context, [s for s in context.generate_design_space() if '"schedule_rule"' in s.trace.script()]


def steps(trace: Trace) -> list[str]:
    """What a trace does, without what only finds or marks blocks."""
    return [i.kind.name for i in trace.insts if i.kind.name not in {"Annotate", "GetChildBlocks", "GetBlock"}]


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda w: str(w.name))
def test_offers_the_schedule_of_the_library_and_leaves_it_alone(workload: Workload) -> None:
    context, found = offered(workload)
    assert len(found) == 1
    trace = found[0].trace
    expected = schedule(workload.func, TARGET).trace
    assert steps(trace) == steps(expected)
    replayed = finish(context.mod, trace.simplified(remove_postproc=True), context.space_generator.postprocs, 7, True)
    assert isinstance(replayed, Schedule), replayed
    arrays = [tscript.nd.array(a) for a in workload.arguments()]
    tscript.build(replayed.mod, target="llvm")(*arrays)
    workload.check([a.numpy() for a in arrays])


def test_unknown_functions_and_other_targets_stay_as_they_are() -> None:
    for program, target in ((argmax(8, 8), TARGET), (matmul(8, 8, 8), "cuda -arch=sm_90")):
        rule = LibrarySchedule()
        rule.initialize_with_tune_context(ms.TuneContext(target=target))
        sch = Schedule(program.func)
        assert rule.apply(sch, sch.get_block("root")) == [sch]
        assert len(sch.trace.insts) == 1


@pytest.mark.parametrize("word", ["llvm", "vnni", "avx512", "asimd", "dotprod"])
def test_lists_offer_it_right_after_rules_of_the_author(word: str) -> None:
    first = [type(r).__name__ for r in ScheduleRule.create(word)][:2]
    assert first == ["ApplyCustomRule", "LibrarySchedule"]
