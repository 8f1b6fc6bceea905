"""What evaluating an expression may do: read memory, have effects, fail."""

from __future__ import annotations

from typing import Final

from tscript.ir.expr import (
    Broadcast,
    BufferLoad,
    Call,
    Div,
    FloorDiv,
    FloorMod,
    IntImm,
    Mod,
    Op,
    PrimExpr,
)  # fmt: skip
from tscript.ir.functor import children

DIVISIONS: Final = (Div, Mod, FloorDiv, FloorMod)


class Doing:
    """What an expression does besides having a value: a sum of these. Plain integers, as there are very many."""

    NOTHING: Final = 0
    READS: Final = 1
    EFFECT: Final = 2
    FAILS: Final = 4


def constant_divisor(e: PrimExpr) -> int | None:
    """The value of a divisor that is the same constant in every lane."""
    if isinstance(e, Broadcast):
        e = e.value
    return e.value if isinstance(e, IntImm) else None


class Classifier:
    """Answers for expressions, remembering what it found."""

    def __init__(self) -> None:
        self._found: dict[PrimExpr, int] = {}

    def __call__(self, root: PrimExpr) -> int:
        """What `root` and all below it do."""
        found = self._found
        if root in found:
            return found[root]
        stack: list[tuple[PrimExpr, bool]] = [(root, False)]
        while stack:
            e, ready = stack.pop()
            if e in found:
                continue
            below = [c for c in children(e) if isinstance(c, PrimExpr)]
            if ready:
                doing = _own(e)
                for c in below:
                    doing |= found[c]
                found[e] = doing
            else:
                stack.append((e, True))
                stack.extend((c, False) for c in below)
        return found[root]


def _own(e: PrimExpr) -> int:
    if isinstance(e, BufferLoad):
        return Doing.READS
    if isinstance(e, Call):
        if not isinstance(e.op, Op):
            return Doing.EFFECT
        if e.op.name == "tir.address_of":
            return Doing.NOTHING
        if e.op.name in ("tir.call_pure_extern", "tir.call_llvm_pure_intrin"):
            # Pure, but what it does with an argument that a condition was to keep away is unknown.
            return Doing.READS
        return {"pure": Doing.NOTHING, "read": Doing.READS}.get(e.op.effect, Doing.EFFECT)
    if isinstance(e, DIVISIONS) and not e.dtype.is_float and not e.dtype.is_bool:
        return Doing.NOTHING if constant_divisor(e.b) else Doing.FAILS
    return Doing.NOTHING
