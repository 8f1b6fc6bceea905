"""Vectorised loops: one vector statement where all lanes are seen to be independent, else a serial loop."""

from __future__ import annotations

from typing import Any, Final

from tscript.ir import expr as ex
from tscript.ir.construct import add, const, mul
from tscript.ir.expr import Broadcast, BufferLoad, Call, Cast, IntImm, Op, PrimExpr, Ramp, Select, Var
from tscript.ir.function import PrimFunc
from tscript.ir.functor import Rewriter, children
from tscript.ir.stmt import Allocate, AllocateConst, BufferStore, For, ForKind, Stmt

MAX_LANES: Final = 256
_ELEMENTWISE: Final = frozenset(
    "tir." + n
    for n in (
        "sqrt rsqrt floor ceil trunc round nearbyint fabs isnan isinf isfinite popcount clz copysign "
        "bitwise_and bitwise_or bitwise_xor bitwise_not shift_left shift_right"
    ).split()
)
"""Intrinsics with vector instructions. Others are calls for each lane, which a loop does with less code."""


class _NotVector(Exception):
    """A part that has no vector form."""


def vectorize_loops(func: PrimFunc) -> PrimFunc:
    """Give every vectorised loop a vector form, or make it serial. Expects flat buffers."""
    no_alias = func.attrs.get("tir.noalias")
    return func.replace(body=_Vectorize(isinstance(no_alias, IntImm) and bool(no_alias.value), func).rewrite(func.body))


class _Vectorize(Rewriter):
    def __init__(self, no_alias: bool, func: PrimFunc) -> None:
        super().__init__()
        # Memory taken in the kernel overlaps nothing; that of parameters does not overlap if they promise so.
        self._local: dict[Var, None] = {}
        self._distinct: dict[Var, None] = {}
        if no_alias:
            self._distinct.update(dict.fromkeys(b.data for b in func.buffer_map.values()))

    def rewrite_Allocate(self, s: Allocate) -> Any:
        self._local[s.buffer_var] = self._distinct[s.buffer_var] = None
        return self.rewrite_children(s)

    def rewrite_AllocateConst(self, s: AllocateConst) -> Any:
        self._local[s.buffer_var] = self._distinct[s.buffer_var] = None
        return self.rewrite_children(s)

    def rewrite_For(self, loop: For) -> Any:
        if loop.kind != ForKind.VECTORIZED:
            return self.rewrite_children(loop)
        loop = self.rewrite_children(loop.replace(kind=ForKind.SERIAL))
        extent = loop.extent
        if not isinstance(extent, IntImm) or not 2 <= extent.value <= MAX_LANES:
            return loop
        store = loop.body
        if not isinstance(store, BufferStore):
            return loop
        try:
            return self._vector_store(loop, store, extent.value)
        except _NotVector:
            return loop

    def _vector_store(self, loop: For, store: BufferStore, lanes: int) -> Stmt:
        widen = _Widen(loop.loop_var, Ramp(loop.min, const(1, loop.loop_var.dtype), lanes))
        (index,) = store.indices
        target = widen.vector(index)
        if store.predicate is not None or store.buffer.dtype.lanes != 1 or not isinstance(target, Ramp):
            raise _NotVector
        if not isinstance(target.stride, IntImm) or target.stride.value == 0:
            raise _NotVector
        for load in _loads(store.value):
            self._require_independent(store, load)
        value = widen.vector(store.value)
        return BufferStore(store.buffer, value, (target,), span=store.span)

    def _require_independent(self, store: BufferStore, load: BufferLoad) -> None:
        if load.buffer.data is store.buffer.data:
            same = load.buffer.dtype is store.buffer.dtype and load.indices[0] is store.indices[0]
            if not same:
                raise _NotVector
        elif load.buffer.data not in self._distinct and store.buffer.data not in self._local:
            raise _NotVector
        elif store.buffer.data not in self._distinct and load.buffer.data not in self._local:
            # Two arrays of the caller, which may overlap.
            raise _NotVector


