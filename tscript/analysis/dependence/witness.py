"""Two iterations that touch the same element, as an example that anyone can check."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tscript.analysis.checkers.points import UnknownValue
from tscript.analysis.dependence.accesses import Access, inner_accesses
from tscript.analysis.dependence.runs import Runs, by_element, listed, rows_of, runs_of, sizes_for
from tscript.ir.expr import PrimExpr, Range, Var
from tscript.ir.occurrences import variables


@dataclass(frozen=True)
class Witness:
    """The iterations `first` (which writes) and `second` touch `element`, where unknown sizes are `sizes`."""

    first: Mapping[str, int]
    second: Mapping[str, int]
    element: tuple[int, ...]
    sizes: Mapping[str, int]

    def explain(self, buffer: str, writes: bool, first_writes: bool = True) -> str:
        """The example in words: the second iteration writes the element of `buffer`, or reads it; so does the first."""
        element = f"{buffer}[{', '.join(map(str, self.element))}]"
        text = f"iteration ({listed(self.first)}) {'writes' if first_writes else 'reads'} {element}, "
        text += f"iteration ({listed(self.second)}) "
        text += "reads it" if not writes else "writes it too" if first_writes else "writes it"
        return text + (f", where {listed(self.sizes)}" if self.sizes else "")


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
    extra = [] if not other_instance or w.realize is None else list(w.realize.iter_values)
    for a, b in _certain(w, x, too_late):
        found = _both_runs(a, b, (var,), around, extra)
        if found is None:
            continue
        p, q, sizes = found
        rows = _meeting(p, q, bool(extra), too_late)
        if rows is not None:
            return _witness(p, rows[0], q, rows[1], sizes)
    return None


def find_exchange(
    w: Access, x: Access, old: Sequence[Var], new: Sequence[Var], around: Mapping[Var, Range], same: Sequence[Var]
) -> tuple[Witness, Var, Var] | None:
    """Iterations in which `w` writes what `x` touches that come in another order with the loops ordered as in `new`
    rather than `old`, and the loops that decide on the old and the new order; None if none was found. The loops over
    `same`, and those around, are at the same values in both iterations.
    """
    for a, b in _certain(w, x, False):
        found = _both_runs(a, b, (*old, *same), around, [])
        if found is None:
            continue
        p, q, sizes = found
        rows = _exchanged(p, q, _Orders(p, old, new), _Orders(q, old, new), same)
        if rows is not None:
            one, two = ([int(r.points.values[v][k]) for v in old] for r, k in zip((p, q), rows, strict=True))
            first = {v: m - n for v, m, n in zip(old, one, two, strict=True)}
            decide = [next(v for v in order if first[v]) for order in (old, new)]
            return _witness(p, rows[0], q, rows[1], sizes), decide[0], decide[1]
    return None


def find_overtaken(w: Access, x: Access, loops: Sequence[Var], around: Mapping[Var, Range]) -> Witness | None:
    """An iteration of `loops` in which `w` touches what `x` touches in an earlier one; None if none was found."""
    for a, b in _certain(w, x, False):
        found = _both_runs(a, b, loops, around, [])
        if found is not None:
            p, q, sizes = found
            rows = _exchanged(p, q, _Orders(p, (), loops, 0), _Orders(q, (), loops, 1), ())
            if rows is not None:
                return _witness(p, rows[0], q, rows[1], sizes)
    return None


def never_exchanged(w: Access, x: Access, old: Sequence[Var], new: Sequence[Var], around: Mapping[Var, Range]) -> bool:
    """Whether going through all iterations shows that none which touch the same element come in another order."""
    runs = _all_runs(w, x, old, around)
    if runs is None:
        return False
    p, q = runs
    return _exchanged(p, q, _Orders(p, old, new), _Orders(q, old, new), ()) is None


def never_overtaken(w: Access, x: Access, loops: Sequence[Var], around: Mapping[Var, Range]) -> bool:
    """Whether going through all iterations shows that `w` touches nothing in a later one than `x` does."""
    runs = _all_runs(w, x, loops, around)
    if runs is None:
        return False
    p, q = runs
    return _exchanged(p, q, _Orders(p, (), loops, 0), _Orders(q, (), loops, 1), ()) is None


def _all_runs(w: Access, x: Access, loops: Sequence[Var], around: Mapping[Var, Range]) -> tuple[Runs, Runs] | None:
    """All iterations of both, whether they are sure to take place or not; None where they are too many."""
    if w.buffer is not x.buffer or not all(v in a.domain for v in loops for a in (w, x)):
        return None
    try:
        if sizes_for((w, x), around):
            return None
        used = _used(around, w, x)
        p, q = (runs_of(by_element(a), loops, used, {}, [], False) for a in (w, x))
    except UnknownValue:
        return None
    return None if p is None or q is None or not (p.points.complete and q.points.complete) else (p, q)


def _certain(w: Access, x: Access, whole: bool) -> list[tuple[Access, Access]]:
    """Accesses of single elements that are sure to take place, in pairs; none if not all of `w` is (`whole`)."""
    if w.buffer is not x.buffer or not (w.is_sure and x.is_sure):
        return []
    writes = [a for a in inner_accesses(w) if a.is_sure]
    if whole and len(writes) > 1:
        return []
    touches = writes if x is w else [a for a in inner_accesses(x) if a.is_sure]
    return [(a, b) for a in writes for b in touches][:_PAIRS]


_PAIRS: Final = 16
"""Pairs of accesses of single elements in two blocks that are looked at."""


def _both_runs(
    w: Access, x: Access, loops: Sequence[Var], around: Mapping[Var, Range] | None, extra: list[PrimExpr]
) -> tuple[Runs, Runs, dict[Var, int]] | None:
    """Iterations of both, for some sizes."""
    outer = {v: r for v, r in (around or {}).items() if v not in w.domain}
    try:
        sizes = sizes_for((w, x), outer)
        p = runs_of(w, loops, outer, sizes, extra)
        q = p if x is w else runs_of(x, loops, outer, sizes, extra)
    except UnknownValue:
        return None
    return None if p is None or q is None else (p, q, sizes)


def _used(around: Mapping[Var, Range], *accesses: Access) -> dict[Var, Range]:
    """The loops around that the accesses depend on."""
    used: dict[Var, None] = {}
    for a in accesses:
        used |= variables(*(e for r in (*a.domain.values(), *a.region) for e in (r.min, r.extent)), *a.conditions)
    kept: dict[Var, Range] = {}
    for v, r in reversed([*around.items()]):
        if v in used:
            kept[v] = r
            used |= variables(r.min, r.extent)
    return dict(reversed([*kept.items()]))


def _witness(p: Runs, row: int, q: Runs, other: int, sizes: Mapping[Var, int]) -> Witness:
    return Witness(p.named(row), q.named(other), p.elements[row], {v.name: n for v, n in sizes.items()})


def _meeting(p: Runs, q: Runs, other_instance: bool, too_late: bool) -> tuple[int, int] | None:
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


_Place = tuple[tuple[int, ...], tuple[int, ...]]
"""Where an iteration comes in the old order and in the new one."""


class _Orders:
    """The places of iterations in two orders of their loops; of those of statement number `part`, where there are two
    statements, which used to come one after the other.
    """

    def __init__(self, runs: Runs, old: Sequence[Var], new: Sequence[Var], part: int = 0) -> None:
        before, after = (rows_of(runs.points, list(order)) for order in (old, new))
        self.places: list[_Place] = [((part, *b), (*a, part)) for b, a in zip(before, after, strict=True)]


def _exchanged(p: Runs, q: Runs, mine: _Orders, others: _Orders, same: Sequence[Var]) -> tuple[int, int] | None:
    """The first iteration of `p` with one of `q` that touches the same element and comes in another order then."""
    groups: dict[object, tuple[list[int], list[int]]] = {}
    for k, runs in enumerate((p, q)):
        together = rows_of(runs.points, list(same))
        for row, key in enumerate(zip(runs.outer, runs.elements, together, strict=True)):
            groups.setdefault(key, ([], []))[k].append(row)
    best: tuple[int, int] | None = None
    for rows, other_rows in groups.values():
        if not (rows and other_rows):
            continue
        if not _may_exchange([mine.places[r] for r in rows], [others.places[r] for r in other_rows]):
            continue
        for row in rows:
            if best is not None and row >= best[0]:
                break
            found = next((o for o in other_rows if _turned(mine.places[row], others.places[o])), None)
            if found is not None:
                best = row, found
    return best


def _turned(one: _Place, other: _Place) -> bool:
    return one[0] != other[0] and (one[0] < other[0]) != (one[1] < other[1])


def _may_exchange(mine: list[_Place], others: list[_Place]) -> bool:
    """Whether any of `mine` and one of `others` change places; by going through all in the old order once."""
    for first, second in ((mine, others), (others, mine)):
        latest: tuple[int, ...] | None = None
        waiting = sorted(first)
        k = 0
        for before, after in sorted(second):
            while k < len(waiting) and waiting[k][0] < before:
                latest = waiting[k][1] if latest is None else max(latest, waiting[k][1])
                k += 1
            if latest is not None and latest > after:
                return True
    return False


__all__ = ["Witness", "find_exchange", "find_overtaken", "find_witness", "never_exchanged", "never_overtaken"]
