"""Functions known by a global name, so that text (a block's annotation, a setting) can refer to them."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from threading import Lock
from typing import Any, TypeVar, overload

_F = TypeVar("_F", bound=Callable[..., Any])
_functions: dict[str, Callable[..., Any]] = {}
_lock = Lock()


@overload
def register_func(func_name: str, f: None = None, override: bool = False) -> Callable[[_F], _F]: ...
@overload
def register_func(func_name: str, f: _F, override: bool = False) -> _F: ...
@overload
def register_func(func_name: _F, f: None = None, override: bool = False) -> _F: ...
def register_func(
    func_name: str | Callable[..., Any], f: Callable[..., Any] | None = None, override: bool = False
) -> Any:
    """Make a function known by a name: as a decorator with a name, with the name of the function itself, or by a call.

    Raises ValueError for a name that is taken, unless `override` replaces what has it, TypeError for what cannot
    be called.

    >>> @register_func("example.add_one")
    ... def add_one(x):
    ...     return x + 1
    >>> get_global_func("example.add_one")(2)
    3
    """
    if not isinstance(func_name, str):
        return _register(getattr(func_name, "__name__", ""), func_name, override)
    if f is not None:
        return _register(func_name, f, override)

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        return _register(func_name, function, override)

    return register


def _register(name: str, function: Any, override: bool) -> Any:
    if not callable(function):
        raise TypeError(f"only a function can be registered as {name!r}, not {function!r}")
    if not name:
        raise ValueError("a registered function needs a name")
    with _lock:
        if name in _functions and not override:
            raise ValueError(f"the name {name!r} is taken by a registered function; pass override=True to replace it")
        _functions[name] = function
    return function


@overload
def get_global_func(name: str) -> Callable[..., Any]: ...
@overload
def get_global_func(name: str, allow_missing: bool) -> Callable[..., Any] | None: ...
def get_global_func(name: str, allow_missing: bool = False) -> Callable[..., Any] | None:
    """The function of a name. Raises ValueError for an unknown name; `allow_missing` gives None instead."""
    found = _functions.get(name)
    if found is None and not allow_missing:
        close = difflib.get_close_matches(name, _functions, 1)
        raise ValueError(f"no function is registered as {name!r}" + (f"; did you mean {close[0]!r}?" if close else ""))
    return found


def list_global_func_names() -> list[str]:
    """All registered names, in order."""
    return sorted(_functions)


def remove_global_func(name: str) -> None:
    """Forget the function of a name. Raises ValueError for an unknown name."""
    with _lock:
        if _functions.pop(name, None) is None:
            raise ValueError(f"no function is registered as {name!r}")
