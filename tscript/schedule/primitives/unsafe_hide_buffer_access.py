"""Accesses of a block are kept from what looks at its signature."""

from __future__ import annotations

from collections.abc import Sequence

from tscript.ir.expr import IntImm
from tscript.ir.stmt import Block
from tscript.schedule.access_notes import without_accesses
from tscript.schedule.core import ScheduleCore
from tscript.schedule.errors import refuse
from tscript.schedule.instruction import Arg, InstructionKind, Role, block
from tscript.schedule.primitive import primitive
from tscript.schedule.rv import BlockRV

_KIND = InstructionKind(
    "UnsafeHideBufferAccess",
    "unsafe_hide_buffer_access",
    (block(), Arg("buf_type", Role.INPUT), Arg("buf_index_array", Role.INPUT_LIST)),
)


@primitive(_KIND)
def unsafe_hide_buffer_access(s: ScheduleCore, block: BlockRV, buf_type: str, buf_index_array: Sequence[int]) -> None:
    """Take some reads or writes (`buf_type` "read" or "write") out of the signature of a block, by their indices.

    The block goes on to do them, but no later step knows: whoever calls this vouches for the order of blocks that it
    hides. Annotations that count accesses are kept in step.

    >>> import tscript
    >>> from tscript.script import tir as T
    >>> @T.prim_func
    ... def func(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    ...     for i in range(8):
    ...         with T.block("C"):
    ...             v = T.axis.spatial(8, i)
    ...             C[v] = A[v] + B[v]
    >>> sch = tscript.tir.Schedule(func)
    >>> sch.unsafe_hide_buffer_access(sch.get_block("C"), "read", [0])
    >>> sch.get(sch.get_block("C")).reads
    (B[v],)
    """
    target = s.block(block)
    kind = access_kind(buf_type, target.block)
    regions = target.block.reads if kind == "read" else target.block.writes
    hidden = [_index(i, len(regions), kind, target.block) for i in buf_index_array]
    kept = tuple(r for i, r in enumerate(regions) if i not in hidden)
    changed = target.block.replace(**{f"{kind}s": kept}, annotations=without_accesses(target.block, kind, hidden))
    s.state.replace(target, changed)
    s.record_as(buf_index_array=hidden)


def access_kind(given: str, block: Block) -> str:
    """The word for a sort of access; refused where it is neither "read" nor "write"."""
    if given not in ("read", "write"):
        refuse(f'an access of {{0}} is a "read" or a "write", not {given!r}', block)
    return given


def _index(given: int, count: int, kind: str, block: Block) -> int:
    if isinstance(given, bool) or not isinstance(given, (int, IntImm)):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"the index of an access is an integer, not {given!r}")
    index = int(given)
    if not 0 <= index < count:
        refuse(f"{{0}} has {count} {kind}s, so there is no number {index}", block)
    return index
