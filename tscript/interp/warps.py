"""Instructions that the threads of a warp carry out together: matrix products and loads of NVIDIA's PTX.

Each thread holds a part of each operand; which part is laid down in the PTX reference ("Matrix fragments for mma",
"ldmatrix"). All threads give theirs, and each takes its share of the result. Products are exact; floats are summed up
over k in order in float32, and rounded once more for float16. Hardware may sum up in another order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tscript.interp.calls import pointer_of, special
from tscript.interp.emit import Gen, Val
from tscript.interp.exprs import expr
from tscript.interp.fragments import multiply_add
from tscript.interp.instructions import require_written, set_written
from tscript.interp.memory import Pointer
from tscript.ir.dtype import DataType
from tscript.ir.expr import Call, IntImm, PointerType, PrimExpr, PrimType, StringImm, Var
from tscript.support.errors import InterpError, UnknownMeaning

Array = np.ndarray[Any, Any]
WARP = 32
_K = {("m16n8k8", 16): 8, ("m16n8k16", 16): 16, ("m16n8k16", 8): 16, ("m16n8k32", 8): 32}
"""The length of sums by shape and bits of an element."""


def _registers(g: Gen, data: PrimExpr, offset: PrimExpr) -> tuple[str, DataType]:
    """Source of the address of a thread's part of an operand, and its type."""
    kind = data.type_annotation if isinstance(data, Var) else None
    if not isinstance(kind, PointerType) or not isinstance(kind.element_type, PrimType):
        raise InterpError("the part of a thread is given by the pointer of its buffer, as in A.data")
    if kind.storage_scope.startswith("m16n8k8."):
        raise UnknownMeaning(
            f"a buffer in {kind.storage_scope!r} is written as a matrix, and lies in registers only once code for CUDA "
            "is made; instructions on those registers cannot be run here. Run the program from before `tensorize`"
        )
    dtype = kind.element_type.dtype
    return f"{pointer_of(g, data)}.moved({g.hold(expr(g, offset)).code}, {g.constant('_type', dtype)})", dtype


def _require_threads(g: Gen, name: str) -> None:
    if not g.in_threads:
        raise InterpError(
            f"{name} is carried out by the {WARP} threads of a warp; bind a loop to threadIdx.x around it"
        )


def _together(g: Gen, mine: str) -> str:
    """The name of what all threads of the warp gave, in the order of their lanes."""
    g.namespace["_collected"] = collected
    result = g.name("warp")
    g.line(f"{result}, = yield ({g.name('meeting')!r}, (_thread // {WARP},), (({mine}),), True, _collected, ((),))")
    return result


def collected(sofar: tuple[Any, ...], item: Any) -> tuple[Any, ...]:
    """What several threads gave, and that of one more."""
    return ((*sofar, item),)


@special("ptx_mma")
def _mma(g: Gen, e: Call) -> Val:
    _require_threads(g, "ptx_mma")
    shape, *layouts = (a.value if isinstance(a, StringImm) else "" for a in e.args[:3])
    a, a_type = _registers(g, e.args[6], e.args[7])
    b, b_type = _registers(g, e.args[8], e.args[9])
    c, _ = _registers(g, e.args[10], e.args[11])
    k = _K.get((shape, a_type.bits))
    saturates = not (isinstance(e.args[12], IntImm) and e.args[12].value == 0)
    if k is None or layouts != ["row", "col"] or a_type.bits != b_type.bits or saturates or len(e.args) > 13:
        raise InterpError(
            f"the product {shape} of {a_type!s} and {b_type!s}, layouts {' and '.join(layouts)}, cannot be run here; "
            f"known are {', '.join(s for s, _ in _K)} of row and col without saturation"
        )
    g.namespace["_part"], g.namespace["_mma_share"] = part, mma_share
    wide = k * a_type.bits // 128
    mine = f"_part({a}, {2 * wide * 32 // a_type.bits}), _part({b}, {wide * 32 // b_type.bits})"
    parts = _together(g, mine)
    return Val(f"_mma_share({parts}, {c}, _thread % {WARP}, {k}, {a_type.bits})")


@special("ptx_ldmatrix")
def _ldmatrix(g: Gen, e: Call) -> Val:
    _require_threads(g, "ptx_ldmatrix")
    trans, count = (int(a.value) if isinstance(a, IntImm) else -1 for a in e.args[:2])
    if trans < 0 or count not in (1, 2, 4):
        raise InterpError("ptx_ldmatrix loads 1, 2 or 4 matrices, transposed or not")
    target, dtype = _registers(g, e.args[3], e.args[4])
    source, offset = g.hold(expr(g, e.args[5])).code, g.hold(expr(g, e.args[6])).code
    g.namespace["_row_of"], g.namespace["_spread"], g.namespace["_columns"] = row_of, spread, load_columns
    kind = g.constant("_type", dtype)
    if trans and dtype.bits == 8:
        # The instruction cannot transpose bytes: the offset then is the length of a row, and each thread loads its own.
        return Val(f"_columns({source}, {target}, {offset}, _thread % {WARP}, {kind})")
    rows = _together(g, f"_row_of({source}.moved({offset}, {kind}), _thread % {WARP} < {8 * count})")
    return Val(f"_spread({rows}, {target}, _thread % {WARP}, {count}, {bool(trans)})")


