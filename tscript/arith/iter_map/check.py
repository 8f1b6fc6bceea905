"""Whether normal sums describe a map that is onto, or one to one."""

from __future__ import annotations

from collections.abc import Sequence

from tscript.arith.iter_map.factors import Factors, is_int
from tscript.arith.iter_map.model import IterMapLevel, IterMark, IterSplitExpr, IterSumExpr, variables_of
from tscript.arith.iter_map.rewriter import Constraint
from tscript.ir import construct as make
from tscript.ir import expr as ex
from tscript.ir.expr import IntImm, PrimExpr


class SplitUses:
    """The splits in which each mark is used, anywhere below some sums."""

    def __init__(self, indices: Sequence[IterSumExpr]) -> None:
        self.splits: dict[IterMark, list[IterSplitExpr]] = {}
        stack: list[IterSplitExpr] = [a for s in reversed(indices) for a in reversed(s.args)]
        while stack:
            split = stack.pop()
            mark = split.source
            if mark not in self.splits:
                self.splits[mark] = []
                if isinstance(mark.source, IterSumExpr):
                    stack.extend(mark.source.args)
            self.splits[mark].append(split)


def ordered_splits(
    mark: IterMark, splits: Sequence[IterSplitExpr], level: IterMapLevel, factors: Factors
) -> list[IterSplitExpr] | None:
    """Splits of a mark from the lowest up, if they are digits of it that depend on each other in no way.

    For a map that is one to one they must also leave nothing out.
    """
    left = list(splits)
    result: list[IterSplitExpr] = []
    expected: PrimExpr = IntImm(mark.extent.dtype, 1)
    while left:
        found = next((s for s in left if factors.equal(s.lower_factor, expected)), None)
        if found is None:
            # An iterator of one step always gives zero.
            found = next((s for s in left if is_int(s.extent, 1)), None)
            if found is not None:
                left.remove(found)
                continue
        if found is None and level != IterMapLevel.BIJECTIVE:
            found = _next_above(left, expected, factors)
        if found is None:
            return None
        left.remove(found)
        result.append(found)
        expected = factors.mul(found.lower_factor, found.extent)
    if level == IterMapLevel.BIJECTIVE:
        return result if factors.equal(expected, mark.extent) else None
    if factors.equal(expected, mark.extent) or factors.divides(expected, mark.extent):
        return result
    # Values above the last digit repeat the lower ones, so these must occur before: one full turn is enough.
    return result if factors.analyzer.can_prove(make.compare(ex.LE, expected, mark.extent)) else None


def _next_above(left: list[IterSplitExpr], expected: PrimExpr, factors: Factors) -> IterSplitExpr | None:
    """The lowest split that starts at a multiple of `expected`."""
    above = [s for s in left if factors.divides(expected, s.lower_factor)]
    for s in above:
        if all(factors.divides(s.lower_factor, o.lower_factor) for o in above):
            return s
    return None


def check_mapping(
    indices: Sequence[IterSumExpr],
    input_marks: Sequence[IterMark],
    constraints: Sequence[Constraint],
    level: IterMapLevel,
    factors: Factors,
) -> str | None:
    """Why the indices do not form a map of this level; None where they do."""
    uses = SplitUses(indices)
    for mark, splits in uses.splits.items():
        if ordered_splits(mark, splits, level, factors) is None:
            names = ", ".join(v.name for v in variables_of(mark))
            return f"the indices use {names} in parts that depend on each other or leave something out"
    for c in constraints:
        if c.fused.mark in uses.splits:
            continue
        for s in c.splits:
            if s.source in uses.splits and not is_int(s.extent, 1):
                names = ", ".join(v.name for v in variables_of(s.source))
                return f"the predicate ties {names} to other iterators, and no index has them together"
    if level == IterMapLevel.BIJECTIVE:
        for mark in input_marks:
            if mark not in uses.splits and not is_int(mark.extent, 1):
                names = ", ".join(v.name for v in variables_of(mark))
                return f"no index depends on {names}, so several inputs lead to one output"
    return None


def check_constraints(constraints: Sequence[Constraint]) -> str | None:
    """Why bounded sums do not go together: they must be part of each other or have nothing in common."""
    sets = [{s.key for s in c.splits} for c in constraints]
    for i, a in enumerate(sets):
        for b in sets[i + 1 :]:
            if a & b and not (a <= b or b <= a):
                return "the sums that the predicate bounds overlap without one being part of the other"
    return None
