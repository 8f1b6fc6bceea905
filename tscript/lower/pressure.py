"""How many vector registers the tiles of a loop need: more than there are go through memory in every iteration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tscript.ir.base import Node
from tscript.ir.dtype import DataType
from tscript.ir.expr import Broadcast, BufferLoad, IntImm, PointerType, PrimExpr, Var
from tscript.ir.function import PrimFunc
from tscript.ir.functor import post_order_visit
from tscript.ir.stmt import Allocate, BufferStore, For


@dataclass(frozen=True, slots=True)
class RegisterFile:
    """The vector registers of a machine: how many, and the bytes of each."""

    count: int
    bytes: int

    def needed(self, dtype: DataType) -> int:
        """Registers that a value takes."""
        # There is no arithmetic on narrower floats than of 32 bits.
        wide = max(dtype.bytes, 4) if dtype.is_float else dtype.bytes
        return max(-(-wide * dtype.lanes // self.bytes), 1)


@dataclass(frozen=True, slots=True)
class Spill:
    """A loop whose tiles, with what is combined with them, need more registers than there are."""

    loop: str
    tile: str
    vectors: int
    kind: str
    held: int
    operands: int
    available: int

    def __str__(self) -> str:
        values = f"{self.vectors} values of type {self.kind}"
        fits = max(self.available - self.operands, 1)
        return (
            f"the loop over {self.loop} keeps the tile {self.tile} ({values}) in {self.held} vector registers and "
            f"needs {self.operands} more for operands, but the target has {self.available}: part of it goes "
            f"through memory in each iteration\n"
            f"  try: unroll or vectorize less around this loop, to at most {fits} registers"
        )


def find_spills(func: PrimFunc, registers: RegisterFile) -> list[Spill]:
    """Loops of the lowered `func` whose register tiles do not fit. One for each nest: what is inside says no more."""
    tiles = _tiles(func)
    if sum(registers.needed(d) * n for d, n in tiles.values()) < registers.count:
        return []
    found: list[Spill] = []

    def visit(node: object) -> None:
        if isinstance(node, For):
            spill = _spill(node, tiles, registers)
            if spill is not None:
                found.append(spill)

    post_order_visit(func.body, visit)
    return list(dict.fromkeys(found))


def _tiles(func: PrimFunc) -> dict[Var, tuple[DataType, int]]:
    """Memory in scope "local", by the type and number of its elements."""
    tiles: dict[Var, tuple[DataType, int]] = {}

    def visit(node: object) -> None:
        if isinstance(node, Allocate):
            kind = node.buffer_var.type_annotation
            sizes = [e.value for e in node.extents if isinstance(e, IntImm)]
            if isinstance(kind, PointerType) and kind.storage_scope == "local" and len(sizes) == len(node.extents) == 1:
                tiles[node.buffer_var] = node.dtype, sizes[0]

    post_order_visit(func.body, visit)
    return tiles


def _spill(loop: For, tiles: dict[Var, tuple[DataType, int]], registers: RegisterFile) -> Spill | None:
    held: dict[tuple[Var, int], DataType] = {}
    names: dict[Var, str] = {}
    reads: dict[PrimExpr, int] = {}
    is_innermost = True
    moves = False

    def visit(node: Node) -> None:
        nonlocal is_innermost, moves
        match node:
            case For() if node is not loop:
                is_innermost = False
            case BufferLoad() | BufferStore() if node.buffer.data in tiles:
                (index,) = node.indices
                if isinstance(index, IntImm):
                    held[node.buffer.data, index.value] = node.buffer.dtype
                    names.setdefault(node.buffer.data, node.buffer.name)
                else:
                    moves = True  # its place is computed, so it is in memory anyway
            case BufferLoad():
                if node.dtype.lanes > 1:
                    reads.setdefault(node, registers.needed(node.dtype))
            case Broadcast() if isinstance(node.value, BufferLoad):
                reads.setdefault(node, 0)
            case _:
                pass

    post_order_visit(loop.body, visit)
    if not is_innermost or moves or not held:
        return None
    count = sum(registers.needed(d) for d in held.values())
    # Vectors that several sums use stay for as long; of elements that are spread over lanes, one is there at a time.
    operands = _together(loop, reads) + (1 if 0 in reads.values() else 0)
    if count + operands <= registers.count:
        return None
    of: dict[Var, list[DataType]] = {}
    for (data, _), dtype in held.items():
        of.setdefault(data, []).append(dtype)
    data, kinds = max(of.items(), key=lambda item: len(item[1]))
    tile = names[data].removesuffix("_tile")
    return Spill(loop.loop_var.name, tile, len(kinds), str(kinds[0]), count, operands, registers.count)


def _together(loop: For, reads: dict[PrimExpr, int]) -> int:
    """Registers of the vectors that more than one statement of `loop` uses."""
    users: dict[PrimExpr, int] = {}

    def visit(node: object) -> None:
        if isinstance(node, BufferStore):
            mine: dict[Node, None] = {}
            post_order_visit(node.value, mine.setdefault)
            for e in reads:
                users[e] = users.get(e, 0) + (e in mine)

    post_order_visit(loop.body, visit)
    return sum(reads[e] for e, n in users.items() if n > 1)


def describe(name: str, spills: Sequence[Spill]) -> str:
    """All spills of a function as one message."""
    more = f"\n  and {len(spills) - 1} more loops like it" if len(spills) > 1 else ""
    return f"{name}: {spills[0]}{more}"


__all__ = ["RegisterFile", "Spill", "describe", "find_spills"]
