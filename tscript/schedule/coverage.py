"""Whether what a block reads has been written before it, in the same iteration of the loops around both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from tscript.analysis.affine import DigitString, are_independent, find_digits, join_limited
from tscript.analysis.ranges import bound_region, loop_range, range_bounds
from tscript.arith import Bound, Interval, eval_interval, simplify
from tscript.arith.interval import Domains
from tscript.ir.buffer import Buffer
from tscript.ir.dtype import BOOL
from tscript.ir.expr import GT, IntImm, IterVar, PrimExpr, Range, Var
from tscript.ir.functor import pre_order_visit, substitute
from tscript.ir.linear import LinearForm, difference, from_linear
from tscript.ir.occurrences import mentions, variables
from tscript.ir.stmt import Block, BlockRealize, BufferRegion, BufferStore, For, SeqStmt, Stmt
from tscript.schedule.scope import DepKind
from tscript.schedule.sref import StmtSRef
from tscript.schedule.state import ScheduleState
from tscript.schedule.symbols import axis_ranges, conjuncts, gap_of, loop_ranges, no_less, outer_bounds, proves

_STORAGE_RANK = {"global": 0, "shared": 1, "warp": 2, "local": 3}


def relaxed_intervals(domain: Mapping[Var, Range], bounds: Mapping[Var, Bound]) -> dict[Var, Interval]:
    """The interval of each variable of `domain` (outer ones first) in terms of what is not in it."""
    relaxed: dict[Var, Interval] = {}
    domains = Domains(relaxed, bounds)
    for var, r in domain.items():
        if _is_zero(r.min) and isinstance(r.extent, IntImm) and r.extent.value > 0:
            relaxed[var] = Interval(r.min, IntImm(r.min.dtype, r.extent.value - 1))
            continue
        low = eval_interval(r.min, domains)
        high = eval_interval(simplify(r.min + r.extent - 1), domains)
        if low is not None and high is not None:
            relaxed[var] = Interval(low.low, high.high)
    return relaxed


class Relaxation:
    """What ranges run over while variables run over `domain` (outer ones first); `bounds` are of all others.

    For several ranges over one domain, which is worked out once.
    """

    def __init__(self, domain: Mapping[Var, Range], bounds: Mapping[Var, Bound]) -> None:
        self.domain = domain
        self.bounds = bounds
        relaxed = relaxed_intervals(domain, bounds)
        self._unknown = {v: None for v in domain if v not in relaxed}
        self._domains = Domains(relaxed, bounds)
        self._all: dict[Var, Bound] | None = None

    def of(self, r: Range) -> Interval | None:
        """All values of a range; None where nothing is known."""
        if self._unknown and (mentions(r.min, self._unknown) or mentions(r.extent, self._unknown)):
            return None
        if self._all is None:
            self._all = {**self.bounds, **range_bounds(self.domain)}
        start = simplify(r.min, self._all) if not isinstance(r.min, Var) else r.min
        low = eval_interval(start, self._domains)
        high = low if _is_one(r.extent) else eval_interval(simplify(r.min + r.extent - 1, self.bounds), self._domains)
        return None if low is None or high is None else Interval(low.low, high.high)


def relax_range(r: Range, domain: Mapping[Var, Range], bounds: Mapping[Var, Bound]) -> Interval | None:
    """All values of a range while variables run over `domain`; None where nothing is known."""
    return Relaxation(domain, bounds).of(r)


def region_cover(state: ScheduleState, block: StmtSRef) -> bool:
    """Whether each region the block reads is written, by blocks of its scope, in the same iteration of common loops.

    Buffers that no earlier block of the scope writes count as covered.
    """
    root = state.scope_root(block)
    if root is None:
        return True
    known = _KNOWN.get(root.block)
    if known is None:
        known = _KNOWN[root.block] = {}
    found = known.get(block.block)
    if found is None:
        found = known[block.block] = _covered(state, root, block)
    return found


# By the scope root, whose identity changes with whatever is below it.
_KNOWN: WeakKeyDictionary[Block, dict[Block, bool]] = WeakKeyDictionary()


def _covered(state: ScheduleState, root: StmtSRef, block: StmtSRef) -> bool:
    scope = state.scope(root)
    sources = dict.fromkeys(d.src for d in scope.dst2deps.get(block, ()) if d.kind is DepKind.RAW)
    for region in block.block.reads:
        producers = [p for p in sources if any(w.buffer is region.buffer for w in p.block.writes)]
        if producers and not _is_covered(state, block, region, producers):
            return False
    return True


def _is_covered(state: ScheduleState, block: StmtSRef, region: BufferRegion, producers: list[StmtSRef]) -> bool:
    top = state.common_ancestor([block, *producers])
    bounds = outer_bounds(state, block)
    facts = conjuncts(state.realize_of(block).predicate)
    written: list[WrittenBox] = []
    for p in producers:
        bounds.update(outer_bounds(state, p))
        for w in p.block.writes:
            if w.buffer is region.buffer:
                box = written_box(state.realize_of(p), w, relaxed_loops(state, p, top, w.buffer), bounds)
                if box is not None and all(proves(c, bounds, [*facts, *_reduces(p.block)]) for c in box.conditions):
                    written.append(box)
    boxes = _with_unions(written, bounds)
    everything = _whole(region.buffer)
    if any(_holds(box, everything, bounds) for box in boxes):
        return True
    wanted = _wanted(state, block, region, top, bounds)
    return any(_holds(box, wanted, bounds) for box in boxes)


def _reduces(block: Block) -> list[PrimExpr]:
    """That the axes that a block with an init reduces over have values: where they have none, the init runs alone."""
    if block.init is None:
        return []
    extents = [a.dom.extent for a in block.iter_vars if a.iter_type == IterVar.CommReduce and a.dom is not None]
    return [GT(e, IntImm(e.dtype, 0)) for e in extents]


def relaxed_loops(state: ScheduleState, block: StmtSRef, top: StmtSRef, buffer: Buffer) -> dict[Var, Range]:
    """Loops over which accesses of a block to `buffer` are collected, seen from `top`: those below it, and those
    above that run on threads which share the buffer.
    """
    loops = state.loops_of(block)
    below = loops[loops.index(top) + 1 :] if top in loops else loops
    shared = [r for r in (loops[: loops.index(top) + 1] if top in loops else []) if _shares(r.loop, buffer.scope())]
    return loop_ranges([*shared, *below])


def _shares(loop: For, storage: str) -> bool:
    """Whether the threads of a loop see the same memory of a storage scope."""
    if loop.thread_binding is None:
        return False
    tag = loop.thread_binding.thread_tag
    rank = _STORAGE_RANK.get(storage.partition(".")[0], 4)
    if rank == 2:
        return tag == "threadIdx.x"
    return rank <= (0 if tag.startswith("blockIdx") else 1)


@dataclass
class ReadBox:
    """For each dimension, (inclusive) ends of which each one alone encloses what is read."""

    lows: list[list[PrimExpr]]
    highs: list[list[PrimExpr]]


def _whole(buffer: Buffer) -> ReadBox:
    return ReadBox([[IntImm(s.dtype, 0)] for s in buffer.shape], [[simplify(s - 1)] for s in buffer.shape])


def _wanted(
    state: ScheduleState, block: StmtSRef, region: BufferRegion, top: StmtSRef, bounds: Mapping[Var, Bound]
) -> ReadBox:
    return read_ends(state.realize_of(block), region, relaxed_loops(state, block, top, region.buffer), bounds)


def read_ends(
    realize: BlockRealize, region: BufferRegion, domain: Mapping[Var, Range], bounds: Mapping[Var, Bound]
) -> ReadBox:
    """What encloses the part of a region's buffer that a block reads while loops run over `domain`."""
    limits = [g for g in map(gap_of, conjuncts(realize.predicate)) if g is not None]
    wanted = ReadBox([], [])
    by_loops, by_axes = Relaxation(domain, bounds), Relaxation(axis_ranges(realize.block), {})
    for size, own, r in zip(region.buffer.shape, region.region, bound_region(realize, region), strict=True):
        lows: list[PrimExpr] = [IntImm(size.dtype, 0)]
        highs: list[PrimExpr] = [simplify(size - 1)]
        for found in (by_loops.of(r), by_axes.of(own)):
            if found is not None:
                lows.append(found.low)
                highs.append(found.high)
        last = simplify(r.min + r.extent - 1, bounds)
        for gap in limits:
            # The predicate says gap >= 0, so `last` is at most, and the first at least, what is left without the loops.
            highs += _without_loops(last, gap, 1, domain)
            lows += _without_loops(r.min, gap, -1, domain)
        wanted.lows.append(lows)
        wanted.highs.append(highs)
    return wanted


