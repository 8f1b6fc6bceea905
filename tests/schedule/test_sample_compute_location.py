"""Sampled compute locations: what may be drawn, what is decided, and how decisions are kept on replay."""

from __future__ import annotations

import pytest

from tests.schedule.check import check_schedule, rejects
from tscript.schedule import Schedule
from tscript.testing.workloads import matmul, rms_norm, softmax


def decisions_of(sch: Schedule) -> list[int]:
    assert sch.trace is not None
    return list(sch.trace.decisions.values())


def test_every_location_that_is_drawn_may_be_computed_at() -> None:
    drawn: set[int] = set()
    for seed in range(1, 40):
        sch = Schedule(softmax(4, 6).func, seed=seed)
        sch.compute_at("T_exp", sch.sample_compute_location("T_exp"))
        drawn.add(decisions_of(sch)[0])
    # T_exp is consumed by T_sum and T_softmax, so no loop is around all of its consumers.
    assert drawn == {-2, -1}
    drawn = set()
    for seed in range(1, 40):
        sch = Schedule(rms_norm(4, 6).func, seed=seed)
        sch.compute_at("rrms", sch.sample_compute_location("rrms"))
        drawn.add(decisions_of(sch)[0])
    assert drawn == {-2, -1, 0, 1}


@pytest.mark.parametrize("decision", [-2, -1, 0, 1])
def test_a_given_decision_is_taken(decision: int) -> None:
    def steps(s: Schedule) -> None:
        s.compute_at("rrms", s.sample_compute_location("rrms", decision=decision))

    sch = check_schedule(rms_norm(4, 6).func, steps, exact=False)
    assert decisions_of(sch) == [decision]


def test_a_decision_that_is_not_possible_becomes_the_next_below() -> None:
    sch = Schedule(rms_norm(4, 6).func)
    sch.sample_compute_location("rrms", decision=9)
    sch.sample_compute_location("Y", decision=0)
    assert decisions_of(sch) == [1, -1]


def test_an_output_stays_where_it_is() -> None:
    sch = Schedule(matmul(4, 4, 4).func, seed=3)
    before = sch.mod.script()
    sch.compute_at("C", sch.sample_compute_location("C"))
    assert decisions_of(sch) == [-1]
    assert sch.mod.script() == before


def test_the_step_prints_its_decision() -> None:
    sch = Schedule(rms_norm(4, 6).func)
    sch.sample_compute_location("rrms", decision=0)
    assert "l1 = sch.sample_compute_location(block=b0, decision=0)" in str(sch.trace)


def test_what_has_no_place_is_refused() -> None:
    func = rms_norm(4, 6).func
    rejects(func, lambda s: s.sample_compute_location("missing"), "missing")

    def inlined(s: Schedule) -> None:
        block = s.get_block("rrms")
        s.compute_inline(block)
        s.sample_compute_location(block)

    rejects(func, inlined, "inlined by step", error=ValueError)
