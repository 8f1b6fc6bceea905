"""When and where the iterations of sites touch memory, as numbers that compare: exactly, for given sizes.

A moment is the place of an iteration in the order in which the program runs; a cell is an element of memory
that exists at some time: fresh memory of each iteration around an allocation has cells of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from tscript.analysis.checkers.points import Numbers, Points, UnknownValue, needed_variables, points_of
from tscript.analysis.checkers.sites import WRITE, Barrier, Loop, Scope, Site, Storage
from tscript.ir.expr import PrimExpr, Var

CELL_LIMIT: Final = 1 << 19
"""Iterations of all sites of one memory that are followed."""


@dataclass(slots=True)
class Trace:
    """The iterations of one site: its points, and for each the cell and the moment."""

    site: Site
    points: Points
    cells: Numbers
    moments: Numbers


def runs_in_lockstep(loop: Loop) -> bool:
    """Whether the iterations of a loop go through its body together, as threads do."""
    return bool(loop.thread) or loop.is_lane


def traces_of(sites: Sequence[Site], storage: Storage, sizes: Mapping[Var, int], private: bool) -> list[Trace] | None:
    """The traces of all sites of one memory; None where that cannot be told, or takes too long.

    The iterations of a thread have their own cells where memory is `private` to threads.
    """
    if len({(s.memory.dtype.bits, s.memory.dtype.lanes) for s in sites}) > 1:
        return None
    found: list[tuple[Site, Points]] = []
    left = CELL_LIMIT
    shared = _shared_loops(sites, storage, private)
    for site in sites:
        wanted = [*_offset_exprs(site), *(loop.var for loop in shared)]
        try:
            points = points_of(site.scopes(), sizes, wanted, left)
        except UnknownValue:
            return None
        left -= points.count
        if left <= 0 or not points.complete:
            return None
        found.append((site, points))
    moments = _ranked([_columns(site.scopes(), site.place, points) for site, points in found])
    try:
        cells = _cells(found, shared)
    except UnknownValue:
        return None
    return [Trace(site, points, c, m) for (site, points), c, m in zip(found, cells, moments, strict=True)]


def _shared_loops(sites: Sequence[Site], storage: Storage, private: bool) -> list[Loop]:
    """Loops that tell cells apart: those around the allocation on which some site depends, and private threads."""
    above = [s for s in storage.chain() if isinstance(s, Loop)]
    needed: dict[Var, None] = {}
    for site in sites:
        needed |= needed_variables(site.scopes(), _offset_exprs(site))
    loops = [x for x in above if x.var in needed]
    if private:
        for site in sites:
            for s in site.scopes():
                if isinstance(s, Loop) and s.thread.startswith("threadIdx") and s not in loops:
                    loops.append(s)
    return loops


def _offset_exprs(site: Site) -> list[PrimExpr]:
    memory = site.memory
    base = site.base if site.base is not None else ()
    return [*base, *memory.shape, *memory.strides, memory.elem_offset]


def _cells(runs: Sequence[tuple[Site, Points]], shared: Sequence[Loop]) -> list[Numbers]:
    """The number of the cell of each iteration; -1 for those outside their buffer. Raises UnknownValue."""
    columns: list[list[Numbers]] = []
    inside: list[np.ndarray[Any, np.dtype[np.bool_]]] = []
    for site, points in runs:
        memory = site.memory
        if site.base is None:
            raise UnknownValue(memory.name)
        offset: Numbers = np.array(points.at(memory.elem_offset))
        kept = np.ones(points.count, np.bool_)
        for index, stride, extent in zip(site.base, memory.effective_strides(), memory.shape, strict=True):
            value = points.at(index)
            kept &= (value >= 0) & (value < points.at(extent))
            offset = offset + value * points.at(stride)
        columns.append([offset, *(_value_in(site, points, loop) for loop in shared)])
        inside.append(kept)
    ranks = _ranked(columns)
    return [np.where(kept, cells, -1) for cells, kept in zip(ranks, inside, strict=True)]


def _value_in(site: Site, points: Points, loop: Loop) -> Numbers:
    """The value of `loop` at a site. A thread has the same number however many loops bind it."""
    loops = [s for s in site.scopes() if isinstance(s, Loop)]
    own = next((s for s in loops if s is loop or (loop.thread and s.thread == loop.thread)), None)
    return points.values[own.var] if own is not None else np.zeros(points.count, np.int64)


def _columns(scopes: Sequence[Scope], place: int, points: Points) -> list[Numbers]:
    """What orders the iterations, the most important first: places and loop values in turn."""
    columns: list[Numbers] = []
    for scope in scopes:
        if isinstance(scope, Loop) and not runs_in_lockstep(scope):
            columns += [np.full(points.count, scope.place), points.values[scope.var]]
    columns.append(np.full(points.count, place))
    return columns


def _ranked(columns: Sequence[Sequence[Numbers]]) -> list[Numbers]:
    """Numbers that are in the order of the columns."""
    depth = max((len(c) for c in columns), default=0)
    joined: list[Any] = []
    for k in range(depth):
        parts = [c[k] if k < len(c) else np.full(len(c[0]), -1) for c in columns]
        whole = np.concatenate(parts) if parts else np.zeros(0, np.int64)
        if whole.size and int(whole.min()) != int(whole.max()):
            joined.append(whole)
    total = sum(len(c[0]) for c in columns)
    rank: Numbers = np.zeros(total, np.int64)
    size = 1
    for column in joined:
        low = int(column.min())
        span = int(column.max()) - low + 1
        if span > 1 << 30:
            column = np.unique(column, return_inverse=True)[1]
            low, span = 0, int(column.max()) + 1
        if size > 1 << 62 - span.bit_length():
            rank = np.unique(rank, return_inverse=True)[1]
            size = int(rank.max()) + 1
        rank = rank * span + (column - low)
        size *= span
    ends = np.cumsum([len(c[0]) for c in columns])[:-1]
    return list(np.split(rank, ends))


def numbered(values: Numbers) -> tuple[Numbers, int]:
    """A small number for each different value, and how many numbers there are; in no order."""
    if values.size == 0:
        return values, 0
    low = int(values.min())
    span = int(values.max()) - low + 1
    if span <= 4 * values.size + 1024:
        return values - low, span
    places = np.unique(values, return_inverse=True)[1]
    return places, int(places.max()) + 1


@dataclass(slots=True)
class Together:
    """Iterations that run at the same time: for each row the number of its iteration, its cell, and its phase.

    A phase is what lies between two barriers. `ignored` rows meet nothing: stores of what all iterations store.
    """

    traces: list[Trace]
    starts: Numbers
    numbers: Numbers
    cells: Numbers
    phases: Numbers
    writes: np.ndarray[Any, np.dtype[np.bool_]]
    ignored: np.ndarray[Any, np.dtype[np.bool_]]
    complete: bool

    def first_pair(self, mask: np.ndarray[Any, np.dtype[np.bool_]]) -> tuple[Trace, int, Trace, int] | None:
        """A write and an access of the same cell and phase by another iteration, among the rows of `mask`."""
        rows = np.flatnonzero(mask & ~self.ignored & (self.cells >= 0))
        if not len(rows):
            return None
        keys = np.stack([self.cells[rows], self.phases[rows]], axis=1)
        groups: Numbers = np.unique(keys, axis=0, return_inverse=True)[1].reshape(-1)
        count = int(groups.max()) + 1
        low, high = np.full(count, np.iinfo(np.int64).max), np.full(count, np.iinfo(np.int64).min)
        np.minimum.at(low, groups, self.numbers[rows])
        np.maximum.at(high, groups, self.numbers[rows])
        written = np.zeros(count, np.bool_)
        np.logical_or.at(written, groups, self.writes[rows])
        bad = np.flatnonzero(written & (low < high))
        if not len(bad):
            return None
        mine = rows[groups == bad[0]]
        write = mine[self.writes[mine]][0]
        other = mine[self.numbers[mine] != self.numbers[write]][0]
        return *self._row(int(write)), *self._row(int(other))

    def _row(self, row: int) -> tuple[Trace, int]:
        k = int(np.searchsorted(self.starts, row, side="right")) - 1
        return self.traces[k], row - int(self.starts[k])


def together(
    sites: Sequence[Site],
    loops: Sequence[Loop],
    barriers: Sequence[Barrier],
    sizes: Mapping[Var, int],
    replicated: Sequence[Site],
    rewriting: Sequence[Site] = (),
) -> Together | None:
    """All iterations of `loops`, and what they touch at `sites`; None where that cannot be told.

    Sites that are `replicated` store the same in every iteration, those `rewriting` the same in each that stores there.
    """
    if len({(s.memory.dtype.bits, s.memory.dtype.lanes) for s in sites}) > 1:
        return None
    around = [] if loops[0].outer is None else loops[0].outer.chain()
    inner = [s for b in barriers for s in scopes_below(b.scope, len(around)) if isinstance(s, Loop)]
    needed: dict[Var, None] = {}
    for site in sites:
        needed |= needed_variables(site.scopes(), _touched(site))
    shared = [s for s in around if isinstance(s, Loop) and s.var in needed]
    extra = [loop.var for loop in dict.fromkeys([*shared, *loops, *inner])]
    runs: list[tuple[Site, Points]] = []
    columns: list[list[Numbers]] = []
    begin = len(around)
    try:
        for site in sites:
            points = points_of(site.scopes(), sizes, [*_touched(site), *extra], CELL_LIMIT // 4)
            runs.append((site, points))
            columns.append(_columns(_without(site.scopes()[begin:], loops), site.place, points))
        for b in barriers:
            scopes = [] if b.scope is None else b.scope.chain()
            points = points_of(scopes, sizes, [loop.var for loop in inner], CELL_LIMIT // 4)
            columns.append(_columns(_without(scopes[begin:], loops), b.place, points))
        cells = _cells(runs, shared)
    except UnknownValue:
        return None
    ranks = _ranked(columns)
    traces = [Trace(site, points, c, m) for (site, points), c, m in zip(runs, cells, ranks, strict=False)]
    meetings = np.unique(np.concatenate([np.zeros(0, np.int64), *ranks[len(traces) :]]))
    moments = np.concatenate([t.moments for t in traces])
    counts = [t.points.count for t in traces]
    found = Together(
        traces,
        np.cumsum([0, *counts[:-1]]),
        np.concatenate([_numbers(t, loops) for t in traces]),
        np.concatenate([t.cells for t in traces]),
        np.searchsorted(meetings, moments),
        np.repeat([t.site.role == WRITE for t in traces], counts),
        np.zeros(len(moments), np.bool_),
        all(t.points.complete for t in traces),
    )
    _ignore_replicated(found, np.repeat([t.site in replicated for t in traces], counts), moments)
    for k, t in enumerate(traces):
        if t.site in rewriting:
            _ignore_rewritten(found, np.repeat(np.arange(len(traces)) == k, counts), moments)
    return found


def _without(scopes: Sequence[Scope], loops: Sequence[Loop]) -> list[Scope]:
    # Iterations that run at the same time have no order.
    return [s for s in scopes if not (isinstance(s, Loop) and s in loops)]


def _ignore_replicated(found: Together, copies: np.ndarray[Any, np.dtype[np.bool_]], moments: Numbers) -> None:
    """Pass over stores that every iteration makes alike, once, and before all reads: each has made its own."""
    if not copies.any():
        return
    keys = np.stack([found.cells, found.phases], axis=1)
    groups: Numbers = np.unique(keys, axis=0, return_inverse=True)[1].reshape(-1)
    count = int(groups.max()) + 1
    top, bottom = np.iinfo(np.int64).max, np.iinfo(np.int64).min
    first, last, read = np.full(count, top), np.full(count, bottom), np.full(count, top)
    np.minimum.at(first, groups[copies], moments[copies])
    np.maximum.at(last, groups[copies], moments[copies])
    np.minimum.at(read, groups[~copies], moments[~copies])
    found.ignored = copies & (first == last)[groups] & (read > last)[groups]


def _ignore_rewritten(found: Together, copies: np.ndarray[Any, np.dtype[np.bool_]], moments: Numbers) -> None:
    """Pass over elements that only the stores `copies` write, always the same, and each iteration before it reads."""
    if not len(found.cells):
        return
    sure = np.concatenate([t.points.sure for t in found.traces])
    groups: Numbers = np.unique(np.stack([found.cells, found.phases], axis=1), axis=0, return_inverse=True)[1]
    groups = groups.reshape(-1)
    own: Numbers = np.unique(np.stack([groups, found.numbers], axis=1), axis=0, return_inverse=True)[1].reshape(-1)
    top = np.iinfo(np.int64).max
    write = np.full(int(own.max()) + 1, top)
    np.minimum.at(write, own[copies & sure], moments[copies & sure])
    late = np.where(copies, write[own] == top, found.writes | (write[own] >= moments))
    bad = np.zeros(int(groups.max()) + 1, np.bool_)
    np.logical_or.at(bad, groups, late)
    found.ignored |= ~bad[groups]


def _touched(site: Site) -> list[PrimExpr]:
    value = getattr(site.statement, "value", None)
    return [*_offset_exprs(site), *([value] if site.role == WRITE and isinstance(value, PrimExpr) else [])]


def _numbers(trace: Trace, loops: Sequence[Loop]) -> Numbers:
    """One number for each iteration of `loops`, whichever loops of the same threads surround the site."""
    total: Numbers = np.zeros(trace.points.count, np.int64)
    own = [s for s in trace.site.scopes() if isinstance(s, Loop)]
    for tag in dict.fromkeys(loop.thread or loop.var for loop in loops):
        mine = next((s for s in own if (s.thread or s.var) == tag), None) if isinstance(tag, str) else _same(own, tag)
        values = np.zeros_like(total) if mine is None else trace.points.values[mine.var]
        total = total * (1 << 20) + values
    return total


def _same(own: Sequence[Loop], var: Var) -> Loop | None:
    return next((s for s in own if s.var is var), None)


def scopes_below(scope: Scope | None, count: int) -> list[Scope]:
    """The scopes of a chain without its `count` outermost ones."""
    return [] if scope is None else scope.chain()[count:]
