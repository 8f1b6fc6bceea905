"""Statements of kernel source: each turns into statements of the IR, or into names."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable
from typing import Any, Final, NoReturn

import numpy as np

from tscript.ir.buffer import Buffer
from tscript.ir.construct import const, convert
from tscript.ir.expr import Call, Op, PrimExpr, StringImm, Var
from tscript.ir.stmt import BufferRegion, BufferStore, Evaluate, Stmt
from tscript.parser.annotation import eval_annotation
from tscript.parser.arguments import refuse_arguments
from tscript.parser.assignment import Assigner
from tscript.parser.blocks import InitFrame
from tscript.parser.builder import Frame
from tscript.parser.control import (
    BranchFrame,
    IfFrame,
    annotated_type,
    assert_,
    region_as_vector,
    while_,
)
from tscript.parser.diagnostics import at_span, fail, full_traceback
from tscript.parser.expression import binary
from tscript.parser.loops import ForFrame, serial
from tscript.support.errors import ScriptError
from tscript.support.span import Span
from tscript.support.wording import kind_of

LOOPS: Final = "range, T.serial, T.parallel, T.vectorized, T.unroll, T.thread_binding, T.grid"

_REFUSED: Final[dict[type[ast.stmt], tuple[str, str]]] = {
    ast.Break: ("`break`", "guard the rest of the body with `if`, or use `while` with a condition"),
    ast.Continue: ("`continue`", "put the rest of the body under `if`"),
    ast.Try: ("`try`", "a kernel raises no exceptions; test for the case with `if`"),
    ast.Raise: ("`raise`", 'use `assert condition, "message"`'),
    ast.Import: ("`import`", "import outside the kernel"),
    ast.ImportFrom: ("`import`", "import outside the kernel"),
    ast.Global: ("`global`", "names of the module can be read without it, and cannot be assigned"),
    ast.Delete: ("`del`", "names end with their scope"),
    ast.Match: ("`match`", "use `if` and `elif`"),
    ast.ClassDef: ("a class", "define it outside the kernel"),
    ast.AsyncFor: ("`async for`", "use `for`"),
    ast.AsyncWith: ("`async with`", "use `with`"),
    ast.AsyncFunctionDef: ("`async def`", "use `def`"),
}

NestedDefinition = Callable[["Reader", ast.FunctionDef, dict[str, Any]], Any]
NESTED_DEFINITIONS: Final[dict[Any, NestedDefinition]] = {}
"""What a decorator of a `def` inside a kernel makes of it. Other modules of this package fill it."""


class Reader(Assigner):
    """Reads the statements of one function or macro into the builder's innermost frame."""

    __slots__ = ()

    def read(self, body: list[ast.stmt]) -> None:
        """Read statements in order."""
        for stmt in body:
            self.read_one(stmt)

    def read_one(self, stmt: ast.stmt) -> None:
        """Read one statement. Errors without a position get the one of the statement's first line."""
        span = self.builder.span = self._header_span(stmt)
        try:
            _TABLE.get(type(stmt), Reader.refuse)(self, stmt)
        except ScriptError as e:
            if e.span is None:
                e.span = span
            raise
        except Exception as e:
            raise at_span(e, span) from (e if full_traceback() else None)

    def _header_span(self, stmt: ast.stmt) -> Span:
        last = _HEADER.get(type(stmt))
        return self.source.span(stmt, None if last is None else last(stmt))

    # -- simple statements ----------------------------------------------------------------------

    def visit_Assign(self, node: ast.Assign) -> None:
        if len(node.targets) != 1:
            fail(
                "one assignment binds one target, and `a = b = c` has two",
                None,
                "write one assignment on each line",
            )
        value = self.evaluator.eval_value(node.value)
        self.assign(node.targets[0], value, node.value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if not isinstance(node.target, ast.Name):
            fail("only a name can be annotated", self.source.span(node.target))
        annotation = eval_annotation(self.evaluator, node.annotation)
        try:
            kind = annotated_type(annotation)
        except (TypeError, ValueError) as e:
            raise at_span(e, self.source.span(node.annotation)) from None
        var = Var(node.target.id, kind)
        if node.value is None:
            self.bind(node.target.id, var, node.target)
            return
        value = self.evaluator.eval_value(node.value)
        try:
            if isinstance(value, (bool, int, float)) and not var.dtype.is_handle:
                value = const(value, var.dtype)
            self._let(node.target.id, value, node.target, var)
        except (TypeError, ValueError) as e:
            raise at_span(e, self.source.span(node.value)) from None

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        target = node.target
        if isinstance(target, ast.Subscript):
            owner, key = self.evaluator.eval(target.value), self.evaluator.key(target.slice)
            if not isinstance(owner, Buffer):
                fail("only elements of buffers can be assigned", self.source.span(target))
            try:
                old: Any = owner[key]
            except Exception as e:
                raise at_span(e, self.source.span(target)) from (e if full_traceback() else None)
            value = binary(type(node.op), old, self.evaluator.eval(node.value))
            self._store_at(target, owner, key, value, node)
        elif isinstance(target, ast.Name):
            load = ast.copy_location(ast.Name(target.id, ast.Load()), target)
            old = self.evaluator.eval(load)
            self.assign(target, binary(type(node.op), old, self.evaluator.eval(node.value)))
        else:
            fail("this cannot be assigned", self.source.span(target), "assign to a name or to an element of a buffer")

    def visit_Expr(self, node: ast.Expr) -> None:
        evaluator = self.evaluator
        evaluator.allowed_call = node.value
        value = evaluator.eval(node.value)
        evaluator.allowed_call = None
        if value is None or isinstance(value, str) or value is Ellipsis:
            return
        if isinstance(value, Frame):
            if isinstance(value, ForFrame):
                fail("a loop is written `for i in ...:`", None, "put the loop in a for statement")
            if isinstance(value, InitFrame):
                fail("T.init alone would take the rest of the block", None, "write `with T.init():`")
            value.open(self.builder)
        elif isinstance(value, BufferStore):
            self.builder.add(value.replace(span=self.builder.span))
        elif isinstance(value, Stmt):
            self.builder.add(value)
        elif isinstance(value, BufferRegion):
            self.builder.add(Evaluate(region_as_vector(value), span=self.builder.span))
        elif isinstance(value, PrimExpr):
            self.builder.add(Evaluate(value, span=self.builder.span))
        elif isinstance(value, (bool, int)):
            self.builder.add(Evaluate(const(value), span=self.builder.span))
        else:
            fail(
                f"{kind_of(value)} is no statement",
                self.source.span(node.value),
                "assign it to a name, or remove the line",
            )

    def visit_Assert(self, node: ast.Assert) -> None:
        if node.msg is None:
            fail("an assertion needs a message", None, 'write `assert condition, "message"`')
        test, message = self.evaluator.eval(node.test), self.evaluator.eval(node.msg)
        if isinstance(test, (bool, np.bool_)):
            if not test:
                fail(f"the assertion fails while the kernel is read: {message}", self.source.span(node.test))
            return
        if not isinstance(test, PrimExpr):
            fail(f"an assertion takes a bool, not {kind_of(test)}", self.source.span(node.test))
        try:
            frame = assert_(test, message)
        except TypeError as e:
            raise at_span(e, self.source.span(node.test)) from None
        frame.open(self.builder)

    def visit_Return(self, node: ast.Return) -> None:
        if self.is_macro:
            fail("a macro has no value to return", None, "write the result to a buffer")
        value = None if node.value is None else self.evaluator.eval_value(node.value)
        if value is None:
            fail("a kernel cannot return nothing early", None, "guard the rest of the body with `if`")
        if not isinstance(value, (PrimExpr, bool, int, float, np.generic)) or isinstance(value, StringImm):
            fail(f"a kernel returns a number or a pointer, not {kind_of(value)}", self.source.span(node.value))
        expr = convert(value)
        self.builder.add(Evaluate(Call(expr.dtype, Op.get("tir.ret"), (expr,)), span=self.builder.span))

    def visit_Pass(self, node: ast.stmt) -> None:
        pass

    visit_Nonlocal = visit_Pass

    # -- compound statements --------------------------------------------------------------------

    def _loop_frame(self, node: ast.expr) -> Any:
        evaluator = self.evaluator
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range":
            if evaluator.eval(node.func) is builtins.range:
                args, kwargs = evaluator.call_arguments(node, serial)
                if len(args) > 2:
                    self._refuse_step(node, f"too many positional arguments ({len(args)}) for T.serial")
                try:
                    return serial(*args, **kwargs)
                except Exception as e:
                    span = self.source.span(node)
                    try:
                        refuse_arguments(e, "range", serial, args, kwargs)
                    except ScriptError as refused:
                        raise at_span(refused, span) from None
                    raise at_span(e, span) from (e if full_traceback() else None)
        value = evaluator.eval(node)
        if not isinstance(value, range):
            return value
        if value.step != 1:
            self._refuse_step(node, f"the range has the step {value.step}")
        return serial(value.stop) if value.start == 0 else serial(value.start, value.stop)

    def _refuse_step(self, node: ast.expr, why: str) -> NoReturn:
        fail(
            f"a loop has no step: {why}",
            self.source.span(node),
            "run over the number of steps and compute the index, as in `i = T.meta_var(start + k * step)`",
        )

    def visit_For(self, node: ast.For) -> None:
        if node.orelse:
            fail("a loop has no `else`", self.source.span(node.orelse[0]), "write the statements after the loop")
        span = self.builder.span
        frame = self._loop_frame(node.iter)
        if not isinstance(frame, ForFrame):
            fail(
                f"a `for` runs over one of {LOOPS}",
                self.source.span(node.iter),
                "to repeat statements for the values of a Python list, use a macro or write them out",
            )
        self.builder.span = span
        self.scope.push("loop")
        self._bind_targets(node.target, frame.open(self.builder))
        self.read(node.body)
        self.builder.close(frame)
        self.scope.pop()

    def visit_While(self, node: ast.While) -> None:
        if node.orelse:
            fail("a loop has no `else`", self.source.span(node.orelse[0]), "write the statements after the loop")
        span = self.builder.span
        frame = self._with_condition(node.test, while_)
        self.builder.span = span
        self._body(frame, node.body, "loop")

    def _with_condition(self, test: ast.expr, make: Callable[[Any], Frame]) -> Frame:
        value = self.evaluator.eval(test)
        if not isinstance(value, (PrimExpr, bool, BufferRegion)):
            fail(
                f"a condition is a bool, not {kind_of(value)}",
                self.source.span(test),
                "compare the value, as in `x != 0`",
            )
        try:
            return make(value)
        except TypeError as e:
            raise at_span(e, self.source.span(test)) from None

    def _body(self, frame: Frame, body: list[ast.stmt], what: str) -> None:
        self.scope.push(what)
        frame.open(self.builder)
        self.read(body)
        self.builder.close(frame)
        self.scope.pop()

    def visit_If(self, node: ast.If) -> None:
        span = self.builder.span
        test = self.evaluator.eval(node.test)
        if isinstance(test, (bool, np.bool_)):
            # Known while reading: only one side exists, and names bound there stay, as in Python.
            self.read(node.body if test else node.orelse)
            return
        if not isinstance(test, (PrimExpr, BufferRegion)):
            fail(
                f"a condition is a bool, not {kind_of(test)}",
                self.source.span(node.test),
                "compare the value, as in `x is not None` or `n > 0`",
            )
        try:
            frame = IfFrame(test if isinstance(test, PrimExpr) else region_as_vector(test))
        except TypeError as e:
            raise at_span(e, self.source.span(node.test)) from None
        self.builder.span = span
        frame.open(self.builder)
        self._body(BranchFrame("then_case"), node.body, "branch")
        if node.orelse:
            self.builder.span = span
            self._body(BranchFrame("else_case"), node.orelse, "branch")
        self.builder.close(frame)

    def visit_With(self, node: ast.With) -> None:
        span = self.builder.span
        self.scope.push("with block")
        first: Frame | None = None
        for item in node.items:
            frame = self.evaluator.eval(item.context_expr)
            if not isinstance(frame, Frame) or isinstance(frame, ForFrame):
                fail(
                    "`with` takes a construct of the kernel language, and this is none",
                    self.source.span(item.context_expr),
                    "use T.block, T.init, T.allocate, T.attr, T.launch_thread or another such construct",
                )
            self.builder.span = span
            try:
                value = frame.open(self.builder)
            except ScriptError as e:
                if e.span is None:
                    e.span = self.source.span(item.context_expr)
                raise
            first = frame if first is None else first
            if item.optional_vars is not None:
                if value is None:
                    fail(
                        f"{frame.what} binds nothing, so it takes no `as`",
                        self.source.span(item.optional_vars),
                        "bind axes with vi, vj = T.axis.remap(...) inside the block",
                    )
                self._bind_targets(item.optional_vars, value)
        self.read(node.body)
        assert first is not None
        self.builder.close(first)
        self.scope.pop()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        for decorator in node.decorator_list:
            call = decorator.func if isinstance(decorator, ast.Call) else decorator
            made = self.evaluator.eval(call)
            define = NESTED_DEFINITIONS.get(made) if callable(made) else None
            if define is not None and len(node.decorator_list) == 1:
                options = (
                    {k.arg: self.evaluator.eval(k.value) for k in decorator.keywords if k.arg}
                    if isinstance(decorator, ast.Call)
                    else {}
                )
                self.bind(node.name, define(self, node, options), node, "alias")
                return
        fail(
            f"`{node.name}` is defined inside a kernel without a decorator of the kernel language",
            self.source.name_span(node),
            "decorate it with @T.macro, or define it outside the kernel",
        )

    def refuse(self, node: ast.stmt) -> None:
        """Raise for a statement that kernels do not have."""
        name = type(node).__name__
        what, hint = _REFUSED.get(type(node), (f"a {name} statement", None))
        fail(f"{what} is no part of the kernel language", self.source.span(node), hint)


_TABLE: Final[dict[type[ast.stmt], Callable[[Reader, Any], None]]] = {
    getattr(ast, name[6:]): method for name, method in vars(Reader).items() if name.startswith("visit_")
}
_HEADER: Final[dict[type[ast.stmt], Callable[[Any], ast.AST]]] = {
    ast.For: lambda s: s.iter,
    ast.While: lambda s: s.test,
    ast.If: lambda s: s.test,
    ast.With: lambda s: s.items[-1].optional_vars or s.items[-1].context_expr,
    ast.FunctionDef: lambda s: s.args.args[-1] if s.args.args else s.decorator_list[0] if s.decorator_list else s,
}
