"""Schedules where TVM has them, what their methods tell of themselves, and how traces show."""

from __future__ import annotations

import inspect
import io
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path

import pytest

import tscript
from tests.schedule.check import check_schedule
from tests.schedule.test_split import rowsum
from tscript import schedule, tir
from tscript.schedule.primitive import METHODS
from tscript.script import tir as T


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


ROOT = Path(__file__).resolve().parents[2]


def test_the_names_of_tvm_lead_to_schedules() -> None:
    assert tir.Schedule is tir.schedule.Schedule is tscript.schedule.Schedule
    assert issubclass(tir.ScheduleError, tscript.error.ScheduleError)
    for name in (
        "BlockRV", "ExprRV", "Instruction", "InstructionKind", "LoopRV", "ScheduleError", "ScheduleState", "StmtSRef",
        "Trace",
    ):  # fmt: skip
        assert getattr(tir.schedule, name) is getattr(schedule, name)
    assert tir.schedule.InstructionKind.get("Split").method == "split"


def test_they_are_loaded_when_first_asked_for() -> None:
    code = (
        "import sys, tscript\n"
        "assert 'tscript.schedule' not in sys.modules\n"
        "assert tscript.tir.schedule.Trace and tscript.tir.Schedule\n"
        "from tscript.tir.schedule import BlockRV\n"
        "print('tscript.schedule' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == "True"


def test_every_primitive_is_a_method_that_says_what_it_does() -> None:
    for name, primitive in METHODS.items():
        assert getattr(tir.Schedule, name) is primitive
        assert primitive.__doc__ and primitive.__module__.startswith("tscript.schedule.primitives")
    sch = tir.Schedule(rowsum)
    assert repr(sch.split).startswith("<primitive split(loop: ")
    assert list(inspect.signature(sch.split).parameters) == [
        "loop", "factors", "preserve_unit_iters", "disable_predication",
    ]  # fmt: skip


def test_a_primitive_is_a_method_of_the_class_too() -> None:
    sch = tir.Schedule(rowsum)
    tir.Schedule.split(sch, sch.get_loops("sum")[0], [None, 2])
    assert "sch.split(loop=l1, factors=[None, 2]" in str(sch.trace)
    assert list(inspect.signature(tir.Schedule.fuse).parameters) == ["self", "loops", "preserve_unit_iters"]


def test_wrong_arguments_are_told_with_the_signature() -> None:
    sch = tir.Schedule(rowsum)
    with pytest.raises(
        TypeError, match=r"sch.split: missing a required argument: 'factors'; its signature is split\(loop"
    ):
        sch.split(sch.get_loops("sum")[0])
    with pytest.raises(TypeError, match=r"sch.fuse: got an unexpected keyword argument 'preserve'"):
        sch.fuse(*sch.get_loops("sum"), preserve=True)


def test_a_trace_shows_in_colours_and_prints_plainly(capsys: pytest.CaptureFixture[str]) -> None:
    sch = check_schedule(rowsum, lambda s: s.split(s.get_loops("sum")[0], [None, 3]))
    sch.trace.show()
    assert capsys.readouterr().out.rstrip("\n") == str(sch.trace)
    terminal = Terminal()
    with redirect_stdout(terminal):
        sch.trace.show("ansi")
    coloured = terminal.getvalue()
    assert "\x1b[" in coloured and "apply_trace" in coloured
    assert "apply_trace" in sch.trace._repr_html_() and "<" in sch.trace._repr_html_()
    sch.show(black_format=False)
    text = capsys.readouterr().out
    assert text.index("@T.prim_func") < text.index("def apply_trace")


def test_an_empty_trace_is_a_function_that_does_nothing() -> None:
    sch = tir.Schedule(rowsum)
    assert str(sch.trace) == "# from tvm import tir\ndef apply_trace(sch: tir.Schedule) -> None:\n  pass"
    assert sch.trace.as_json() == [[], []]


def test_an_error_shows_the_program_as_it_was_then() -> None:
    sch = tir.Schedule(rowsum)
    with pytest.raises(tir.ScheduleError) as caught:
        sch.split(sch.get_loops("sum")[0], [2, 2])
    sch.split(sch.get_loops("sum")[0], [2, 4])
    text = str(caught.value)
    assert "for i in range(8):" in text and "i_0" not in text and "^^^^" in text
    fast = tir.Schedule(rowsum, error_render_level="fast")
    with pytest.raises(tir.ScheduleError) as caught:
        fast.split(fast.get_loops("sum")[0], [2, 2])
    assert "\n" not in str(caught.value)


@T.prim_func
def joined(A: T.Buffer((128,), "int32"), B: T.Buffer((128,), "int32")):
    for i, j in T.grid(16, 8):
        with T.block("B"):
            v = T.axis.spatial(128, i * 8 + j)
            B[v] = A[v] + 1


def test_bindings_are_found_again_as_whole_iterators() -> None:
    def bindings(steps) -> str:
        return next(
            line for line in check_schedule(joined, steps).mod.script().splitlines() if "T.axis" in line
        ).strip()

    assert bindings(lambda s: s.fuse(*s.get_loops("B"))) == "v = T.axis.spatial(128, i_j_fused)"
    assert bindings(lambda s: s.split(s.fuse(*s.get_loops("B")), [None, 32])) == (
        "v = T.axis.spatial(128, i_j_fused_0 * 32 + i_j_fused_1)"
    )
    assert bindings(lambda s: s.split(s.get_loops("B")[1], [2, 4])) == (
        "v = T.axis.spatial(128, i * 8 + j_0 * 4 + j_1)"
    )
