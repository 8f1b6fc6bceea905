"""A text file of lines that several processes append to, whole lines only."""

from __future__ import annotations

import os
from collections.abc import Generator
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
        self._offset = 0
        self._count = 0

    def new_lines(self) -> list[tuple[int, str]]:
        """Number (from 1) and text of the lines added since the last call. ValueError for bytes that are no text."""
        if not self.path.exists() or self.path.stat().st_size == self._offset:
            return []
        with self.path.open("rb") as f:
            f.seek(self._offset)
            data = f.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        found: list[tuple[int, str]] = []
        for line in whole.split(b"\n")[:-1]:
            self._count += 1
            try:
                text = line.decode()
            except UnicodeDecodeError as e:
                raise ValueError(f"{self.path}:{self._count}: the line is no UTF-8 text ({e})") from e
            if text.strip():
                found.append((self._count, text))
        return found

    @contextmanager
    def lock(self) -> Generator[None, None, None]:
        """Keep other writers away."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with Path(f"{self.path}.lock").open("w") as f:
            _flock(f, unlock=False)
            try:
                yield
            finally:
                _flock(f, unlock=True)

    def append(self, line: str) -> None:
        """Add a line, inside `lock` and after `new_lines`."""
        data = (line + "\n").encode()
        fd = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            if os.fstat(fd).st_size > self._offset:
                os.ftruncate(fd, self._offset)  # what a killed writer left
            os.lseek(fd, self._offset, os.SEEK_SET)
            written = 0
            while written < len(data):
                written += os.write(fd, data[written:])
            os.fsync(fd)
        finally:
            os.close(fd)
        self._offset += len(data)
        self._count += 1


def _flock(f: Any, unlock: bool) -> None:
    if fcntl is not None:
        fcntl.flock(f, fcntl.LOCK_UN if unlock else fcntl.LOCK_EX)
