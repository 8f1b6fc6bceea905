"""Every exception tscript raises on purpose: one class for each kind of reader."""

from __future__ import annotations

from typing import Any

from tscript.support.span import Span


class TScriptError(Exception):
    """Base of all errors caused by a user's program, schedule or call."""


class ScriptError(TScriptError):
    """A mistake in kernel source: says where it stands, why it is wrong and what to do instead.

    Attributes: `reason` (one line), `span` (position in the user's file, or None),
    `hint` (a suggestion, or None), `notes` (further positions, each with a remark).
    """

    def __init__(
        self,
        reason: str,
        span: Span | None = None,
        hint: str | None = None,
        notes: tuple[tuple[str, Span | None], ...] = (),
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.span = span
        self.hint = hint
        self.notes = notes

    @property
    def file(self) -> str | None:
        """The file of the offending expression."""
        return self.span.file if self.span else None

    @property
    def line(self) -> int | None:
        """The line of the offending expression, counted from 1."""
        return self.span.line if self.span else None

    @property
    def column(self) -> int | None:
        """The column of the offending expression, counted from 1."""
        return self.span.column if self.span else None

    def __str__(self) -> str:
        parts = [self.reason]
        if self.span is not None:
            parts.append(f"  --> {self.span}")
            if text := self.span.render():
                parts.append(text)
        if self.hint:
            parts.append(f"  try: {self.hint}")
        for text, span in self.notes:
            parts.append(f"  note: {text}" + (f" ({span})" if span else ""))
            if span is not None and (where := span.render()):
                parts.append(where)
        return "\n".join(parts)


DiagnosticError = ScriptError
"""The name TVM users know."""


class ScriptWarning(UserWarning):
    """Something in kernel source that is accepted but may not be what its author meant."""


class RaceWarning(UserWarning):
    """Iterations that run at the same time may meet at an element: this could be neither shown nor excluded."""


class VerifyError(TScriptError):
    """A program that breaks a rule of the IR; the rule's number is in the text."""


class CheckError(TScriptError):
    """A program in which `tscript.analysis.check` found something. `report` has the findings."""

    def __init__(self, text: str, report: Any) -> None:
        super().__init__(text)
        self.report = report


class ScheduleError(TScriptError):
    """A schedule primitive that was refused."""


class LoweringError(TScriptError):
    """A program that cannot be turned into plain loops."""


class BuildError(TScriptError):
    """A program that cannot be turned into native code."""


class InterpError(TScriptError):
    """A program that did something undefined while the interpreter ran it.

    Attributes: `reason` (one line), `buffer` (its name, or None), `indices` (where it was accessed, or
    None), `statement` (the text of the statement that failed, or None), `loop_values` (loop and axis
    variables by name, outermost first), `span` (where the statement was written, or None).
    """

    def __init__(
        self,
        reason: str,
        *,
        buffer: str | None = None,
        indices: tuple[int, ...] | None = None,
        statement: str | None = None,
        loop_values: dict[str, int] | None = None,
        span: Span | None = None,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.buffer = buffer
        self.indices = indices
        self.statement = statement
        self.loop_values = dict(loop_values or {})
        self.span = span

    def __str__(self) -> str:
        parts = [self.reason]
        if self.statement:
            parts.append(f"  in: {self.statement}")
        if self.loop_values:
            parts.append("  with " + ", ".join(f"{name} = {value}" for name, value in self.loop_values.items()))
        if self.span is not None:
            parts.append(f"  --> {self.span}")
            if text := self.span.render():
                parts.append(text)
        return "\n".join(parts)


class UnknownMeaning(InterpError):
    """A program that uses what has a meaning on some hardware only, so that the interpreter cannot run it."""


class CallError(TScriptError, TypeError):
    """A built function that was called with arguments it does not take."""


class ExecutionError(TScriptError, RuntimeError):
    """A built function that failed while it ran."""


class AssertFailed(ExecutionError, AssertionError):
    """An assertion of a kernel that did not hold."""


class DivisionByZero(ExecutionError, ZeroDivisionError):
    """A division of integers by zero in a kernel."""


class LibraryError(TScriptError, ValueError):
    """A library file that cannot be loaded here: it is for another machine, or of another version, or damaged."""


class CorruptLibraryError(LibraryError):
    """A file that is no library, or a library that is damaged."""


class TuneError(TScriptError):
    """A tuning run that cannot go on."""


class InternalError(Exception):
    """A defect of tscript itself."""
