"""Arrays that may overlap, as far as a function says: when that can be decided where it is called.

A function without `tir.noalias` promises nothing of its arrays, so that nothing of them stays in registers while
another is written. Arrays seldom do overlap. Where their addresses and sizes tell, a second version is compiled, in
which they do not, and the call chooses.
"""

from __future__ import annotations

from tscript.ir.buffer import Buffer
from tscript.ir.expr import Call, IntImm, Let, Op
from tscript.ir.function import PrimFunc
from tscript.ir.occurrences import any_below
from tscript.ir.stmt import BufferStore, For, LetStmt


def may_meet(func: PrimFunc) -> list[tuple[Buffer, Buffer]]:
    """Pairs of arrays of the lowered `func` that must not overlap for it to run as with `tir.noalias`.

    Empty where that gains nothing, or is not decided by comparing addresses: each array has to be compact, and each
    access one through its buffer.
    """
    flag = func.attrs.get("tir.noalias")
    if isinstance(flag, IntImm) and flag.value:
        return []
    arrays = list(func.buffer_map.values())
    if len(arrays) < 2 or any(v.dtype.is_handle and v not in func.buffer_map for v in func.params):
        return []
    if not all(map(_is_compact, arrays)) or any_below(func.body, _goes_round):
        return []
    if not any_below(func.body, lambda n: isinstance(n, For)):
        return []
    written = [b for b in arrays if any_below(func.body, lambda n, b=b: _stores_to(n, b))]
    return [(a, b) for n, a in enumerate(arrays) for b in arrays[n + 1 :] if a in written or b in written]


def _is_compact(buffer: Buffer) -> bool:
    return not buffer.strides and isinstance(buffer.elem_offset, IntImm) and buffer.elem_offset.value == 0


def _stores_to(node: object, buffer: Buffer) -> bool:
    return isinstance(node, BufferStore) and node.buffer.data is buffer.data


def _goes_round(node: object) -> bool:
    """Whether memory may be reached by another way than a buffer of the function's."""
    if isinstance(node, (Let, LetStmt)):
        return node.var.dtype.is_handle
    if isinstance(node, Call):
        # A read by a call is one through a pointer.
        return not isinstance(node.op, Op) or (node.op.effect != "pure" and node.op.name != "tir.ret")
    return False
