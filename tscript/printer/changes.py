"""Two versions of a program, line by line: what went, what came, what stayed."""

from __future__ import annotations

import difflib
import html as _html
import sys
from collections.abc import Sequence

from tscript.printer import highlight

_COLOURS = {"-": "\x1b[31m", "+": "\x1b[32m"}
_STYLE = (
    ".ts-diff{white-space:pre;font-family:monospace}"
    ".ts-gone{background:rgba(220,60,60,.22)}.ts-new{background:rgba(50,170,80,.22)}"
)


def changed_lines(before: str, after: str) -> list[tuple[str, str]]:
    r"""Every line of both texts in order, each with its mark: "-" is only in the first, "+" only in the second.

    >>> changed_lines("a\nb", "a\nc")
    [(' ', 'a'), ('-', 'b'), ('+', 'c')]
    """
    old, new = before.splitlines(), after.splitlines()
    found: list[tuple[str, str]] = []
    for kind, a, b, c, d in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind == "equal":
            found += [(" ", line) for line in old[a:b]]
        else:
            found += [("-", line) for line in old[a:b]]
            found += [("+", line) for line in new[c:d]]
    return found


Edit = tuple[int, int, int, int]


def line_edits(old: Sequence[str], new: Sequence[str]) -> list[Edit]:
    """Where lines differ: `(a, b, c, d)` says that lines a to b of `old` became lines c to d of `new`, ends excluded.

    >>> line_edits(["a", "b", "c"], ["a", "x", "y", "c"])
    [(1, 2, 1, 3)]
    """
    start, most = 0, min(len(old), len(new))
    while start < most and old[start] == new[start]:
        start += 1
    end = 0
    while end < most - start and old[-1 - end] == new[-1 - end]:
        end += 1
    before, after = old[start : len(old) - end], new[start : len(new) - end]
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    found = [o[1:] for o in matcher.get_opcodes() if o[0] != "equal"]
    return [(a + start, b + start, c + start, d + start) for a, b, c, d in found]


def changed_parts(before: str, after: str, around: int = 2, colours: bool = False) -> str:
    """The changed lines with their marks, and `around` lines about them; `...` stands for what is left out."""
    old, new = before.splitlines(), after.splitlines()
    lines: list[str] = []
    at = to = 0
    for a, b, c, d in line_edits(old, new):
        kept = new[to:c]
        tail = 0 if not lines else around
        if len(kept) > tail + around + 1:
            lines += [f"  {line}" for line in kept[:tail]] + ["  ..."]
            kept = kept[len(kept) - around :]
        lines += [f"  {line}" for line in kept]
        for mark, part in (("-", old[a:b]), ("+", new[c:d])):
            marked = [f"{mark} {line}".rstrip() for line in part]
            lines += [f"{_COLOURS[mark]}{line}\x1b[0m" for line in marked] if colours else marked
        at, to = b, d
    rest = old[at:]
    if lines:
        lines += [f"  {line}" for line in rest[:around]] + (["  ..."] if len(rest) > around else [])
    return "\n".join(line.rstrip() for line in lines)


def changes_text(before: str, after: str, colours: bool = False) -> str:
    """The lines with their marks in front; in red and green if asked."""
    lines: list[str] = []
    for mark, line in changed_lines(before, after):
        text = f"{mark} {line}".rstrip()
        lines.append(f"{_COLOURS[mark]}{text}\x1b[0m" if colours and mark in _COLOURS else text)
    return "\n".join(lines)


def changes_html(before: str, after: str) -> str:
    """The lines as markup that reads on light and dark pages."""
    classes = {"-": ' class="ts-gone"', "+": ' class="ts-new"', " ": ""}
    lines = [
        f"<span{classes[mark]}>{_html.escape(f'{mark} {line}', quote=False)}</span>"
        for mark, line in changed_lines(before, after)
    ]
    return f'<style>\n{_STYLE}\n</style>\n<pre class="ts-diff">' + "\n".join(lines) + "</pre>"


def show_changes(before: str, after: str) -> None:
    """Print the changes for a person: markup in a notebook, colours in a terminal, else plain text."""
    display = highlight.notebook_display()
    if display is not None:
        data = {"text/html": changes_html(before, after), "text/plain": changes_text(before, after)}
        display.display(data, raw=True)
    else:
        print(changes_text(before, after, colours=sys.stdout.isatty()))


__all__ = ["changed_lines", "changed_parts", "changes_html", "changes_text", "line_edits", "show_changes"]
