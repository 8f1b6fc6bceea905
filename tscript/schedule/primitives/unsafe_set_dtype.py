"""A buffer holds values of another type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tscript.ir.buffer import Buffer
from tscript.ir.dtype import BOOL, DataType
from tscript.ir.expr import BufferLoad, Cast, PointerType, PrimExpr, PrimType, Var
from tscript.ir.functor import pre_order_visit
from tscript.ir.stmt import Block, BufferStore, Stmt
from tscript.schedule.buffers import accessed, buffer_index, require_allocation
from tscript.schedule.core import ScheduleCore
from tscript.schedule.errors import refuse
from tscript.schedule.instruction import InstructionKind, attr, block
from tscript.schedule.primitive import primitive
from tscript.schedule.relayout import require_plain_accesses
from tscript.schedule.rewrite import ReplaceBuffers
from tscript.schedule.rv import BlockRV

_KIND = InstructionKind("UnsafeSetDType", "unsafe_set_dtype", (block(), attr("buffer_index"), attr("dtype")))
_WHY = "its elements would be of another type there"


@primitive(_KIND)
def unsafe_set_dtype(s: ScheduleCore, block: BlockRV | str, buffer_index: int | str | Buffer, dtype: str) -> None:
    """Let a buffer that a block writes hold values of `dtype`: stores convert to it, loads convert back.

    The buffer is given by its place among the writes of the block, by name, or itself, and must be allocated by a
    block. Views of it follow. Nothing changes where it holds that type already. Results may differ by what the
    type cannot hold, which is why the step is called unsafe.

    >>> import tscript
    >>> from tscript.script import tir as T
    >>> @T.prim_func
    ... def func(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    ...     B = T.alloc_buffer((8,))
    ...     for i in range(8):
    ...         with T.block("B"):
    ...             v = T.axis.spatial(8, i)
    ...             B[v] = A[v]
    ...         with T.block("C"):
    ...             v = T.axis.spatial(8, i)
    ...             C[v] = B[v]
    >>> sch = tscript.tir.Schedule(func)
    >>> sch.unsafe_set_dtype("B", 0, "float16")
    >>> print(sch.get(sch.get_block("C")).body.value)
    T.Cast("float32", B[v])
    """
    target = s.block(block)  # pyright: ignore[reportArgumentType]
    index = _index(target.block, buffer_index)
    old = accessed(target.block, index, "write").buffer
    site = require_allocation(target, old)
    wanted = _value_type(dtype)
    s.record_as(buffer_index=index, dtype=str(wanted))
    if old.dtype is wanted:
        return
    if old.dtype.lanes != wanted.lanes:
        refuse(f"`{old.name}` holds {old.dtype!s}, which cannot be kept as {wanted!s}: the lanes differ", target.block)
    changes = _retyped(site.block, old, wanted)
    for b in changes:
        _require_no_pointer(site.block, b, changes)
    rewriter = _Retype(changes)
    s.state.replace(site, rewriter.rewrite_Block(site.block), rewriter.block_reuse)


def _index(block: Block, buffer: int | str | Buffer) -> int:
    return buffer_index(block, buffer, "write")


def _value_type(dtype: str) -> DataType:
    if not isinstance(dtype, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f'a type of values is a text such as "float16", not {dtype!r}')
    try:
        found = DataType(dtype)
    except (ValueError, TypeError) as e:
        refuse(f"there is no type {dtype!r}: {str(e).replace('{', '{{').replace('}', '}}')}")
    if found.is_handle or dtype == "void":
        refuse(f"a buffer cannot hold values of type {dtype}")
    return found


def _with_dtype(buffer: Buffer, dtype: DataType) -> Buffer:
    pointer = buffer.data.type_annotation
    assert isinstance(pointer, PointerType)
    element = DataType("int8").with_lanes(dtype.lanes) if dtype.element is BOOL else dtype
    data = Var(buffer.data.name, PointerType(PrimType(element), pointer.storage_scope))
    return buffer.replace(data=data, dtype=dtype)


def _retyped(block: Block, buffer: Buffer, dtype: DataType) -> dict[Buffer, Buffer]:
    """What becomes of a buffer, and of its views and theirs."""
    found = {buffer: _with_dtype(buffer, dtype)}

    def look(node: object) -> bool:
        for m in node.match_buffers if isinstance(node, Block) else ():
            if m.source.buffer in found:
                found[m.buffer] = _with_dtype(m.buffer, dtype)
        return True

    pre_order_visit(block, look)
    return found


def _require_no_pointer(root: Block, buffer: Buffer, known: Mapping[Buffer, Buffer]) -> None:
    """Refuse a buffer whose memory is used otherwise than by loads, stores and views."""
    require_plain_accesses(root, buffer, _WHY, views=known, vectors=True)


class _Retype(ReplaceBuffers):
    """Converts what is stored to buffers of another type, and what is loaded from them."""

    def __init__(self, buffers: Mapping[Buffer, Buffer]) -> None:
        super().__init__(buffers, definitions=True)
        self.wanted = dict(buffers)

    def rewrite_BufferLoad(self, node: BufferLoad) -> PrimExpr:
        """A load, converted back."""
        indices = tuple(self.rewrite(i) for i in node.indices)
        predicate = None if node.predicate is None else self.rewrite(node.predicate)
        new = BufferLoad(self.rewrite(node.buffer), indices, predicate)
        return Cast(node.dtype, new) if node.buffer in self.wanted else new

    def rewrite_BufferStore(self, node: BufferStore) -> Stmt:
        """A store, of the converted value."""
        changes: dict[str, Any] = {
            "buffer": self.rewrite(node.buffer),
            "value": self.rewrite(node.value),
            "indices": tuple(self.rewrite(i) for i in node.indices),
            "predicate": None if node.predicate is None else self.rewrite(node.predicate),
        }
        if node.buffer in self.wanted:
            lanes = node.value.dtype.lanes
            changes["value"] = Cast(self.wanted[node.buffer].dtype.with_lanes(lanes), changes["value"])
        return node.replace(**changes)
