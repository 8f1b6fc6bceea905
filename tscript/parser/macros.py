"""`T.macro`: parts of kernels, read anew at each use."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from types import FrameType, FunctionType
from typing import Any, overload

from tscript.parser.arguments import bound_arguments
from tscript.parser.builder import current
from tscript.parser.diagnostics import fail
from tscript.parser.expression import StatementOnly
from tscript.parser.function import captured_names, frame_names, require_function, shown
from tscript.parser.scope import Scope
from tscript.parser.source import Source, source_of
from tscript.parser.statement import NESTED_DEFINITIONS, Reader
from tscript.support.errors import ScriptError
from tscript.support.wording import kind_of

_MAX_DEPTH = 64


class Macro(StatementOnly):
    """A function whose body is read, in place, where it is called as a statement of a kernel.

    Hygienic macros see their parameters and the names around their definition; others also those at the
    place of use.
    """

    __slots__ = ("__name__", "captured", "hygienic", "node", "owner", "signature", "source")

    def __init__(
        self,
        source: Source,
        node: ast.FunctionDef,
        signature: inspect.Signature,
        captured: Sequence[Mapping[str, Any]],
        hygienic: bool,
    ) -> None:
        self.__name__ = node.name
        self.source = source
        self.node = node
        self.signature = signature
        self.captured = captured
        self.hygienic = hygienic
        # The object whose method the macro is, once it is reached through one.
        self.owner: tuple[Any, ...] = ()

    def __get__(self, instance: Any, owner: type | None = None) -> Macro:
        """The macro as a method of `instance`."""
        if instance is None:
            return self
        method = Macro(self.source, self.node, self.signature, self.captured, self.hygienic)
        method.owner = (instance,)
        return method

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Read the body with the parameters bound to the arguments. Raises ScriptError outside a kernel."""
        builder = current()
        outer: Reader | None = builder.reader
        if outer is None:
            fail(f"the macro {self.__name__} is used where no source is being read")
        if builder.macro_depth >= _MAX_DEPTH:
            fail(
                f"the macro {self.__name__} calls itself without end",
                None,
                "end the recursion by a condition on Python values",
            )
        bound = bound_arguments(self.__name__, self.signature, (*self.owner, *args), kwargs)
        bound.apply_defaults()
        scope = self._scope(outer.scope)
        for name, value in bound.arguments.items():
            scope.define(name, value)
        reader = Reader(self.source, scope, builder, outer.known, is_macro=True)
        span = builder.span
        builder.reader, builder.macro_depth = reader, builder.macro_depth + 1
        try:
            reader.read(self.node.body)
        except ScriptError as e:
            note = (f"in the macro {self.__name__}, used here", span)
            if note not in e.notes:
                e.notes = (*e.notes, note)
            raise
        finally:
            builder.reader, builder.macro_depth, builder.span = outer, builder.macro_depth - 1, span

    def _scope(self, use: Scope) -> Scope:
        if self.hygienic:
            return Scope(self.captured)
        names = {name: binding.value for name, binding in use.values.items()}
        return Scope((names, *self.captured, *use.captured), names)

    def __repr__(self) -> str:
        return f"<macro {self.__name__}>"


@overload
def macro(func: FunctionType) -> Macro: ...
@overload
def macro(*, hygienic: bool = True) -> Callable[[FunctionType], Macro]: ...
def macro(func: Any = None, *, hygienic: bool = True) -> Any:
    """Make a function a macro, to be used as a statement of kernels.

    Blocks of a macro that is used several times are numbered, as `copy`, `copy_1`, so that schedules tell them apart.
    Raises TypeError when applied to something other than a function, ScriptError without its source.

    >>> from tscript.script import tir as T
    >>> @T.macro
    ... def clear(X, i):
    ...     X[i] = T.float32(0)
    >>> @T.prim_func
    ... def f(A: T.Buffer((16,), "float32")):
    ...     for i in range(16):
    ...         clear(A, i)
    >>> type(f.body.body).__name__
    'BufferStore'
    """
    if func is not None:
        try:
            return _decorate(func, sys._getframe(1), True)  # pyright: ignore[reportPrivateUsage]
        except ScriptError as e:
            raise shown(e) from e.__cause__

    def decorate(func: FunctionType) -> Macro:
        try:
            return _decorate(func, sys._getframe(1), hygienic)  # pyright: ignore[reportPrivateUsage]
        except ScriptError as e:
            raise shown(e) from e.__cause__

    return decorate


def _decorate(func: Any, frame: FrameType, hygienic: bool) -> Macro:
    if not isinstance(func, FunctionType):
        raise TypeError(f"@T.macro is for functions, not for {kind_of(func)}; options are given by keyword")
    if func.__code__.co_name == "<lambda>" or func.__code__.co_flags & inspect.CO_COROUTINE:
        raise TypeError("@T.macro is for functions written with `def`, not for lambdas and coroutines")
    source = source_of(func, frame)
    # Closure and module are looked up at each use, as Python does for a function.
    captured = (_Closure(func), frame_names(frame, func), func.__globals__)
    return Macro(source, require_function(source), inspect.signature(func), captured, hygienic)


class _Closure(Mapping[str, Any]):
    """The variables of enclosing functions, with the values they have when they are looked up."""

    __slots__ = ("_function",)

    def __init__(self, function: FunctionType) -> None:
        self._function = function

    def __getitem__(self, name: str) -> Any:
        return captured_names(self._function)[name]

    def __iter__(self) -> Any:
        return iter(captured_names(self._function))

    def __len__(self) -> int:
        return len(captured_names(self._function))


def define_nested(reader: Reader, node: ast.FunctionDef, options: dict[str, Any]) -> Macro:
    """A macro defined inside a kernel: it sees the names bound so far."""
    for name, value in options.items():
        if name != "hygienic":
            fail(f"T.macro has no option {name}", reader.source.name_span(node), "the option is hygienic")
        if not isinstance(value, bool):
            fail(f"{name} is True or False", reader.source.name_span(node))
    header = ast.FunctionDef(node.name, node.args, [ast.Pass()], [], None)
    for argument in ast.walk(node.args):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    shell = ast.fix_missing_locations(ast.Module([ast.copy_location(header, node)], []))
    scope = reader.scope
    names = {n: scope.find(n) for n in dict.fromkeys(scope.known_names())}
    exec(compile(shell, reader.source.file, "exec"), names)
    return Macro(
        reader.source, node, inspect.signature(names[node.name]), (_Live(scope),), bool(options.get("hygienic", True))
    )


class _Live(Mapping[str, Any]):
    """The names of a scope, looked up at the time of use."""

    __slots__ = ("_scope",)

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    def __getitem__(self, name: str) -> Any:
        missing = object()
        value = self._scope.find(name, missing)
        if value is missing:
            raise KeyError(name)
        return value

    def __contains__(self, name: object) -> bool:
        missing = object()
        return isinstance(name, str) and self._scope.find(name, missing) is not missing

    def __iter__(self) -> Any:
        return iter(dict.fromkeys(self._scope.known_names()))

    def __len__(self) -> int:
        return len(self._scope.known_names())


NESTED_DEFINITIONS[macro] = define_nested
