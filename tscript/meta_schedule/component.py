"""What tuning is assembled from: parts that are chosen by a word, or written by users."""

from __future__ import annotations

import difflib
from abc import ABC
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

_T = TypeVar("_T", bound=type)


class Component(ABC):  # noqa: B024 - the roles have the abstract methods
    """A part of tuning with a role (builder, cost model, ...) and words that name its ready-made forms.

    Each role is one abstract class, declared with `class Builder(Component, role="builder")`; `create` turns a
    word into a part of that role. `_initialize_with_tune_context` is called once for a part that works on one
    task, before its first use.
    """

    role: ClassVar[str] = "component"
    _kinds: ClassVar[dict[str, Callable[..., Any]]] = {}

    def __init_subclass__(cls, role: str | None = None, **options: Any) -> None:
        super().__init_subclass__(**options)
        if role is not None:
            cls.role = role
            cls._kinds = {}

    @classmethod
    def register_kind(cls, word: str, make: Callable[..., Any]) -> None:
        """Let `create(word, ...)` give what `make(...)` gives."""
        cls._kinds[word] = make

    @classmethod
    def kinds(cls) -> list[str]:
        """The words that `create` knows."""
        return sorted(cls._kinds)

    @classmethod
    def create(cls, kind: Any, *args: Any, **options: Any) -> Any:
        """A part by its word; what is no text is returned as it is.

        Raises ValueError for a word that names no part of this role, with the words that do.
        """
        if not isinstance(kind, str):
            return kind
        if kind not in cls._kinds:
            close = difflib.get_close_matches(kind, cls._kinds, 1)
            hint = f"did you mean {close[0]!r}?" if close else f"choose one of {', '.join(map(repr, cls.kinds()))}"
            raise ValueError(f"unknown {cls.role} {kind!r}; {hint}")
        return cls._kinds[kind](*args, **options)


def derived_object(cls: _T) -> _T:
    """Mark a class of one's own as a part of tuning (a decorator; optional here, as every subclass is one).

    Raises TypeError for a class that is no subclass of a part, or that leaves methods of it open.

    >>> from tscript import meta_schedule as ms
    >>> @ms.derived_object
    ... class Accept(ms.postproc.PyPostproc):
    ...     def apply(self, sch):
    ...         return True
    >>> Accept().apply(None)
    True
    """
    known: Any = cls
    if Component not in getattr(known, "__mro__", ()):
        name = getattr(known, "__name__", known)
        raise TypeError(
            f"{name!r} is no part of tuning: derive it from a class such as meta_schedule.postproc.PyPostproc"
        )
    missing = sorted(known.__abstractmethods__)
    if missing:
        raise TypeError(f"{cls.__name__} does not define {', '.join(missing)}, which every {known.role} needs")
    return cls
