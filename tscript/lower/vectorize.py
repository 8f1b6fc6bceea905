"""Vectorised loops: vector statements where all lanes are seen to be independent, else a serial loop.

The variable of the loop becomes a ramp. Conditions that differ between lanes become masks of loads and stores;
memory taken in the loop gets room for every lane, interleaved. Long loops become several vectors of a few
registers each.
"""

from __future__ import annotations

import math
from typing import Any, Final

from tscript.arith.const_bound import Bound, const_bound
from tscript.ir import expr as ex
from tscript.ir.construct import add, cast, compare, const, floordiv, floormod, mul, not_, sub
from tscript.ir.dtype import DataType, int_range
from tscript.ir.expr import Broadcast, BufferLoad, IntImm, PrimExpr, Ramp, Select, Var
from tscript.ir.function import PrimFunc
from tscript.ir.functor import Rewriter, children
from tscript.ir.occurrences import reads_memory
from tscript.ir.stmt import (
    Allocate,
    AttrStmt,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    Prefetch,
    SeqStmt,
    Stmt,
    seq,
)  # fmt: skip
from tscript.lower.copies import Copy
from tscript.lower.guards import decide, range_of
from tscript.lower.lane_dependence import NotVector, require_independent
from tscript.lower.memories import Accesses, Memories
from tscript.lower.streams import LINE, NONTEMPORAL, before_line, prefetches, streamed_store
from tscript.lower.widen import ALL, Mask, Widen, any_lane, combined

MAX_BYTES: Final = 256
"""A vector takes at most so many bytes, four of the longest registers there are: enough to keep them busy."""
MAX_COPIES: Final = 8
"""A loop of more vectors than this stays a loop, over vectors."""


def vectorize_loops(func: PrimFunc) -> PrimFunc:
    """Give every vectorised loop a vector form, or make it serial. Expects flat buffers.

    What a loop computes does not change: where lanes depend on each other, or something has no vector form, the
    loop is left to run its iterations in turn. Sums of floats over the lanes are such a case; minima, maxima and
    sums of integers, whose order does not matter, are combined at the end of each vector.
    """
    return func.replace(body=_Vectorize(Memories(func)).rewrite(func.body))


