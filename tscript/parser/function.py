"""`T.prim_func`: from a decorated Python function to a PrimFunc."""

from __future__ import annotations

import ast
import functools
import inspect
import sys
from collections.abc import Callable, Mapping
from types import CodeType, FrameType, FunctionType
from typing import Any, Final, overload

from tscript.ir.buffer import Buffer
from tscript.ir.dtype import HANDLE, VOID, DataType
from tscript.ir.expr import PrimType, TupleType, Type, Var
from tscript.ir.function import PrimFunc
from tscript.parser.annotation import eval_annotation
from tscript.parser.arguments import call_bare
from tscript.parser.blocks import FunctionFrame, add_param
from tscript.parser.builder import Builder, building
from tscript.parser.checks import require_well_formed
from tscript.parser.control import annotated_type
from tscript.parser.diagnostics import at_span, close_matches, fail, full_traceback
from tscript.parser.expression import Evaluator
from tscript.parser.scope import Scope
from tscript.parser.source import Source, class_decorators, constant_codes, source_of
from tscript.parser.statement import NESTED_DEFINITIONS, Reader
from tscript.support.errors import ScriptError
from tscript.support.wording import kind_of

OPTIONS: Final = {"private": False, "check_well_formed": True, "s_tir": True}
"""Options of the decorator and what they are when left out."""

MODULE_DECORATORS: Final[dict[Any, None]] = {}
"""Decorators of classes that read the functions inside by themselves."""


def captured_names(function: FunctionType) -> dict[str, Any]:
    """The variables of enclosing functions that `function` mentions, as far as they have a value."""
    found: dict[str, Any] = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:
            continue
    return found


def frame_names(frame: FrameType | None, function: FunctionType) -> Mapping[str, Any]:
    """Local names of the function or class body that `function` is written in, if that is `frame`.

    They are needed for names that stand only in annotations, which Python may not have evaluated.
    """
    return {} if frame is None else local_names(frame, function.__code__)


def local_names(frame: FrameType, code: CodeType) -> dict[str, Any]:
    """Local names of `frame`, if `code` is written in it, and, where that is a class, of the function around it."""
    found: dict[str, Any] = {}
    place: FrameType | None = frame
    while place is not None and place.f_locals is not place.f_globals and code in set(constant_codes(place.f_code)):
        is_class = _is_class_body(place)
        if place is frame or not is_class:
            found = {**place.f_locals, **found}
        # Only the body of a class runs right where it is written: its caller is what stands around it.
        place, code = (place.f_back, place.f_code) if is_class else (None, code)
    return found


def _is_class_body(frame: FrameType) -> bool:
    names = frame.f_locals
    return names is not frame.f_globals and "__module__" in names and "__qualname__" in names


def _read_with_class(frame: FrameType) -> bool:
    """Whether the class whose body runs in `frame` is decorated with `ir_module`, which reads it as a whole."""
    outer = frame.f_back
    if outer is None:
        return True
    try:
        decorators = class_decorators(frame)
    except (SyntaxError, ValueError):
        return True
    names = {**outer.f_globals, **outer.f_locals}
    for decorator in decorators:
        target = decorator.func if isinstance(decorator, ast.Call) else decorator
        try:
            value = eval(compile(ast.Expression(target), "<decorator>", "eval"), names)
            if value in MODULE_DECORATORS:
                return True
        except Exception:  # A decorator we cannot look up, or cannot hash, is none of ours.
            continue
    return False


def read_function(source: Source, node: ast.FunctionDef, scope: Scope, private: bool) -> PrimFunc:
    """The function that `node`, a definition in `source`, describes. Raises ScriptError."""
    builder = Builder()
    reader = Reader(source, scope, builder)
    frame = FunctionFrame(node.name, private)
    builder.span = source.name_span(node)
    with building(builder):
        builder.reader = reader
        frame.open(builder)
        try:
            _read_parameters(reader, node, frame)
            frame.ret_type = return_type(reader.evaluator, node)
            reader.read(node.body)
        except RecursionError:
            fail(
                "the source is nested too deeply to be read",
                builder.span,
                "split the expression, or the helper's recursion",
            )
        builder.close(frame)
    return frame.finish()


