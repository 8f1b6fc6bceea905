"""How large the tiles of a product are that stay in vector registers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tscript.target.vector_registers import VectorRegisters

_LATENCY = 4
"""Steps until the result of a multiply-add can be added to: so many times two must be under way."""


@dataclass(frozen=True)
class Tile:
    """`rows` x `vectors` registers of results, of `lanes` each."""

    rows: int
    vectors: int
    lanes: int

    @property
    def columns(self) -> int:
        """How many columns it has."""
        return self.vectors * self.lanes


def choose_tile(
    rows: int | None, columns: int | None, bits: int, registers: VectorRegisters, widths: Sequence[int] = (4, 3, 2, 1)
) -> Tile:
    """The tile that covers `rows` x `columns` results in the fewest steps.

    A step of the reduction takes as long as its multiply-adds, two at a time, or its loads, two at a time, or what
    keeps both units busy while results are under way. Rows past the end of the last tile cost nothing, since that is a
    tile of its own, columns past the end do: they are computed and dropped. Of equal ones the widest, which reads
    least of the left operand. Tiles are as wide as one of `widths` says, in vectors.

    >>> choose_tile(1024, 1024, 32, VectorRegisters(64, 32))
    Tile(rows=6, vectors=4, lanes=16)
    >>> choose_tile(4096, 8, 32, VectorRegisters(32, 16))
    Tile(rows=14, vectors=1, lanes=8)
    """
    lanes = registers.lanes(bits)
    best: tuple[float, Tile] | None = None
    for vectors in widths:
        for count in range(registers.rows_beside(vectors), 0, -1):
            if rows is not None and count > max(rows, 1):
                continue
            tile = Tile(count, vectors, lanes)
            cost = _steps(tile, rows or 1024, columns or 1024)
            if best is None or cost < best[0] * 0.999:
                best = cost, tile
    assert best is not None
    return best[1]


def _steps(tile: Tile, rows: int, columns: int) -> float:
    whole, rest = divmod(rows, tile.rows)
    panels = -(-columns // tile.columns)
    return panels * (whole * _step(tile.rows, tile.vectors) + (_step(rest, tile.vectors) if rest else 0.0))


def _step(rows: int, vectors: int) -> float:
    return max(rows * vectors / 2, (rows + vectors) / 2, float(_LATENCY))


__all__ = ["Tile", "choose_tile"]
