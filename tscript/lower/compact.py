"""Memory is allocated where it is used, and no more of it than is used there.

Before: allocations anywhere, no blocks, buffers with all their dimensions. After: an allocation stands around the
innermost statement that has all accesses, and holds, in each dimension, what these reach from the least subscript on.

A loop is entered where each iteration reads only what it has itself written before (`fresh.py`), and a parallel one in
any case: its iterations do not depend on each other, so whatever one finds in such memory it wrote itself. Where all
of them share the memory, two that compute the same elements, as at the rim of a tile, meet.

Memory that something else than loads and stores of one buffer gets at keeps its size, and so does a dimension of which
the accesses of one place begin an unknown distance apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tscript.arith.const_bound import Bound, const_bound
from tscript.arith.forms import plus
from tscript.ir.alignment import ALIGNMENT, Alignment, aligned_strides, read_entries
from tscript.ir.base import Node
from tscript.ir.buffer import Buffer
from tscript.ir.construct import cast, const, max_
from tscript.ir.expr import Broadcast, BufferLoad, Call, IntImm, Let, PrimExpr, Ramp, Var
from tscript.ir.function import PrimFunc
from tscript.ir.functor import Rewriter, children
from tscript.ir.linear import LinearForm, from_linear, linear_form
from tscript.ir.occurrences import any_below
from tscript.ir.stmt import (
    Allocate,
    AttrStmt,
    BufferStore,
    DeclBuffer,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
)
from tscript.lower.blocks import allocated
from tscript.lower.fresh import writes_before_reads
from tscript.lower.guards import range_of
from tscript.lower.regions import Names, ends_of, falls_short

SMALL: Final = 256
"""A constant extent that takes the place of a variable one, which might be smaller, is no larger than this."""


def compact_buffers(func: PrimFunc) -> PrimFunc:
    """Allocate memory at the innermost place that has all accesses, as much of it as they touch.

    Expects no blocks, and buffers with all their dimensions.
    """
    return func.replace(body=_Compact().rewrite(func.body))


class _Compact(Rewriter):
    # Where memory may go depends on the loops around it.
    memoize = False

    def __init__(self) -> None:
        super().__init__()
        self._bounds: dict[Var, Bound] = {}
        self._placed: set[Var] = set()

    def rewrite_For(self, loop: For) -> Any:
        self._bounds[loop.loop_var] = range_of(loop, self._bounds)
        return self.rewrite_children(loop)

    def rewrite_LetStmt(self, let: LetStmt) -> Any:
        _note(let, self._bounds)
        return self.rewrite_children(let)

    def rewrite_Allocate(self, s: Allocate) -> Any:
        declared, body = _declared(s)
        if s.buffer_var in self._placed or not declared or not (isinstance(s.condition, IntImm) and s.condition.value):
            return self.rewrite_children(s)
        self._placed.add(s.buffer_var)
        path = _path(s.buffer_var, body, self._bounds)
        buffer = declared[0]
        is_plain = len(declared) == 1 and _is_plain(buffer, s) and not _is_viewed(s.buffer_var, buffer, body)
        depth = path.deepest(buffer if is_plain else None)
        inside = path.nodes[depth].statement if depth < len(path.nodes) else path.last
        placed = _placed(s, declared, inside, path.bounds_at(depth)) if is_plain else None
        if placed is None:
            if depth == 0:
                return self.rewrite_children(_unmarked(s))
            placed = _whole(_unmarked(s), declared, inside)
        return self.rewrite(path.around(depth, placed))


# -- where --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Step:
    """A statement, and which of those below it has all uses of the memory."""

    statement: Stmt
    field: str
    number: int = -1

    def with_inner(self, inner: Stmt) -> Stmt:
        """The statement with the one below it replaced."""
        if self.number < 0:
            return self.statement.replace(**{self.field: inner})
        below: tuple[Stmt, ...] = getattr(self.statement, self.field)
        return self.statement.replace(seq=(*below[: self.number], inner, *below[self.number + 1 :]))


@dataclass(slots=True)
class _Path:
    """Statements from an allocation down to the innermost one that has all uses, `last`."""

    nodes: list[_Step]
    last: Stmt
    outside: Mapping[Var, Bound]

    def bounds_at(self, depth: int) -> dict[Var, Bound]:
        """Bounds of the variables around the place below the first `depth` statements."""
        bounds = dict(self.outside)
        for step in self.nodes[:depth]:
            _note(step.statement, bounds)
        return bounds

    def deepest(self, buffer: Buffer | None) -> int:
        """How many of the statements to enter. `buffer` is None for memory of which accesses are not known."""
        depth = len(self.nodes)
        while depth:
            loops = [s.statement for s in self.nodes[:depth] if isinstance(s.statement, For)]
            ordered = [n for n in loops if n.kind != ForKind.PARALLEL]
            if not loops:
                # An allocation costs nothing where it is.
                return 0
            if not ordered:
                return depth
            inside = self.nodes[depth].statement if depth < len(self.nodes) else self.last
            if buffer is not None and writes_before_reads(buffer, inside, self.bounds_at(depth)):
                return depth
            # Out of the innermost loop that is passed in order.
            depth = max(n for n, s in enumerate(self.nodes[:depth]) if s.statement is ordered[-1])
        return 0

    def around(self, depth: int, inner: Stmt) -> Stmt:
        """`inner` below the first `depth` statements."""
        for step in reversed(self.nodes[:depth]):
            inner = step.with_inner(inner)
        return inner


def _path(data: Var, s: Stmt, outside: Mapping[Var, Bound]) -> _Path:
    nodes: list[_Step] = []
    while True:
        step = _step(data, s)
        if step is None:
            return _Path(nodes, s, outside)
        nodes.append(step)
        below = getattr(s, step.field)
        s = below if step.number < 0 else below[step.number]


def _step(data: Var, s: Stmt) -> _Step | None:
    """The way on from `s` to the only statement below it that uses the memory; None if `s` does itself, or several."""
    match s:
        case For() if s.kind in (ForKind.SERIAL, ForKind.PARALLEL):
            own: tuple[Node, ...] = (s.min, s.extent)
        case LetStmt():
            own = (s.value,)
        case AttrStmt():
            own = tuple(n for n in (s.node, s.value) if isinstance(n, Node))
        case Allocate():
            own = s.extents
        case DeclBuffer() if s.buffer.data is not data:
            own = ()
        case SeqStmt():
            using = [n for n, part in enumerate(s.seq) if _uses(data, part)]
            return _Step(s, "seq", using[0]) if len(using) == 1 else None
        case IfThenElse():
            branches = {"then_case": s.then_case, "else_case": s.else_case}
            found = [name for name, b in branches.items() if b is not None and _uses(data, b)]
            return _Step(s, found[0]) if len(found) == 1 and not _uses(data, s.condition) else None
        case _:
            return None
    return None if any(_uses(data, n) for n in own) else _Step(s, "body")


def _uses(data: Var, node: Node) -> bool:
    """Whether the memory is accessed, or its address used, in `node`."""
    return any_below(node, lambda m: m is data or (isinstance(m, Buffer) and m.data is data))


def _note(s: Stmt, bounds: dict[Var, Bound]) -> None:
    """Add the bounds of what a statement binds."""
    if isinstance(s, For):
        bounds[s.loop_var] = range_of(s, bounds)
    elif isinstance(s, LetStmt) and s.var.dtype.is_integer and s.var.dtype.lanes == 1:
        bounds[s.var] = const_bound(s.value, bounds)


# -- how much -----------------------------------------------------------------------------------------


def _declared(memory: Allocate) -> tuple[list[Buffer], Stmt]:
    """The buffers that are declared on the memory at once, and what follows."""
    found: list[Buffer] = []
    s = memory.body
    while isinstance(s, DeclBuffer) and s.buffer.data is memory.buffer_var:
        found.append(s.buffer)
        s = s.body
    return found, s


def _is_plain(buffer: Buffer, memory: Allocate) -> bool:
    return (
        _has_strides(buffer, _alignment(memory))
        and isinstance(buffer.elem_offset, IntImm)
        and buffer.elem_offset.value == 0
        and set(memory.annotations) <= {ALIGNMENT}
        and bool(buffer.shape)
    )


def _alignment(memory: Allocate) -> Alignment:
    return {d: (factor, offset) for d, factor, offset in read_entries(memory.annotations, 3)}


def _has_strides(buffer: Buffer, alignment: Alignment) -> bool:
    """Whether the strides of a buffer follow from its shape and alignment."""
    if not buffer.strides:
        return not alignment
    return all(a is b for a, b in zip(buffer.strides, aligned_strides(buffer.shape, alignment), strict=True))


def _is_viewed(data: Var, buffer: Buffer, body: Stmt) -> bool:
    """Whether memory is used by anything but loads and stores of `buffer`."""

    def test(n: Node) -> bool:
        if isinstance(n, (BufferLoad, BufferStore)):
            return n.buffer.data is data and n.buffer is not buffer
        # The buffer itself occurs below its loads and stores.
        return n is data or (isinstance(n, Buffer) and n.data is data and n is not buffer) or _takes_address(n, buffer)

    return any_below(body, test)


def _takes_address(n: Node, buffer: Buffer) -> bool:
    name = getattr(getattr(n, "op", None), "name", "")
    return (
        isinstance(n, Call)
        and name == "tir.address_of"
        and any_below(n, lambda m: isinstance(m, BufferLoad) and m.buffer is buffer)
    )


def _unmarked(memory: Allocate) -> Allocate:
    """An allocation without what was to be known here only."""
    if ALIGNMENT not in memory.annotations:
        return memory
    return memory.replace(annotations={k: v for k, v in memory.annotations.items() if k != ALIGNMENT})


def _whole(memory: Allocate, declared: list[Buffer], body: Stmt) -> Stmt:
    """`body` with all of the memory."""
    for b in reversed(declared):
        body = DeclBuffer(b, body)
    return memory.replace(body=body)


def _placed(memory: Allocate, declared: list[Buffer], body: Stmt, bounds: Mapping[Var, Bound]) -> Stmt | None:
    """`body` with what it touches of the memory; None where that is all, and nothing moves."""
    (buffer,) = declared
    lows, extents = _touched(buffer, body, bounds)
    if all(e is s for e, s in zip(extents, buffer.shape, strict=True)):
        return None
    smaller = buffer.replace(shape=tuple(extents))
    alignment = _alignment(memory)
    if alignment:
        smaller = smaller.replace(strides=aligned_strides(smaller.shape, alignment))
    return allocated(smaller, _Moved(buffer, smaller, lows).rewrite(body))


Span = tuple[LinearForm, LinearForm]


def _touched(buffer: Buffer, body: Stmt, bounds: Mapping[Var, Bound]) -> tuple[list[LinearForm], list[PrimExpr]]:
    """Where the part of `buffer` that `body` touches begins, and its extents; those of all of it where unknown."""
    scan = _Scan(buffer, dict(bounds))
    scan.statement(body)
    lows: list[LinearForm] = []
    extents: list[PrimExpr] = []
    for whole, span in zip(buffer.shape, scan.spans, strict=True):
        extent = None if span is None else plus(plus(span[1], span[0], -1), ({}, 1))
        if span is None or extent is None or not _pays(whole, extent, bounds):
            lows.append(({}, 0))
            extents.append(whole)
            continue
        size: PrimExpr = from_linear(extent, whole.dtype)
        # A loop without iterations reaches nothing.
        size = size if not falls_short(extent, bounds) else max_(size, const(0, whole.dtype))
        lows.append(span[0])
        extents.append(cast(size, whole.dtype))
    return lows, extents


def _pays(whole: PrimExpr, extent: LinearForm, bounds: Mapping[Var, Bound]) -> bool:
    """Whether an extent is smaller than that of all of the memory, or a small constant in place of a variable one."""
    if not extent[0] and not isinstance(whole, IntImm):
        return extent[1] <= SMALL
    return not falls_short(plus(linear_form(whole), plus(extent, ({}, 1)), -1), bounds)


class _Scan:
    """What the accesses of a buffer reach, from outside of a statement."""

    def __init__(self, buffer: Buffer, bounds: dict[Var, Bound]) -> None:
        self._buffer = buffer
        self._bounds = bounds
        self._around: list[For | LetStmt | Let] = []
        self._seen: set[tuple[PrimExpr, ...]] = set()
        self.spans: list[Span | None] = [None] * buffer.ndim
        self._is_first = True

    def statement(self, s: Node) -> None:
        """Add what is below `s`."""
        if isinstance(s, (For, LetStmt, Let)):
            for e in (s.min, s.extent) if isinstance(s, For) else (s.value,):
                self.statement(e)
            if isinstance(s, Let):
                if s.var.dtype.is_integer and s.var.dtype.lanes == 1:
                    self._bounds[s.var] = const_bound(s.value, self._bounds)
            else:
                _note(s, self._bounds)
            self._around.append(s)
            self.statement(s.body)
            self._around.pop()
            return
        if isinstance(s, (BufferLoad, BufferStore)) and s.buffer is self._buffer:
            self._access(s.indices)
        for c in children(s):
            if not isinstance(c, (Buffer, Var, IntImm)):
                self.statement(c)

    def _access(self, indices: tuple[PrimExpr, ...]) -> None:
        if indices in self._seen:
            return
        self._seen.add(indices)
        names = Names(self._around, self._bounds)
        spans = [_span(i, names) for i in indices]
        if self._is_first:
            self.spans, self._is_first = spans, False
        else:
            self.spans = [_hull(a, b) for a, b in zip(self.spans, spans, strict=True)]


def _span(index: PrimExpr, names: Names) -> Span | None:
    low, high = ends_of(index, names)
    return None if low is None or high is None else (low, high)


def _hull(a: Span | None, b: Span | None) -> Span | None:
    """What holds both, if each end of one is a constant distance from that of the other."""
    if a is None or b is None:
        return None
    below, above = plus(b[0], a[0], -1), plus(b[1], a[1], -1)
    if below[0] or above[0]:
        return None
    return (b[0] if below[1] < 0 else a[0]), (b[1] if above[1] > 0 else a[1])


class _Moved(Rewriter):
    """Accesses to a buffer as those to the part of it that is there."""

    def __init__(self, whole: Buffer, part: Buffer, lows: list[LinearForm]) -> None:
        super().__init__()
        self._whole = whole
        self._part = part
        self._lows = lows

    def rewrite_BufferLoad(self, load: BufferLoad) -> Any:
        load = self.rewrite_children(load)
        return load.replace(buffer=self._part, indices=self._at(load)) if load.buffer is self._whole else load

    def rewrite_BufferStore(self, store: BufferStore) -> Any:
        store = self.rewrite_children(store)
        return store.replace(buffer=self._part, indices=self._at(store)) if store.buffer is self._whole else store

    def _at(self, access: Any) -> tuple[PrimExpr, ...]:
        return tuple(_from(low, i) for low, i in zip(self._lows, access.indices, strict=True))


def _from(low: LinearForm, index: PrimExpr) -> PrimExpr:
    """The distance of an index from the lower end."""
    if not low[0] and low[1] == 0:
        return index
    if isinstance(index, Ramp):
        return Ramp(_from(low, index.base), index.stride, index.lanes)
    if isinstance(index, Broadcast):
        return Broadcast(_from(low, index.value), index.lanes)
    return from_linear(plus(linear_form(index), low, -1), index.dtype)


__all__ = ["compact_buffers"]
