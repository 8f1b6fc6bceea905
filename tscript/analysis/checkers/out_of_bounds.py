"""Accesses outside their buffer: each is proven right, or tried with numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Final

import numpy as np

from tscript.analysis.checkers.points import Points, UnknownValue, points_of
from tscript.analysis.checkers.proofs import Proofs, size_variables
from tscript.analysis.checkers.report import POSSIBLE, PROVEN, Finding
from tscript.analysis.checkers.sites import BOUND, ESCAPE, Binding, Loop, Site, Survey
from tscript.ir.expr import Var
from tscript.ir.function import PrimFunc
from tscript.ir.occurrences import variables
from tscript.ir.stmt import BlockRealize

KIND: Final = "out-of-bounds"


def find_out_of_bounds(func: PrimFunc, found: Survey, proofs: Proofs) -> list[Finding]:
    """The accesses of `func` that leave their buffer, or may."""
    findings: list[Finding] = []
    for site in found.sites:
        if site.role == ESCAPE:
            continue
        bad = [d for d, limits in enumerate(site.limits) if not proofs.lies_within(site.indices[d], limits, site.scope)]
        if bad:
            finding = _tried(func, site, bad)
            if finding is not None:
                findings.append(finding)
    return _without_echoes(findings)


def _without_echoes(findings: list[Finding]) -> list[Finding]:
    """Of findings with the same text at the same place, the first."""
    return list({(f.message, f.status, f.span, f.statement): f for f in reversed(findings)}.values())[::-1]


def _tried(func: PrimFunc, site: Site, dims: list[int]) -> Finding | None:
    """What the iterations around a site show: None where all of them are right."""
    complete = True
    maybe: Finding | None = None
    for values, is_free in assignments(func, site):
        try:
            points = points_of(site.scopes(), values, _wanted(site, dims))
            hit = _first_outside(points, site, dims)
        except UnknownValue:
            complete = False
            continue
        complete = complete and points.complete and not values
        if hit is not None:
            row, dim, sure = hit
            proven = sure and is_free
            finding = _finding(func, site, dim, PROVEN if proven else POSSIBLE, points, row, values)
            if proven:
                return finding
            maybe = maybe or finding
    if maybe is not None:
        return maybe
    return None if complete else _finding(func, site, dims[0], POSSIBLE, None, 0, {})


def _wanted(site: Site, dims: list[int]) -> list[Var]:
    exprs = [site.indices[d] for d in dims]
    exprs += [e for d in dims for e in (site.limits[d].min, site.limits[d].extent)]
    return list(variables(*exprs))


_SIZES: Final = (1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 33, 64, 100, 129)
_FEW_SIZES: Final = (1, 2, 5, 16, 17)
_SCALARS: Final = (0, 1, 2, 3, 5, 16, -1)


def assignments(func: PrimFunc, *sites: Site) -> Iterator[tuple[dict[Var, int], bool]]:
    """Values for the variables that come from outside; with each, whether an input is bound to exist for it.

    A size may be any positive number. What callers pass as a scalar is theirs to choose, so it proves nothing.
    """
    free = _outside_variables(*sites)
    sizes = [v for v in free if v in size_variables(func)]
    scalars = [v for v in free if v not in size_variables(func)]
    choices = _SIZES if len(sizes) < 2 else _FEW_SIZES
    count = 0
    for row in product(choices, repeat=min(len(sizes), 3)):
        values = {v: row[min(k, len(row) - 1)] for k, v in enumerate(sizes)}
        if not scalars:
            yield values, True
            count += 1
            continue
        for number in _SCALARS:
            yield values | dict.fromkeys(scalars, number), False


def _outside_variables(*sites: Site) -> dict[Var, None]:
    used: dict[Var, None] = {}
    inside: dict[Var, None] = {}
    for site in sites:
        used |= variables(*site.indices)
        for limits in site.limits:
            used |= variables(limits.min, limits.extent)
        for scope in site.scopes():
            match scope:
                case Loop():
                    used |= variables(scope.low, scope.extent)
                    inside[scope.var] = None
                case Binding():
                    used |= variables(scope.value)
                    inside[scope.var] = None
                case _ if (condition := getattr(scope, "condition", None)) is not None:
                    used |= variables(condition)
                case _:
                    pass
    return {v: None for v in used if v not in inside and not v.dtype.is_handle}


def _first_outside(points: Points, site: Site, dims: list[int]) -> tuple[int, int, bool] | None:
    """Row and dimension of an access outside; one that is sure to take place if there is any."""
    if points.count == 0:
        return None
    best: tuple[int, int, bool] | None = None
    for d in dims:
        index = points.at(site.indices[d])
        low, extent = points.at(site.limits[d].min), points.at(site.limits[d].extent)
        outside = (index < low) | (index >= low + extent)
        for which, sure in ((outside & points.sure, True), (outside, False)):
            rows = np.flatnonzero(which)
            if len(rows):
                if sure or best is None:
                    best = int(rows[0]), d, sure
                break
        if best is not None and best[2]:
            return best
    return best


def witness_of(points: Points, row: int, site: Site, values: Mapping[Var, int]) -> dict[str, int]:
    """The values of sizes and loops in one iteration, by name; those of axes where they differ from their loop's."""
    shown = {v.name: n for v, n in values.items()}
    for scope in site.scopes():
        if isinstance(scope, Loop) and not scope.is_lane and scope.var in points.values:
            shown.setdefault(scope.var.name, int(points.values[scope.var][row]))
    return shown


def _finding(
    func: PrimFunc, site: Site, dim: int, status: str, points: Points | None, row: int, values: Mapping[Var, int]
) -> Finding:
    name = site.buffer.name
    text = f"{name}[{', '.join(str(i) for i in site.indices)}]"
    limits = site.limits[dim]
    witness: dict[str, int] = {}
    if points is None:
        message = f"{text} may lie outside {name}, whose dimension {dim} has extent {limits.extent}"
    else:
        at = [_at(points, site, d, row) for d in range(len(site.indices))]
        low, extent = int(points.at(limits.min)[row]), int(points.at(limits.extent)[row])
        spread = f"extent {extent}" if low == 0 else f"the values {low} to {low + extent - 1}"
        message = f"{name}[{', '.join(at)}] is outside {name}, whose dimension {dim} has {spread}"
        witness = witness_of(points, row, site, values)
        if status == POSSIBLE:
            message += ", if this iteration runs"
    if site.axis:
        value = str(site.indices[0]) if points is None else _at(points, site, 0, row)
        message = (
            f"axis {site.axis} of block {name} takes the value {value}, outside its domain of extent {limits.extent}"
        )
    elif site.role == BOUND:
        message += " (a view of it is made here)"
    return Finding(
        KIND, status, message, func.__name__, name, witness, statement_text(site), site.span,
        "guard the access with a condition that keeps the subscript inside, or make the buffer larger",
    )  # fmt: skip


def _at(points: Points, site: Site, dim: int, row: int) -> str:
    try:
        return str(int(points.at(site.indices[dim])[row]))
    except UnknownValue:
        return str(site.indices[dim])


def statement_text(site: Site) -> str:
    """The statement of a site on one line."""
    if isinstance(site.statement, BlockRealize):
        return f'with T.block("{site.statement.block.name_hint}")'
    return str(site.statement).splitlines()[-1].strip()[:200]
