"""Tensor intrinsics made to fit: what a schedule computes in a tile, as a function of the tile's buffers.

The description repeats what the tile computes, in places of its own. So `tensorize` finds it where the tile moves
through memory as a tile does, and must refuse it where anything depends on which tile it is.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tscript.analysis.ranges import range_bounds
from tscript.arith import simplify
from tscript.ir import construct as make
from tscript.ir.base import Node
from tscript.ir.buffer import Buffer, decl_buffer
from tscript.ir.expr import Add, BufferLoad, FloatImm, IntImm, Mul, PrimExpr, Range, Sub, Var
from tscript.ir.function import PrimFunc
from tscript.ir.functor import Rewriter, post_order_visit
from tscript.ir.hashing import structural_hash
from tscript.ir.stmt import Block, BlockRealize, BufferRegion, BufferStore, Stmt
from tscript.ir.tensor_intrin import TensorIntrin
from tscript.schedule.rewrite import fresh_copy
from tscript.schedule.symbols import axis_ranges


@dataclass(frozen=True)
class Tile:
    """What a block computes: its body, and the part of each buffer that it uses, by where it starts."""

    block: Block
    parts: Mapping[Buffer, tuple[Range, ...]]

    @staticmethod
    def of(block: Block) -> Tile:
        """The tile that a block is. A buffer of which it uses several parts, or some of no known size, is one whole."""
        parts: dict[Buffer, tuple[Range, ...]] = {}
        for region in (*block.writes, *block.reads):
            ranges = region.region
            known = parts.setdefault(region.buffer, ranges)
            same = all(a.min is b.min and a.extent is b.extent for a, b in zip(known, ranges, strict=True))
            if not same or not all(isinstance(r.extent, IntImm) for r in ranges):
                parts[region.buffer] = _all_of(region.buffer)
        return Tile(block, parts)

    def function(self, name: str, strided: bool, wrong: int | None = None) -> PrimFunc:
        """The tile as a function: a description, or, `strided`, an implementation for rows at any distance.

        With `wrong`, a number to draw with, it computes something else in one place.
        """
        buffers: dict[Buffer, Buffer] = {}
        for old, ranges in self.parts.items():
            shape = [r.extent for r in ranges]
            strides = [Var(f"{old.name}_s{d}", shape[d].dtype) for d in range(len(shape))] if strided else None
            buffers[old] = decl_buffer(
                shape, str(old.dtype), old.name, strides=strides, scope=old.scope(), offset_factor=1
            )
        body: Stmt = fresh_copy(_OnItsOwn(self, buffers).rewrite(self.block.body))
        if wrong is not None:
            body = _changed_somewhere(body, random.Random(wrong))
        whole = [(BufferRegion(new, _all_of(new)), old) for old, new in buffers.items()]
        written = {r.buffer for r in self.block.writes}
        read = {r.buffer for r in self.block.reads}
        root = Block(
            (), tuple(r for r, b in whole if b in read), tuple(r for r, b in whole if b in written), "root", body
        )
        handles = {Var(f"{b.name}_handle", "handle"): b for b in buffers.values()}
        body = BlockRealize((), IntImm("bool", 1), root)
        return PrimFunc(tuple(handles), body, buffer_map=handles).with_attr("global_symbol", name)


def _all_of(buffer: Buffer) -> tuple[Range, ...]:
    return tuple(Range.from_min_extent(IntImm(s.dtype, 0), s) for s in buffer.shape)


class _OnItsOwn(Rewriter):
    """The body of a tile with positions counted from where its parts start, in the first tile of all."""

    def __init__(self, tile: Tile, buffers: Mapping[Buffer, Buffer]) -> None:
        super().__init__()
        self.parts = tile.parts
        self.given = buffers
        inner: dict[Var, None] = {}
        ranges = axis_ranges(tile.block)
        post_order_visit(tile.block.body, lambda n: _note_defined(n, inner, ranges))
        self.inner = inner
        self.bounds = range_bounds(ranges)

    def rewrite_buffer(self, buffer: Buffer) -> Buffer:
        """The parameter that stands for a buffer."""
        return self.given.get(buffer, buffer)

    def rewrite_Var(self, node: Var) -> PrimExpr:
        """What is defined outside has its first value."""
        outside = node not in self.inner and not node.dtype.is_handle
        return IntImm(node.dtype, 0) if outside and node.dtype.is_integer else node

    def _index(self, index: PrimExpr, part: Range) -> PrimExpr:
        return self.rewrite(simplify(make.sub(index, part.min), self.bounds))

    def _indices(self, node: Any) -> dict[str, Any]:
        pairs = zip(node.indices, self.parts[node.buffer], strict=True)
        return {"buffer": self.given[node.buffer], "indices": tuple(self._index(i, p) for i, p in pairs)}

    def rewrite_BufferLoad(self, node: BufferLoad) -> PrimExpr:
        """A load from a parameter."""
        return node.replace(**self._indices(node)) if node.buffer in self.given else self.rewrite_children(node)

    def rewrite_BufferStore(self, node: BufferStore) -> Stmt:
        """A store to a parameter."""
        if node.buffer not in self.given:
            return self.rewrite_children(node)
        return node.replace(value=self.rewrite(node.value), **self._indices(node))

    def rewrite_BufferRegion(self, node: BufferRegion) -> BufferRegion:
        """A region of a parameter."""
        if node.buffer not in self.given:
            return self.rewrite_children(node)
        pairs = zip(node.region, self.parts[node.buffer], strict=True)
        ranges = (Range.from_min_extent(self._index(r.min, p), self.rewrite(r.extent)) for r, p in pairs)
        return BufferRegion(self.given[node.buffer], tuple(ranges))


def _note_defined(node: Node, found: dict[Var, None], ranges: dict[Var, Range]) -> None:
    var = getattr(node, "loop_var", None)
    if isinstance(var, Var):
        found[var] = None
    elif isinstance(node, Block):
        found.update((a.var, None) for a in node.iter_vars)
        ranges.update(axis_ranges(node))
    elif isinstance(getattr(node, "var", None), Var):
        found[node.var] = None  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownArgumentType]


def _changed_somewhere(body: Stmt, rng: random.Random) -> Stmt:
    """A body with one operation, number or order of subscripts changed; itself where there is nothing to change."""
    stores: list[BufferStore] = []
    post_order_visit(body, lambda n: stores.append(n) if isinstance(n, BufferStore) else None)
    places: list[PrimExpr] = []

    def look(node: Any) -> None:
        exchangeable = isinstance(node, BufferLoad) and len(node.indices) > 1
        if isinstance(node, (Add, Sub, Mul, FloatImm)) or exchangeable:
            places.append(node)

    for s in stores:
        post_order_visit(s.value, look)
    if not places:
        return body
    return _Changed(rng.choice(places)).rewrite(body)


class _Changed(Rewriter):
    def __init__(self, place: PrimExpr) -> None:
        super().__init__()
        self.place = place

    def rewrite_BufferStore(self, node: BufferStore) -> Stmt:
        """Only what is stored changes."""
        return node.replace(value=self.rewrite(node.value))

    def _leave(self, node: Any) -> Any:
        if node is not self.place:
            return node
        if isinstance(node, FloatImm):
            return FloatImm(node.dtype, node.value + 1.0)
        if isinstance(node, Add):
            return Sub(node.a, node.b)
        if isinstance(node, BufferLoad):
            return node.replace(indices=tuple(reversed(node.indices)))
        return Add(node.a, node.b)


def register_tile(desc: PrimFunc, impl: PrimFunc) -> str:
    """Register a pair under a name that says what it is, so that the same pair has the same name; the name."""
    name = f"random_tile_{structural_hash(desc):x}_{structural_hash(impl):x}"
    TensorIntrin.register(name, desc, impl, override=True)
    return name


__all__ = ["Tile", "register_tile"]
