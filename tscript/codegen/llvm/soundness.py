"""Whether object code from a file has the form that LLVM's loader takes on trust; otherwise it ends the process.

Everything that the loader follows is checked to stay inside: sections, names, symbols, and the places that it
patches. What the instructions do when they are called is not looked at.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple, NoReturn

_HEADER: Final = struct.Struct("<HHIQQQIHHHHHH")
_SECTION: Final = struct.Struct("<IIQQQQIIQQ")
_SYMBOL: Final = struct.Struct("<IBBHQQ")
_PATCH: Final = struct.Struct("<QIIq")
_IDENT: Final = b"\x7fELF\x02\x01\x01"  # 64 bits, little-endian, version 1

_NULL, _CODE, _SYMBOLS, _STRINGS, _PATCHES, _EMPTY = 0, 1, 2, 3, 4, 8
_WRITE, _ALLOC, _EXECUTABLE, _ALLOWED_FLAGS = 0x1, 0x2, 0x4, 0x10000077
_UNDEFINED, _ABSOLUTE = 0, 0xFFF1
_FILE = 4
_MOST_BYTES: Final = 1 << 30
_MOST_ALIGNMENT: Final = 1 << 12

# Bytes that each kind of patch writes, by machine.
_X86_64, _AARCH64 = 62, 183
_WIDTHS: Final[dict[int, dict[int, int]]] = {
    _X86_64: {1: 8, 2: 4, 4: 4, 9: 4, 10: 4, 11: 4, 24: 8, 25: 8, 41: 4, 42: 4},
    _AARCH64: {
        257: 8, 258: 4, 260: 8, 261: 4, 263: 4, 264: 4, 265: 4, 266: 4, 267: 4, 268: 4, 269: 4, 274: 4, 275: 4, 277: 4,
        278: 4, 279: 4, 280: 4, 282: 4, 283: 4, 284: 4, 285: 4, 286: 4, 299: 4, 311: 4, 312: 4,
    },
}  # fmt: skip


class _Part(NamedTuple):
    name: int
    kind: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    step: int


def require_sound(image: bytes) -> None:
    """Raise ValueError for ELF code that LLVM's loader could stumble over. Code of other systems passes unseen."""
    if image[:4] != _IDENT[:4]:
        return
    machine, parts, names = _parts(image)
    tables = [i for i, p in enumerate(parts) if p.kind == _SYMBOLS]
    if len(tables) != 1:
        _fail(f"it has {len(tables)} tables of symbols")
    kinds = _check_symbols(image, parts, parts[tables[0]])
    for p in parts:
        _text(image, names, p.name)
        if p.kind == _PATCHES:
            _check_patches(image, parts, p, machine, tables[0], kinds)


def _parts(image: bytes) -> tuple[int, list[_Part], _Part]:
    """The machine, the sections, and the one with their names."""
    if len(image) < 16 + _HEADER.size:
        _fail("it is too short")
    ident: bytes = image[:16]
    numbers: tuple[int, ...] = _HEADER.unpack_from(image, 16)
    kind, machine, version, entry, programs, table, flags, size, _, more, step, count, names = numbers
    fixed = (kind, version, entry, programs, more, flags, size, step)
    if ident[:7] != _IDENT or ident[7] not in (0, 3) or fixed != (1, 1, 0, 0, 0, 0, 64, _SECTION.size):
        _fail("its head is not that of relocatable code")
    if machine not in _WIDTHS:
        _fail(f"it is for a machine of the unknown number {machine}")
    if not 0 < count < 0xFF00 or names >= count or table % 8 or table + count * step > len(image):
        _fail("its sections end beyond it")
    parts: list[_Part] = []
    for at in range(table, table + count * step, step):
        name, kind, flags, address, *fields = _SECTION.unpack_from(image, at)
        parts.append(_Part(name, kind, flags, *fields))
        _check_section(parts[-1], address, len(image), len(parts) == 1)
    if parts[names].kind != _STRINGS:
        _fail("its sections have no names")
    if sum(p.size for p in parts) > _MOST_BYTES:
        _fail("its sections take too much memory")
    return machine, parts, parts[names]


