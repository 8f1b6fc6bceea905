"""Which instances of a block are needed where: solving regions for the axes of a block.

Moving a block under a loop asks, for one iteration of that loop, for the instances that touch what the
iteration consumes (or produces). Each dimension of a region gives an equation in the axes; its solution
is an interval of each axis, exact for strides and digits, and all of its domain where nothing is known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tscript.analysis.affine import DigitString, are_independent, find_digits
from tscript.analysis.ranges import bound_region
from tscript.arith import Bound, Interval, IterMapLevel, detect_iter_map, eval_interval, simplify
from tscript.arith.interval import Domains, union
from tscript.ir import construct as make
from tscript.ir import expr as ex
from tscript.ir.buffer import Buffer
from tscript.ir.expr import IntImm, IterVar, PrimExpr, Range, Var
from tscript.ir.linear import linear_form
from tscript.ir.occurrences import mentions, variables
from tscript.ir.stmt import BufferRegion
from tscript.schedule.coverage import Relaxation, relaxed_loops
from tscript.schedule.sref import StmtSRef
from tscript.schedule.state import ScheduleState
from tscript.schedule.symbols import loop_ranges, no_less

Bounds = Mapping[Var, Bound]
Box = list[Interval | None]
"""An interval for each dimension of a buffer; None for all of it."""


def touched(
    state: ScheduleState,
    loop: StmtSRef,
    blocks: Sequence[StmtSRef],
    buffers: Mapping[Buffer, None],
    reads: bool,
    bounds: Bounds,
    by_all_threads: bool = True,
) -> dict[Buffer, Box]:
    """What `blocks` read (or write) of `buffers` in one iteration of `loop`, which is above them.

    Threads that share a buffer count together if `by_all_threads`.
    """
    result: dict[Buffer, Box] = {}
    for block in blocks:
        realize = state.realize_of(block)
        loops = state.loops_of(block)
        below = loops[loops.index(loop) + 1 :]
        for region in block.block.reads if reads else block.block.writes:
            if region.buffer not in buffers:
                continue
            domain = relaxed_loops(state, block, loop, region.buffer) if by_all_threads else loop_ranges(below)
            relaxation = Relaxation(domain, bounds)
            box: Box = [relaxation.of(r) for r in bound_region(realize, region)]
            known = result.get(region.buffer)
            result[region.buffer] = box if known is None else _join(known, box, bounds)
    return result


def _join(a: Box, b: Box, bounds: Bounds) -> Box:
    domains = Domains({}, bounds)
    return [None if x is None or y is None else union(x, y, domains) for x, y in zip(a, b, strict=True)]


def solve(
    axes: Sequence[IterVar], regions: Sequence[BufferRegion], wanted: Mapping[Buffer, Box], bounds: Bounds
) -> dict[Var, Interval]:
    """The interval of each axis whose instances touch what is `wanted`; axes without an entry take all values.

    `regions` are those of one instance. Several of them give the union of their solutions.
    """
    total: dict[Var, Interval] | None = None
    domains = Domains({}, bounds)
    for region in regions:
        box = wanted.get(region.buffer)
        if box is None:
            continue
        found: dict[Var, Interval] = {}
        for r, interval in zip(region.region, box, strict=True):
            if interval is not None:
                for var, solution in _solve_dimension(axes, r, interval, bounds).items():
                    found.setdefault(var, solution)
        if total is None:
            total = found
        else:
            total = {v: union(i, found[v], domains) for v, i in total.items() if v in found}
    return total or {}


def _solve_dimension(axes: Sequence[IterVar], r: Range, wanted: Interval, bounds: Bounds) -> dict[Var, Interval]:
    """Intervals of the axes in `r.min` for which `r` meets `wanted`."""
    by_var = {a.var: a for a in axes}
    length = simplify(r.extent)
    if not isinstance(length, IntImm):
        return {}
    e = r.min
    if isinstance(e, ex.FloorDiv) and isinstance(e.b, IntImm) and e.b.value > 0 and length.value == 1:
        # (...) // c lies in [low, high] exactly where (...) lies in [low c, high c + c - 1].
        low, high = make.mul(wanted.low, e.b), make.add(make.mul(wanted.high, e.b), e.b.value - 1)
        inner = Range.from_min_extent(e.a, IntImm(e.dtype, 1))
        return _solve_dimension(axes, inner, _tidy(low, high, bounds), bounds)
    terms, constant = linear_form(e)
    if any(t not in by_var for t in terms):
        return {}
    return _solve_sum(
        [(by_var[t], c) for t, c in terms.items() if isinstance(t, Var)], constant, length.value, wanted, bounds
    )


def _solve_sum(
    terms: list[tuple[IterVar, int]], constant: int, length: int, wanted: Interval, bounds: Bounds
) -> dict[Var, Interval]:
    """Solutions of `sum(c * axis) + constant + [0, length)` meeting `wanted`, the largest factor first.

    The smaller terms count as a span; they are solved too where the larger axis has a single value.
    """
    result: dict[Var, Interval] = {}
    rest = sorted(terms, key=lambda t: -abs(t[1]))
    low, high = make.sub(wanted.low, constant), make.sub(wanted.high, constant)
    while rest:
        axis, factor = rest.pop(0)
        span = _span(rest)
        if span is None:
            return result
        least, reach = span
        # factor * axis + [least, least + reach + length - 1] meets [low, high]
        first = make.sub(low, least + reach + length - 1)
        last = make.sub(high, least)
        solution = _divide(first, last, factor, bounds)
        result[axis.var] = solution
        if not solution.is_point:
            return result
        low = make.sub(low, make.mul(solution.low, factor))
        high = make.sub(high, make.mul(solution.low, factor))
    return result


def _span(terms: list[tuple[IterVar, int]]) -> tuple[int, int] | None:
    """Least value of a sum of terms, and how far it reaches above; None unless the domains are constant."""
    least = reach = 0
    for axis, factor in terms:
        if axis.dom is None or not isinstance(axis.dom.min, IntImm) or not isinstance(axis.dom.extent, IntImm):
            return None
        first, last = axis.dom.min.value * factor, (axis.dom.min.value + axis.dom.extent.value - 1) * factor
        least += min(first, last)
        reach += abs(last - first)
    return least, reach


def _divide(first: PrimExpr, last: PrimExpr, factor: int, bounds: Bounds) -> Interval:
    """The integers x with `first <= factor * x <= last`."""
    if factor < 0:
        first, last, factor = make.neg(last), make.neg(first), -factor
    if factor == 1:
        return _tidy(first, last, bounds)
    return _tidy(make.floordiv(make.add(first, factor - 1), factor), make.floordiv(last, factor), bounds)


def _tidy(low: PrimExpr, high: PrimExpr, bounds: Bounds) -> Interval:
    return Interval(simplify(low, bounds), simplify(high, bounds))


@dataclass
class AxisDomain:
    """The values an axis takes at its new place, and what must still be asked of each value."""

    low: PrimExpr
    extent: PrimExpr
    at_least: PrimExpr | None = None
    below: PrimExpr | None = None


def clip(axis: IterVar, solution: Interval | None, bounds: Bounds) -> AxisDomain:
    """The part of an axis' domain in `solution`, as a loop over it with the guards that cannot be proved away."""
    assert axis.dom is not None
    first, extent = axis.dom.min, axis.dom.extent
    end = simplify(make.add(first, extent), bounds)
    last = simplify(make.sub(end, 1), bounds)
    if solution is None:
        return AxisDomain(first, extent)
    low, high = solution.low, solution.high
    if no_less(first, low, bounds) and no_less(high, last, bounds):
        return AxisDomain(first, extent)
    from_below, from_above = no_less(low, first, bounds), no_less(last, high, bounds)
    if not from_below and no_less(first, low, bounds):
        low, from_below = first, True
    if not from_above and no_less(high, last, bounds):
        high, from_above = last, True
    if not from_below and isinstance(simplify(make.max_(low, first), bounds), IntImm):
        low, from_below = simplify(make.max_(low, first), bounds), True
    if not from_above and isinstance(simplify(make.min_(high, last), bounds), IntImm):
        high, from_above = simplify(make.min_(high, last), bounds), True
    length = simplify(make.add(make.sub(high, low), 1), bounds)
    return AxisDomain(low, length, None if from_below else first, None if from_above else end)


