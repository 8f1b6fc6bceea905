"""The library's schedules in the space of CPUs: offered with open choices, and left alone by other rules."""

from __future__ import annotations

from typing import Any

import pytest

import tscript
from tscript import meta_schedule as ms
from tscript.library import schedule
from tscript.library.blocks import leaves, stmt_of
from tscript.meta_schedule.schedule_rule import LibrarySchedule
from tscript.meta_schedule.schedule_rule.schedule_rule import ScheduleRule
from tscript.meta_schedule.search_strategy.sampler import finish
from tscript.schedule import Schedule
from tscript.testing.workloads import Workload, add, argmax, conv2d, matmul, matvec, rms_norm, softmax, transpose

TARGET = "llvm -mcpu=skylake-avx512 -num-cores 2"
WORKLOADS = [
    matmul(32, 48, 16),
    matmul(37, 19, 23),
    conv2d(8, 4, 16),
    softmax(6, 40),
    rms_norm(5, 33),
    transpose(24, 40),
    matvec(17, 64),
    add(4096),
    matmul(20, 40, 24, "bfloat16", "float32"),
]


def offered(workload: Workload) -> tuple[Any, list[Schedule]]:
    context: Any = ms.TuneContext(workload.func, target=TARGET, space_generator="post-order-apply", rand_state=1)
    return context, [s for s in context.generate_design_space() if '"schedule_rule"' in s.trace.script()]


def unmarked(sch: Schedule) -> Any:
    """The program of a schedule without the marks that keep other rules away."""
    _, root = sch.function_root(None)
    for block in (*leaves(sch), sch.get_block(root.block.name_hint)):
        if "schedule_rule" in stmt_of(sch, block).annotations:
            sch.unannotate(block, "schedule_rule")
    return sch.mod


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda w: str(w.name))
def test_the_first_is_the_schedule_of_the_library(workload: Workload) -> None:
    context, found = offered(workload)
    mod = context.mod
    tscript.ir.assert_structural_equal(unmarked(found[0]), schedule(mod, TARGET).mod)


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda w: str(w.name))
def test_every_design_replays_with_any_decisions_and_computes_the_same(workload: Workload) -> None:
    context, found = offered(workload)
    arguments = workload.arguments()
    for design in found:
        for seed, is_fresh in ((1, False), (7, True)):
            trace = design.trace.simplified(remove_postproc=True)
            made = finish(context.mod, trace, context.space_generator.postprocs, seed, is_fresh)
            assert isinstance(made, Schedule), made
            arrays = [tscript.nd.array(a) for a in arguments]
            tscript.build(made.mod, target="llvm")(*arrays)
            workload.check([a.numpy() for a in arrays])


def test_forms_and_numbers_are_open() -> None:
    _, found = offered(matmul(96, 256, 64))
    texts = [s.trace.script() for s in found]
    assert all("sample_categorical" in t for t in texts)
    assert {"cache_read" in t for t in texts} == {True, False}  # packed or not
    assert len(texts) > 4


def test_the_first_batch_has_it() -> None:
    context: Any = ms.TuneContext(
        matmul(64, 64, 64).func, target=TARGET, space_generator="post-order-apply", search_strategy="evolutionary",
        rand_state=1,
    )  # fmt: skip
    context.pre_tuning(8, num_trials_per_iter=8)
    found = [unmarked(c.sch) for c in context.generate_measure_candidates()]
    context.post_tuning()
    own = schedule(context.mod, TARGET).mod
    assert any(tscript.ir.structural_equal(mod, own) for mod in found)
    assert len(found) == 8


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
