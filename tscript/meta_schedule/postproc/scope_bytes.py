"""How much memory of a scope a scheduled program needs at a time."""

from __future__ import annotations

from math import prod

from tscript.arith.analyzer import Analyzer
from tscript.arith.int_set import IntervalSet, union
from tscript.arith.region import relax_region
from tscript.ir.buffer import Buffer
from tscript.ir.expr import IntImm, Range, Var
from tscript.ir.functor import substitute
from tscript.ir.stmt import Block
from tscript.meta_schedule.thread_binding import loops_above, thread_tag
from tscript.schedule.sref import StmtSRef
from tscript.schedule.state import ScheduleState


def bytes_of(state: ScheduleState, root: StmtSRef, buffer: Buffer) -> int | None:
    """The bytes of a buffer that are in use at a time, in each of the places where it lives: what its users touch
    below the innermost statement around all of them, with the threads of a block together. None where that depends on
    the program's sizes.

    >>> import tscript
    >>> from tscript.testing.workloads import matmul
    >>> sch = tscript.tir.Schedule(matmul(32, 32, 32).func)
    >>> i, j, k = sch.get_loops("C")
    >>> copy = sch.cache_read("C", 0, "shared")
    >>> sch.compute_at(copy, i)
    >>> root = sch.get_sref(sch.get_block("root"))
    >>> bytes_of(sch.state, root, root.block.alloc_buffers[0])
    128
    """
    users = [b for b in state.child_blocks(root) if _touches(b.block, buffer)]
    if not users:
        return _size(buffer, [n.value for n in buffer.shape if isinstance(n, IntImm)])
    place = state.common_ancestor(users)
    if place in users:  # the only user
        place = place.parent or place
    touched: list[list[IntervalSet]] = [[] for _ in buffer.shape]
    analyzer = Analyzer()
    for user in users:
        realize = state.realize_of(user)
        bindings = {v.var: x for v, x in zip(realize.block.iter_vars, realize.iter_values, strict=True)}
        domains: dict[Var, Range] = {}
        for loop in loops_above(state, user):
            moves = state.is_ancestor(place, loop) and loop is not place
            shared = thread_tag(loop).startswith(("threadIdx.", "vthread"))
            whole = Range.from_min_extent(loop.loop.min, loop.loop.extent)
            domains[loop.loop.loop_var] = whole if moves or shared else Range.from_min_extent(loop.loop.min, 1)
        for region in (*realize.block.reads, *realize.block.writes):
            if region.buffer is buffer:
                ranges = [
                    Range.from_min_extent(substitute(r.min, bindings), substitute(r.extent, bindings))
                    for r in region.region
                ]
                for found, more in zip(touched, relax_region(ranges, domains, analyzer), strict=True):
                    found.append(more)
    lengths: list[int] = []
    for sets, extent in zip(touched, buffer.shape, strict=True):
        hull = union(sets, analyzer)
        low, high = hull.min_value, hull.max_value
        if isinstance(low, IntImm) and isinstance(high, IntImm):
            longest = high.value - low.value + 1
            lengths.append(min(longest, extent.value) if isinstance(extent, IntImm) else longest)
        elif isinstance(extent, IntImm):
            lengths.append(extent.value)
    return _size(buffer, lengths)


def _touches(block: Block, buffer: Buffer) -> bool:
    return any(r.buffer is buffer for r in (*block.reads, *block.writes))


def _size(buffer: Buffer, lengths: list[int]) -> int | None:
    if len(lengths) < len(buffer.shape):
        return None
    return prod(lengths) * ((buffer.dtype.bits * buffer.dtype.lanes + 7) // 8)


def allocations(state: ScheduleState, root: StmtSRef, scopes: tuple[str, ...]) -> list[tuple[Buffer, int | None]]:
    """The buffers below a root that are in one of `scopes`, with the bytes each needs at a time."""
    found: list[tuple[Buffer, int | None]] = []
    for block in (root, *state.blocks_below(root)):
        for buffer in block.block.alloc_buffers:
            if buffer.scope() in scopes:
                found.append((buffer, bytes_of(state, block, buffer)))
    return found
