"""Schedules in files: the program they began with, and their trace.

The file is JSON: `{"format": "tscript.trace", "version": 1, "checks": true, "workload": ..., "trace": ...}` with the
workload in the form of `tscript.ir.save_json` and the trace in that of `Trace.as_json`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from tscript.ir.function import IRModule
from tscript.ir.json_io import LoadError, load_json, save_json
from tscript.schedule.trace import Trace

FORMAT: Final = "tscript.trace"
VERSION: Final = 1


class Saved(NamedTuple):
    """What a file holds: the program that the trace begins with, the trace in JSON, whether steps were checked."""

    workload: IRModule
    trace: list[Any]
    checks: bool


def saved_text(workload: IRModule, trace: Trace, checks: bool) -> str:
    """The text of a file. TypeError for a program or step with an annotation that has no text form."""
    head = {"format": FORMAT, "version": VERSION, "checks": checks}
    program = json.loads(save_json(workload, spans=False))
    return json.dumps({**head, "workload": program, "trace": trace.as_json()}, ensure_ascii=False, allow_nan=False)


def read_file(path: str | Path) -> Saved:
    """What a file says. LoadError where it is damaged, or something else, OSError where it cannot be read."""
    try:
        return read_saved(Path(path).read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise LoadError(f"{path} is no text: {error.reason} at byte {error.start}") from error
    except LoadError as error:
        raise LoadError(f"{path}: {error}") from error


def json_of(text: str) -> Any:
    """What a JSON text says. LoadError where it is none."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise LoadError(f"no JSON: line {error.lineno}, column {error.colno}: {error.msg}") from error
    except RecursionError as error:
        raise LoadError("no saved schedule: it is nested too deeply") from error


def read_saved(text: str) -> Saved:
    """What the text of a file says. LoadError where it is damaged, or something else."""
    found: Any = json_of(text)
    if not isinstance(found, dict):
        raise LoadError("no saved schedule: it is no object with a format")
    fields = cast("dict[str, Any]", found)
    if fields.get("format") != FORMAT:
        raise LoadError(f"no saved schedule: its format is {fields.get('format')!r}, not {FORMAT!r}")
    if fields.get("version") != VERSION:
        raise LoadError(f"its version is {fields.get('version')!r}; this tscript reads version {VERSION}")
    for name, kind in (("workload", dict), ("trace", list), ("checks", bool)):
        if not isinstance(fields.get(name), kind):
            raise LoadError(f"no saved schedule: the field {name!r} is missing or no {kind.__name__}")
    workload = load_json(json.dumps(fields["workload"]))
    if not isinstance(workload, IRModule):
        raise LoadError(f"its workload is no module but {workload!r}")
    return Saved(workload, fields["trace"], fields["checks"])


__all__ = ["FORMAT", "Saved", "VERSION", "json_of", "read_file", "read_saved", "saved_text"]
