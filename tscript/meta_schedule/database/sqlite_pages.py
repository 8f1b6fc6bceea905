"""Rows of an SQLite file that SQLite itself no longer opens: its pages are read one by one.

The form of the file is described at https://www.sqlite.org/fileformat2.html: a table is a tree of pages, whose leaves
begin with the byte 13 and hold a number and the values of each row; values that are too long for a page go on in a
chain of other pages.
"""

from __future__ import annotations

import struct
from collections.abc import Generator

_LEAF = 13
_HEAD = 100
_SIZES = {2**k for k in range(9, 17)}

Value = int | float | bytes | None


def table_rows(data: bytes) -> Generator[tuple[int, list[Value]], None, None]:
    """Number and values of each row that can be read, of whatever table, in the order of pages; text as bytes."""
    size = _page_size(data)
    usable = size - (data[20] if len(data) > _HEAD and data[20] < 32 else 0)
    for start in range(0, len(data), size):
        page = data[start : start + size]
        at = _HEAD if start == 0 else 0
        if len(page) < at + 8 or page[at] != _LEAF:
            continue
        count = int.from_bytes(page[at + 3 : at + 5], "big")
        for k in range(min(count, size // 4)):
            where = int.from_bytes(page[at + 8 + 2 * k : at + 10 + 2 * k], "big")
            try:
                yield _cell(data, page, where, size, usable)
            except (ValueError, IndexError, struct.error):
                continue  # damaged: the rows that are not found are counted by their numbers


def _page_size(data: bytes) -> int:
    given = int.from_bytes(data[16:18], "big")
    given = 65536 if given == 1 else given
    return given if given in _SIZES else 4096


def _cell(data: bytes, page: bytes, at: int, size: int, usable: int) -> tuple[int, list[Value]]:
    length, at = _varint(page, at)
    row, at = _varint(page, at)
    if length > len(data):
        raise ValueError("a row longer than the file")
    most = usable - 35
    here = length
    if length > most:
        least = (usable - 12) * 32 // 255 - 23
        here = least + (length - least) % (usable - 4)
        here = here if here <= most else least
    payload = page[at : at + here]
    if here < length:
        payload += _chain(data, int.from_bytes(page[at + here : at + here + 4], "big"), length - here, size, usable)
    if len(payload) != length:
        raise ValueError("a row that ends too early")
    return row, _values(payload)


def _chain(data: bytes, page: int, count: int, size: int, usable: int) -> bytes:
    parts: list[bytes] = []
    while count > 0:
        start = (page - 1) * size
        if page < 1 or start >= len(data):
            raise ValueError("a chain that leaves the file")
        parts.append(data[start + 4 : start + 4 + min(count, usable - 4)])
        page = int.from_bytes(data[start : start + 4], "big")
        count -= usable - 4
    return b"".join(parts)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for k in range(9):
        byte = data[at + k]
        if k == 8:
            return value << 8 | byte, at + 9
        value = value << 7 | byte & 127
        if byte < 128:
            return value, at + k + 1
    raise ValueError("no number")


_INTEGERS = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}


def _values(payload: bytes) -> list[Value]:
    head, at = _varint(payload, 0)
    kinds: list[int] = []
    while at < head:
        kind, at = _varint(payload, at)
        kinds.append(kind)
    found: list[Value] = []
    at = head
    for kind in kinds:
        value, at = _value(payload, kind, at)
        found.append(value)
    return found


def _value(payload: bytes, kind: int, at: int) -> tuple[Value, int]:
    if kind == 0:
        return None, at
    if kind in _INTEGERS:
        end = at + _INTEGERS[kind]
        return int.from_bytes(payload[at:end], "big", signed=True), end
    if kind == 7:
        return float(struct.unpack(">d", payload[at : at + 8])[0]), at + 8
    if kind in (8, 9):
        return kind - 8, at
    if kind < 12:
        raise ValueError("a kind of value that no file has")
    end = at + (kind - 12) // 2
    return payload[at:end], end