@special("mma_fill")
def _fill(g: Gen, e: Call) -> Val:
    _require_threads(g, "mma_fill")
    g.namespace["_fill_part"] = fill_part
    size = g.hold(expr(g, e.args[0])).code
    target, _ = _registers(g, e.args[1], e.args[2])
    return Val(f"_fill_part({target}, {size}, {_lane(e.args[1])})")


@special("mma_store")
def _store(g: Gen, e: Call) -> Val:
    _require_threads(g, "mma_store")
    if not all(isinstance(a, IntImm) and a.value == 16 for a in e.args[:2]):
        raise InterpError("mma_store stores tiles of 16 by 16")
    g.namespace["_store_part"] = store_part
    target, stride = (g.hold(expr(g, a)).code for a in (e.args[2], e.args[5]))
    source, _ = _registers(g, e.args[3], e.args[4])
    return Val(f"_store_part({source}, {_lane(e.args[3])}, {target}, {stride}, _thread % {WARP})")


def _lane(data: PrimExpr) -> str:
    """Which part of a buffer is the thread's: memory of a warp holds those of all, one after the other."""
    kind = data.type_annotation if isinstance(data, Var) else None
    return f"_thread % {WARP}" if isinstance(kind, PointerType) and kind.storage_scope == "warp" else "0"


# -- running --------------------------------------------------------------------------------------


def _elements(at: Pointer, count: int, write: bool) -> Array:
    assert at.dtype is not None
    (set_written if write else require_written)(at, count * at.dtype.bytes)
    return at.numpy(str(at.dtype), count)


def part(at: Pointer, count: int) -> Array:
    """A copy of the elements that a thread holds."""
    return _elements(at, count, write=False).copy()


def mma_share(parts: tuple[tuple[Array, Array], ...], c: Pointer, lane: int, k: int, bits: int) -> int:
    """Add a thread's share of the product to the four elements of the result that it holds."""
    group, within = divmod(lane, 4)
    packed = 32 // bits
    rows = np.zeros((2, k), parts[0][0].dtype)
    columns = np.zeros((k, 2), parts[0][1].dtype)
    for other in range(4):
        # The threads of a group hold its two rows of A; those of group n hold column n of B.
        mine = parts[4 * group + other][0]
        theirs = [parts[4 * (2 * within + n) + other][1] for n in (0, 1)]
        for i in range(len(mine)):
            register, element = divmod(i, packed)
            rows[register % 2, other * packed + element + register // 2 * 4 * packed] = mine[i]
        for i in range(len(theirs[0])):
            register, element = divmod(i, packed)
            for n in (0, 1):
                columns[other * packed + element + register * 4 * packed, n] = theirs[n][i]
    assert c.dtype is not None
    total = _elements(c, 4, write=False).reshape(2, 2)
    _elements(c, 4, write=True)[:] = multiply_add(rows, columns, total, c.dtype).reshape(4)
    return 0


def row_of(at: Pointer, is_used: bool) -> Array:
    """The 16 bytes of a row, as the address of a thread says."""
    if not is_used:
        return np.zeros(8, np.uint16)
    require_written(at, 16)
    return at.numpy("uint16", 8).copy()


def spread(rows: tuple[Array, ...], target: Pointer, lane: int, count: int, transposed: bool) -> int:
    """Give a thread its two elements of 16 bits of each 8x8 matrix."""
    group, within = divmod(lane, 4)
    for j in range(count):
        matrix = np.stack(rows[8 * j : 8 * j + 8])
        pair = (matrix.T if transposed else matrix)[group, 2 * within : 2 * within + 2]
        at = Pointer(target.memory, target.offset + 4 * j)
        set_written(at, 4)
        at.numpy("uint16", 2)[:] = pair
    return 0


def load_columns(source: Pointer, target: Pointer, stride: int, lane: int, dtype: DataType) -> int:
    """Give a thread its 16 bytes of a 32x16 matrix, column by column."""
    into = _elements(target, 16, write=True)
    for i in range(16):
        row = i % 8 // 4 * 16 + lane % 4 * 4 + i % 4
        into[i] = _elements(source.moved(row * stride + lane // 4 + i // 8 * 8, dtype), 1, write=False)[0]
    return 0


def fill_part(target: Pointer, size: int, lane: int) -> int:
    """Set what a thread holds to zero."""
    assert target.dtype is not None
    _elements(target.moved(lane * size, target.dtype), size, write=True)[:] = 0
    return 0


def store_part(source: Pointer, part_number: int, target: Pointer, stride: int, lane: int) -> int:
    """Store the eight elements of a 16x16 result that a thread holds."""
    assert source.dtype is not None
    values = _elements(source.moved(part_number * 8, source.dtype), 8, write=False)
    for i in range(8):
        row, column = 8 * (i % 4 // 2) + lane // 4, 8 * (i // 4) + lane % 4 * 2 + i % 2
        _elements(target.moved(row * stride + column, source.dtype), 1, write=True)[0] = values[i]
    return 0
