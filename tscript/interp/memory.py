"""Memory of a run: flat bytes that views of any type share, pointers into it, and element encodings.

A view is a `memoryview` over the same bytes, so buffers that alias, with another type too, see each
other's stores. Types that `memoryview` does not know are kept as integers of their width and decoded
through a table of all their values.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from tscript.ir.dtype import DataType
from tscript.ir.semantics import numpy_dtype
from tscript.support.errors import InterpError

POISON = 0xFF
"""Fresh memory holds this byte: NaN as a float, -1 as an integer, so that a forgotten store shows."""
POISON_LIMIT = 1 << 26
SIZE_LIMIT = 1 << 34
"""Bytes of the largest allocation."""

_INT_FORMATS = {1: "b", 2: "h", 4: "i", 8: "q"}
_BITS_FORMATS = {1: "B", 2: "H", 4: "I", 8: "Q"}
_WRITTEN = {1: 0x01, 2: 0x0101, 4: 0x01010101, 8: 0x0101010101010101}


def element_format(dtype: DataType) -> str:
    """The `memoryview` format in which elements of `dtype` are kept; TypeError for handles."""
    if dtype.is_handle or dtype.code == "void":
        raise InterpError(f"memory of {dtype!s} elements is not supported; keep addresses in variables instead")
    if dtype.code == "float" and dtype.bits >= 32:
        return "f" if dtype.bits == 32 else "d"
    return _INT_FORMATS[dtype.bytes] if dtype.is_int else _BITS_FORMATS[dtype.bytes]


def written_mark(dtype: DataType) -> int:
    """What a shadow element holds when all bytes of the element were written."""
    return _WRITTEN[dtype.bytes]


Elements = Any
"""A `memoryview`; its item type depends on a format that is known at run time only."""


class Memory:
    """Bytes under one or more buffers, and, where asked for, a shadow byte for each: 1 once written."""

    def __init__(self, raw: memoryview, owner: object = None, shadow: bytearray | None = None) -> None:
        self.raw = raw
        self.owner = owner
        self.shadow = None if shadow is None else memoryview(shadow)
        self._views: dict[tuple[str, int, bool], Elements] = {}

    @staticmethod
    def fresh(nbytes: int, name: str, check: bool) -> Memory:
        """Newly allocated, poisoned memory. Raises InterpError for a size that cannot be."""
        if nbytes < 0 or nbytes > SIZE_LIMIT:
            raise InterpError(f"the allocation of {name} is {nbytes} bytes; sizes lie between 0 and {SIZE_LIMIT}")
        size = max(nbytes, 8)  # a cast refuses views without elements
        try:
            # Poisoning takes the memory for real; of a large block, that a program may use little of, this is not done.
            raw = memoryview(bytearray(b"\xff") * size if size <= POISON_LIMIT else bytearray(size))
            return Memory(raw, shadow=bytearray(size) if check else None)
        except MemoryError:
            raise InterpError(f"the allocation of {name} ({nbytes} bytes) does not fit in memory") from None

    @staticmethod
    def of_array(array: np.ndarray[Any, Any], check: bool) -> tuple[Memory, int]:
        """Memory under all elements of `array`, and the byte where its first element lies."""
        low = high = 0
        for extent, stride in zip(array.shape, array.strides, strict=True):
            reach = (extent - 1) * stride
            low, high = (low + reach, high) if reach < 0 else (low, high + reach)
        if array.size == 0:
            return Memory(memoryview(bytearray(8)), array, bytearray(8) if check else None), 0
        nbytes = high - low + array.itemsize
        # The bytes are addressed directly, since a view of NumPy's own cannot span the gaps of a strided array.
        block = (ctypes.c_ubyte * nbytes).from_address(array.ctypes.data + low)
        raw: Elements = np.ctypeslib.as_array(block).data
        if not array.flags.writeable:
            raw = raw.toreadonly()
        return Memory(raw, (array, block), bytearray(b"\x01") * nbytes if check else None), -low

    def view(self, kind: Any, start: int, shadow: bool = False) -> Elements:
        """Elements of format `kind`, counted from byte `start` (which is below the size of an element)."""
        key = (kind, start, shadow)
        found: Elements = self._views.get(key)
        if found is None:
            raw: Elements = self.shadow if shadow else self.raw
            size = struct.calcsize(kind)
            whole = (len(raw) - start) // size * size
            if whole:
                found = raw[start : start + whole].cast(kind)
            else:
                nothing: Elements = memoryview(bytearray(size))
                found = nothing.cast(kind)[:0]
            self._views[key] = found
        return found

    def mark_written(self) -> None:
        """Count every byte as written (code outside our control had the address)."""
        if self.shadow is not None:
            self.shadow[:] = b"\x01" * len(self.shadow)


@dataclass(frozen=True, slots=True)
class Pointer:
    """An address: a byte of a memory. What external functions get for `A.data` and access pointers.

    `dtype` and `extent` (elements) are set for pointers that `access_ptr` made.
    """

    memory: Memory
    offset: int
    dtype: DataType | None = None
    extent: int | None = None

    def numpy(self, dtype: str | None = None, count: int | None = None) -> np.ndarray[Any, Any]:
        """The elements from here on as an array on the same memory.

        `dtype` is needed unless the pointer was made by `access_ptr`; without `count`, all that remain
        (`access_ptr`: its extent). Raises InterpError for more elements than there are.
        """
        kind = self.dtype if dtype is None else DataType(dtype)
        if kind is None:
            raise InterpError("this pointer has no element type; pass it, as in p.numpy('float32')")
        element = numpy_dtype(kind)
        room = (len(self.memory.raw) - self.offset) // element.itemsize
        wanted = count if count is not None else self.extent if self.extent is not None else room
        if self.offset < 0 or not 0 <= wanted <= room:
            raise InterpError(f"{wanted} elements of {kind!s} from this pointer leave its memory, which has {room}")
        stop = self.offset + wanted * element.itemsize
        return np.frombuffer(self.memory.raw[self.offset : stop], dtype=np.uint8).view(element)

    def moved(self, elements: int, dtype: DataType, extent: int | None = None) -> Pointer:
        """The address `elements` elements of `dtype` further."""
        return Pointer(self.memory, self.offset + elements * dtype.bytes * dtype.lanes, dtype, extent)


class NoMemory:
    """What an allocation whose condition is false gives: a buffer may be declared on it, but not used."""

    def __len__(self) -> int:
        return 1 << 62

    def __getitem__(self, index: object) -> Any:
        raise InterpError(
            "an access to no memory: the condition of its allocation is false, or the address that was passed is None"
        )

    def __setitem__(self, index: object, value: object) -> None:
        self[index]


def bind_view(pointer: Pointer | None, dtype: DataType, shadow: bool = False) -> tuple[Elements | NoMemory, int]:
    """Elements of `dtype` in the memory of `pointer`, and the number of the one it points at."""
    if pointer is None:
        return NoMemory(), 0
    base, start = divmod(pointer.offset, dtype.bytes)
    kind = _BITS_FORMATS[dtype.bytes] if shadow else element_format(dtype)
    return pointer.memory.view(kind, start, shadow), base


@dataclass(slots=True)
class FloatCodec:
    """A float type kept as bits: `decode[bits]` is the value, `encode(value)` rounds and gives the bits."""

    decode: list[float]
    encode: Callable[[float], int]
    round: Callable[[float], float] = field(init=False)

    def __post_init__(self) -> None:
        decode, encode = self.decode, self.encode
        self.round = lambda x: decode[encode(x)]


def to_float32(x: float) -> float:
    """`x` rounded to float32; infinite beyond its range."""
    try:
        return struct.unpack("<f", struct.pack("<f", x))[0]
    except OverflowError:
        return float("inf") if x > 0 else float("-inf")


def _encode_float16(x: float) -> int:
    if x != x:
        return 0x7E00
    try:
        return int.from_bytes(struct.pack("<e", to_float32(x)), "little")
    except OverflowError:
        return 0x7C00 if x > 0 else 0xFC00


def _encode_bfloat16(x: float) -> int:
    if x != x:
        return 0x7FC0
    bits = int.from_bytes(struct.pack("<f", to_float32(x)), "little")
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16


def _encode_by_numpy(dtype: DataType) -> Callable[[float], int]:
    target = numpy_dtype(dtype)
    known: dict[tuple[float, bool], int] = {}

    def encode(x: float) -> int:
        key = (x, str(x)[0] == "-")
        found = known.get(key)
        if found is None:
            with np.errstate(over="ignore", invalid="ignore"):
                found = int(np.array(to_float32(x), dtype=np.float32).astype(target).view(np.uint8))
            if len(known) < 1 << 16 and x == x:
                known[key] = found
        return found

    return encode


@cache
def codec(dtype: DataType) -> FloatCodec | None:
    """The encoding of float types below 32 bits; None for all others."""
    if not dtype.is_float or dtype.bits >= 32:
        return None
    target = numpy_dtype(dtype)
    width = dtype.bytes * 8
    # Types below a byte repeat: only their low bits count.
    bits = np.arange(1 << width, dtype=f"uint{width}") & ((1 << dtype.bits) - 1)
    with np.errstate(invalid="ignore"):
        decode: list[float] = bits.astype(f"uint{width}").view(target).astype(np.float64).tolist()
    if str(dtype) == "float16":
        return FloatCodec(decode, _encode_float16)
    if str(dtype) == "bfloat16":
        return FloatCodec(decode, _encode_bfloat16)
    return FloatCodec(decode, _encode_by_numpy(dtype))
