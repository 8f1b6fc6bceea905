"""Room for recursion over programs nested more deeply than Python's limit on nested calls expects."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final

from tscript.support.errors import TScriptError

# Before CPython 3.11 each call took some of the C stack, which overflows without an exception.
_LIMIT: Final = 12_000 if sys.version_info >= (3, 11) else 4_000


class _Limit:
    """The limit is one for all threads: the first who needs room raises it, the last one lowers it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._before = 0

    def enter(self) -> None:
        """Raise the limit."""
        with self._lock:
            if self._users == 0:
                self._before = sys.getrecursionlimit()
                sys.setrecursionlimit(max(_LIMIT, self._before))
            self._users += 1

    def leave(self) -> None:
        """Lower it, unless others still need it."""
        with self._lock:
            self._users -= 1
            if self._users == 0 and sys.getrecursionlimit() == max(_LIMIT, self._before):
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
