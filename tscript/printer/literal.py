"""Numbers and texts as they are written."""

from __future__ import annotations

import math

_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def quoted(text: str) -> str:
    """`text` in double quotes; what cannot be seen is escaped."""
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return '"' + "".join(_ESCAPES.get(c) or (c if c.isprintable() else _code(c)) for c in text) + '"'


def _code(c: str) -> str:
    n = ord(c)
    return f"\\x{n:02x}" if n < 0x100 else f"\\u{n:04x}" if n < 0x10000 else f"\\U{n:08x}"


def float_text(value: float) -> str:
    """Digits that give back exactly `value`; infinities and NaN in quotes."""
    if math.isinf(value) or value != value:
        return '"nan"' if value != value else '"inf"' if value > 0 else '"-inf"'
    return f"{value:.1f}" if value == int(value) else f"{value:.17g}"
