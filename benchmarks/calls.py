"""What one call of a built function costs from Python, all checks included.

    python benchmarks/calls.py                       # the table
    python benchmarks/calls.py --peer OTHER/python   # the same calls in apache-tvm, side by side
    python benchmarks/calls.py --json

The kernels touch one element, so that what is measured is the call. Each round measures every case once in every
column, one after the other; a figure is the median of the rounds, of calls in a plain loop of Python. The columns
are ours with NumPy arrays and with arrays of `tscript.nd`, the NumPy function that does the same, the same
function compiled by numba (when that is installed), and TVM with NumPy arrays and with its own (with `--peer`). On
a busy machine compare within a run only.
"""

from __future__ import annotations

import argparse
import functools
import gc
import importlib
import importlib.util
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

import numpy as np
from peer import PeerProcess, later_spelling

import tscript

BUDGET: Final = 0.15e-6
"""Seconds for a call with three arrays."""
START_BUDGET: Final = 1e-6
"""Seconds to start and join the threads of a parallel loop, while they spin."""


def _of_arrays(count: int) -> str:
    names = [f"A{i}" for i in range(count)]
    params = ", ".join(f'{n}: T.Buffer((4,), "float32")' for n in names)
    total = " + ".join(f"{n}[0]" for n in names[:-1]) or "T.float32(0)"
    return f'@T.prim_func\ndef k({params}):\n    T.func_attr({{"global_symbol": "k"}})\n    {names[-1]}[0] = {total}\n'


_SYMBOLIC: Final = """
@T.prim_func
def k(a: T.handle, b: T.handle, c: T.handle):
    T.func_attr({"global_symbol": "k"})
    n = T.int32()
    A = T.match_buffer(a, (n,), "float32")
    B = T.match_buffer(b, (n,), "float32")
    C = T.match_buffer(c, (n,), "float32")
    C[0] = A[0] + B[0]
"""
_SCALARS: Final = """
@T.prim_func
def k(A: T.Buffer((4,), "float32"), x: T.int32, y: T.float32):
    T.func_attr({"global_symbol": "k"})
    A[0] = T.Cast("float32", x) * y
"""
_PARALLEL: Final = """
@T.prim_func
def k(A: T.Buffer((64,), "float32")):
    T.func_attr({"global_symbol": "k"})
    for i in T.parallel(2):
        A[i * 32] = T.float32(1)
"""
_NOTHING: Final = """
@T.prim_func
def k():
    T.func_attr({"global_symbol": "k"})
    T.evaluate(0)
"""


@dataclass(frozen=True)
class Case:
    """A kind of call: kernel, numbers after the arrays, the NumPy function that does the same, numba's source."""

    key: str
    what: str
    source: str
    arrays: int
    scalars: tuple[int | float, ...] = ()
    ufunc: Callable[..., object] | None = None
    python: str = ""

    @property
    def length(self) -> int:
        """Elements of each array."""
        return 64 if self.source is _PARALLEL else 4


def _numba_source(arrays: int) -> str:
    names = [f"a{i}" for i in range(arrays)]
    total = " + ".join(f"{n}[0]" for n in names[:-1]) or "0"
    return f"def k({', '.join(names)}):\n    {names[-1]}[0] = {total}\n"


_PRANGE: Final = "def k(a):\n    for i in prange(2):\n        a[i * 32] = 1\n"

CASES: Final = (
    Case("none", "no argument", _NOTHING, 0, (), None, "def k():\n    pass\n"),
    Case("arrays1", "1 array", _of_arrays(1), 1, (), None, _numba_source(1)),
    Case("arrays3", "3 arrays", _of_arrays(3), 3, (), np.add, _numba_source(3)),
    Case("arrays8", "8 arrays", _of_arrays(8), 8, (), None, _numba_source(8)),
    Case("symbolic3", "3 arrays of one symbolic size", _SYMBOLIC, 3, (), np.add, _numba_source(3)),
    Case("scalars", "1 array, an int and a float", _SCALARS, 1, (3, 2.5), None, "def k(a, x, y):\n    a[0] = x * y\n"),
    Case("parallel", "1 array, a parallel loop of 2 iterations", _PARALLEL, 1, (), None, _PRANGE),
)  # fmt: skip
COLUMNS: Final = {
    "numpy": "ours, NumPy arrays", "own": "ours, nd arrays", "ufunc": "NumPy's function", "numba": "numba",
    "peer_numpy": "TVM, NumPy arrays", "peer_own": "TVM, its own",
}  # fmt: skip

# Runs in the peer's Python, which has no tscript: a line in, the figures of one round out.
_PEER_PROGRAM: Final = """
import json, sys, time
import numpy as np, tvm, tvm.script
try:
    from tvm.script import tirx
except ImportError:
    pass
request = json.loads(sys.stdin.readline())
def timed(f, args, number):
    start = time.perf_counter()
    for _ in range(number): f(*args)
    return (time.perf_counter() - start) / number
calls = []
for case in request["cases"]:
    f = tvm.compile(tvm.script.from_source(case["source"]), target="llvm")["k"]
    arrays = [np.ones(case["length"], "float32") for _ in range(case["arrays"])]
    for key, kind in (("peer_numpy", lambda a: a), ("peer_own", tvm.runtime.tensor)):
        calls.append((case["key"], key, f, [*map(kind, arrays), *case["scalars"]]))
print(json.dumps(tvm.__version__), flush=True)
for line in sys.stdin:
    number = int(line)
    print(json.dumps([[case, key, timed(f, args, number)] for case, key, f, args in calls]), flush=True)
"""

