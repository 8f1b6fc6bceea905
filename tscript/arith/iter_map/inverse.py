"""The inverse of an affine map that is one to one."""

from __future__ import annotations

from collections.abc import Sequence

from tscript.arith.analyzer import Analyzer
from tscript.arith.iter_map.check import SplitUses, ordered_splits
from tscript.arith.iter_map.factors import Factors, is_int
from tscript.arith.iter_map.model import IterMapLevel, IterMark, IterSumExpr
from tscript.ir import construct as make
from tscript.ir.expr import IntImm, PrimExpr, Sub, Var


def inverse_affine_iter_map(
    iter_map: Sequence[IterSumExpr], outputs: Sequence[PrimExpr], analyzer: Analyzer | None = None
) -> dict[Var, PrimExpr]:
    """Each input iterator in terms of `outputs`, the values of the indices that `detect_iter_map` described.

    Raises ValueError where the map loses an iterator or a digit of one, or where lengths differ.

    >>> from tscript.arith.iter_map.detect import detect_iter_map
    >>> from tscript.ir.expr import Range
    >>> i, j, o = Var("i"), Var("j"), Var("o")
    >>> found = detect_iter_map([i * 4 + j], {i: Range(0, 8), j: Range(0, 4)}, True, "bijective")
    >>> inverse_affine_iter_map(found.indices, [o])[j] is o % 4
    True
    """
    if len(iter_map) != len(outputs):
        raise ValueError(f"{len(outputs)} outputs were given for {len(iter_map)} indices")
    factors = Factors(Analyzer() if analyzer is None else analyzer)
    uses = SplitUses(iter_map)
    found: dict[Var, PrimExpr] = {}
    digits: dict[tuple[IterMark, PrimExpr, PrimExpr], PrimExpr] = {}
    for index, output in zip(iter_map, outputs, strict=True):
        _take_apart(index, make.convert(output), digits, factors)
    for mark in _outer_first(uses):
        value = _value(mark, uses, digits, factors)
        if isinstance(mark.source, IterSumExpr):
            _take_apart(mark.source, value, digits, factors)
            continue
        source = mark.source
        if isinstance(source, Sub) and isinstance(source.a, Var):
            source, value = source.a, make.add(value, source.b)
        if isinstance(source, Var):
            found[source] = factors.analyzer.simplify(value)
    return found


def _outer_first(uses: SplitUses) -> list[IterMark]:
    """Marks such that each comes before those that its source is made of."""
    order: dict[IterMark, None] = {}
    done: dict[IterMark, None] = {}
    stack: list[tuple[IterMark, bool]] = [(m, False) for m in reversed(uses.splits)]
    while stack:
        mark, leave = stack.pop()
        if leave:
            order[mark] = None
        elif mark not in done:
            done[mark] = None
            stack.append((mark, True))
            if isinstance(mark.source, IterSumExpr):
                stack.extend((a.source, False) for a in mark.source.args)
    return list(reversed(order))


def _take_apart(
    total: IterSumExpr,
    value: PrimExpr,
    digits: dict[tuple[IterMark, PrimExpr, PrimExpr], PrimExpr],
    factors: Factors,
) -> None:
    """Values of the splits of a sum, from the value of the sum."""
    rest = make.sub(value, total.base)
    above: PrimExpr | None = None
    for s in sorted(total.args, key=lambda s: s.scale.value if isinstance(s.scale, IntImm) else 1 << 62, reverse=True):
        part = rest if is_int(s.scale, 1) else make.floordiv(rest, s.scale)
        if above is not None:
            part = make.floormod(part, s.extent)
        digits[s.key] = factors.analyzer.simplify(part)
        above = s.scale


def _value(
    mark: IterMark,
    uses: SplitUses,
    digits: dict[tuple[IterMark, PrimExpr, PrimExpr], PrimExpr],
    factors: Factors,
) -> PrimExpr:
    """The value of a mark, from those of its digits."""
    splits = list({s.key: s for s in uses.splits[mark]}.values())
    ordered = ordered_splits(mark, splits, IterMapLevel.BIJECTIVE, factors)
    if ordered is None:
        raise ValueError("the map is not one to one: it loses a part of an iterator")
    total: PrimExpr = IntImm(mark.extent.dtype, 0)
    for s in reversed(ordered):
        total = make.add(total, make.mul(digits[s.key], s.lower_factor))
    return total
