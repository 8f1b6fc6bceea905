"""When two programs are the same workload."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tscript.ir.function import IRModule, PrimFunc
from tscript.ir.functor import Rewriter
from tscript.ir.hashing import structural_hash
from tscript.ir.stmt import AllocateConst, Block
from tscript.ir.structural import structural_equal
from tscript.meta_schedule.database.anchor import anchor_block


@dataclass(frozen=True)
class ModuleEquality:
    """A way to compare programs: what of a program counts. Equal programs have equal hashes."""

    kind: str
    _view: Callable[[IRModule], Any]

    def hash(self, mod: IRModule) -> int:
        """A 64-bit number that equal programs share."""
        return structural_hash(self._view(mod), map_free_vars=True)

    def equal(self, a: IRModule, b: IRModule) -> bool:
        """Whether two programs are the same workload."""
        return a is b or structural_equal(self._view(a), self._view(b), map_free_vars=True)

    @staticmethod
    def create(kind: str | ModuleEquality) -> ModuleEquality:
        """The comparison of a name: "structural" (all of both programs), "ignore-ndarray" (all but the values of
        constant arrays), or "anchor-block" (only the reduction with most work). ValueError for another name.

        >>> ModuleEquality.create("structural").kind
        'structural'
        """
        if isinstance(kind, ModuleEquality):
            return kind
        if kind not in _VIEWS:
            raise ValueError(f"module_equality is one of {', '.join(map(repr, _VIEWS))}, not {kind!r}")
        return ModuleEquality(kind, _VIEWS[kind])


def _whole(mod: IRModule) -> Any:
    # Names of functions count, their GlobalVar objects do not.
    return tuple(f for _, f in _named(mod)) if len(mod.functions) > 1 else next(iter(mod.functions.values()), ())


def _named(mod: IRModule) -> list[tuple[str, PrimFunc]]:
    return sorted(((v.name_hint, f) for v, f in mod.functions.items()), key=lambda item: item[0])


class _Blank(Rewriter):
    """Constant arrays without their values."""

    def rewrite_AllocateConst(self, s: AllocateConst) -> Any:
        data = np.asarray(s.data)
        body = self.rewrite(s.body)
        return AllocateConst(s.buffer_var, s.dtype, s.extents, np.zeros_like(data), body, s.annotations)


def _without_arrays(mod: IRModule) -> Any:
    blank = _Blank()
    return _whole(IRModule({name: f.with_body(blank.rewrite(f.body)) for name, f in _named(mod)}))


def _anchor(mod: IRModule) -> Any:
    found = anchor_block(mod)
    if found is None:
        return _without_arrays(mod)
    # What a block is called, and what users noted about it, does not change its work.
    return Block(
        found.iter_vars, found.reads, found.writes, "", found.body, found.init, found.alloc_buffers, found.match_buffers
    )


_VIEWS: dict[str, Callable[[IRModule], Any]] = {
    "structural": _whole,
    "ignore-ndarray": _without_arrays,
    "anchor-block": _anchor,
}