def _without_loops(end: PrimExpr, gap: LinearForm, sign: int, domain: Mapping[Var, Range]) -> list[PrimExpr]:
    """`end + sign * gap`, where that is free of loops."""
    terms, constant = difference(end, IntImm(end.dtype, 0))
    rest = {t: terms.get(t, 0) + sign * gap[0].get(t, 0) for t in {**terms, **gap[0]}}
    if any(mentions(t, domain) for t, c in rest.items() if c):
        return []
    return [simplify(_sum(rest, constant + sign * gap[1], end))]


def _sum(terms: Mapping[PrimExpr, int], constant: int, like: PrimExpr) -> PrimExpr:
    return from_linear(({t: c for t, c in terms.items() if c}, constant), like.dtype)


@dataclass
class WrittenBox:
    """What a block surely writes, where `conditions` hold: all that lies, in each dimension, between the largest of
    `lows` and the smallest of `highs` (both inclusive).

    `is_exact`: it writes nothing else.
    """

    lows: list[list[PrimExpr]]
    highs: list[list[PrimExpr]]
    conditions: list[PrimExpr]
    is_exact: bool = True


def written_box(
    realize: BlockRealize, region: BufferRegion, domain: Mapping[Var, Range], bounds: Mapping[Var, Bound]
) -> WrittenBox | None:
    """What a block surely writes of a region's buffer while loops run over `domain`; None if that is no box."""
    ranges = bound_region(realize, region)
    # Bindings are simplified and conditions are not, so a loop of one iteration may have another factor in each.
    only: dict[Var, PrimExpr] = {v: r.min for v, r in domain.items() if _is_one(r.extent)}
    conditions = conjuncts(substitute(realize.predicate, only))
    starts, conditions, domain = join_limited([substitute(r.min, only) for r in ranges], conditions, domain)
    ranges = [Range.from_min_extent(m, r.extent) for m, r in zip(starts, ranges, strict=True)]
    used = variables(*(r.min for r in ranges))
    idle: dict[Var, PrimExpr] = {v: r.min for v, r in domain.items() if v not in used}
    narrowed = dict(domain)
    box = WrittenBox([], [], [])
    limits: list[PrimExpr] = []
    for condition in conditions:
        # One instance for each element is enough: a variable that the region is free of may take its first value.
        part = substitute(condition, idle)
        short = simplify(part, bounds)
        if proves(short, bounds):
            continue
        box.is_exact = box.is_exact and not mentions(condition, idle)
        if not mentions(short, domain):
            box.conditions.append(short)
        elif not _narrow(short, narrowed):
            limits.append(part)
    strings: list[DigitString] = []
    for r in ranges:
        string = None if mentions(r.extent, domain) else find_digits(r.min, narrowed, as_set=True)
        if string is None:
            return None
        step = IntImm(r.extent.dtype, string.scale)
        if not _is_one(string.count) and not no_less(r.extent, step, bounds):
            return None
        strings.append(string)
        box.lows.append([string.base])
        box.highs.append([simplify(string.base + (string.count - 1) * string.scale + r.extent - 1, bounds)])
    if not are_independent(strings) or not all(_limits(part, ranges, box, domain) for part in limits):
        return None
    return box


