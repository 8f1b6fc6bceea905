"""Which iterations of a loop touch the same elements: what running them at once, or in another order, must respect.

Accesses are the declared regions of the blocks below the loop, in terms of loop variables. Two of them are kept apart
by a loop when overlapping elements are only touched in the same iteration of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import gcd
from typing import Final

from tscript.analysis.affine import Digit, find_digits
from tscript.analysis.ranges import bound_region, loop_range, range_bounds
from tscript.arith import Bound, const_bound, simplify
from tscript.ir.buffer import Buffer
from tscript.ir.construct import is_const_int
from tscript.ir.expr import BufferLoad, FloorDiv, FloorMod, IntImm, IterVar, PrimExpr, Range, Var
from tscript.ir.functor import Visitor, substitute
from tscript.ir.linear import difference, from_linear, linear_form
from tscript.ir.occurrences import reads_memory, variables
from tscript.ir.stmt import Block, BlockRealize, BufferStore, For, Stmt
from tscript.schedule.checks import is_complete_block, is_reduction_block, region_cover
from tscript.schedule.sref import StmtSRef
from tscript.schedule.state import ScheduleState
from tscript.schedule.symbols import axes_using


@dataclass(frozen=True)
class Access:
    """Elements of a buffer that a block (or a statement outside of blocks) touches, in terms of loop variables.

    `domain` holds the loops around it that are below, or are, the loop in question.
    """

    block: StmtSRef | None
    buffer: Buffer
    region: tuple[Range, ...]
    is_write: bool
    domain: Mapping[Var, Range]

    @cached_property
    def bounds(self) -> Mapping[Var, Bound]:
        """Constant bounds of the loop variables."""
        return range_bounds(self.domain)

    def __str__(self) -> str:
        shown = ", ".join(
            str(r.min) if isinstance(r.extent, IntImm) and r.extent.value == 1 else f"{r.min}:{r.min + r.extent}"
            for r in self.region
        )
        return f"{self.buffer.name}[{shown}]"


@dataclass(frozen=True)
class Conflict:
    """Two accesses, the first of them a write, that may touch the same element in different iterations."""

    write: Access
    other: Access
    witness: tuple[int, int] | None

    def explain(self, loop: For) -> str:
        """What is touched twice, with two iterations where that is known to happen."""
        verb = "writes" if self.other.is_write else "reads"
        by = _by(self.write.block), _by(self.other.block)
        what = f"{by[0]} writes `{self.write}`"
        if self.other is not self.write:
            what += f" and {by[1]} {verb} `{self.other}`"
        if self.witness is None:
            return f"{what}, which may be the same elements in different iterations"
        name, (a, b) = loop.loop_var.name, self.witness
        return f"{what}: iterations {name} = {a} and {name} = {b} touch the same element"


def _by(block: StmtSRef | None) -> str:
    return "a statement outside of blocks" if block is None else f"block `{block.block.name_hint}`"


# -- what is accessed -----------------------------------------------------------------------------


class _Loose(Visitor):
    """Loops, blocks, and the loads and stores outside of blocks, directly below."""

    def __init__(self, state: ScheduleState, domain: Mapping[Var, Range]) -> None:
        self.state = state
        self.domain = dict(domain)
        self.found: list[Access] = []
        self.own: dict[Buffer, None] = {}

    def visit_For(self, node: For) -> None:
        """The loop is part of the domain of what is below, which never runs if it has no iterations."""
        if is_const_int(node.extent, 0):
            return
        self.domain[node.loop_var] = loop_range(node)
        self.visit_children(node)

    def visit_BlockRealize(self, node: BlockRealize) -> None:
        """A block stands for its regions; one without axes for what is in it."""
        sref = self.state.stmt2ref[node.block]
        if not node.block.iter_vars and not node.block.writes:
            self.own.update(dict.fromkeys(node.block.alloc_buffers))
            self.visit(node.block.body)
            return
        domain = dict(self.domain)
        for region, is_write in [(w, True) for w in node.block.writes] + [(r, False) for r in node.block.reads]:
            ranges = tuple(bound_region(node, region))
            self.found.append(Access(sref, region.buffer, ranges, is_write, domain))

    def visit_BufferStore(self, node: BufferStore) -> None:
        """A store outside of blocks."""
        self._element(node.buffer, node.indices, True)
        self.visit_children(node)

    def visit_BufferLoad(self, node: BufferLoad) -> None:
        """A load outside of blocks."""
        self._element(node.buffer, node.indices, False)
        self.visit_children(node)

    def _element(self, buffer: Buffer, indices: tuple[PrimExpr, ...], is_write: bool) -> None:
        if any(i.dtype.lanes != 1 for i in indices):
            region = tuple(Range.from_min_extent(IntImm(d.dtype, 0), d) for d in buffer.shape)
        else:
            region = tuple(Range.from_min_extent(i, IntImm(i.dtype, 1)) for i in indices)
        self.found.append(Access(None, buffer, region, is_write, dict(self.domain)))


def accesses_of(state: ScheduleState, stmt: Stmt) -> list[Access]:
    """Everything that a statement of the program touches, in program order, in terms of the loops in it."""
    visitor = _Loose(state, {})
    visitor.visit(stmt)
    return visitor.found


# -- what keeps accesses apart --------------------------------------------------------------------


def keeps_apart(var: Var, a: Access, b: Access) -> bool:
    """Whether `a` and `b` touch the same element only in the same iteration of the loop over `var`."""
    if a.buffer is not b.buffer:
        return False
    extent = a.domain[var].extent
    count = extent.value if isinstance(extent, IntImm) else None
    if count is not None and count <= 1:
        return True
    # Bindings are simple as a rule; where that does not do, they are simplified first.
    return _tells_apart(var, a, b, count, False) or _tells_apart(var, a, b, count, True)


def _tells_apart(var: Var, a: Access, b: Access, count: int | None, simplifying: bool) -> bool:
    digits: list[Digit] = []
    for x, y in zip(a.region, b.region, strict=True):
        found = _shared_part(var, (x, a), (y, b), simplifying)
        if found is None:
            continue
        if isinstance(found, Var):
            return True
        digit = _digit(found, var)
        if digit is not None:
            digits.append(digit)
            continue
        string = find_digits(found, {var: a.domain[var]})
        if string is not None:
            if string.whole is not None:
                return True
            digits += [d for d, _ in string.digits]
    return _covers(digits, count)


def _digit(e: PrimExpr, var: Var) -> Digit | None:
    """`var // a`, `var % b`, `var // a % b` or `var % (a * b) // a` as a digit, where `var` is not negative."""
    match e:
        case FloorMod(a=FloorDiv(a=v, b=IntImm(value=lower)), b=IntImm(value=n)) if v is var:
            return Digit(var, lower, n)
        case FloorDiv(a=FloorMod(a=v, b=IntImm(value=n)), b=IntImm(value=lower)) if v is var and n % lower == 0:
            return Digit(var, lower, n // lower)
        case FloorDiv(a=v, b=IntImm(value=lower)) if v is var:
            return Digit(var, lower, _MANY)
        case FloorMod(a=v, b=IntImm(value=n)) if v is var:
            return Digit(var, 1, n)
        case _:
            return None


_MANY: Final = 1 << 64
"""More than any loop counts to: the extent of a digit that has all that is above it."""


def _covers(digits: list[Digit], extent: int | None) -> bool:
    """Whether digits together tell all iterations apart."""
    reach = 1
    for d in sorted(digits, key=lambda d: d.lower):
        if d.lower > reach:
            return False
        reach = max(reach, d.lower * d.extent)
    return extent is not None and reach >= extent


def _shared_part(var: Var, x: tuple[Range, Access], y: tuple[Range, Access], simplifying: bool) -> PrimExpr | None:
    """An expression of `var` alone that is equal for two iterations whose ranges overlap; None where there is none."""
    p = _parts(var, *x, simplifying)
    q = p if y[0] is x[0] else _parts(var, *y, simplifying)
    if p is None or q is None or not p.own or p.own != q.own:
        return None
    shift = difference(q.fixed, p.fixed)
    if shift[0]:
        return None
    # own(i) + u = own(j) + v with u, v within the rests: the difference of the own parts is a multiple of their step.
    step = 0
    for c in p.own.values():
        step = gcd(step, c)
    low, high = q.low + shift[1] - p.high, q.high + shift[1] - p.low
    if not (-step < low and high < step):
        return None
    dtype = var.dtype
    return from_linear(({t: c // step for t, c in p.own.items()}, 0), dtype)


@dataclass(frozen=True)
class _Parts:
    own: dict[PrimExpr, int]
    fixed: PrimExpr
    low: int
    high: int


def _parts(var: Var, r: Range, access: Access, simplifying: bool) -> _Parts | None:
    """A range as terms of `var` alone, terms of what is outside the loop, and bounds of the rest."""
    domain, bounds = access.domain, access.bounds
    start = simplify(r.min, bounds) if simplifying else r.min
    size = const_bound(simplify(r.extent, bounds) if simplifying else r.extent, bounds).high
    if size is None:
        return None
    terms, constant = linear_form(start)
    own: dict[PrimExpr, int] = {}
    fixed: dict[PrimExpr, int] = {}
    low, high = 0, size - 1
    for term, factor in terms.items():
        if term is var:
            own[term] = factor
            continue
        used = variables(term)
        if not isinstance(term, Var) and reads_memory(term):
            return None
        has_var = var in used
        if not any(v in domain and v is not var for v in used):
            (own if has_var else fixed)[term] = factor
            continue
        b = const_bound(term, bounds)
        if has_var or b.low is None or b.high is None:
            return None
        low += min(factor * b.low, factor * b.high)
        high += max(factor * b.low, factor * b.high)
    return _Parts(own, from_linear((fixed, constant), start.dtype), low, high)


# -- what is harmful ------------------------------------------------------------------------------


Touched = Mapping[Var, Sequence[tuple[int, Access]]]
"""The accesses to each piece of memory, by its pointer, with their places in the program."""


def memory_of(state: ScheduleState, sref: StmtSRef) -> Callable[[Buffer], Var]:
    """The pointer of the memory that a buffer lies in, seen through the views of the blocks around a statement."""
    sources: dict[Var, Var] = {}
    at: StmtSRef | None = sref
    while at is not None:
        if isinstance(at.stmt, Block):
            sources.update({m.buffer.data: m.source.buffer.data for m in at.stmt.match_buffers})
        at = at.parent

    def find(buffer: Buffer) -> Var:
        data = buffer.data
        while data in sources:
            data = sources[data]
        return data

    return find


def touched_by(state: ScheduleState, loop: StmtSRef) -> Touched:
    """What a loop touches, less what each of its iterations allocates anew."""
    visitor = _Loose(state, {})
    visitor.visit(loop.loop)
    memory = memory_of(state, loop)
    found: dict[Var, list[tuple[int, Access]]] = {}
    for k, access in enumerate(visitor.found):
        if access.buffer not in visitor.own:
            found.setdefault(memory(access.buffer), []).append((k, access))
    return {b: accesses for b, accesses in found.items() if any(a.is_write for _, a in accesses)}


def find_conflict(
    state: ScheduleState,
    loop: StmtSRef,
    *,
    at_once: bool,
    within: Touched | None = None,
    private: Callable[[Buffer], bool] | None = None,
) -> Conflict | None:
    """Two accesses that forbid other orders of the iterations of a loop, or (`at_once`) running them together.

    Left out are accesses that are kept apart; rewriting of the same values; accumulation, which its reduce axes declare
    to be free in its order; buffers that `private` says each iteration has for itself. `within` is what a loop further
    out in the same nest touches: the loops from there on are taken to be in different iterations too.
    """
    var = loop.loop.loop_var
    if any(is_const_int(r.loop.extent, 0) for r in state.loops_of(loop)):
        return None
    touched = within if within is not None else touched_by(state, loop)
    for accesses in touched.values():
        if private is not None and all(private(a.buffer) for _, a in accesses):
            continue
        for k, w in accesses:
            for j, x in accesses:
                if not w.is_write or (x.is_write and j < k) or (not at_once and _accumulates(w, x)):
                    continue
                if keeps_apart(var, w, x) or _is_harmless(state, loop, w, x, k < j, at_once):
                    continue
                return Conflict(w, x, _find_witness(state, var, w, x, False))
    return None


def _accumulates(w: Access, x: Access) -> bool:
    """Whether both are the accumulation of one block into the same elements, free in its order by declaration."""
    if w.block is None or w.block is not x.block:
        return False
    return any(axis.iter_type == IterVar.CommReduce for axis in w.block.block.iter_vars) and _same_region(w, x)


def _is_harmless(state: ScheduleState, loop: StmtSRef, w: Access, x: Access, in_order: bool, at_once: bool) -> bool:
    """Whether it does not matter that `w` and `x` touch the same element in different iterations."""
    first, second = w.block, x.block
    if first is None or second is None or w.buffer is not x.buffer:
        return False
    if first is not second:
        # Each iteration rewrites what it reads later, with the values that the others write.
        rewrites = is_complete_block(state, first, within=loop) or (
            not at_once and is_reduction_block(state, first, within=loop) and not _reduces_over(state, loop, first)
        )
        return rewrites and not x.is_write and in_order and region_cover(state, second)
    if is_complete_block(state, first, within=loop):
        # The same instance writes the same values; other instances are independent, as spatial axes declare.
        return _find_witness(state, loop.loop.loop_var, w, x, True) is None
    if is_reduction_block(state, first, within=loop):
        return not at_once or bool(axes_using(state.realize_of(first), loop.loop.loop_var))
    return False


def _reduces_over(state: ScheduleState, loop: StmtSRef, block: StmtSRef) -> bool:
    used = axes_using(state.realize_of(block), loop.loop.loop_var)
    return any(axis.iter_type == IterVar.CommReduce for axis in used)


def _same_region(a: Access, b: Access) -> bool:
    return all(x.min is y.min and x.extent is y.extent for x, y in zip(a.region, b.region, strict=True))


_TRIED: Final = 6
"""How many of the first iterations are looked at for an example."""


def _find_witness(state: ScheduleState, var: Var, w: Access, x: Access, other_instance: bool) -> tuple[int, int] | None:
    """Two iterations that certainly touch the same element, all other loops being at their starts.

    With `other_instance`, only iterations whose bindings differ.
    """
    if w.buffer is not x.buffer:
        return None
    first, extent = w.domain[var].min, w.domain[var].extent
    if not (isinstance(first, IntImm) and isinstance(extent, IntImm)):
        return None
    values = range(first.value, first.value + min(extent.value, _TRIED))
    for a in values:
        for b in values:
            if a == b or not _overlap(_at(w, var, a), _at(x, var, b)):
                continue
            if not (_runs(state, w, var, a) and _runs(state, x, var, b)):
                continue
            if not other_instance or _instances_differ(state, w, var, a, b):
                return a, b
    return None


def _point(access: Access, var: Var, value: int) -> dict[Var, PrimExpr]:
    point: dict[Var, PrimExpr] = {}
    for v, r in access.domain.items():
        point[v] = IntImm(var.dtype, value) if v is var else simplify(substitute(r.min, point))
    return point


def _at(access: Access, var: Var, value: int) -> list[tuple[PrimExpr, PrimExpr]]:
    point = _point(access, var, value)
    return [(simplify(substitute(r.min, point)), simplify(substitute(r.extent, point))) for r in access.region]


def _overlap(a: list[tuple[PrimExpr, PrimExpr]], b: list[tuple[PrimExpr, PrimExpr]]) -> bool:
    for (x, m), (y, n) in zip(a, b, strict=True):
        terms, gap = difference(y, x)
        # A larger region may be declared than is touched, so only single elements are certain.
        if terms or gap or reads_memory(x) or not (is_const_int(m, 1) and is_const_int(n, 1)):
            return False
    return True


def _runs(state: ScheduleState, access: Access, var: Var, value: int) -> bool:
    if access.block is None:
        return False
    predicate = state.realize_of(access.block).predicate
    found = simplify(substitute(predicate, _point(access, var, value)))
    return isinstance(found, IntImm) and bool(found.value)


def _instances_differ(state: ScheduleState, access: Access, var: Var, a: int, b: int) -> bool:
    assert access.block is not None
    first, second = _point(access, var, a), _point(access, var, b)
    for value in state.realize_of(access.block).iter_values:
        terms, gap = difference(substitute(value, first), substitute(value, second))
        if not terms and gap:
            return True
    return False
