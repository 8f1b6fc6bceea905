"""Functions outside the program: Python callables that `call_extern` and `call_packed` find by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tscript.interp.memory import Pointer
from tscript.ir import semantics
from tscript.ir.dtype import FLOAT32, INT64, DataType
from tscript.support.errors import InterpError

_REGISTRY: dict[str, Callable[..., Any]] = {}


def register_extern(name: str, fn: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """Make `fn` what the interpreter runs for `T.call_extern(dtype, name, ...)` and `T.call_packed(name, ...)`.

    Scalars arrive as Python numbers, vectors as lists, addresses as `Pointer`s. The result is converted
    to the type of the call. Works as a decorator without `fn`. A later registration replaces an earlier one.

    >>> @register_extern("half")
    ... def half(x):
    ...     return x / 2
    """
    if fn is None:

        def decorate(f: Callable[..., Any]) -> Callable[..., Any]:
            return register_extern(name, f)

        return decorate
    if not callable(fn):
        raise TypeError(f"{name!r} is registered with {fn!r}, which cannot be called")
    _REGISTRY[name] = fn
    return fn


class ExternFailure(Exception):
    """Carries an exception of an external function through generated code."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(str(cause))
        self.cause = cause


def call_extern(name: str, dtype: DataType, args: tuple[Any, ...]) -> Any:
    """Call the function registered as `name`; InterpError without one."""
    fn = _REGISTRY.get(name)
    if fn is None:
        raise InterpError(
            f"external function {name!r} is not known to the interpreter; "
            f"register a Python version, as in tscript.interp.register_extern({name!r}, fn)"
        )
    for a in args:
        if isinstance(a, Pointer):
            a.memory.mark_written()
    try:
        result = fn(*args)
    except Exception as error:
        raise ExternFailure(error) from error
    if dtype.is_handle or dtype.code == "void":
        return result
    if dtype.lanes > 1:
        return [_converted(name, dtype.element, v) for v in result]
    if result is None and dtype.is_int:
        return 0  # a function that reports no error code
    return _converted(name, dtype, result)


def _converted(name: str, dtype: DataType, value: Any) -> Any:
    if isinstance(value, (bool, int)):
        return semantics.convert_value(INT64, dtype, int(value))
    try:
        return semantics.convert_value(FLOAT32, dtype, float(value))
    except (TypeError, ValueError):
        raise InterpError(f"external function {name!r} returned {value!r}, which is no {dtype!s}") from None
