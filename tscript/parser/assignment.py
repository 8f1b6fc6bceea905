"""Assignment in kernel source: what a name or an element on the left gets from a value on the right."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np

from tscript.ir.base import Node
from tscript.ir.buffer import Buffer
from tscript.ir.expr import IterVar, PrimExpr, StringImm, Var
from tscript.ir.stmt import BufferRegion
from tscript.parser.blocks import name_buffer
from tscript.parser.builder import Builder, Frame, rename
from tscript.parser.control import LetFrame, MetaVar, buffer_store, let_stmt, region_as_vector, store_indices
from tscript.parser.diagnostics import at_span, fail, full_traceback
from tscript.parser.expression import Evaluator
from tscript.parser.loops import ForFrame
from tscript.parser.scope import Kind, Scope
from tscript.parser.source import Source
from tscript.support.errors import ScriptError
from tscript.support.wording import kind_of


class Assigner:
    """Binds names of one function or macro and stores to buffers, in the builder's innermost frame.

    `known` holds the variables that have a place in the program already; `is_macro` says whether it is a
    macro that is read, which cannot return.
    """

    __slots__ = ("builder", "evaluator", "is_macro", "known", "scope", "source")

    def __init__(
        self,
        source: Source,
        scope: Scope,
        builder: Builder,
        known: dict[Var, None] | None = None,
        is_macro: bool = False,
    ) -> None:
        self.source = source
        self.scope = scope
        self.builder = builder
        self.evaluator = Evaluator(source, scope)
        self.known: dict[Var, None] = {} if known is None else known
        self.is_macro = is_macro

    def bind(self, name: str, value: Any, node: ast.AST, kind: Kind = "definition") -> Any:
        """Give `value` a name; a variable or buffer without a name takes it. Returns the value."""
        if isinstance(value, (list, tuple)):
            value = [self._name_only(f"{name}_{i}", v) for i, v in enumerate(value)]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        else:
            self._name_only(name, value)
        try:
            self.scope.bind(name, value, kind, self.source.span(node))
        except ScriptError as e:
            e.span = self.source.span(node)
            raise
        return value

    def _name_only(self, name: str, value: Any) -> Any:
        if isinstance(value, Buffer):
            name_buffer(value, name)
        elif isinstance(value, Var):
            if not value.name:
                rename(value, name)
            self.known[value] = None
        elif isinstance(value, IterVar):
            self._name_only(name, value.var)
        return value

    def _bind_targets(self, target: ast.expr, value: Any) -> None:
        """Bind what a `for`, a `with ... as` or a frame gives."""
        if isinstance(target, ast.Name):
            self.bind(target.id, value, target)
        elif isinstance(target, (ast.Tuple, ast.List)):
            for t, v in self._unpack(target, value):
                self._bind_targets(t, v)
        else:
            fail("only names can be bound here", self.source.span(target))

    def _unpack(self, target: ast.Tuple | ast.List, value: Any) -> list[tuple[ast.expr, Any]]:
        if isinstance(value, MetaVar):
            value = value.parts()
        if isinstance(value, Node) and len(target.elts) == 1:
            value = [value]
        if isinstance(value, Node) or not hasattr(value, "__iter__"):
            fail(
                f"{len(target.elts)} names are to be bound, but there is one value",
                self.source.span(target),
                "write one name",
            )
        values = list(value)
        star = next((i for i, t in enumerate(target.elts) if isinstance(t, ast.Starred)), None)
        if star is not None and len(values) >= len(target.elts) - 1:
            after = len(target.elts) - star - 1
            middle = values[star : len(values) - after]
            values = [*values[:star], middle, *values[len(values) - after :]]
        if len(values) != len(target.elts):
            fail(f"{len(target.elts)} names are to be bound to {len(values)} values", self.source.span(target))
        return [(t.value if isinstance(t, ast.Starred) else t, v) for t, v in zip(target.elts, values, strict=True)]

    def _let(self, name: str, value: Any, node: ast.AST, var: Var | None = None) -> Var:
        frame: LetFrame = let_stmt(value, var=var)
        # The name is checked before the frame is opened, so that a refused one leaves nothing behind.
        made = frame.var
        if not made.name:
            rename(made, name)
        self.bind(name, made, node, "let")
        frame.open(self.builder)
        return made

    def assign(self, target: ast.expr, value: Any, origin: ast.AST | None = None) -> None:
        """`target = value`, by the kind of the target and of the value, which stands at `origin`."""
        if isinstance(target, ast.Subscript):
            self._store(target, value, target if origin is None else origin)
        elif isinstance(target, (ast.Tuple, ast.List)):
            if any(isinstance(t, ast.Subscript) for t in target.elts):
                fail(
                    "elements of buffers are assigned one at a time",
                    self.source.span(target),
                    "bind the values to names first, then write one line for each element",
                )
            if isinstance(value, Frame):
                value = self._opened(value, origin)
            for t, v in self._unpack(target, value):
                self.assign(t, v)
        elif isinstance(target, ast.Name):
            self._assign_name(target.id, value, target, origin)
        else:
            fail(
                f"`{ast.unparse(target)}` cannot be assigned",
                self.source.span(target),
                "assign to a name or to an element of a buffer",
            )

    def _opened(self, frame: Frame, origin: ast.AST | None) -> Any:
        """What a construct binds that is opened by an assignment; `origin` is the right side."""
        try:
            return frame.open(self.builder)
        except ScriptError as e:
            if e.span is None and origin is not None:
                e.span = self.source.span(origin)
            raise

    def _assign_name(self, name: str, value: Any, node: ast.AST, origin: ast.AST | None) -> None:
        if isinstance(value, MetaVar):
            # No variable of the program comes from it, so nothing takes this name either.
            try:
                self.scope.bind(name, value.value, "alias", self.source.span(node))
            except ScriptError as e:
                e.span = self.source.span(node)
                raise
        elif isinstance(value, Frame):
            if isinstance(value, ForFrame):
                fail("a loop is written `for i in ...:`", None, "put the loop in a for statement")
            self.bind(name, self._opened(value, origin), node)
        elif isinstance(value, (Buffer, IterVar)):
            self.bind(name, value, node)
        elif isinstance(value, Var) and value not in self.known:
            self.bind(name, value, node)
        elif isinstance(value, (list, tuple)):
            self.bind(name, [self._element(f"{name}_{i}", v, node) for i, v in enumerate(value)], node)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        elif isinstance(value, (PrimExpr, bool, int, float, np.generic)) and not isinstance(value, StringImm):
            self._let(name, value, node)
        elif isinstance(value, BufferRegion):
            self._let(name, region_as_vector(value), node)
        else:
            self.bind(name, value, node, "alias")

    def _element(self, name: str, value: Any, node: ast.AST) -> Any:
        """An element of a list that is assigned: handled as if it were assigned to `name`, without binding it."""
        if isinstance(value, MetaVar):
            return value.value
        if isinstance(value, Frame):
            return self._name_only(name, value.open(self.builder))
        if isinstance(value, (list, tuple)):
            return [self._element(f"{name}_{i}", v, node) for i, v in enumerate(value)]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        is_fresh = isinstance(value, Var) and value not in self.known
        if not is_fresh and isinstance(value, (PrimExpr, bool, int, float)) and not isinstance(value, StringImm):
            frame = let_stmt(value)
            rename(frame.var, name)
            self.known[frame.var] = None
            return frame.open(self.builder)
        return self._name_only(name, value)

    def _store(self, target: ast.Subscript, value: Any, origin: ast.AST) -> None:
        buffer = self.evaluator.eval(target.value)
        if not isinstance(buffer, Buffer):
            fail(
                f"only elements of buffers can be assigned; `{ast.unparse(target.value)}` is {kind_of(buffer)}",
                self.source.span(target),
                "make a buffer on a handle with T.match_buffer(...), or on a pointer with T.decl_buffer(..., data=...)"
                if isinstance(buffer, Var)
                else None,
            )
        self._store_at(target, buffer, self.evaluator.key(target.slice), value, origin)

    def _store_at(self, target: ast.Subscript, buffer: Buffer, key: Any, value: Any, origin: ast.AST) -> None:
        """`buffer[key] = value`; `origin` is where the value stands, when it does not fit."""
        try:
            indices = store_indices(buffer, key)
        except Exception as e:
            raise at_span(e, self.source.span(target)) from (e if full_traceback() else None)
        try:
            buffer_store(buffer, value, indices)
        except Exception as e:
            raise at_span(e, self.source.span(origin)) from (e if full_traceback() else None)
