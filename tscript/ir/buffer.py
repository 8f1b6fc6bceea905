"""Buffers: typed, shaped views of memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NoReturn, TypeGuard, overload

from tscript.ir.base import Node, converted
from tscript.ir.construct import add, call_intrin, cast, convert, floordiv, int_div_exact, mul, simple_sub
from tscript.ir.dtype import BOOL, INT32, DataType
from tscript.ir.expr import (
    BufferLoad,
    ExprLike,
    IntImm,
    PointerType,
    PrimExpr,
    PrimType,
    Ramp,
    Range,
    Shuffle,
    Var,
    integers_wanted,
)
from tscript.ir.stmt import BufferRegion, BufferStore
from tscript.support.span import Span
from tscript.support.wording import kind_of

AccessMask = {"r": 1, "w": 2, "rw": 3, "wr": 3}


class Buffer(Node):
    """A view of memory: `shape` elements of `dtype` at pointer `data`.

    Fields: `data` (pointer variable), `dtype`, `shape`, `strides` (elements; empty = row-major and
    compact), `elem_offset` (elements), `name`, `data_alignment` (bytes), `offset_factor` (elem_offset is
    a multiple of it), `buffer_type` (1 plain, 2 broadcasting), `axis_separators`.
    """

    data: Var
    dtype: DataType = converted(converter=DataType)
    shape: tuple[PrimExpr, ...]
    strides: tuple[PrimExpr, ...]
    elem_offset: PrimExpr
    name: str
    data_alignment: int = 64
    offset_factor: int = 1
    buffer_type: int = 1
    axis_separators: tuple[IntImm, ...] = ()
    span: Span | None = None

    @staticmethod
    def _coerce(data: Var, dtype: str, *rest: Any) -> tuple[Any, ...]:
        return data, DataType(dtype), *rest

    def _check(self) -> None:
        if self.strides and len(self.strides) != len(self.shape):
            raise ValueError(f"{_called(self.name)} has {len(self.shape)} dimensions but {len(self.strides)} strides")
        for what, values in (("shape", self.shape), ("strides", self.strides)):
            for v in values:
                if not v.dtype.is_integer or v.dtype.lanes != 1:
                    raise TypeError(
                        f"the {what} of {_called(self.name)} holds {v} of type {v.dtype!s}; integers are needed"
                    )
        if not self.data.dtype.is_handle:
            raise TypeError(
                f"the data of {_called(self.name)} is a pointer, not {self.data} of type {self.data.dtype!s}"
            )

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def instead_of_value(self) -> str:
        """What to write where a value is wanted."""
        return f"name an element of it, as in {self.element_text()}"

    def element_text(self) -> str:
        """An element as programs write it: `A[i, j]`."""
        return f"{self.name or 'A'}[{', '.join('ijklmnpq'[: self.ndim]) or '()'}]"

    def scope(self) -> str:
        """The storage scope: "global", "shared", "local", ..."""
        annotation = self.data.type_annotation
        return annotation.storage_scope if isinstance(annotation, PointerType) else "global"

    @overload
    def __getitem__(self, key: ExprLike | tuple[ExprLike, ...]) -> PrimExpr: ...
    @overload
    def __getitem__(self, key: Any) -> Any: ...
    def __getitem__(self, key: Any) -> Any:
        return subscript(self, key)

    # Kernels store by subscript: to a checker this is an assignment like any other.
    def __setitem__(self, key: Any, value: Any) -> None:
        raise TypeError(
            f"a store to buffer {self.name} is a statement of a kernel: "
            "write it in a function decorated with @T.prim_func (or use T.buffer_store)"
        )

    def __iter__(self) -> NoReturn:
        raise TypeError(f"buffer {self.name} cannot be iterated over; loop over its indices")

    def vload(
        self, begin: Sequence[ExprLike] | ExprLike, dtype: str | None = None, predicate: PrimExpr | None = None
    ) -> PrimExpr:
        """A load of a vector of type `dtype` that starts at `begin` and runs along the last dimension.

        Of a compact buffer it goes on with the next rows, where numbers tell that it is longer than the rest of its
        row: these are loads of parts of rows, joined.
        """
        indices = self._vector_indices(begin, dtype)
        parts = self._rows_of(indices) if predicate is None else []
        if not parts:
            return BufferLoad(self, indices, predicate)
        lanes = sum(p.dtype.lanes for p in parts)
        return Shuffle(tuple(parts), tuple(IntImm(INT32, k) for k in range(lanes)))

    def _rows_of(self, indices: tuple[PrimExpr, ...]) -> list[PrimExpr]:
        """The parts of rows that a vector is made of; none where it stays in one row, or that cannot be told."""
        *outer, last = indices
        if not (outer and isinstance(last, Ramp) and not self.strides and len(indices) == len(self.shape)):
            return []
        width, start, step = self.shape[-1], last.base, last.stride
        if not (isinstance(width, IntImm) and isinstance(start, IntImm) and isinstance(step, IntImm)):
            return []
        at, end = start.value, start.value + last.lanes
        if step.value != 1 or at < 0 or end <= width.value or self.dtype.lanes != 1:
            return []
        parts: list[PrimExpr] = []
        while at < end:
            row, column = divmod(at, width.value)
            count = min(width.value - column, end - at)
            place: PrimExpr = IntImm(start.dtype, column)
            if count > 1:
                place = Ramp(place, IntImm(start.dtype, 1), count)
            parts.append(BufferLoad(self, (*outer[:-1], add(outer[-1], row), place)))
            at += count
        return parts

    def vstore(
        self, begin: Sequence[ExprLike] | ExprLike, value: ExprLike, predicate: PrimExpr | None = None
    ) -> BufferStore:
        """A store of a vector that starts at `begin` and runs along the last dimension."""
        expr = convert(value)
        return BufferStore(self, expr, self._vector_indices(begin, expr.dtype), predicate)

    def _vector_indices(self, begin: Sequence[ExprLike] | ExprLike, dtype: str | None) -> tuple[PrimExpr, ...]:
        starts = [convert(b) for b in (begin if isinstance(begin, (tuple, list)) else [begin])]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        lanes = DataType(dtype).lanes // self.dtype.lanes if dtype is not None else 1
        if lanes > 1 and starts[-1].dtype.lanes == 1:
            starts[-1] = Ramp(starts[-1], IntImm(starts[-1].dtype, 1), lanes)
        return tuple(starts)

    def access_ptr(
        self,
        access_mask: str | int,
        ptr_type: str = "handle",
        content_lanes: int = 1,
        offset: ExprLike = 0,
        extent: ExprLike | None = None,
    ) -> PrimExpr:
        """A pointer to the elements from `offset` on, for an intrinsic that reads "r", writes "w" or both "rw"."""
        if isinstance(access_mask, str):
            if access_mask not in AccessMask:
                raise ValueError(f"unknown access mask {access_mask!r}; choose from 'r', 'w', 'rw'")
            access_mask = AccessMask[access_mask]
        start = add(self.elem_offset, offset)
        size: PrimExpr = convert(1)
        if extent is not None:
            size = convert(extent)
        else:
            if self.strides:
                size = mul(self.strides[0], self.shape[0])
            else:
                for s in self.shape:
                    size = mul(size, s)
            size = simple_sub(size, convert(offset))
        dtype = self.dtype
        if content_lanes > 1:
            size = int_div_exact(size, content_lanes)
            start = floordiv(start, content_lanes)
            dtype = dtype.with_lanes(dtype.lanes * content_lanes)
        return call_intrin(
            ptr_type,
            "tir.tvm_access_ptr",
            call_intrin(dtype, "tir.type_annotation"),
            self.data,
            start,
            size,
            access_mask,
        )

    def offset_of(self, indices: Iterable[ExprLike]) -> PrimExpr:
        """The element offset, from `data`, of the element at `indices`."""
        total: PrimExpr = self.elem_offset
        for index, stride in zip([convert(i) for i in indices], self.effective_strides(), strict=True):
            total = add(total, mul(index, stride))
        return total

    def effective_strides(self) -> tuple[PrimExpr, ...]:
        """`strides`, or those of a compact row-major layout when there are none."""
        if self.strides or not self.shape:
            return self.strides
        result: list[PrimExpr] = [IntImm(self.shape[-1].dtype, 1)]
        for extent in reversed(self.shape[1:]):
            result.append(mul(extent, result[-1]))
        return tuple(reversed(result))

    def full_region(self) -> BufferRegion:
        """The region of all elements."""
        return BufferRegion(self, tuple(Range.from_min_extent(IntImm(s.dtype, 0), s) for s in self.shape))


def subscript(buffer: Buffer, key: Any) -> BufferLoad | BufferRegion:
    """What `buffer[key]` means: a load; with a slice and no step, a region; with a step, a vector load."""
    keys: tuple[Any, ...] = key if isinstance(key, tuple) else (key,)  # pyright: ignore[reportUnknownVariableType]
    if len(keys) != buffer.ndim:
        raise ValueError(_wrong_rank(buffer, len(keys)))
    if any(_is_slice(k) and k.step is None for k in keys):
        return BufferRegion(buffer, tuple(_as_range(buffer, d, k) for d, k in enumerate(keys)))
    return BufferLoad(buffer, tuple(_as_index(buffer, d, k) for d, k in enumerate(keys)))


def _wrong_rank(buffer: Buffer, count: int) -> str:
    dimensions = "1 dimension" if buffer.ndim == 1 else f"{buffer.ndim} dimensions"
    given = "1 subscript was" if count == 1 else f"{count} subscripts were"
    right = ", ".join("ijklmnpq"[: buffer.ndim]) if 0 < buffer.ndim <= 8 else "..." if buffer.ndim else "()"
    return f"{buffer.name} has {dimensions}, but {given} given; write {buffer.name}[{right}]"


def _is_slice(key: Any) -> TypeGuard[slice[Any, Any, Any]]:
    return isinstance(key, slice)


def _bounds(buffer: Buffer, dim: int, key: slice[Any, Any, Any]) -> tuple[PrimExpr, PrimExpr]:
    start = IntImm(buffer.shape[dim].dtype, 0) if key.start is None else _integer(buffer, dim, key.start)
    stop = buffer.shape[dim] if key.stop is None else _integer(buffer, dim, key.stop)
    return start, stop


def _as_range(buffer: Buffer, dim: int, key: Any) -> Range:
    if _is_slice(key):
        if key.step is not None and key.step != 1:
            raise ValueError(f"a region of {buffer.name} takes no step other than 1")
        start, stop = _bounds(buffer, dim, key)
        return Range.from_min_extent(start, simple_sub(stop, start))
    index = _integer(buffer, dim, key)
    return Range.from_min_extent(index, IntImm(index.dtype.element, 1))


def _as_index(buffer: Buffer, dim: int, key: Any) -> PrimExpr:
    if not _is_slice(key):
        return _integer(buffer, dim, key)
    start, stop = _bounds(buffer, dim, key)
    step = convert(key.step)
    if isinstance(step, IntImm) and step.value == 0:
        raise ValueError(f"the step of a slice of {buffer.name} is 0")
    lanes = floordiv(simple_sub(add(stop, simple_sub(step, convert(1))), start), step)
    if not isinstance(lanes, IntImm):
        raise ValueError(f"a vector of {buffer.name} needs a constant number of lanes, not {lanes}")
    if lanes.value < 1:
        raise ValueError(f"the slice of {buffer.name} is empty")
    return start if lanes.value == 1 else Ramp(start, cast(step, start.dtype), lanes.value)


def _integer(buffer: Buffer, dim: int, key: Any) -> PrimExpr:
    if isinstance(key, bool):
        raise TypeError(f"subscript {dim} of {buffer.name} is {key!r}; subscripts are integers, so write {int(key)}")
    if isinstance(key, (float, str)) or key is None:
        raise TypeError(f"subscript {dim} of {buffer.name} is {key!r}; subscripts are integers")
    try:
        index = convert(key)
    except TypeError:
        raise TypeError(f"subscript {dim} of {buffer.name} is {kind_of(key)}; subscripts are integers") from None
    if not index.dtype.is_integer:
        raise TypeError(f"subscript {dim} of {buffer.name} is {index.dtype!s}; {integers_wanted(index.dtype)}")
    return index


def decl_buffer(
    shape: Sequence[ExprLike] | ExprLike,
    dtype: str = "float32",
    name: str = "buffer",
    data: Var | None = None,
    strides: Sequence[ExprLike | str] | None = None,
    elem_offset: ExprLike | None = None,
    scope: str = "",
    data_alignment: int = -1,
    offset_factor: int = 0,
    buffer_type: str = "",
    axis_separators: Sequence[int | IntImm] | None = None,
    span: Span | None = None,
) -> Buffer:
    """A new buffer, with the defaults of `tir.decl_buffer`.

    `shape` is one integer or a sequence. A text in `strides` makes a new variable. `offset_factor`
    without `elem_offset` makes a variable `elem_offset`. Raises TypeError or ValueError for a wrong type
    of dimension, or strides of another rank.

    >>> decl_buffer((4, 8), "int8", name="A").scope()
    'global'
    """
    dims: Sequence[ExprLike] = shape if isinstance(shape, Sequence) else (shape,)
    extents = tuple(_dimension(name, d) for d in dims)
    kind = DataType(dtype)
    index_dtype = extents[0].dtype if extents else INT32
    if data is None:
        element = DataType("int8").with_lanes(kind.lanes) if kind.element is BOOL else kind
        data = Var(name, PointerType(PrimType(element), scope or "global"))
    steps = tuple(Var(s, index_dtype) if isinstance(s, str) else _dimension(name, s) for s in strides or ())
    if elem_offset is None:
        offset: PrimExpr = Var("elem_offset", index_dtype) if offset_factor != 0 else IntImm(index_dtype, 0)
    else:
        offset = convert(elem_offset)
    separators = tuple(s if isinstance(s, IntImm) else IntImm("int32", s) for s in axis_separators or ())
    return Buffer(
        data,
        kind,
        extents,
        steps,
        offset,
        name,
        data_alignment if data_alignment > 0 else 64,
        offset_factor if offset_factor > 0 else 1,
        2 if buffer_type in ("auto", "auto_broadcast") else 1,
        separators,
        span,
    )


def _dimension(name: str, value: ExprLike) -> PrimExpr:
    if isinstance(value, bool) or not isinstance(value, (int, PrimExpr)):
        raise TypeError(f"a dimension of {_called(name)} is an integer, not {_shown(value) or kind_of(value)}")
    if isinstance(value, int) and value < 0:
        raise ValueError(f"a dimension of {_called(name)} is {value}; it cannot be negative")
    if isinstance(value, PrimExpr) and not value.dtype.is_integer:
        raise TypeError(f"a dimension of {_called(name)} is an integer, not {value.dtype!s}")
    return convert(value)


def _called(name: str) -> str:
    return f"buffer {name}" if name else "the buffer"


def _shown(value: object) -> str:
    """A number or text as it was written; empty for other things."""
    return repr(value) if isinstance(value, (bool, int, float, str)) else ""
