"""Workloads and records as JSON values.

A workload is `["<structural hash>", "<base64 of the saved module>"]`, a record `[workload, [trace, run_secs, target,
args_info]]` with the number of its workload. Both may end in one more value, a dict of what else is known: `error`, why
a candidate failed, `program`, the hash of what was measured, `when` that was, and `crc`, the CRC-32 of the text of
everything before.
"""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from collections.abc import Mapping
from typing import Any, cast

from tscript.ir.function import IRModule
from tscript.ir.json_io import load_json, save_json
from tscript.meta_schedule.arg_info import ArgInfo
from tscript.meta_schedule.database.database import TuningRecord, Workload
from tscript.schedule.trace import Trace
from tscript.target.target import Target


def dump_line(values: list[Any], extra: dict[str, Any] | None = None) -> str:
    """One line of JSON, without its end: `values`, then `extra` with a check sum of them."""
    check = zlib.crc32(_text(values).encode())
    return _text([*values, {**(extra or {}), "crc": check}])


def parse_line(text: str) -> tuple[list[Any], dict[str, Any]]:
    """The values of a line, and what else it says.

    Raises ValueError for what is no JSON list, or whose check sum does not fit.
    """
    try:
        values = json.loads(text)
    except ValueError as e:
        raise ValueError(f"it is no JSON ({e})") from e
    if not isinstance(values, list):
        raise ValueError("it is no list")
    items = cast("list[Any]", values)
    extra: dict[str, Any] = {}
    if len(items) == 3 and isinstance(items[2], dict):
        extra = items.pop()
        given = extra.pop("crc", None)
        if given is not None and given != zlib.crc32(_text(items).encode()):
            raise ValueError("its check sum does not fit, so it was changed or damaged")
    if len(items) != 2:
        raise ValueError(f"it has {len(items)} values instead of 2")
    return items, extra


def _text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True)


def workload_values(workload: Workload) -> list[Any]:
    """The two values of a workload."""
    saved = save_json(workload.mod, spans=False)
    return [str(workload.shash), base64.b64encode(saved.encode()).decode()]


def workload_module(values: list[Any]) -> IRModule:
    """The program of a workload's values. Raises ValueError for what is none."""
    match values:
        case [str(), str(text)]:
            pass
        case _:
            raise ValueError('a workload is ["<hash>", "<base64 of the module>"]')
    try:
        saved = base64.b64decode(text, validate=True)
    except binascii.Error as e:
        raise ValueError(f"its program is no base64 ({e})") from e
    mod = load_json(saved)
    if not isinstance(mod, IRModule):
        raise ValueError(f"its program is no module but {type(mod).__name__}")
    return mod


def record_values(record: TuningRecord) -> list[Any]:
    """The four values of a record: trace, seconds, target and arguments."""
    return [
        record.trace.as_json(),
        None if record.run_secs is None else [float(s) for s in record.run_secs],
        None if record.target is None else record.target.export(),
        None if record.args_info is None else [a.as_json() for a in record.args_info],
    ]


def record_extra(record: TuningRecord) -> dict[str, Any]:
    """What is known of a record besides its four values."""
    extra: dict[str, Any] = {}
    if record.error:
        extra["error"] = record.error
    if record.program is not None:
        extra["program"] = str(record.program)
    if record.when is not None:
        extra["when"] = record.when
    return extra


def record_of(values: Any, workload: Workload, extra: Mapping[str, Any]) -> TuningRecord:
    """The record of its four values and of what else is known. Raises ValueError for what is none."""
    match values:
        case [[*trace], run_secs, target, args_info]:
            pass
        case _:
            raise ValueError("a record is [trace, run_secs, target, args_info]")
    return TuningRecord(
        Trace.from_json(trace),
        workload,
        _seconds(run_secs),
        None if target is None else Target(target),
        None if args_info is None else [ArgInfo.from_json(a) for a in _list(args_info, "args_info")],
        error=str(extra.get("error", "")),
        program=int(extra["program"]) if "program" in extra else None,
        when=float(extra["when"]) if "when" in extra else None,
    )


def _seconds(value: Any) -> list[float] | None:
    if value is None:
        return None
    seconds = _list(value, "run_secs")
    if not all(type(s) in (int, float) for s in seconds):
        raise ValueError(f"run_secs is a list of seconds, not {seconds!r}")
    return [float(s) for s in seconds]


def _list(value: Any, name: str) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"{name} is a list, not {value!r}")
    return cast("list[Any]", value)
