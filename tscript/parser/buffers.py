"""Buffers: parameters, views, allocations; the pointers behind them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tscript.ir.base import FrozenDict
from tscript.ir.buffer import Buffer
from tscript.ir.buffer import decl_buffer as make_buffer
from tscript.ir.construct import convert, convert_attr
from tscript.ir.dtype import DataType
from tscript.ir.expr import BufferLoad, ExprLike, IntImm, PointerType, PrimExpr, PrimType, Var
from tscript.ir.semantics import numpy_dtype
from tscript.ir.stmt import Allocate, AllocateConst, BufferRegion, DeclBuffer, MatchBufferRegion, Stmt
from tscript.parser.blocks import TRUE, BlockFrame, FunctionFrame, enclosing_block, enclosing_function, region_of
from tscript.parser.builder import Builder, Frame, current, find_current
from tscript.parser.diagnostics import fail
from tscript.support.errors import ScriptWarning
from tscript.support.wording import kind_of

Shape = Sequence[ExprLike] | ExprLike


def _nameless(
    shape: Shape,
    dtype: str,
    data: Var | None,
    strides: Sequence[ExprLike | str] | None,
    elem_offset: ExprLike | None,
    scope: str,
    align: int,
    offset_factor: int,
    buffer_type: str,
    axis_separators: Sequence[int | IntImm] | None,
) -> Buffer:
    """A buffer that gets its name when it is bound. Texts in `strides` stand for new variables."""
    builder = find_current()
    if data is not None and not isinstance(data, Var):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"the data of a buffer is a pointer variable, not {kind_of(data)}")
    span = None if builder is None else builder.span
    made = make_buffer(
        shape, dtype, "", data, strides, elem_offset, scope or "global", align, offset_factor, buffer_type,
        axis_separators, span,
    )  # fmt: skip
    if builder is not None and strides is not None:
        builder.named_strides.update(
            (v, None) for v, s in zip(made.strides, strides, strict=True) if isinstance(s, str)
        )
    return made


class BufferMaker:
    """`T.Buffer(shape, dtype, ...)`: the annotation of a parameter, or a view of existing memory in a body."""

    def __call__(
        self,
        shape: Shape,
        dtype: str = "float32",
        data: Var | None = None,
        strides: Sequence[ExprLike | str] | None = None,
        elem_offset: ExprLike | None = None,
        scope: str = "global",
        align: int = 0,
        offset_factor: int = 0,
        buffer_type: str = "",
        axis_separators: Sequence[int | IntImm] | None = None,
    ) -> Buffer:
        """A buffer of `shape` elements of type `dtype`; on `data` when a pointer is given."""
        return _nameless(
            shape, dtype, data, strides, elem_offset, scope, align, offset_factor, buffer_type, axis_separators
        )

    def __getitem__(self, key: Any) -> Buffer:
        warnings.warn("T.Buffer[...] is an old spelling; write T.Buffer(...)", ScriptWarning, stacklevel=2)
        parts: list[Any] = [*key] if isinstance(key, tuple) else [key]
        return self(*parts) if len(parts) > 1 and isinstance(parts[-1], str) else self(parts)


buffer_maker = BufferMaker()


def match_buffer(
    param: Any,
    shape: Shape | None = None,
    dtype: str | None = None,
    data: Var | None = None,
    strides: Sequence[ExprLike | str] | None = None,
    elem_offset: ExprLike | None = None,
    scope: str = "global",
    align: int = -1,
    offset_factor: int = 0,
    buffer_type: str = "default",
    axis_separators: Sequence[int | IntImm] | None = None,
) -> Buffer:
    """The buffer a handle parameter stands for; in a block, also a view of a region of another buffer.

    Of a parameter, `dtype` is float32 unless given; of a region, the buffer's, and `shape` the region's.
    """
    rest = (data, strides, elem_offset, scope, align, offset_factor, buffer_type, axis_separators)
    if isinstance(param, Var):
        frame = enclosing_function("T.match_buffer")
        if not any(param is p for p in frame.params):
            fail(
                f"T.match_buffer binds a parameter, and {param.name or 'the variable'} is none",
                None,
                "match a parameter, or use T.decl_buffer(shape, dtype, data=...) for a pointer",
            )
        if shape is None:
            fail("T.match_buffer of a parameter needs a shape", None, "write T.match_buffer(a, (16, 16), ...)")
        if param in frame.buffer_map:
            fail(f"parameter {param.name} is bound to a buffer already: {frame.buffer_map[param].name}", None)
        if not param.dtype.is_handle:
            fail(
                f"parameter {param.name} is {param.dtype!s}; only a handle stands for a buffer",
                None,
                "annotate it with T.handle",
            )
        buffer = _nameless(shape, dtype or "float32", *rest)
        frame.buffer_map[param] = buffer
        return buffer
    if isinstance(param, (BufferRegion, BufferLoad, Buffer)):
        source = region_of("T.match_buffer", param)
        block = enclosing_block(current(), "T.match_buffer of a region")
        if shape is None:
            shape = tuple(r.extent for r in source.region)
        buffer = _nameless(shape, dtype or source.buffer.dtype, *rest)
        block.match_buffers.append(MatchBufferRegion(buffer, source))
        return buffer
    raise TypeError(f"T.match_buffer takes a parameter or a region of a buffer, not {kind_of(param)}")


def alloc_buffer(
    shape: Shape,
    dtype: str = "float32",
    data: Var | None = None,
    strides: Sequence[ExprLike | str] | None = None,
    elem_offset: ExprLike | None = None,
    scope: str = "global",
    align: int = -1,
    offset_factor: int = 0,
    buffer_type: str = "default",
    axis_separators: Sequence[int | IntImm] | None = None,
) -> Buffer:
    """A buffer that lives in the surrounding block, or in the whole function at its top level."""
    builder = current()
    buffer = _nameless(
        shape, dtype, data, strides, elem_offset, scope, align, offset_factor, buffer_type, axis_separators
    )
    block = builder.innermost(BlockFrame)
    if block is not None:
        block.alloc_buffers.append(buffer)
        return buffer
    function = builder.innermost(FunctionFrame)
    if function is None:
        fail(
            "T.alloc_buffer belongs directly in a block or a function",
            None,
            "move it out of loops and branches, and above variables, assertions and T.allocate of that level",
        )
    function.root_buffers.append(buffer)
    return buffer


class DeclBufferFrame(Frame):
    """A buffer on existing memory, or with memory of its own."""

    __slots__ = ("allocates", "buffer")

    what = "T.decl_buffer"

    def __init__(self, buffer: Buffer, allocates: bool) -> None:
        super().__init__()
        self.buffer = buffer
        self.allocates = allocates

    def enter(self, builder: Builder) -> Buffer:
        """The buffer."""
        return self.buffer

    def declared(self) -> Iterable[Buffer]:
        """The buffer."""
        return (self.buffer,)

    def build(self, builder: Builder, body: Stmt) -> Stmt:
        """The declaration, inside an allocation if there is no memory yet."""
        b = self.buffer
        made = DeclBuffer(b, body, span=self.span)
        return Allocate(b.data, b.dtype, b.shape, TRUE, made, FrozenDict(), span=self.span) if self.allocates else made


def decl_buffer(
    shape: Shape,
    dtype: str = "float32",
    data: Var | None = None,
    strides: Sequence[ExprLike | str] | None = None,
    elem_offset: ExprLike | None = None,
    scope: str = "global",
    align: int = 0,
    offset_factor: int = 0,
    buffer_type: str = "",
    axis_separators: Sequence[int | IntImm] | None = None,
) -> DeclBufferFrame:
    """A buffer on the memory at `data`; without `data`, on memory allocated here."""
    buffer = _nameless(
        shape, dtype, data, strides, elem_offset, scope, align, offset_factor, buffer_type, axis_separators
    )
    return DeclBufferFrame(buffer, data is None)


def _extents(extents: Shape) -> tuple[PrimExpr, ...]:
    dims = list(extents) if isinstance(extents, (list, tuple)) else [extents]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    made = tuple(convert(d) for d in dims)
    for e in made:
        if not e.dtype.is_integer:
            raise TypeError(f"the extents of an allocation are integers, not {e.dtype!s}")
    return made


def _annotations(annotations: Mapping[str, Any] | None) -> FrozenDict:
    return FrozenDict({k: convert_attr(v) for k, v in (annotations or {}).items()})


def _pointer_to(dtype: DataType, scope: str) -> PointerType:
    # As for buffers: a bool takes a byte of memory.
    element = DataType("int8").with_lanes(dtype.lanes) if dtype.is_bool else dtype
    return PointerType(PrimType(element), scope)


class AllocateFrame(Frame):
    """Memory for the rest of the scope."""

    __slots__ = ("annotations", "condition", "dtype", "extents", "var")

    what = "T.allocate"

    def __init__(
        self, extents: Shape, dtype: str, scope: str, condition: ExprLike | None, annotations: Mapping[str, Any] | None
    ) -> None:
        super().__init__()
        self.extents = _extents(extents)
        self.dtype = DataType(dtype)
        self.condition = TRUE if condition is None else convert(condition)
        self.annotations = _annotations(annotations)
        self.var = Var("", _pointer_to(self.dtype, scope))

    def enter(self, builder: Builder) -> Var:
        """The pointer."""
        return self.var

    def build(self, builder: Builder, body: Stmt) -> Stmt:
        """The allocation around the body."""
        return Allocate(self.var, self.dtype, self.extents, self.condition, body, self.annotations, span=self.span)


def allocate(
    extents: Shape,
    dtype: str,
    scope: str = "global",
    condition: ExprLike | None = None,
    annotations: Mapping[str, Any] | None = None,
) -> AllocateFrame:
    """Memory for `extents` elements of type `dtype`; binds a pointer."""
    return AllocateFrame(extents, dtype, scope, condition, annotations)


def _constant_data(data: Any, dtype: DataType, extents: tuple[PrimExpr, ...]) -> np.ndarray[Any, Any]:
    """`data` as an array of a type and shape. Raises ValueError or TypeError where something would be lost."""
    shape: list[int] = []
    for e in extents:
        if not isinstance(e, IntImm):
            raise TypeError(f"the extents of T.allocate_const are constants, not {e}")
        shape.append(e.value)
    given: Any = np.asarray(data.asnumpy() if hasattr(data, "asnumpy") else data)
    if given.dtype.kind not in "biufV" or given.dtype.names:
        raise TypeError(f"the data of T.allocate_const is made of numbers, not {kind_of(data)}")
    if given.size != math.prod(shape):
        raise ValueError(f"T.allocate_const got {given.size} numbers for {math.prod(shape)} elements")
    made: Any = given.astype(numpy_dtype(dtype))
    if dtype.is_integer and not np.array_equal(made.astype(given.dtype), given):
        raise ValueError(f"the data of T.allocate_const holds numbers that {dtype!s} does not")
    return made.reshape(shape)


class AllocateConstFrame(Frame):
    """Constant memory for the rest of the scope."""

    __slots__ = ("annotations", "data", "dtype", "extents", "var")

    what = "T.allocate_const"

    def __init__(self, data: Any, dtype: str, extents: Shape, annotations: Mapping[str, Any] | None) -> None:
        super().__init__()
        self.dtype = DataType(dtype)
        self.extents = _extents(extents)
        self.data = _constant_data(data, self.dtype, self.extents)
        self.annotations = _annotations(annotations)
        self.var = Var("", _pointer_to(self.dtype, "global"))

    def enter(self, builder: Builder) -> Var:
        """The pointer."""
        return self.var

    def build(self, builder: Builder, body: Stmt) -> Stmt:
        """The constant around the body."""
        return AllocateConst(self.var, self.dtype, self.extents, self.data, body, self.annotations, span=self.span)


def allocate_const(
    data: Any, dtype: str, extents: Shape, annotations: Mapping[str, Any] | None = None
) -> AllocateConstFrame:
    """Constant memory that holds `data` (numbers, nested as `extents` say or flat); binds a pointer."""
    return AllocateConstFrame(data, dtype, extents, annotations)


def pointer(dtype: str, storage_scope: str = "global") -> Var:
    """A pointer to elements of type `dtype` (old spelling of `T.handle(dtype, storage_scope)`)."""
    return Var("", PointerType(PrimType(DataType(dtype)), storage_scope))


def variable(dtype: str, name: str = "") -> Var:
    """A variable of type `dtype` (old spelling of `T.int32()` and the like)."""
    return Var(name, DataType(dtype))


def buffer_decl(*args: Any, **kwargs: Any) -> Buffer:
    """Old spelling of `T.Buffer(...)`."""
    return buffer_maker(*args, **kwargs)
