"""A text file of lines that several processes append to, whole lines only."""

from __future__ import annotations

import os
import zlib
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

try:
    import fcntl
except ImportError:  # no such locks on Windows: one process at a time
    fcntl = None


class LineFile:
    """A file that only grows. A line counts once its end is written; what a killed writer left of one is cut off by
    the next writer.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = FileLock(path)
        self.forget()

    def forget(self) -> None:
        """Take the file for one that was never read."""
        self._offset = 0
        self._count = 0
        self._check = 0
        self._file: tuple[int, int] | None = None
        self._seen: tuple[int, int, int, int] | None = None

    def damage(self) -> str:
        """What became of the lines that were read, if another hand than a writer's was at them; else nothing."""
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return "was deleted" if self._file else ""
        seen = (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size)
        if seen == self._seen:
            return ""
        if self._file is not None and seen[:2] != self._file:
            return "was replaced by another file"
        if found.st_size < self._offset:
            return "was cut short"
        if self._offset and zlib.crc32(self._read(0, self._offset)) != self._check:
            return "was changed in the middle"
        self._file = seen[:2]
        self._seen = seen
        return ""

    def new_lines(self) -> list[tuple[int, bytes]]:
        """Number (from 1) and text of the lines added since the last call, but for blank ones."""
        try:
            data = self._read(self._offset)
        except FileNotFoundError:
            return []
        whole = data[: data.rfind(b"\n") + 1]
        self._passed(whole)
        found: list[tuple[int, bytes]] = []
        for line in whole.split(b"\n")[:-1]:
            self._count += 1
            if line.strip():
                found.append((self._count, line))
        return found

    def _read(self, start: int, count: int = -1) -> bytes:
        with self.path.open("rb") as f:
            f.seek(start)
            return f.read(count)

    def _passed(self, data: bytes) -> None:
        self._offset += len(data)
        self._check = zlib.crc32(data, self._check)

    @contextmanager
    def lock(self) -> Generator[None, None, None]:
        """Keep other writers away; may be entered again inside."""
        with self._lock.held():
            yield

    def append(self, line: str) -> None:
        """Add a line, inside `lock` and after `new_lines`. OSError, and nothing counts, where it cannot be written."""
        data = (line + "\n").encode()
        fd = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            if os.fstat(fd).st_size > self._offset:
                os.ftruncate(fd, self._offset)  # what a killed writer left
            os.lseek(fd, self._offset, os.SEEK_SET)
            _write(fd, data)
            found = os.fstat(fd)
        finally:
            os.close(fd)
        self._passed(data)
        self._count += 1
        self._file = (found.st_dev, found.st_ino)
        self._seen = (*self._file, found.st_mtime_ns, found.st_size)


def _write(fd: int, data: bytes) -> None:
    written = 0
    while written < len(data):
        written += os.write(fd, data[written:])
    os.fsync(fd)


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write a file of these lines, whole on the disk when this returns."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        _write(fd, "".join(f"{line}\n" for line in lines).encode())
    finally:
        os.close(fd)


def append_line(path: Path, line: str) -> None:
    """Add a line to a file that nobody has read, whole on the disk when this returns."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        _write(fd, f"{line}\n".encode())
    finally:
        os.close(fd)


def put_aside(path: Path) -> Path:
    """Rename a damaged file to `*.damaged` (or `*.damaged.2`, ...); its new path."""
    at = path.with_name(f"{path.name}.damaged")
    k = 2
    while at.exists():
        at = path.with_name(f"{path.name}.damaged.{k}")
        k += 1
    os.replace(path, at)
    return at


class FileLock:
    """Among processes, one at a time changes a file: a lock on a file beside it, named `*.lock`."""

    def __init__(self, path: Path) -> None:
        self._path = Path(f"{path}.lock")
        self._depth = 0

    @contextmanager
    def held(self) -> Generator[None, None, None]:
        """Wait for the others, and keep them away inside; may be entered again by who holds it."""
        if self._depth:
            yield
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("w") as f:
            _flock(f, unlock=False)
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1
                _flock(f, unlock=True)


def _flock(f: Any, unlock: bool) -> None:
    if fcntl is not None:
        fcntl.flock(f, fcntl.LOCK_UN if unlock else fcntl.LOCK_EX)
