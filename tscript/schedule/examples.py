"""Examples for what a step is refused for: which iteration would do what, in words; "" where none is found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tscript.analysis.checkers.points import POINT_LIMIT, Numbers, Points, UnknownValue, points_of
from tscript.analysis.checkers.sites import Loop, Scope
from tscript.analysis.dependence import find_meeting, find_unwritten, footprint
from tscript.analysis.ranges import loop_range
from tscript.arith import Interval
from tscript.ir.buffer import Buffer
from tscript.ir.expr import IntImm, IterVar, Range, Var
from tscript.ir.stmt import For, ForKind, Stmt
from tscript.schedule.sref import StmtSRef
from tscript.schedule.state import ScheduleState
from tscript.schedule.symbols import axis_ranges, outside_of


def unwritten_example(state: ScheduleState, block: StmtSRef, top: StmtSRef, buffer: Buffer) -> str:
    """An iteration in which a block reads an element of `buffer` that no earlier block below `top` writes in the same
    one of `top` and the loops around it.
    """
    stmt, around = _below(state, top)
    touched = footprint(stmt)
    if touched.views:
        return ""
    for k, read in enumerate(touched.found):
        if read.block is block.block and not read.is_write and read.buffer is buffer:
            writes = [w for w in touched.found[:k] if w.is_write and w.buffer is buffer and w.block is not read.block]
            found = find_unwritten(read, writes, around) if writes else ""
            if found:
                return ": " + found
    return ""


def overwritten_example(state: ScheduleState, reader: StmtSRef, writer: StmtSRef) -> str:
    """Two iterations in which a block reads, and a later one writes the same element."""
    stmt, around = _below(state, state.common_ancestor([reader, writer]))
    found = footprint(stmt).found
    for read in (a for a in found if a.block is reader.block and not a.is_write):
        for write in (a for a in found if a.block is writer.block and a.is_write):
            example = find_meeting(read, write, around)
            if example is not None:
                return ": " + example.explain(read.buffer.name, True, False)
    return ""


def _below(state: ScheduleState, top: StmtSRef) -> tuple[Stmt, dict[Var, Range]]:
    """What is inside of a loop or block, and the loops and axes around that."""
    assert top.stmt is not None
    if isinstance(top.stmt, For):
        return top.stmt.body, {**outside_of(state, top), top.stmt.loop_var: loop_range(top.stmt)}
    return top.block.body, axis_ranges(top.block)


# -- parts of a block in the iterations of loops ----------------------------------------------------


@dataclass
class _Parts:
    """The iterations of loops, and what each does of the axes: the first and the last value."""

    points: Points
    loops: Sequence[StmtSRef]
    ends: dict[Var, tuple[Numbers, Numbers]]

    def named(self, row: int) -> str:
        values = self.points.values
        return ", ".join(f"{r.loop.loop_var.name}={int(values[r.loop.loop_var][row])}" for r in self.loops)


def _parts(loops: Sequence[StmtSRef], solution: Mapping[Var, Interval]) -> _Parts | None:
    scope: Scope | None = None
    for k, r in enumerate(loops):
        found = loop_range(r.loop)
        scope = Loop(scope, r.loop.loop_var, found.min, found.extent, ForKind.SERIAL, k)
    scopes = [] if scope is None else scope.chain()
    try:
        points = points_of(scopes, {}, [r.loop.loop_var for r in loops], POINT_LIMIT)
        ends = {v: (points.at(i.low), points.at(i.high)) for v, i in solution.items()}
    except UnknownValue:
        return None
    return _Parts(points, loops, ends) if points.count else None


def unreached_example(axis: IterVar, loops: Sequence[StmtSRef], solution: Mapping[Var, Interval]) -> str:
    """A value of an axis that is in the part of no iteration."""
    dom = axis.dom
    if axis.var not in solution or dom is None or not (isinstance(dom.min, IntImm) and isinstance(dom.extent, IntImm)):
        return ""
    parts = _parts(loops, {axis.var: solution[axis.var]})
    if parts is None or not parts.points.complete or not 0 < dom.extent.value <= POINT_LIMIT:
        return ""
    count = np.zeros(dom.extent.value + 1, np.int64)
    low, high = (np.clip(e - dom.min.value, -1, dom.extent.value) for e in parts.ends[axis.var])
    runs = (low <= high) & (high >= 0) & (low < dom.extent.value)
    np.add.at(count, np.maximum(low[runs], 0), 1)
    np.add.at(count, np.minimum(high[runs] + 1, dom.extent.value), -1)
    missing = np.flatnonzero(np.cumsum(count)[:-1] == 0)
    return f": none runs {axis.var.name}={int(missing[0]) + dom.min.value}" if len(missing) else ""


def repeated_example(loops: Sequence[StmtSRef], solution: Mapping[Var, Interval]) -> str:
    """Two iterations with parts that have an instance in common."""
    parts = _parts(loops, solution)
    if parts is None:
        return ""
    ends = list(parts.ends.values())
    for row in range(min(parts.points.count, _TRIED)):
        same = np.ones(parts.points.count, np.bool_)
        for low, high in ends:
            same &= (low <= high[row]) & (high >= low[row]) & (low <= high)
        others = np.flatnonzero(same)
        others = others[others > row]
        if same[row] and len(others):
            other = int(others[0])
            at = ", ".join(f"{v.name}={max(int(low[row]), int(low[other]))}" for v, (low, _) in parts.ends.items())
            return f": iterations ({parts.named(row)}) and ({parts.named(other)}) would both run {at}"
    return ""


def late_start_example(axis: IterVar, loops: Sequence[StmtSRef], solution: Mapping[Var, Interval]) -> str:
    """The first iteration, where its part does not begin with the first value of an axis."""
    parts = _parts(loops, {axis.var: solution[axis.var]})
    if parts is None or axis.dom is None or not isinstance(axis.dom.min, IntImm):
        return ""
    first = int(parts.ends[axis.var][0][0])
    return f": iteration ({parts.named(0)}), the first, begins at {first}" if first > axis.dom.min.value else ""


_TRIED = 512

__all__ = [
    "late_start_example", "overwritten_example", "repeated_example", "unreached_example", "unwritten_example",
]  # fmt: skip
