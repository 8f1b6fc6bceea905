"""Whether the lanes of a vectorised loop may run in step: each statement for all of them before the next one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from tscript.ir.expr import PrimExpr, Var
from tscript.ir.functor import children, substitute
from tscript.ir.occurrences import reads_memory
from tscript.ir.stmt import For, LetStmt, Stmt
from tscript.lower.memories import Access, Accesses, Memories, index_form, is_invariant


class NotVector(Exception):
    """A part that has no vector form, or lanes that depend on each other."""


class _Place(NamedTuple):
    """The index of an access: `factor` times the loop's variable, terms that stay, others, and a constant."""

    factor: int
    fixed: dict[PrimExpr, int]
    moving: tuple[int, ...]
    constant: int


def require_independent(loop: For, lanes: int, memories: Memories, free: Mapping[Any, None]) -> None:
    """Raise NotVector unless running groups of `lanes` iterations in step leaves what running them in turn does.

    `free` holds accesses that need no check among themselves: those of a sum that is recognised as such.
    """
    inside = Accesses()
    inside.statement(loop.body)
    if inside.is_opaque:
        raise NotVector
    values = _named_values(loop.body)
    found = [a for a in inside.found if a.data not in inside.defined]
    places: dict[int, _Place | None] = {}
    for n, w in enumerate(found):
        if not w.is_store:
            continue
        for m, a in enumerate(found):
            if not memories.may_overlap(w.data, a.data) or (n == m and not w.loops):
                # Lanes of one store are written in their order.
                continue
            if a.is_store and m < n:
                continue
            if w.node in free and a.node in free:
                continue
            if w.data is not a.data or w.node.buffer.dtype is not a.node.buffer.dtype:
                raise NotVector
            for k in (n, m):
                if k not in places:
                    places[k] = _place(found[k], loop.loop_var, inside.defined, values)
            p, q = places[n], places[m]
            if p is None or q is None or _may_meet(p, q, lanes, _order(w, a, n, m)):
                raise NotVector


def _order(w: Access, a: Access, n: int, m: int) -> int:
    """1 if the store always comes first in a lane, -1 if the other access does, 0 if either may."""
    return 0 if w.loops or a.loops else 1 if n < m else -1


def _may_meet(w: _Place, a: _Place, lanes: int, order: int) -> bool:
    """Whether two lanes may touch the same element in another order than in turn."""
    moves = [*w.moving, *a.moving]
    for term in {**w.fixed, **a.fixed}:
        left = w.fixed.get(term, 0) - a.fixed.get(term, 0)
        if left:
            moves.append(left)
    step = math.gcd(*moves) if moves else 0
    apart = w.constant - a.constant
    if w.factor != a.factor:
        # Where the loop starts matters too; such pairs are rare.
        return True
    for t in range(1 - lanes, lanes):
        # `t`: the lane of the store less that of the other access. In turn, the lower lane comes first; in step,
        # what is first in a lane is so for all lanes.
        if t == 0 or (order > 0 and t < 0) or (order < 0 and t > 0):
            continue
        gap = w.factor * t + apart
        if gap == 0 or (step and gap % step == 0):
            return True
    return False


def _place(access: Access, var: Var, defined: Mapping[Var, None], values: Mapping[Var, PrimExpr]) -> _Place | None:
    if len(access.node.indices) != 1:
        return None
    terms, constant = index_form(_inlined(access.node.indices[0], values))
    factor, fixed, moving = 0, dict[PrimExpr, int](), list[int]()
    changing = {var: None, **defined}
    for term, c in terms.items():
        if term is var:
            factor = c
        elif is_invariant(term, dict(changing)):
            fixed[term] = c
        elif _depends(term, var, values):
            return None
        else:
            moving.append(c)
    return _Place(factor, fixed, tuple(moving), constant)


def _named_values(body: Stmt) -> dict[Var, PrimExpr]:
    found: dict[Var, PrimExpr] = {}
    stack: list[Any] = [body]
    while stack:
        s = stack.pop()
        if isinstance(s, LetStmt):
            found[s.var] = s.value
        stack.extend(c for c in children(s) if isinstance(c, Stmt))
    return found


def _inlined(e: PrimExpr, values: Mapping[Var, PrimExpr]) -> PrimExpr:
    """`e` with names replaced by their values, where these do not read memory."""
    if not values:
        return e
    pure = {v: x for v, x in values.items() if not reads_memory(x)}
    for _ in range(len(pure)):
        new: PrimExpr = substitute(e, pure)
        if new is e:
            break
        e = new
    return e


def _depends(e: PrimExpr, var: Var, values: Mapping[Var, PrimExpr]) -> bool:
    """Whether `e` may differ from lane to lane: it has the variable, or a name for a value that has."""
    seen: set[Any] = set()
    stack: list[Any] = [e]
    while stack:
        node = stack.pop()
        if node is var:
            return True
        if node in seen:
            continue
        seen.add(node)
        if node in values:
            stack.append(values[node])
        stack.extend(children(node))
    return False


__all__ = ["NotVector", "require_independent"]
