"""Functions that are a sequence of loop nests, each around one block that stores one element, as those of TE are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tscript.ir import expr as ex
from tscript.ir.buffer import Buffer
from tscript.ir.expr import BufferLoad, Call, Op, PrimExpr, Var
from tscript.ir.function import PrimFunc
from tscript.ir.functor import post_order_visit
from tscript.ir.stmt import Block, BlockRealize, BufferStore, For, ForKind, SeqStmt, Stmt
from tscript.library.blocks import constant, kinds
from tscript.schedule.rv import BlockRV, LoopRV
from tscript.schedule.schedule import Schedule

PARALLEL_FROM = 16_384
"""Nests of fewer steps run in one thread: starting others costs as much."""
STREAM_FROM = 16 << 20
"""Outputs of at least so many bytes go past the caches: the next reader would not find them there in any case."""


@dataclass(frozen=True)
class Nest:
    """A block with one loop for each of its axes, in their order, that stores one element in each iteration.

    Axes that stay at 0, as those of results without dimensions do, do not count. `kinds` has a letter for each axis,
    S(patial) or R(educe); spatial axes are the subscripts of the store, in order. For a reduction, `value` is what is
    combined by `op`; else it is what is stored, and `op` is None.
    """

    block: Block
    axes: tuple[Var, ...]
    kinds: str
    extents: tuple[int | None, ...]
    store: BufferStore
    value: PrimExpr
    op: type[PrimExpr] | None

    @property
    def buffer(self) -> Buffer:
        """What it writes."""
        return self.store.buffer

    @property
    def steps(self) -> int:
        """How many iterations it has; an extent that is not known counts as many."""
        return math.prod(PARALLEL_FROM if e is None else e for e in self.extents)

    def loads(self) -> list[BufferLoad]:
        """The elements that `value` reads."""
        return loads_of(self.value)


def loads_of(e: PrimExpr) -> list[BufferLoad]:
    """The elements that an expression reads."""
    found: list[BufferLoad] = []
    post_order_visit(e, lambda n: found.append(n) if isinstance(n, BufferLoad) else None)
    return found


def calls_of(e: PrimExpr) -> set[str]:
    """The names of the operators that an expression calls."""
    found: set[str] = set()
    post_order_visit(e, lambda n: found.add(n.op.name) if isinstance(n, Call) and isinstance(n.op, Op) else None)
    return found


def nests_of(func: PrimFunc) -> list[Nest] | None:
    """The nests of a function, in the order of the text; None if it is anything but a sequence of such nests."""
    root = func.body
    if not isinstance(root, BlockRealize) or root.block.iter_vars or root.block.init is not None:
        return None
    if root.block.match_buffers or root.block.annotations:
        return None
    body = root.block.body
    parts: Sequence[Stmt] = body.seq if isinstance(body, SeqStmt) else (body,)
    found = [_nest(part) for part in parts]
    whole = [n for n in found if n is not None]
    return whole if len(whole) == len(found) else None


def _nest(s: Stmt) -> Nest | None:
    loops: list[For] = []
    while isinstance(s, For):
        if s.kind != ForKind.SERIAL or s.annotations or constant(s.min) != 0:
            return None
        loops.append(s)
        s = s.body
    if not isinstance(s, BlockRealize) or constant(s.predicate) != 1:
        return None
    block = s.block
    moving = [n for n, v in enumerate(s.iter_values) if constant(v) != 0]
    letters, store = "".join(kinds(block)[n] for n in moving), block.body
    if not isinstance(store, BufferStore) or "O" in letters or block.match_buffers or block.alloc_buffers:
        return None
    if block.annotations or [s.iter_values[n] for n in moving] != [loop.loop_var for loop in loops]:
        return None
    axes = tuple(block.iter_vars[n].var for n in moving)
    spatial = [v for v, letter in zip(axes, letters, strict=True) if letter == "S"]
    if len(spatial) != len(store.indices) or any(i is not v for i, v in zip(store.indices, spatial, strict=True)):
        # A result without dimensions is an element of one.
        if spatial or any(constant(i) != 0 for i in store.indices):
            return None
    value, op = store.value, None
    if "R" in letters:
        parts = _combined(store)
        if parts is None or not isinstance(block.init, BufferStore):
            return None
        value, op = parts
    elif block.init is not None or any(n.buffer is store.buffer for n in loads_of(value)):
        return None
    return Nest(block, axes, letters, tuple(constant(loop.extent) for loop in loops), store, value, op)


def _combined(store: BufferStore) -> tuple[PrimExpr, type[PrimExpr]] | None:
    """`value` and `op` of the store `x = op(x, value)`."""
    e = store.value
    if not isinstance(e, (ex.Add, ex.Mul, ex.Max, ex.Min)):
        return None
    for own, value in ((e.a, e.b), (e.b, e.a)):
        same = isinstance(own, BufferLoad) and own.buffer is store.buffer and own.indices == store.indices
        if same and all(n.buffer is not store.buffer for n in loads_of(value)):
            return value, type(e)
    return None


# -- steps that several schedules take ----------------------------------------------------------------


def floor_power(n: int) -> int:
    """The largest power of two that is at most `n`."""
    return 1 << (n.bit_length() - 1)


def is_streamed(nest: Nest) -> bool:
    """Whether the output of a nest is too large for the caches."""
    extents = [e for e, k in zip(nest.extents, nest.kinds, strict=True) if k == "S"]
    return math.prod(e or 1 for e in extents) * nest.buffer.dtype.bytes >= STREAM_FROM


def vectorize_row(sch: Schedule, loop: LoopRV, streamed: bool) -> None:
    """Vectors along the whole of a loop, whose stores bypass the caches where the output is `streamed`."""
    if streamed:
        sch.annotate(loop, "pragma_nontemporal", 1)
    sch.vectorize(loop)


def partial_results(sch: Schedule, block: BlockRV, lanes: int, register: int) -> list[BlockRV]:
    """Cut the last axis of a reduction into `lanes` results that grow side by side; the blocks that come before it.

    The first makes these results; if they fill several registers of `register` lanes, the second combines those to one.
    The block itself then combines the lanes that are left.
    """
    found: list[BlockRV] = []
    for width in (lanes, register):
        if width == lanes and found:
            break
        *_, loop = sch.get_loops(block)
        _, inner = sch.split(loop, [None, width])
        found.append(sch.rfactor(inner, -1))
    return found


def vectorize_partial(sch: Schedule, partial: BlockRV, outside: int) -> None:
    """Run the lanes of partial results as vectors, which stay in registers along the axes that are reduced.

    The loops along these are those after `outside` loops, but for the last one.
    """
    loops = sch.get_loops(partial)
    sch.vectorize(loops[-1])
    sch.decompose_reduction(partial, loops[outside])
    sch.set_scope(partial, 0, "local")


def row_loop(sch: Schedule, block: BlockRV, rank: int) -> LoopRV:
    """One loop over the first `rank` axes of a block."""
    loops = sch.get_loops(block)[:rank]
    return sch.fuse(*loops) if rank > 1 else loops[0]


__all__ = [
    "PARALLEL_FROM", "STREAM_FROM", "Nest", "calls_of", "floor_power", "is_streamed", "loads_of", "nests_of",
    "partial_results", "row_loop", "vectorize_partial", "vectorize_row",
]  # fmt: skip
