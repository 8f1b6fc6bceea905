"""How classes of other packages tell the way they print."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tscript.printer.core import ATOM, EXPRESSIONS, Form, Printer


def register_printable(cls: type, write: Callable[[Any, Callable[[str], str]], str]) -> None:
    """Let objects of `cls`, which the printer does not know, print as what `write(object, tir)` gives.

    `write` returns an expression of the language on one line; `tir("target")` is the name `T.target` with the
    prefix in force. Raises ValueError when the class has a way to print already.

    >>> class Tile:
    ...     size = 4
    >>> register_printable(Tile, lambda t, tir: f"{tir('tile')}({t.size})")
    """
    if cls in EXPRESSIONS:
        raise ValueError(f"{cls.__name__} prints in one way already")

    def handler(p: Printer, value: Any) -> Form:
        return ATOM, (write(value, p.tir),)

    EXPRESSIONS[cls] = handler
