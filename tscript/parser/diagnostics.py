"""From whatever went wrong at a syntax node to an error that says where, why, and what to do."""

from __future__ import annotations

import difflib
import traceback
import warnings
from collections.abc import Iterable
from types import FrameType, TracebackType
from typing import NoReturn

from tscript.support.config import current
from tscript.support.errors import InternalError, ScriptError, ScriptWarning, TScriptError
from tscript.support.span import Span

_OURS = __name__.partition(".")[0] + "."


def close_matches(name: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """A hint that lists the known names most like `name`, if any is alike by more than `cutoff` (at most 1)."""
    found = difflib.get_close_matches(name, list(dict.fromkeys(known)), n=3, cutoff=cutoff)
    if not found:
        return None
    return "did you mean " + " or ".join(f"`{f}`" for f in found) + "?"


def at_span(e: Exception, span: Span) -> Exception:
    """The error to raise for `e`, which came up while the expression at `span` was evaluated."""
    if isinstance(e, ScriptError):
        if e.span is None:
            e.span = span
        return e
    if isinstance(e, (InternalError, RecursionError)):
        return e
    made = ScriptError(describe(e), span, getattr(e, "hint", None), _helper_notes(e.__traceback__))
    made.__cause__ = e
    return made


def describe(e: Exception) -> str:
    """One line that tells what `e` says."""
    if isinstance(e, KeyError):
        return f"KeyError: {e}"
    text = str(e).strip()
    if isinstance(e, TScriptError):
        return text
    return text if text else type(e).__name__


def _helper_notes(tb: TracebackType | None) -> tuple[tuple[str, Span | None], ...]:
    """Where in the user's own helper the error came from, if it was one."""
    if tb is None:
        return ()
    last = None
    for frame, line in traceback.walk_tb(tb):
        if not _is_ours(frame):
            last = (frame.f_code.co_name, frame.f_code.co_filename, line)
    if last is None or last[1].startswith("<frozen"):
        return ()
    name, file, line = last
    return ((f"raised in {name} at {file}:{line}", None),)


def _is_ours(frame: FrameType) -> bool:
    # Generated constructors of nodes run without the name of a module.
    file = frame.f_code.co_filename
    return str(frame.f_globals.get("__name__", "")).startswith(_OURS) or file.startswith("<constructor of ")


def warn(message: str, span: Span | None) -> None:
    """Warn about kernel source; the warning stands at the user's own line."""
    if span is None:
        warnings.warn(message, ScriptWarning, stacklevel=2)
    else:
        warnings.warn_explicit(f"{message}\n{span.render()}", ScriptWarning, span.file, span.line)


def fail(reason: str, span: Span | None = None, hint: str | None = None) -> NoReturn:
    """Raise a ScriptError."""
    raise ScriptError(reason, span, hint)


def full_traceback() -> bool:
    """Whether errors should keep the Python error they came from."""
    return current().full_traceback
