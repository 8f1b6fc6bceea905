"""Steps that change what is computed are found by running the program, where checks are left out or not trusted."""

from __future__ import annotations

import json
import warnings

import pytest

from tests.schedule.check import check_replay, rejects
from tscript.ir.structural import assert_structural_equal
from tscript.schedule import Schedule, ScheduleError, Trace
from tscript.script import tir as T
from tscript.support.errors import RaceWarning
from tscript.testing.workloads import matmul


@T.prim_func
def running(A: T.Buffer((6, 9), "int32"), B: T.Buffer((6, 9), "int32")):
    """Each row takes from the row before, a place further on."""
    for i, j in T.grid(5, 8):
        with T.block("A"):
            vi, vj = T.axis.remap("SS", [i, j])
            A[vi + 1, vj] = A[vi, vj + 1] + 1
    for i, j in T.grid(6, 9):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2


def reordered_wrongly(sch: Schedule) -> None:
    """Columns first: rows take what was not computed yet."""
    i, j = sch.get_loops("A")
    sch.reorder(j, i)


WHY = "it is for a test"


def test_a_step_that_changes_the_result_is_refused_and_named() -> None:
    sch = Schedule(running, enable_check=False)
    before, steps = sch.mod, len(sch.trace.insts)
    i, j = sch.get_loops("A")
    sch.split(i, [None, 2])
    with pytest.raises(
        ScheduleError, match=r"reorder: `sch.reorder\(l\d+, l\d+\)` changes what .*A\[\d, \d\] is -?\d+ before"
    ):
        sch.reorder(j, sch.get_loops("A")[0])
    assert sch.trace.as_python()[-1].startswith("l") and "get_loops" in sch.trace.as_python()[-1]
    assert len(sch.trace.insts) > steps
    assert sch.get(j).extent == 8
    sch.undo()
    assert_structural_equal(sch.mod, before)


def test_numeric_checks_come_on_top_of_the_others() -> None:
    sch = Schedule(running, check="numeric")
    sch.split(sch.get_loops("B")[1], [None, 4])
    with pytest.raises(ScheduleError, match="cannot go inside"):
        reordered_wrongly(sch)
    # Nothing in the program says that a wrong type is right.
    with pytest.raises(ScheduleError, match="changes what the program computes"):
        Schedule(narrow_sum, check="numeric").unsafe_set_dtype("S", 0, "int8")


@T.prim_func
def narrow_sum(A: T.Buffer((40,), "int32"), Y: T.Buffer((40,), "int32")):
    S = T.alloc_buffer((40,), "int32")
    for i in range(40):
        with T.block("S"):
            v = T.axis.spatial(40, i)
            S[v] = A[v] * 3
    for i in range(40):
        with T.block("Y"):
            v = T.axis.spatial(40, i)
            Y[v] = S[v]


def test_steps_without_checks_are_compared_when_they_are_done() -> None:
    sch = Schedule(running)
    before = sch.mod
    with pytest.raises(ScheduleError, match="since the checks were turned off, the program computes something else"), \
            sch.unchecked(WHY):  # fmt: skip
        reordered_wrongly(sch)
    assert_structural_equal(sch.mod, before)
    assert sch.trace.insts == [] and sch.enable_check
    # There and back is nothing.
    with sch.unchecked(WHY):
        reordered_wrongly(sch)
        i, j = sch.get_loops("A")
        sch.reorder(j, i)
    assert_structural_equal(sch.mod, before)
    assert sch.enable_check
    with pytest.raises(ScheduleError, match="cannot go inside"):
        reordered_wrongly(sch)
    sch.undo()
    assert sch.trace.insts == []


def test_a_fault_within_goes_back_to_before() -> None:
    sch = Schedule(running)
    with pytest.raises(KeyError), sch.unchecked(WHY):
        reordered_wrongly(sch)
        raise KeyError
    assert sch.trace.insts == [] and sch.enable_check
    with pytest.raises(ScheduleError, match="factors"), sch.unchecked(WHY):
        sch.split(sch.get_loops("A")[0], [2, 2])
    assert sch.enable_check


