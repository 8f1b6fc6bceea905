"""Where the axes of a buffer are grouped into the axes of physical memory."""

from __future__ import annotations

from collections.abc import Sequence

from tscript.ir.buffer import Buffer
from tscript.ir.expr import IntImm
from tscript.ir.functor import pre_order_visit
from tscript.ir.stmt import Block
from tscript.schedule.buffers import accessed, resolve_access
from tscript.schedule.core import ScheduleCore
from tscript.schedule.errors import refuse
from tscript.schedule.instruction import InstructionKind, access, attr, block
from tscript.schedule.parameters import home_of
from tscript.schedule.primitive import primitive
from tscript.schedule.rewrite import replace_buffers
from tscript.schedule.rv import BlockRV
from tscript.support.warning import warn_user

_KIND = InstructionKind("SetAxisSeparator", "set_axis_separator", (block(), access("buffer"), attr("axis_separators")))


@primitive(_KIND)
def set_axis_separator(
    s: ScheduleCore,
    block: BlockRV | str,
    buffer: tuple[str, int] | str | Buffer,
    axis_separators: Sequence[int] | None,
) -> None:
    """Say before which dimensions of a buffer a new axis of physical memory begins; None means nowhere.

    The buffer is given by ("read", index) or ("write", index) of the block, by name, or itself; it is no view. Views
    of it with as many dimensions follow; others cannot, and a warning says so.

    >>> import tscript
    >>> from tscript.script import tir as T
    >>> @T.prim_func
    ... def func(A: T.Buffer((8, 4), "float32"), B: T.Buffer((8, 4), "float32")):
    ...     for i, j in T.grid(8, 4):
    ...         with T.block("B"):
    ...             vi, vj = T.axis.remap("SS", [i, j])
    ...             B[vi, vj] = A[vi, vj]
    >>> sch = tscript.tir.Schedule(func)
    >>> sch.set_axis_separator("B", ("write", 0), [1])
    >>> [int(k) for k in sch.get(sch.get_block("B")).writes[0].buffer.axis_separators]
    [1]
    """
    target = s.block(block)  # pyright: ignore[reportArgumentType]
    kind, index = resolve_access(target.block, buffer)
    old = accessed(target.block, index, kind).buffer
    home = home_of(s.state, target, old)
    separators = [_separator(k, old, target.block) for k in axis_separators or ()]
    if separators != sorted(separators):
        refuse(f"the axis separators {separators} of `{old.name}`, which {{0}} uses, must ascend", target.block)
    s.record_as(buffer=(kind, index), axis_separators=separators)
    new = old.replace(axis_separators=tuple(IntImm("int32", k) for k in separators))
    if new.axis_separators == old.axis_separators:
        return
    changes = {old: new, **_views(home.site.block, new, {old})}
    changed, reuse = replace_buffers(home.site.block, changes, definitions=True)
    s.state.replace(home.site, changed, reuse, parameters={old: new} if home.is_parameter else None)


def _separator(given: int, buffer: Buffer, block: Block) -> int:
    if isinstance(given, bool) or not isinstance(given, (int, IntImm)):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"an axis separator is an integer, not {given!r}")
    place = int(given)
    if not 0 <= place <= buffer.ndim:
        refuse(f"`{buffer.name}`, which {{0}} uses, has {buffer.ndim} dimensions, so there is none at {place}", block)
    return place


def _views(block: Block, buffer: Buffer, known: set[Buffer]) -> dict[Buffer, Buffer]:
    """What becomes of the views of buffers: of as many dimensions, they are grouped in the same way."""
    found: dict[Buffer, Buffer] = {}

    def look(node: object) -> bool:
        for m in node.match_buffers if isinstance(node, Block) else ():
            if m.source.buffer not in known:
                continue
            known.add(m.buffer)
            separators = buffer.axis_separators
            if m.buffer.ndim != buffer.ndim and separators:
                warn_user(
                    f"the view `{m.buffer.name}` has {m.buffer.ndim} dimensions, unlike `{buffer.name}`: its axis "
                    "separators are set to zeros"
                )
                separators = tuple(IntImm("int32", 0) for _ in separators)
            found[m.buffer] = m.buffer.replace(axis_separators=separators)
        return True

    pre_order_visit(block, look)
    return found