class _Vectorize(Rewriter):
    # What a condition is depends on the ranges of the variables around it.
    memoize = False

    def __init__(self, memories: Memories) -> None:
        super().__init__()
        self._memories = memories
        self._bounds: dict[Var, Bound] = {}

    def rewrite_LetStmt(self, let: LetStmt) -> Any:
        if let.var.dtype.is_integer and let.var.dtype.lanes == 1:
            self._bounds[let.var] = const_bound(let.value, self._bounds)
        return self.rewrite_children(let)

    def rewrite_For(self, loop: For) -> Any:
        self._bounds[loop.loop_var] = range_of(loop, self._bounds)
        if loop.kind != ForKind.VECTORIZED:
            return self.rewrite_children(loop)
        serial: For = self.rewrite_children(loop.replace(kind=ForKind.SERIAL))
        if not isinstance(loop.extent, IntImm) or loop.extent.value < 2:
            return serial
        try:
            return self._vectors(serial, loop.extent.value)
        except NotVector:
            return serial

    def _vectors(self, loop: For, extent: int) -> Stmt:
        lanes = min(_power_below(extent), _most_lanes(loop.body))
        total = _Total.of(loop)
        require_independent(loop, lanes, self._memories, {} if total is None else total.accesses)
        streamed = streamed_store(loop)
        if streamed is not None and extent >= 4 * lanes:
            return self._streamed(loop, extent, lanes, streamed)
        chunks, rest = divmod(extent, lanes)
        parts: list[Stmt] = []
        var = loop.loop_var
        if chunks > MAX_COPIES:
            outer = var.copy_with()
            start = add(loop.min, mul(outer, const(lanes, var.dtype)))
            body = seq(*prefetches(loop, start, lanes), self._vector(loop, start, lanes, total))
            parts.append(For(outer, const(0, var.dtype), const(chunks, var.dtype), ForKind.SERIAL, body))
        else:
            parts += [self._vector(loop, _after(loop, i * lanes), lanes, total, i > 0) for i in range(chunks)]
        if rest:
            parts.append(self._vector(loop, _after(loop, chunks * lanes), rest, total, chunks > 0))
        return seq(*parts)

    def _vector(self, loop: For, start: PrimExpr, lanes: int, total: _Total | None, fresh: bool = False) -> Stmt:
        """The iterations from `start` on."""
        body = loop.body
        if fresh:
            previous, loop = loop, _fresh(loop)
            self._bounds[loop.loop_var] = self._bounds[previous.loop_var]
            body = loop.body
            total = None if total is None else _Total.of(loop)
        if lanes == 1:
            return Copy({loop.loop_var: start}).rewrite(body)
        count, lanes = lanes, _power_above(lanes)
        low = const_bound(start, self._bounds)
        inside = Bound(low.low, None if low.high is None else low.high + lanes - 1)
        return self._lanes(loop, start, lanes, _first(const(count), lanes), inside, total)

    def _lanes(
        self, loop: For, start: PrimExpr, lanes: int, mask: Mask, inside: Bound, total: _Total | None = None
    ) -> Stmt:
        """Those of `lanes` iterations from `start` on that `mask` has; `inside` bounds the variable of `loop`."""
        ramp = Ramp(start, const(1, loop.loop_var.dtype), lanes)
        bounds = {**self._bounds, loop.loop_var: inside}
        return _Lanes(loop.loop_var, ramp, bounds, total).statement(loop.body, mask)

    def _streamed(self, loop: For, extent: int, lanes: int, store: BufferStore) -> Stmt:
        """A loop whose `store` bypasses the caches: vectors of whole lines, and what is before and after them."""
        own, data = loop.loop_var.dtype, store.buffer.data
        line = LINE // store.buffer.dtype.bytes
        inside = self._bounds[loop.loop_var]
        head, outer = Var("head", "int32"), loop.loop_var.copy_with()
        start = cast(add(loop.min, cast(head, own)), own)
        left = sub(const(extent, own), cast(head, own))
        count, rest = floordiv(left, const(lanes, own)), cast(floormod(left, const(lanes, own)), "int32")

        def some(loop: For, start: PrimExpr, lanes: int, number: PrimExpr) -> Stmt:
            copy = _fresh(loop)
            body = self._lanes(copy, start, lanes, _first(number, lanes), inside)
            return IfThenElse(compare(ex.GT, number, const(0, "int32")), body)

        here = add(start, mul(outer, const(lanes, own)))
        body = seq(*prefetches(loop, here, lanes), self._lanes(loop, here, lanes, ALL, inside))
        whole = AttrStmt(data, NONTEMPORAL, const(LINE, "int32"), body)
        parts = [
            some(loop, loop.min, line, head),
            For(outer, const(0, own), count, ForKind.SERIAL, whole),
            some(loop, add(start, mul(count, const(lanes, own))), lanes, rest),
        ]
        return LetStmt(head, before_line(store, loop), seq(*parts))


def _power_below(n: int) -> int:
    return 1 << (n.bit_length() - 1)


def _power_above(n: int) -> int:
    return 1 << (n - 1).bit_length()


def _fresh(loop: For) -> For:
    """`loop` with variables of its own."""
    var = loop.loop_var.copy_with()
    return loop.replace(loop_var=var, body=Copy({loop.loop_var: var}, fresh=True).rewrite(loop.body))


def _first(count: PrimExpr, lanes: int) -> Mask:
    """The first `count`, at least one, of `lanes`: vectors have lengths that machines have."""
    if isinstance(count, IntImm) and count.value == lanes:
        return ALL
    return Mask(ex.LT(Ramp(const(0), const(1), lanes), Broadcast(count, lanes)))