def writes_all(block: Block, region: BufferRegion) -> bool:
    """Whether the body of a block stores to every element of a region it declares, as far as stores can be seen.

    What is written through pointers or views is taken to be what is declared.
    """
    outcomes = list(_stores_in(block.body, region, {}))
    return not outcomes or any(outcomes)


def _stores_in(stmt: Stmt, region: BufferRegion, domain: dict[Var, Range]) -> list[bool]:
    """For each statement that stores to the region's buffer, whether it covers the region whenever the block runs."""
    if isinstance(stmt, BufferStore):
        if stmt.buffer is not region.buffer:
            return []
        if stmt.predicate is None and all(
            i is r.min and _is_one(r.extent) for i, r in zip(stmt.indices, region.region, strict=True)
        ):
            return [True]
        ranges = tuple(Range.from_min_extent(i, IntImm(i.dtype.element, 1)) for i in stmt.indices)
        point = BufferRegion(stmt.buffer, ranges)
        realize = BlockRealize((), IntImm(BOOL, 1), Block((), (), (point,), "", stmt))
        return [stmt.predicate is None and _covers(realize, point, region, domain)]
    if isinstance(stmt, SeqStmt):
        return [ok for s in stmt.seq for ok in _stores_in(s, region, domain)]
    if isinstance(stmt, For):
        return _stores_in(stmt.body, region, {**domain, stmt.loop_var: loop_range(stmt)})
    if isinstance(stmt, BlockRealize):
        return [
            _covers(stmt, w, region, domain) and writes_all(stmt.block, w)
            for w in stmt.block.writes
            if w.buffer is region.buffer
        ]
    return [False] if _mentions_store(stmt, region.buffer) else []


def _covers(realize: BlockRealize, inner: BufferRegion, outer: BufferRegion, domain: Mapping[Var, Range]) -> bool:
    box = written_box(realize, inner, domain, {})
    if box is None or box.conditions:
        return False
    return all(
        all(no_less(r.min, low, {}) for low in lows) and all(no_less(high, r.min + r.extent - 1, {}) for high in highs)
        for lows, highs, r in zip(box.lows, box.highs, outer.region, strict=True)
    )


