"""Compiled code on disk, so that a program that was compiled once is only loaded the next time.

The key is a hash of all that decides the code: the LLVM IR of the module, in which every option of ours has already had
its effect, the CPU with its features, the optimisation level, the kind of machine, and the versions of LLVM, of the
binding and of this file's format. So an entry is never stale, whatever changes in a program, its constants, its helpers
or tscript itself, and machines may share a folder. Entries carry a check sum and appear complete or not at all.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tscript.support.config import cache_folder

Parts = tuple[bytes, bytes]
"""Optimised bitcode, and object code."""

_MAGIC: Final = b"tscript-code-1\n"
_SUFFIX: Final = ".code"
_DIGEST: Final = 32
_LIMIT: Final = 512 << 20
# How many entries are written between two looks at the size of the folder.
_SWEEP: Final = 64


@dataclass
class CacheInfo:
    """What the cache did here: `hits`, `misses`, entries that it could not use (`damaged`) or write (`failed`)."""

    folder: Path | None
    hits: int = 0
    misses: int = 0
    damaged: int = 0
    failed: int = 0


_counts = CacheInfo(None)
_lock = threading.Lock()


def cache_info() -> CacheInfo:
    """The folder in use (None when the cache is off) and the counts of this process.

    >>> cache_info().hits >= 0
    True
    """
    with _lock:
        return CacheInfo(cache_folder(), _counts.hits, _counts.misses, _counts.damaged, _counts.failed)


def clear_cache() -> int:
    """Remove all entries of the folder in use; how many there were."""
    folder = cache_folder()
    count = 0
    for path in _entries(folder) if folder is not None else ():
        with contextlib.suppress(OSError):
            path.unlink()
            count += 1
    return count


def cached(key: Sequence[str], compile_it: Callable[[], Parts]) -> Parts:
    """The code of a key from the cache; what `compile_it()` gives, and keeps, where there is none."""
    folder = cache_folder()
    if folder is None:
        return compile_it()
    digest = hashlib.sha256("\0".join((*key, _MAGIC.decode())).encode()).hexdigest()
    path = folder / digest[:2] / (digest[2:] + _SUFFIX)
    found = _read(path)
    if found is not None:
        with _lock:
            _counts.hits += 1
        return found
    made = compile_it()
    with _lock:
        _counts.misses += 1
        sweep = _counts.misses % _SWEEP == 0
    if not _write(path, made):
        with _lock:
            _counts.failed += 1
    elif sweep:
        trim(folder, _LIMIT)
    return made


def _read(path: Path) -> Parts | None:
    try:
        data = path.read_bytes()
    except OSError:
        return None
    head = len(_MAGIC) + _DIGEST
    body = data[head:]
    if data[: len(_MAGIC)] != _MAGIC or hashlib.sha256(body).digest() != data[len(_MAGIC) : head]:
        with _lock:
            _counts.damaged += 1
        return None
    with contextlib.suppress(OSError):
        os.utime(path)  # what is used is kept
    size = int.from_bytes(body[:8], "little")
    return body[8 : 8 + size], body[8 + size :]


def _write(path: Path, parts: Parts) -> bool:
    """Whether an entry could be written; a full or read-only disk is no error."""
    body = len(parts[0]).to_bytes(8, "little") + parts[0] + parts[1]
    data = _MAGIC + hashlib.sha256(body).digest() + body
    name = ""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as f:
            name = f.name
            f.write(data)
        os.replace(name, path)
    except OSError:
        if name:
            with contextlib.suppress(OSError):
                os.unlink(name)
        return False
    return True


def _entries(folder: Path) -> list[Path]:
    return [p for p in folder.glob(f"*/*{_SUFFIX}") if p.is_file()]


def trim(folder: Path, limit: int) -> None:
    """Remove entries that were not used for longest, until the rest takes at most `limit` bytes."""
    found: list[tuple[float, int, Path]] = []
    for path in _entries(folder):
        with contextlib.suppress(OSError):
            stat = path.stat()
            found.append((stat.st_mtime, stat.st_size, path))
    total = sum(size for _, size, _ in found)
    for _, size, path in sorted(found, key=lambda entry: entry[0]):
        if total <= limit:
            break
        with contextlib.suppress(OSError):
            path.unlink()
        total -= size