def _check_section(p: _Part, address: int, end: int, is_first: bool) -> None:
    if is_first:
        if (p.name, p.kind, p.flags, p.offset, p.size) != (0, 0, 0, 0, 0):
            _fail("its first section is not empty")
        return
    if p.kind not in (_CODE, _SYMBOLS, _STRINGS, _PATCHES, _EMPTY):
        _fail(f"it has a section of the unexpected kind {p.kind}")
    if address or p.flags & ~_ALLOWED_FLAGS or (p.kind not in (_CODE, _EMPTY) and p.flags & _ALLOC):
        _fail("it has a section with unexpected flags")
    if p.alignment & (p.alignment - 1) or p.alignment > _MOST_ALIGNMENT:
        _fail("it has a section with an impossible alignment")
    if p.size > _MOST_BYTES or (p.kind != _EMPTY and p.offset + p.size > end):
        _fail("it has a section that ends beyond it")
    step = {_SYMBOLS: _SYMBOL.size, _PATCHES: _PATCH.size}.get(p.kind)
    if step is not None and (p.step != step or p.size % step or p.offset % 8):
        _fail("it has a table that is cut short")


def _check_symbols(image: bytes, parts: list[_Part], table: _Part) -> list[int]:
    """The kind of each symbol."""
    kinds: list[int] = []
    count = table.size // _SYMBOL.size
    if table.link >= len(parts) or parts[table.link].kind != _STRINGS or not count or not 0 < table.info <= count:
        _fail("its symbols have no names")
    for i, (name, info, other, place, value, size) in enumerate(_rows(_SYMBOL, image, table)):
        kind, binding = info & 15, info >> 4
        kinds.append(kind)
        if i == 0 and (name, info, other, place, value, size) != (0, 0, 0, 0, 0, 0):
            _fail("its first symbol is not empty")
        text = _text(image, parts[table.link], name)
        if kind > _FILE or binding > 2 or other > 3 or (binding == 0) != (i < table.info):
            _fail(f"its symbol {text!r} is of an unexpected kind")
        if place == _UNDEFINED:
            # One that is not global could not come from anywhere else.
            if i and (not text or binding != 1 or kind or value or size):
                _fail(f"its symbol {text!r} comes from nowhere")
        elif place == _ABSOLUTE:
            if kind != _FILE or binding:
                _fail(f"its symbol {text!r} has a fixed address")
        elif place >= len(parts) or parts[place].kind not in (_CODE, _EMPTY) or value + size > parts[place].size:
            _fail(f"its symbol {text!r} lies outside of its section")
        elif not parts[place].flags & _ALLOC or (parts[place].kind == _EMPTY and not parts[place].flags & _WRITE):
            # The loader would leave it where nothing is, or where nothing can be written.
            _fail(f"its symbol {text!r} lies in a section without memory")
    return kinds


def _check_patches(image: bytes, parts: list[_Part], p: _Part, machine: int, symbols: int, kinds: list[int]) -> None:
    if p.link != symbols or p.info >= len(parts) or parts[p.info].kind != _CODE:
        _fail("it patches what is no code or data")
    room, widths = parts[p.info].size, _WIDTHS[machine]
    for offset, kind, symbol, addend in _rows(_PATCH, image, p):
        width = widths.get(kind)
        if width is None:
            _fail(f"it has a patch of the unexpected kind {kind}")
        if offset + width > room or (machine == _AARCH64 and width == 4 and offset % 4):
            _fail("it patches beyond the end of a section")
        # The name of a file has no address that could be put anywhere.
        if not 0 < symbol < len(kinds) or kinds[symbol] == _FILE or not -_MOST_BYTES <= addend <= _MOST_BYTES:
            _fail("it patches with an unknown symbol")


def _rows(form: struct.Struct, image: bytes, p: _Part) -> list[tuple[int, ...]]:
    return list(form.iter_unpack(image[p.offset : p.offset + p.size]))


def _text(image: bytes, names: _Part, at: int) -> str:
    end = image.find(b"\0", names.offset + at, names.offset + names.size)
    if end < 0:
        _fail("it has a name without end")
    try:
        return image[names.offset + at : end].decode()
    except UnicodeDecodeError:
        _fail("it has a name that is no text")


def _fail(how: str) -> NoReturn:
    raise ValueError(f"its object code is malformed: {how}")
