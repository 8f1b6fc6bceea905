"""Loads and stores: register values to and from memory, scalars and vectors, contiguous or not."""

from __future__ import annotations

from dataclasses import dataclass

from tscript.codegen.llvm.builder import Builder
from tscript.codegen.llvm.narrow import from_bits, to_bits
from tscript.codegen.llvm.types import int_vector, is_narrow, memory_scalar, memory_type, register_type
from tscript.ir.dtype import DataType

__all__ = ["Place", "bitcast", "from_memory", "load", "memory_scalar", "pointer", "store", "to_memory"]


@dataclass(frozen=True, slots=True)
class Place:
    """Where elements lie: a pointer, the type of an element of the buffer (maybe a vector), and either the
    index of the first of `count` neighbours, or the index of each.
    """

    base: str
    element: DataType
    start: str
    count: int = 1
    each: tuple[str, ...] = ()

    @property
    def dtype(self) -> DataType:
        """Type of all of it as one value."""
        return self.element.with_lanes(self.element.lanes * self.count)


def to_memory(b: Builder, dtype: DataType, value: str) -> str:
    """A register value in the form that memory holds."""
    if is_narrow(dtype):
        return to_bits(b, dtype, value)
    if dtype.is_bool or (dtype.is_integer and dtype.bits < 8):
        # The unused bits of a byte are 0, as where ml_dtypes writes it.
        return b.let(f"zext {register_type(dtype)} {value} to {memory_type(dtype)}")
    return value


def from_memory(b: Builder, dtype: DataType, value: str) -> str:
    """What memory holds as a register value."""
    if is_narrow(dtype):
        return from_bits(b, dtype, value)
    if dtype.is_bool:
        return b.let(f"icmp ne {memory_type(dtype)} {value}, {'zeroinitializer' if dtype.lanes > 1 else '0'}")
    if dtype.is_integer and dtype.bits < 8:
        return b.let(f"trunc {memory_type(dtype)} {value} to {register_type(dtype)}")
    return value


def bitcast(b: Builder, source: DataType, target: DataType, value: str) -> str:
    """The same bits, in memory form, as another type of the same size."""
    s, t = memory_type(source), memory_type(target)
    return value if s == t else b.let(f"bitcast {s} {value} to {t}")


def pointer(b: Builder, base: str, element: DataType, index: str) -> str:
    """The address of an element."""
    if element.lanes != 1:
        index = b.let(f"mul nsw i64 {index}, {element.lanes}")
    return base if index == "0" else b.let(f"getelementptr inbounds {memory_scalar(element)}, ptr {base}, i64 {index}")


def load(b: Builder, place: Place) -> str:
    """What lies at `place`, in memory form."""
    if not place.each:
        address = pointer(b, place.base, place.element, place.start)
        return b.let(f"load {memory_type(place.dtype)}, ptr {address}, align {place.element.bytes}")
    parts = [load(b, Place(place.base, place.element, i)) for i in place.each]
    return _join(b, place, parts)


def _join(b: Builder, place: Place, parts: list[str]) -> str:
    whole, part = memory_type(place.dtype), memory_type(place.element)
    scalar = memory_scalar(place.element)
    value = "poison"
    for n, p in enumerate(parts):
        for lane in range(place.element.lanes):
            one = p if place.element.lanes == 1 else b.extract(part, p, lane)
            value = b.insert(whole, value, scalar, one, n * place.element.lanes + lane)
    return value


def store(b: Builder, place: Place, value: str) -> None:
    """Write `value`, in memory form, to `place`."""
    if not place.each:
        address = pointer(b, place.base, place.element, place.start)
        b.emit(f"store {memory_type(place.dtype)} {value}, ptr {address}, align {place.element.bytes}")
        return
    for n, i in enumerate(place.each):
        store(b, Place(place.base, place.element, i), lane_group(b, place, value, n))


def lane_group(b: Builder, place: Place, value: str, n: int) -> str:
    """The lanes of `value` that belong to element number `n`."""
    whole, lanes = memory_type(place.dtype), place.element.lanes
    if lanes == 1:
        return b.extract(whole, value, n)
    mask = ", ".join(f"i32 {n * lanes + i}" for i in range(lanes))
    return b.let(f"shufflevector {whole} {value}, {whole} poison, {int_vector(32, lanes)} <{mask}>")