def in_any_order(sch: Schedule) -> None:
    """The same sums: accepted only where nobody asks."""
    with sch.unchecked(WHY):
        i, k = sch.get_loops("Y")
        sch.reorder(k, i)


def test_checks_turned_off_within_are_on_again_when_the_context_ends() -> None:
    sch = Schedule(running)
    with sch.unchecked(WHY):
        sch.enable_checks(False, "within", every_step=False)
        sch.split(sch.get_loops("B")[0], [None, 2])
    assert sch.enable_check and sch.unverified == ()
    # What was wrong before them counts as well.
    sch = Schedule(running)
    with pytest.raises(ScheduleError, match="since the checks were turned off"), sch.unchecked(WHY):
        reordered_wrongly(sch)
        sch.enable_checks(False, "within")
    assert sch.enable_check and sch.trace.insts == []
    # Turned on within, later steps would be neither checked nor compared.
    with pytest.raises(ScheduleError, match="turns them on again when it ends"), sch.unchecked(WHY):
        sch.enable_checks(True)
    with sch.unchecked(WHY):
        copied = sch.copy()
    assert not copied.enable_check
    copied.enable_checks(True)
    assert copied.enable_check


@pytest.mark.parametrize("by_undo", [False, True])
def test_going_back_before_the_context_ends_it(by_undo: bool) -> None:
    sch = Schedule(running)
    here = sch.checkpoint()
    sch.unroll(sch.get_loops("B")[1])
    with sch.unchecked(WHY):
        sch.split(sch.get_loops("B")[0], [None, 2])
        if by_undo:
            sch.undo(3)
        else:
            here.restore()
        with pytest.raises(ScheduleError, match="cannot go inside"):
            reordered_wrongly(sch)
        sch.parallel(sch.get_loops("B")[0])
    assert sch.enable_check and "enable_checks" not in str(sch.trace)
    assert sum(step.changes for step in sch.history) == 1
    sch.undo()
    assert "parallel" not in str(sch.trace)


def test_a_moment_within_a_context_that_has_ended_is_gone() -> None:
    sch = Schedule(running)
    with sch.unchecked(WHY):
        within = sch.checkpoint()
        sch.split(sch.get_loops("B")[0], [None, 2])
        within.restore()
        sch.split(sch.get_loops("B")[0], [None, 3])
    before = sch.mod
    with pytest.raises(ValueError, match="which has ended"):
        within.restore()
    assert sch.enable_check
    assert_structural_equal(sch.mod, before)


def test_a_context_is_entered_within_itself() -> None:
    sch = Schedule(running)
    twice = sch.unchecked(WHY)
    with twice:
        reordered_wrongly(sch)
        with twice:
            sch.parallel(sch.get_loops("B")[0])
        i, j = sch.get_loops("A")
        sch.reorder(j, i)
    assert sch.enable_check and sum(step.changes for step in sch.history) == 1


def test_programs_that_were_taken_back_are_not_what_others_are_compared_with() -> None:
    sch = Schedule(running, enable_check=False, check="none")
    reordered_wrongly(sch)
    with sch.unchecked(WHY):
        sch.split(sch.get_loops("B")[0], [None, 3])
    sch.undo(2)
    with pytest.raises(ScheduleError, match="since the checks were turned off"), sch.unchecked(WHY):
        reordered_wrongly(sch)
    with sch.unchecked(WHY):
        sch.parallel(sch.get_loops("B")[0])
    assert sch.verify()


@T.prim_func
def opaque_sum(A: T.Buffer((4, 8), "int32"), Y: T.Buffer((4,), "int32")):
    for i, k in T.grid(4, 8):
        with T.block("Y"):
            vi = T.axis.spatial(4, i)
            vk = T.axis.opaque(8, k)
            Y[vi] = Y[vi] + A[vi, vk]


