"""The operators that the library knows, in the order in which they are tried."""

from __future__ import annotations

from typing import Final

from tscript.library.operator import Operator

OPERATORS: Final[tuple[Operator, ...]] = ()
"""The first that recognises a function schedules it: the more special ones stand first."""

__all__ = ["OPERATORS"]
