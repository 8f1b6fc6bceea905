"""How a tuning run goes, live: in terminals, in notebooks, or as a line of text for whoever asks."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from statistics import median
from typing import Any, Protocol

from rich.console import Console
from rich.live import Live
from rich.text import Text

from tscript.printer.highlight import notebook_display


class Tuned(Protocol):
    """What is asked of a task."""

    def gflops(self, ms: float) -> float:
        """Speed at a time."""
        ...


class Progress:
    """Trials done of `total`, failures, the best of each task, and how long the rest will take.

    Used with `with`, it is shown live where standard error is a terminal, or in a notebook; elsewhere the log says it.

    >>> Progress([], 64).line()
    '0/64 trials'
    """

    def __init__(self, tasks: Sequence[Tuned], total: int) -> None:
        self.total = total
        self.finished = 0
        self.failed = 0
        self._tasks = list(tasks)
        self._best: dict[int, float] = {}
        self._start = time.monotonic()
        self._live: Live | None = None
        self._handle: Any = None

    def advance(self, task: Tuned, run_secs: Sequence[float] | None) -> None:
        """Count a trial of a task: its seconds, or None for a failure."""
        self.finished += 1
        if run_secs:
            ms = median(run_secs) * 1e3
            key = next((k for k, t in enumerate(self._tasks) if t is task), 0)
            self._best[key] = min(ms, self._best.get(key, ms))
        else:
            self.failed += 1
        self._show()

    def line(self) -> str:
        """All of it in one line."""
        parts = [f"{self.finished}/{self.total} trials"]
        if self.failed:
            parts.append(f"{self.failed} failed")
        if self._best:
            best = [(self._tasks[k].gflops(ms), ms) for k, ms in self._best.items()]
            if len(self._tasks) == 1:
                parts.append(f"best {best[0][0]:.2f} GFLOPS ({best[0][1] * 1e3:.1f} us)")
            else:
                parts.append(f"{len(best)}/{len(self._tasks)} tasks ran, up to {max(best)[0]:.2f} GFLOPS")
        if self.finished:
            spent = time.monotonic() - self._start
            left = spent / self.finished * max(0, self.total - self.finished)
            parts.append(f"{spent:.0f} s spent, about {left:.0f} s left")
        return ", ".join(parts)

    def __enter__(self) -> Progress:
        self._start = time.monotonic()
        display = notebook_display()
        if display is not None:
            self._handle = display.display(self._bundle(), raw=True, display_id=True)
        elif sys.stderr.isatty():
            self._live = Live(Text(self.line()), console=Console(stderr=True), transient=True, redirect_stdout=False)
            self._live.start()
        return self

    def __exit__(self, *exc: object) -> None:
        if self._live is not None:
            self._live.stop()
        self._live = self._handle = None

    def _show(self) -> None:
        if self._live is not None:
            self._live.update(Text(self.line()))
        if self._handle is not None:
            self._handle.update(self._bundle(), raw=True)

    def _bundle(self) -> dict[str, str]:
        return {"text/plain": self.line()}