def test_what_was_left_out_is_in_the_trace_and_replays() -> None:
    rejects(opaque_sum, lambda s: s.reorder(*reversed(s.get_loops("Y"))), "neither spatial nor reduce")
    sch = Schedule(opaque_sum)
    in_any_order(sch)
    text = sch.trace.as_python()
    assert text[0] == f'sch.enable_checks(enable=False, reason="{WHY}", every_step=False)'
    assert text[-1] == 'sch.enable_checks(enable=True, reason="", every_step=True)'
    check_replay(opaque_sum, sch)
    stored = json.loads(json.dumps(sch.trace.as_json()))
    assert stored[0][0] == ["EnableChecks", [], [0, WHY, 0], []]
    # Replayed on a program where it is wrong, it is refused there.
    wrong = Schedule(running, enable_check=False, check="none")
    reordered_wrongly(wrong)
    other = Schedule(running)
    with pytest.raises(ScheduleError, match="since the checks were turned off"):
        Trace.apply_json_to_schedule(wrong.trace.as_json(), other)
        other.enable_checks(True)


@pytest.mark.parametrize("check", [None, "none"])
def test_a_trace_made_without_checks_says_so_once_when_it_is_done_again(check: str | None) -> None:
    sch = Schedule(opaque_sum, enable_check=False, check=check)
    sch.reorder(*reversed(sch.get_loops("Y")))
    for options in ({"enable_check": False, "check": check}, {}):
        for by_json in (False, True):
            again = Schedule(opaque_sum, **options)
            if by_json:
                Trace.apply_json_to_schedule(json.loads(json.dumps(sch.trace.as_json())), again)
            else:
                sch.trace.apply_to_schedule(again, remove_postproc=False)
            assert str(again.trace) == str(sch.trace)
            assert not again.enable_check and len(again.unverified) == 1


def test_turning_checks_on_and_off_is_refused_where_it_means_nothing() -> None:
    rejects(running, lambda s: s.enable_checks(True), "the checks are on already")
    rejects(running, lambda s: s.enable_checks(False), "for a reason only")
    rejects(running, lambda s: s.enable_checks(1, "why"), "True or False", error=TypeError)
    sch = Schedule(running, enable_check=False)
    assert "made with enable_check=False" in str(sch.trace)
    assert not sch.copy().enable_check and len(sch.copy().trace.insts) == 1
    with pytest.raises(ValueError, match="the schedule has made none"):
        sch.undo()
    with pytest.raises(ValueError, match="check is None"):
        Schedule(running, check="maybe")


@pytest.mark.parametrize("wrong", [0, 1, 2])
def test_verify_names_the_step_that_changes_the_result(wrong: int) -> None:
    sch = Schedule(running, enable_check=False, check="none")
    right = [
        lambda: sch.split(sch.get_loops("B")[0], [None, 2]),
        lambda: sch.parallel(sch.get_loops("B")[0]),
        lambda: sch.vectorize(sch.get_loops("B")[-1]),
    ]
    for step in right[:wrong]:
        step()
    reordered_wrongly(sch)
    bad = len(sch.trace.insts) - 1
    for step in right[wrong:]:
        step()
    found = sch.verify()
    assert not found and found.step == bad and found.instruction.startswith("sch.reorder(")
    assert f"step {bad} changed the result: sch.reorder(" in str(found)
    with pytest.raises(AssertionError, match=r"A\[|B\["):
        found.require()


def test_verify_looks_through_steps_that_were_compared_together() -> None:
    sch = Schedule(running)
    with sch.unchecked(WHY):
        reordered_wrongly(sch)
        i, j = sch.get_loops("A")
        sch.reorder(j, i)
    sch.parallel(sch.get_loops("B")[0])
    assert sch.verify() and sch.verify().steps == len(sch.trace.insts)
    open_end = Schedule(running)
    open_end.enable_checks(False, WHY, every_step=False)
    reordered_wrongly(open_end)
    open_end.parallel(open_end.get_loops("B")[0])
    found = open_end.verify(seed=4)
    assert found.step == 3 and found.report is not None and found.report.seed == 4


def test_a_parameter_with_another_layout_is_not_compared_but_what_follows_is() -> None:
    sch = Schedule(running, enable_check=False, check="none")
    sch.transform_layout("B", ("write", 0), lambda i, j: (j, i))
    reordered_wrongly(sch)
    found = sch.verify()
    assert found.not_compared[0][2] == "it changes what the arguments are"
    assert found.instruction.startswith("sch.reorder(")


