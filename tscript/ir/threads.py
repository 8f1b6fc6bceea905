"""The threads that iterations can run on, by the names that programs give them."""

from __future__ import annotations

import difflib
from typing import Final

THREADS: Final = (
    *(f"{kind}.{axis}" for kind in ("threadIdx", "blockIdx", "vthread") for axis in "xyz"),
    "vthread",
    "cthread",
)  # fmt: skip


def require_thread(tag: object) -> None:
    """TypeError unless `tag` is a text; ValueError, with similar names, unless it is one of `THREADS`.

    >>> require_thread("threadIdx.q")
    Traceback (most recent call last):
    ValueError: there is no thread 'threadIdx.q'; did you mean 'threadIdx.x', 'threadIdx.y' or 'threadIdx.z'?
    """
    if not isinstance(tag, str):
        raise TypeError(f"a thread is named by a text such as 'threadIdx.x', not {tag!r}")
    if tag in THREADS:
        return
    lower = {t.lower(): t for t in THREADS}
    found = [repr(lower[t]) for t in sorted(difflib.get_close_matches(tag.lower(), lower, 3, 0.7))]
    if found:
        meant = f"{', '.join(found[:-1])} or {found[-1]}" if len(found) > 1 else found[0]
        raise ValueError(f"there is no thread {tag!r}; did you mean {meant}?")
    raise ValueError(f"there is no thread {tag!r}; threads are {', '.join(THREADS)}")