def reach_of(
    axes: Mapping[Var, Interval], regions: Sequence[BufferRegion], buffer: Buffer, bounds: Bounds
) -> list[Box]:
    """What instances with axes in intervals touch of `buffer`: a box for each region."""
    domains = Domains(axes, bounds)
    boxes: list[Box] = []
    for region in regions:
        if region.buffer is buffer:
            box: Box = []
            for r in region.region:
                low = eval_interval(r.min, domains)
                high = eval_interval(simplify(r.min + r.extent - 1, bounds), domains)
                box.append(None if low is None or high is None else Interval(low.low, high.high))
            boxes.append(box)
    return boxes


def lies_within(inner: Box, outer: Box, buffer: Buffer, bounds: Bounds) -> bool:
    """Whether each interval of `inner` is certain to lie in that of `outer`, or in the whole dimension."""
    for a, b, extent in zip(inner, outer, buffer.shape, strict=True):
        if b is None:
            continue
        if a is None:
            last = simplify(make.sub(extent, 1), bounds)
            a = Interval(IntImm(extent.dtype, 0), last)
        if not (no_less(a.low, b.low, bounds) and no_less(b.high, a.high, bounds)):
            return False
    return True


def moves_apart(intervals: Sequence[Interval], loops: Sequence[StmtSRef], bounds: Bounds) -> bool:
    """Whether different iterations of `loops` are certain to have disjoint boxes of `intervals`."""
    left = {r.loop.loop_var: r.loop.extent for r in loops if not make.is_const_int(r.loop.extent, 1)}
    for i in intervals:
        width = simplify(make.add(make.sub(i.high, i.low), 1), bounds)
        terms, _ = linear_form(i.low)
        if not isinstance(width, IntImm) or any(v not in left for v in variables(i.low) if v in left):
            continue
        reach = width.value
        for var, factor in sorted(((t, c) for t, c in terms.items() if t in left), key=lambda t: abs(t[1])):
            extent = left[var] if isinstance(var, Var) else None
            if abs(factor) < reach or not isinstance(extent, IntImm):
                break
            reach = abs(factor) * extent.value
            del left[var]  # pyright: ignore[reportArgumentType]
    return not left


