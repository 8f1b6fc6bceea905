"""The steps of a trace as a page to go through: markup that needs no server and nothing from elsewhere.

All programs are kept as one list of lines and the edits from each step to the next, so a long trace of a large module
stays small. The page shows text by itself (`viewer.js`); without scripts, the text of the trace is there.
"""

from __future__ import annotations

import functools
import html as _html
import json
from collections.abc import Sequence
from importlib.resources import files
from typing import Any, Final

from tscript.analysis.cost import Cost
from tscript.printer.changes import line_edits
from tscript.printer.colours import kind_rules, themed
from tscript.printer.highlight import markup
from tscript.schedule.steps import TraceStep, buffer_columns, buffer_rows, figures

_LIGHT = (
    "--ts-rule:#d5dad8;--ts-edge:#7d8783;--ts-raised:#eef1f0;--ts-hover:#dfe5e2;--ts-dim:#55605b;--ts-accent:#0b57d0;"
    "--ts-on-accent:#ffffff;--ts-accent-ink:#0842a0;--ts-gone:#fde3e0;--ts-new:#dff3e4;--ts-gone-mark:#a3160d;"
    "--ts-new-mark:#0a5c27;color-scheme:light;"
)
_DARK = (
    "--ts-rule:#3a423e;--ts-edge:#7f8a85;--ts-raised:#252b28;--ts-hover:#333b37;--ts-dim:#a9b5af;--ts-accent:#8ab4f8;"
    "--ts-on-accent:#10151c;--ts-accent-ink:#a8c7fa;--ts-gone:#4a2321;--ts-new:#1d3f28;--ts-gone-mark:#ffb4ab;"
    "--ts-new-mark:#9be3ad;color-scheme:dark;"
)
_HINT = (
    "← → go from step to step, Home and End to the first and last. Costs are estimates for one core: see estimate_cost."
)


LIMIT: Final = 1_000_000
"""Bytes that markup for a notebook stays below."""


@functools.cache
def _file(name: str) -> str:
    return (files("tscript.schedule") / name).read_text(encoding="utf-8")


@functools.cache
def style_sheet() -> str:
    """CSS of the viewer, in light and dark."""
    return "\n".join([*themed(".tscript-steps", _LIGHT, _DARK), *kind_rules(".tscript-steps"), _file("viewer.css")])


def viewer(steps: Sequence[TraceStep], costs: Sequence[Cost], trace_text: str) -> str:
    """Markup to put into a page: the viewer, and for where scripts do not run, the text of the trace.

    Several of them in one page do not know of each other. What would be too large for a notebook leaves out the table
    of buffers; if that is not enough, all but the text.
    """
    for with_buffers in (True, False):
        made = _viewer(steps, costs, trace_text, with_buffers)
        if len(made.encode()) < LIMIT:
            return made
    return markup(f"# The programs of these {len(steps) - 1} steps are too large for a page.\n{trace_text}")


def _viewer(steps: Sequence[TraceStep], costs: Sequence[Cost], trace_text: str, with_buffers: bool) -> str:
    data = json.dumps(_data(steps, costs, with_buffers), ensure_ascii=False, separators=(",", ":"))
    # Within a script element, only what looks like its end, or like a comment, means anything.
    safe = data.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    return (
        f'<div class="tscript-steps" role="group" aria-label="Steps of a schedule">\n<style>\n{style_sheet()}</style>\n'
        f'<script type="application/json">{safe}</script>\n<div class="ts-plain">{markup(trace_text)}</div>\n'
        f'<div class="ts-view"></div>\n<script>\n{_file("viewer.js")}</script>\n</div>'
    )


def page(body: str, title: str) -> str:
    """A whole HTML document around the markup of a viewer."""
    style = "html{background:#ffffff}body{margin:12px}@media (prefers-color-scheme:dark){html{background:#121513}}"
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width,initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<link rel="icon" href="data:,">\n'
        f"<title>{_html.escape(title)}</title>\n<style>{style}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def _data(steps: Sequence[TraceStep], costs: Sequence[Cost], with_buffers: bool) -> dict[str, Any]:
    lines: dict[str, int] = {}
    edits: list[list[Any]] = []
    before: list[str] = []
    for k, step in enumerate(steps):
        if k and step.mod is steps[k - 1].mod:
            edits.append([])
            continue
        after = step.mod.script().split("\n")
        edits.append([[a, b - a, _numbered(after[c:d], lines)] for a, b, c, d in line_edits(before, after)])
        before = after
    names, table = figures(costs)
    caches = [c.name for c in costs[-1].caches]
    tables: dict[str, int] = {}
    rows: dict[tuple[str, ...], int] = {}
    buffers: dict[tuple[int, ...], int] = {}
    shown: list[dict[str, Any]] = []
    for step, row, cost in zip(steps, table, costs, strict=True):
        record: dict[str, Any] = {
            "name": step.name,
            "calls": list(step.calls) or ["# the program at the start"],
            "main": max(step.main, 0),
            "cost": tables.setdefault(json.dumps(row), len(tables)),
            "buffers": buffers.setdefault(_numbers(buffer_rows(cost) if with_buffers else [], rows), len(buffers)),
        }
        if step.refusal:
            record["note"] = f"The replay stopped here: {step.refusal}"
        shown.append(record)
    return {
        "hint": _HINT,
        "steps": shown,
        "lines": list(lines),
        "edits": edits,
        "metrics": [f"through {n}" if n in caches else n for n in names],
        "costs": [json.loads(t) for t in tables],
        "columns": buffer_columns(costs[-1]),
        "rows": list(rows),
        "buffers": list(buffers),
    }


def _numbers(table: Sequence[Sequence[str]], rows: dict[tuple[str, ...], int]) -> tuple[int, ...]:
    """The numbers of rows, all of which are kept once."""
    return tuple(rows.setdefault(tuple(row), len(rows)) for row in table)


def _numbered(new: Sequence[str], lines: dict[str, int]) -> list[int]:
    """For each line its indentation and the number of the rest."""
    found: list[int] = []
    for line in new:
        text = line.lstrip(" ")
        found += [len(line) - len(text), lines.setdefault(text, len(lines))]
    return found


__all__ = ["LIMIT", "page", "style_sheet", "viewer"]
