"""What all functions of `T` share: the type of their arguments, and the conversion of these."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeAlias, TypeVar

from tscript.ir.base import Node
from tscript.ir.construct import call_intrin, convert
from tscript.ir.expr import Call, IterVar, PrimExpr
from tscript.ir.stmt import BufferRegion

Value: TypeAlias = Any
"""A scalar or vector argument: an expression or a Python number.

To a type checker a buffer parameter has no known type, because its annotation is a call. What is read
from it is unknown too, and a strict checker reports every unknown argument unless the parameter takes
anything. The functions check their arguments when a kernel is parsed, with the position of a mistake.
"""

P = ParamSpec("P")
R = TypeVar("R")


def op_function(func: Callable[P, R]) -> Callable[P, R]:
    """Accept, and ignore, the keyword `dtype` that older programs give: the result's type follows the arguments."""

    @functools.wraps(func)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        kwargs.pop("dtype", None)
        return func(*args, **kwargs)

    return wrapper


def dtype_first(func: Callable[P, R]) -> Callable[P, R]:
    """Accept the first argument, the result's type, also as the keyword `dtype` behind positional arguments."""

    @functools.wraps(func)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        if "dtype" in kwargs:
            args = (kwargs.pop("dtype"), *args)  # pyright: ignore[reportAssignmentType]
        return func(*args, **kwargs)

    return wrapper


def call_arg(value: Any) -> Any:
    """An argument of a call in the form the IR keeps. Raises TypeError for what is no value, buffers included."""
    if isinstance(value, (PrimExpr, BufferRegion)):
        return value
    if isinstance(value, IterVar):
        return value.var
    if isinstance(value, Node) and hasattr(value, "access_ptr"):
        name = getattr(value, "name", "A")
        raise TypeError(
            f"buffer {name} cannot be the argument of a call; pass its pointer `{name}.data`, "
            f'a part of it `{name}.access_ptr("r")`, or an element `{name}[...]`'
        )
    return convert(value)


def call(dtype: str, op: str, *args: Any) -> Call:
    """A call of the intrinsic `tir.<op>`."""
    return call_intrin(dtype, "tir." + op, *(call_arg(a) for a in args))
