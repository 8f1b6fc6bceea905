"""Proofs that iterations of a loop never meet at an element."""

from __future__ import annotations

from collections.abc import Sequence

from tscript.analysis.checkers.proofs import Proofs
from tscript.analysis.checkers.sites import Binding, Loop, Site
from tscript.arith.analyzer import Analyzer
from tscript.arith.int_set import IntervalSet
from tscript.arith.iter_map.detect import detect_iter_map
from tscript.arith.iter_map.model import IterMapLevel
from tscript.arith.region import point_region, relax_region
from tscript.ir import construct as make
from tscript.ir import expr as ex
from tscript.ir.expr import IntImm, PrimExpr, Range, Var
from tscript.ir.functor import substitute
from tscript.ir.occurrences import any_below, mentions

Box = tuple[PrimExpr, PrimExpr]
Boxes = list[Box | None]
Pairs = list[tuple[Box, Box]]


def always_apart(a: Site, b: Site, loops: Sequence[Loop], proofs: Proofs) -> bool:
    """Whether `a` and `b` touch different elements in any two different iterations of `loops`.

    Iterations of the loops around `loops` are taken to be the same ones.
    """
    if a.memory is not b.memory:
        return False
    pairs = zip(_boxes(a, loops, proofs), _boxes(b, loops, proofs), strict=True)
    boxes = [(x, y) for x, y in pairs if x is not None and y is not None]
    if len(loops) == 1 and _in_order(boxes, loops[0], proofs):
        return True
    return _in_a_grid(boxes, loops, proofs)


def _boxes(site: Site, loops: Sequence[Loop], proofs: Proofs) -> Boxes:
    """The first and last index of each dimension that `site` touches in one iteration of `loops`; None if unknown."""
    values: dict[Var, PrimExpr] = {}
    domains: dict[Var, Range | IntervalSet] = {}
    inside = False
    for scope in site.scopes():
        if scope in loops:
            inside = True
        elif isinstance(scope, Loop) and inside:
            domains[scope.var] = Range.from_min_extent(substitute(scope.low, values), substitute(scope.extent, values))
        elif isinstance(scope, Binding):
            values[scope.var] = substitute(scope.value, values)
    base = [substitute(i, values) for i in site.base or ()]
    analyzer = proofs.at(loops[-1])
    found: Boxes = []
    for index, s in zip(base, relax_region(point_region(base), domains, analyzer.fork()), strict=True):
        if s.min_value is None or s.max_value is None or _depends_on_memory(index):
            found.append(None)
            continue
        low, high = analyzer.simplify(s.min_value), analyzer.simplify(s.max_value)
        found.append(None if mentions(low, domains) or mentions(high, domains) else (low, high))
    return found


def _depends_on_memory(index: PrimExpr) -> bool:
    return any_below(index, lambda n: isinstance(n, ex.BufferLoad) or (isinstance(n, ex.Call) and not _is_pure(n)))


def _is_pure(call: ex.Call) -> bool:
    return isinstance(call.op, ex.Op) and call.op.effect == "pure" and call.op.name != "tir.undef"


def _in_order(boxes: Pairs, loop: Loop, proofs: Proofs) -> bool:
    """Whether in some dimension a later iteration touches higher indices only, or lower ones only."""
    analyzer = proofs.at(loop).fork()
    ahead = Var("ahead", loop.var.dtype)
    analyzer.bind(ahead, Range.from_min_extent(make.const(1, ahead.dtype), make.const(1 << 30, ahead.dtype)))
    step = {loop.var: make.add(loop.var, ahead)}
    for (low, high), (other_low, other_high) in boxes:
        next_low, next_high = substitute(low, step), substitute(high, step)
        other_next_low, other_next_high = substitute(other_low, step), substitute(other_high, step)
        if _below(high, other_next_low, analyzer) and _below(other_high, next_low, analyzer):
            return True
        if _below(next_high, other_low, analyzer) and _below(other_next_high, low, analyzer):
            return True
    return False


def _below(a: PrimExpr, b: PrimExpr, analyzer: Analyzer) -> bool:
    return analyzer.can_prove(make.compare(ex.LT, a, b))


def _in_a_grid(boxes: Pairs, loops: Sequence[Loop], proofs: Proofs) -> bool:
    """Whether both stay in the same cell of a grid, and no two iterations have the same cell.

    Dimensions for which that cannot be said are left out; the others may tell iterations apart all the same.
    """
    analyzer = proofs.at(loops[-1])
    cells: list[PrimExpr] = []
    for (low, high), (other_low, other_high) in boxes:
        width = analyzer.simplify(make.add(make.sub(high, low), 1))
        if not isinstance(width, IntImm) or width.value < 1:
            continue
        cell = analyzer.simplify(make.floordiv(low, width))
        if all(analyzer.simplify(make.floordiv(e, width)) is cell for e in (low, high, other_low, other_high)):
            cells.append(cell)
    domains = {loop.var: Range.from_min_extent(loop.low, loop.extent) for loop in loops}
    if any(mentions(r.extent, domains) or mentions(r.min, domains) for r in domains.values()):
        return False
    return bool(detect_iter_map(cells, domains, True, IterMapLevel.BIJECTIVE, analyzer=analyzer.fork()).indices)
