"""Square tiles that are stored by rows and loaded by columns, in registers: what a transpose consists of.

A tile of `n` vectors of `n` lanes in memory of scope "local" becomes `n` values, and its columns are made from them by
shuffles of two vectors each, `n` in each of log2(n) steps. Expects flat buffers and no vectorised loops.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from tscript.ir.construct import const
from tscript.ir.expr import BufferLoad, IntImm, PrimExpr, Ramp, Shuffle, Var
from tscript.ir.function import PrimFunc
from tscript.ir.functor import Rewriter
from tscript.ir.stmt import Allocate, BufferStore, DeclBuffer, LetStmt, SeqStmt, Stmt, seq
from tscript.lower.memories import Accesses, index_form

LONGEST: Final = 16
"""Lanes of the longest vectors that are shuffled: all rows of a tile, and as many results, lie in registers."""


def shuffle_tiles(func: PrimFunc) -> PrimFunc:
    """Keep tiles that are written by rows and read by columns in registers."""
    found = Accesses()
    found.statement(func.body)
    if found.is_opaque or not any(_column(a.node) for a in found.found if not a.is_store):
        return func
    uses: dict[Var, int] = {}
    for a in found.found:
        if a.data in found.defined:
            uses[a.data] = uses.get(a.data, 0) + 1
    tiles = _Tiles(uses)
    body = tiles.rewrite(func.body)
    return func.replace(body=_Forget(tiles.gone).rewrite(body)) if tiles.gone else func


def _column(node: Any) -> int:
    """How many elements a load of local memory takes, of as many rows that do not overlap; 0 for any other access."""
    index = node.indices[0] if len(node.indices) == 1 else None
    if node.buffer.scope() != "local" or node.buffer.dtype.lanes != 1 or node.predicate is not None:
        return 0
    if not isinstance(index, Ramp) or not isinstance(index.stride, IntImm):
        return 0
    lanes, stride = index.lanes, index.stride.value
    return lanes if 2 < lanes <= min(LONGEST, stride) and not lanes & (lanes - 1) else 0


@dataclass(frozen=True)
class _Tile:
    """Where the rows and columns of a tile are, among statements: row or column by identity of the access."""

    data: Var
    lanes: int
    rows: dict[int, int]
    columns: dict[int, int]


class _Tiles(Rewriter):
    memoize = False

    def __init__(self, uses: dict[Var, int]) -> None:
        super().__init__()
        self._uses = uses
        self.gone: dict[Var, None] = {}

    def rewrite_SeqStmt(self, s: SeqStmt) -> Any:
        tile = self._tile(s)
        if tile is None:
            return self.rewrite_children(s)
        self.gone[tile.data] = None
        return _in_values(s.seq, tile)

    def _tile(self, s: SeqStmt) -> _Tile | None:
        """The first tile that is used in a run of stores and nowhere else."""
        if not all(isinstance(part, BufferStore) for part in s.seq):
            return None
        inside = Accesses()
        inside.statement(s)
        for a in inside.found:
            lanes = 0 if a.is_store or a.data in self.gone else _column(a.node)
            here = [o for o in inside.found if o.data is a.data]
            if lanes and len(here) == self._uses.get(a.data):
                tile = _tile(a.data, lanes, [o.node for o in here])
                if tile is not None:
                    return tile
        return None


def _tile(data: Var, lanes: int, nodes: list[Any]) -> _Tile | None:
    """The tile whose accesses, in order, are `nodes`: first a store of each row, then loads of columns."""
    if not _column(nodes[-1]):
        return None
    rows: dict[int, int] = {}
    columns: dict[int, int] = {}
    base: dict[PrimExpr, int] | None = None
    first, pitch = 0, nodes[-1].indices[0].stride.value
    for n, node in enumerate(nodes):
        index = node.indices[0] if len(node.indices) == 1 else None
        if not isinstance(index, Ramp) or index.lanes != lanes or not isinstance(index.stride, IntImm):
            return None
        terms, at = index_form(index.base)
        if base is None:
            base, first = terms, at
        offset = at - first
        if terms != base or node.predicate is not None or isinstance(node, BufferStore) != (n < lanes):
            return None
        if n < lanes:
            # Rows in their order, so that the first one is where the tile begins.
            if index.stride.value != 1 or offset != n * pitch:
                return None
            rows[id(node)] = n
        else:
            if index.stride.value != pitch or not 0 <= offset < lanes:
                return None
            columns[id(node)] = offset
    return _Tile(data, lanes, rows, columns) if len(rows) == lanes and columns else None


def _in_values(parts: tuple[Stmt, ...], tile: _Tile) -> Stmt:
    around: list[tuple[Var, PrimExpr, list[Stmt]]] = []
    current: list[Stmt] = []
    rows: list[PrimExpr] = []
    replace = _Columns(tile)
    for part in parts:
        assert isinstance(part, BufferStore)
        if id(part) not in tile.rows:
            current.append(replace.rewrite(part))
            continue
        rows.append(_named(around, current, part.value))
        current = []
        if len(rows) == tile.lanes:
            replace.values = _transposed(around, rows)
    result = seq(*current)
    for var, value, before in reversed(around):
        result = seq(*before, LetStmt(var, value, result))
    return result


def _named(around: list[tuple[Var, PrimExpr, list[Stmt]]], before: list[Stmt], value: PrimExpr) -> Var:
    """A name for `value`, taken after the statements `before`."""
    var = Var("row", str(value.dtype))
    around.append((var, value, before))
    return var


def _transposed(around: list[tuple[Var, PrimExpr, list[Stmt]]], rows: list[PrimExpr]) -> list[PrimExpr]:
    """Names for the columns: each step interleaves the first half of the vectors with the second."""
    count = len(rows)
    halves = [
        tuple(const(start + i // 2 + (i % 2) * count) for i in range(count)) for start in (0, count // 2)
    ]  # fmt: skip
    for _ in range(count.bit_length() - 1):
        pairs = zip(rows[: count // 2], rows[count // 2 :], strict=True)
        rows = [_named(around, [], Shuffle((a, b), half)) for a, b in pairs for half in halves]
    return rows


class _Columns(Rewriter):
    """Loads of columns become their values."""

    memoize = False

    def __init__(self, tile: _Tile) -> None:
        super().__init__()
        self._tile = tile
        self.values: list[PrimExpr] = []

    def rewrite_BufferLoad(self, load: BufferLoad) -> Any:
        column = self._tile.columns.get(id(load))
        return self.rewrite_children(load) if column is None else self.values[column]


class _Forget(Rewriter):
    """Without the memory that is not used any more."""

    memoize = False

    def __init__(self, gone: dict[Var, None]) -> None:
        super().__init__()
        self._gone = gone

    def leave_Allocate(self, s: Allocate) -> Any:
        return s.body if s.buffer_var in self._gone else s

    def leave_DeclBuffer(self, s: DeclBuffer) -> Any:
        return s.body if s.buffer.data in self._gone else s


__all__ = ["shuffle_tiles"]
