"""Matrix fragments of a warp (WMMA): loads, fills, products and stores of whole tiles.

A fragment buffer holds its fragments where its elements would lie, so that both ways of using it agree: fragment
`index` is the tile of that number, row by row of tiles. Products are exact; sums go over k in order and are rounded to
float32 (or are integers that wrap), and once more when stored as float16. Hardware may sum up in another order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.lib.stride_tricks import as_strided

from tscript.interp.calls import pointer_of, special
from tscript.interp.emit import Gen, Val, View
from tscript.interp.exprs import expr
from tscript.interp.instructions import require_written, set_written
from tscript.interp.memory import Memory, Pointer
from tscript.ir.dtype import DataType
from tscript.ir.expr import Call, PointerType, PrimExpr, PrimType, StringImm, Var
from tscript.support.errors import InterpError

Matrix = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Fragments:
    """The fragments of a buffer: where it starts, its element type, the length of its rows (0: one tile each)."""

    start: Pointer
    dtype: DataType
    pitch: int
    role: str

    def tile(self, index: int, rows: int, columns: int) -> tuple[Pointer, int]:
        """Where fragment `index` starts, and the length of rows there."""
        pitch = self.pitch if self.pitch > columns else columns
        if pitch % columns:
            raise InterpError(f"fragments of {columns} columns do not fill rows of {pitch} elements")
        down, along = divmod(index, pitch // columns)
        return self.start.moved(down * rows * pitch + along * columns, self.dtype), pitch


@dataclass(frozen=True)
class _Shape:
    m: int
    n: int
    k: int
    is_transposed: bool

    def of(self, role: str) -> tuple[int, int]:
        """Rows and columns as they lie in memory."""
        rows, columns = {"a": (self.m, self.k), "b": (self.k, self.n)}.get(role, (self.m, self.n))
        return (columns, rows) if self.is_transposed else (rows, columns)


_LOADED: WeakKeyDictionary[Memory, dict[int, _Shape]] = WeakKeyDictionary()
"""The shape of each fragment of a memory, by the byte where it starts, as its last load or fill said."""


def _fragments(g: Gen, e: PrimExpr) -> str:
    """Source of the `Fragments` behind the pointer of a fragment buffer."""
    if not isinstance(e, Var) or not isinstance(e.type_annotation, PointerType):
        raise InterpError("a fragment is given by the pointer of its buffer, as in C.data")
    kind = e.type_annotation
    scope = kind.storage_scope
    role = scope.removeprefix("wmma.")
    if role == scope or not isinstance(kind.element_type, PrimType):
        raise InterpError(f"{e.name} lies in {scope or 'global'!r}, but fragments lie in 'wmma.matrix_a' and the like")
    view: View | None = next((v for b, v in g.views.items() if b.data is e), None)
    while view is not None and view.source is not None:
        view = view.source
    pitch = view.strides[-2].code if view is not None and len(view.strides) > 1 else "0"
    g.namespace.setdefault("_fragments", Fragments)
    dtype = g.constant("_type", kind.element_type.dtype)
    return f"_fragments({pointer_of(g, e)}, {dtype}, {pitch}, {role.removeprefix('matrix_')!r})"


def _values(g: Gen, *args: PrimExpr) -> str:
    return ", ".join(g.hold(expr(g, a)).code for a in args)


def _layout(e: PrimExpr) -> bool:
    if not isinstance(e, StringImm) or e.value not in ("row_major", "col_major"):
        raise InterpError(f"the layout of a matrix is 'row_major' or 'col_major', not {e}")
    return e.value == "col_major"


@special("tvm_load_matrix_sync")
def _load(g: Gen, e: Call) -> Val:
    fragment, m, n, k, index, source, stride, layout = e.args
    g.namespace["_load_matrix"] = load_matrix
    args = _values(g, m, n, k, index, source, stride)
    return Val(f"_load_matrix({_fragments(g, fragment)}, {args}, {_layout(layout)})")


@special("tvm_store_matrix_sync")
def _store(g: Gen, e: Call) -> Val:
    fragment, m, n, k, index, target, stride, layout = e.args
    g.namespace["_store_matrix"] = store_matrix
    args = _values(g, m, n, k, index, target, stride)
    return Val(f"_store_matrix({_fragments(g, fragment)}, {args}, {_layout(layout)})")


@special("tvm_fill_fragment")
def _fill(g: Gen, e: Call) -> Val:
    fragment, *rest = e.args
    g.namespace["_fill_fragment"] = fill_fragment
    return Val(f"_fill_fragment({_fragments(g, fragment)}, {_values(g, *rest)})")


@special("tvm_mma_sync")
def _mma(g: Gen, e: Call) -> Val:
    g.namespace["_mma_sync"] = mma_sync
    pairs = [f"{_fragments(g, e.args[i])}, {_values(g, e.args[i + 1])}" for i in range(0, 8, 2)]
    return Val(f"_mma_sync({', '.join(pairs)})")


# -- running --------------------------------------------------------------------------------------


def tile_at(start: Pointer, dtype: DataType, rows: int, columns: int, pitch: int, write: bool) -> Matrix:
    """The elements of a tile whose rows are `pitch` elements apart, in place; those to be read must be written."""
    flat = start.numpy(str(dtype), (rows - 1) * pitch + columns)
    for r in range(rows):
        row = start.moved(r * pitch, dtype)
        (set_written if write else require_written)(row, columns * dtype.bytes)
    size = flat.itemsize
    return as_strided(flat, (rows, columns), (pitch * size, size))


def _tile(f: Fragments, index: int, shape: _Shape, write: bool) -> Matrix:
    rows, columns = shape.of(f.role)
    start, pitch = f.tile(index, rows, columns)
    if write:
        _LOADED.setdefault(start.memory, {})[start.offset] = shape
    return tile_at(start, f.dtype, rows, columns, pitch, write)


def load_matrix(
    f: Fragments, m: int, n: int, k: int, index: int, source: Pointer, stride: int, transposed: bool
) -> int:
    """Copy a tile, whose rows as it lies in memory are `stride` elements apart, to a fragment."""
    shape = _Shape(m, n, k, transposed)
    rows, columns = shape.of(f.role)
    values = tile_at(source, f.dtype, rows, columns, stride, write=False)
    _tile(f, index, shape, write=True)[:] = values
    return 0


def store_matrix(
    f: Fragments, m: int, n: int, k: int, index: int, target: Pointer, stride: int, transposed: bool
) -> int:
    """Copy a fragment to a tile."""
    values = _tile(f, index, _Shape(m, n, k, False), write=False)
    values = values.T if transposed else values
    rows, columns = values.shape
    tile_at(target, f.dtype, rows, columns, stride, write=True)[:] = values
    return 0


def fill_fragment(f: Fragments, m: int, n: int, k: int, index: int, value: float) -> int:
    """Set all elements of a fragment."""
    _tile(f, index, _Shape(m, n, k, False), write=True)[:] = value
    return 0


def mma_sync(d: Fragments, i: int, a: Fragments, j: int, b: Fragments, k: int, c: Fragments, n: int) -> int:
    """d = a * b + c on fragments; those of a and b were loaded, which tells their shape and layout."""
    x, first = _operand(a, j)
    y, second = _operand(b, k)
    if (first.m, first.n, first.k) != (second.m, second.n, second.k):
        raise InterpError(f"fragments of {first} and {second} are multiplied")
    plain = _Shape(first.m, first.n, first.k, False)
    total = multiply_add(x, y, _tile(c, n, plain, write=False), d.dtype)
    _tile(d, i, plain, write=True)[:] = total
    return 0


def _operand(f: Fragments, index: int) -> tuple[Matrix, _Shape]:
    known = _LOADED.get(f.start.memory, {})
    for shape in dict.fromkeys(known.values()):
        rows, columns = shape.of(f.role)
        start, pitch = f.tile(index, rows, columns)
        if known.get(start.offset) == shape:
            values = tile_at(start, f.dtype, rows, columns, pitch, write=False)
            return (values.T if shape.is_transposed else values), shape
    raise InterpError(
        f"fragment {index} of a 'wmma.matrix_{f.role}' buffer is multiplied, but tvm_load_matrix_sync never loaded it"
    )


def multiply_add(a: Matrix, b: Matrix, c: Matrix, dtype: DataType) -> Matrix:
    """`a @ b + c`, over k in order: integers wrap; floats are summed up in float32, products being exact."""
    if dtype.is_integer:
        whole: Matrix = c.astype(np.int64) + a.astype(np.int64) @ b.astype(np.int64)
        return whole.astype(np.uint64).astype(np.uint32).view(np.int32)
    total: Matrix = c.astype(np.float32)
    left: Matrix = a.astype(np.float32)
    right: Matrix = b.astype(np.float32)
    for k in range(a.shape[1]):
        total = np.add(total, np.multiply.outer(left[:, k], right[k]))
    return total.astype(c.dtype)
