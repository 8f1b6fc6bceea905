"""A buffer moves to another sort of memory."""

from __future__ import annotations

from tscript.ir.buffer import Buffer
from tscript.ir.stmt import Block
from tscript.schedule.buffers import accessed, buffer_index, require_allocation, require_storage_scope
from tscript.schedule.core import ScheduleCore
from tscript.schedule.instruction import InstructionKind, attr, block
from tscript.schedule.primitive import primitive
from tscript.schedule.rewrite import replace_buffers, with_scope
from tscript.schedule.rv import BlockRV


@primitive(InstructionKind("SetScope", "set_scope", (block(), attr("buffer_index"), attr("storage_scope"))))
def set_scope(s: ScheduleCore, block: BlockRV | str, buffer_index: int | str | Buffer, storage_scope: str) -> None:
    """Put a buffer that a block writes into `storage_scope`; it is called `<buffer>_<scope>` from then on.

    The buffer is given by its place among the writes of the block, by name, or itself, and must be allocated by a
    block. Views of it follow. Nothing changes where it is in that scope already.

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
    >>> sch.set_scope("B", 0, "shared")
    >>> sch.get(sch.get_block("C")).reads
    (B_shared[v],)
    """
    scope = require_storage_scope(storage_scope)
    target = s.block(block)  # pyright: ignore[reportArgumentType]
    index = _index(target.block, buffer_index)
    buffer = accessed(target.block, index, "write").buffer
    site = require_allocation(target, buffer)
    s.record_as(buffer_index=index)
    if buffer.scope() == scope:
        return
    new, reuse = replace_buffers(site.block, {buffer: with_scope(buffer, scope)}, definitions=True)
    s.state.replace(site, new, reuse)


def _index(block: Block, buffer: int | str | Buffer) -> int:
    return buffer_index(block, buffer, "write")
