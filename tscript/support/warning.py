"""Warnings that point at the line of the user, however deep inside the package they are raised."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from types import FrameType

_PACKAGE = str(Path(__file__).resolve().parents[1])


def warn_user(text: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the innermost line outside of this package.

    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as seen:
    ...     warnings.simplefilter("always")
    ...     warn_user("take care")
    >>> [str(w.message) for w in seen]
    ['take care']
    """
    level = 2
    frame: FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame is not None and frame.f_code.co_filename.startswith((_PACKAGE, "<constructor of ")):
        frame = frame.f_back
        level += 1
    warnings.warn(text, category, stacklevel=level)


__all__ = ["warn_user"]