def _mentions_store(stmt: Stmt, buffer: Buffer) -> bool:
    found = False

    def look(node: object) -> bool:
        nonlocal found
        found = found or (isinstance(node, BufferStore) and node.buffer is buffer)
        return not found

    pre_order_visit(stmt, look)
    return found


def _narrow(condition: PrimExpr, domain: dict[Var, Range]) -> bool:
    """Shorten the range of the only variable that a condition is about; whether it is of that sort."""
    gap = gap_of(condition)
    if gap is None or len(gap[0]) != 1:
        return False
    ((var, factor),) = gap[0].items()
    r = domain.get(var) if isinstance(var, Var) else None
    if r is None or not (isinstance(r.min, IntImm) and isinstance(r.extent, IntImm)):
        return False
    low, high = r.min.value, r.min.value + r.extent.value - 1
    if factor > 0:
        low = max(low, -(gap[1] // factor))
    else:
        high = min(high, gap[1] // -factor)
    dtype = var.dtype
    domain[var] = Range.from_min_extent(IntImm(dtype, low), IntImm(dtype, max(high - low + 1, 0)))  # pyright: ignore[reportArgumentType]
    return True


def _limits(condition: PrimExpr, ranges: list[Range], box: WrittenBox, domain: Mapping[Var, Range]) -> bool:
    """Take a condition into account that cuts off one end of one dimension; whether it is of that sort."""
    gap = gap_of(condition)
    if gap is None:
        return False
    for d, r in enumerate(ranges):
        if not mentions(r.min, domain):
            continue
        at, constant = difference(r.min, IntImm(r.min.dtype, 0))
        for sign, ends in ((1, box.highs), (-1, box.lows)):
            # The condition says gap >= 0, so sign * min is at most their sum, where that is free of the loops.
            rest = {t: sign * at.get(t, 0) + gap[0].get(t, 0) for t in {**at, **gap[0]}}
            if any(mentions(t, domain) for t, c in rest.items() if c) or (sign < 0 and not _is_one(r.extent)):
                continue
            end = _sum(rest, sign * constant + gap[1], r.min)
            ends[d].append(end if sign > 0 else simplify(0 - end))
            # Starts farther apart than one leave open how far the last one reaches.
            box.is_exact = box.is_exact and _is_one(r.extent)
            return True
    return False


def _holds(box: WrittenBox, wanted: ReadBox, bounds: Mapping[Var, Bound]) -> bool:
    return all(
        _above(wanted.lows[d], lows, bounds) and _above_all(highs, wanted.highs[d], bounds)
        for d, (lows, highs) in enumerate(zip(box.lows, box.highs, strict=True))
    )


def _above(some: list[PrimExpr], all_of: list[PrimExpr], bounds: Mapping[Var, Bound]) -> bool:
    """Whether, for each of `all_of`, one of `some` is no less."""
    return all(any(no_less(a, b, bounds) for a in some) for b in all_of)


def _above_all(all_of: list[PrimExpr], some: list[PrimExpr], bounds: Mapping[Var, Bound]) -> bool:
    """Whether each of `all_of` is no less than one of `some`."""
    return all(any(no_less(a, b, bounds) for b in some) for a in all_of)


def _with_unions(boxes: list[WrittenBox], bounds: Mapping[Var, Bound]) -> list[WrittenBox]:
    """The boxes, and the boxes that two of them (or more) make together along one dimension."""
    found = list(boxes)
    for _ in range(len(boxes) - 1):
        for a in list(found):
            for b in boxes:
                joined = _join(a, b, bounds)
                if joined is not None:
                    found.append(joined)
        if len(found) > 32:
            break
    return found


def _join(a: WrittenBox, b: WrittenBox, bounds: Mapping[Var, Bound]) -> WrittenBox | None:
    """Both together where they agree in all dimensions but one, in which `b` goes on where `a` ends."""
    differ = [d for d in range(len(a.lows)) if not (_same(a.lows[d], b.lows[d]) and _same(a.highs[d], b.highs[d]))]
    if len(differ) != 1:
        return None
    d = differ[0]
    starts_later = _above(b.lows[d], a.lows[d], bounds)
    meets = all(no_less(high + 1, low, bounds) for high in a.highs[d] for low in b.lows[d])
    if not (starts_later and meets and _above_all(b.highs[d], a.highs[d], bounds)):
        return None
    return WrittenBox(a.lows, [*a.highs[:d], b.highs[d], *a.highs[d + 1 :]], [])


def _same(a: list[PrimExpr], b: list[PrimExpr]) -> bool:
    return len(a) == len(b) and all(x is y for x, y in zip(a, b, strict=True))


def _is_one(e: PrimExpr) -> bool:
    return isinstance(e, IntImm) and e.value == 1


def _is_zero(e: PrimExpr) -> bool:
    return isinstance(e, IntImm) and e.value == 0
