"""Races that a program has and another has not: running both in order does not tell them apart."""

from __future__ import annotations

from tscript.analysis import Finding, check
from tscript.ir.function import PrimFunc
from tscript.ir.functor import post_order_visit
from tscript.ir.stmt import AttrStmt, For, ForKind

_AT_ONCE = (ForKind.PARALLEL, ForKind.VECTORIZED, ForKind.THREAD_BINDING)


class Races:
    """What iterations of a function may do to each other. It is found out when it is first asked for."""

    def __init__(self, func: PrimFunc) -> None:
        self._func = func
        self._found: list[Finding] | None = None

    @property
    def found(self) -> list[Finding]:
        """All races, those that are proven first."""
        if self._found is None:
            self._found = [*check(self._func, kinds=("race",))] if runs_at_once(self._func) else []
        return self._found

    def new_in(self, after: PrimFunc) -> list[Finding]:
        """Races of another function on memory on which this one has none; those that are proven first.

        Memory on which races were possible counts as clear of proven ones.
        """
        new = Races(after).found
        if not new:
            return []
        proven = {f.buffer for f in self.found if f.is_proven}
        possible = {f.buffer for f in self.found}
        return [f for f in new if f.buffer not in (proven if f.is_proven else possible)]


def runs_at_once(func: PrimFunc) -> bool:
    """Whether a function has loops whose iterations do not run in order."""
    found: list[object] = []

    def look(node: object) -> None:
        if (isinstance(node, For) and node.kind in _AT_ONCE) or (
            isinstance(node, AttrStmt) and node.attr_key in ("thread_extent", "virtual_thread")
        ):
            found.append(node)

    post_order_visit(func.body, look)
    return bool(found)


__all__ = ["Races", "runs_at_once"]
