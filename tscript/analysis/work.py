"""What a function does: loops, accesses and operations, each with how often it happens."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Final

from tscript.analysis.counting import Count, Loop, conjuncts, plus, share_where, times
from tscript.analysis.flops import Operations, operations
from tscript.arith.const_bound import Bound, const_bound
from tscript.arith.simplify import simplify
from tscript.ir import construct as make
from tscript.ir import expr as ex
from tscript.ir import stmt as st
from tscript.ir.buffer import Buffer
from tscript.ir.expr import BufferLoad, IntImm, PrimExpr, Range, Var
from tscript.ir.functor import children, substitute
from tscript.ir.occurrences import any_below, mentions, variables
from tscript.ir.stmt import BufferRegion, ForKind

Box = tuple[tuple[PrimExpr, PrimExpr], ...]
"""For each dimension the first index and how many follow, in the variables of loops."""


@dataclass(frozen=True, eq=False)
class Access:
    """One place that loads or stores, `count` times; `nbytes` at a time, all of it in `box`."""

    buffer: Buffer
    box: Box
    is_write: bool
    count: Count
    nbytes: Count
    path: tuple[Loop, ...]


@dataclass(eq=False)
class Nest:
    """A loop, with what is directly in it, in order. The nest around all of a function has no loop."""

    loop: Loop | None
    parts: list[Nest | Access] = field(default_factory=list["Nest | Access"])


@dataclass(frozen=True, eq=False)
class Statement:
    """A statement that stores or calls: what it computes each time, how often, and the loops around it."""

    each: Operations
    count: Count
    lanes: int
    path: tuple[Loop, ...]


class Work:
    """What is found in a function. `exact` is False where a count is the most that may happen.

    `values` gives numbers for variables that stand for sizes.
    """

    def __init__(self, values: Mapping[Var, PrimExpr]) -> None:
        self.root = Nest(None)
        self.statements: list[Statement] = []
        self.accesses: list[Access] = []
        self.own: dict[Buffer, None] = {}
        self.nests: list[tuple[Nest, tuple[Loop, ...], Count]] = []
        self.iterations: Count = 0
        self.guards: Count = 0
        self.exact = True
        self.known_sizes = dict(values)
        self._known: dict[Var, PrimExpr] = dict(values)
        self._path: tuple[Loop, ...] = ()
        self._share: Count = Fraction(1)
        self._conditions: tuple[PrimExpr, ...] = ()
        self._nest = self.root
        self._views: dict[Buffer, st.MatchBufferRegion] = {}
        self._is_opaque = False

    # -- counting -------------------------------------------------------------------------------

    def count(self, path: tuple[Loop, ...] | None = None) -> Count:
        """How often what stands here is done."""
        total = self._share
        for loop in self._path if path is None else path:
            total = times(total, loop.trips)
        return total

    def plain(self, e: PrimExpr) -> PrimExpr:
        """An expression in loop variables and unknown sizes only."""
        return simplify(substitute(e, self._known)) if self._known else simplify(e)

    def _under(self, condition: PrimExpr, body: Callable[[], None]) -> None:
        """What runs only where a condition holds; where that cannot be told, always."""
        share, conditions = self._share, self._conditions
        self._share = times(share, self._admit(condition))
        body()
        self._share, self._conditions = share, conditions

    def _admit(self, condition: PrimExpr) -> Fraction:
        """The share of the iterations that are left in which a condition holds; from here on, it does."""
        before = share_where(self._conditions, self._path)
        after = share_where((*self._conditions, condition), self._path)
        if before is None or after is None:
            self.exact = False
            return Fraction(1)
        self._conditions += (condition,)
        return after / before if before else Fraction(0)

    # -- statements -----------------------------------------------------------------------------

    def stmt(self, s: st.Stmt) -> None:
        """Take a statement in."""
        _STATEMENTS.get(type(s), Work._other)(self, s)

    def _other(self, s: Any) -> None:
        for c in children(s):
            if isinstance(c, st.Stmt):
                self.stmt(c)

    def _sequence(self, s: st.SeqStmt) -> None:
        for part in s.seq:
            self.stmt(part)

    def _for(self, s: st.For) -> None:
        tag = s.thread_binding.thread_tag if s.kind == ForKind.THREAD_BINDING and s.thread_binding else ""
        self._loop(s.loop_var, s.min, s.extent, s.kind, tag, s.body)

    def _loop(self, var: Var, low: PrimExpr, extent: PrimExpr, kind: int, tag: str, body: st.Stmt) -> None:
        low, extent = self.plain(low), self.plain(extent)
        outside, nest, conditions = self._path, self._nest, self._conditions
        varies = False
        bound: Count = extent
        if isinstance(extent, IntImm):
            bound = max(extent.value, 0)
        elif mentions(extent, dict.fromkeys(loop.var for loop in outside)):
            high = const_bound(extent, extents_of(outside)).high
            varies, bound = True, 1 if high is None else max(high, 0)
        elif any_below(extent, _loads):
            self.exact, bound = False, 1
        loop = Loop(var, low, extent, bound, bound, kind, tag)
        if varies:
            # Counted as one of its greatest extent, of which not all is run.
            self._path = (*outside, loop)
            loop = replace(loop, trips=times(bound, self._admit(make.compare(ex.LT, make.sub(var, low), extent))))
        self._path, self._nest = (*outside, loop), Nest(loop)
        nest.parts.append(self._nest)
        self.nests.append((self._nest, self._path, self.count()))
        if kind in (ForKind.SERIAL, ForKind.PARALLEL):
            self.iterations = plus(self.iterations, self.count())
        self.stmt(body)
        self._path, self._nest, self._conditions = outside, nest, conditions

    def _realize(self, s: st.BlockRealize) -> None:
        block = s.block
        for axis, value in zip(block.iter_vars, s.iter_values, strict=True):
            self._known[axis.var] = self.plain(value)
        condition = self.plain(s.predicate)
        if not isinstance(condition, IntImm):
            self.guards = plus(self.guards, self.count())
        self._under(condition, lambda: self._block(block))

    def _block(self, block: st.Block) -> None:
        self.own |= dict.fromkeys(block.alloc_buffers)
        self._views |= {m.buffer: m for m in block.match_buffers}
        if block.init is not None:
            self._init(block, block.init)
        was = self._is_opaque
        if not was and any_below(block.body, _names_memory):
            self._is_opaque = True
            for is_write, regions in ((False, block.reads), (True, block.writes)):
                for region in regions:
                    self._region(region, is_write)
        self.stmt(block.body)
        self._is_opaque = was

    def _init(self, block: st.Block, init: st.Stmt) -> None:
        """The init runs where the reduction axes are at their starts: the loops that only they mention run once."""
        reduce = [a for a in block.iter_vars if a.iter_type == ex.IterVar.CommReduce]
        over = variables(*(self._known[a.var] for a in reduce))
        others = variables(*(self._known[a.var] for a in block.iter_vars if a not in reduce))
        if any(v in others for v in over):
            sizes = [a.dom.extent for a in reduce if a.dom is not None]
            once = math.prod(Fraction(1, max(e.value, 1)) for e in map(self.plain, sizes) if isinstance(e, IntImm))
            share, self._share = self._share, times(self._share, once)
            self.stmt(init)
            self._share = share
            return
        path, share, conditions = self._path, self._share, self._conditions
        self._path = tuple(loop for loop in path if loop.var not in over)
        if self._path != path:
            # The conditions are taken again, over the loops that are left.
            left = [c for condition in conditions for c in conjuncts(condition) if not mentions(c, over)]
            self._conditions = tuple(left)
            found = share_where(left, self._path)
            self._share = Fraction(1) if found is None else found
            for loop in self._path:
                if isinstance(loop.trips, (int, Fraction)) and isinstance(loop.bound, (int, Fraction)) and loop.trips:
                    self._share = times(self._share, Fraction(loop.bound) / loop.trips)
        self.stmt(init)
        self._path, self._share, self._conditions = path, share, conditions

    def _bare_block(self, s: st.Block) -> None:
        """A block without values for its axes: for all of them."""
        body: st.Stmt = s.replace(iter_vars=())
        for axis in reversed(s.iter_vars):
            if axis.dom is not None:
                body = st.For(axis.var, axis.dom.min, axis.dom.extent, ForKind.SERIAL, body)
        if s.iter_vars:
            self.stmt(body)
        else:
            self._block(s)

    def _if(self, s: st.IfThenElse) -> None:
        self.guards = plus(self.guards, self.count())
        self._compute(s.condition, 1)
        condition = self.plain(s.condition)
        self._under(condition, lambda: self.stmt(s.then_case))
        other = s.else_case
        if other is not None:
            self._under(make.not_(condition), lambda: self.stmt(other))

    def _let(self, s: st.LetStmt) -> None:
        self._compute(s.value, 1)
        if not any_below(s.value, _loads):
            self._known[s.var] = self.plain(s.value)
        self.stmt(s.body)

    def _attr(self, s: st.AttrStmt) -> None:
        if s.attr_key in ("thread_extent", "virtual_thread") and isinstance(s.node, ex.IterVar):
            zero = IntImm(s.node.var.dtype, 0)
            extent = make.cast(s.value, s.node.var.dtype)
            self._loop(s.node.var, zero, extent, ForKind.THREAD_BINDING, s.node.thread_tag, s.body)
        else:
            self.stmt(s.body)

    def _while(self, s: st.While) -> None:
        self.exact = False
        self._compute(s.condition, 1)
        self.stmt(s.body)

    def _evaluate(self, s: st.Evaluate) -> None:
        self._compute(s.value, s.value.dtype.lanes or 1)

    def _store(self, s: st.BufferStore) -> None:
        self._compute(s.value, s.value.dtype.lanes)
        for i in s.indices:
            self._loads(i)
        self._touch(s.buffer, s.indices, True, s.value.dtype)

    # -- expressions and accesses ---------------------------------------------------------------

    def _compute(self, e: PrimExpr, lanes: int) -> None:
        self.statements.append(Statement(operations(e), self.count(), lanes, self._path))
        self._loads(e)

    def _loads(self, e: PrimExpr) -> None:
        """What an expression loads; equal loads in it are one."""
        found: dict[BufferLoad, None] = {}
        any_below(e, lambda n: isinstance(n, BufferLoad) and found.setdefault(n) is not None)
        for load in found:
            self._touch(load.buffer, load.indices, False, load.dtype)

    def _touch(self, buffer: Buffer, indices: tuple[PrimExpr, ...], is_write: bool, dtype: Any) -> None:
        if self._is_opaque:
            # What the block declares was taken instead.
            return
        self._add(buffer, tuple(self._index(i) for i in indices), is_write, size_of(dtype))

    def _index(self, i: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
        if isinstance(i, ex.Ramp):
            base, stride = self.plain(i.base), self.plain(i.stride)
            lanes = i.dtype.lanes * (stride.value if isinstance(stride, IntImm) else 1)
            return base, IntImm(base.dtype, max(lanes, 1))
        plain = self.plain(i.value if isinstance(i, ex.Broadcast) else i)
        return plain, IntImm(plain.dtype.element, 1)

    def _region(self, region: BufferRegion, is_write: bool) -> None:
        box = tuple((self.plain(r.min), self.plain(r.extent)) for r in region.region)
        nbytes: Count = size_of(region.buffer.dtype)
        for _, extent in box:
            nbytes = times(nbytes, extent.value if isinstance(extent, IntImm) else extent)
        self._add(region.buffer, box, is_write, nbytes)

    def _add(self, buffer: Buffer, box: Box, is_write: bool, nbytes: Count) -> None:
        while (view := self._views.get(buffer)) is not None:
            box = self._through(view, box)
            buffer = view.source.buffer
        access = Access(buffer, box, is_write, self.count(), nbytes, self._path)
        self.accesses.append(access)
        self._nest.parts.append(access)

    def _through(self, view: st.MatchBufferRegion, box: Box) -> Box:
        """Where elements of a view are in its source; all of the region, where the view has another rank."""
        source: tuple[Range, ...] = view.source.region
        lead = len(source) - len(box)
        if lead < 0:
            return tuple((self.plain(r.min), self.plain(r.extent)) for r in source)
        result: list[tuple[PrimExpr, PrimExpr]] = []
        for d, r in enumerate(source):
            low, extent = box[d - lead] if d >= lead else (IntImm(r.min.dtype, 0), IntImm(r.min.dtype, 1))
            result.append((simplify(make.add(self.plain(r.min), low)), extent))
        return tuple(result)


def size_of(dtype: Any) -> int:
    """Bytes of a value, whole ones."""
    return -(-dtype.bits * max(dtype.lanes, 1) // 8)


def extents_of(path: tuple[Loop, ...]) -> dict[Var, Bound]:
    """The values that the variables of loops take."""
    bounds: dict[Var, Bound] = {}
    for loop in path:
        low, extent = const_bound(loop.low, bounds), const_bound(loop.extent, bounds)
        last = const_bound(loop.low + loop.extent - 1, bounds).high
        bounds[loop.var] = Bound(low.low, low.high if extent.high is not None and extent.high < 1 else last)
    return bounds


def _loads(n: object) -> bool:
    return isinstance(n, (BufferLoad, ex.Call))


_POINTERS: Final = ("tir.tvm_access_ptr", "tir.address_of")


def _names_memory(n: object) -> bool:
    return isinstance(n, ex.Call) and isinstance(n.op, ex.Op) and n.op.name in _POINTERS


_STATEMENTS: Final[dict[type[st.Stmt], Any]] = {
    st.SeqStmt: Work._sequence,  # pyright: ignore[reportPrivateUsage]
    st.For: Work._for,  # pyright: ignore[reportPrivateUsage]
    st.BlockRealize: Work._realize,  # pyright: ignore[reportPrivateUsage]
    st.Block: Work._bare_block,  # pyright: ignore[reportPrivateUsage]
    st.IfThenElse: Work._if,  # pyright: ignore[reportPrivateUsage]
    st.LetStmt: Work._let,  # pyright: ignore[reportPrivateUsage]
    st.AttrStmt: Work._attr,  # pyright: ignore[reportPrivateUsage]
    st.While: Work._while,  # pyright: ignore[reportPrivateUsage]
    st.Evaluate: Work._evaluate,  # pyright: ignore[reportPrivateUsage]
    st.BufferStore: Work._store,  # pyright: ignore[reportPrivateUsage]
}

__all__ = ["Access", "Box", "Nest", "Statement", "Work", "extents_of", "size_of"]
