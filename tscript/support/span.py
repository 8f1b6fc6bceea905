"""Source positions, and the text they point into."""

from __future__ import annotations

import linecache
from dataclasses import dataclass


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
        last = self.end_column if self.end_line == self.line else len(text) + 1
        width = max(1, last - self.column)
        # Tabs are kept in the margin so that the carets stay below the text they point at.
        margin = "".join("\t" if ch == "\t" else " " for ch in text[: self.column - 1])
        number = str(self.line)
        pad = " " * len(number)
        return f"{pad} |\n{number} | {text}\n{pad} | {margin}{'^' * width}"
