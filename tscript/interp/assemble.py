"""From scopes of lines to code: scopes deeper than CPython's limit on indentation are read apart and put in place."""

from __future__ import annotations

import ast
from types import CodeType
from typing import Any

from tscript.interp.emit import DEEP, Lines, Scope, flatten
from tscript.support.errors import InterpError

MAX_DEPTH = 1500
"""CPython's compiler recurses over nested statements, and must not run out of C stack."""


def assembled(root: Scope, filename: str) -> tuple[str, Lines, CodeType]:
    """The source text of `root`, its lines with their sites, and its code."""
    lines: Lines = []
    apart: list[Scope] = []
    _require_moderate_depth(root)
    flatten(root, 0, lines, apart)
    if not apart:
        source = _text(lines)
        return source, lines, compile(source, filename, "exec")
    bodies: list[list[ast.stmt]] = []
    tree = ast.parse(_text(lines), filename)
    done = 0
    while done < len(apart):
        part: Lines = []
        flatten(apart[done], 0, part, apart)
        lines.append((f"# {DEEP}[{done}]", None))
        body = ast.parse(_text(part), filename)
        ast.increment_lineno(body, len(lines))
        bodies.append(body.body)
        lines += part
        done += 1
    _place(tree, bodies)
    return _text(lines), lines, compile(tree, filename, "exec")


def _require_moderate_depth(root: Scope) -> None:
    level, depth = [root], 0
    while level:
        depth += 1
        level = [item for scope in level for item in scope.lines if isinstance(item, Scope)]
    if depth > MAX_DEPTH:
        raise InterpError("statements of the program are nested too deeply\n  try: split it into several functions")


def _text(lines: Lines) -> str:
    return "\n".join(text for text, _ in lines) + "\n"


def _place(tree: ast.Module, bodies: list[list[ast.stmt]]) -> None:
    """Put bodies where a line stands for them."""
    todo: list[Any] = [tree, *(statement for body in bodies for statement in body)]
    while todo:
        node = todo.pop()
        for name in ("body", "orelse"):
            inner: list[Any] | None = getattr(node, name, None)
            if inner is None:
                continue
            number = _stands_for(inner)
            if number is None:
                todo += inner
            else:
                setattr(node, name, bodies[number])


def _stands_for(body: list[Any]) -> int | None:
    """The number of the scope that `body` stands for, if it does."""
    only = body[0] if len(body) == 1 else None
    if isinstance(only, ast.Expr) and isinstance(only.value, ast.Subscript):
        target, index = only.value.value, only.value.slice
        if isinstance(target, ast.Name) and target.id == DEEP and isinstance(index, ast.Constant):
            return int(index.value)  # pyright: ignore[reportArgumentType]
    return None
