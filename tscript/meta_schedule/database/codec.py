"""Lines of JSON with check sums.

A workload is `["<structural hash>", "<base64 of the saved module>"]`, a record `[workload, [trace, run_secs, target,
args_info]]` with the number of its workload. Both may end in one more value, a dict of what else is known: `error`, why
a candidate failed, `program`, the hash of what was measured, `when` that was, and `crc`, the CRC-32 of the text of
everything before.
"""

from __future__ import annotations

import json
import zlib
from typing import Any, cast


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
