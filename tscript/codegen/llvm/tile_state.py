"""The state of AMX tiles, which Linux gives only to processes that asked for it."""

from __future__ import annotations

import ctypes
import platform
import threading
from typing import Any, Final

from tscript.support.errors import BuildError

USES_TILES: Final = "llvm.x86.ldtilecfg"
"""Code that calls this intrinsic needs the state."""
# arch_prctl(2): ask for a part of the state by the number that XSAVE gives it.
_ARCH_PRCTL, _REQUEST, _TILE_DATA = 158, 0x1023, 18


class _Request:
    lock = threading.Lock()
    failure: str | None = None
    was_made = False


def request_tiles() -> None:
    """Ask for the tiles, for all threads of the process and those to come; once, whatever the number of calls.

    Raises BuildError where the system does not give them: the first use of a tile would end the process.
    """
    with _Request.lock:
        if not _Request.was_made:
            _Request.failure = _ask()
            _Request.was_made = True
    if _Request.failure is not None:
        raise BuildError(
            f"the code uses tiles of AMX, and this process may not: {_Request.failure}\n"
            '  try: a target without them, as in "llvm -mattr=-amx-tile"'
        )


def _ask() -> str | None:
    """Why there are no tiles; None where there are."""
    if platform.system() != "Linux" or platform.machine() not in ("x86_64", "AMD64"):
        return "it has to ask the kernel of Linux for them, on an x86-64 CPU"
    system: Any = ctypes.CDLL(None, use_errno=True).syscall
    system.restype = ctypes.c_long
    if system(ctypes.c_long(_ARCH_PRCTL), ctypes.c_long(_REQUEST), ctypes.c_long(_TILE_DATA)) == 0:
        return None
    return f"the kernel refuses them (error {ctypes.get_errno()} of arch_prctl)"


__all__ = ["USES_TILES", "request_tiles"]
