"""Exact counts of iterations: how often guards hold, and so how often a loop runs whose extent varies."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np

from tscript.ir import construct as make
from tscript.ir import expr as ex
from tscript.ir.expr import IntImm, PrimExpr, Var
from tscript.ir.functor import children
from tscript.ir.occurrences import variables

Count = int | Fraction | PrimExpr
"""A number, or an expression in the sizes that are not known."""

_LARGEST_GRID: Final = 1 << 20
_LARGEST_VALUE: Final = 1 << 40


def times(a: Count, b: Count) -> Count:
    """The product. A fraction of an expression is rounded up to all of it."""
    if isinstance(a, PrimExpr) or isinstance(b, PrimExpr):
        return make.mul(_whole(a), _whole(b))
    return a * b


def plus(a: Count, b: Count) -> Count:
    """The sum."""
    if isinstance(a, PrimExpr) or isinstance(b, PrimExpr):
        return make.add(_whole(a), _whole(b))
    return a + b


def _whole(a: Count) -> PrimExpr:
    if isinstance(a, PrimExpr):
        return a if a.dtype == "int64" else make.cast(a, "int64")
    return IntImm("int64", math.ceil(a))


@dataclass(frozen=True, eq=False)
class Loop:
    """A loop around a statement. `bound` is how often its body runs at most, `trips` how often on average.

    `low` and `extent` may depend on the variables of loops outside.
    """

    var: Var
    low: PrimExpr
    extent: PrimExpr
    bound: Count
    trips: Count
    kind: int
    thread: str = ""


def conjuncts(condition: PrimExpr) -> list[PrimExpr]:
    """The conditions that all have to hold."""
    if isinstance(condition, ex.And):
        return conjuncts(condition.a) + conjuncts(condition.b)
    if isinstance(condition, ex.Call) and isinstance(condition.op, ex.Op) and condition.op.name == "tir.likely":
        return conjuncts(condition.args[0])
    return [condition]


def share_where(conditions: Sequence[PrimExpr], loops: Sequence[Loop]) -> Fraction | None:
    """In which share of the iterations of `loops`, each up to its bound, all conditions hold.

    None where that cannot be worked out.
    """
    share = Fraction(1)
    groups: list[tuple[dict[Var, None], list[PrimExpr]]] = []
    for part in [c for condition in conditions for c in conjuncts(condition)]:
        names = variables(part)
        joined = [part]
        for group in [g for g in groups if any(v in names for v in g[0])]:
            groups.remove(group)
            names |= group[0]
            joined += group[1]
        groups.append((names, joined))
    for names, parts in groups:
        grid = _grid(names, loops)
        if grid is None:
            return None
        held = [_value(p, grid) for p in parts]
        if any(h is None for h in held):
            return None
        shape = np.broadcast_shapes(*_shapes(grid))
        every = np.broadcast_to(np.logical_and.reduce(np.broadcast_arrays(*held)), shape)
        share *= Fraction(int(np.count_nonzero(every)), every.size) if every.size else Fraction(0)
    return share


def _shapes(grid: Mapping[Var, Any]) -> list[tuple[int, ...]]:
    return [g.shape for g in grid.values()] or [()]


def _grid(names: Mapping[Var, None], loops: Sequence[Loop]) -> dict[Var, Any] | None:
    """All values of the variables, each along a dimension of its own. None if they are no loops, vary, or are many."""
    around = {loop.var: loop for loop in loops}
    if not all(v in around for v in names):
        return None
    used = [loop for loop in loops if loop.var in names]
    grid: dict[Var, Any] = {}
    size = 1
    for d, loop in enumerate(used):
        if not (isinstance(loop.low, IntImm) and isinstance(loop.bound, int)):
            return None
        size *= max(loop.bound, 1)
        if size > _LARGEST_GRID or abs(loop.low.value) > _LARGEST_VALUE:
            return None
        shape = [1] * len(used)
        shape[d] = loop.bound
        grid[loop.var] = np.arange(loop.low.value, loop.low.value + loop.bound, dtype=np.int64).reshape(shape)
    return grid


_BINARY: Final[dict[type[PrimExpr], Any]] = {
    ex.Add: np.add, ex.Sub: np.subtract, ex.Mul: np.multiply, ex.Min: np.minimum, ex.Max: np.maximum,
    ex.EQ: np.equal, ex.NE: np.not_equal, ex.LT: np.less, ex.LE: np.less_equal, ex.GT: np.greater,
    ex.GE: np.greater_equal, ex.And: np.logical_and, ex.Or: np.logical_or,
}  # fmt: skip
_DIVISION: Final[dict[type[PrimExpr], Any]] = {ex.FloorDiv: np.floor_divide, ex.FloorMod: np.mod}


def _value(e: PrimExpr, grid: Mapping[Var, Any]) -> Any:
    """The values of integer arithmetic over a grid; None for anything that is more than that."""
    if isinstance(e, Var):
        return grid.get(e)
    if isinstance(e, IntImm):
        return np.int64(e.value) if abs(e.value) < _LARGEST_VALUE else None
    parts: list[Any] = [_value(c, grid) for c in children(e) if isinstance(c, PrimExpr)]
    if any(p is None for p in parts):
        return None
    if isinstance(e, ex.Call) and isinstance(e.op, ex.Op) and e.op.name == "tir.likely":
        return parts[0]
    if isinstance(e, ex.Not):
        return np.logical_not(parts[0])
    if isinstance(e, ex.Cast):
        return parts[0] if e.dtype.is_integer and e.dtype.bits >= 32 else None
    if isinstance(e, ex.Select):
        return np.where(parts[0], parts[1], parts[2])  # pyright: ignore[reportUnknownVariableType]
    by = _DIVISION.get(type(e))
    if by is not None:
        return None if np.any(parts[1] == 0) else by(*parts)
    by = _BINARY.get(type(e))
    return None if by is None else by(*parts)


__all__ = ["Count", "Loop", "conjuncts", "plus", "share_where", "times"]
