"""Where the time of tuning goes."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

_running: ContextVar[tuple[Profiler, ...]] = ContextVar("tscript_profilers", default=())


class Profiler:
    """Seconds per part of tuning, for what runs inside `with Profiler() as p:`.

    >>> with Profiler() as p:
    ...     with Profiler.timeit("Search"):
    ...         pass
    >>> sorted(p.get())
    ['Search', 'Total']
    """

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}
        self._start = 0.0

    def get(self) -> dict[str, float]:
        """Seconds by name; `Total` is the time inside `with`."""
        return dict(self._seconds)

    def table(self) -> str:
        """The parts, most costly first: number, name, minutes and share of the total."""
        total = self._seconds.get("Total", 0.0) or sum(self._seconds.values())
        rows = [("ID", "Name", "Time (min)", "Percentage")]
        parts = sorted(self._seconds.items(), key=lambda item: (item[0] != "Total", -item[1]))
        for i, (name, seconds) in enumerate(parts):
            share = 100 * seconds / total if total else 0.0
            rows.append((str(i) if name != "Total" else "", name, f"{seconds / 60:.4f}", f"{share:.2f}"))
        widths = [max(len(r[k]) for r in rows) for k in range(4)]
        lines = [" | ".join(cell.rjust(w) for cell, w in zip(r, widths, strict=True)) for r in rows]
        rule = "-" * len(lines[0])
        return "\n".join([lines[0], rule, *lines[1:], rule])

    def add(self, name: str, seconds: float) -> None:
        """Count seconds under a name."""
        self._seconds[name] = self._seconds.get(name, 0.0) + seconds

    def __enter__(self) -> Profiler:
        self._start = time.perf_counter()
        _running.set((*_running.get(), self))
        return self

    def __exit__(self, *exc: object) -> None:
        self.add("Total", time.perf_counter() - self._start)
        _running.set(tuple(p for p in _running.get() if p is not self))

    @staticmethod
    def current() -> Profiler | None:
        """The innermost profiler that is entered."""
        running = _running.get()
        return running[-1] if running else None

    @staticmethod
    @contextmanager
    def timeit(name: str) -> Generator[None, None, None]:
        """Count the time inside under a name, if a profiler is entered."""
        profiler = Profiler.current()
        if profiler is None:
            yield
            return
        start = time.perf_counter()
        try:
            yield
        finally:
            profiler.add(name, time.perf_counter() - start)
