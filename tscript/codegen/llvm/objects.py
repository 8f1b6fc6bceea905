"""What a piece of object code defines and what it needs, read without running or trusting it."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

_HEADER: Final = struct.Struct("<4sBBBB8xHHIQQQIHHHHHH")
_SECTION: Final = struct.Struct("<IIQQQQIIQQ")
_SYMBOL: Final = struct.Struct("<IBBHQQ")
_SYMBOL_TABLE, _STRING_TABLE = 2, 3
_RELOCATABLE: Final = 1
_UNDEFINED: Final = 0
_GLOBAL, _WEAK = 1, 2


@dataclass(frozen=True, slots=True)
class Symbols:
    """Names that other code can refer to, and names that must come from elsewhere."""

    defined: frozenset[str]
    needed: tuple[str, ...]


def symbols_of(image: bytes) -> Symbols | None:
    """The symbols of relocatable ELF code of 64 bits; None for object code of other systems.

    Raises ValueError for bytes that start as ELF does, and then are not.
    """
    if image[:4] in (b"\xcf\xfa\xed\xfe",) or image[:2] in (b"\x64\x86", b"\x64\xaa"):
        return None  # Mach-O and COFF
    if len(image) < _HEADER.size or image[:4] != b"\x7fELF":
        raise ValueError("the object code has no known form")
    _, width, order, *_, kind, _, _, _, _, table, _, _, _, _, entry, count, _ = _HEADER.unpack_from(image)
    if (width, order, kind, entry) != (2, 1, _RELOCATABLE, _SECTION.size):
        raise ValueError("the object code is no relocatable ELF of 64 bits")
    if table + count * entry > len(image):
        raise ValueError("the sections of the object code end beyond it")
    sections = [_SECTION.unpack_from(image, table + i * entry) for i in range(count)]
    for _, form, _, _, offset, size, *_ in sections:
        if form != 8 and offset + size > len(image):  # 8: memory that takes no room in the file
            raise ValueError("a section of the object code ends beyond it")
    defined: dict[str, None] = {}
    needed: dict[str, None] = {}
    for _, form, _, _, offset, size, link, _, _, step in sections:
        if form != _SYMBOL_TABLE:
            continue
        if step != _SYMBOL.size or link >= count or sections[link][1] != _STRING_TABLE:
            raise ValueError("the symbols of the object code have no names")
        names = image[sections[link][4] : sections[link][4] + sections[link][5]]
        for at in range(offset, offset + size - step + 1, step):
            name, info, _, section, _, _ = _SYMBOL.unpack_from(image, at)
            if name >= len(names):
                raise ValueError("a symbol of the object code has no name")
            text = names[name : names.index(b"\0", name)].decode("utf-8", "replace") if name else ""
            if section != _UNDEFINED and info >> 4 in (_GLOBAL, _WEAK):
                defined[text] = None
            elif section == _UNDEFINED and text:
                needed[text] = None
    return Symbols(frozenset(defined), tuple(needed))
