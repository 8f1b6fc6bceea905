"""Register tiles: elements that a loop goes back to in every iteration are kept in registers across it.

A tile is a set of elements, single ones or vectors, of one memory whose places do not change while the loop runs.
It becomes a small buffer in scope "local" whose subscripts are constants: loaded before the loop, used inside,
stored after it. A back end turns such a buffer into values that no memory is needed for.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tscript.ir.buffer import Buffer, decl_buffer
from tscript.ir.construct import compare, const
from tscript.ir.expr import GT, BufferLoad, IntImm, PrimExpr, Ramp, Var
from tscript.ir.function import PrimFunc
from tscript.ir.functor import Rewriter
from tscript.ir.stmt import Allocate, BufferStore, For, ForKind, IfThenElse, Stmt, seq
from tscript.lower.blocks import allocated
from tscript.lower.memories import Access, Accesses, Memories, index_form, is_invariant

MAX_ELEMENTS: Final = 64
"""Tiles of more vectors (or single elements) stay in memory: no machine has so many registers."""

_Key = tuple[PrimExpr, PrimExpr | None]


def promote_tiles(func: PrimFunc) -> PrimFunc:
    """Keep the elements that loops go back to in registers. Expects flat buffers and no vectorised loops."""
    return func.replace(body=_Promote(Memories(func)).rewrite(func.body))


@dataclass(slots=True, eq=False)
class _Element:
    """An element of a tile, by the first access to it.

    `may_be_new`: nothing need be stored in it when that access comes.
    """

    node: Any
    loaded_first: bool
    stored: bool = False
    may_be_new: bool = False


class _Promote(Rewriter):
    memoize = False

    def __init__(self, memories: Memories) -> None:
        super().__init__()
        self._memories = memories
        self._around: list[For | Allocate] = []
        self._kept: dict[Var, None] = {}

    def rewrite_Allocate(self, memory: Allocate) -> Any:
        self._around.append(memory)
        try:
            return self.rewrite_children(memory)
        finally:
            self._around.pop()

    def rewrite_For(self, loop: For) -> Any:
        self._around.append(loop)
        try:
            return self._loop(loop)
        finally:
            self._around.pop()

    def _loop(self, loop: For) -> Any:
        if loop.kind == ForKind.PARALLEL or (isinstance(loop.extent, IntImm) and loop.extent.value <= 1):
            return self.rewrite_children(loop)
        tiles = self._tiles(loop)
        if not tiles:
            return self.rewrite_children(loop)
        for tile in tiles:
            self._skip_dead_loads(loop, tile)
        outer = self._kept
        self._kept = {**outer, **{e.node.buffer.data: None for tile in tiles for e in tile.values()}}
        body = self.rewrite(loop.body)
        self._kept = outer
        return _in_registers(loop.replace(body=body), tiles)

    def _skip_dead_loads(self, loop: For, tile: dict[_Key, _Element]) -> None:
        """Do not load elements into which nothing was stored when the loop begins."""
        unsure = [e for (_, predicate), e in tile.items() if e.loaded_first and e.may_be_new and predicate is None]
        if unsure and self._is_unwritten(loop, unsure[0].node.buffer.data, [index for index, _ in tile]):
            for e in unsure:
                e.loaded_first = False

    def _is_unwritten(self, loop: For, data: Var, indices: Sequence[PrimExpr]) -> bool:
        """Whether memory at `indices` was written by nothing before `loop`, which stores nowhere else in it.

        So it is where only the loop writes that memory, and each time that it runs, it is at places of its own.
        """
        depth = next((n for n, s in enumerate(self._around) if isinstance(s, Allocate) and s.buffer_var is data), None)
        if depth is None or not self._memories.is_private(data):
            return False
        everywhere, inside = Accesses(), Accesses()
        everywhere.statement(self._around[depth])
        inside.statement(loop)
        stores = [sum(a.is_store and a.data is data for a in found) for found in (everywhere.found, inside.found)]
        if everywhere.is_opaque or stores[0] != stores[1]:
            return False
        loops = [s for s in self._around[depth:-1] if isinstance(s, For)]
        return _are_apart(indices, {s.loop_var: s.extent for s in loops})

    def _tiles(self, loop: For) -> list[dict[_Key, _Element]]:
        inside = Accesses()
        inside.defined[loop.loop_var] = None
        inside.statement(loop.body)
        if inside.is_opaque:
            return []
        by_memory: dict[Var, list[Access]] = {}
        for a in inside.found:
            by_memory.setdefault(a.data, []).append(a)
        tiles: list[dict[_Key, _Element]] = []
        for data, here in by_memory.items():
            if (
                data in inside.defined
                or data in self._kept
                or not any(a.is_store for a in here)
                or all(map(_is_register, here))
            ):
                continue
            if any(self._memories.may_overlap(data, other) for other in by_memory if other is not data):
                continue
            tile = _tile(here, inside.defined)
            if tile is not None:
                tiles.append(tile)
        return tiles


def _is_register(a: Access) -> bool:
    """Whether the access is to what back ends keep in registers already."""
    return a.node.buffer.scope() == "local" and all(isinstance(i, IntImm) for i in a.node.indices)


def _tile(here: Sequence[Access], changing: dict[Var, None]) -> dict[_Key, _Element] | None:
    """The elements that `here` accesses, if their places are seen to be the same in all iterations, and disjoint."""
    tile: dict[_Key, _Element] = {}
    certain: set[_Key] = set()
    for a in here:
        node = a.node
        if node.buffer.dtype is not here[0].node.buffer.dtype or len(node.indices) != 1:
            return None
        key: _Key = (node.indices[0], node.predicate)
        if key not in tile:
            if not all(is_invariant(e, changing) for e in key if e is not None):
                return None
            # Where the first thing is a store, what was there before does not matter.
            kept = a.is_store and a.certain and node.predicate is None
            tile[key] = _Element(node, not kept, may_be_new=a.is_store or not a.certain)
            if len(tile) > MAX_ELEMENTS:
                return None
        tile[key].stored |= a.is_store
        if a.certain:
            certain.add(key)
    # An element that is accessed under a condition only may not even exist.
    return tile if len(certain) == len(tile) and _are_disjoint([index for index, _ in tile]) else None


def _are_disjoint(indices: Sequence[PrimExpr]) -> bool:
    spans: list[tuple[int, int]] = []
    terms: dict[PrimExpr, int] | None = None
    for index in indices:
        start, last = index, 0
        if isinstance(index, Ramp):
            if not isinstance(index.stride, IntImm) or index.stride.value <= 0:
                return False
            start, last = index.base, index.stride.value * (index.lanes - 1)
        if start.dtype.lanes != 1:
            return False
        found, constant = index_form(start)
        if terms is not None and found != terms:
            return False
        terms = found
        spans.append((constant, constant + last))
    spans.sort()
    return all(end < start for (_, end), (start, _) in itertools.pairwise(spans))


def _are_apart(indices: Sequence[PrimExpr], loops: Mapping[Var, PrimExpr]) -> bool:
    """Whether disjoint places, which differ by constants, are others in each iteration of `loops`."""
    first: list[int] = []
    last: list[int] = []
    terms: dict[PrimExpr, int] = {}
    for index in indices:
        base, length = index, 0
        if isinstance(index, Ramp) and isinstance(index.stride, IntImm):
            base, length = index.base, index.stride.value * (index.lanes - 1)
        terms, constant = index_form(base)
        first.append(constant)
        last.append(constant + length)
    if any(t not in loops for t in terms) or any(v not in terms and not _is_one(n) for v, n in loops.items()):
        return False
    steps: list[tuple[int, int]] = []
    for v, factor in terms.items():
        extent = loops[v] if isinstance(v, Var) else None
        if not isinstance(extent, IntImm):
            return False
        steps.append((abs(factor), extent.value))
    width = max(last) - min(first) + 1
    for factor, extent in sorted(steps):
        if factor < width:
            return False
        width += factor * (extent - 1)
    return True


def _is_one(e: PrimExpr) -> bool:
    return isinstance(e, IntImm) and e.value == 1


def _in_registers(loop: For, tiles: Sequence[dict[_Key, _Element]]) -> Stmt:
    registers: dict[tuple[Var, _Key], tuple[Buffer, PrimExpr]] = {}
    memory: list[Buffer] = []
    before: list[Stmt] = []
    after: list[Stmt] = []
    for tile in tiles:
        by_lanes: dict[int, list[_Key]] = {}
        for key in tile:
            by_lanes.setdefault(key[0].dtype.lanes, []).append(key)
        for lanes, keys in by_lanes.items():
            source: Buffer = tile[keys[0]].node.buffer
            dtype = source.dtype.with_lanes(source.dtype.lanes * lanes)
            kept = decl_buffer((len(keys),), str(dtype), f"{source.name}_tile", scope="local")
            memory.append(kept)
            for n, key in enumerate(keys):
                element, at = tile[key], (const(n),)
                registers[source.data, key] = kept, at[0]
                index, predicate = key
                buffer: Buffer = element.node.buffer
                if element.loaded_first:
                    before.append(BufferStore(kept, BufferLoad(buffer, (index,), predicate), at))
                if element.stored:
                    after.append(BufferStore(buffer, BufferLoad(kept, at), (index,), predicate))
    whole = seq(*before, _Replace(registers).rewrite(loop), *after)
    if not isinstance(loop.extent, IntImm):
        # Without iterations nothing is accessed.
        whole = IfThenElse(compare(GT, loop.extent, 0), whole)
    for buffer in reversed(memory):
        whole = allocated(buffer, whole)
    return whole


class _Replace(Rewriter):
    """Accesses to elements of tiles become accesses to registers."""

    def __init__(self, registers: dict[tuple[Var, _Key], tuple[Buffer, PrimExpr]]) -> None:
        super().__init__()
        self._registers = registers

    def leave_BufferLoad(self, load: BufferLoad) -> Any:
        found = self._registers.get((load.buffer.data, (load.indices[0], load.predicate)))
        return load if found is None else BufferLoad(found[0], (found[1],))

    def leave_BufferStore(self, store: BufferStore) -> Any:
        found = self._registers.get((store.buffer.data, (store.indices[0], store.predicate)))
        return store if found is None else BufferStore(found[0], store.value, (found[1],), span=store.span)
