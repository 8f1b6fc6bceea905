"""Realized regions become memory of their own, whose first element is the lower end of the region."""

from __future__ import annotations

from typing import Any

from tscript.ir.buffer import Buffer
from tscript.ir.construct import add, const, sub
from tscript.ir.expr import Broadcast, BufferLoad, IntImm, PrimExpr, Ramp, Var
from tscript.ir.function import PrimFunc
from tscript.ir.functor import Rewriter
from tscript.ir.stmt import (
    Allocate,
    AllocateConst,
    AttrStmt,
    BufferRealize,
    BufferStore,
    DeclBuffer,
    Evaluate,
    LetStmt,
    Prefetch,
    Stmt,
)


def lower_realize(func: PrimFunc) -> PrimFunc:
    """Allocate what `T.realize` makes; a buffer on memory that exists already stays there."""
    known = [*func.params, *(b.data for b in func.buffer_map.values())]
    return func.replace(body=_LowerRealize(known).rewrite(func.body))


class _LowerRealize(Rewriter):
    # What an access becomes depends on the region around it.
    memoize = False

    def __init__(self, known: list[Var]) -> None:
        super().__init__()
        self._known = dict.fromkeys(known)
        self._regions: dict[Buffer, tuple[Buffer, tuple[PrimExpr, ...]]] = {}

    def rewrite_AttrStmt(self, s: AttrStmt) -> Any:
        # It says of the region where its memory lies, as the type of the buffer's pointer does.
        return self.rewrite(s.body) if s.attr_key == "realize_scope" else self.rewrite_children(s)

    def rewrite_BufferRealize(self, s: BufferRealize) -> Any:
        if s.buffer.data in self._known:
            return self.rewrite(s.body)
        lets: list[tuple[Var, PrimExpr]] = []
        lows = tuple(self._held(r.min, f"{s.buffer.name}_min{d}", lets) for d, r in enumerate(s.bounds))
        extents = tuple(self._held(r.extent, f"{s.buffer.name}_extent{d}", lets) for d, r in enumerate(s.bounds))
        made = s.buffer.replace(shape=extents, strides=(), elem_offset=const(0), axis_separators=())
        self._regions[s.buffer] = made, lows
        body: Stmt = DeclBuffer(made, self._inside(s.buffer.data, s.body))
        del self._regions[s.buffer]
        result: Stmt = Allocate(made.data, made.dtype, extents or (const(1),), const(True), body, span=s.span)
        for var, value in reversed(lets):
            result = LetStmt(var, value, result)
        return result

    def _held(self, e: PrimExpr, name: str, lets: list[tuple[Var, PrimExpr]]) -> PrimExpr:
        """`e` as it is where the region begins, whatever is stored later."""
        e = self.rewrite(e)
        if isinstance(e, (IntImm, Var)):
            return e
        lets.append((Var(name, e.dtype), e))
        return lets[-1][0]

    def _inside(self, pointer: Var, body: Stmt) -> Stmt:
        if pointer in self._known:
            return self.rewrite(body)
        self._known[pointer] = None
        result = self.rewrite(body)
        del self._known[pointer]
        return result

    def _memory(self, s: Any) -> Any:
        return s.replace(extents=tuple(self.rewrite(e) for e in s.extents), body=self._inside(s.buffer_var, s.body))

    def rewrite_Allocate(self, s: Allocate) -> Any:
        return self._memory(s.replace(condition=self.rewrite(s.condition)))

    def rewrite_AllocateConst(self, s: AllocateConst) -> Any:
        return self._memory(s)

    def rewrite_LetStmt(self, s: LetStmt) -> Any:
        if not s.var.dtype.is_handle:
            return self.rewrite_children(s)
        return s.replace(value=self.rewrite(s.value), body=self._inside(s.var, s.body))

    def rewrite_Prefetch(self, s: Prefetch) -> Any:
        # A hint that nothing follows on a CPU; its bounds are those of the region that is no more.
        return Evaluate(const(0), span=s.span) if s.buffer in self._regions else self.rewrite_children(s)

    def rewrite_BufferLoad(self, load: BufferLoad) -> Any:
        predicate = None if load.predicate is None else self.rewrite(load.predicate)
        buffer, indices = self._place(load)
        return BufferLoad(buffer, indices, predicate)

    def rewrite_BufferStore(self, store: BufferStore) -> Any:
        predicate = None if store.predicate is None else self.rewrite(store.predicate)
        buffer, indices = self._place(store)
        return store.replace(buffer=buffer, value=self.rewrite(store.value), indices=indices, predicate=predicate)

    def _place(self, access: Any) -> tuple[Buffer, tuple[PrimExpr, ...]]:
        indices = tuple(self.rewrite(i) for i in access.indices)
        region = self._regions.get(access.buffer)
        if region is None:
            return self.map_buffer(access.buffer), indices
        made, lows = region
        return made, tuple(_from(low, i) for low, i in zip(lows, indices, strict=True))


def _from(low: PrimExpr, index: PrimExpr) -> PrimExpr:
    """The distance of an index from the lower end."""
    if isinstance(index, Ramp):
        base = sub(index.base, low)
        return Ramp(base, add(index.stride, const(0, base.dtype)), index.lanes)
    if index.dtype.lanes > 1:
        low = Broadcast(low, index.dtype.lanes)
    return sub(index, low)
