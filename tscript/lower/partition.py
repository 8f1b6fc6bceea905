"""Guards leave loops: by proof, by running what belongs to the first iteration before the loop, by cutting loops.

A guard that holds for a part of a loop's iterations cuts it in two or three: in each part the guard is decided, as
far as that can be, and goes. What a split of an extent that its factor does not divide leaves is so a main loop
without guards and a short tail.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tscript.arith.const_bound import Bound, const_bound
from tscript.ir import expr as ex
from tscript.ir.construct import add, and_, cast, compare, const, floordiv, max_, min_, sub
from tscript.ir.dtype import INT64
from tscript.ir.expr import Call, IntImm, PrimExpr, Var
from tscript.ir.function import PrimFunc
from tscript.ir.functor import Rewriter, children
from tscript.ir.linear import difference, from_linear
from tscript.ir.occurrences import mentions, reads_memory
from tscript.ir.stmt import For, ForKind, IfThenElse, LetStmt, SeqStmt, Stmt, is_no_op, seq
from tscript.lower.copies import Copy
from tscript.lower.guards import atoms_of, decide, is_index, may_wrap, range_of
from tscript.lower.unroll import steps_of

MAX_PARTS: Final = 3
"""A loop is cut into at most so many loops,"""
MAX_COPIES: Final = 9
"""and what stands inside of several loops is copied at most so often,"""
MAX_STEPS: Final = 1024
"""as long as the copies together are no longer than this."""


def partition_loops(func: PrimFunc) -> PrimFunc:
    """Decide guards, or cut loops where guards change. Expects a program without blocks."""
    return func.replace(body=_Partition().rewrite(func.body))


@dataclass(frozen=True, slots=True)
class _Cut:
    """A place in the range of a loop where a guard changes: before it, or from it on, the guard `atom` holds."""

    at: PrimExpr
    atom: PrimExpr | None = None


class _Partition(Rewriter):
    # What a guard is depends on the ranges of the variables around it.
    memoize = False

    def __init__(self) -> None:
        super().__init__()
        self._bounds: dict[Var, Bound] = {}
        self._known: dict[PrimExpr, bool] = {}
        self._loops: dict[Var, None] = {}
        self._copies = 1

    def rewrite_LetStmt(self, let: LetStmt) -> Any:
        if let.var.dtype.is_integer and let.var.dtype.lanes == 1:
            self._bounds[let.var] = const_bound(let.value, self._bounds)
        # A name hides what its value is made of, and with it where that changes.
        self._loops[let.var] = None
        return self.rewrite_children(let)

    def rewrite_IfThenElse(self, s: IfThenElse) -> Any:
        condition = self._decided(s.condition)
        if isinstance(condition, IntImm):
            taken = s.then_case if condition.value else s.else_case
            return seq() if taken is None else self.rewrite(taken)
        then = self.rewrite(s.then_case)
        otherwise = None if s.else_case is None else self.rewrite(s.else_case)
        if condition is s.condition and then is s.then_case and otherwise is s.else_case:
            return s
        if is_no_op(then) and (otherwise is None or is_no_op(otherwise)) and not _may_fail(condition):
            return seq()
        return s.replace(condition=condition, then_case=then, else_case=otherwise)

    def _decided(self, e: PrimExpr) -> PrimExpr:
        """`e` without the parts that are decided here."""
        known = decide(e, self._bounds, self._known)
        if known is not None:
            return const(known)
        if isinstance(e, (ex.And, ex.Or)):
            a, b = self._decided(e.a), self._decided(e.b)
            if isinstance(a, IntImm):
                return b
            if isinstance(b, IntImm):
                return a
            return e if a is e.a and b is e.b else type(e)(a, b)
        return e

    def rewrite_For(self, loop: For) -> Any:
        self._bounds[loop.loop_var] = range_of(loop, self._bounds)
        self._loops[loop.loop_var] = None
        if loop.kind == ForKind.UNROLLED or not _has_guards(loop.body):
            return self._plain(loop)
        if loop.kind == ForKind.SERIAL:
            hoisted = self._first_before(loop)
            if hoisted is not None:
                return hoisted
        cuts = self._cuts(loop)
        if not cuts or not self._pays(loop, len(cuts) + 1):
            return self._plain(loop)
        self._copies *= len(cuts) + 1
        result = self._constant_parts(loop, cuts) if cuts[0].atom is None else self._symbolic_parts(loop, cuts[0])
        self._copies //= len(cuts) + 1
        return result

    def _plain(self, loop: For) -> Stmt:
        result: For = self.rewrite_children(loop)
        if result is loop:
            return loop
        if is_no_op(result.body):
            return seq()
        # A guard around what belongs to the first iteration may be gone now.
        hoisted = self._first_before(result) if result.kind == ForKind.SERIAL else None
        return result if hoisted is None else hoisted

    def _pays(self, loop: For, parts: int) -> bool:
        return parts <= MAX_PARTS and self._copies * parts <= MAX_COPIES and steps_of(loop.body) * parts <= MAX_STEPS

    # -- the first iteration -------------------------------------------------------------------------

    def _first_before(self, loop: For) -> Stmt | None:
        """`init` before the loops, where the innermost of a nest begins with `if this is the first iteration: init`."""
        nest = [loop]
        while isinstance(nest[-1].body, For) and nest[-1].body.kind == ForKind.SERIAL:
            nest.append(nest[-1].body)
        body = nest[-1].body
        if not isinstance(body, SeqStmt) or not isinstance(body.seq[0], IfThenElse):
            return None
        guard, rest = body.seq[0], seq(*body.seq[1:])
        if guard.else_case is not None or not self._is_first(guard.condition, nest):
            return None
        inner = {n.loop_var: None for n in nest}
        if any(mentions(e, inner) or reads_memory(e) for n in nest for e in (n.min, n.extent)):
            return None
        first: Stmt = Copy({n.loop_var: n.min for n in nest}, fresh=True).rewrite(guard.then_case)
        result = rest
        for n in reversed(nest):
            result = n.replace(body=result)
        runs: PrimExpr = const(True)
        for n in nest:
            runs = and_(runs, compare(ex.GT, n.extent, 0))
        first = first if isinstance(runs, IntImm) and runs.value else IfThenElse(runs, first)
        return seq(self.rewrite(first), self.rewrite(result))

    def _is_first(self, condition: PrimExpr, nest: list[For]) -> bool:
        """Whether `condition` says that all loops of `nest` are at their start, and nothing else."""
        pinned: set[Var] = set()
        start = {n.loop_var: n.min for n in nest}
        own = {n.loop_var: None for n in nest}
        for atom in atoms_of(condition, ex.And):
            if not isinstance(atom, ex.EQ) or not is_index(atom.a) or not is_index(atom.b):
                return False
            terms, constant = difference(atom.a, atom.b)
            if not all(t in own for t in terms) or len({c > 0 for c in terms.values()}) != 1:
                return False
            at = [start[t] for t in terms if isinstance(t, Var)]
            if not all(isinstance(e, IntImm) for e in at):
                return False
            values = [e.value for e in at if isinstance(e, IntImm)]
            # All factors have one sign, so the sum takes the value that it has at the start only there.
            if constant + sum(c * v for c, v in zip(terms.values(), values, strict=True)) != 0:
                return False
            pinned.update(t for t in terms if isinstance(t, Var))
        return all(n.loop_var in pinned or (isinstance(n.extent, IntImm) and n.extent.value == 1) for n in nest)

    # -- where to cut --------------------------------------------------------------------------------

    def _cuts(self, loop: For) -> list[_Cut]:
        inner: dict[Var, Bound] = {}
        found: dict[int, None] = {}
        symbolic: _Cut | None = None
        bounds = self._bounds[loop.loop_var]
        is_constant = isinstance(loop.min, IntImm) and isinstance(loop.extent, IntImm)
        for atom in _guards(loop.body, {**self._bounds}, inner):
            for n, at in enumerate(self._cuts_of(atom, loop.loop_var, inner)):
                if isinstance(at, IntImm) and is_constant:
                    if bounds.low is not None and bounds.high is not None and bounds.low < at.value <= bounds.high:
                        found[at.value] = None
                elif n == 0 and symbolic is None and not isinstance(atom, (ex.EQ, ex.NE)):
                    symbolic = _Cut(at, atom)
        if is_constant and found:
            cuts = sorted(found)
            if loop.kind == ForKind.VECTORIZED and not _are_vectors(loop, cuts):
                return []
            return [_Cut(const(at, loop.loop_var.dtype)) for at in (cuts if len(cuts) < MAX_PARTS else cuts[:1])]
        return [symbolic] if symbolic is not None and loop.kind != ForKind.VECTORIZED else []

    def _cuts_of(self, atom: PrimExpr, var: Var, inner: Mapping[Var, Bound]) -> list[PrimExpr]:
        """Values of `var` from which on `atom` is decided, or no longer is."""
        if not isinstance(atom, ex.CmpExpr) or not is_index(atom.a) or not is_index(atom.b):
            return []
        terms, constant = difference(atom.a, atom.b)
        factor = terms.pop(var, 0)
        if factor == 0 or may_wrap(atom, {**self._bounds, **inner}):
            return []
        low = high = 0
        fixed: dict[PrimExpr, int] = {}
        for term, c in terms.items():
            if mentions(term, inner):
                found = const_bound(term, {**self._bounds, **inner})
                if found.low is None or found.high is None or mentions(term, {var: None}):
                    return []
                ends = c * found.low, c * found.high
                low, high = low + min(ends), high + max(ends)
            elif mentions(term, self._loops) or reads_memory(term):
                # It takes many values while this loop's part is fixed: there is nothing to cut at here.
                return []
            else:
                fixed[term] = c
        rest = (fixed, constant)
        match atom:
            # The first place is where the comparison begins or ceases to hold for everything inside; with
            # `factor * var + rest + inner < 0` and `inner` from `low` to `high`, that is where `high` decides.
            case ex.LT():
                pair = high, low
            case ex.LE():
                pair = high - 1, low - 1
            case ex.GT():
                pair = low - 1, high - 1
            case ex.GE():
                pair = low, high
            case _:
                # Between the two the sum may be 0.
                pair = high, low - 1
        return [_least(factor, rest, extra) for extra in pair]

    # -- parts -----------------------------------------------------------------------------------------

    def _constant_parts(self, loop: For, cuts: list[_Cut]) -> Stmt:
        assert isinstance(loop.min, IntImm) and isinstance(loop.extent, IntImm)
        places = [loop.min.value, *(c.at.value for c in cuts if isinstance(c.at, IntImm))]
        ends = [*places[1:], loop.min.value + loop.extent.value]
        if loop.kind == ForKind.PARALLEL:
            return self._parallel(loop, [const(p, loop.loop_var.dtype) for p in places[1:]], None)
        parts: list[Stmt] = []
        for n, (start, end) in enumerate(zip(places, ends, strict=True)):
            parts.append(self._part(loop, n > 0, start, end))
        return seq(*parts)

    def _part(self, loop: For, fresh: bool, start: int, end: int) -> Stmt:
        var = loop.loop_var
        first = const(start, var.dtype)
        if end - start == 1:
            return self.rewrite(Copy({var: first}, fresh=fresh).rewrite(loop.body))
        new = var.copy_with() if fresh else var
        body: Stmt = Copy({var: new}, fresh=True).rewrite(loop.body) if fresh else loop.body
        outside = self._bounds.get(new)
        self._bounds[new] = Bound(start, end - 1)
        self._loops[new] = None
        part = loop.replace(loop_var=new, min=first, extent=const(end - start, loop.extent.dtype), body=body)
        # Guards of other loops inside may cut it once more.
        body = self.rewrite(body)
        if outside is not None:
            self._bounds[new] = outside
        return seq() if is_no_op(body) else part.replace(body=body)

    def _symbolic_parts(self, loop: For, cut: _Cut) -> Stmt:
        var, atom = loop.loop_var, cut.atom
        assert atom is not None
        end = add(loop.min, loop.extent)
        at = cast(max_(loop.min, min_(cut.at, end)), var.dtype)
        rising = self._holds_below(atom, var)
        if loop.kind == ForKind.PARALLEL:
            return self._parallel(loop, [at], (atom, rising))
        parts: list[Stmt] = []
        for n, (start, stop) in enumerate(((loop.min, at), (at, end))):
            new = var.copy_with() if n else var
            copy = Copy({var: new}, fresh=True)
            body: Stmt = copy.rewrite(loop.body) if n else loop.body
            here: PrimExpr = copy.rewrite(atom) if n else atom
            self._bounds[new], self._loops[new] = self._bounds[var], None
            body = self._where(here, rising == (n == 0), n == (0 if rising else 1), body)
            if not is_no_op(body):
                extent = cast(sub(stop, start), loop.extent.dtype)
                parts.append(loop.replace(loop_var=new, min=start, extent=extent, body=body))
        return seq(*parts)

    def _holds_below(self, atom: PrimExpr, var: Var) -> bool:
        """Whether `atom` holds for small values of `var`."""
        assert isinstance(atom, ex.CmpExpr)
        factor = difference(atom.a, atom.b)[0][var]
        return isinstance(atom, (ex.LT, ex.LE)) == (factor > 0)

    def _where(self, atom: PrimExpr, value: bool, is_known: bool, body: Stmt) -> Stmt:
        if not is_known:
            return self.rewrite(body)
        outside = self._known.get(atom)
        self._known[atom] = value
        result: Stmt = self.rewrite(body)
        del self._known[atom]
        if outside is not None:
            self._known[atom] = outside
        return result

    def _parallel(self, loop: For, places: list[PrimExpr], fact: tuple[PrimExpr, bool] | None) -> Stmt:
        """A loop whose iterations run at the same time stays one, and chooses its part in each."""
        var = loop.loop_var
        bounds = self._bounds[var]
        result: Stmt | None = None
        ends = [*places, None]
        for n in reversed(range(len(ends))):
            start, end = (places[n - 1] if n else None), ends[n]
            copy = Copy({}, fresh=True)
            body: Stmt = copy.rewrite(loop.body) if n else loop.body
            low = start.value if isinstance(start, IntImm) else bounds.low
            high = end.value - 1 if isinstance(end, IntImm) else bounds.high
            self._bounds[var] = Bound(low, high)
            if fact is None:
                body = self.rewrite(body)
            else:
                atom, rising = fact
                body = self._where(atom, True, n == (0 if rising else 1), body)
            result = body if end is None or result is None else IfThenElse(compare(ex.LT, var, end), body, result)
        self._bounds[var] = bounds
        assert result is not None
        return loop.replace(body=result)


def _least(factor: int, rest: tuple[dict[PrimExpr, int], int], extra: int) -> PrimExpr:
    """The least `v` with `factor * v + rest + extra >= 0`, or for a negative factor the least without that."""
    terms, constant = rest
    # factor > 0: v >= -(rest + extra) / factor, rounded up. factor < 0: v > (rest + extra) / -factor.
    constant += extra
    if factor > 0:
        negated = {t: -c for t, c in terms.items()}
        form, shift, by = (negated, -constant + factor - 1), 0, factor
    else:
        form, shift, by = (terms, constant), 1, -factor
    if not form[0]:
        return const(form[1] // by + shift, INT64)
    return add(floordiv(from_linear(form, INT64), by), shift)


def _are_vectors(loop: For, cuts: list[int]) -> bool:
    """Whether the parts of a vectorised loop have lengths of vectors; else a mask does better."""
    assert isinstance(loop.min, IntImm) and isinstance(loop.extent, IntImm)
    places = [loop.min.value, *cuts, loop.min.value + loop.extent.value]
    return all((b - a) & (b - a - 1) == 0 for a, b in itertools.pairwise(places))


def _has_guards(s: Stmt) -> bool:
    stack: list[Stmt] = [s]
    while stack:
        n = stack.pop()
        if isinstance(n, IfThenElse):
            return True
        stack.extend(c for c in children(n) if isinstance(c, Stmt))
    return False


def _guards(s: Stmt, bounds: dict[Var, Bound], inner: dict[Var, Bound]) -> list[PrimExpr]:
    """The comparisons in conditions below `s`; the ranges of what is defined there go into `inner`."""
    found: dict[PrimExpr, None] = {}

    def walk(n: Stmt) -> None:
        if isinstance(n, For):
            inner[n.loop_var] = bounds[n.loop_var] = range_of(n, bounds)
        elif isinstance(n, LetStmt):
            inner[n.var] = bounds[n.var] = const_bound(n.value, bounds) if n.var.dtype.is_int else Bound(None, None)
        elif isinstance(n, IfThenElse):
            found.update(dict.fromkeys(a for a in atoms_of(n.condition, ex.And, ex.Or, ex.Not)))
        for c in children(n):
            if isinstance(c, Stmt):
                walk(c)

    walk(s)
    return list(found)


def _may_fail(e: PrimExpr) -> bool:
    stack: list[Any] = [e]
    while stack:
        n = stack.pop()
        if isinstance(n, (Call, ex.Div, ex.Mod, ex.FloorDiv, ex.FloorMod)):
            return True
        stack.extend(children(n))
    return False
