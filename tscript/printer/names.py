"""Names that are taken, and how a hint becomes a name."""

from __future__ import annotations

import keyword
import re

_FOREIGN = re.compile(r"[^0-9A-Za-z_]")


def legal_name(hint: str) -> str:
    """`hint` itself if a function may be called so, else a name made from it."""
    if hint.isidentifier() and not keyword.iskeyword(hint):
        return hint
    base = _FOREIGN.sub("_", hint)
    return f"_{base}" if not base or base[0].isdigit() else f"{base}_" if keyword.iskeyword(base) else base


class Names:
    """The names in use. What Python or the text itself needs is taken from the start."""

    def __init__(self, reserved: tuple[str, ...]) -> None:
        self._taken = {*keyword.kwlist, "range", *reserved}

    def take(self, hint: str) -> str:
        """A free name made from `hint`: characters that no name may have become `_`, then `_1`, `_2`, ... is tried."""
        base = _FOREIGN.sub("_", hint)
        if base[:1].isdigit():
            base = "_" + base
        name, count = base, 0
        while name in self._taken:
            count += 1
            name = f"{base}_{count}"
        self._taken.add(name)
        return name

    def release(self, name: str) -> None:
        """Make `name` free again."""
        self._taken.discard(name)