def reach_everything(
    axes: Sequence[IterVar], solution: Mapping[Var, Interval], loops: Sequence[StmtSRef], bounds: Bounds
) -> IterVar | None:
    """The first axis of which it is not certain that the iterations of `loops` together reach all values.

    Axes without an entry in `solution` are run over whole in each iteration. None when all values, in all
    combinations, are reached.
    """
    domain = loop_ranges(loops)
    moving = [(axis, solution[axis.var]) for axis in axes if axis.var in solution]
    fused = _steps_of_fused([interval.low for _, interval in moving], domain)
    strings: list[DigitString] = []
    for k, (axis, interval) in enumerate(moving):
        assert axis.dom is not None
        width = simplify(make.add(make.sub(interval.high, interval.low), 1), bounds)
        string = find_digits(interval.low, domain, as_set=True)
        if string is not None:
            strings.append(string)
        starts = fused[k] if fused is not None else None if string is None else _Steps.of_string(string)
        if starts is None or mentions(width, domain) or not _fills(starts, width, axis.dom, bounds):
            return axis
    return None if fused is not None or are_independent(strings) else axes[0]


@dataclass(frozen=True)
class _Steps:
    """`count` values from `base` on, `scale` apart."""

    base: PrimExpr
    count: PrimExpr
    scale: int

    @staticmethod
    def of_string(string: DigitString) -> _Steps:
        return _Steps(string.base, string.count, string.scale)


def _fills(starts: _Steps, width: PrimExpr, dom: Range, bounds: Bounds) -> bool:
    """Whether intervals of `width` from each of the steps on cover a domain."""
    if not make.is_const_int(starts.count, 1) and not no_less(width, IntImm(width.dtype, starts.scale), bounds):
        return False
    steps = make.mul(make.sub(make.cast(starts.count, width.dtype), 1), starts.scale)
    end = simplify(make.add(make.add(starts.base, steps), width), bounds)
    return no_less(dom.min, starts.base, bounds) and no_less(end, make.add(dom.min, dom.extent), bounds)


def _steps_of_fused(starts: Sequence[PrimExpr], domain: Mapping[Var, Range]) -> list[_Steps] | None:
    """The values that expressions take, each in combination with all of the others; None where that is not certain.

    Loops that were fused and split elsewhere, as in `(f_0 * 8 + f_1) // 12`, are seen as one.
    """
    found = detect_iter_map(starts, domain, True, IterMapLevel.SURJECTIVE).indices
    result: list[_Steps] = []
    for index in found:
        split = index.args[0] if len(index.args) == 1 else None
        if index.args and (split is None or not isinstance(split.scale, IntImm) or split.scale.value <= 0):
            return None
        count = split.extent if split is not None else IntImm(index.base.dtype, 1)
        scale = split.scale.value if split is not None and isinstance(split.scale, IntImm) else 1
        result.append(_Steps(index.base, count, scale))
    return result if found else None
