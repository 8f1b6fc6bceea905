"""Conditions that the ranges of variables decide."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tscript.arith.const_bound import Bound, const_bound
from tscript.ir import expr as ex
from tscript.ir.dtype import int_range
from tscript.ir.expr import PrimExpr, Var
from tscript.ir.functor import children
from tscript.ir.linear import difference
from tscript.ir.occurrences import any_below, reads_memory, variables
from tscript.ir.stmt import For

_INDEX_BITS: Final = 32
_NOTHING: Final[dict[PrimExpr, bool]] = {}


def decide(condition: PrimExpr, bounds: Mapping[Var, Bound], known: Mapping[PrimExpr, bool] = _NOTHING) -> bool | None:
    """What a scalar condition is for all values of its variables within `bounds`; None if it differs or is not seen.

    `known` holds comparisons that are decided already.
    """
    if condition in known:
        return known[condition]
    match condition:
        case ex.IntImm(value=value):
            return bool(value)
        case ex.And(a=a, b=b):
            x, y = decide(a, bounds, known), decide(b, bounds, known)
            return False if x is False or y is False else True if x and y else None
        case ex.Or(a=a, b=b):
            x, y = decide(a, bounds, known), decide(b, bounds, known)
            return True if x or y else False if x is False and y is False else None
        case ex.Not(a=a):
            x = decide(a, bounds, known)
            return None if x is None else not x
        case ex.Call(op=ex.Op(name="tir.likely"), args=(a,)):
            return decide(a, bounds, known)
        case ex.CmpExpr(a=a, b=b) if is_index(a) and is_index(b) and not reads_memory(condition):
            if may_wrap(condition, bounds):
                return None
            return _compared(type(condition), difference_bound(a, b, bounds))
        case _:
            return None


def atoms_of(condition: PrimExpr, *joins: type[PrimExpr]) -> list[PrimExpr]:
    """The parts of a condition below `joins` (`And`, `Or`, `Not`), from left to right."""
    found: list[PrimExpr] = []
    stack = [condition]
    while stack:
        e = stack.pop()
        if isinstance(e, ex.Call) and isinstance(e.op, ex.Op) and e.op.name == "tir.likely":
            stack.append(e.args[0])
        elif isinstance(e, joins):
            stack.extend(c for c in reversed(list(children(e))) if isinstance(c, PrimExpr))
        else:
            found.append(e)
    return found


def may_wrap(e: PrimExpr, bounds: Mapping[Var, Bound]) -> bool:
    """Whether a sum, difference or product in `e` could leave its type, where it would go on at the other end.

    What a loop counts, whose number of iterations is not known, is taken to fit in its type times the size of a tile.
    """
    memo: dict[PrimExpr, Bound] = {}

    def wraps(n: object) -> bool:
        if not isinstance(n, (ex.Add, ex.Sub, ex.Mul)) or not n.dtype.is_integer:
            return False
        found, (least, most) = const_bound(n, bounds, memo), int_range(n.dtype)
        if (found.low is not None and found.low < least) or (found.high is not None and found.high > most):
            return True
        is_open = found.low is None or found.high is None
        return is_open and any(v not in bounds or bounds[v].low is None for v in variables(n))

    return any_below(e, wraps)


def is_index(e: PrimExpr) -> bool:
    """Whether `e` is of a type that loops count in."""
    return e.dtype.is_int and e.dtype.bits >= _INDEX_BITS and e.dtype.lanes == 1


def difference_bound(a: PrimExpr, b: PrimExpr, bounds: Mapping[Var, Bound]) -> Bound:
    """Bounds of `a - b`, in which what is common to both cancels."""
    terms, low = difference(a, b)
    lowest: int | None = low
    highest: int | None = low
    for term, factor in terms.items():
        found = const_bound(term, bounds)
        ends = (found.low, found.high) if factor > 0 else (found.high, found.low)
        lowest = None if lowest is None or ends[0] is None else lowest + factor * ends[0]
        highest = None if highest is None or ends[1] is None else highest + factor * ends[1]
    return Bound(lowest, highest)


def _compared(kind: type[PrimExpr], d: Bound) -> bool | None:
    """What a comparison of kind `kind` gives, where the left side less the right one is within `d`."""
    low, high = d.low, d.high
    below, at_most = high is not None and high < 0, high is not None and high <= 0
    above, at_least = low is not None and low > 0, low is not None and low >= 0
    known: dict[type[PrimExpr], tuple[bool, bool]] = {
        ex.LT: (below, at_least),
        ex.LE: (at_most, above),
        ex.GT: (above, at_most),
        ex.GE: (at_least, below),
        ex.EQ: (low is not None and low == high == 0, below or above),
        ex.NE: (below or above, low is not None and low == high == 0),
    }
    yes, no = known[kind]
    return True if yes else False if no else None


def range_of(loop: For, bounds: Mapping[Var, Bound]) -> Bound:
    """The values of a loop's variable, while its body runs."""
    start, extent = const_bound(loop.min, bounds), const_bound(loop.extent, bounds)
    last = None if start.high is None or extent.high is None else start.high + max(extent.high, 1) - 1
    return Bound(start.low, last)
