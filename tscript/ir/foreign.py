"""Values of other packages inside programs: how they are saved, loaded and hashed.

An attribute may hold any object, but only numbers, texts and nodes are known here. A package that puts objects
of a class of its own into programs registers the class. Comparison uses the `==` of the class.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class ForeignClass:
    """A registered class: its `name` in files; `save` and `load`; `identity`, a text that equal objects share."""

    name: str
    save: Callable[[Any], str]
    load: Callable[[str], Any]
    identity: Callable[[Any], str]


_BY_CLASS: Final[dict[type, ForeignClass]] = {}
_BY_NAME: Final[dict[str, ForeignClass]] = {}


def register_foreign(
    cls: type, name: str, save: Callable[[Any], str], load: Callable[[str], Any], identity: Callable[[Any], str]
) -> None:
    """Let objects of `cls` stand in programs that are saved and hashed.

    `load(save(x))` equals `x`, and equal objects have one `identity` text. Raises ValueError when the class or
    the name is registered already.

    >>> class Tile:
    ...     def __init__(self, size):
    ...         self.size = size
    >>> register_foreign(Tile, "example.Tile", lambda t: str(t.size), lambda s: Tile(int(s)), lambda t: str(t.size))
    """
    if cls in _BY_CLASS or name in _BY_NAME:
        raise ValueError(f"{cls.__name__} or the name {name!r} is registered already")
    _BY_CLASS[cls] = _BY_NAME[name] = ForeignClass(name, save, load, identity)


def find_foreign(value: object) -> ForeignClass | None:
    """What is registered for the class of `value`; None for nothing."""
    return _BY_CLASS.get(type(value))


def require_foreign(name: object) -> ForeignClass:
    """What is registered under `name`. Raises ValueError for nothing."""
    found = _BY_NAME.get(name) if isinstance(name, str) else None
    if found is None:
        raise ValueError(f"objects of the class {name!r} cannot be loaded; known are: {', '.join(_BY_NAME) or 'none'}")
    return found


__all__ = ["ForeignClass", "find_foreign", "register_foreign", "require_foreign"]
