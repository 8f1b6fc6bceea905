"""`I.ir_module`: from a decorated class to an IRModule."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from types import FrameType
from typing import Any, overload

from tscript.ir.base import FrozenDict
from tscript.ir.construct import convert
from tscript.ir.dtype import DataType
from tscript.ir.expr import Call, GlobalVar
from tscript.ir.function import IRModule, PrimFunc
from tscript.parser.builder import Builder
from tscript.parser.checks import require_well_formed
from tscript.parser.diagnostics import close_matches, fail
from tscript.parser.expression import Evaluator
from tscript.parser.function import (
    MODULE_DECORATORS,
    captured_names,
    decorator_options,
    local_names,
    prim_func,
    read_function,
    result_dtype,
    return_type,
    shown,
)
from tscript.parser.macros import Macro, define_nested, macro
from tscript.parser.scope import Scope
from tscript.parser.source import Source, constant_codes, is_docstring, methods_of, source_of
from tscript.parser.statement import Reader
from tscript.support.errors import ScriptError
from tscript.support.wording import kind_of


class FunctionRef:
    """A function of the module that is being read: calling it makes a call expression."""

    __slots__ = ("dtype", "global_var")

    def __init__(self, global_var: GlobalVar, dtype: DataType) -> None:
        self.global_var = global_var
        self.dtype = dtype

    def __call__(self, *args: Any) -> Call:
        """The call. Arguments are expressions or numbers; TypeError for a buffer."""
        from_args: list[Any] = []
        for i, arg in enumerate(args):
            try:
                from_args.append(convert(arg))
            except TypeError as e:
                raise TypeError(
                    f"argument {i} of {self.global_var.name_hint} is {kind_of(arg)}; "
                    "pass expressions or numbers, and for a buffer its data, as in A.data"
                ) from e
        return Call(self.dtype, self.global_var, tuple(from_args))


class ModuleDraft:
    """A module being read: what its class name means inside it, and what it has so far."""

    __slots__ = ("attrs", "functions", "global_infos", "references")

    def __init__(self) -> None:
        self.functions: dict[GlobalVar, PrimFunc | None] = {}
        self.references: dict[str, FunctionRef] = {}
        self.attrs: dict[str, Any] = {}
        self.global_infos: dict[str, Any] = {}

    def declare(self, name: str, dtype: DataType) -> GlobalVar:
        """Reserve a name for a function. ScriptError if it is taken."""
        if name in self.references:
            fail(f"the function `{name}` is defined twice in the module", None, "rename one of them")
        var = GlobalVar(name)
        self.references[name] = FunctionRef(var, dtype)
        self.functions[var] = None
        return var


class _ClassName:
    """The class's own name, inside it: `M.g` is the function `g`."""

    __slots__ = ("_draft",)

    def __init__(self, draft: ModuleDraft) -> None:
        self._draft = draft

    def __getattr__(self, name: str) -> FunctionRef:
        if name.startswith("__"):
            raise AttributeError(name)
        found = self._draft.references.get(name)
        if found is None:
            known = list(self._draft.references)
            hint = close_matches(name, known) or f"it has: {', '.join(known) or 'no functions'}"
            fail(f"the module has no function `{name}`", None, hint)
        return found


_DRAFT: ContextVar[ModuleDraft | None] = ContextVar("tscript_module", default=None)


def find_draft() -> ModuleDraft | None:
    """The module being read, or None."""
    return _DRAFT.get()


