"""Statements in messages."""

from __future__ import annotations

from tscript.ir.stmt import LetStmt, Stmt

_DECLARATIONS = (" = T.Buffer(", " = T.int", " = T.uint", " = T.float", " = T.bool", " = T.handle(")


def statement_text(stmt: Stmt) -> str:
    """The first line of a statement, without the declarations that a fragment is printed with."""
    if isinstance(stmt, LetStmt):
        return f"{stmt.var.name} = {stmt.value}"
    lines = [line.strip() for line in str(stmt).split("\n") if line.strip()]
    is_declaration = [any(d in line for d in _DECLARATIONS) and line.endswith(")") for line in lines]
    return next((line for line, skip in zip(lines, is_declaration, strict=True) if not skip), lines[-1])


def with_place(text: str, stmt: Stmt | None) -> str:
    """`text` with the statement it is about, and where that was written."""
    if stmt is None:
        return text
    text += f"\n  in: {statement_text(stmt)}"
    return text if stmt.span is None else f"{text}\n  --> {stmt.span}\n{stmt.span.render()}".rstrip()
