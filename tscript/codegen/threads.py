"""How many threads run parallel loops."""

from __future__ import annotations

import ctypes
import operator
import threading
from typing import Final

from tscript.support.config import current
from tscript.support.wording import kind_of
from tscript.target.detect import core_count

MOST_THREADS: Final = 1024
"""The most threads that may be asked for."""


class _Number:
    """The number, in memory that machine code reads: 0 until somebody needs it."""

    lock = threading.Lock()
    cell = ctypes.c_int64(0)


# Threads may still run kernels while the interpreter takes its modules apart.
ctypes.pythonapi.Py_IncRef(ctypes.py_object(_Number.cell))


def num_threads() -> int:
    """The number of threads that run a parallel loop, the caller among them.

    It is what `set_num_threads` said last; before that `TSCRIPT_NUM_THREADS` (or `TVM_NUM_THREADS`), as it was when
    the number was first needed; without these, the number of cores that this process may use. A target with
    `-num-cores` makes it less for its kernels. Raises ValueError for a variable that holds no such number.
    """
    with _Number.lock:
        if not _Number.cell.value:
            _Number.cell.value = _at_first()
        return _Number.cell.value


def set_num_threads(number: int | None) -> None:
    """Run parallel loops with that many threads from now on: 1 runs them as if they were serial.

    It may be more than there are cores. None means what it was at first. The results do not depend on it. Raises
    TypeError for what is no integer, ValueError for less than 1 or more than 1024.

    >>> before = num_threads()
    >>> set_num_threads(2)
    >>> num_threads()
    2
    >>> set_num_threads(before)
    """
    value = _at_first() if number is None else _checked(number)
    with _Number.lock:
        _Number.cell.value = value


def _at_first() -> int:
    asked = current().num_threads
    return min(core_count(), MOST_THREADS) if asked is None else _checked(asked)


def _checked(number: int) -> int:
    try:
        value = operator.index(number)
    except TypeError:
        raise TypeError(f"a number of threads is an integer, not {kind_of(number)}") from None
    if not 1 <= value <= MOST_THREADS:
        raise ValueError(f"a loop is run by 1 to {MOST_THREADS} threads, not by {value}")
    return value


def number_address() -> int:
    """Where machine code finds the number, an int64 that stays there until the process ends."""
    num_threads()
    return ctypes.addressof(_Number.cell)


__all__ = ["MOST_THREADS", "num_threads", "number_address", "set_num_threads"]
