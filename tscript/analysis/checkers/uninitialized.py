"""Reads of memory that nothing wrote before.

A read is right where some write, that has certainly run before it, covers its element: shown with regions where
one write covers all of it, else by following all iterations with numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from tscript.analysis.checkers.moments import Trace, numbered, scopes_below, traces_of
from tscript.analysis.checkers.out_of_bounds import assignments, statement_text, witness_of
from tscript.analysis.checkers.proofs import Proofs
from tscript.analysis.checkers.report import POSSIBLE, PROVEN, Finding
from tscript.analysis.checkers.sites import (
    READ,
    WRITE,
    Binding,
    Doubt,
    Guard,
    Loop,
    Site,
    Storage,
    Survey,
    common_scope,
    conjuncts,
)
from tscript.arith.int_set import IntervalSet
from tscript.arith.region import estimate_region_strict_bound, point_region
from tscript.ir import construct as make
from tscript.ir import expr as ex
from tscript.ir.buffer import Buffer
from tscript.ir.expr import PrimExpr, Range, Var
from tscript.ir.function import PrimFunc
from tscript.ir.functor import substitute
from tscript.ir.linear import linear_form
from tscript.ir.occurrences import mentions, reads_memory, variables

KIND: Final = "uninitialized"
_SHARED: Final = ("shared", "global", "warp")


def find_uninitialized(func: PrimFunc, found: Survey, proofs: Proofs) -> list[Finding]:
    """Reads of memory allocated in `func` that nothing has written, or may not have."""
    return [f for storage in found.stores.values() for f in _unwritten_in(func, found, proofs, storage)]


def find_in_parameter(func: PrimFunc, found: Survey, proofs: Proofs, buffer: Buffer) -> list[Finding]:
    """Reads of a parameter that is written as well, where nothing in `func` has written it before."""
    return _unwritten_in(func, found, proofs, Storage(None, buffer.data, buffer))


def updated_parameters(func: PrimFunc, found: Survey) -> list[Buffer]:
    """The parameters that are both read and written."""
    roles: dict[Var, set[str]] = {}
    for site in found.sites:
        if not site.axis:
            roles.setdefault(site.memory.data, set()).add(site.role)
    buffers = [func.buffer_map[p] for p in func.params if p in func.buffer_map]
    return [b for b in buffers if {READ, WRITE} <= roles.get(b.data, set())]


def _unwritten_in(func: PrimFunc, found: Survey, proofs: Proofs, storage: Storage) -> list[Finding]:
    data = storage.data
    if data in found.escaped:
        return []
    sites = [s for s in found.sites if s.memory.data is data and s.role in (READ, WRITE) and not s.axis]
    writes = [s for s in sites if s.role == WRITE]
    private = is_private(storage.buffer)
    open_reads = [s for s in sites if s.role == READ and not _is_covered(s, writes, proofs, private)]
    return _followed(func, storage, open_reads, writes) if open_reads else []


def is_private(buffer: Buffer) -> bool:
    """Whether every thread has its own memory of this scope."""
    scope = buffer.scope()
    return bool(scope) and not scope.startswith(_SHARED)


# -- with regions -----------------------------------------------------------------------------------


def _is_covered(read: Site, writes: Sequence[Site], proofs: Proofs, private: bool) -> bool:
    """Whether some write certainly comes before `read`: always the same one, or one of two as a condition has it."""
    if any(_covers(w, read, proofs, private) for w in writes):
        return True
    for write in writes:
        for guard in _deciding(write, read):
            met, unmet = (
                replace(read, scope=Guard(read.scope, guard.condition, h)) for h in (guard.holds, not guard.holds)
            )
            if _covers(write, met, proofs, private) and any(_covers(w, unmet, proofs, private) for w in writes):
                return True
    return False


def _deciding(write: Site, read: Site) -> list[Guard]:
    """Conditions of a write that mean the same at a read after it: such as that a reduction is over nothing."""
    if write.place > read.place:
        return []
    own = scopes_below(write.scope, common_scope(write.scope, read.scope))
    local = {s.var: None for s in own if isinstance(s, (Loop, Binding))}
    return [
        s
        for s in own
        if isinstance(s, Guard)
        and not (s.stops or s.is_init or mentions(s.condition, local) or reads_memory(s.condition))
    ]


def _covers(write: Site, read: Site, proofs: Proofs, private: bool) -> bool:
    """Whether `write` has certainly written what `read` reads, in the same iteration of the loops around both."""
    if write.place > read.place or write.memory is not read.memory or write.base is None or read.base is None:
        return False
    shared = common_scope(write.scope, read.scope)
    domains: dict[Var, Range] = {}
    values: dict[Var, PrimExpr] = {}
    conditions: list[PrimExpr] = []
    for scope in scopes_below(write.scope, shared):
        match scope:
            case Loop():
                if private and scope.thread:
                    return False
                # Threads go through their bodies together: what others write in a statement before is there as well.
                low, extent = substitute(scope.low, values), substitute(scope.extent, values)
                domains[scope.var] = Range.from_min_extent(low, extent)
            case Binding():
                values[scope.var] = substitute(scope.value, values)
            case Doubt():
                return False
            case Guard():
                # After an assertion that does not hold, nothing is read.
                if not (scope.stops or _is_first_time(scope, write)):
                    conditions += [
                        substitute(c if holds else make.not_(c), values)
                        for c, holds in conjuncts(scope.condition, scope.holds)
                    ]
            case _:
                pass
    base = [substitute(i, values) for i in write.base]
    if any(reads_memory(e) for e in (*base, *conditions)):
        return False
    return _covers_alike(base, domains, conditions, read, proofs) or _covers_region(
        base, domains, conditions, read, proofs
    )


Domains = dict[Var, Range]


def _covers_alike(
    base: Sequence[PrimExpr], domains: Domains, conditions: Sequence[PrimExpr], read: Site, proofs: Proofs
) -> bool:
    """Whether the write has an iteration of the same form for each of the read: its loops take values of the read's."""
    assert read.base is not None
    analyzer = proofs.at(read.scope)
    written = [linear_form(analyzer.simplify(i))[0] for i in base]
    wanted = [linear_form(analyzer.simplify(i))[0] for i in read.base]
    chosen: dict[Var, PrimExpr] = {}
    taken: set[PrimExpr] = set()
    for v, dom in domains.items():
        if mentions(dom.min, domains) or mentions(dom.extent, domains):
            return False
        factors = [terms.get(v, 0) for terms in written]
        if not any(factors):
            if not analyzer.can_prove(make.compare(ex.GE, dom.extent, 1)):
                return False
            chosen[v] = dom.min
            continue
        like = [t for terms in wanted for t in terms if [other.get(t, 0) for other in wanted] == factors]
        same = next((t for t in like if t not in taken and proofs.lies_within(t, dom, read.scope)), None)
        if same is None:
            return False
        taken.add(same)
        chosen[v] = make.cast(same, v.dtype)
    return all(
        analyzer.can_prove(make.compare(ex.EQ, substitute(i, chosen), j)) for i, j in zip(base, read.base, strict=True)
    ) and all(analyzer.can_prove(substitute(c, chosen)) for c in conditions)