def _read_parameters(reader: Reader, node: ast.FunctionDef, frame: FunctionFrame) -> None:
    arguments = node.args
    for extra in (arguments.vararg, arguments.kwarg, *arguments.kwonlyargs):
        if extra is not None:
            fail(
                f"parameter {extra.arg} is not an ordinary one; a kernel takes a fixed list of parameters",
                reader.source.span(extra),
                "write it as a plain parameter with an annotation",
            )
    for parameter in (*arguments.posonlyargs, *arguments.args):
        if parameter.annotation is None and parameter.arg in ("self", "cls"):
            fail(
                f"a kernel is no method: it gets no `{parameter.arg}`",
                reader.source.span(parameter),
                f"leave out `{parameter.arg}`; other kernels of the module are called by the name of the class",
            )
        if parameter.annotation is None:
            fail(
                "a parameter needs a type",
                reader.source.span(parameter),
                f'write `{parameter.arg}: T.Buffer((16,), "float32")`, or T.handle, or a type such as T.int32',
            )
        span = reader.source.span(parameter.annotation)
        reader.builder.span = reader.source.span(parameter)
        reader.scope.otherwise = functools.partial(_symbolic_size, parameter.arg)
        value = annotation_value(reader.evaluator, parameter.annotation)
        reader.scope.otherwise = None
        if not isinstance(value, (Var, Buffer)):
            fail(
                f"`{ast.unparse(parameter.annotation)}` is no type of a parameter",
                span,
                "use T.Buffer(shape, dtype), T.handle, or a type such as T.int32",
            )
        what = "variable" if isinstance(value, Var) else "buffer"
        if any(value is p for p in (*frame.params, *frame.buffer_map.values())):
            fail(f"parameter {parameter.arg} has the same {what} as another one", span, "write the type out for each")
        add_param(frame, parameter.arg, value)
        reader.bind(parameter.arg, value, parameter)


def _symbolic_size(parameter: str, name: str) -> str:
    """What to do about an unknown `name` in the type of `parameter`."""
    handle = parameter.lower() if parameter.lower() != parameter else f"{parameter}_handle"
    return (
        f"for a size known only at the call, take `{handle}: T.handle`, and write in the body `{name} = T.int32()` "
        f"and `{parameter} = T.match_buffer({handle}, shape, dtype)`"
    )


def annotation_value(evaluator: Evaluator, node: ast.expr) -> Any:
    """What an annotation stands for: callables such as `T.int32` are called; a text is read as source."""
    value = eval_annotation(evaluator, node)
    if callable(value) and not isinstance(value, (Var, Buffer)):
        try:
            return call_bare(ast.unparse(node), value)
        except Exception as e:
            raise at_span(e, evaluator.source.span(node)) from (e if full_traceback() else None)
    return value


def return_type(evaluator: Evaluator, node: ast.FunctionDef) -> Type | None:
    """The type a function returns, or None for nothing."""
    annotation = node.returns
    if annotation is None or (isinstance(annotation, ast.Constant) and annotation.value is None):
        return None
    value = annotation_value(evaluator, annotation)
    if value is None:
        return None
    try:
        return annotated_type(value)
    except (TypeError, ValueError) as e:
        raise at_span(e, evaluator.source.span(annotation)) from None


def result_dtype(kind: Type | None) -> DataType:
    """The type of a call of a function that returns `kind`."""
    return kind.dtype if isinstance(kind, PrimType) else VOID if kind is None or isinstance(kind, TupleType) else HANDLE


def decorator_options(source: Source, decorator: ast.expr) -> dict[str, bool]:
    """The keywords of a `prim_func(...)` decorator, which are literals."""
    options = dict(OPTIONS)
    if isinstance(decorator, ast.Call) and decorator.args:
        fail(
            "T.prim_func takes its options by keyword",
            source.span(decorator.args[0]),
            "write private=True, or check_well_formed=False",
        )
    for keyword in decorator.keywords if isinstance(decorator, ast.Call) else ():
        if keyword.arg not in OPTIONS:
            fail(
                f"T.prim_func has no option {keyword.arg}"
                if keyword.arg
                else "the options of T.prim_func are written out",
                source.span(keyword),
                close_matches(str(keyword.arg), OPTIONS) or f"the options are {', '.join(OPTIONS)}",
            )
        if not (isinstance(keyword.value, ast.Constant) and isinstance(keyword.value.value, bool)):
            fail(f"{keyword.arg} is written as True or False", source.span(keyword.value))
        options[keyword.arg] = keyword.value.value
    return options


