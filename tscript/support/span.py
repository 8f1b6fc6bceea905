"""Source positions, and the text they point into."""

from __future__ import annotations

import linecache
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of source text.

    Lines and columns count from 1; `end_column` is one past the last character.
    """

    file: str
    line: int
    column: int
    end_line: int
    end_column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"

    def source_line(self) -> str | None:
        """The first line this span touches, or None when its text cannot be found."""
        text = linecache.getline(self.file, self.line)
        return text.rstrip("\n") if text else None

    def render(self) -> str:
        """The source line with carets under the span, or an empty string without a source."""
        text = self.source_line()
        if text is None:
            return ""
        begin = self.column - 1
        end = max(begin + 1, self.end_column - 1 if self.end_line == self.line else len(text))
        text, begin, end = _window(text, begin, end)
        # Tabs are kept in the margin so that the carets stay below the text they point at.
        margin = "".join("\t" if ch == "\t" else " " for ch in text[:begin])
        number = str(self.line)
        pad = " " * len(number)
        return f"{pad} |\n{number} | {text}\n{pad} | {margin}{'^' * (end - begin)}"


_WIDEST: Final = 240
_LEAD: Final = 60


def _window(text: str, begin: int, end: int) -> tuple[str, int, int]:
    """A line, and a stretch of it, as they are shown: of a very long line only what lies around the stretch."""
    if len(text) <= _WIDEST:
        return text, begin, end
    first = max(0, min(begin - _LEAD, len(text) - _WIDEST))
    last = first + _WIDEST
    before, after = "... " if first > 0 else "", " ..." if last < len(text) else ""
    shift = len(before) - first
    return before + text[first:last] + after, begin + shift, min(end, last) + shift