def test_a_schedule_without_a_trace_has_no_steps_to_verify() -> None:
    with pytest.raises(ValueError, match="no trace"):
        Schedule._create_non_traced(running).verify()


def test_a_program_that_fails_itself_cannot_be_tried() -> None:
    @T.prim_func
    def beyond(A: T.Buffer((8,), "float32")):
        for i in range(8):
            with T.block("A"):
                v = T.axis.spatial(8, i)
                T.reads(A[0:8])
                T.writes(A[0:8])
                A[v + 3] = 1.0

    sch = Schedule(beyond, check="numeric")
    with pytest.raises(ScheduleError, match="the program itself fails"):
        sch.split(sch.get_loops("A")[0], [2, 4])
    assert len(sch.get_loops("A")) == 1


def test_a_large_program_is_checked_in_parts() -> None:
    sch = Schedule(matmul(512, 512, 512).func, check="numeric")
    i, j, k = sch.get_loops("C")
    sch.reorder(k, i)
    sch.cache_write("C", 0, "local")
    sch.parallel(j)
    report = sch.verify()
    assert report.equal and report.steps == len(sch.trace.insts)


@pytest.mark.parametrize("kind", ["parallel", "vectorize", "blockIdx.x", "threadIdx.x"])
def test_iterations_that_would_meet_are_seen_though_running_in_order_shows_nothing(kind: str) -> None:
    def at_once(s: Schedule) -> None:
        loop = s.get_loops("A")[0]
        if kind.endswith(".x"):
            s.bind(loop, kind)
        else:
            getattr(s, kind)(loop)

    message = "its iterations race: iteration .* writes A.* and iteration .* reads it"
    sch = Schedule(running)
    before = sch.mod
    with pytest.raises(ScheduleError, match=f"since the checks were turned off, .*{message}"), sch.unchecked(WHY):
        at_once(sch)
    assert_structural_equal(sch.mod, before)
    assert sch.enable_check and sch.trace.insts == []
    # With the checks off for good, the step itself is refused; without comparing, `verify` names it.
    with pytest.raises(ScheduleError, match=message):
        at_once(Schedule(running, enable_check=False))
    wild = Schedule(running, enable_check=False, check="none")
    at_once(wild)
    wild.split(wild.get_loops("B")[1], [None, 3])
    found = wild.verify()
    assert not found and found.instruction == wild.trace.as_python()[3]
    with pytest.raises(AssertionError, match=message):
        found.require()


@T.prim_func
def scattered(Where: T.Buffer((16,), "int32"), A: T.Buffer((16,), "int32"), Y: T.Buffer((16,), "int32")):
    for i in range(16):
        with T.block("Y"):
            v = T.axis.spatial(16, i)
            T.reads(Where[v], A[v])
            T.writes(Y[0:16])
            Y[Where[v]] = A[v]


def test_what_depends_on_data_is_left_to_the_user_with_a_warning() -> None:
    # The axis is declared as spatial, and whoever asks for running the program hears that this was not seen.
    with pytest.warns(RaceWarning, match="loop i may meet"):
        sch = Schedule(scattered, check="numeric")
        sch.parallel(sch.get_loops("Y")[0])
    sch = Schedule(scattered)
    with pytest.warns(RaceWarning, match="the parallel loop i may meet at an element of Y") as seen, sch.unchecked(WHY):
        sch.parallel(sch.get_loops("Y")[0])
    assert seen[0].filename == __file__
    # It was said: further steps do not repeat it.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with sch.unchecked(WHY):
            sch.split(sch.get_loops("Y")[0], [None, 4])
    # Where warnings are errors, nothing is left of the steps.
    sch = Schedule(scattered)
    with warnings.catch_warnings(), pytest.raises(RaceWarning):
        warnings.simplefilter("error")
        with sch.unchecked(WHY):
            sch.parallel(sch.get_loops("Y")[0])
    assert sch.enable_check and sch.trace.insts == []
    assert_structural_equal(sch.mod, Schedule(scattered).mod)
