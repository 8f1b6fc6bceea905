"""Whether loops may change places: no two iterations that touch the same element may come in another order.

With the distance of two iterations in each loop, an exchange does harm exactly where the first distance that is not 0
has another sign in the new order. `keeps_order` shows that no iterations have such distances, from linear equations of
the subscripts, bounds of loops and conditions: bounds of all unknowns are drawn closer until they contradict.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import gcd, inf
from typing import Final

from tscript.analysis.checkers.sites import conjuncts
from tscript.analysis.dependence.accesses import Access
from tscript.arith import const_bound
from tscript.ir import construct as make
from tscript.ir import expr as ex
from tscript.ir.expr import FloorDiv, FloorMod, IntImm, PrimExpr, Var
from tscript.ir.linear import linear_form
from tscript.ir.occurrences import reads_memory, variables

_Unknown = tuple[str, object]
"""A number that is not known: of the one iteration ("p") or the other ("q"), what the other has more ("d"), or of
both ("").
"""
_Sum = dict[_Unknown, int]
_Bounds = tuple[float, float]
"""The least and greatest value; infinite where there is none."""

_ROUNDS: Final = 12


def keeps_order(w: Access, x: Access, old: Sequence[Var], new: Sequence[Var]) -> bool:
    """Whether it is certain that iterations in which `w` and `x` touch the same element come in the same order with
    the loops ordered as in `new` as with `old`. Both accesses are inside all of these loops.
    """
    exchanged = [(a, b) for a, b in _pairs(old) if new.index(a) > new.index(b)]
    if not exchanged:
        return True
    if w.buffer is not x.buffer or not all(v in w.domain and v in x.domain for v in old):
        return False
    system = _Distances(w, x, old)
    for a, b in exchanged:
        same = [*old[: old.index(a)], *new[: new.index(b)]]
        for sign in (1, -1):
            known: dict[_Unknown, _Bounds] = {("d", v): (0, 0) for v in same}
            known["d", a] = (1, inf) if sign > 0 else (-inf, -1)
            known["d", b] = (-inf, -1) if sign > 0 else (1, inf)
            if system.may_hold(known):
                return False
    return True


def never_after(w: Access, x: Access, loops: Sequence[Var]) -> bool:
    """Whether it is certain that `w` touches no element in a later iteration of `loops`, the outermost first, than `x`.

    This is what two nests have to keep to when they become one, `w` being in the one that ran first.
    """
    if w.buffer is not x.buffer or not all(v in w.domain and v in x.domain for v in loops):
        return False
    system = _Distances(w, x, loops)
    for k, v in enumerate(loops):
        same: dict[_Unknown, _Bounds] = {("d", u): (0, 0) for u in loops[:k]}
        if system.may_hold({**same, ("d", v): (-inf, -1)}):
            return False
    return True


def _pairs(loops: Sequence[Var]) -> Iterator[tuple[Var, Var]]:
    return ((a, b) for k, a in enumerate(loops) for b in loops[k + 1 :])


class _Distances:
    """What is known of an iteration `p` of one access and an iteration `q` of another that touch the same element."""

    def __init__(self, w: Access, x: Access, loops: Sequence[Var]) -> None:
        self.accesses = w, x
        self.loops = dict.fromkeys(loops)
        self.bounds: dict[_Unknown, _Bounds] = {}
        self.rows: list[tuple[_Sum, float, float]] = []
        self.seen: dict[object, None] = {}
        for v in loops:
            self._add_loop(v)
        for r, s in zip(w.region, x.region, strict=True):
            # Of ranges that overlap, neither begins after the end of the other.
            first, second = (const_bound(e.extent, a.bounds).high for e, a in ((r, w), (s, x)))
            low = -inf if second is None else 1 - second
            self._add_row(self._difference(s.min, r.min), low, inf if first is None else first - 1)
        for k, access in enumerate(self.accesses):
            for v, r in access.domain.items():
                if not (isinstance(r.min, IntImm) and isinstance(r.extent, IntImm)):
                    self._add_at_least(v, r.min, k)
                    self._add_at_least(make.sub(make.add(r.min, r.extent), 1), v, k)
            for condition in access.conditions:
                for part, holds in conjuncts(condition, True):
                    self._add_condition(part, holds, k)
        self._insert_equations()

    def may_hold(self, known: Mapping[_Unknown, _Bounds]) -> bool:
        """Whether there may be such iterations with unknowns within the bounds `known`."""
        bounds = dict(self.bounds)
        for u, (low, high) in known.items():
            before = bounds.get(u, _FREE)
            bounds[u] = max(low, before[0]), min(high, before[1])
            if bounds[u][0] > bounds[u][1]:
                return False
        for _ in range(_ROUNDS):
            changed = False
            for row in self.rows:
                found = _drawn_closer(row, bounds)
                if found is None:
                    return False
                changed = changed or found
            if not changed:
                break
        return True

    def _insert_equations(self) -> None:
        """Add what the other rows say with an unknown replaced by what an equation says it is.

        Bounds alone do not see that `a - b` is small where neither `a` nor `b` is bounded.
        """
        for terms, low, high in [row for row in self.rows if row[1] == row[2]]:
            pivot = next((u for u, c in terms.items() if abs(c) == 1 and u not in self.bounds), None)
            pivot = pivot or next((u for u, c in terms.items() if abs(c) == 1), None)
            if pivot is None:
                continue
            sign = terms[pivot]
            for other, least, most in [row for row in self.rows if pivot in row[0] and row[0] is not terms]:
                factor = other[pivot] * sign
                inserted = _combined(other, terms, -factor)
                self.rows.append((inserted, least - factor * low, most - factor * high))

    def _add_loop(self, v: Var) -> None:
        b = self.accesses[0].bounds[v]
        low, high = -inf if b.low is None else b.low, inf if b.high is None else b.high
        self.bounds["p", v] = low, high
        self.bounds["d", v] = low - high, high - low
        self._add_row(({("p", v): 1, ("d", v): 1}, 0), low, high)

    def _add_row(self, terms: tuple[_Sum, int], low: float, high: float) -> None:
        self.rows.append((terms[0], low - terms[1], high - terms[1]))

    def _add_at_least(self, a: PrimExpr, b: PrimExpr, k: int, by: int = 0) -> None:
        (one, c), (two, d) = self._sum(a, k), self._sum(b, k)
        self._add_row((_combined(one, two, -1), c - d), by, inf)

    def _add_condition(self, e: PrimExpr, holds: bool, k: int) -> None:
        if not (isinstance(e, ex.BinaryExpr) and e.a.dtype.is_integer):
            return
        match e, holds:
            case (ex.LT(), True) | (ex.GE(), False):
                self._add_at_least(e.b, e.a, k, 1)
            case (ex.LE(), True) | (ex.GT(), False):
                self._add_at_least(e.b, e.a, k)
            case (ex.GT(), True) | (ex.LE(), False):
                self._add_at_least(e.a, e.b, k, 1)
            case (ex.GE(), True) | (ex.LT(), False):
                self._add_at_least(e.a, e.b, k)
            case (ex.EQ(), True) | (ex.NE(), False):
                self._add_at_least(e.a, e.b, k)
                self._add_at_least(e.b, e.a, k)
            case _:
                pass

    # -- expressions as sums of unknowns ----------------------------------------------------------

    def _difference(self, of_second: PrimExpr, of_first: PrimExpr) -> tuple[_Sum, int]:
        (one, c), (two, d) = self._sum(of_second, 1), self._sum(of_first, 0)
        return _combined(one, two, -1), c - d

    def _sum(self, e: PrimExpr, k: int) -> tuple[_Sum, int]:
        """`e` in the iteration of access number `k`."""
        terms, constant = linear_form(e)
        result: _Sum = {}
        for term, factor in terms.items():
            part, more = self._term(term, k)
            result = _combined(result, part, factor)
            constant += factor * more
        return result, constant

    def _term(self, e: PrimExpr, k: int) -> tuple[_Sum, int]:
        access = self.accesses[k]
        if isinstance(e, Var) and e in self.loops:
            return ({("p", e): 1, ("d", e): 1} if k else {("p", e): 1}), 0
        used = variables(e)
        if not any(v in access.domain for v in used) and (isinstance(e, Var) or not reads_memory(e)):
            return {("", e): 1}, 0
        match e:
            case FloorDiv(a=a, b=IntImm(value=c)) if c > 0:
                return self._quotient(a, c, k), 0
            case FloorMod(a=a, b=IntImm(value=c)) if c > 0:
                whole, constant = self._sum(a, k)
                return _combined(whole, self._quotient(a, c, k), -c), constant
            case _:
                b = const_bound(e, access.bounds)
                # What is read from memory may be another number each time.
                own: _Unknown = ("pq"[k], (e, "read", len(self.bounds)) if reads_memory(e) else (e,))
                self.bounds[own] = -inf if b.low is None else b.low, inf if b.high is None else b.high
                return {own: 1}, 0

    def _quotient(self, e: PrimExpr, c: int, k: int) -> _Sum:
        """`e // c`; where it depends on the common loops alone, the one of `q` as that of `p` and what is more."""
        domain = self.accesses[k].domain
        shared = not reads_memory(e) and all(v in self.loops or v not in domain for v in variables(e))
        first: _Unknown = ("p" if shared else "pq"[k], (e, c))
        more: _Unknown = ("d", (e, c))
        if (first, k) not in self.seen:
            self.seen[first, k] = None
            if shared:
                self.seen[first, 1 - k] = None
                (one, a), (two, b) = self._sum(e, 0), self._sum(e, 1)
                self._add_row((_combined(one, {first: 1}, -c), a), 0, c - 1)
                self._add_row((_combined(two, {first: 1, more: 1}, -c), b), 0, c - 1)
                self._add_row((_combined(_combined(two, one, -1), {more: 1}, -c), b - a), 1 - c, c - 1)
            else:
                whole, a = self._sum(e, k)
                self._add_row((_combined(whole, {first: 1}, -c), a), 0, c - 1)
        return {first: 1, more: 1} if shared and k else {first: 1}


_FREE: Final[_Bounds] = (-inf, inf)


def _combined(a: _Sum, b: _Sum, factor: int) -> _Sum:
    """`a + factor * b`."""
    result = dict(a)
    for u, c in b.items():
        result[u] = result.get(u, 0) + factor * c
        if not result[u]:
            del result[u]
    return result


def _drawn_closer(row: tuple[_Sum, float, float], bounds: dict[_Unknown, _Bounds]) -> bool | None:
    """Draw the bounds of the unknowns in a row closer. Whether any changed; None where there are no values."""
    terms, low, high = row
    step = fixed = 0
    for u, c in terms.items():
        least, most = bounds.get(u, _FREE)
        if least == most:
            fixed += c * int(least)
        else:
            step = gcd(step, c)
    if step == 0:
        return None if not low <= fixed <= high else False
    if high != inf and (high - fixed) // step * step < low - fixed:
        return None
    changed = False
    for u, c in terms.items():
        below, above = low, high
        for v, d in terms.items():
            if v != u:
                least, most = bounds.get(v, _FREE)
                # What the others may add to the sum is taken off.
                below -= max(d * least, d * most)
                above -= min(d * least, d * most)
        if c < 0:
            below, above = -above, -below
        size = abs(c)
        least, most = bounds.get(u, _FREE)
        new = (
            max(least, below if below in (inf, -inf) else -((-below) // size)),
            min(most, above if above in (inf, -inf) else above // size),
        )
        if new[0] > new[1]:
            return None
        if new != (least, most):
            bounds[u] = new
            changed = True
    return changed


__all__ = ["keeps_order", "never_after"]
