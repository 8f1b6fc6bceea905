"""Which buffer of a block an argument means, where it is allocated, and which storage scopes there are."""

from __future__ import annotations

from collections.abc import Sequence

from tscript.ir.buffer import Buffer
from tscript.ir.dtype import INT32
from tscript.ir.expr import IntImm, PointerType, PrimExpr, Var
from tscript.ir.stmt import Block, BufferRegion
from tscript.schedule.errors import refuse
from tscript.schedule.sref import StmtSRef

_SCOPES = (
    "global",
    "shared",
    "warp",
    "local",
    "wmma.matrix_a",
    "wmma.matrix_b",
    "wmma.accumulator",
    "texture",
    "amx.tmm",
    "m16n8k8.matrixA",
    "m16n8k8.matrixB",
    "m16n8k8.matrixC",
    "metal.simdgroup",
)


def require_storage_scope(scope: str) -> str:
    """The scope as it is kept ("" means "global"). TypeError for no text; refused if it names no sort of memory."""
    if not isinstance(scope, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f'a storage scope is a text such as "shared", not {scope!r}')
    if scope and not scope.startswith(_SCOPES):
        refuse(f"there is no storage scope {scope!r}", hint=f"scopes start with one of {', '.join(_SCOPES)}")
    return scope or "global"


def same_region(a: BufferRegion, b: BufferRegion) -> bool:
    """Whether two regions are written alike."""
    return a.buffer is b.buffer and all(
        x.min is y.min and x.extent is y.extent for x, y in zip(a.region, b.region, strict=True)
    )


def buffer_index(block: Block, buffer: int | str | Buffer, kind: str) -> int:
    """The place among the reads or writes (`kind` is "read" or "write") of a block that an index, name or buffer means.

    TypeError for what is none of these; refused where the block has no such access, or the name several buffers.
    """
    regions = block.reads if kind == "read" else block.writes
    if isinstance(buffer, bool) or not isinstance(buffer, (int, str, Buffer)):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"a buffer of a block is given by its index, its name or itself, not by {buffer!r}")
    known = ", ".join(f"{i}: {r.buffer.name}" for i, r in enumerate(regions)) or "none"
    hint = f"its {kind}s are {known}"
    if isinstance(buffer, int):
        if not 0 <= buffer < len(regions):
            refuse(f"{{0}} has no {kind} number {buffer}", block, hint=hint)
        return buffer
    if isinstance(buffer, Buffer):
        hits = [i for i, r in enumerate(regions) if r.buffer is buffer]
        name = buffer.name
    else:
        hits = [i for i, r in enumerate(regions) if r.buffer.name == buffer]
        name = buffer
    if not hits:
        refuse(f"{{0}} does not {kind} `{name}`", block, hint=hint)
    if any(regions[i].buffer is not regions[hits[0]].buffer for i in hits):
        refuse(f"{{0}} has several buffers called {name!r}", block, hint=f"give an index instead: {hint}")
    return hits[0] if isinstance(buffer, Buffer) else hits[-1]


def resolve_access(block: Block, buffer: tuple[str, int] | str | Buffer) -> tuple[str, int]:
    """The access of a block that ("read", 0), ("write", 1), a name or a buffer means, in the first form.

    A buffer that is both read and written is found among the reads by itself, among the writes by its name.
    TypeError for what is none of these; refused where the block has no such access, or the name several buffers.
    """
    if isinstance(buffer, (tuple, list)):
        if len(buffer) != 2 or buffer[0] not in ("read", "write"):
            raise TypeError(f'an access is ("read", index) or ("write", index), not {buffer!r}')
        if isinstance(buffer[1], bool) or not isinstance(buffer[1], int):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"the index of an access is an integer, not {buffer[1]!r}")
        return buffer[0], buffer_index(block, buffer[1], buffer[0])
    if not isinstance(buffer, (str, Buffer)):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(
            f'a buffer is given by ("read", index), ("write", index), its name or itself, not by {buffer!r}'
        )
    all_regions = [
        *(("read", i, r) for i, r in enumerate(block.reads)),
        *(("write", i, w) for i, w in enumerate(block.writes)),
    ]
    hits = [(k, i, r) for k, i, r in all_regions if r.buffer is buffer or r.buffer.name == buffer]
    if not hits:
        known = ", ".join(dict.fromkeys(r.buffer.name for _, _, r in all_regions)) or "none"
        name = buffer if isinstance(buffer, str) else buffer.name
        refuse(f"{{0}} neither reads nor writes `{name}`", block, hint=f"it uses {known}")
    if any(r.buffer is not hits[0][2].buffer for _, _, r in hits):
        refuse(f"{{0}} has several buffers called {buffer!r}", block, hint='give ("read", index) or ("write", index)')
    kind, index, _ = hits[0] if isinstance(buffer, Buffer) else hits[-1]
    return kind, index


def accessed(block: Block, index: int, kind: str) -> BufferRegion:
    """The access at a place that `buffer_index` gave."""
    return (block.reads if kind == "read" else block.writes)[index]


def allocation_of(block: StmtSRef, buffer: Buffer) -> StmtSRef | None:
    """The block, around or the same as `block`, that allocates a buffer; None for a parameter or a view."""
    at: StmtSRef | None = block
    while at is not None:
        if isinstance(at.stmt, Block) and any(b is buffer for b in at.stmt.alloc_buffers):
            return at
        at = at.parent
    return None


def require_allocation(block: StmtSRef, buffer: Buffer) -> StmtSRef:
    """The block that allocates a buffer; refused for parameters of the function and views."""
    found = allocation_of(block, buffer)
    if found is None:
        refuse(f"`{buffer.name}` is not allocated by any block: it is a parameter or a view", block.block)
    return found


def cache_of(buffer: Buffer, scope: str, shape: Sequence[PrimExpr] | None = None, name: str | None = None) -> Buffer:
    """A new, compact buffer of the same type; of the same shape and called `<buffer>_<scope>` unless said otherwise."""
    name = f"{buffer.name}_{scope}" if name is None else name
    pointer = buffer.data.type_annotation
    assert isinstance(pointer, PointerType)
    dims = buffer.shape if shape is None else tuple(shape)
    return buffer.replace(
        data=Var(name, PointerType(pointer.element_type, scope)),
        name=name,
        shape=dims,
        strides=(),
        elem_offset=IntImm(dims[0].dtype if dims else INT32, 0),
        offset_factor=1,
        buffer_type=1,
    )
