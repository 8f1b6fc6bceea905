"""Buffers become flat: one dimension, no strides, no offset.

The flat index, a sum of products, is computed in int32 only where bounds prove that no step of it can leave
int32; else in int64, from its terms on.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from tscript.arith.const_bound import Bound, const_bound
from tscript.ir import expr as ex
from tscript.ir.buffer import Buffer
from tscript.ir.construct import add, cast, const, max_, mul, sub
from tscript.ir.dtype import INT32, INT64, DataType, int_range
from tscript.ir.expr import Broadcast, BufferLoad, IntImm, PrimExpr, Ramp, Range, Var
from tscript.ir.function import PrimFunc
from tscript.ir.functor import Rewriter
from tscript.ir.stmt import Allocate, BufferStore, DeclBuffer, For, LetStmt, Prefetch
from tscript.lower.indices import plain_index
from tscript.support.errors import LoweringError

_MAX_BYTES: Final = (1 << 63) - 1
_WIDENED: Final = (ex.Add, ex.Sub, ex.Mul)


def flatten_buffers(func: PrimFunc) -> PrimFunc:
    """Make every access one of a flat buffer. Parameters keep their declaration beside a flat alias.

    Raises LoweringError for a buffer of more bytes than an address can count.
    """
    flattener = _Flatten()
    body = flattener.rewrite(func.body)
    for buffer in reversed(tuple(func.buffer_map.values())):
        flat = flattener.map_buffer(buffer)
        if flat is not buffer and buffer in flattener.accessed:
            body = DeclBuffer(flat, body)
    return func.replace(body=body)


class _Flatten(Rewriter):
    # What an index becomes depends on the bounds of the loops around it.
    memoize = False

    def __init__(self) -> None:
        super().__init__()
        self._bounds: dict[Var, Bound] = {}
        self.accessed: dict[Buffer, None] = {}

    # -- bounds ----------------------------------------------------------------------------------

    def rewrite_For(self, loop: For) -> Any:
        start, extent = const_bound(loop.min, self._bounds), const_bound(loop.extent, self._bounds)
        last = None if start.high is None or extent.high is None else start.high + max(extent.high, 1) - 1
        self._bounds[loop.loop_var] = Bound(start.low, last)
        return self.rewrite_children(loop)

    def rewrite_LetStmt(self, let: LetStmt) -> Any:
        if let.var.dtype.is_integer and let.var.dtype.lanes == 1:
            self._bounds[let.var] = const_bound(let.value, self._bounds)
        return self.rewrite_children(let)

    # -- buffers ---------------------------------------------------------------------------------

    def rewrite_buffer(self, buffer: Buffer) -> Buffer:
        require_addressable(buffer)
        if len(buffer.shape) == 1 and not buffer.strides and _is_zero(buffer.elem_offset):
            return buffer
        size = _flat_size(buffer)
        return buffer.replace(shape=(size,), strides=(), elem_offset=IntImm(size.dtype, 0), axis_separators=())

    def rewrite_Allocate(self, s: Allocate) -> Any:
        s = self.rewrite_children(s)
        sizes = [e.value for e in s.extents if isinstance(e, IntImm)]
        require_bytes(s.buffer_var.name, s.dtype, sizes)
        if len(sizes) != len(s.extents):
            # The back end multiplies with a check for overflow, which a product in the IR would hide.
            return s
        return s.replace(extents=(_product(s.extents),)) if len(s.extents) != 1 else s

    def rewrite_BufferLoad(self, load: BufferLoad) -> Any:
        indices = self._indices(load)
        predicate = None if load.predicate is None else self.rewrite(load.predicate)
        return BufferLoad(self.map_buffer(load.buffer), indices, predicate)

    def rewrite_BufferStore(self, store: BufferStore) -> Any:
        indices = self._indices(store)
        predicate = None if store.predicate is None else self.rewrite(store.predicate)
        return store.replace(
            buffer=self.map_buffer(store.buffer), value=self.rewrite(store.value), indices=indices, predicate=predicate
        )

    def rewrite_Prefetch(self, s: Prefetch) -> Any:
        (index,) = self._indices(BufferLoad(s.buffer, tuple(r.min for r in s.bounds)))
        return s.replace(
            buffer=self.map_buffer(s.buffer), bounds=(Range.from_min_extent(index, const(1, index.dtype)),)
        )

    def _indices(self, access: Any) -> tuple[PrimExpr, ...]:
        buffer: Buffer = access.buffer
        self.accessed[buffer] = None
        indices = [plain_index(self.rewrite(i), self._bounds) for i in access.indices]
        wide = _offset(buffer, [widened(i) for i in indices], INT64)
        assert wide is not None
        # Asked of the wide form, in which constants have not wrapped.
        narrow = _offset(buffer, indices, INT32) if fits_int32(wide, self._bounds) else None
        return (wide if narrow is None else narrow,)


def _offset(buffer: Buffer, indices: list[PrimExpr], dtype: DataType) -> PrimExpr | None:
    if dtype is INT64:
        strides, total = _wide_strides(buffer), widened(buffer.elem_offset)
    else:
        strides, total = tuple(map(_narrow, buffer.effective_strides())), _narrow(buffer.elem_offset)
        indices = [_narrow(i) for i in indices]
        if any(p.dtype.element is not INT32 for p in (*indices, *strides, total)):
            return None
    for index, stride in zip(indices, strides, strict=True):
        total = _sum(total, _scaled(index, stride))
    return total


def _narrow(e: PrimExpr) -> PrimExpr:
    """A constant in int32, where it fits; other expressions as they are."""
    low, high = int_range(INT32)
    return IntImm(INT32, e.value) if isinstance(e, IntImm) and low <= e.value <= high else e


def _wide_strides(buffer: Buffer) -> tuple[PrimExpr, ...]:
    if buffer.strides:
        return tuple(widened(s) for s in buffer.strides)
    result: list[PrimExpr] = [const(1, "int64")] if buffer.shape else []
    for extent in reversed(buffer.shape[1:]):
        result.append(mul(widened(extent), result[-1]))
    return tuple(reversed(result))


def _scaled(index: PrimExpr, by: PrimExpr) -> PrimExpr:
    if isinstance(index, Ramp):
        return Ramp(mul(index.base, by), mul(index.stride, by), index.lanes)
    if isinstance(index, Broadcast):
        return Broadcast(mul(index.value, by), index.lanes)
    return mul(index, by)


def _sum(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    if isinstance(b, Ramp) and a.dtype.lanes == 1:
        return Ramp(add(a, b.base), b.stride, b.lanes)
    if isinstance(b, Broadcast) and a.dtype.lanes == 1:
        return Broadcast(add(a, b.value), b.lanes)
    return add(a, b)


# -- width of indices -------------------------------------------------------------------------------


def fits_int32(e: PrimExpr, bounds: dict[Var, Bound]) -> bool:
    """Whether no arithmetic in the index `e` can leave int32, as bounds show."""
    low, high = int_range(INT32)
    stack = [e]
    while stack:
        node = stack.pop()
        if isinstance(node, Ramp):
            steps = mul(node.stride, const(node.lanes - 1, node.stride.dtype))
            stack += [add(node.base, steps), node.base, node.stride]
        elif isinstance(node, Broadcast):
            stack.append(node.value)
        elif isinstance(node, IntImm):
            if not low <= node.value <= high:
                return False
        elif isinstance(node, _WIDENED):
            if node.dtype.lanes != 1:
                return False
            found = const_bound(node, bounds)
            if found.low is None or found.high is None or found.low < low or found.high > high:
                return False
            stack += [node.a, node.b]
    return True


def widened(e: PrimExpr) -> PrimExpr:
    """The index `e` with its sums and products computed in int64.

    What stands below another operator, such as `%`, keeps its type: there a wrapped value could be a valid
    index, while the wrapped value of a whole index is not one.
    """
    done: dict[PrimExpr, PrimExpr] = {}
    stack = [(e, False)]
    while stack:
        node, ready = stack.pop()
        parts = _widened_parts(node)
        if ready or not parts:
            done[node] = _widened_node(node, [done[p] for p in parts])
        elif node not in done:
            stack.append((node, True))
            stack.extend((p, False) for p in parts)
    return done[e]


def _widened_parts(e: PrimExpr) -> tuple[PrimExpr, ...]:
    if e.dtype.element is INT64:
        return ()
    if isinstance(e, Ramp):
        return e.base, e.stride
    if isinstance(e, Broadcast):
        return (e.value,)
    return (e.a, e.b) if isinstance(e, _WIDENED) and e.dtype.is_int else ()


def _widened_node(e: PrimExpr, parts: list[PrimExpr]) -> PrimExpr:
    if isinstance(e, _WIDENED) and parts:
        build: dict[type[PrimExpr], Callable[..., PrimExpr]] = {ex.Add: add, ex.Sub: sub, ex.Mul: mul}
        return build[type(e)](*parts)
    if isinstance(e, Ramp) and parts:
        return Ramp(parts[0], parts[1], e.lanes)
    if isinstance(e, Broadcast) and parts:
        return Broadcast(parts[0], e.lanes)
    return cast(e, INT64.with_lanes(e.dtype.lanes))


# -- sizes ------------------------------------------------------------------------------------------


def require_addressable(buffer: Buffer) -> None:
    """Raise LoweringError for a buffer whose constant size is beyond what an address can count."""
    require_bytes(buffer.name, buffer.dtype, [s.value for s in buffer.shape if isinstance(s, IntImm)])


def require_bytes(name: str, dtype: DataType, extents: list[int]) -> None:
    """Raise LoweringError if `extents` (all, or the constant ones) give more than 2**63 - 1 bytes."""
    total = dtype.bytes * dtype.lanes
    for n in extents:
        if n < 0:
            raise LoweringError(f"the buffer {name} has a negative extent, {n}")
        total *= n
    if total > _MAX_BYTES:
        shape = ", ".join(map(str, extents))
        raise LoweringError(
            f"the buffer {name} of shape ({shape}) and type {dtype!s} takes {total} bytes; memory is addressed up to "
            f"2**63 - 1 bytes\n  try: make its extents smaller"
        )


def _flat_size(buffer: Buffer) -> PrimExpr:
    if not buffer.strides:
        return _product(buffer.shape)
    # Up to the last element: memory need not go on to the end of a row.
    total: PrimExpr = widened(buffer.elem_offset)
    for extent, stride in zip(buffer.shape, buffer.strides, strict=True):
        total = add(total, mul(max_(sub(widened(extent), 1), 0), widened(stride)))
    total = add(total, 1)
    return const(total.value) if isinstance(total, IntImm) else total


def _product(shape: tuple[PrimExpr, ...]) -> PrimExpr:
    constants = [s.value for s in shape if isinstance(s, IntImm)]
    if len(constants) == len(shape):
        return const(math.prod(constants))
    wide: PrimExpr = const(1, INT64)
    for s in shape:
        wide = mul(wide, widened(s))
    return wide


def _is_zero(e: PrimExpr) -> bool:
    return isinstance(e, IntImm) and e.value == 0
