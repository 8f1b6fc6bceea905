"""Stores of long vectorised loops that are meant to bypass the caches.

Such stores begin at the start of a cache line, which arrays of others (large ones of NumPy, for one) do not. So the
loop is cut where it runs: the iterations before the first line, whole lines, and those that are left.
"""

from __future__ import annotations

from typing import Any, Final

from tscript.ir.buffer import Buffer
from tscript.ir.construct import add, call_intrin, cast, compare, const, sub
from tscript.ir.expr import EQ, BufferLoad, IntImm, PrimExpr, Ramp
from tscript.ir.function import PrimFunc
from tscript.ir.functor import Rewriter, substitute
from tscript.ir.stmt import AttrStmt, BufferStore, Evaluate, For, IfThenElse, Stmt
from tscript.lower.copies import Copy
from tscript.lower.memories import Accesses, index_form, is_invariant

NONTEMPORAL: Final = "pragma_nontemporal"
"""The annotation of a vectorised loop whose output is not read again soon; also the attribute of the statement that
makes its whole lines: stores of vectors to the memory named are aligned to as many bytes as the value says, and
bypass the caches."""
PREFETCH: Final = "pragma_prefetch_ahead"
"""The annotation of a vectorised loop which says how many elements ahead of what it reads will be read next."""
LINE: Final = 64
"""Bytes of a cache line, and of the longest vectors."""


def streamed_store(loop: For) -> BufferStore | None:
    """The store of a loop with the annotation that goes on by one element in each iteration; None without one."""
    flag = loop.annotations.get(NONTEMPORAL)
    if not (flag.value if isinstance(flag, IntImm) else flag):
        return None
    inside = Accesses()
    inside.statement(loop.body)
    if inside.is_opaque:
        return None
    changing = {**inside.defined, loop.loop_var: None}
    for a in inside.found:
        buffer, others = a.node.buffer, [o for o in inside.found if o.data is a.data and o is not a]
        if not a.is_store or not a.certain or a.loops or others or a.data in inside.defined:
            continue
        if (
            buffer.dtype.lanes != 1
            or LINE % buffer.dtype.bytes
            or buffer.scope() == "local"
            or len(a.node.indices) != 1
        ):
            continue
        terms, _ = index_form(a.node.indices[0])
        if terms.get(loop.loop_var) == 1 and all(t is loop.loop_var or is_invariant(t, changing) for t in terms):
            return a.node
    return None


def before_line(store: BufferStore, loop: For) -> PrimExpr:
    """How many iterations of `loop` it takes `store` to come to the start of a cache line, from 0 on."""
    dtype = store.buffer.dtype
    first = BufferLoad(store.buffer, (substitute(store.indices[0], {loop.loop_var: loop.min}),))
    address = call_intrin("int64", "tir.reinterpret", call_intrin("handle", "tir.address_of", first))
    rest = call_intrin("int64", "tir.bitwise_and", sub(const(0, "int64"), address), const(LINE - 1, "int64"))
    # Elements lie at multiples of their size.
    return cast(call_intrin("int64", "tir.shift_right", rest, const(dtype.bytes.bit_length() - 1, "int64")), "int32")


def prefetches(loop: For, start: PrimExpr, lanes: int) -> list[Stmt]:
    """Requests for what is read `pragma_prefetch_ahead` elements after what `lanes` iterations from `start` on read.

    Only for memory that a loop around moves on, and by which this one goes element by element. What lies past the end
    of an array is not touched by a request.
    """
    ahead = loop.annotations.get(PREFETCH)
    distance = ahead.value if isinstance(ahead, IntImm) else ahead
    inside = Accesses()
    inside.statement(loop.body)
    if not isinstance(distance, int) or inside.is_opaque:
        return []
    changing = {**inside.defined, loop.loop_var: None}
    found: dict[PrimExpr, Stmt] = {}
    for a in inside.found:
        buffer = a.node.buffer
        if a.is_store or buffer.dtype.lanes != 1 or a.data in inside.defined or buffer.scope() == "local":
            continue
        terms, _ = index_form(a.node.indices[0])
        others = [t for t in terms if t is not loop.loop_var]
        if terms.get(loop.loop_var) != 1 or not others or not all(is_invariant(t, changing) for t in others):
            continue
        for n in range(0, lanes, max(1, LINE // buffer.dtype.bytes)):
            place = add(substitute(a.node.indices[0], {loop.loop_var: start}), n + distance)
            address = call_intrin("handle", "tir.address_of", BufferLoad(buffer, (place,)))
            request = call_intrin("void", "tir.call_llvm_intrin", "llvm.prefetch", address, 0, 3, 1)
            found[address] = Evaluate(request)
    return list(found.values())


def stream_tiles(func: PrimFunc) -> PrimFunc:
    """Let tiles bypass the caches where `pragma_nontemporal` is on a loop that is not vectorised, and so around them.

    Where all that the loop stores to an array are vectors of whole lines, if the array begins at a line, it gets a
    version with such stores; which one runs is decided in each iteration. Expects no vectorised loops.
    """
    return func.replace(body=_Streams().rewrite(func.body))


class _Streams(Rewriter):
    memoize = False

    def rewrite_For(self, loop: For) -> Any:
        flag = loop.annotations.get(NONTEMPORAL)
        stored = _whole_lines(loop.body) if (flag.value if isinstance(flag, IntImm) else flag) else None
        if stored is None:
            return self.rewrite_children(loop)
        start = BufferLoad(stored, (const(0, stored.shape[0].dtype),))
        address = call_intrin("int64", "tir.reinterpret", call_intrin("handle", "tir.address_of", start))
        begins = compare(EQ, call_intrin("int64", "tir.bitwise_and", address, const(LINE - 1, "int64")), 0)
        quick = AttrStmt(stored.data, NONTEMPORAL, const(LINE, "int32"), loop.body)
        return loop.replace(body=IfThenElse(begins, quick, Copy({}, fresh=True).rewrite(loop.body)))


def _whole_lines(body: Stmt) -> Buffer | None:
    """The one array that `body` stores to, apart from its own memory, if each store is of whole lines."""
    inside = Accesses()
    inside.statement(body)
    stores = [a.node for a in inside.found if a.is_store and a.data not in inside.defined]
    if not stores or any(s.buffer is not stores[0].buffer or len(s.indices) != 1 for s in stores):
        return None
    buffer = stores[0].buffer
    line = LINE // buffer.dtype.bytes
    if buffer.dtype.lanes != 1 or buffer.scope() == "local" or not isinstance(stores[0], BufferStore):
        return None
    for s in stores:
        index = s.indices[0]
        if not isinstance(index, Ramp) or not isinstance(index.stride, IntImm) or index.stride.value != 1:
            return None
        terms, constant = index_form(index.base)
        if s.predicate is not None or any(n % line for n in (index.lanes, constant, *terms.values())):
            return None
    return buffer


__all__ = ["LINE", "NONTEMPORAL", "PREFETCH", "before_line", "prefetches", "stream_tiles", "streamed_store"]
