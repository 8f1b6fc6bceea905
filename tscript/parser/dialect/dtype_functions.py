"""Data types as functions that make variables and constants; `dtypes` gives them their names."""

from __future__ import annotations

from typing import Final

import numpy as np

from tscript.ir.construct import cast, const
from tscript.ir.dtype import DataType
from tscript.ir.expr import PointerType, PrimExpr, PrimType, SizeVar, Type, Var
from tscript.support.wording import require_kind

SCALARS: Final = (
    *(f"int{b}" for b in (8, 16, 32, 64)),
    *(f"uint{b}" for b in (8, 16, 32, 64)),
    *(f"float{b}" for b in (16, 32, 64)),
    "bfloat16",
    "float8_e4m3fn",
    "float8_e5m2",
    "float4_e2m1fn",
    "bool",
)
"""Element types with constants and vectors."""

LANES: Final = (2, 4, 8, 16, 32, 64)
"""Lanes of the vector types that have a name; others, such as `T.float32x3`, work too."""


class DtypeFunction:
    """A type as a function: without an argument a new variable, with one a constant or a cast.

    >>> DtypeFunction("int8")(3).dtype
    'int8'
    """

    __slots__ = ("__name__", "dtype")

    kind_in_messages: Final = "a type"

    def __init__(self, name: str) -> None:
        self.__name__ = name
        self.dtype = DataType(name)

    def __call__(
        self, expr: PrimExpr | np.generic | float | str | None = None, *, is_size_var: bool = False
    ) -> PrimExpr:
        """A variable, a constant of this type, or `expr` converted to it.

        Raises ValueError for a number that does not fit, TypeError for what cannot be converted.
        """
        if expr is None:
            return (SizeVar if is_size_var else Var)("", self.dtype)
        if is_size_var:
            raise TypeError(f"T.{self.__name__} makes a variable or converts a value: give `is_size_var` or a value")
        if isinstance(expr, np.generic):
            expr = expr.item()
        if isinstance(expr, PrimExpr):
            return cast(expr, self.dtype)
        return const(expr, self.dtype)  # pyright: ignore[reportArgumentType]

    def __repr__(self) -> str:
        return f"T.{self.__name__}"

    @property
    def instead_of_value(self) -> str:
        """What to write where a value is wanted."""
        return f"T.{self.__name__}(x) is a value of that type"


class HandleFunction:
    """`T.handle`: pointers. `T.handle()` is untyped, `T.handle("float32", "shared")` points to elements."""

    __slots__ = ("__name__", "dtype")

    kind_in_messages: Final = "a type"

    def __init__(self) -> None:
        self.__name__ = "handle"
        self.dtype = DataType("handle")

    def __call__(
        self,
        dtype: str | DtypeFunction | Type | None = None,
        storage_scope: str = "global",
        *,
        is_size_var: bool = False,
    ) -> Var:
        """A new pointer variable."""
        make = SizeVar if is_size_var else Var
        require_kind(storage_scope, str, 'a storage scope is a text such as "shared"')
        if dtype is None:
            return make("", "handle")
        if isinstance(dtype, DtypeFunction):
            dtype = dtype.dtype
        element = dtype if isinstance(dtype, Type) else PrimType(DataType(dtype))
        return make("", PointerType(element, storage_scope))

    def __repr__(self) -> str:
        return "T.handle"


_STUB_HEAD: Final = """\
# Written by `stub_text()` of the module dtype_functions; a test compares the two.
import builtins
from typing import Protocol, overload

from tscript.ir.expr import PrimExpr, Var

# What `n: T.int32` says to a checker: an expression, and what `-> T.int32` asks for: any expression. A protocol, since
# the first parameter of a method, which a kernel of a module looks like, must be one to differ from the class.
# The decorator has it that the name can be called, which a protocol's own cannot. Without `init=False` a checker
# would derive a constructor from the fields.
class _MakesScalar(PrimExpr, init=False):  # pyright: ignore[reportGeneralTypeIssues]
    @overload
    def __new__(cls, expr: None = None, *, is_size_var: builtins.bool = False) -> Var: ...
    @overload
    def __new__(cls, expr: object, *, is_size_var: builtins.bool = False) -> PrimExpr: ...

class _Scalar(_MakesScalar, Protocol, init=False): ...  # pyright: ignore[reportGeneralTypeIssues]

class _MakesPointer(Var, init=False):  # pyright: ignore[reportGeneralTypeIssues]
    def __new__(  # pyright: ignore[reportInconsistentConstructor]
        cls, dtype: object = None, storage_scope: str = "global", *, is_size_var: builtins.bool = False
    ) -> Var: ...

class _Pointer(_MakesPointer, Protocol, init=False): ...  # pyright: ignore[reportGeneralTypeIssues]

def _scalar(cls: object, /) -> type[_Scalar]: ...
def _pointer(cls: object, /) -> type[_Pointer]: ...

@_pointer
class handle: ...
"""


def dtype_names() -> list[str]:
    """Every name `T` gives to a data type, `handle` excepted."""
    names = [s if n == 1 else f"{s}x{n}" for s in SCALARS for n in (1, *LANES)]
    return [*names, "boolean", "void"]


def find_dtype(name: str) -> DtypeFunction | None:
    """The function for any type name, listed or not (`"float32x3"`), or None when `name` is no type."""
    try:
        dtype = DataType(name)
    except ValueError:
        return None
    return DtypeFunction(name) if name and not dtype.is_handle else None


def require_dtype(name: str) -> DtypeFunction:
    """`find_dtype`, as the `__getattr__` of a module: AttributeError for what is no type."""
    found = None if name.startswith("_") else find_dtype(name)
    if found is None:
        raise AttributeError(f"T has no {name!r}")
    return found


def stub_text() -> str:
    """The text of `dtypes.pyi`, where every scalar type is the class of all expressions."""
    return _STUB_HEAD + "".join(f"\n@_scalar\nclass {n}: ...\n" for n in dtype_names())
