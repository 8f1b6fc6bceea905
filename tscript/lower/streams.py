"""Stores of long vectorised loops that are meant to bypass the caches.

Such stores begin at the start of a cache line, which arrays of others (large ones of NumPy, for one) do not. So the
loop is cut where it runs: the iterations before the first line, whole lines, and those that are left.
"""

from __future__ import annotations

from typing import Final

from tscript.ir.construct import add, call_intrin, cast, const, sub
from tscript.ir.expr import BufferLoad, IntImm, PrimExpr
from tscript.ir.functor import substitute
from tscript.ir.stmt import BufferStore, Evaluate, For, Stmt
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


__all__ = ["LINE", "NONTEMPORAL", "PREFETCH", "before_line", "prefetches", "streamed_store"]
