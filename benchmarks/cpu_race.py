"""Contenders that run in turn, what the machine itself can do, and TVM in a process of its own, for `cpu.py`.

In each round every contender runs once for a short while, so that whatever else the machine does meets all of them. A
ratio is the median, over the rounds, of the ratio in that round, beside that of the best rounds.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Final

import numpy as np
from peer import PeerProcess, later_program

import tscript
from tscript import library, te
from tscript.script import from_source

Contender = Callable[[int], float]
"""Calls so many times; seconds that took."""
ROUND: Final = 0.02
"""Seconds that a contender runs for in one round, if a call is not longer."""
SLOW: Final = 0.3
"""A contender whose call takes longer than so many seconds runs in the first rounds only."""
FEWEST: Final = 3
PEER: Final = Path(__file__).with_name("cpu_peer.py")


def calling(call: Callable[[], object]) -> Contender:
    """The contender that makes a call.

    >>> calling(lambda: None)(3) > 0
    True
    """

    def run(number: int) -> float:
        start = time.perf_counter()
        for _ in range(number):
            call()
        return time.perf_counter() - start

    return run


def race(
    contenders: Mapping[str, Contender], *, rounds: int, seconds: float, pause: float = 0.0
) -> dict[str, list[float]]:
    """Seconds of a call of each contender in each round.

    There are at most `rounds` rounds, as many as fit `seconds`, but at least 3. Before each contender is a `pause`, for
    threads that other libraries keep spinning for a while after a call.

    >>> found = race({"a": calling(lambda: None)}, rounds=2, seconds=0.01)
    >>> len(found["a"])
    2
    """
    once: dict[str, float] = {}
    for name, run in contenders.items():
        run(1)
        once[name] = max(run(1), 1e-7)
    numbers = {name: max(1, int(ROUND / s)) for name, s in once.items()}
    a_round = sum(pause + max(ROUND, s) for s in once.values() if s <= SLOW) or SLOW
    count = min(rounds, max(FEWEST, int(seconds / a_round)))
    found: dict[str, list[float]] = {name: [] for name in contenders}
    for n in range(count):
        for name, run in contenders.items():
            if once[name] > SLOW and n >= FEWEST:
                continue
            if pause:
                time.sleep(pause)
            if numbers[name] > 1:
                run(1)
            found[name].append(run(numbers[name]) / numbers[name])
    return found


def ratio(ours: list[float], theirs: list[float]) -> tuple[float, float]:
    """How many times as long theirs take: the median over rounds, and between the best rounds.

    >>> ratio([1.0, 2.0, 1.0], [2.0, 2.0, 3.0])
    (2.0, 2.0)
    """
    return median(t / o for t, o in zip(theirs, ours, strict=False)), min(theirs) / min(ours)


# -- what the machine can do --------------------------------------------------------------------------


class Ceiling:
    """A contender that does nothing but what the machine is good at; `amount` of it in a call."""

    def __init__(self, run: Contender, amount: float) -> None:
        self.run = run
        self.amount = amount


def fma(threads: int) -> Ceiling:
    """Fused multiply-adds of 16 independent vectors in each thread, on registers alone; the amount is in operations."""
    features = tscript.target.Target("llvm").features
    lanes, count, steps = 16 if "avx512f" in features else 8 if "avx2" in features else 4, 16, 20_000
    chains = "\n".join(
        f"            A[t, {c * lanes}:{(c + 1) * lanes}] = "
        f"A[t, {c * lanes}:{(c + 1) * lanes}] * X[0:{lanes}] + Y[0:{lanes}]"
        for c in range(count)
    )
    params = f"A: T.Buffer(({threads}, {count * lanes})), X: T.Buffer(({lanes},)), Y: T.Buffer(({lanes},))"
    func = from_source(
        f"@T.prim_func\ndef peak({params}):\n    T.func_attr({{'global_symbol': 'peak', 'tir.noalias': True}})\n"
        f"    for t in T.parallel({threads}):\n        for _ in range({steps}):\n{chains}\n"
    )
    kernel = tscript.build(func, target=f"llvm -num-cores={threads}")["peak"]
    sums = np.zeros((threads, count * lanes), np.float32)
    x, y = np.full((2, lanes), 0.5, np.float32)
    return Ceiling(calling(lambda: kernel(sums, x, y)), 2.0 * threads * count * lanes * steps)


def copy(threads: int, count: int) -> Ceiling:
    """A copy that bypasses the caches, between arrays that begin at a cache line; the amount is in bytes moved."""
    a = te.placeholder((count,), name="A")
    b = te.compute((count,), lambda i: a[i], name="B")
    sch = tscript.tir.Schedule(te.create_prim_func([a, b]))
    outer, inner = sch.split(sch.get_loops("B")[0], [None, min(count, 1 << 14)])
    sch.parallel(outer)
    sch.annotate(inner, "pragma_nontemporal", 1)
    sch.vectorize(inner)
    kernel = tscript.build(sch.mod, target=f"llvm -num-cores={threads}")["main"]
    source, result = (tscript.nd.array(np.ones(count, np.float32)) for _ in range(2))
    return Ceiling(calling(lambda: kernel(source, result)), 8.0 * count)


def read(threads: int, count: int) -> Ceiling:
    """Sums of rows of an array that begins at a cache line; the amount is in bytes read."""
    columns = min(count, 4096)
    a = te.placeholder((count // columns, columns), name="A")
    k = te.reduce_axis((0, columns), "k")
    func = te.create_prim_func([a, te.compute((count // columns,), lambda i: te.sum(a[i, k], axis=k), name="B")])
    target = f"llvm -num-cores={threads}"
    kernel = tscript.build(library.schedule(func, target).mod, target)["main"]
    source = tscript.nd.array(np.ones((count // columns, columns), np.float32))
    result = tscript.nd.array(np.zeros(count // columns, np.float32))
    return Ceiling(calling(lambda: kernel(source, result)), 4.0 * count)


# -- TVM ----------------------------------------------------------------------------------------------


class Peer:
    """An installation of apache-tvm in a process of its own, which runs one program at a time when told to."""

    def __init__(self, python: str, threads: int) -> None:
        self._process = PeerProcess([python, str(PEER), str(threads)])
        try:
            self.version: str = self._process.ask({})["version"]
        except BaseException:
            self.close()
            raise

    def contender(self, func: tscript.tir.PrimFunc) -> Contender | None:
        """The contender that runs a program; None, with a word on standard error, where the peer cannot."""
        buffers = [func.buffer_map[p] for p in func.params]
        shapes = [[[int(e) for e in b.shape], str(b.dtype)] for b in buffers]  # pyright: ignore[reportArgumentType]
        answer = self._process.ask({"program": later_program(func), "arguments": shapes})
        if "failure" in answer:
            print(f"TVM: {answer['failure']}", file=sys.stderr)
            return None
        return lambda number: float(self._process.ask({"number": number})["seconds"])

    def close(self) -> None:
        """End the process."""
        self._process.close()