def _after(loop: For, count: int) -> PrimExpr:
    """The value of the loop's variable after `count` iterations."""
    return cast(add(loop.min, count), loop.loop_var.dtype)


def _most_lanes(body: Stmt) -> int:
    """How many lanes of the widest type that `body` loads or stores make a vector."""
    found = Accesses()
    found.statement(body)
    widest = max((a.node.buffer.dtype.element.bytes for a in found.found), default=4)
    return MAX_BYTES // widest


class _Total:
    """A statement `x[i] = op(x[i], value)`, with one `x[i]` for all lanes and an `op` whose order does not matter."""

    def __init__(self, store: BufferStore, load: BufferLoad, op: type[ex.ArithExpr], value: PrimExpr) -> None:
        self.store = store
        self.op = op
        self.value = value
        self.load = load
        self.accesses: dict[Any, None] = {store: None, load: None}

    @classmethod
    def of(cls, loop: For) -> _Total | None:
        """The total that is all that `loop` computes, if it is one."""
        body = loop.body
        while isinstance(body, IfThenElse) and body.else_case is None:
            body = body.then_case
        if not isinstance(body, BufferStore) or not isinstance(body.value, (ex.Add, ex.Mul, ex.Min, ex.Max)):
            return None
        e, dtype = body.value, body.buffer.dtype
        if dtype.lanes != 1 or (dtype.is_float and not isinstance(e, (ex.Min, ex.Max))):
            return None
        for load, value in ((e.a, e.b), (e.b, e.a)):
            if isinstance(load, BufferLoad) and load.buffer is body.buffer and load.indices == body.indices:
                here = load.predicate is None and body.predicate is None and not _mentions(load.indices, loop.loop_var)
                return cls(body, load, type(e), value) if here and not _mentions((value,), load) else None
        return None

    def neutral(self) -> PrimExpr:
        """What changes no total."""
        dtype: DataType = self.store.buffer.dtype
        if self.op in (ex.Add, ex.Mul):
            return const(int(self.op is ex.Mul), dtype)
        if dtype.is_float:
            return const(float("inf") if self.op is ex.Min else float("-inf"), dtype)
        low, high = int_range(dtype)
        return const(high if self.op is ex.Min else low, dtype)


def _mentions(parts: Any, wanted: PrimExpr) -> bool:
    seen: set[Any] = set()
    stack: list[Any] = list(parts)
    while stack:
        e = stack.pop()
        if e is wanted:
            return True
        if e not in seen:
            seen.add(e)
            stack.extend(children(e))
    return False


