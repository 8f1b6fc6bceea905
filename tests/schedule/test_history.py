"""undo, checkpoints, and programs with their changed lines."""

from __future__ import annotations

from typing import Any

import pytest

from tscript.ir.well_formed import verify_well_formed
from tscript.printer.changes import changed_lines, changes_html, changes_text
from tscript.schedule import Schedule, ScheduleError
from tscript.testing.workloads import matmul


def fresh(**options: Any) -> Schedule:
    return Schedule(matmul(8, 8, 8).func, seed=5, debug_mask="all", **options)


def everything(sch: Schedule) -> tuple[Any, ...]:
    """All that undo has to bring back."""
    handles = {rv: (v, getattr(v, "stmt", None), getattr(v, "parent", None)) for rv, v in sch.symbols.items()}
    refs = {stmt: (r, r.parent, r.seq_index) for stmt, r in sch.state.stmt2ref.items()}
    trace = None if sch.trace is None else (list(sch.trace.insts), dict(sch.trace.decisions))
    return dict(sch.state.mod.functions), handles, refs, trace, sch.rng.state, sch.func_working_on


def test_undo_brings_back_program_trace_handles_and_random_numbers() -> None:
    sch = fresh()
    i, j, k = sch.get_loops("C")
    a, b = sch.sample_perfect_tile(i, 2)
    before = everything(sch)
    trace = sch.trace
    outer, inner = sch.split(i, [a, b])
    sch.undo()
    assert everything(sch) == before
    assert sch.trace is trace
    assert sch.get(i).loop_var.name == "i"
    for dead in (outer, inner):
        with pytest.raises(ValueError, match="no longer exists: the step that gave it was undone"):
            sch.parallel(dead)
    again = sch.split(i, [a, b])
    sch.state.verify()
    verify_well_formed(sch.mod)
    assert sch.get(again[0]).loop_var.name == "i_0"
    assert sch.get(j) is not None and sch.get(k) is not None


def test_one_step_is_one_call_with_what_was_looked_up_for_it() -> None:
    sch = fresh()
    before = everything(sch)
    sch.cache_read("C", 0, "local")
    assert len(sch.trace.insts) == 2
    sch.undo()
    assert everything(sch) == before
    sch.parallel("i")
    sch.undo()
    assert everything(sch) == before


def test_several_steps_and_queries_in_between() -> None:
    sch = fresh()
    loops = sch.get_loops("C")
    before = everything(sch)
    sch.reorder(loops[1], loops[0])
    sch.get_loops("C")
    sch.cache_write("C", 0, "local")
    sch.get_block("C_local")
    sch.undo(2)
    assert everything(sch) == before
    with pytest.raises(ValueError, match="1 step cannot be taken back: the schedule has made none"):
        sch.undo()
    with pytest.raises(ValueError, match="at least one"):
        sch.undo(0)
    with pytest.raises(TypeError, match="an integer"):
        sch.undo(1.5)  # type: ignore[arg-type]


def test_a_refused_step_is_none() -> None:
    sch = fresh()
    sch.unroll("k")
    with pytest.raises(ScheduleError):
        sch.parallel("k")
    sch.undo()
    assert [i.kind.method for i in sch.trace.insts] == []


def test_dead_handles_revive_when_the_step_that_ended_them_is_undone() -> None:
    sch = fresh()
    i, j, _ = sch.get_loops("C")
    sch.fuse(i, j)
    with pytest.raises(ValueError, match="no longer exists"):
        sch.get(i)
    sch.undo()
    sch.split(i, [2, 4])
    sch.undo()
    sch.fuse(i, j)


def test_a_checkpoint_is_come_back_to_any_number_of_times() -> None:
    sch = fresh()
    here = sch.checkpoint()
    before = everything(sch)
    for factor in (2, 4):
        sch.split(sch.get_loops("C")[0], [None, factor])
        sch.vectorize(sch.get_loops("C")[2])
        here.restore()
        assert everything(sch) == before
    later = (sch.unroll("k"), sch.checkpoint())[1]
    here.restore()
    later.restore()
    assert sch.get(sch.get_loops("C")[2]).kind == 3
    sch.state.verify()


def test_a_checkpoint_has_the_steps_that_led_to_it() -> None:
    sch = fresh()
    here = sch.checkpoint()
    sch.unroll("k")
    before = everything(sch)
    sch.parallel("i")
    later = sch.checkpoint()
    here.restore()
    sch.vectorize("j")
    sch.add_unit_loop(sch.get_block("C"))
    sch.split("i", [2, 4])
    later.restore()
    sch.undo()
    assert everything(sch) == before
    sch.undo()
    with pytest.raises(ValueError, match="none"):
        sch.undo()


def test_a_block_that_fails_leaves_nothing() -> None:
    sch = fresh()
    before = everything(sch)
    with pytest.raises(ScheduleError), sch.checkpoint():
        sch.unroll("k")
        sch.parallel("k")
    assert everything(sch) == before
    with sch.checkpoint():
        sch.unroll("k")
    assert len(sch.history) == 1


def test_replays_and_copies_have_histories_of_their_own() -> None:
    sch = fresh()
    sch.split(sch.get_loops("C")[0], [2, 4])
    other = fresh()
    sch.trace.apply_to_schedule(other, False)
    assert str(other.trace) == str(sch.trace)
    other.undo()
    assert [i.kind.method for i in other.trace.insts] == ["get_block", "get_loops"]
    copied = sch.copy()
    with pytest.raises(ValueError, match="none"):
        copied.undo()
    copied.unroll("k")
    copied.undo()
    assert str(copied.trace) == str(sch.trace)


def test_a_schedule_without_trace_goes_back_too() -> None:
    sch = Schedule._create_non_traced(matmul(8, 8, 8).func)
    text = sch.mod.script()
    sch.unroll("k")
    sch.undo()
    assert sch.mod.script() == text and sch.trace is None


def test_changed_lines_are_marked(capsys: pytest.CaptureFixture[str]) -> None:
    sch = fresh()
    here = sch.checkpoint()
    sch.parallel("i")
    sch.unroll("k")
    sch.show(diff=True)
    last = capsys.readouterr().out
    assert [line[0] for line in last.splitlines() if "for" in line].count("+") >= 1
    assert "+" in last and "T.unroll(8)" in last and "\x1b" not in last
    sch.show(since=here)
    since = capsys.readouterr().out
    marked = [line for line in since.splitlines() if line.startswith(("+", "-"))]
    assert any("T.parallel(8)" in line for line in marked) and any(line.startswith("-") for line in marked)
    assert sch.changes(here) == since.rstrip("\n")
    with pytest.raises(ValueError, match="none"):
        fresh().show(diff=True)


def test_marks_in_text_colours_and_markup() -> None:
    old, new = "a\nb < c\nd", "a\nb > c\nd"
    assert changed_lines(old, new) == [(" ", "a"), ("-", "b < c"), ("+", "b > c"), (" ", "d")]
    assert changes_text(old, new) == "  a\n- b < c\n+ b > c\n  d"
    assert "\x1b[31m- b < c\x1b[0m\n\x1b[32m+ b > c\x1b[0m" in changes_text(old, new, colours=True)
    assert '<span class="ts-gone">- b &lt; c</span>\n<span class="ts-new">+ b &gt; c</span>' in changes_html(old, new)
    assert changed_lines(old, old) == [(" ", line) for line in old.splitlines()]