class _ModuleReader:
    """Reads the body of a class in three rounds: other statements, headers of functions, their bodies."""

    def __init__(self, source: Source, node: ast.ClassDef, captured: Sequence[Mapping[str, Any]]) -> None:
        self.source = source
        self.node = node
        self.draft = ModuleDraft()
        self.names: dict[str, Any] = {node.name: _ClassName(self.draft)}
        self.captured = (self.names, *captured)
        self.pending: list[tuple[ast.FunctionDef, GlobalVar, dict[str, bool]]] = []

    def read(self) -> IRModule:
        """The module."""
        token = _DRAFT.set(self.draft)
        try:
            for stmt in self.node.body:
                if not isinstance(stmt, ast.FunctionDef):
                    self._other(stmt)
            for stmt in self.node.body:
                if isinstance(stmt, ast.FunctionDef):
                    self._declare(stmt)
        finally:
            _DRAFT.reset(token)
        hints = {name: f"write `{self.node.name}.{name}`" for name in self.draft.references}
        for node, var, options in self.pending:
            scope = Scope(self.captured, hints=hints)
            self.draft.functions[var] = read_function(self.source, node, scope, options["private"])
        functions = {v: f for v, f in self.draft.functions.items() if f is not None}
        return IRModule(functions, FrozenDict(self.draft.attrs), FrozenDict(self.draft.global_infos))

    def _evaluator(self) -> Evaluator:
        return Evaluator(self.source, Scope(self.captured))

    def _other(self, stmt: ast.stmt) -> None:
        if isinstance(stmt, ast.Expr):
            if not is_docstring(stmt):
                self._evaluator().eval(stmt.value)
        elif isinstance(stmt, ast.Assign) and len(stmt.targets) == 1 and isinstance(stmt.targets[0], ast.Name):
            self._value(stmt.targets[0], self._evaluator().eval(stmt.value))
        elif not isinstance(stmt, ast.Pass):
            fail(
                "a module holds functions, `name = value`, I.module_attrs and I.module_global_infos",
                self.source.span(stmt),
                "move this out of the class",
            )

    def _value(self, target: ast.Name, value: Any) -> None:
        if isinstance(value, PrimFunc):
            try:
                var = self.draft.declare(target.id, result_dtype(value.ret_type))
            except ScriptError as e:
                e.span = self.source.span(target)
                raise
            self.draft.functions[var] = value
        else:
            self.names[target.id] = value

    def _declare(self, node: ast.FunctionDef) -> None:
        evaluator = self._evaluator()
        for decorator in node.decorator_list:
            target = decorator.func if isinstance(decorator, ast.Call) else decorator
            kind = evaluator.eval(target)
            if kind in _DECLARE:
                try:
                    _DECLARE[kind](self, node, decorator, evaluator)
                except ScriptError as e:
                    e.span = e.span or self.source.name_span(node)
                    raise
                return
        fail(
            f"`{node.name}` has no decorator that tells what it is",
            self.source.name_span(node),
            "decorate it with @T.prim_func",
        )

    def declare_function(self, node: ast.FunctionDef, decorator: ast.expr, evaluator: Evaluator) -> None:
        """Reserve the name, and note the type of the result, of a kernel."""
        var = self.draft.declare(node.name, result_dtype(return_type(evaluator, node)))
        self.pending.append((node, var, decorator_options(self.source, decorator)))

    def declare_macro(self, node: ast.FunctionDef, decorator: ast.expr, evaluator: Evaluator) -> None:
        """Make a macro that all functions of the module see."""
        reader = Reader(self.source, Scope(self.captured), Builder())
        keywords = decorator.keywords if isinstance(decorator, ast.Call) else []
        options = {k.arg: evaluator.eval(k.value) for k in keywords if k.arg}
        self.names[node.name] = define_nested(reader, node, options)


_DECLARE: dict[Any, Callable[[_ModuleReader, ast.FunctionDef, ast.expr, Evaluator], None]] = {
    prim_func: _ModuleReader.declare_function,
    macro: _ModuleReader.declare_macro,
}


def read_module(source: Source, node: ast.ClassDef, captured: Sequence[Mapping[str, Any]], check: bool) -> IRModule:
    """The module that the class `node` describes. Raises ScriptError."""
    reader = _ModuleReader(source, node, captured)
    module = reader.read()
    if check and all(options["check_well_formed"] for _, _, options in reader.pending):
        require_well_formed(module, source.name_span(node))
    return module


@overload
def ir_module(cls: type) -> IRModule: ...
@overload
def ir_module(cls: None = None, *, check_well_formed: bool = True) -> Callable[[type], IRModule]: ...
def ir_module(cls: Any = None, *, check_well_formed: bool = True) -> Any:
    """Read a class of kernels as a module.

    Raises ScriptError, with the position, for whatever is wrong in the source, and TypeError when applied
    to something other than a class.

    >>> from tscript.script import ir as I, tir as T
    >>> @I.ir_module
    ... class M:
    ...     @T.prim_func
    ...     def main(A: T.Buffer((16,), "float32")):
    ...         M.first(A.data)
    ...     @T.prim_func(private=True)
    ...     def first(p: T.handle("float32")) -> T.int32:
    ...         return 0
    >>> [var.name_hint for var in M.functions]
    ['main', 'first']
    """
    # As in `prim_func`, the error leaves from here, so that no other frame of ours is shown.
    if cls is not None:
        try:
            return _decorate(cls, sys._getframe(1), check_well_formed)  # pyright: ignore[reportPrivateUsage]
        except ScriptError as e:
            raise shown(e) from e.__cause__

    def decorate(cls: type) -> IRModule:
        try:
            return _decorate(cls, sys._getframe(1), check_well_formed)  # pyright: ignore[reportPrivateUsage]
        except ScriptError as e:
            raise shown(e) from e.__cause__

    return decorate


MODULE_DECORATORS[ir_module] = None


def class_names(cls: type, frame: FrameType | None) -> tuple[Mapping[str, Any], ...]:
    """Where names in the class are looked up: enclosing functions, then the module."""
    methods = methods_of(cls)
    closure: dict[str, Any] = {}
    for method in methods:
        closure.update(captured_names(method))
    macros = {n: v for n, v in vars(cls).items() if isinstance(v, Macro)}
    module_names: Mapping[str, Any] = methods[0].__globals__ if methods else vars(sys.modules[cls.__module__])
    local: Mapping[str, Any] = {}
    if frame is not None:
        own = {m.__code__ for m in methods}
        for code in constant_codes(frame.f_code):
            if code.co_name == cls.__name__ and (not own or own & set(constant_codes(code))):
                local = local_names(frame, code)
    return (closure, local, module_names, macros)


def _decorate(cls: Any, frame: FrameType, check: bool) -> IRModule:
    if not isinstance(cls, type):
        raise TypeError(f"@I.ir_module is for classes, not for {kind_of(cls)}; for a function use @T.prim_func")
    source = source_of(cls, frame)
    assert isinstance(source.node, ast.ClassDef)
    return read_module(source, source.node, class_names(cls, frame), check)


__all__ = ["FunctionRef", "ModuleDraft", "find_draft", "ir_module", "read_module"]
