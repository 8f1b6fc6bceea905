"""Processes that `benchmarks/tune.py` gives orders to, and what it sees of them: answers, deadlines, and records."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import psutil

FAILED = 1e9
"""Seconds that stand for no measurement: both tuners record more than this for a failure."""


class WorkerError(Exception):
    """A process that ended, took too long, or answered that it failed."""


class Worker:
    """A process with `tune_worker.serve` in it. Its output goes to a file; `close` ends it with all that it started.

    The process leads a session of its own, and its answers come through a pipe that is only read as far as the answer
    goes: processes that it leaves behind can hold nothing up.
    """

    def __init__(self, command: Sequence[str], env: Mapping[str, str], log: Path) -> None:
        self._log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as stream:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stream, env=dict(env),
                start_new_session=True,
            )  # fmt: skip
        assert self._process.stdin is not None and self._process.stdout is not None
        self._orders = self._process.stdin
        self._answers = self._process.stdout.fileno()
        self._read = b""

    @property
    def pid(self) -> int:
        """The process's number, and that of its session."""
        return self._process.pid

    def ask(self, limit: float, do: str, **options: Any) -> dict[str, Any]:
        """Give an order and wait for the answer. Raises WorkerError for a failure, and after `limit` seconds."""
        try:
            self._orders.write(json.dumps({"do": do, **options}).encode() + b"\n")
            self._orders.flush()
        except OSError as e:
            raise WorkerError(self._end()) from e
        answer: dict[str, Any] = json.loads(self._line(time.monotonic() + limit, do, limit))
        if "error" in answer:
            raise WorkerError(answer["error"])
        return answer

    def _line(self, deadline: float, do: str, limit: float) -> bytes:
        with selectors.DefaultSelector() as selector:
            selector.register(self._answers, selectors.EVENT_READ)
            while b"\n" not in self._read:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise WorkerError(f"'{do}' took more than {limit:g} s")
                if selector.select(min(left, 0.5)):
                    data = os.read(self._answers, 1 << 16)
                    if not data:
                        raise WorkerError(self._end())
                    self._read += data
                elif self._process.poll() is not None:
                    raise WorkerError(self._end())
        line, _, self._read = self._read.partition(b"\n")
        return line

    def _end(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return f"the process ended ({self._process.returncode}): " + " | ".join(lines[-3:])[-400:]

    def close(self) -> None:
        """End the process and all that it started."""
        ended = kill_session(self._process.pid)
        with contextlib.suppress(OSError):
            self._orders.close()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
        psutil.wait_procs(ended, timeout=5)

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def kill_session(leader: int) -> list[psutil.Process]:
    """Kill a process, its descendants, and all others of its session: those killed. What starts meanwhile is found
    by looking again.
    """
    killed: dict[int, psutil.Process] = {}
    for _ in range(5):
        found = [p for p in _session(leader) if p.pid not in killed]
        if not found:
            break
        for process in found:
            killed[process.pid] = process
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGKILL)
    return list(killed.values())


def _session(leader: int) -> list[psutil.Process]:
    found: dict[int, psutil.Process] = {}
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(leader)
        found = {p.pid: p for p in (process, *process.children(recursive=True))}
    for process in psutil.process_iter():
        with contextlib.suppress(OSError, psutil.NoSuchProcess):
            if os.getsid(process.pid) == leader:
                found[process.pid] = process
    return list(found.values())


@dataclass
class Watch:
    """Notes when the records of a run appear in the file to which both tuners append them in one form."""

    path: Path
    start: float = field(default_factory=time.monotonic)
    _seen: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    _at: int = 0
    _part: bytes = b""

    def __post_init__(self) -> None:
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _note(self) -> None:
        if not self.path.exists() or self.path.stat().st_size <= self._at:
            return
        now = time.monotonic() - self.start
        with self.path.open("rb") as stream:
            stream.seek(self._at)
            data = stream.read()
        self._at += len(data)
        *lines, self._part = (self._part + data).split(b"\n")
        self._seen += [(now, seconds_of(line)) for line in lines if line.strip()]

    def _look(self) -> None:
        while not self._done.wait(0.1):
            self._note()

    def stop(self) -> tuple[int, int, list[tuple[float, float]]]:
        """Stop watching: trials, those that failed, and (seconds since the start, best time) where it got better."""
        self._done.set()
        self._thread.join()
        self._note()
        best = FAILED
        curve: list[tuple[float, float]] = []
        for when, secs in self._seen:
            if secs < best:
                best = secs
                curve.append((round(when, 1), secs))
        return len(self._seen), sum(s >= FAILED for _, s in self._seen), curve


def seconds_of(line: bytes) -> float:
    """The median time of a record; what stands for a failure where it has none."""
    record: Any = json.loads(line)[1]
    return median(float(s) for s in record[1]) if record[1] else FAILED
