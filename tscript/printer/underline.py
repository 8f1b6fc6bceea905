"""Carets under lines, line numbers, and leaving out what is far from the carets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tscript.printer.options import PrintOptions

Carets = Mapping[int, Sequence[tuple[int, int]]]
"""For each line, counted from 0, the stretches of columns that carets go under."""


def decorate(lines: Sequence[str], carets: Carets, options: PrintOptions) -> str:
    """The text of a program with what the options ask for around its lines."""
    width = len(str(len(lines))) + 1 if options.print_line_numbers else 0
    out: list[str] = []
    for start, stop, shown in _chunks(len(lines), carets, options.num_context_lines):
        if not shown:
            out.append(" " * width + f"(... {stop - start} lines skipped ...)")
            continue
        for i in range(start, stop):
            out.append((f"{i + 1} ".rjust(width) if width else "") + lines[i])
            if i in carets:
                out.append(" " * width + _caret_row(carets[i]))
    return "\n".join(out).rstrip()


def _caret_row(stretches: Sequence[tuple[int, int]]) -> str:
    row = [" "] * max(stop for _, stop in stretches)
    for start, stop in stretches:
        row[start:stop] = "^" * (stop - start)
    return "".join(row)


def _chunks(count: int, carets: Carets, context: int) -> list[tuple[int, int, bool]]:
    """Stretches of lines, each with whether it is shown. A single line is not worth leaving out."""
    if context < 0 or not carets:
        return [(0, count, True)]
    kept = [False] * count
    for i in carets:
        first, last = max(0, i - context), min(count, i + context + 1)
        kept[first:last] = [True] * (last - first)
    chunks: list[tuple[int, int, bool]] = []
    start = 0
    for i in range(1, count + 1):
        if i == count or kept[i] != kept[start]:
            chunks.append((start, i, kept[start] or i - start == 1))
            start = i
    return chunks
