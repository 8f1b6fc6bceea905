"""What is done around each step: how to come back is noted, and that it left the result alone is checked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tscript.equivalence import Report
from tscript.schedule.core import ScheduleCore
from tscript.schedule.errors import ScheduleError
from tscript.schedule.history import Snapshot, Step, restore, snapshot
from tscript.schedule.numeric import Unverified
from tscript.schedule.trace_text import instruction_text, name_outputs
from tscript.support.errors import InterpError


class Stepping:
    """A step by the user, as a context, so that warnings point at the call. Where steps are compared and this one
    changes what the program computes, the schedule goes back to how it was, and ScheduleError names the instruction and
    the difference.
    """

    def __init__(self, sch: ScheduleCore, name: str, changes: bool) -> None:
        self._sch, self._name, self._changes = sch, name, changes

    def __enter__(self) -> None:
        self._before = snapshot(self._sch)

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is not None:
            return
        sch, before = self._sch, self._before
        if self._changes and sch.compares_steps:
            try:
                report = sch.numeric.compare(before.functions, sch.state.mod)
            except InterpError as error:
                restore(sch, before)
                raise _signed(sch, self._name, cannot_try(error)) from error
            except Exception:
                # Such as a warning that the user wants to be an error.
                restore(sch, before)
                raise
            if report is not None:
                text = _latest(sch)
                restore(sch, before)
                raise _signed(sch, self._name, changed(report, text))
        sch.history.append(Step(before, self._changes))


def changed(report: Report, step: str = "") -> ScheduleError:
    """The error for a program that computes something else than before."""
    what = f"`{step}` changes what the program computes" if step else "the program computes something else"
    return ScheduleError(
        f"{what}: {report.difference} (arguments of seed {report.seed})",
        hint=f"tscript.compare(before, after, seed={report.seed}) runs both again; sch.verify() names the first step "
        "of a trace that does this",
    )


def cannot_try(error: InterpError) -> ScheduleError:
    """The error for a program that fails before anything is changed."""
    return ScheduleError(
        f"what the step changes cannot be tried, for the program itself fails: {error}",
        hint="correct the program, or make the schedule with check='none'",
    )


def _latest(sch: ScheduleCore) -> str:
    """The text of the latest instruction."""
    if sch.trace is None or not sch.trace.insts:
        return ""
    inst = sch.trace.insts[-1]
    return instruction_text(inst, name_outputs(sch.trace.insts), sch.trace.decisions.get(inst))


def _signed(sch: ScheduleCore, name: str, error: ScheduleError) -> ScheduleError:
    now = sch.state.mod
    error.primitive, error.module = name, now.replace(functions={**now.functions})
    error.render_level = sch.error_render_level
    return error


class Unchecked:
    """Steps without the checks of meaning, compared with the program from before them once they are done."""

    def __init__(self, sch: ScheduleCore, reason: str, switch: Callable[..., Any]) -> None:
        self._sch, self._reason, self._switch = sch, reason, switch
        # Where it was entered, innermost last: how the schedule was, what had been done, what it is compared with.
        self._entered: list[tuple[Snapshot, list[Step], Unverified]] = []

    def __enter__(self) -> None:
        sch = self._sch
        before, done = snapshot(sch), [*sch.history]
        self._switch(False, self._reason, every_step=False)
        sch.unverified[-1].context = "open"
        self._entered.append((before, done, sch.unverified[-1]))

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        before, done, mine = self._entered.pop()
        mine.context = "ended"
        sch = self._sch
        if mine not in sch.unverified:
            # The user went back to before it, or the schedule did: nothing of it is left to be compared.
            return
        if kind is None:
            try:
                # Checks that were turned off within and left so are turned on with it.
                while mine in sch.unverified:
                    self._switch(True)
            except Exception:
                self._go_back(before, done)
                raise
            # All of it is one step, so that going back never ends within.
            sch.history[:] = [*done, Step(before, True)]
        else:
            self._go_back(before, done)

    def _go_back(self, before: Snapshot, done: list[Step]) -> None:
        restore(self._sch, before)
        self._sch.history[:] = done
