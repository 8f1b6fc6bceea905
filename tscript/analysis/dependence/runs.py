"""Iterations of an access with numbers: in which of them, with which values of loops, which element is touched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from tscript.analysis.checkers.points import Points, points_of
from tscript.analysis.checkers.sites import Guard, Loop, Scope
from tscript.analysis.dependence.accesses import Access
from tscript.ir import construct as make
from tscript.ir.construct import is_const_int
from tscript.ir.expr import IntImm, PrimExpr, Range, Var
from tscript.ir.occurrences import variables
from tscript.ir.stmt import ForKind

TRIED: Final = 4096
"""Iterations of each access that are looked at."""

_SIZE: Final = 7
"""What sizes that are not known are taken to be: any value will do for an example."""


def listed(values: Mapping[str, int]) -> str:
    """Names with their values, as text."""
    return ", ".join(f"{name}={value}" for name, value in values.items())


@dataclass(frozen=True)
class Runs:
    """Iterations of an access, by number: values of its own loops and those around, the element, values asked for."""

    points: Points
    loops: tuple[Var, ...]
    values: list[int]
    outer: list[tuple[int, ...]]
    elements: list[tuple[int, ...]]
    bindings: list[tuple[int, ...]]

    def named(self, row: int) -> dict[str, int]:
        """The values of the loops in an iteration, by name."""
        return {v.name: int(self.points.values[v][row]) for v in self.loops}


def sizes_for(accesses: Sequence[Access], outer: Mapping[Var, Range]) -> dict[Var, int]:
    """A value for each variable from outside of all loops."""
    free: dict[Var, None] = {}
    for a in accesses:
        parts = [e for r in (*outer.values(), *a.domain.values(), *a.region) for e in (r.min, r.extent)]
        used = variables(*parts, *a.conditions)
        free |= {v: None for v in used if v not in a.domain and v not in outer and v.dtype.is_integer}
    return dict.fromkeys(free, _SIZE)


def runs_of(
    a: Access,
    loops: Sequence[Var],
    outer: Mapping[Var, Range],
    sizes: Mapping[Var, int],
    extra: Sequence[PrimExpr] = (),
    only_sure: bool = True,
) -> Runs | None:
    """Iterations of an access to single elements, those of `loops` each by itself; None where there are none.

    `outer` are the loops around, `extra` expressions whose values are asked for. With `only_sure`, only those that are
    sure to take place. Raises UnknownValue where subscripts cannot be told.
    """
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
    points = points_of(scopes, sizes, [*index, *extra, *loops, *outer], TRIED)
    if only_sure:
        points.keep(points.sure)
    if not points.count:
        return None
    return Runs(
        points, tuple(v for v in domain if v.name), points.values[loops[0]].tolist() if loops else [],
        rows_of(points, list(outer)), rows_of(points, index), rows_of(points, extra),
    )  # fmt: skip


def rows_of(points: Points, columns: Sequence[PrimExpr]) -> list[tuple[int, ...]]:
    """The values of expressions in each iteration."""
    if not columns:
        return [()] * points.count
    stacked = np.stack([points.at(c) for c in columns], axis=1).tolist()
    return [tuple(row) for row in stacked]


def by_element(access: Access) -> Access:
    """The access with a loop over the elements of its region."""
    domain = dict(access.domain)
    region: list[Range] = []
    for r in access.region:
        element = Var("", r.min.dtype)
        domain[element] = Range.from_min_extent(IntImm(r.min.dtype, 0), r.extent)
        region.append(Range.from_min_extent(make.add(r.min, element), IntImm(r.min.dtype, 1)))
    return replace(access, region=tuple(region), domain=domain)


__all__ = ["TRIED", "Runs", "by_element", "listed", "rows_of", "runs_of", "sizes_for"]
