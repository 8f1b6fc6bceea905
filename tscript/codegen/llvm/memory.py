"""Loads and stores: register values to and from memory, scalars and vectors, contiguous or not."""

from __future__ import annotations

from dataclasses import dataclass

from tscript.codegen.llvm.builder import Builder
from tscript.codegen.llvm.narrow import from_bits, to_bits
from tscript.codegen.llvm.types import int_vector, is_narrow, memory_scalar, memory_type, register_type
from tscript.ir.dtype import DataType

__all__ = ["Place", "bitcast", "from_memory", "load", "memory_scalar", "pointer", "singles", "store", "to_memory"]


@dataclass(frozen=True, slots=True)
class Place:
    """Where elements lie: a pointer, the type of an element of the buffer (maybe a vector), and either the
    index of the first of `count` neighbours (in descending order, if `step` is -1), or a vector of i64 with the
    index of each.
    """

    base: str
    element: DataType
    start: str
    count: int = 1
    step: int = 1
    each: str = ""

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


def load(b: Builder, place: Place, mask: str = "") -> str:
    """What lies at `place`, in memory form. Lanes whose bit in `mask` is off are not touched and read as 0."""
    whole = memory_type(place.dtype)
    if not place.each:
        address, align = _first(b, place), place.element.bytes
        if not mask:
            found = b.let(f"load {whole}, ptr {address}, align {align}")
        else:
            name = f"llvm.masked.load.v{place.count}{_short(place)}.p0"
            bits = int_vector(1, place.count)
            b.module.declare(name, f"{whole} {{}}(ptr, i32, {bits}, {whole})")
            found = b.let(
                f'call {whole} @"{name}"(ptr {address}, i32 {align}, {bits} {_in_order(b, place, mask, bits)}, '
                f"{whole} zeroinitializer)"
            )
        return _in_order(b, place, found, whole)
    if is_gathered(place) or mask:
        bits, pointers = int_vector(1, place.count), f"<{place.count} x ptr>"
        name = f"llvm.masked.gather.v{place.count}{_short(place)}.v{place.count}p0"
        b.module.declare(name, f"{whole} {{}}({pointers}, i32, {bits}, {whole})")
        return b.let(
            f'call {whole} @"{name}"({pointers} {_pointers(b, place)}, i32 {place.element.bytes}, '
            f"{bits} {mask or 'splat (i1 true)'}, {whole} zeroinitializer)"
        )
    parts = [load(b, one) for one in singles(b, place)]
    return _join(b, place, parts)


def is_gathered(place: Place) -> bool:
    """Whether an instruction that reads or writes elements at any places is expected to pay."""
    return place.element.lanes == 1 and place.element.bytes >= 4 and place.count >= 4


def singles(b: Builder, place: Place) -> list[Place]:
    """Each element of `place` as a place of its own."""
    if place.each:
        wide = int_vector(64, place.count)
        return [Place(place.base, place.element, b.extract(wide, place.each, i)) for i in range(place.count)]
    if place.count == 1:
        return [place]
    starts = [b.let(f"add nsw i64 {place.start}, {i * place.step}") for i in range(place.count)]
    return [Place(place.base, place.element, i) for i in starts]


def _first(b: Builder, place: Place) -> str:
    """The address of the element of `place` that lies lowest."""
    start = place.start if place.step == 1 else b.let(f"add nsw i64 {place.start}, {1 - place.count}")
    return pointer(b, place.base, place.element, start)


def _in_order(b: Builder, place: Place, value: str, type_text: str) -> str:
    """A vector turned round, where the elements of `place` come in descending order."""
    if place.step == 1:
        return value
    lanes = ", ".join(f"i32 {i}" for i in reversed(range(place.count)))
    return b.let(f"shufflevector {type_text} {value}, {type_text} poison, {int_vector(32, place.count)} <{lanes}>")


def _short(place: Place) -> str:
    scalar = memory_scalar(place.element)
    return {"float": "f32", "double": "f64", "ptr": "p0"}.get(scalar, scalar)


def _pointers(b: Builder, place: Place) -> str:
    wide = int_vector(64, place.count)
    return b.let(f"getelementptr inbounds {memory_scalar(place.element)}, ptr {place.base}, {wide} {place.each}")


def _join(b: Builder, place: Place, parts: list[str]) -> str:
    whole, part = memory_type(place.dtype), memory_type(place.element)
    scalar = memory_scalar(place.element)
    value = "poison"
    for n, p in enumerate(parts):
        for lane in range(place.element.lanes):
            one = p if place.element.lanes == 1 else b.extract(part, p, lane)
            value = b.insert(whole, value, scalar, one, n * place.element.lanes + lane)
    return value


def store(b: Builder, place: Place, value: str, mask: str = "", line: int = 0) -> None:
    """Write `value`, in memory form, to `place`; not the lanes whose bit in `mask` is off.

    Vectors of a multiple of `line` bytes, if that is not 0, begin at one, and bypass the caches.
    """
    whole = memory_type(place.dtype)
    if not place.each:
        address, align = _first(b, place), place.element.bytes
        value = _in_order(b, place, value, whole)
        if not mask:
            streams = line and place.element.bytes * place.count % line == 0
            how = f"align {line}, !nontemporal !2" if streams else f"align {align}"
            b.emit(f"store {whole} {value}, ptr {address}, {how}")
            return
        name = f"llvm.masked.store.v{place.count}{_short(place)}.p0"
        bits = int_vector(1, place.count)
        b.module.declare(name, f"void {{}}({whole}, ptr, i32, {bits})")
        kept = _in_order(b, place, mask, bits)
        b.emit(f'call void @"{name}"({whole} {value}, ptr {address}, i32 {align}, {bits} {kept})')
        return
    if is_gathered(place) or mask:
        # Lanes with the same place write in their order.
        bits, pointers = int_vector(1, place.count), f"<{place.count} x ptr>"
        name = f"llvm.masked.scatter.v{place.count}{_short(place)}.v{place.count}p0"
        b.module.declare(name, f"void {{}}({whole}, {pointers}, i32, {bits})")
        b.emit(
            f'call void @"{name}"({whole} {value}, {pointers} {_pointers(b, place)}, i32 {place.element.bytes}, '
            f"{bits} {mask or 'splat (i1 true)'})"
        )
        return
    for n, one in enumerate(singles(b, place)):
        store(b, one, lane_group(b, place, value, n))


def lane_group(b: Builder, place: Place, value: str, n: int) -> str:
    """The lanes of `value` that belong to element number `n`."""
    whole, lanes = memory_type(place.dtype), place.element.lanes
    if lanes == 1:
        return b.extract(whole, value, n)
    mask = ", ".join(f"i32 {n * lanes + i}" for i in range(lanes))
    return b.let(f"shufflevector {whole} {value}, {whole} poison, {int_vector(32, lanes)} <{mask}>")
