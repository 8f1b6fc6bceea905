"""What to say about a call whose arguments do not fit."""

from __future__ import annotations

import ast
import dis
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import BuiltinFunctionType, TracebackType
from typing import Any, Final, NoReturn

from tscript.ir.buffer import Buffer
from tscript.ir.expr import PrimExpr, Var
from tscript.parser.diagnostics import fail
from tscript.support.wording import kind_of, shown_int

_RAISES: Final = {dis.opmap[name] for name in ("RAISE_VARARGS", "RERAISE") if name in dis.opmap}
_LONGEST: Final = 40
_SIGNS: Final[dict[type[ast.AST], str]] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.MatMult: "@", ast.LShift: "<<", ast.RShift: ">>", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^",
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Is: "is",
    ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in", ast.USub: "-", ast.UAdd: "+", ast.Invert: "~",
    ast.And: "and", ast.Or: "or", ast.Not: "not",
}  # fmt: skip
_OF_BUFFERS: Final[dict[Any, str]] = {
    len: "use {0}.shape[0]",
    sum: "write the loops of the sum, with T.init() in a block",
    max: "write the loops of the reduction, with T.max, and T.init() in a block",
    min: "write the loops of the reduction, with T.min, and T.init() in a block",
    **dict.fromkeys((enumerate, zip, iter, list, tuple, map, sorted, reversed), "loop over the indices of {0}"),
}
_INSTEAD: Final[dict[Any, str]] = {
    max: "use T.max(x, y)",
    min: "use T.min(x, y)",
    abs: "use T.abs(x)",
    round: "use T.round(x)",
    pow: "use T.pow(x, y)",
    divmod: "use x // y and x % y",
    int: 'use T.Cast("int32", x)',
    float: 'use T.Cast("float32", x)',
    bool: "compare the value, as in `x != 0`",
    range: "a loop over values of a kernel is written `for i in range(...):`",
}


def is_ours(function: Any) -> bool:
    """Whether a function is part of the kernel language."""
    module = getattr(function, "__module__", None)
    return isinstance(module, str) and module.startswith("tscript.")


