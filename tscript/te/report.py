"""Mistakes in the functions users pass to `te`, told at the line where they were made."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from types import CodeType, TracebackType
from typing import Any

from tscript.support.errors import ScriptError
from tscript.support.span import Span

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


@contextmanager
def at_user_line(fcompute: Callable[..., Any], what: str) -> Generator[None, None, None]:
    """Turn a TypeError, ValueError, NameError, ... raised inside into a ScriptError at the user's line.

    The position is that of the innermost frame outside this package; without one (the mistake shows only
    in what the function returned), that of the function itself.
    """
    try:
        yield
    except ScriptError:
        raise
    except (TypeError, ValueError, NameError, AttributeError, KeyError, IndexError, ZeroDivisionError) as error:
        text = error.args[0] if isinstance(error, KeyError) and error.args else error
        span = _user_span(error.__traceback__, fcompute) or function_span(fcompute)
        raise ScriptError(f"{what}: {text}", span, getattr(error, "hint", None)) from None


def function_span(fcompute: Callable[..., Any]) -> Span | None:
    """Where a function or lambda starts."""
    code = getattr(fcompute, "__code__", None)
    if not isinstance(code, CodeType):
        return None
    for line, end_line, column, end_column in _positions(code):
        if line is not None and column is not None and end_line is not None and end_column is not None:
            return Span(code.co_filename, line, column + 1, end_line, end_column + 1)
    return Span(code.co_filename, code.co_firstlineno, 1, code.co_firstlineno, 1)


def _positions(code: CodeType) -> Iterator[tuple[int | None, int | None, int | None, int | None]]:
    """Source positions of the instructions of a body; from Python 3.11 on."""
    positions = getattr(code, "co_positions", None)
    if positions is None:
        return
    for line, end_line, column, end_column in positions():
        # The first instructions set the frame up and have an empty position.
        if (line, column) != (end_line, end_column):
            yield line, end_line, column, end_column


def _user_span(traceback: TracebackType | None, fcompute: Callable[..., Any]) -> Span | None:
    found: Span | None = None
    own = getattr(fcompute, "__code__", None)
    inside = False
    while traceback is not None:
        code = traceback.tb_frame.f_code
        inside = inside or code is own
        if inside and not os.path.abspath(code.co_filename).startswith(_PACKAGE + os.sep):
            found = _instruction_span(code, traceback)
        traceback = traceback.tb_next
    return found


def _instruction_span(code: CodeType, traceback: TracebackType) -> Span:
    positions = getattr(code, "co_positions", None)
    if positions is not None:
        all_positions = list(positions())
        line, end_line, column, end_column = all_positions[traceback.tb_lasti // 2]
        if None not in (line, end_line, column, end_column):
            return Span(code.co_filename, line, column + 1, end_line, end_column + 1)
    return Span(code.co_filename, traceback.tb_lineno, 1, traceback.tb_lineno, 1)
