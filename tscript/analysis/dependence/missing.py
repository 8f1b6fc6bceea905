"""An element that is read where it has not been written, and two accesses that meet anywhere, as examples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tscript.analysis.checkers.points import UnknownValue
from tscript.analysis.dependence.accesses import Access, inner_accesses
from tscript.analysis.dependence.runs import Runs, by_element, listed, runs_of, sizes_for
from tscript.analysis.dependence.witness import Witness
from tscript.ir.expr import Range, Var


def find_unwritten(read: Access, writes: Sequence[Access], around: Mapping[Var, Range]) -> str:
    """An iteration that reads an element which `writes` do not write in the same iteration of the loops `around`, in
    words, with one that does write it, if any; "" where none was found.
    """
    if not read.is_sure:
        return ""
    for access in inner_accesses(read):
        if access.is_sure:
            try:
                found = _unwritten(access, writes, around)
            except UnknownValue:
                return ""
            if found:
                return found
    return ""


def _unwritten(read: Access, writes: Sequence[Access], around: Mapping[Var, Range]) -> str:
    sizes = sizes_for((read, *writes), around)
    reads = runs_of(read, (), around, sizes)
    if reads is None:
        return ""
    made: dict[object, None] = {}
    places: dict[object, tuple[Runs, int]] = {}
    for w in writes:
        runs = runs_of(by_element(w), (), around, sizes, only_sure=False)
        if runs is None:
            continue
        if not runs.points.complete:
            return ""
        made.update(dict.fromkeys(zip(runs.outer, runs.elements, strict=True)))
        for row, element in enumerate(runs.elements):
            places.setdefault(element, (runs, row))
    for row, key in enumerate(zip(reads.outer, reads.elements, strict=True)):
        if key not in made:
            element = f"{read.buffer.name}[{', '.join(map(str, reads.elements[row]))}]"
            place = places.get(reads.elements[row])
            who = f"iteration ({listed(place[0].named(place[1]))}) writes" if place else "no iteration writes before"
            where = f", where {listed({v.name: n for v, n in sizes.items()})}" if sizes else ""
            return f"iteration ({listed(reads.named(row))}) reads {element}, which {who}{where}"
    return ""


def find_meeting(a: Access, b: Access, around: Mapping[Var, Range]) -> Witness | None:
    """Two iterations in which `a` and `b` touch the same element, in the same one of the loops `around`."""
    if a.buffer is not b.buffer or not (a.is_sure and b.is_sure):
        return None
    for x in inner_accesses(a):
        for y in inner_accesses(b):
            if x.is_sure and y.is_sure:
                try:
                    sizes = sizes_for((x, y), around)
                    p, q = runs_of(x, (), around, sizes), runs_of(y, (), around, sizes)
                except UnknownValue:
                    continue
                if p is None or q is None:
                    continue
                rows = {key: row for row, key in reversed([*enumerate(zip(q.outer, q.elements, strict=True))])}
                for row, key in enumerate(zip(p.outer, p.elements, strict=True)):
                    if key in rows:
                        shown = {v.name: n for v, n in sizes.items()}
                        return Witness(p.named(row), q.named(rows[key]), p.elements[row], shown)
    return None


__all__ = ["find_meeting", "find_unwritten"]