@overload
def prim_func(func: FunctionType) -> PrimFunc: ...
@overload
def prim_func(
    func: None = None, *, private: bool = False, check_well_formed: bool = True, s_tir: bool = True
) -> Callable[[FunctionType], PrimFunc]: ...
def prim_func(func: Any = None, *, private: bool = False, check_well_formed: bool = True, s_tir: bool = True) -> Any:
    """Read a Python function as a kernel. The function is never run: its source is.

    `private=True` gives it no public name. `check_well_formed=False` leaves out the check of the rules of
    the IR. `s_tir` is accepted and means nothing here. Raises ScriptError, with the position, for whatever
    is wrong in the source, and TypeError when applied to something other than a function.

    >>> from tscript.script import tir as T
    >>> @T.prim_func
    ... def scale(A: T.Buffer((16,), "float32")):
    ...     for i in range(16):
    ...         A[i] = A[i] * 2.0
    >>> scale.__name__, len(scale.params)
    ('scale', 1)
    """
    # A ScriptError is raised anew in the function that the user called: it is the only frame shown besides the user's.
    if func is not None:
        try:
            return _decorate(func, sys._getframe(1), private, check_well_formed)  # pyright: ignore[reportPrivateUsage]
        except ScriptError as e:
            raise shown(e) from e.__cause__

    def decorate(func: FunctionType) -> PrimFunc:
        try:
            return _decorate(func, sys._getframe(1), private, check_well_formed)  # pyright: ignore[reportPrivateUsage]
        except ScriptError as e:
            raise shown(e) from e.__cause__

    return decorate


def _decorate(func: Any, frame: FrameType, private: bool, check: bool) -> Any:
    if not isinstance(func, FunctionType):
        raise TypeError(f"@T.prim_func is for functions, not for {kind_of(func)}; for a class use @I.ir_module")
    if func.__code__.co_name == "<lambda>" or func.__code__.co_flags & inspect.CO_COROUTINE:
        raise TypeError("@T.prim_func is for functions written with `def`, not for lambdas and coroutines")
    if _is_class_body(frame) and _read_with_class(frame):
        return func
    source = source_of(func, frame)
    node = require_function(source)
    captured = captured_names(func)
    late = [name for name in func.__code__.co_freevars if name not in captured]
    hints = {name: f"assign `{name}` before the kernel: it is read where it is defined" for name in late}
    scope = Scope((captured, frame_names(frame, func), func.__globals__), hints=hints)
    return finished(read_function(source, node, scope, private), source, check)


def shown(e: ScriptError) -> ScriptError:
    """`e` without tscript's own frames, unless they are asked for."""
    if full_traceback():
        return e
    # What IPython shows instead of frames: the report alone.
    vars(e)["_render_traceback_"] = lambda: f"{type(e).__name__}: {e}".split("\n")
    return e.with_traceback(None)


def require_function(source: Source) -> ast.FunctionDef:
    """The function in `source`; TypeError if it is a class."""
    if not isinstance(source.node, ast.FunctionDef):
        raise TypeError(f"{source.node.name} is a class, not a function")
    return source.node


def finished(func: PrimFunc, source: Source, check: bool) -> PrimFunc:
    """`func`, checked if asked."""
    if check:
        require_well_formed(func, source.name_span(source.node))
    return func


def _refuse_nested(reader: Reader, node: ast.FunctionDef, options: dict[str, Any]) -> Any:
    fail(
        f"the kernel `{node.name}` is defined inside another kernel",
        reader.source.name_span(node),
        "put both in a class with @I.ir_module, or use @T.macro for a part of a kernel",
    )


NESTED_DEFINITIONS[prim_func] = _refuse_nested
