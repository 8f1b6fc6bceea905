"""Objects with no script form: the text refers to them by number, and may carry them as JSON."""

from __future__ import annotations

from typing import Any

import numpy as np

from tscript.ir.base import Node
from tscript.ir.json_io import save_json


class Metadata:
    """What a printed text refers to as `metadata["key"][i]`."""

    def __init__(self) -> None:
        self.entries: dict[str, list[Any]] = {}

    def add(self, value: Any) -> str:
        """The text that stands for `value`; the same object gets the same number."""
        key = _key(value)
        kept = self.entries.setdefault(key, [])
        for i, other in enumerate(kept):
            if other is value or (isinstance(value, str) and other == value):
                return f'metadata["{key}"][{i}]'
        kept.append(value)
        return f'metadata["{key}"][{len(kept) - 1}]'

    def to_json(self) -> str:
        """All entries as a mapping of tuples, which `tscript.ir.load_json` reads.

        Raises TypeError for a value of a class that has no JSON form.
        """
        return save_json({key: tuple(values) for key, values in sorted(self.entries.items())}, spans=False)


def _key(value: Any) -> str:
    if isinstance(value, str):
        return "runtime.String"
    if isinstance(value, np.ndarray):
        return "runtime.NDArray"
    return f"{'tir' if isinstance(value, Node) else type(value).__module__.split('.')[0]}.{type(value).__name__}"
