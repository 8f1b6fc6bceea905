"""What LLVM intrinsics of processors compute: dot products, products of pairs, tiles.

Sources: the instruction set references of Intel (VPDPBUSD, VPMADDUBSW, VPMADDWD, VDPBF16PS, AMX) and Arm (SDOT, UDOT,
SMULL, SADDLP, ADDP).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from tscript.interp.calls import special
from tscript.interp.emit import Gen, Val
from tscript.interp.exprs import any_value, expr
from tscript.interp.memory import Pointer, to_float32
from tscript.ir import semantics
from tscript.ir.dtype import DataType
from tscript.ir.expr import Call, StringImm
from tscript.support.errors import InterpError

Ints = Sequence[int]
Lanes = Callable[..., Any]
_INT16, _INT32 = DataType("int16"), DataType("int32")


@special("call_llvm_intrin", "call_llvm_pure_intrin")
def _llvm(g: Gen, e: Call) -> Val:
    callee = e.args[0]
    if not isinstance(callee, StringImm):
        raise InterpError('an LLVM intrinsic is called by its full name, as in "llvm.fma.f32"')
    name = callee.value
    g.namespace.setdefault("_instruction", run_instruction)
    args = "".join(f"{g.hold(expr(g, a)).code}, " for a in e.args[1:])
    code = f"_instruction({name!r}, _run, {g.constant('_type', e.dtype)}, ({args}))"
    if e.dtype.code == "void":
        return Val(code)
    return any_value(code, e.dtype)


def run_instruction(name: str, run: object, dtype: DataType, args: tuple[Any, ...]) -> Any:
    """What the LLVM intrinsic `name` computes from vectors as lists; InterpError for one that is not known here."""
    tile = _TILES.get(name.removeprefix("llvm.x86."))
    if tile is not None:
        tile(_state_of(run), *args)
        return 0
    found = _PURE.get(name)
    if found is None:
        raise InterpError(f"the interpreter does not know what the LLVM intrinsic {name!r} computes")
    result = found(*args)
    if dtype.is_uint:
        # The instruction knows bits only; the call says how they are read.
        result = [semantics.wrap(dtype.element, v) for v in result]
    if len(result) != dtype.lanes:
        raise InterpError(f"{name} gives {len(result)} lanes, but the call says {dtype!s}")
    return result


# -- integers -------------------------------------------------------------------------------------


def _bits(value: int, low: int, width: int, signed: bool) -> int:
    part = value >> low & (1 << width) - 1
    return part - (1 << width) if signed and part >> (width - 1) else part


def _dot(width: int, signed: tuple[bool, bool]) -> Lanes:
    """Sums of products of the parts, `width` bits each, of 32-bit lanes."""

    def lanes(c: Ints, a: Ints, b: Ints) -> list[int]:
        places = range(0, 32, width)
        return [
            semantics.wrap(
                _INT32, z + sum(_bits(x, p, width, signed[0]) * _bits(y, p, width, signed[1]) for p in places)
            )
            for z, x, y in zip(c, a, b, strict=True)
        ]

    return lanes


def _byte_dot(out: str) -> Lanes:
    """Sums of four products of bytes that are lanes of their own."""
    dtype = DataType(out)

    def lanes(c: Ints, a: Ints, b: Ints) -> list[int]:
        return [semantics.wrap(dtype, z + sum(a[4 * i + k] * b[4 * i + k] for k in range(4))) for i, z in enumerate(c)]

    return lanes


def _unsigned(values: Ints) -> list[int]:
    return [v & 0xFF for v in values]


def _signed(values: Ints) -> list[int]:
    return [_bits(v, 0, 8, True) for v in values]


def _pairs_of_bytes(a: Ints, b: Ints) -> list[int]:
    """Sums of two products of unsigned by signed bytes, clipped to 16 bits."""
    products = [x * y for x, y in zip(_unsigned(a), _signed(b), strict=True)]
    return [max(-(1 << 15), min((1 << 15) - 1, x + y)) for x, y in zip(products[::2], products[1::2], strict=True)]


def _pairs_of_words(a: Ints, b: Ints) -> list[int]:
    """Sums of two products of 16-bit numbers, in 32 bits."""
    products = [x * y for x, y in zip(a, b, strict=True)]
    return [semantics.wrap(_INT32, x + y) for x, y in zip(products[::2], products[1::2], strict=True)]


def _widening_product(a: Ints, b: Ints) -> list[int]:
    return [semantics.wrap(_INT16, x * y) for x, y in zip(a, b, strict=True)]


def _sums_of_pairs(a: Ints) -> list[int]:
    return [x + y for x, y in zip(a[::2], a[1::2], strict=True)]


def _pairwise_add(a: Ints, b: Ints) -> list[int]:
    return [semantics.wrap(_INT32, v) for v in (*_sums_of_pairs(a), *_sums_of_pairs(b))]


# -- floats ---------------------------------------------------------------------------------------

_SMALLEST = 2.0**-126


def _flushed(x: float) -> float:
    """Zero, of the same sign, for what is too small for the normal float32 format."""
    return x if abs(x) >= _SMALLEST or x != x else math.copysign(0.0, x)


def rounded_sum(x: float, y: float) -> float:
    """The float32 nearest to the exact `x + y`, for doubles; numbers too small for the normal format become zero."""
    s = x + y
    if math.isinf(s) or s != s:
        return to_float32(s)
    back = s - x
    rest = (x - (s - back)) + (y - back)
    # Rounding twice goes wrong only where the double is halfway between two floats though the sum is not.
    if rest and not int(math.frexp(s)[0] * (1 << 53)) & 1:
        s = math.nextafter(s, math.inf if rest > 0 else -math.inf)
    return _flushed(to_float32(s))


def _dot_of_pairs(c: Sequence[float], a: Sequence[float], b: Sequence[float]) -> list[float]:
    """For each lane: add the product of the odd elements, round, add that of the even ones, round."""
    x, y = [_flushed(v) for v in a], [_flushed(v) for v in b]
    result: list[float] = []
    for i, z in enumerate(c):
        z = rounded_sum(x[2 * i + 1] * y[2 * i + 1], _flushed(z))
        result.append(rounded_sum(x[2 * i] * y[2 * i], z))
    return result


_PURE: dict[str, Lanes] = {
    **{f"llvm.x86.avx512.vpdpbusd.{n}": _dot(8, (False, True)) for n in (128, 256, 512)},
    **{f"llvm.x86.avx512.vpdpwssd.{n}": _dot(16, (True, True)) for n in (128, 256, 512)},
    **{f"llvm.x86.avx512bf16.dpbf16ps.{n}": _dot_of_pairs for n in (128, 256, 512)},
    "llvm.x86.avx512.pmaddubs.w.512": _pairs_of_bytes,
    "llvm.x86.avx2.pmadd.ub.sw": _pairs_of_bytes,
    "llvm.x86.ssse3.pmadd.ub.sw.128": _pairs_of_bytes,
    "llvm.x86.avx512.pmaddw.d.512": _pairs_of_words,
    "llvm.x86.avx2.pmadd.wd": _pairs_of_words,
    "llvm.x86.sse2.pmadd.wd": _pairs_of_words,
    **{f"llvm.aarch64.neon.{n}.v4i32.v16i8": _byte_dot("int32") for n in ("sdot", "udot", "usdot")},
    **{f"llvm.aarch64.neon.{n}.v2i32.v8i8": _byte_dot("int32") for n in ("sdot", "udot", "usdot")},
    "llvm.aarch64.neon.smull.v8i16": _widening_product,
    "llvm.aarch64.neon.saddlp.v4i32.v8i16": _sums_of_pairs,
    "llvm.aarch64.neon.addp.v4i32": _pairwise_add,
}


# -- tiles of AMX ---------------------------------------------------------------------------------


class _TileState:
    """Eight tiles of up to 16 rows of 64 bytes, once configured."""

    def __init__(self) -> None:
        self.shapes: list[tuple[int, int]] = []
        self.tiles: list[np.ndarray[Any, Any]] = []

    def configure(self, config: Pointer) -> None:
        """`ldtilecfg`: rows and bytes in a row of each tile; all tiles become zero."""
        raw = config.numpy("uint8", 64)
        if raw[0] != 1:
            raise InterpError(f"a tile configuration starts with palette 1, not {int(raw[0])}")
        self.shapes = [(int(raw[48 + t]), int(raw[16 + 2 * t]) + 256 * int(raw[17 + 2 * t])) for t in range(8)]
        for t, (rows, width) in enumerate(self.shapes):
            if rows > 16 or width > 64:
                raise InterpError(f"tile {t} is configured with {rows} rows of {width} bytes; at most 16 of 64 exist")
        self.tiles = [np.zeros(s, np.uint8) for s in self.shapes]

    def release(self) -> None:
        """`tilerelease`: no tile is configured any more."""
        self.shapes, self.tiles = [], []

    def tile(self, number: int) -> np.ndarray[Any, Any]:
        """A tile that is configured."""
        if not self.tiles:
            raise InterpError("a tile is used before llvm.x86.ldtilecfg configured it, or after tilerelease")
        if not 0 <= number < 8 or 0 in self.shapes[number]:
            raise InterpError(f"tile {number} is not configured")
        return self.tiles[number]

    def load(self, number: int, start: Pointer, stride: int) -> None:
        """`tileloadd64`: rows `stride` bytes apart."""
        tile = self.tile(number)
        for row, part in enumerate(_rows(tile, start, stride, write=False)):
            tile[row] = part

    def store(self, number: int, start: Pointer, stride: int) -> None:
        """`tilestored64`."""
        tile = self.tile(number)
        for row, part in enumerate(_rows(tile, start, stride, write=True)):
            part[:] = tile[row]

    def clear(self, number: int) -> None:
        """`tilezero`."""
        self.tile(number)[:] = 0

    def multiply_bytes(self, signed: tuple[bool, bool], c: int, a: int, b: int) -> None:
        """`tdpb..d`: 32-bit sums, which wrap, of four products of bytes."""
        first, second = (
            self.tile(t).view(np.int8 if s else np.uint8).astype(np.int64) for t, s in zip((a, b), signed, strict=True)
        )
        inner = self._inner(c, a, b)
        x = first.reshape(first.shape[0], inner, 4)
        y = second.reshape(inner, -1, 4)
        total = self.tile(c).view(np.int32).astype(np.int64) + np.einsum("mkr,knr->mn", x, y)
        self.tile(c).view(np.uint32)[:] = (total & 0xFFFFFFFF).astype(np.uint32)

    def multiply_bf16(self, c: int, a: int, b: int) -> None:
        """`tdpbf16ps`: even and odd products summed up apart, each sum rounded; then both together, then C."""
        inner = self._inner(c, a, b)
        x, y = (_bf16(self.tile(t)) for t in (a, b))
        target = self.tile(c).view(np.float32)
        rows, columns = target.shape
        for m in range(rows):
            for n in range(columns):
                even = odd = 0.0
                for k in range(inner):
                    even = rounded_sum(float(x[m, 2 * k]) * float(y[k, 2 * n]), even)
                    odd = rounded_sum(float(x[m, 2 * k + 1]) * float(y[k, 2 * n + 1]), odd)
                target[m, n] = rounded_sum(_flushed(float(target[m, n])), rounded_sum(even, odd))

    def _inner(self, c: int, a: int, b: int) -> int:
        (m, n), (rows, k), (inner, width) = (self.tile(t).shape for t in (c, a, b))
        if m != rows or width != n or k != 4 * inner:
            raise InterpError(
                f"tiles of {m}x{n}, {rows}x{k} and {inner}x{width} (rows and bytes) do not fit: "
                "the product of m rows and rows of k bytes takes k / 4 rows"
            )
        return inner


def _bf16(tile: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    values = (tile.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    small = np.abs(values) < _SMALLEST
    return np.where(small, np.copysign(np.float32(0), values), values)


def _rows(tile: np.ndarray[Any, Any], start: Pointer, stride: int, write: bool) -> list[np.ndarray[Any, Any]]:
    rows, width = tile.shape
    found: list[np.ndarray[Any, Any]] = []
    for r in range(rows):
        at = Pointer(start.memory, start.offset + r * stride)
        found.append(at.numpy("uint8", width))
        require_written(at, width) if not write else set_written(at, width)
    return found


def require_written(start: Pointer, nbytes: int) -> None:
    """InterpError where bytes from `start` on were never written, if that is watched."""
    shadow = start.memory.shadow
    if shadow is not None and not all(shadow[start.offset : start.offset + nbytes]):
        raise InterpError("an instruction reads elements that nothing wrote")


def set_written(start: Pointer, nbytes: int) -> None:
    """Count bytes from `start` on as written."""
    shadow = start.memory.shadow
    if shadow is not None:
        shadow[start.offset : start.offset + nbytes] = b"\x01" * nbytes


_STATES: WeakKeyDictionary[Any, _TileState] = WeakKeyDictionary()


def _state_of(run: Any) -> _TileState:
    return _STATES.setdefault(run, _TileState())


def _product(first: bool, second: bool) -> Callable[..., None]:
    def multiply(state: _TileState, c: int, a: int, b: int) -> None:
        state.multiply_bytes((first, second), c, a, b)

    return multiply


_TILES: dict[str, Callable[..., None]] = {
    "ldtilecfg": _TileState.configure,
    "tilerelease": _TileState.release,
    "tilezero": _TileState.clear,
    "tileloadd64": _TileState.load,
    "tilestored64": _TileState.store,
    "tdpbssd": _product(True, True),
    "tdpbsud": _product(True, False),
    "tdpbusd": _product(False, True),
    "tdpbuud": _product(False, False),
    "tdpbf16ps": _TileState.multiply_bf16,
}
