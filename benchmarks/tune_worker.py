"""The side of `benchmarks/tune.py` that runs inside a tuner's own process: it obeys orders until its input ends.

An order is a line of JSON on standard input, `{"do": "tune", ...}`, and each has one line of JSON as its answer, on
what was standard output when the process began; whatever else is printed goes to standard error. Needs NumPy and
nothing else, as it runs in every tuner's interpreter.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
Call = Callable[[], object]


class Tool(ABC):
    """A tuner, or something else whose kernels are timed beside a tuner's."""

    @abstractmethod
    def start(self, job: dict[str, Any]) -> str:
        """Load the tool; a text that says which version it is."""

    def prepare(self) -> None:  # noqa: B027 - most tools have nothing to add
        """Load what else is needed for tuning, before the clock starts."""

    @abstractmethod
    def tune(self, job: dict[str, Any]) -> dict[str, float]:
        """Tune the job's program into its `work_dir`: seconds by part of the work, `Total` among them."""

    @abstractmethod
    def load(self, job: dict[str, Any], arrays: list[Array]) -> tuple[Call, Callable[[], list[Array]]]:
        """The best kernel in `work_dir`, as a call on these arrays, and what the arrays hold after it. Raises
        LookupError where nothing was found.
        """

    def time(self, call: Call, number: int) -> float:
        """Seconds for so many calls."""
        start = time.perf_counter()
        for _ in range(number):
            call()
        return time.perf_counter() - start


class Server:
    """Carries out the orders for a tool."""

    def __init__(self, tool: Tool) -> None:
        self._tool = tool
        self._job: dict[str, Any] = {}
        self._call: Call | None = None

    def start(self, job: dict[str, Any]) -> dict[str, Any]:
        """Load the tool, for a job."""
        self._job = job
        return {"version": self._tool.start(job)}

    def prepare(self) -> dict[str, Any]:
        """Get ready to tune."""
        begin = time.perf_counter()
        self._tool.prepare()
        return {"secs": time.perf_counter() - begin}

    def tune(self) -> dict[str, Any]:
        """Tune."""
        begin = time.perf_counter()
        parts = self._tool.tune(self._job)
        return {"wall": time.perf_counter() - begin, "parts": parts}

    def load(self, arguments: str, results: str) -> dict[str, Any]:
        """Build the best kernel and run it once: from the arrays in one file to what they hold then in another."""
        with np.load(arguments) as saved:
            arrays = [saved[f"arr_{k}"] for k in range(len(saved.files))]
        call, after = self._tool.load(self._job, arrays)
        call()
        np.savez(results, *after())
        self._call = call
        return {}

    def time(self, secs: float) -> dict[str, Any]:
        """Seconds of a call, the mean of as many calls as fit into `secs`."""
        call = self._call
        if call is None:
            raise RuntimeError("nothing is loaded")
        once = min(self._tool.time(call, 1) for _ in range(2))
        number = max(1, int(secs / max(once, 1e-7)))
        return {"secs": self._tool.time(call, number) / number, "number": number}


def serve(tool: Tool) -> None:
    """Answer until there are no more orders. An order that fails is answered by `{"error": ...}`."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    server = Server(tool)
    orders: dict[str, Callable[..., dict[str, Any]]] = {
        "start": server.start, "prepare": server.prepare, "tune": server.tune, "load": server.load,
        "time": server.time,
    }  # fmt: skip
    for line in sys.stdin:
        order: dict[str, Any] = json.loads(line)
        try:
            answer = orders[order.pop("do")](**order)
        except Exception as e:
            traceback.print_exc()
            answer = {"error": f"{type(e).__name__}: {str(e).strip()[-400:]}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
