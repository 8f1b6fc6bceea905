"""Memory that each iteration of a parallel loop uses for itself."""

from __future__ import annotations

from typing import Any

from tscript.analysis.access_regions import detect_regions
from tscript.ir.base import Node
from tscript.ir.buffer import Buffer
from tscript.ir.construct import const
from tscript.ir.expr import BufferLoad, IntImm, PrimExpr, Range, Var
from tscript.ir.function import PrimFunc
from tscript.ir.functor import Rewriter
from tscript.ir.linear import difference, from_linear
from tscript.ir.occurrences import any_below, reads_memory, variables
from tscript.ir.stmt import (
    Allocate,
    AttrStmt,
    Block,
    BufferStore,
    DeclBuffer,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    While,
    seq,
)
from tscript.lower.blocks import allocated


def private_memory(func: PrimFunc) -> PrimFunc:
    """Allocate inside a parallel loop what is used only there, and no more of it than an iteration touches.

    Iterations of a parallel loop do not depend on each other, so whatever one finds in such memory it wrote
    itself. Where all share the memory, two that compute the same elements, as at the rim of a tile, meet.
    Expects no blocks, and buffers with all their dimensions.
    """
    return func.replace(body=_Private().rewrite(func.body))


class _Private(Rewriter):
    memoize = False

    def __init__(self) -> None:
        super().__init__()
        self._is_inside = False

    def rewrite_For(self, loop: For) -> Any:
        outside, self._is_inside = self._is_inside, self._is_inside or loop.kind == ForKind.PARALLEL
        result = self.rewrite_children(loop)
        self._is_inside = outside
        return result

    def rewrite_Allocate(self, s: Allocate) -> Any:
        if not self._is_inside and isinstance(s.condition, IntImm) and s.condition.value:
            moved = _moved(s.replace(body=seq()), s.body)
            if moved is not None:
                return self.rewrite(moved)
        return self.rewrite_children(s)


def _moved(memory: Allocate, s: Stmt) -> Stmt | None:
    """`s` with `memory` inside the parallel loop that has all uses of it; None if there is no such loop.

    The body of `memory` has what was declared on it on the way there.
    """
    match s:
        case For() if s.kind == ForKind.PARALLEL:
            return None if _uses(memory, s.min, s.extent) else s.replace(body=_placed(memory, s.body))
        case DeclBuffer() if s.buffer.data is memory.buffer_var:
            return _moved(memory.replace(body=s.replace(body=memory.body)), s.body)
        case For():
            own: tuple[Node, ...] = (s.min, s.extent)
        case LetStmt():
            own = (s.value,)
        case AttrStmt():
            own = tuple(n for n in (s.node, s.value) if isinstance(n, Node))
        case Allocate():
            own = s.extents
        case DeclBuffer():
            own = ()
        case While():
            own = (s.condition,)
        case IfThenElse() | SeqStmt():
            return _moved_into_part(memory, s)
        case _:
            return None
    inner = None if _uses(memory, *own) else _moved(memory, s.body)
    return None if inner is None else s.replace(body=inner)


def _moved_into_part(memory: Allocate, s: IfThenElse | SeqStmt) -> Stmt | None:
    """As `_moved`, where one of several statements has all uses."""
    if isinstance(s, SeqStmt):
        using = [n for n, part in enumerate(s.seq) if _uses(memory, part)]
        inner = _moved(memory, s.seq[using[0]]) if len(using) == 1 else None
        return None if inner is None else s.replace(seq=(*s.seq[: using[0]], inner, *s.seq[using[0] + 1 :]))
    if _uses(memory, s.condition):
        return None
    branches = {"then_case": s.then_case, "else_case": s.else_case}
    found = {name: b for name, b in branches.items() if b is not None and _uses(memory, b)}
    if len(found) != 1:
        return None
    ((name, branch),) = found.items()
    inner = _moved(memory, branch)
    return None if inner is None else s.replace(**{name: inner})


def _uses(memory: Allocate, *nodes: Node) -> bool:
    """Whether the memory is accessed, or its address used, in `nodes`."""
    data = memory.buffer_var
    return any(any_below(n, lambda m: m is data or (isinstance(m, Buffer) and m.data is data)) for n in nodes)


