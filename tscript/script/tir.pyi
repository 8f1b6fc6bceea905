# The face of `tir.py` for checkers and editors. What a kernel's statements look like to Python, rather than
# what these functions return to the parser: `for i, j in T.grid(4, 8)` gives variables, `with T.block()` nothing.
# ruff: noqa: F403
import builtins
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar, overload

from tscript.ir.buffer import Buffer as _Buffer
from tscript.ir.expr import PrimExpr as _PrimExpr
from tscript.ir.expr import Var as _Var
from tscript.ir.function import PrimFunc as _PrimFunc
from tscript.parser.dialect.arithmetic import *
from tscript.parser.dialect.calls import *
from tscript.parser.dialect.control import *
from tscript.parser.dialect.dtypes import *
from tscript.parser.dialect.gpu import *
from tscript.parser.dialect.math import *
from tscript.parser.dialect.memory import *
from tscript.parser.dialect.nodes import *
from tscript.parser.dialect.values import Value as _Value
from tscript.parser.dialect.vectors import *

# A kernel as Python sees it: parameters annotated by calls have no type a checker knows.
_Function = Any
_Macro = Callable[..., None]
_V = TypeVar("_V")
_Annotations = Mapping[str, Any] | None
_Scope = AbstractContextManager[None]

# A name bound by `x = T.allocate(...)` and by `with T.allocate(...) as x` is the same variable.
class _ScopedVar(_Var):
    def __enter__(self) -> _Var: ...
    def __exit__(self, *error: object) -> None: ...

class _ScopedBuffer(_Buffer):
    def __enter__(self) -> _Buffer: ...
    def __exit__(self, *error: object) -> None: ...

# -- functions

@overload
def prim_func(func: _Function, /) -> _PrimFunc: ...
@overload
def prim_func(
    *, private: builtins.bool = False, check_well_formed: builtins.bool = True, s_tir: builtins.bool = False
) -> Callable[[_Function], _PrimFunc]: ...
@overload
def macro(func: Any, /) -> _Macro: ...
@overload
def macro(*, hygienic: builtins.bool = True) -> Callable[[Any], _Macro]: ...
def arg(name: str, obj: _V) -> _V: ...
def func_attr(attrs: Mapping[str, Any]) -> None: ...
def meta_var(value: _V) -> _V: ...

# -- buffers

# As with the scalar types, a protocol, since the first parameter of a kernel in a class need be no instance of that
# class then, and made by a decorator, since a protocol's own name cannot be called.
class _MakesBuffer(_Buffer, init=False):  # pyright: ignore[reportGeneralTypeIssues]
    def __new__(  # pyright: ignore[reportInconsistentConstructor]
        cls,
        shape: _Value,
        dtype: str = "float32",
        data: _Value = None,
        strides: _Value = None,
        elem_offset: _Value = None,
        scope: str = "global",
        align: int = 0,
        offset_factor: int = 0,
        buffer_type: str = "",
        axis_separators: Sequence[int] | None = None,
    ) -> _Buffer: ...

class _AnyBuffer(_MakesBuffer, Protocol, init=False): ...  # pyright: ignore[reportGeneralTypeIssues]

def _buffer(cls: object, /) -> type[_AnyBuffer]: ...

@_buffer
class Buffer: ...

def buffer_decl(
    shape: _Value,
    dtype: str = "float32",
    data: _Value = None,
    strides: _Value = None,
    elem_offset: _Value = None,
    scope: str = "global",
    align: int = 0,
    offset_factor: int = 0,
    buffer_type: str = "",
    axis_separators: Sequence[int] | None = None,
) -> _Buffer: ...
def match_buffer(
    param: _Value,
    shape: _Value = None,
    dtype: str | None = None,
    data: _Value = None,
    strides: _Value = None,
    elem_offset: _Value = None,
    scope: str = "global",
    align: int = -1,
    offset_factor: int = 0,
    buffer_type: str = "default",
    axis_separators: Sequence[int] | None = None,
) -> _Buffer: ...
def alloc_buffer(
    shape: _Value,
    dtype: str = "float32",
    data: _Value = None,
    strides: _Value = None,
    elem_offset: _Value = None,
    scope: str = "global",
    align: int = -1,
    offset_factor: int = 0,
    buffer_type: str = "default",
    axis_separators: Sequence[int] | None = None,
) -> _Buffer: ...
def decl_buffer(
    shape: _Value,
    dtype: str = "float32",
    data: _Value = None,
    strides: _Value = None,
    elem_offset: _Value = None,
    scope: str = "global",
    align: int = 0,
    offset_factor: int = 0,
    buffer_type: str = "",
    axis_separators: Sequence[int] | None = None,
) -> _ScopedBuffer: ...
def allocate(
    extents: Sequence[_Value],
    dtype: str,
    scope: str = "global",
    condition: _Value = None,
    annotations: _Annotations = None,
) -> _ScopedVar: ...
def allocate_const(
    data: _Value, dtype: str, extents: Sequence[int], annotations: _Annotations = None
) -> _ScopedVar: ...
def Ptr(dtype: str, storage_scope: str = "global") -> _Var: ...
def buffer_var(dtype: str, storage_scope: str = "global") -> _Var: ...

