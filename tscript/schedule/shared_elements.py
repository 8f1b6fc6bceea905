"""Reductions that begin an element anew in several instances, which only the order of the program gives a result."""

from __future__ import annotations

from itertools import product
from typing import Final
from weakref import WeakKeyDictionary

from tscript.arith import simplify
from tscript.ir.construct import is_const_int
from tscript.ir.expr import IntImm, IterVar, PrimExpr, Var
from tscript.ir.functor import substitute
from tscript.ir.occurrences import reads_memory
from tscript.ir.stmt import Block, BufferRegion
from tscript.schedule.errors import literal

_TRIED: Final = 64


def shared_element(block: Block) -> str:
    """Two instances of the spatial axes of a reduction that write their init to the same element, in words.

    The later one loses what the earlier one has summed up. The text is empty where none are found: as a rule each
    spatial axis is a subscript by itself, and nothing is tried.

    >>> from tscript.script import tir as T
    >>> @T.prim_func
    ... def pairs(A: T.Buffer((8, 4), "float32"), C: T.Buffer((4,), "float32")):
    ...     for i, k in T.grid(8, 4):
    ...         with T.block("C"):
    ...             v, r = T.axis.remap("SR", [i, k])
    ...             with T.init():
    ...                 C[v // 2] = T.float32(0)
    ...             C[v // 2] = C[v // 2] + A[v, r]
    >>> shared_element(pairs.body.block.body.body.body.block)
    'its instances (v=0) and (v=1) both begin C[0] anew'
    """
    found = _KNOWN.get(block)
    if found is None:
        found = _KNOWN[block] = next(filter(None, (_shared_in(block, w) for w in block.writes)), "")
    return found


_KNOWN: WeakKeyDictionary[Block, str] = WeakKeyDictionary()


def _shared_in(block: Block, written: BufferRegion) -> str:
    starts = [r.min for r in written.region]
    named = {e: None for e in starts if isinstance(e, Var)}
    free = [a for a in block.iter_vars if a.iter_type == IterVar.DataPar and a.var not in named and not _is_unit(a)]
    if not free or any(reads_memory(e) for e in starts):
        return ""
    count = max(2, int(_TRIED ** (1 / len(free))))
    seen: dict[tuple[PrimExpr, ...], str] = {}
    for values in product(*(_values(a, count) for a in free)):
        at: dict[Var, PrimExpr] = {a.var: IntImm(a.var.dtype, v) for a, v in zip(free, values, strict=True)}
        place = tuple(simplify(substitute(e, at)) for e in starts)
        here = ", ".join(f"{a.var.name}={v}" for a, v in zip(free, values, strict=True))
        other = seen.setdefault(place, here)
        if other is not here:
            element = literal(f"{written.buffer.name}[{', '.join(map(str, place))}]")
            return f"its instances ({other}) and ({here}) both begin {element} anew"
    return ""


def _is_unit(axis: IterVar) -> bool:
    return axis.dom is None or is_const_int(axis.dom.extent, 1)


def _values(axis: IterVar, count: int) -> list[int]:
    """Values that an axis takes; of one whose extent is not known, those that it takes for some size."""
    assert axis.dom is not None
    low, extent = axis.dom.min, axis.dom.extent
    if not isinstance(low, IntImm):
        return []
    return [low.value + k for k in range(min(count, extent.value) if isinstance(extent, IntImm) else count)]


__all__ = ["shared_element"]
