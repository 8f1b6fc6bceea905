"""Room for recursion over programs nested more deeply than Python's limit on nested calls expects."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final, TypeVar

from tscript.support.errors import TScriptError

# Before CPython 3.11 each call took some of the C stack, which overflows without an exception.
_LIMIT: Final = 12_000 if sys.version_info >= (3, 11) else 4_000

# Python's own parser recurses on the C stack, up to three times as deep as the limit for Python code.
_PARSER_LIMIT: Final = 100_000
_PARSER_STACK: Final = 512 << 20

T = TypeVar("T")


class _Limit:
    """The limit is one for all threads: the first who needs room raises it, the last one lowers it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._before = 0
        self._raised = 0

    def enter(self, limit: int = _LIMIT) -> None:
        """Raise the limit to `limit` at least."""
        with self._lock:
            if self._users == 0:
                self._before = sys.getrecursionlimit()
            self._raised = max(limit, sys.getrecursionlimit())
            sys.setrecursionlimit(self._raised)
            self._users += 1

    def leave(self) -> None:
        """Lower it, unless others still need it."""
        with self._lock:
            self._users -= 1
            if self._users == 0 and sys.getrecursionlimit() == self._raised:
                sys.setrecursionlimit(self._before)


_limit = _Limit()


@contextmanager
def room_for_deep_programs(error: Callable[[str], TScriptError]) -> Generator[None, None, None]:
    """Raise Python's recursion limit for what is done inside.

    Raises `error(text)` where even that is not enough.
    """
    _limit.enter()
    try:
        yield
    except RecursionError:
        raise error(
            "statements or expressions of the program are nested too deeply\n"
            "  try: split the program into several functions, or give parts of large expressions names"
        ) from None
    finally:
        _limit.leave()


_stack_size_lock = threading.Lock()


def on_large_stack(work: Callable[[], T]) -> T:
    """What `work` returns or raises, run on a thread with a stack for very deep recursion in C code."""
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as e:
            errors.append(e)

    thread = threading.Thread(target=run)
    _limit.enter(_PARSER_LIMIT)
    try:
        with _stack_size_lock:
            before = threading.stack_size(_PARSER_STACK)
            try:
                thread.start()
            finally:
                threading.stack_size(before)
        thread.join()
    finally:
        _limit.leave()
    if errors:
        raise errors[0]
    return results[0]
