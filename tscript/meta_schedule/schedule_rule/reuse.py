"""Where copies of what a block reads or writes are kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_NEEDS = ("no", "may", "must")


@dataclass(frozen=True)
class ReuseType:
    """Whether (`req`: "no", "may" or "must") a copy is kept in memory `scope` at tile levels `levels`, from 1 on."""

    req: str = "no"
    levels: tuple[int, ...] = ()
    scope: str = ""

    def __post_init__(self) -> None:
        if self.req not in _NEEDS:
            raise ValueError(f"req is one of {', '.join(map(repr, _NEEDS))}, not {self.req!r}")
        object.__setattr__(self, "levels", tuple(int(x) for x in self.levels))

    def as_dict(self) -> dict[str, Any]:
        """The fields by name."""
        return {"req": self.req, "levels": list(self.levels), "scope": self.scope}

    def require_levels(self, structure: str) -> None:
        """Raise ValueError for a level that a tiling structure does not have."""
        for level in self.levels:
            if not 1 <= level <= len(structure):
                raise ValueError(
                    f"{structure!r} has tile levels 1 to {len(structure)}, so there is no reuse at {level}"
                )


Reuse = ReuseType | Mapping[str, Any] | None


def reuse_of(given: Reuse) -> ReuseType:
    """A reuse from itself, a dict of its fields, or None for none."""
    if given is None:
        return ReuseType()
    if isinstance(given, ReuseType):
        return given
    levels: Sequence[int] = given.get("levels", ())
    return ReuseType(given.get("req", "no"), tuple(levels), given.get("scope", ""))
