"""Targets inside programs: how they print, are saved, and are hashed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tscript.ir.foreign import register_foreign
from tscript.printer.registry import register_printable
from tscript.target.target import Target


def _script(target: Target, tir: Callable[[str], str]) -> str:
    return f"{tir('target')}({_literal(target.export(), tir)})"


def _literal(value: Any, tir: Callable[[str], str]) -> str:
    """A value of a configuration as an expression of the language."""
    if isinstance(value, dict):
        items: list[tuple[str, Any]] = sorted(value.items())  # pyright: ignore[reportUnknownArgumentType]
        return "{" + ", ".join(f"{_quoted(key)}: {_literal(v, tir)}" for key, v in items) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_literal(v, tir) for v in value) + "]"  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, bool):
        return f"{tir('bool')}({value})"
    return _quoted(value) if isinstance(value, str) else str(value)


def _quoted(text: str) -> str:
    body = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in body) + '"'


register_printable(Target, _script)
register_foreign(Target, "Target", Target.to_json, Target, Target.identity)