def _placed(memory: Allocate, body: Stmt) -> Stmt:
    """`body` with memory of its own."""
    declared = _declared(memory)
    buffer = declared[0] if len(declared) == 1 else None
    if buffer is None or not _is_plain(buffer) or _is_viewed(memory.buffer_var, buffer, body):
        for b in reversed(declared):
            body = DeclBuffer(b, body)
        return memory.replace(body=body)
    lows, extents = _touched(buffer, body)
    smaller = buffer.replace(shape=extents)
    return allocated(smaller, _Moved(buffer, smaller, lows).rewrite(body))


def _declared(memory: Allocate) -> list[Buffer]:
    """The buffers that were declared on the memory on the way down."""
    found: list[Buffer] = []
    s = memory.body
    while isinstance(s, DeclBuffer) and s.buffer.data is memory.buffer_var:
        found.append(s.buffer)
        s = s.body
    return found


def _is_plain(buffer: Buffer) -> bool:
    return not buffer.strides and isinstance(buffer.elem_offset, IntImm) and buffer.elem_offset.value == 0


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
    return name == "tir.address_of" and any_below(n, lambda m: isinstance(m, BufferLoad) and m.buffer is buffer)


def _touched(buffer: Buffer, body: Stmt) -> tuple[list[PrimExpr], tuple[PrimExpr, ...]]:
    """Where the part of `buffer` that `body` touches begins, and its extents: constants, or those of all of it."""
    regions = [
        r.region
        for found in detect_regions(Block((), (), (), "", body))
        for r in found
        if r.buffer is buffer
    ]  # fmt: skip
    inside, vectors = _bound(body), _vector_dimensions(buffer, body)
    lows: list[PrimExpr] = []
    extents: list[PrimExpr] = []
    for d, whole in enumerate(buffer.shape):
        span = None if d in vectors else _span([r[d] for r in regions])
        if span is not None and (reads_memory(span[0]) or any(v in inside for v in variables(span[0]))):
            span = None
        if span is None or (isinstance(whole, IntImm) and span[1] >= whole.value):
            lows.append(const(0, whole.dtype))
            extents.append(whole)
        else:
            lows.append(span[0])
            extents.append(const(span[1], whole.dtype))
    return lows, tuple(extents)


def _vector_dimensions(buffer: Buffer, body: Stmt) -> frozenset[int]:
    """Dimensions that are somewhere given several subscripts at once."""
    found: set[int] = set()

    def note(n: Node) -> bool:
        if isinstance(n, (BufferLoad, BufferStore)) and n.buffer is buffer:
            found.update(d for d, i in enumerate(n.indices) if i.dtype.lanes > 1)
        return False

    any_below(body, note)
    return frozenset(found)


def _span(ranges: list[Range]) -> tuple[PrimExpr, int] | None:
    """The lower end and the length of the union of ranges, if they are a constant distance apart."""
    if not ranges:
        return None
    first = ranges[0].min
    low, high = 0, 0
    for r in ranges:
        terms, offset = difference(r.min, first)
        if terms or not isinstance(r.extent, IntImm):
            return None
        low, high = min(low, offset), max(high, offset + r.extent.value)
    terms, constant = difference(first, const(-low, first.dtype))
    return from_linear((terms, constant), first.dtype), high - low


def _bound(body: Stmt) -> dict[Var, None]:
    """The variables that are bound inside."""
    found: dict[Var, None] = {}

    def note(n: Node) -> bool:
        for name in ("loop_var", "var", "buffer_var"):
            var = getattr(n, name, None)
            if isinstance(var, Var):
                found[var] = None
        return False

    any_below(body, note)
    return found


class _Moved(Rewriter):
    """Accesses to a buffer as those to the part of it that is there."""

    def __init__(self, whole: Buffer, part: Buffer, lows: list[PrimExpr]) -> None:
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


def _from(low: PrimExpr, index: PrimExpr) -> PrimExpr:
    """The distance of an index from the lower end."""
    if isinstance(low, IntImm) and low.value == 0:
        return index
    return from_linear(difference(index, low), index.dtype)


__all__ = ["private_memory"]
