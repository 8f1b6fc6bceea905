"""Prefetches of regions become one for each cache line.

Before: any bounds. After: each prefetch is of one element. Its place need not exist: asking for it is harmless.
"""

from __future__ import annotations

from typing import Any

from tscript.ir.construct import add, const, floordiv, mul
from tscript.ir.expr import BufferLoad, Call, Div, FloorDiv, FloorMod, IntImm, Mod, PrimExpr, Range, Var
from tscript.ir.function import PrimFunc
from tscript.ir.functor import Rewriter
from tscript.ir.occurrences import any_below
from tscript.ir.stmt import Evaluate, For, ForKind, Prefetch, Stmt
from tscript.lower.streams import LINE


def lower_prefetches(func: PrimFunc) -> PrimFunc:
    """Ask for each line of a region; not at all where finding out where it lies might fail, as a hint never does."""
    return func.replace(body=_Prefetches().rewrite(func.body))


class _Prefetches(Rewriter):
    memoize = False

    def rewrite_Prefetch(self, s: Prefetch) -> Any:
        if any(any_below(r, _may_fail) for r in s.bounds):
            return Evaluate(const(0), span=s.span)
        loops: list[tuple[Var, PrimExpr]] = []
        points: list[Range] = []
        for n, r in enumerate(s.bounds):
            line = max(1, LINE // s.buffer.dtype.bytes) if n == len(s.bounds) - 1 else 1
            if isinstance(r.extent, IntImm) and r.extent.value == 1:
                points.append(r)
                continue
            dtype = r.extent.dtype
            var = Var(f"line{n}", dtype)
            loops.append((var, floordiv(add(r.extent, const(line - 1, dtype)), const(line, dtype))))
            points.append(Range.from_min_extent(add(r.min, mul(var, const(line, dtype))), const(1, dtype)))
        if not loops:
            return s
        result: Stmt = s.replace(bounds=tuple(points))
        for var, count in reversed(loops):
            result = For(var, const(0, var.dtype), count, ForKind.SERIAL, result, span=s.span)
        return result


def _may_fail(n: object) -> bool:
    if isinstance(n, (Div, Mod, FloorDiv, FloorMod)):
        return not isinstance(n.b, IntImm) or n.b.value == 0
    return isinstance(n, (BufferLoad, Call))


__all__ = ["lower_prefetches"]
