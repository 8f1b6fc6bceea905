"""Leaving out, and asking again for, the checks that a step keeps the meaning of the program."""

from __future__ import annotations

from tscript.schedule.core import ScheduleCore
from tscript.schedule.errors import ScheduleError, refuse
from tscript.schedule.instruction import InstructionKind, attr, flag
from tscript.schedule.numeric import Unverified
from tscript.schedule.primitive import primitive
from tscript.schedule.stepping import cannot_try, changed
from tscript.support.errors import InterpError


@primitive(InstructionKind("EnableChecks", "enable_checks", (flag("enable"), attr("reason"), flag("every_step"))))
def enable_checks(s: ScheduleCore, enable: bool, reason: str = "", every_step: bool = True) -> None:
    """Turn the checks of meaning off, saying why, or on again. `with sch.unchecked(reason):` does both.

    While they are off, steps that may change what is computed are accepted: iterations that depend on each other are
    reordered or run at once, blocks are moved away from those that need them. What would give no program is still
    refused: handles that are gone, factors that lose iterations, loops that do not nest. In place of the checks, the
    program is run on random arguments and compared with how it was when they were turned off: after each step, which is
    refused if something differs, or, without `every_step`, when the checks are turned on again.
    Iterations run in order there, so those that run at once are looked at as well: it is refused if they are shown to
    meet at an element, and RaceWarning is given where this stays open, as with subscripts that are read from memory.

    Raises ScheduleError without a reason, where checks are on already or `with sch.unchecked(...)` will turn them on,
    and when the comparison finds a difference.

    >>> import tscript
    >>> from tscript.testing.workloads import matmul
    >>> sch = tscript.tir.Schedule(matmul(8, 8, 8).func)
    >>> sch.enable_checks(False, "each row of C is its own")
    >>> sch.vectorize(sch.get_loops("C")[0])
    >>> sch.enable_checks(True)
    >>> print(sch.trace.as_python()[0])
    sch.enable_checks(enable=False, reason="each row of C is its own", every_step=True)
    """
    if not isinstance(enable, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"enable is True or False, not {enable!r}")
    if not enable:
        if not isinstance(reason, str) or not reason.strip():  # pyright: ignore[reportUnnecessaryIsInstance]
            refuse("checks are left out for a reason only", hint='say it: sch.enable_checks(False, "why it is right")')
        s.unverified = (*s.unverified, Unverified({**s.state.mod.functions}, bool(every_step)))
        return
    if not s.unverified:
        refuse("the checks are on already")
    if s.unverified[-1].context == "open":
        refuse(
            "the checks were turned off by `with sch.unchecked(...)`, which turns them on again when it ends",
            hint="end its block before the steps that are to be checked",
        )
    try:
        report = s.numeric.compare(s.unverified[-1].functions, s.state.mod)
    except InterpError as error:
        raise cannot_try(error) from error
    if report is not None:
        raise _as_block(changed(report))
    s.unverified = s.unverified[:-1]


def _as_block(error: ScheduleError) -> ScheduleError:
    error.message = f"since the checks were turned off, {error.message}"
    return error