def _loads(e: PrimExpr) -> list[BufferLoad]:
    found: list[BufferLoad] = []
    stack: list[Any] = [e]
    while stack:
        node = stack.pop()
        if isinstance(node, BufferLoad):
            found.append(node)
        stack.extend(children(node))
    return found


class _Widen:
    """Expressions with a scalar variable replaced by a ramp."""

    def __init__(self, var: Var, ramp: Ramp) -> None:
        self._lanes = ramp.lanes
        self._done: dict[PrimExpr, PrimExpr] = {var: ramp}

    def vector(self, e: PrimExpr) -> PrimExpr:
        """`e` for all lanes. Raises _NotVector where that has no form."""
        found = self(e)
        return found if found.dtype.lanes == self._lanes else Broadcast(found, self._lanes)

    def __call__(self, root: PrimExpr) -> PrimExpr:
        stack = [(root, False)]
        while stack:
            e, ready = stack.pop()
            if e in self._done:
                continue
            if e.dtype.lanes != 1:
                raise _NotVector
            if ready:
                self._done[e] = self._widened(e)
            else:
                stack.append((e, True))
                stack.extend((c, False) for c in children(e) if isinstance(c, PrimExpr))
        return self._done[root]

    def _widened(self, e: PrimExpr) -> PrimExpr:
        if isinstance(e, BufferLoad):
            return self._load(e)
        parts = [self(c) for c in children(e) if isinstance(c, PrimExpr)]
        if all(p is c for p, c in zip(parts, children(e), strict=False)):
            return e
        if isinstance(e, Call) and not (isinstance(e.op, Op) and e.op.name in _ELEMENTWISE):
            raise _NotVector
        linear = self._linear(e, parts)
        if linear is not None:
            return linear
        wide = [p if p.dtype.lanes == self._lanes else Broadcast(p, self._lanes) for p in parts]
        if isinstance(e, Cast):
            return Cast(e.dtype.with_lanes(self._lanes), wide[0])
        if isinstance(e, Call):
            return Call(e.dtype.with_lanes(self._lanes), e.op, tuple(wide))
        if isinstance(e, (ex.BinaryExpr, ex.Not, Select)):
            return type(e)(*wide)
        raise _NotVector

    def _linear(self, e: PrimExpr, parts: list[PrimExpr]) -> PrimExpr | None:
        """Sums and products of a ramp and a scalar are ramps; index arithmetic does not overflow."""
        if isinstance(e, Cast):
            (p,) = parts
            if isinstance(p, Ramp) and p.dtype.is_int and e.dtype.is_int and p.dtype.bits <= e.dtype.bits:
                return Ramp(Cast(e.dtype, p.base), Cast(e.dtype, p.stride) if not isinstance(p.stride, IntImm)
                            else const(p.stride.value, e.dtype), p.lanes)  # fmt: skip
            return None
        if not isinstance(e, (ex.Add, ex.Sub, ex.Mul)) or not e.dtype.is_int:
            return None
        a, b = parts
        if isinstance(a, Ramp) and b.dtype.lanes == 1:
            if isinstance(e, ex.Mul):
                return Ramp(mul(a.base, b), mul(a.stride, b), a.lanes)
            return Ramp(type(e)(a.base, b) if isinstance(e, ex.Sub) else add(a.base, b), a.stride, a.lanes)
        if isinstance(b, Ramp) and a.dtype.lanes == 1:
            if isinstance(e, ex.Mul):
                return Ramp(mul(a, b.base), mul(a, b.stride), b.lanes)
            if isinstance(e, ex.Add):
                return Ramp(add(a, b.base), b.stride, b.lanes)
        return None

    def _load(self, e: BufferLoad) -> PrimExpr:
        if e.predicate is not None or e.buffer.dtype.lanes != 1:
            raise _NotVector
        (index,) = e.indices
        wide = self(index)
        return e if wide is index else BufferLoad(e.buffer, (wide,))
