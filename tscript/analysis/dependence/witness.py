"""Two iterations that touch the same element, as an example that anyone can check."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from tscript.analysis.checkers.points import Points, UnknownValue, points_of
from tscript.analysis.checkers.sites import Guard, Loop, Scope
from tscript.analysis.dependence.accesses import Access
from tscript.ir.construct import is_const_int
from tscript.ir.expr import PrimExpr, Range, Var
from tscript.ir.occurrences import variables
from tscript.ir.stmt import ForKind

TRIED: Final = 4096
"""Iterations of each access that are looked at."""

_SIZE: Final = 7
"""What sizes that are not known are taken to be: any value will do for an example."""


@dataclass(frozen=True)
class Witness:
    """The iterations `first` (which writes) and `second` touch `element`, where unknown sizes are `sizes`."""

    first: Mapping[str, int]
    second: Mapping[str, int]
    element: tuple[int, ...]
    sizes: Mapping[str, int]

    def explain(self, buffer: str, writes: bool) -> str:
        """The example in words."""
        element = f"{buffer}[{', '.join(map(str, self.element))}]"
        text = f"iteration ({_listed(self.first)}) writes {element}, iteration ({_listed(self.second)}) "
        text += "writes it too" if writes else "reads it"
        return text + (f", where {_listed(self.sizes)}" if self.sizes else "")


def _listed(values: Mapping[str, int]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())


def find_witness(
    var: Var,
    w: Access,
    x: Access,
    around: Mapping[Var, Range] | None = None,
    *,
    other_instance: bool = False,
    too_late: bool = False,
) -> Witness | None:
    """Iterations of the loop over `var` in which `w` writes what `x` touches in another one; None if none was found.

    `around` holds the loops and axes around, which are at the same values in both. With `other_instance`, the bindings
    of the block of `w`, which is that of `x`, differ too. `too_late` asks for a write in a later iteration, of an
    element that the earlier one does not write itself.
    """
    if w.buffer is not x.buffer or not (w.is_sure and x.is_sure):
        return None
    outer = {v: r for v, r in (around or {}).items() if v not in w.domain}
    try:
        sizes = _sizes((w, x), outer)
        extra = [] if not other_instance or w.realize is None else list(w.realize.iter_values)
        p = _points(w, var, outer, sizes, extra)
        q = p if x is w else _points(x, var, outer, sizes, extra)
    except UnknownValue:
        return None
    if p is None or q is None:
        return None
    found = _meeting(p, q, bool(extra), too_late)
    if found is None:
        return None
    row, other = found
    return Witness(_named(p, row), _named(q, other), p.elements[row], {v.name: n for v, n in sizes.items()})


@dataclass(frozen=True)
class _Runs:
    points: Points
    loops: tuple[Var, ...]
    values: list[int]
    outer: list[tuple[int, ...]]
    elements: list[tuple[int, ...]]
    bindings: list[tuple[int, ...]]


def _sizes(accesses: tuple[Access, ...], outer: Mapping[Var, Range]) -> dict[Var, int]:
    """A value for each variable from outside of all loops."""
    free: dict[Var, None] = {}
    for a in accesses:
        parts = [e for r in (*outer.values(), *a.domain.values(), *a.region) for e in (r.min, r.extent)]
        used = variables(*parts, *a.conditions)
        free |= {v: None for v in used if v not in a.domain and v not in outer and v.dtype.is_integer}
    return dict.fromkeys(free, _SIZE)


def _points(
    a: Access, var: Var, outer: Mapping[Var, Range], sizes: Mapping[Var, int], extra: list[PrimExpr]
) -> _Runs | None:
    # A larger region may be declared than is touched, so only single elements are certain.
    if not all(is_const_int(r.extent, 1) for r in a.region):
        return None
    scope: Scope | None = None
    domain = {**outer, **a.domain}
    for k, (v, r) in enumerate(domain.items()):
        scope = Loop(scope, v, r.min, r.extent, ForKind.SERIAL, k)
    for c in a.conditions:
        scope = Guard(scope, c)
    scopes = [] if scope is None else scope.chain()
    index = [r.min for r in a.region]
    points = points_of(scopes, sizes, [*index, *extra, var, *outer], TRIED)
    points.keep(points.sure)
    if not points.count:
        return None
    return _Runs(
        points, tuple(v for v in domain if v.name), points.values[var].tolist(),
        _rows(points, list(outer)), _rows(points, index), _rows(points, extra),
    )  # fmt: skip


def _rows(points: Points, columns: list[PrimExpr] | list[Var]) -> list[tuple[int, ...]]:
    if not columns:
        return [()] * points.count
    stacked = np.stack([points.at(c) for c in columns], axis=1).tolist()
    return [tuple(row) for row in stacked]


def _meeting(p: _Runs, q: _Runs, other_instance: bool, too_late: bool) -> tuple[int, int] | None:
    """The first iteration of `p` that meets one of `q`."""
    places: dict[tuple[tuple[int, ...], tuple[int, ...]], list[int]] = {}
    for k, key in enumerate(zip(q.outer, q.elements, strict=True)):
        rows = places.setdefault(key, [])
        # Two values of the loop are enough to differ from any one; of bindings, some more.
        if len(rows) < _KEPT and (too_late or other_instance or all(q.values[k] != q.values[r] for r in rows)):
            rows.append(k)
    own = set(zip(p.outer, p.elements, p.values, strict=True)) if too_late else set[object]()
    for row, key in enumerate(zip(p.outer, p.elements, strict=True)):
        for other in places.get(key, ()):
            differ = p.values[row] != q.values[other]
            if too_late:
                differ = p.values[row] > q.values[other] and (*key, q.values[other]) not in own
            if differ and (not other_instance or p.bindings[row] != q.bindings[other]):
                return row, other
    return None


_KEPT: Final = 16


def _named(runs: _Runs, row: int) -> dict[str, int]:
    return {v.name: int(runs.points.values[v][row]) for v in runs.loops}


__all__ = ["TRIED", "Witness", "find_witness"]