def _covers_region(
    base: Sequence[PrimExpr], domains: Domains, conditions: Sequence[PrimExpr], read: Site, proofs: Proofs
) -> bool:
    """Whether the write, through all its loops, fills a region that holds what is read."""
    assert read.base is not None
    analyzer = proofs.at(read.scope)
    inner = [c for c in conditions if mentions(c, domains)]
    if not all(mentions(c, domains) or analyzer.can_prove(c) for c in conditions):
        return False
    used = variables(*base, *inner)
    if not all(v in used or analyzer.can_prove(make.compare(ex.GE, r.extent, 1)) for v, r in domains.items()):
        return False
    predicate = make.convert(True)
    for c in inner:
        predicate = make.and_(predicate, c)
    region = estimate_region_strict_bound(point_region(base), domains, predicate, analyzer.fork())
    return region is not None and all(
        _holds_value(index, s, proofs, read) for index, s in zip(read.base, region, strict=True)
    )


def _holds_value(index: PrimExpr, values: IntervalSet, proofs: Proofs, read: Site) -> bool:
    low, high = values.min_value, values.max_value
    if low is None or high is None or values.is_empty:
        return False
    return proofs.lies_within(index, Range.from_min_extent(low, make.add(make.sub(high, low), 1)), read.scope)


def _is_first_time(guard: Guard, write: Site) -> bool:
    """Whether `guard` only says that this is the first time that a loop around comes by.

    Then the same element, which does not depend on that loop, was written in this iteration or an earlier one.
    """
    if guard.is_init:
        return True
    condition = guard.condition
    if not (guard.holds and isinstance(condition, ex.EQ) and isinstance(condition.a, Var)):
        return False
    around = [s for s in write.scopes() if isinstance(s, Loop) and s.var is condition.a]
    return bool(around) and condition.b is around[0].low and not _depends(write, condition.a)


