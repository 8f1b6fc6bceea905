"""A dimension of a buffer gets a stride that avoids bank conflicts."""

from __future__ import annotations

from tscript.ir.buffer import Buffer
from tscript.ir.expr import IntImm
from tscript.ir.stmt import Block
from tscript.schedule.buffers import accessed, require_allocation
from tscript.schedule.buffers import buffer_index as index_of
from tscript.schedule.core import ScheduleCore
from tscript.schedule.errors import refuse
from tscript.schedule.instruction import InstructionKind, attr, block
from tscript.schedule.primitive import primitive
from tscript.schedule.rv import BlockRV

_KEY = "buffer_dim_align"
_KIND = InstructionKind(
    "StorageAlign",
    "storage_align",
    (block(), attr("buffer_index"), attr("axis"), attr("factor"), attr("offset")),
)


@primitive(_KIND)
def storage_align(
    s: ScheduleCore,
    block: BlockRV | str,
    buffer_index: int | str | Buffer,
    axis: int,
    factor: int | None = None,
    offset: int = 0,
) -> None:
    """Ask that the stride of dimension `axis` of a buffer be `factor * k + offset` elements for some k.

    The buffer is one that the block writes and some block allocates; a negative `axis` counts from the last
    dimension. Where the block writes a single buffer, its index may be left out: `storage_align(block, axis, factor,
    offset=8)`. The block keeps this as annotation `buffer_dim_align`, in place of what it asked for the same dimension.

    >>> import tscript
    >>> from tscript.script import tir as T
    >>> @T.prim_func
    ... def func(A: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 8), "float32")):
    ...     B = T.alloc_buffer((8, 8), scope="shared")
    ...     for i, j in T.grid(8, 8):
    ...         with T.block("B"):
    ...             vi, vj = T.axis.remap("SS", [i, j])
    ...             B[vi, vj] = A[vi, vj]
    ...         with T.block("C"):
    ...             vi, vj = T.axis.remap("SS", [i, j])
    ...             C[vi, vj] = B[vi, vj]
    >>> sch = tscript.tir.Schedule(func)
    >>> sch.storage_align("B", 0, axis=-2, factor=32, offset=8)
    >>> [[int(n) for n in entry] for entry in sch.get(sch.get_block("B")).annotations["buffer_dim_align"]]
    [[0, 0, 32, 8]]
    """
    target = s.block(block)  # pyright: ignore[reportArgumentType]
    if factor is None:
        if len(target.block.writes) != 1:
            refuse(
                f"{{0}} writes {len(target.block.writes)} buffers, so the index of one must be given",
                target.block,
                hint="storage_align(block, buffer_index, axis, factor, offset)",
            )
        if not isinstance(buffer_index, int):
            raise TypeError(f"storage_align of `{buffer_index}` lacks a factor: give axis, factor and offset")
        buffer_index, axis, factor = 0, buffer_index, axis
    index = index_of(target.block, buffer_index, "write")
    buffer = accessed(target.block, index, "write").buffer
    for name, value in (("axis", axis), ("factor", factor), ("offset", offset)):
        if isinstance(value, bool) or not isinstance(value, int):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"the {name} is an integer, not {value!r}")
    if factor <= 0:
        refuse(f"the stride of `{buffer.name}` cannot be a multiple of {factor}", target.block, hint="give 1 or more")
    if not -buffer.ndim <= axis < buffer.ndim:
        refuse(
            f"`{buffer.name}`, which {{0}} writes, has {buffer.ndim} dimensions, so there is no dimension {axis}",
            target.block,
        )
    require_allocation(target, buffer)
    entry = (index, axis + buffer.ndim if axis < 0 else axis, factor, offset)
    entries = _entries(target.block)
    places = [i for i, e in enumerate(entries) if e[:2] == entry[:2]]
    if places:
        entries[places[0]] = entry
    else:
        entries.append(entry)
    changed = {**target.block.annotations, _KEY: [[IntImm("int32", n) for n in e] for e in entries]}
    s.state.replace(target, target.block.replace(annotations=changed))
    s.record_as(buffer_index=index, axis=axis, factor=factor)


def _entries(block: Block) -> list[tuple[int, ...]]:
    """What the block asks for already. Refused where the annotation is not of the form written here."""
    found: list[tuple[int, ...]] = []
    given = block.annotations.get(_KEY, ())
    for entry in given if isinstance(given, tuple) else (None,):  # pyright: ignore[reportUnknownVariableType]
        if not (isinstance(entry, tuple) and len(entry) == 4 and all(isinstance(n, IntImm) for n in entry)):  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
            refuse(
                f"the annotation {_KEY!r} of {{0}} is no list of [buffer index, dimension, factor, offset]",
                block,
                hint=f"remove it with unannotate(block, {_KEY!r})",
            )
        found.append(tuple(n.value for n in entry))  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType, reportUnknownArgumentType]
    return found
