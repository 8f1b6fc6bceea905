"""What annotations stand for: `T.int32`, `T.Buffer((16,), "int8")`, `Annotated[T.Buffer, (16,), "int8"]`, text."""

from __future__ import annotations

import ast
import typing
from collections.abc import Callable, Sequence
from typing import Any

from tscript.ir.buffer import Buffer
from tscript.ir.expr import Var
from tscript.parser.arguments import refuse_arguments
from tscript.parser.buffers import buffer_maker
from tscript.parser.diagnostics import at_span, fail, full_traceback
from tscript.parser.expression import Evaluator
from tscript.support.wording import kind_of

_ALIAS_STATEMENT = getattr(typing, "TypeAliasType", None)


def eval_annotation(evaluator: Evaluator, node: ast.expr) -> Any:
    """The value of an annotation; a text is read as source, and `Annotated[F, a, b]` means `F(a, b)`.

    The subscript is a type to checkers and editors, which know nothing of what a call in an annotation gives.
    """
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        node = _parsed(evaluator, node, node.value)
    if isinstance(node, ast.Subscript) and evaluator.eval(node.value) is typing.Annotated:
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        base, *details = (evaluator.key(part) for part in parts)
        return _made(evaluator, node, base, details)
    return _unfolded(evaluator, node, evaluator.eval(node))


def _parsed(evaluator: Evaluator, node: ast.expr, text: str) -> ast.expr:
    try:
        inner = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError) as e:
        fail(f"the annotation is no Python: {e}", evaluator.source.span(node))
    for child in ast.walk(inner):
        ast.copy_location(child, node)
    return inner


def _unfolded(evaluator: Evaluator, node: ast.expr, value: Any) -> Any:
    """`value` without the names that Python's own statements give to types: `Tile = Annotated[...]`."""
    while _ALIAS_STATEMENT is not None and isinstance(value, _ALIAS_STATEMENT):
        value = value.__value__
    if typing.get_origin(value) is typing.Annotated:
        base, *details = typing.get_args(value)
        return _made(evaluator, node, base, details)
    return value


def _made(evaluator: Evaluator, node: ast.expr, base: Any, details: Sequence[Any]) -> Any:
    """What `Annotated[base, *details]` stands for: a new one each time, so that parameters can share the alias."""
    if isinstance(base, typing.ForwardRef):
        base = base.__forward_arg__
    if isinstance(base, str):
        base = evaluator.eval(_parsed(evaluator, node, base))
    if not hasattr(base, "kind_in_messages") and base is not buffer_maker:
        fail(
            f"Annotated is for types of kernels, not for {kind_of(base)}",
            evaluator.source.span(node),
            'write Annotated[T.Buffer, (16,), "float32"], or the type alone',
        )
    name = "T.Buffer" if base is buffer_maker else repr(base)
    if len(details) == 1 and isinstance(details[0], (Buffer, Var)):
        return _ready(evaluator, node, base, name, details[0])
    if base is not buffer_maker and getattr(base, "__name__", "") != "handle":
        fail(
            f"{name} has no details that an annotation could give",
            evaluator.source.span(node),
            f"write {name}; for a variable of another kind, Annotated[{name}, {name}(is_size_var=True)]",
        )
    return _called(evaluator, node, base, name, details)


def _called(
    evaluator: Evaluator, node: ast.expr, function: Callable[..., Any], name: str, args: Sequence[Any]
) -> Buffer | Var:
    try:
        return function(*args)
    except Exception as e:
        try:
            refuse_arguments(e, name, function, args, {})
        except Exception as told:
            e = told
        raise at_span(e, evaluator.source.span(node)) from (e if full_traceback() else None)


def _ready(evaluator: Evaluator, node: ast.expr, base: Any, name: str, value: Buffer | Var) -> Buffer | Var:
    """`value`, given as the only detail, which must be what a call of `base` makes."""
    fits = isinstance(value, Buffer) if base is buffer_maker else isinstance(value, Var) and value.dtype is base.dtype
    if not fits:
        fail(
            f"`{ast.unparse(node)}` says {name}, but its detail is {kind_of(value)} of type {value.dtype!s}",
            evaluator.source.span(node),
            f"write the detail as a call of {name}",
        )
    return value