def refuse_arguments(e: Exception, name: str, function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Raise ScriptError for `e`, raised by a call of `name`, if it says nothing in terms of the call.

    That is so when the number or names of the arguments do not fit, and when Python itself gave up inside a
    function of the kernel language: its message then speaks of our inside.
    """
    instead = _find_instead(function, args) if isinstance(e, (TypeError, ValueError)) else None
    if instead is not None:
        fail(f"Python's `{function.__name__}` does not work on values of a kernel: {e}", None, instead)
    signature = _find_signature(function)
    if signature is not None and isinstance(e, TypeError):
        bound_arguments(name, signature, args, kwargs)
    if is_ours(function) and not _raised_on_purpose(e.__traceback__):
        given = [_shown(a) for a in args] + [f"{key}={_shown(value)}" for key, value in kwargs.items()]
        hint = None if signature is None else f"write {_form(name, signature)}"
        fail(f"{name} cannot take {_listed(given) if given else 'no arguments'}", None, hint)


def bound_arguments(
    name: str, signature: inspect.Signature, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> inspect.BoundArguments:
    """Arguments by parameter. Raises ScriptError, with the form of the call, if they do not fit."""
    try:
        return signature.bind(*args, **kwargs)
    except TypeError:
        fail(f"{name} {_misfit(signature, args, kwargs)}", None, f"write {_form(name, signature)}")


def call_bare(name: str, function: Callable[[], Any]) -> Any:
    """What `function` makes without arguments, as an annotation asks it to. Raises ScriptError if it needs some."""
    try:
        return function()
    except TypeError as e:
        refuse_arguments(e, name, function, (), {})
        raise


def refuse_call(name: str, value: Any) -> NoReturn:
    """Raise ScriptError for a call of `value`, which cannot be called."""
    hint = f"an element is written `{name}[...]`" if isinstance(value, Buffer) else None
    fail(f"`{name}` is {kind_of(value)}, and cannot be called", None, hint)


def refuse_subscript(name: str, value: Any) -> NoReturn:
    """Raise ScriptError for a subscript of `value`, which takes none."""
    hint = "make a buffer of it by T.match_buffer or T.decl_buffer" if isinstance(value, Var) else None
    fail(f"`{name}` is {kind_of(value)}, and has no elements", None, hint)


def refuse_operands(e: TypeError, op: type[ast.AST], *operands: Any) -> None:
    """Raise ScriptError for `e`, raised by an operator, if it is Python's own word for operands that do not fit."""
    if _raised_on_purpose(e.__traceback__):
        return
    refuse_buffers(op, *operands)
    _refuse_kinds(op, operands, None)


def refuse_buffers(op: type[ast.AST], *operands: Any) -> None:
    """Raise ScriptError if an operand of an operator is a buffer as a whole."""
    for operand in operands:
        if isinstance(operand, Buffer):
            hint = f"compute with elements, as in {operand.element_text()}, in loops over their indices"
            _refuse_kinds(op, operands, hint)


def _refuse_kinds(op: type[ast.AST], operands: Sequence[Any], hint: str | None) -> NoReturn:
    fail(f"`{_SIGNS[op]}` does not work on {' and '.join(kind_of(o) for o in operands)}", None, hint)


def _find_instead(function: Any, args: Sequence[Any]) -> str | None:
    """What to write instead of a builtin that is called on an expression or a buffer."""
    if not isinstance(function, (type, BuiltinFunctionType)):
        return None
    if any(isinstance(a, PrimExpr) for a in args):
        return _INSTEAD.get(function)
    buffer = next((a for a in args if isinstance(a, Buffer)), None)
    hint = None if buffer is None else _OF_BUFFERS.get(function)
    return None if hint is None or buffer is None else hint.format(buffer.name)


def _find_signature(function: Any) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


def _misfit(signature: inspect.Signature, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """How arguments differ from what is taken."""
    parameters = list(signature.parameters.values())
    named = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    by_position = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    takes_all = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    if len(args) > len(by_position) and not takes_all:
        count = len(by_position)
        return f"takes {count} positional argument{'' if count == 1 else 's'}, not {len(args)}"
    names = {p.name for p in named}
    unknown = [k for k in kwargs if k not in names]
    if unknown and not any(p.kind is p.VAR_KEYWORD for p in parameters):
        return f"takes no argument called {_listed(f'`{k}`' for k in unknown)}"
    twice = [p.name for p in by_position[: len(args)] if p.name in kwargs]
    if twice:
        return f"gets its argument {_listed(f'`{k}`' for k in twice)} twice"
    empty = inspect.Parameter.empty
    missing = [p.name for p in parameters if p.default is empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    missing = [m for m in missing if m not in kwargs and m not in [p.name for p in by_position[: len(args)]]]
    return f"needs {_listed(f'`{m}`' for m in missing)} too"


def _form(name: str, signature: inspect.Signature) -> str:
    """The call with the names of its parameters, as in `T.max(a, b)`; those that may be left out in brackets."""
    parts: list[str] = []
    for p in signature.parameters.values():
        star = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        optional = p.default is not inspect.Parameter.empty
        parts.append(f"{star}{p.name}{'=...' if optional else ''}")
    return f"{name}({', '.join(parts)})"


def _raised_on_purpose(tb: TracebackType | None) -> bool:
    """Whether the innermost frame was at a `raise` when the exception left it."""
    if tb is None:
        return True
    while tb.tb_next is not None:
        tb = tb.tb_next
    return tb.tb_frame.f_code.co_code[tb.tb_lasti] in _RAISES


def _shown(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return shown_int(value)
    if isinstance(value, (bool, float, str)) or value is None:
        text = repr(value)
        return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
    if isinstance(value, PrimExpr):
        return f"a value of type {value.dtype!s}"
    return kind_of(value)


def _listed(words: Iterable[str]) -> str:
    items = list(words)
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"