# -- loops

def serial(start: _Value, stop: _Value = None, *, annotations: _Annotations = None) -> Iterable[_Var]: ...
def parallel(start: _Value, stop: _Value = None, *, annotations: _Annotations = None) -> Iterable[_Var]: ...
def vectorized(start: _Value, stop: _Value = None, *, annotations: _Annotations = None) -> Iterable[_Var]: ...
def unroll(start: _Value, stop: _Value = None, *, annotations: _Annotations = None) -> Iterable[_Var]: ...
def thread_binding(
    start: _Value, stop: _Value = None, thread: str | None = None, *, annotations: _Annotations = None
) -> Iterable[_Var]: ...
@overload
def grid(a: _Value, /) -> Iterable[_Var]: ...
@overload
def grid(a: _Value, b: _Value, /) -> Iterable[tuple[_Var, _Var]]: ...
@overload
def grid(a: _Value, b: _Value, c: _Value, /) -> Iterable[tuple[_Var, _Var, _Var]]: ...
@overload
def grid(a: _Value, b: _Value, c: _Value, d: _Value, /) -> Iterable[tuple[_Var, _Var, _Var, _Var]]: ...
@overload
def grid(a: _Value, b: _Value, c: _Value, d: _Value, e: _Value, /, *more: _Value) -> Iterable[tuple[_Var, ...]]: ...

# -- blocks

def block(name: str = "", no_realize: builtins.bool = False) -> _Scope: ...
def init() -> _Scope: ...
def where(predicate: _Value) -> None: ...
def reads(*regions: _Value) -> None: ...
def writes(*regions: _Value) -> None: ...
def block_attr(attrs: Mapping[str, Any]) -> None: ...

class _Axis:
    def spatial(self, dom: _Value, binding: _Value = None, dtype: str = "int32") -> _Var: ...
    def reduce(self, dom: _Value, binding: _Value = None, dtype: str = "int32") -> _Var: ...
    def scan(self, dom: _Value, binding: _Value = None, dtype: str = "int32") -> _Var: ...
    def opaque(self, dom: _Value, binding: _Value = None, dtype: str = "int32") -> _Var: ...
    def S(self, dom: _Value, binding: _Value = None, dtype: str = "int32") -> _Var: ...
    def R(self, dom: _Value, binding: _Value = None, dtype: str = "int32") -> _Var: ...
    def remap(self, kinds: str, bindings: Sequence[_Value], dtype: str = "int32") -> list[_Var]: ...

axis: _Axis

sblock = block
sblock_attr = block_attr
sblock_alloc_buffer = alloc_buffer

# -- other statements

def evaluate(value: _Value) -> None: ...
def buffer_store(buffer: _Buffer, value: _Value, indices: _Value, predicate: _Value = None) -> None: ...
def prefetch(buffer: _Buffer, bounds: _Value) -> None: ...
def attr(node: _Value, attr_key: str, value: _Value) -> _Scope: ...
def realize(region: _Value, storage_scope: str, condition: _Value = True) -> _Scope: ...
def launch_thread(thread: _Value, extent: _Value) -> _ScopedVar: ...
def env_thread(thread_tag: str, dtype: str = "int32") -> _Var: ...
def Assert(condition: _Value, message: str) -> _Scope: ...
def LetStmt(value: _Value, type_annotation: _Value = None, *, var: _Value = None) -> _ScopedVar: ...
def let(var: _Value, value: _Value, body: _Value = None) -> _PrimExpr: ...
def var(dtype: str, name: str = "") -> _Var: ...
def While(condition: _Value) -> _Scope: ...
def If(condition: _Value) -> _Scope: ...
def Then() -> _Scope: ...
def Else() -> _Scope: ...