def _depends(site: Site, var: Var) -> bool:
    names: dict[Var, object] = {var: None}
    for scope in site.scopes():
        if isinstance(scope, Binding) and mentions(scope.value, names):
            names[scope.var] = None
    return any(mentions(i, names) for i in site.base or ())


# -- with numbers -----------------------------------------------------------------------------------

_NEVER: Final = np.iinfo(np.int64).max


def _followed(func: PrimFunc, storage: Storage, reads: Sequence[Site], writes: Sequence[Site]) -> list[Finding]:
    """Findings for the `reads` that no write covers in every iteration that the sizes tried have."""
    private = is_private(storage.buffer)
    proven: dict[Site, Finding] = {}
    possible: dict[Site, Finding] = {}
    settled = bool(reads)
    for sizes, is_free in assignments(func, *reads, *writes):
        traces = traces_of([*writes, *reads], storage, sizes, private)
        if traces is None or sizes:
            settled = False
        if traces is None:
            break
        shared = _is_threaded(traces)
        for read, finding in _unwritten(func, traces, shared, is_free, sizes):
            (proven if finding.is_proven else possible).setdefault(read, finding)
    result: list[Finding] = []
    for read in reads:
        finding = proven.get(read) or possible.get(read)
        if finding is not None:
            result.append(finding)
        elif not settled:
            result.append(_unknown(func, read))
    return result


def _is_threaded(traces: Sequence[Trace]) -> bool:
    return any(isinstance(s, Loop) and (s.thread or s.kind == 1) for t in traces for s in t.site.scopes())


def _unwritten(
    func: PrimFunc, traces: Sequence[Trace], threaded: bool, is_free: bool, sizes: dict[Var, int]
) -> list[tuple[Site, Finding]]:
    writes = [t for t in traces if t.site.role == WRITE]
    reads = [t for t in traces if t.site.role == READ]
    places, count = numbered(np.concatenate([t.cells for t in traces]))
    ends = np.cumsum([len(t.cells) for t in traces])[:-1]
    where_of = {t.site: part for t, part in zip(traces, np.split(places, ends), strict=True)}
    certain = np.full(count, _NEVER)
    maybe = np.full(count, _NEVER)
    for t in writes:
        where = where_of[t.site]
        np.minimum.at(maybe, where, t.moments)
        np.minimum.at(certain, where[t.points.sure], t.moments[t.points.sure])
    found: list[tuple[Site, Finding]] = []
    for t in reads:
        where = where_of[t.site]
        inside = t.cells >= 0
        bad = inside & (t.moments < certain[where])
        if not bad.any():
            continue
        # Threads may go ahead of each other, so a write that comes later in the text may be early enough.
        early = maybe[where] == _NEVER if threaded else t.moments < maybe[where]
        sure = bad & early & t.points.sure
        rows = np.flatnonzero(sure)
        proven = bool(len(rows)) and is_free
        row = int(rows[0]) if len(rows) else int(np.flatnonzero(bad)[0])
        found.append((t.site, _finding(func, t, row, proven, sizes)))
    return found


def _finding(func: PrimFunc, trace: Trace, row: int, proven: bool, sizes: dict[Var, int]) -> Finding:
    site, points = trace.site, trace.points
    at = ", ".join(str(int(points.at(i)[row])) for i in site.indices)
    message = f"{site.buffer.name}[{at}] is read before anything has written it"
    if not proven:
        message = f"{site.buffer.name}[{at}] is read where no write is certain to come before"
    return Finding(
        KIND, PROVEN if proven else POSSIBLE, message, func.__name__, site.buffer.name,
        witness_of(points, row, site, sizes), statement_text(site), site.span,
        "write the element first: with T.init() in a reduction, or with a loop before",
    )  # fmt: skip


def _unknown(func: PrimFunc, site: Site) -> Finding:
    name = site.buffer.name
    text = f"{name}[{', '.join(str(i) for i in site.indices)}]"
    return Finding(
        KIND, POSSIBLE, f"{text} could not be shown to be written before it is read", func.__name__, name, {},
        statement_text(site), site.span,
    )  # fmt: skip