Figures = dict[tuple[str, str], float]
"""Seconds a call, by case and column."""


class Peer:
    """An installation of apache-tvm in a process of its own."""

    def __init__(self, python: str) -> None:
        self._process = PeerProcess([python, "-c", _PEER_PROGRAM])
        cases = [
            {
                "key": c.key,
                "source": later_spelling(c.source),
                "arrays": c.arrays,
                "length": c.length,
                "scalars": c.scalars,
            }
            for c in CASES
        ]
        try:
            self.version: str = self._process.ask({"cases": cases})
        except BaseException:
            self.close()
            raise

    def round(self, number: int) -> Figures:
        """One figure for each call."""
        return {(case, column): seconds for case, column, seconds in self._process.ask(number)}

    def close(self) -> None:
        """End the process."""
        self._process.close()


def _timed(f: Callable[..., object], args: Sequence[Any], number: int) -> float:
    # The call is written out, since passing on a tuple of arguments costs as much as a call.
    names = ", ".join(f"a{i}" for i in range(len(args)))
    loop = _loop(names)
    return loop(f, number, time.perf_counter, *args) / number


@functools.cache
def _loop(names: str) -> Callable[..., float]:
    space: dict[str, Any] = {}
    more = f", {names}" if names else ""
    exec(
        f"def loop(f, number, now{more}):\n    start = now()\n    for _ in range(number):\n        f({names})\n"
        "    return now() - start\n",
        space,
    )
    return space["loop"]


def _ours() -> dict[tuple[str, str], tuple[Callable[..., object], list[Any]]]:
    """What to call, by case and column."""
    calls: dict[tuple[str, str], tuple[Callable[..., object], list[Any]]] = {}
    jit: Any = importlib.import_module("numba").njit if importlib.util.find_spec("numba") else None
    for case in CASES:
        f = tscript.build(tscript.script.from_source(case.source), target="llvm")["k"]
        arrays = [np.ones(case.length, "float32") for _ in range(case.arrays)]
        calls[case.key, "numpy"] = f, [*arrays, *case.scalars]
        calls[case.key, "own"] = f, [*map(tscript.nd.array, arrays), *case.scalars]
        if case.ufunc is not None:
            calls[case.key, "ufunc"] = case.ufunc, [*arrays, *case.scalars]
        if jit is not None:
            space: dict[str, Any] = {"prange": importlib.import_module("numba").prange}
            exec(case.python, space)
            compiled = jit(nogil=True, parallel="prange" in case.python)(space["k"])
            calls[case.key, "numba"] = compiled, [*arrays, *case.scalars]
    return calls


def measure(*, rounds: int, number: int, peer: Peer | None = None) -> Figures:
    """The median over `rounds` for each case and column that there is; `number` calls make a figure."""
    calls = _ours()
    for f, args in calls.values():
        f(*args)
    samples: dict[tuple[str, str], list[float]] = {}
    gc.collect()
    for _ in range(rounds):
        found = {key: _timed(f, args, number) for key, (f, args) in calls.items()}
        if peer is not None:
            found |= peer.round(number)
        for key, seconds in found.items():
            samples.setdefault(key, []).append(seconds)
    return {key: median(values) for key, values in samples.items()}


def render(figures: Mapping[tuple[str, str], float]) -> str:
    """The table as Markdown, in microseconds."""
    columns = [c for c in COLUMNS if any(column == c for _, column in figures)]
    head = ["call", *(COLUMNS[c] for c in columns)]
    lines = ["| " + " | ".join(head) + " |", "|---" + "|--:" * len(columns) + "|"]
    for case in CASES:
        cells = [figures.get((case.key, c)) for c in columns]
        lines.append("| " + " | ".join([case.what, *("–" if s is None else f"{1e6 * s:.3f}" for s in cells)]) + " |")
    worst = max(s for (case, c), s in figures.items() if case == "arrays3" and c in ("numpy", "own"))
    state = "within" if worst <= BUDGET else "over"
    lines += ["", f"µs a call. Three arrays: {1e6 * worst:.3f}, {state} the budget of {1e6 * BUDGET:.2f}."]
    if ("parallel", "numpy") in figures:
        start = figures["parallel", "numpy"] - figures["arrays1", "numpy"]
        state = "within" if start <= START_BUDGET else "over"
        lines.append(f"Threads start and join in {1e6 * start:.3f}, {state} the budget of {1e6 * START_BUDGET:.2f}.")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15, help="figures of which the median is taken")
    parser.add_argument("--number", type=int, default=20_000, help="calls that make one figure")
    parser.add_argument("--peer", metavar="PYTHON", help="a Python with apache-tvm 0.25 to measure beside")
    parser.add_argument("--json", action="store_true", help="print seconds as JSON")
    options = parser.parse_args(arguments)
    peer = Peer(options.peer) if options.peer else None
    try:
        figures = measure(rounds=options.rounds, number=options.number, peer=peer)
    finally:
        if peer is not None:
            peer.close()
    table = [{"case": case, "column": column, "seconds": seconds} for (case, column), seconds in figures.items()]
    print(json.dumps(table, indent=2) if options.json else render(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
