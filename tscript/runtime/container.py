"""The form of a library file: named parts between a head and a checksum.

| bytes | content |
|---|---|
| 8 | magic |
| 4, 4 | version of the format; number of parts |
| 8 | size of the whole file |
| for each part: 4, 8, n | name; n; content |
| 32 | SHA-256 of all before |

Numbers are unsigned and little-endian. The checksum tells a damaged file from a whole one. It is no signature:
a library holds code that runs when it is called, so load only files from where you would run a program.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NoReturn

from tscript.support.errors import CorruptLibraryError, LibraryError

MAGIC: Final = b"\x93TSLIB\r\n"
"""Starts every library: no text, and changed by whatever changes line ends."""
VERSION: Final = 1
_HEAD: Final = struct.Struct("<8sIIQ")
_PART: Final = struct.Struct("<4sQ")
_DIGEST: Final = hashlib.sha256().digest_size
_KNOWN: Final = ((b"\x7fELF", "a shared library or program"), (b"!<arch>", "an archive"), (b"PK", "a ZIP archive"))


def pack(parts: Mapping[str, bytes]) -> bytes:
    """The content of a file with these parts, whose names have four letters."""
    pieces = [b""]
    for name, content in parts.items():
        pieces += [_PART.pack(name.encode("ascii"), len(content)), content]
    size = _HEAD.size + sum(map(len, pieces)) + _DIGEST
    pieces[0] = _HEAD.pack(MAGIC, VERSION, len(parts), size)
    body = b"".join(pieces)
    return body + hashlib.sha256(body).digest()


def unpack(data: bytes, where: str) -> dict[str, bytes]:
    """The parts of a file's content; `where` names the file in messages.

    Raises CorruptLibraryError for what `pack` did not make, LibraryError for a later version of the format.
    """
    count, size = _checked_head(data, where)
    if len(data) != size:
        _fail(where, f"it should have {size} bytes and has {len(data)}")
    end = size - _DIGEST
    if hashlib.sha256(data[:end]).digest() != data[end:]:
        _fail(where, "its checksum does not fit its content")
    parts: dict[str, bytes] = {}
    at = _HEAD.size
    for _ in range(count):
        if at + _PART.size > end:
            _fail(where, "its list of parts ends too early")
        name, length = _PART.unpack_from(data, at)
        at += _PART.size
        if length > end - at:
            _fail(where, f"its part {name!r} ends beyond the file")
        key = name.decode("latin-1")
        if key in parts:
            _fail(where, f"it has the part {name!r} twice")
        parts[key] = data[at : at + length]
        at += length
    if at != end:
        _fail(where, "something follows its last part")
    return parts


def _checked_head(data: bytes, where: str) -> tuple[int, int]:
    """Number of parts, and size of the file."""
    if data[: len(MAGIC)] != MAGIC:
        _fail_foreign(data, where)
    if len(data) < _HEAD.size:
        _fail(where, f"it ends within its first {_HEAD.size} bytes")
    _, version, count, size = _HEAD.unpack_from(data)
    if version > VERSION:
        raise LibraryError(
            f"{where} is a library in version {version} of the format; this version of tscript reads up to {VERSION}\n"
            "  try: a newer tscript, or export the library again with this one"
        )
    if version < 1:
        _fail(where, "it claims version 0 of the format")
    if size < _HEAD.size + _DIGEST:
        _fail(where, "its size is too small for any library")
    return count, size


def _fail_foreign(data: bytes, where: str) -> NoReturn:
    if data and MAGIC.startswith(data[: len(MAGIC)]):
        _fail(where, f"it ends within its first {_HEAD.size} bytes")
    if not data:
        raise CorruptLibraryError(f"{where} is empty\n  try: export the library again")
    kind = next((text for start, text in _KNOWN if data.startswith(start)), "something else")
    raise CorruptLibraryError(
        f"{where} is no library of tscript, but {kind}\n  try: a file written by Module.export_library"
    )


def _fail(where: str, how: str) -> NoReturn:
    raise CorruptLibraryError(f"{where} is damaged: {how}\n  try: copy or export the library again")


def read(path: str | os.PathLike[str]) -> dict[str, bytes]:
    """The parts of a library file. Raises OSError where it cannot be read, else as `unpack` does."""
    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):
        raise CorruptLibraryError(f"{os.fspath(path)} is no regular file, so no library")
    with open(path, "rb") as f:
        head = f.read(_HEAD.size)
        # What is no library, or is cut short, is not read as a whole: it may be of any size.
        _, size = _checked_head(head, os.fspath(path))
        if size != status.st_size:
            _fail(os.fspath(path), f"it should have {size} bytes and has {status.st_size}")
        return unpack(head + f.read(), os.fspath(path))


def write(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file so that at no time a part of it stands under its name. Raises OSError."""
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    try:
        with os.fdopen(descriptor, "wb") as f:
            f.write(data)
            f.flush()
            os.fsync(f.fileno())
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
