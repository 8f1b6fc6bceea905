"""Threads of a block share the work of fetching what they all read."""

from __future__ import annotations

from typing import Any

from tscript.ir.base import Node
from tscript.ir.dtype import DataType
from tscript.ir.expr import BufferLoad, Call, Cast, Op
from tscript.ir.occurrences import any_below
from tscript.ir.stmt import Block, BufferStore
from tscript.meta_schedule.loop_kinds import block_of, extent_of, loop_of
from tscript.meta_schedule.postproc.postproc import Postproc
from tscript.meta_schedule.tune_context import TuneContext
from tscript.schedule.rv import BlockRV
from tscript.schedule.schedule import Schedule

_FETCH = "meta_schedule.cooperative_fetch"
_WIDEST = 4
"""Elements of more bytes are not fetched in vectors."""


class RewriteCooperativeFetch(Postproc):
    """Shares the last loop of each block annotated `meta_schedule.cooperative_fetch` out to the threads that are bound
    before it, in vectors of as many elements as the annotation says where these divide the loop evenly.

    A block annotated `warp_execution` runs on a whole warp, so that `threadIdx.x` is as long as one.

    >>> import tscript
    >>> from tscript.testing.workloads import matmul
    >>> sch = tscript.tir.Schedule(matmul(32, 32, 32).func)
    >>> i, j, k = sch.get_loops("C")
    >>> sch.bind(i, "blockIdx.x"), sch.bind(j, "threadIdx.x")
    (None, None)
    >>> copy = sch.cache_read("C", 1, "shared")
    >>> sch.compute_at(copy, i)
    >>> fused = sch.fuse(*sch.get_loops(copy)[-2:])
    >>> sch.annotate(copy, "meta_schedule.cooperative_fetch", 4)
    >>> RewriteCooperativeFetch().apply(sch)
    True
    >>> [int(sch.get(loop).extent) for loop in sch.get_loops(copy)]
    [32, 8, 32, 4]
    """

    def __init__(self) -> None:
        self._warp_size = -1

    def _initialize_with_tune_context(self, context: TuneContext) -> None:
        size = None if context.target is None else context.target.get_attr("thread_warp_size")
        self._warp_size = -1 if size is None else int(size)

    def apply(self, sch: Schedule) -> bool:
        """Always True: a loop of unknown extent stays as it is."""
        assert sch.trace is not None
        x = y = -1
        for inst in list(sch.trace.insts):
            if inst.kind.name == "Bind" and inst.attrs[0] in ("threadIdx.x", "threadIdx.y"):
                extent = _extent(sch, inst.inputs[0])
                if inst.attrs[0] == "threadIdx.x":
                    x = extent
                else:
                    y = extent
            elif inst.kind.name == "Annotate" and inst.attrs[0] == "warp_execution":
                x = self._warp_size
            elif inst.kind.name == "Annotate" and inst.attrs[0] == _FETCH and isinstance(inst.inputs[0], BlockRV):
                _share(sch, inst.inputs[0], x, y)
        return True


def _extent(sch: Schedule, loop: Any) -> int:
    """The extent of a loop; -1 where it is not constant, or the loop is gone."""
    try:
        return extent_of(loop_of(sch, loop)) or -1
    except ValueError:
        return -1


def _share(sch: Schedule, block: BlockRV, x: int, y: int) -> None:
    try:
        stmt = block_of(sch, block)
    except ValueError:
        return  # inlined since
    given: Any = stmt.annotations.get(_FETCH)
    if given is None:
        return
    sch.unannotate(block, _FETCH)
    loops = sch.get_loops(block)
    extent = extent_of(loop_of(sch, loops[-1])) if loops else None
    if extent is None or (x == -1 and y == -1):
        return
    lanes = int(getattr(given, "value", given))
    if lanes < 1 or extent % lanes or _is_wide(stmt):
        lanes = 1
    threads = [(n, tag) for n, tag in ((y, "threadIdx.y"), (x, "threadIdx.x")) if n != -1]
    factors = [None, *(n for n, _ in threads), *([lanes] if lanes > 1 else [])]
    parts = sch.split(loops[-1], factors)
    if lanes > 1:
        sch.vectorize(parts[-1])
    for part, (_, tag) in reversed(list(zip(parts[1:], threads, strict=False))):
        sch.bind(part, tag)


def _is_wide(block: Block) -> bool:
    """Whether a block handles elements, or intermediate values, of more bytes than are fetched in vectors."""

    def look(node: Node) -> bool:
        if isinstance(node, BufferStore):
            return _bytes(node.buffer.dtype) > _WIDEST
        if isinstance(node, Call) and isinstance(node.op, Op) and "q_multiply_shift" in node.op.name:
            return True
        return isinstance(node, (BufferLoad, Cast)) and _bytes(node.dtype) > _WIDEST

    return any_below(block.body, look)


def _bytes(dtype: DataType) -> int:
    return (dtype.bits + 7) // 8
