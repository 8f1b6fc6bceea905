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
from tscript.analysis.checkers.sites import Loop, Scope, Site, Storage
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
    columns = [_columns(site, points) for site, points in found]
    moments = _ranked(columns)
    result: list[Trace] = []
    for (site, points), moment in zip(found, moments, strict=True):
        try:
            cells = _cells(site, points, shared)
        except UnknownValue:
            return None
        result.append(Trace(site, points, cells, moment))
    return result


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


def _cells(site: Site, points: Points, shared: Sequence[Loop]) -> Numbers:
    """The number of the cell of each iteration; -1 for those outside their buffer."""
    memory = site.memory
    if site.base is None:
        raise UnknownValue(memory.name)
    cell: Numbers = np.array(points.at(memory.elem_offset))
    outside = np.zeros(points.count, np.bool_)
    for index, stride, extent in zip(site.base, memory.effective_strides(), memory.shape, strict=True):
        value = points.at(index)
        outside |= (value < 0) | (value >= points.at(extent))
        cell = cell + value * points.at(stride)
    for loop in shared:
        # A thread has the same number however many loops bind it.
        loops = [s for s in site.scopes() if isinstance(s, Loop)]
        own = next((s for s in loops if s is loop or (loop.thread and s.thread == loop.thread)), None)
        number = points.values[own.var] if own is not None else np.zeros(points.count, np.int64)
        if not (_fits(cell, 1 << 46) and _fits(number, 1 << 17)):
            raise UnknownValue(memory.name)
        cell = (cell << 17) + number
    return np.where(outside, -1, cell)


def _fits(numbers: Numbers, limit: int) -> bool:
    return numbers.size == 0 or (int(numbers.min()) >= 0 and int(numbers.max()) < limit)


def _columns(site: Site, points: Points) -> list[Numbers]:
    """What orders the iterations, the most important first: places and loop values in turn."""
    columns: list[Numbers] = []
    for scope in site.scopes():
        if isinstance(scope, Loop) and not runs_in_lockstep(scope):
            columns += [np.full(points.count, scope.place), points.values[scope.var]]
    columns.append(np.full(points.count, site.place))
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
    for column in joined:
        values, inverse = np.unique(column, return_inverse=True)
        rank = rank * len(values) + inverse
        if rank.size and int(rank.max()) > 1 << 40:
            rank = np.unique(rank, return_inverse=True)[1]
    ends = np.cumsum([len(c[0]) for c in columns])[:-1]
    return list(np.split(rank, ends))


def scopes_below(scope: Scope | None, count: int) -> list[Scope]:
    """The scopes of a chain without its `count` outermost ones."""
    return [] if scope is None else scope.chain()[count:]
