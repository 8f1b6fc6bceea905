"""`from_source` and `parse`: kernels and modules from text."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from types import FunctionType
from typing import Any, Final

from tscript.ir.function import IRModule, PrimFunc
from tscript.parser.diagnostics import fail
from tscript.parser.expression import Evaluator
from tscript.parser.function import (
    OPTIONS,
    captured_names,
    decorator_options,
    finished,
    prim_func,
    read_function,
    require_function,
    shown,
)
from tscript.parser.macros import macro
from tscript.parser.module import class_names, read_module
from tscript.parser.scope import Scope
from tscript.parser.source import Source, source_of, source_of_text
from tscript.support.errors import ScriptError
from tscript.support.wording import kind_of

default_vars: Final[dict[str, Any]] = {}
"""Names that text may use without further ado (`T`, `I`, ...). The package `tscript.script` fills it."""


def from_source(
    text: str | FunctionType | type, extra_vars: Mapping[str, Any] | None = None, check_well_formed: bool = True
) -> PrimFunc | IRModule:
    r"""The kernel or module that a text (or an undecorated function or class) describes.

    The text holds one function or one class, after lines `name = value` if need be; comments and imports
    are ignored. Names it may use are `T`, `I`, `Annotated`, ... and those of `extra_vars`. Raises ScriptError.

    >>> from tscript.script import from_source
    >>> f = from_source("@T.prim_func\ndef f(A: T.Buffer((n,), 'int8')):\n    A[0] = T.int8(1)", {"n": 4})
    >>> [int(extent) for extent in f.body.buffer.shape]
    [4]
    """
    captured: tuple[Mapping[str, Any], ...] = (dict(extra_vars or {}), default_vars)
    try:
        if isinstance(text, str):
            source = source_of_text(text)
        elif isinstance(text, FunctionType):
            source = source_of(text, None)
            captured = (captured_names(text), text.__globals__, *captured)
        elif isinstance(text, type):  # pyright: ignore[reportUnnecessaryIsInstance]
            source = source_of(text, None)
            captured = (*class_names(text, None), *captured)
        else:
            raise TypeError(f"from_source takes a text, a function or a class, not {kind_of(text)}")
        for name, value in source.assignments:
            captured = ({name: Evaluator(source, Scope(captured)).eval(value)}, *captured)
        if isinstance(source.node, ast.ClassDef):
            return read_module(source, source.node, captured, check_well_formed and _module_checks(source))
        node = require_function(source)
        scope = Scope(captured)
        options = _options(source, node, scope)
        check = check_well_formed and options["check_well_formed"]
        return finished(read_function(source, node, scope, options["private"]), source, check)
    except ScriptError as e:
        raise shown(e) from e.__cause__


def _options(source: Source, node: ast.FunctionDef, scope: Scope) -> dict[str, bool]:
    for decorator in node.decorator_list:
        target = decorator.func if isinstance(decorator, ast.Call) else decorator
        kind = Evaluator(source, scope).eval(target)
        if kind is prim_func:
            return decorator_options(source, decorator)
        if kind is macro:
            fail(
                f"`{node.name}` is a macro, and no kernel of its own",
                source.name_span(node),
                "define it in a class with @I.ir_module, or pass it by extra_vars={...} to the text of a kernel",
            )
    return dict(OPTIONS)


def _module_checks(source: Source) -> bool:
    for decorator in source.node.decorator_list:
        for keyword in decorator.keywords if isinstance(decorator, ast.Call) else ():
            if keyword.arg == "check_well_formed" and isinstance(keyword.value, ast.Constant):
                return bool(keyword.value.value)
    return True


parse = from_source