class _Lanes:
    """Statements for all lanes at once."""

    def __init__(self, var: Var, ramp: Ramp, bounds: dict[Var, Bound], total: _Total | None) -> None:
        self._private: dict[Var, None] = {}
        self._widen = Widen(var, ramp, self._private)
        self._lanes = ramp.lanes
        self._var, self._start = var, ramp.base
        self._bounds = bounds
        self._total = total

    def statement(self, s: Stmt, mask: Mask) -> Stmt:
        """`s` for the lanes of `mask`. Raises NotVector where it has no such form."""
        match s:
            case BufferStore():
                return self._store(s, mask)
            case SeqStmt():
                return seq(*(self.statement(part, mask) for part in s.seq))
            case IfThenElse():
                return self._if(s, mask)
            case LetStmt():
                return self._let(s, mask)
            case For():
                return self._for(s, mask)
            case Allocate():
                return self._allocate(s, mask)
            case DeclBuffer():
                return DeclBuffer(self._widen.buffer(s.buffer), self.statement(s.body, mask))
            case AttrStmt():
                return s.replace(body=self.statement(s.body, mask))
            case Evaluate(value=IntImm()):
                return s
            case Prefetch():
                # The first lane asks: the others mostly lie in the same line.
                return Copy({self._var: self._start}).rewrite(s)
            case _:
                raise NotVector

    def _store(self, s: BufferStore, mask: Mask) -> Stmt:
        if self._total is not None and s is self._total.store:
            return self._whole_total(self._total, mask)
        index = self._widen.index(s, mask)
        if index.dtype.lanes == 1:
            value = self._widen(s.value, mask)
            if value.dtype.lanes != 1 or not mask.some:
                # Every lane writes its own value to one place: the last one stays.
                raise NotVector
            return s.replace(value=value, indices=(index,))
        return BufferStore(
            self._widen.buffer(s.buffer), self._widen.vector(s.value, mask), (index,), mask.bits, span=s.span
        )

    def _whole_total(self, total: _Total, mask: Mask) -> Stmt:
        store = total.store
        index = self._widen(store.indices[0], mask)
        if index.dtype.lanes != 1 or not mask.some:
            raise NotVector
        value = self._widen.vector(total.value, mask)
        if mask.bits is not None:
            value = Select(mask.bits, value, Broadcast(total.neutral(), self._lanes))
        load = BufferLoad(store.buffer, (index,))
        return BufferStore(store.buffer, total.op(load, combined(total.op, value)), (index,), span=store.span)

    def _if(self, s: IfThenElse, mask: Mask) -> Stmt:
        known = decide(s.condition, self._bounds)
        if known is not None and not reads_memory(s.condition):
            taken = s.then_case if known else s.else_case
            return seq() if taken is None else self.statement(taken, mask)
        condition = self._widen(s.condition, mask)
        if condition.dtype.lanes == 1:
            then = self.statement(s.then_case, mask)
            otherwise = None if s.else_case is None else self.statement(s.else_case, mask)
            return IfThenElse(condition, then, otherwise, span=s.span)
        if s.else_case is None or not reads_memory(s.condition):
            parts = [self._where(condition, s.then_case, mask)]
            if s.else_case is not None:
                parts.append(self._where(not_(condition), s.else_case, mask))
            return seq(*parts)
        # The first branch may change what the condition reads.
        name = Var("lanes", str(condition.dtype))
        parts = [self._where(name, s.then_case, mask), self._where(not_(name), s.else_case, mask)]
        return LetStmt(name, condition, seq(*parts))

    def _where(self, condition: PrimExpr, body: Stmt, mask: Mask) -> Stmt:
        """`body` in the lanes in which `condition` holds."""
        inner = mask.also(condition)
        some = any_lane(inner.bits) if inner.bits is not None else None
        if some is None:
            return self.statement(body, inner)
        if isinstance(some, IntImm):
            return self.statement(body, Mask(inner.bits, True)) if some.value else seq()
        return IfThenElse(some, self.statement(body, Mask(inner.bits, True)))

    def _let(self, s: LetStmt, mask: Mask) -> Stmt:
        if s.var.dtype.is_handle:
            raise NotVector
        value = self._widen(s.value, mask)
        var = s.var
        if value.dtype.lanes != 1:
            var = self._widen.values[s.var] = s.var.copy_with(dtype=str(value.dtype))
        return LetStmt(var, value, self.statement(s.body, mask), span=s.span)

    def _for(self, s: For, mask: Mask) -> Stmt:
        start, extent = self._widen(s.min, mask), self._widen(s.extent, mask)
        if start.dtype.lanes != 1 or extent.dtype.lanes != 1 or s.kind not in (ForKind.SERIAL, ForKind.UNROLLED):
            raise NotVector
        self._bounds[s.loop_var] = range_of(s, self._bounds)
        return s.replace(min=start, extent=extent, body=self.statement(s.body, mask))

    def _allocate(self, s: Allocate, mask: Mask) -> Stmt:
        is_plain = isinstance(s.condition, IntImm) and s.condition.value and s.dtype.lanes == 1
        if not is_plain or not all(isinstance(e, IntImm) for e in s.extents):
            raise NotVector
        self._private[s.buffer_var] = None
        size = math.prod(e.value for e in s.extents if isinstance(e, IntImm))
        return s.replace(extents=(const(size * self._lanes),), body=self.statement(s.body, mask))
