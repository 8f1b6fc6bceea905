"""Runs of loops with numbers: all iterations around a site at once, as arrays, or a sample where there are too many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from tscript.analysis.checkers.sites import Binding, Doubt, Guard, Loop, Scope, conjuncts, op_name
from tscript.ir import expr as ex
from tscript.ir.dtype import DataType
from tscript.ir.expr import IntImm, PrimExpr, Var
from tscript.ir.occurrences import variables

Numbers = np.ndarray[Any, np.dtype[np.int64]]
Values = dict[Var, Numbers]

POINT_LIMIT: Final = 1 << 16
"""Iterations that are looked at for one site."""

_HUGE: Final = 1 << 61


class UnknownValue(Exception):
    """An expression whose value does not follow from variables alone."""


def evaluate(e: PrimExpr, values: Mapping[Var, Numbers], known: dict[PrimExpr, Numbers] | None = None) -> Numbers:
    """The values of an integer or bool expression. Raises UnknownValue where there is no telling."""
    known = {} if known is None else known
    stack: list[tuple[PrimExpr, bool]] = [(e, False)]
    while stack:
        n, ready = stack.pop()
        if n in known:
            continue
        if isinstance(n, IntImm):
            if abs(n.value) >= _HUGE:
                raise UnknownValue(str(n))
            known[n] = np.asarray(n.value, np.int64)
        elif isinstance(n, Var):
            if n not in values:
                raise UnknownValue(n.name)
            known[n] = values[n]
        else:
            below = _operands(n)
            if ready:
                known[n] = _in_range(_compute(n, [known[b] for b in below]), n.dtype)
            else:
                stack.append((n, True))
                stack.extend((b, False) for b in below)
    return known[e]


def _operands(n: PrimExpr) -> list[PrimExpr]:
    if n.dtype.lanes != 1 or not (n.dtype.is_integer or n.dtype.is_bool):
        raise UnknownValue(str(n))
    match n:
        case ex.BinaryExpr() if n.a.dtype.is_integer or n.a.dtype.is_bool:
            return [n.a, n.b]
        case ex.Not():
            return [n.a]
        case ex.Cast() if n.value.dtype.is_integer or n.value.dtype.is_bool:
            return [n.value]
        case ex.Select():
            return [n.condition, n.true_value, n.false_value]
        case ex.Call() if op_name(n) in _CALLS:
            return list(n.args)
        case _:
            raise UnknownValue(str(n))


_CALLS: Final = {"if_then_else", "likely", "bitwise_and", "bitwise_or", "bitwise_xor", "shift_left", "shift_right"}


def _compute(n: PrimExpr, args: list[Numbers]) -> Any:
    match n:
        case ex.Not():
            return args[0] == 0
        case ex.Cast():
            return (args[0] != 0) if n.dtype.is_bool else args[0]
        case ex.Select():
            return np.where(args[0] != 0, args[1], args[2])
        case ex.Call():
            return _call(op_name(n), args)
        case _:
            return _binary(n, *args)


def _call(name: str, args: list[Numbers]) -> Any:
    match name:
        case "if_then_else":
            return np.where(args[0] != 0, args[1], args[2])
        case "likely":
            return args[0]
        case "bitwise_and":
            return args[0] & args[1]
        case "bitwise_or":
            return args[0] | args[1]
        case "bitwise_xor":
            return args[0] ^ args[1]
        case _:
            if np.any((args[1] < 0) | (args[1] > 31)) or np.any(np.abs(args[0]) > 1 << 29):
                raise UnknownValue(name)
            return args[0] << args[1] if name == "shift_left" else args[0] >> args[1]


def _binary(n: PrimExpr, a: Numbers, b: Numbers) -> Any:
    match n:
        case ex.Add():
            return a + b
        case ex.Sub():
            return a - b
        case ex.Mul():
            if np.any(np.abs(a.astype(np.float64)) * np.abs(b.astype(np.float64)) > _HUGE):
                raise UnknownValue(str(n))
            return a * b
        case ex.Min():
            return np.minimum(a, b)
        case ex.Max():
            return np.maximum(a, b)
        case ex.EQ():
            return a == b
        case ex.NE():
            return a != b
        case ex.LT():
            return a < b
        case ex.LE():
            return a <= b
        case ex.GT():
            return a > b
        case ex.GE():
            return a >= b
        case ex.And():
            return (a != 0) & (b != 0)
        case ex.Or():
            return (a != 0) | (b != 0)
        case _:
            return _divide(n, a, b)


def _divide(n: PrimExpr, a: Numbers, b: Numbers) -> Any:
    if np.any(b == 0):
        raise UnknownValue(f"{n}: division by zero")
    match n:
        case ex.FloorDiv():
            return a // b
        case ex.FloorMod():
            return a % b
        case ex.Div():
            return np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b))
        case ex.Mod():
            return np.sign(a) * (np.abs(a) % np.abs(b))
        case _:
            raise UnknownValue(str(n))


def _in_range(value: Any, dtype: DataType) -> Numbers:
    """`value` as its type holds it. Where an index would overflow, nothing is known: such a program is wrong."""
    result: Numbers = np.asarray(value, dtype=np.int64)
    if dtype.is_bool or result.size == 0:
        return result
    bits, low, high = dtype.bits, int(result.min()), int(result.max())
    if dtype.is_int and bits >= 32:
        limit = min(1 << (bits - 1), _HUGE)
        if low < -limit or high >= limit:
            raise UnknownValue("overflow")
        return result
    if bits > 32 and (low < 0 or high >= _HUGE):
        raise UnknownValue("overflow")
    if dtype.is_int:
        half = 1 << (bits - 1)
        return (result + half) % (1 << bits) - half
    return result if bits > 32 else result % (1 << bits)


@dataclass(slots=True)
class Points:
    """Iterations: the value of each variable in each, and whether it is sure that the iteration takes place.

    `complete`: all there are. `names` are the loop and other variables to report.
    """

    values: Values
    sure: np.ndarray[Any, np.dtype[np.bool_]]
    complete: bool = True

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.sure)

    def at(self, e: PrimExpr) -> Numbers:
        """The value of `e` in each iteration. Raises UnknownValue."""
        return np.broadcast_to(evaluate(e, self.values), (self.count,))

    def keep(self, which: Any) -> None:
        """Go on with these iterations only."""
        self.values = {v: a[which] for v, a in self.values.items()}
        self.sure = self.sure[which]


def points_of(
    scopes: Sequence[Scope], sizes: Mapping[Var, int], wanted: Sequence[PrimExpr], limit: int = POINT_LIMIT
) -> Points:
    """The iterations of `scopes` that run, for given sizes.

    Loops that neither `wanted` nor any condition depends on stand at their first iteration. Raises UnknownValue
    for loops whose range is not known.
    """
    needed = needed_variables(scopes, wanted)
    points = Points({v: np.asarray([n], np.int64) for v, n in sizes.items()}, np.ones(1, np.bool_))
    for scope in scopes:
        if isinstance(scope, Loop):
            _expand(points, scope, scope.var in needed, limit)
        elif isinstance(scope, Binding):
            _bind(points, scope)
        elif isinstance(scope, Guard):
            _restrict(points, scope)
        elif isinstance(scope, Doubt):
            points.sure = np.zeros(points.count, np.bool_)
    return points


def needed_variables(scopes: Sequence[Scope], wanted: Sequence[PrimExpr]) -> dict[Var, None]:
    """The variables that `wanted`, conditions, and ranges of loops depend on."""
    needed = dict(variables(*wanted))
    for scope in reversed(scopes):
        if isinstance(scope, Guard):
            needed |= variables(scope.condition)
        elif isinstance(scope, Binding) and scope.var in needed:
            needed |= variables(scope.value)
        elif isinstance(scope, Loop):
            needed |= variables(scope.low, scope.extent)
    return needed


def _expand(points: Points, loop: Loop, is_needed: bool, limit: int) -> None:
    low, extent = points.at(loop.low), points.at(loop.extent)
    if np.any(extent <= 0):
        alive = extent > 0
        points.keep(alive)
        low, extent = low[alive], extent[alive]
    if not is_needed:
        points.values[loop.var] = low
        return
    total = int(extent.sum())
    if total <= limit:
        rows = np.repeat(np.arange(points.count), extent)
        starts = np.repeat(np.cumsum(extent) - extent, extent)
        step = np.arange(total) - starts
    else:
        # The ends of a range are where mistakes show.
        points.complete = False
        picks = np.stack([np.minimum(p, extent - 1) for p in (0 * extent, 0 * extent + 1, extent // 2)])
        ends = np.stack([np.maximum(extent - p, 0) for p in (2, 1)])
        step = np.concatenate([picks, ends]).T.reshape(-1)
        rows = np.repeat(np.arange(points.count), 5)
        if len(step) > limit:
            chosen = np.random.default_rng(0).permutation(len(step))[:limit]
            rows, step = rows[chosen], step[chosen]
    points.keep(rows)
    points.values[loop.var] = low[rows] + step


def _bind(points: Points, binding: Binding) -> None:
    try:
        points.values[binding.var] = np.array(points.at(binding.value))
    except UnknownValue:
        points.values.pop(binding.var, None)


def _restrict(points: Points, guard: Guard) -> None:
    for part, holds in conjuncts(guard.condition, guard.holds):
        try:
            value = points.at(part) != 0
        except UnknownValue:
            points.sure = np.zeros(points.count, np.bool_)
        else:
            if not np.all(value == holds):
                points.keep(value == holds)
