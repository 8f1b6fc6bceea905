"""Reductions that begin an element anew in several instances, which only the order of the program gives a result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Final
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from tscript.analysis.affine import are_independent, find_digits, tell_all
from tscript.analysis.ranges import range_bounds
from tscript.arith import const_bound, simplify
from tscript.ir.construct import is_const_int
from tscript.ir.expr import IntImm, IterVar, PrimExpr, Range, Var
from tscript.ir.functor import substitute
from tscript.ir.linear import from_linear, linear_form
from tscript.ir.occurrences import mentions, reads_memory
from tscript.ir.stmt import Block, BufferRegion
from tscript.schedule.errors import literal
from tscript.schedule.layout import values_at

_MOST_POINTS: Final = 1 << 18
_FIRST: Final = 64
"""How many values are tried of an axis of unknown extent."""


def shared_element(block: Block) -> str:
    """Two instances of the spatial axes of a reduction that write their init to the same element, in words.

    The later one loses what the earlier one has summed up. The text is empty where there are certainly none: as a rule
    each spatial axis is a subscript by itself, else subscripts are taken apart, else all instances tried.

    >>> from tscript.script import tir as T
    >>> @T.prim_func
    ... def pairs(A: T.Buffer((8, 4), "float32"), C: T.Buffer((4,), "float32")):
    ...     for i, k in T.grid(8, 4):
    ...         with T.block("C"):
    ...             v, r = T.axis.remap("SR", [i, k])
    ...             with T.init():
    ...                 C[v // 2] = T.float32(0)
    ...             C[v // 2] = C[v // 2] + A[v, r]
    >>> shared_element(pairs.body.block.body.body.body.block)
    'its instances (v=0) and (v=1) both begin C[0] anew'
    """
    found = _KNOWN.get(block)
    if found is None:
        found = _KNOWN[block] = next(filter(None, (_shared_in(block, w) for w in block.writes)), "")
    return found


_KNOWN: WeakKeyDictionary[Block, str] = WeakKeyDictionary()


def _shared_in(block: Block, written: BufferRegion) -> str:
    axes = {a.var: a.dom for a in block.iter_vars if a.iter_type == IterVar.DataPar and a.dom is not None}
    units: dict[Var, PrimExpr] = {v: r.min for v, r in axes.items() if is_const_int(r.extent, 1)}
    domain = {v: r for v, r in axes.items() if v not in units}
    if domain.keys() <= {r.min for r in written.region if is_const_int(r.extent, 1)}:
        return ""
    unknown = f"its instances are not seen to have elements of `{literal(written.buffer.name)}` of their own"
    if any(reads_memory(r.min) for r in written.region):
        return unknown
    element = _with_lanes(written, domain)
    places = [_moving_part(simplify(substitute(e, units)), domain) for e in element]
    strings = [s for s in (find_digits(e, domain) for e in places) if s is not None]
    if are_independent(strings) and tell_all(strings, domain):
        return ""
    grid, is_whole = _tried(domain)
    values = [values_at(e, grid) for e in places]
    if not grid or any(v is None for v in values):
        return unknown
    pair = _two_alike([v for v in values if v is not None], grid)
    if pair is None:
        return "" if is_whole else unknown
    (first, second) = ({v: IntImm(v.dtype, int(x.ravel()[k])) for v, x in grid.items()} for k in pair)
    place = ", ".join(str(simplify(substitute(e, {**units, **first}))) for e in element)
    one, other = (", ".join(f"{v.name}={n}" for v, n in at.items() if v in axes) for at in (first, second))
    return f"its instances ({one}) and ({other}) both begin {literal(f'{written.buffer.name}[{place}]')} anew"


def _with_lanes(written: BufferRegion, domain: dict[Var, Range]) -> list[PrimExpr]:
    """Subscripts of any element of a region; the variables that count within it are added to `domain`."""
    result: list[PrimExpr] = []
    bounds = range_bounds(domain)
    for r in written.region:
        extent: PrimExpr = r.extent
        if mentions(extent, domain):
            # No region of the block is larger.
            high = const_bound(extent, bounds).high
            extent = extent if high is None else IntImm(extent.dtype, high)
        if is_const_int(extent, 1):
            result.append(r.min)
            continue
        lane = Var("lane", r.min.dtype)
        domain[lane] = Range.from_min_extent(IntImm(lane.dtype, 0), extent)
        result.append(r.min + lane)
    return result


def _moving_part(e: PrimExpr, domain: Mapping[Var, object]) -> PrimExpr:
    """An expression without what is added that is the same everywhere in a domain."""
    terms, _ = linear_form(e)
    return from_linear(({t: c for t, c in terms.items() if mentions(t, domain)}, 0), e.dtype)


Values = npt.NDArray[np.int64]


def _tried(domain: Mapping[Var, Range]) -> tuple[dict[Var, Values], bool]:
    """Points of a domain, by variable, and whether they are all: else the first ones; none where starts are unknown."""
    lows = [r.min.value for r in domain.values() if isinstance(r.min, IntImm)]
    if len(lows) < len(domain):
        return {}, False
    known = [r.extent.value if isinstance(r.extent, IntImm) else None for r in domain.values()]
    is_whole = all(n is not None for n in known) and prod(n for n in known if n is not None) <= _MOST_POINTS
    few = max(2, int(_MOST_POINTS ** (1 / len(domain))))
    shape = [n if is_whole and n is not None else min(few, _FIRST if n is None else n) for n in known]
    grid = np.indices(shape, dtype=np.int64)
    return {v: g + low for v, g, low in zip(domain, grid, lows, strict=True)}, is_whole


def _two_alike(values: Sequence[Values], grid: Mapping[Var, Values]) -> tuple[int, int] | None:
    """Two points at which all values are the same: the first that repeats an earlier one, after that."""
    shape = next(iter(grid.values())).shape
    places = np.stack([np.broadcast_to(v, shape).ravel() for v in values])
    _, first, group = np.unique(places, axis=1, return_index=True, return_inverse=True)
    earliest: Values = first[group.reshape(-1)]
    repeats: npt.NDArray[np.bool_] = np.not_equal(earliest, np.arange(earliest.size, dtype=np.int64))
    again = np.flatnonzero(repeats)
    return (int(earliest[again[0]]), int(again[0])) if again.size else None


__all__ = ["shared_element"]
