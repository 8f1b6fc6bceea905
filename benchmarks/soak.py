"""Long runs: whether memory stays bounded, and calls stay right, over thousands of builds and millions of calls.

    python benchmarks/soak.py                      # 10,000 builds, 10,000 loads, 60 s of calls from 16 threads
    python benchmarks/soak.py --builds 500 --loads 500 --seconds 5 --json

Each build has a program of its own, which is parsed, built, called and dropped; every tenth is written to a file
as well. A run fails (exit status 1) when a cycle costs more than the limit of its row, or a call goes wrong. Growth
is measured from the end of a warm-up of a tenth of the cycles, so a pool that fills once does not count.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import tscript
from tscript.support.config import configure

PROGRAM = """
@T.prim_func
def main(a: T.handle, b: T.handle, s: T.float32) -> T.int32:
    n = T.int32()
    A = T.match_buffer(a, (n,), "float32")
    B = T.match_buffer(b, (n,), "float32")
    for i in range(n):
        with T.block("B"):
            v = T.axis.spatial(n, i)
            B[v] = A[v] * s + T.float32({number})
    T.ret({number})
"""


@dataclass(frozen=True)
class Row:
    """What a kind of cycle cost: KiB of memory that stayed and seconds, for each; `limit` in KiB."""

    name: str
    cycles: int
    growth: float
    limit: float
    seconds: float
    errors: int = 0

    @property
    def is_within(self) -> bool:
        """Whether memory stayed bounded and nothing went wrong."""
        return self.growth <= self.limit and not self.errors


def resident() -> float:
    """KiB of memory that this process has; Linux only."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4.0


def cycles(name: str, count: int, limit: float, once: Callable[[int], bool]) -> Row:
    """Run `once(i)` for each i, which says whether all was right."""
    warm = max(count // 10, 1)
    errors = sum(not once(i) for i in range(warm))
    before, start = resident(), time.perf_counter()
    errors += sum(not once(i) for i in range(warm, warm + count))
    seconds = (time.perf_counter() - start) / count
    return Row(name, count, (resident() - before) / count, limit, seconds, errors)


def _is_right(lib: Any, number: int) -> bool:
    a, b = np.arange(5, dtype=np.float32), np.zeros(5, np.float32)
    result = lib["main"](a, b, 2.0)
    return result == number and bool((b == a * 2 + number).all())


def build(number: int) -> Any:
    """A module of its own for each number."""
    with configure(cache="off"):
        return tscript.build(tscript.script.from_source(PROGRAM.format(number=number)))


def builds(count: int, folder: Path) -> Row:
    """Parse, build, call and drop; write every tenth."""

    def once(i: int) -> bool:
        lib = build(i)
        if i % 10 == 0:
            lib.export_library(folder / "soak.tslib")
        return _is_right(lib, i)

    return cycles("build and drop", count, 4.0, once)


def loads(count: int, folder: Path) -> Row:
    """Load, call and drop."""
    build(7).export_library(folder / "soak.tslib")
    return cycles("load and drop", count, 2.0, lambda _: _is_right(tscript.load_module(folder / "soak.tslib"), 7))


def calls(seconds: float, threads: int = 16) -> Row:
    """Calls from many threads, each to one shared and to many functions, with wrong arguments among them."""
    kernels = [build(i) for i in range(threads)]
    stop = threading.Event()

    def storm(seed: int) -> tuple[int, int]:
        done = errors = 0
        wrong = np.zeros(5)
        while not stop.is_set():
            errors += not _is_right(kernels[0], 0)
            errors += not _is_right(kernels[(seed + done) % threads], (seed + done) % threads)
            try:
                kernels[0]["main"](wrong, wrong, 1.0)
                errors += 1
            except TypeError:
                pass
            done += 1
        return done, errors

    before, start = resident(), time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        running = [pool.submit(storm, seed) for seed in range(threads)]
        stop.wait(seconds)
        stop.set()
        results = [r.result() for r in running]
    done = max(sum(r[0] for r in results), 1)
    spent = (time.perf_counter() - start) / done
    # Pools of NumPy and of threads fill up by some MiB, however long it runs.
    growth = max(resident() - before - 16 * 1024, 0) / done
    return Row(f"calls from {threads} threads", done, growth, 0.001, spent, sum(r[1] for r in results))


def render(rows: Sequence[Row]) -> str:
    """The table as Markdown."""
    lines = ["| cycle | number | KiB kept each | limit | µs each | errors | |", "|---|--:|--:|--:|--:|--:|---|"]
    lines += [
        f"| {r.name} | {r.cycles} | {r.growth:.3f} | {r.limit} | {1e6 * r.seconds:.1f} | {r.errors} "
        f"| {'within' if r.is_within else 'over'} |"
        for r in rows
    ]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is asked for and print it; 0 when all is within its limits."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--builds", type=int, default=10_000)
    parser.add_argument("--loads", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if options.builds:
            rows.append(builds(options.builds, folder))
        if options.loads:
            rows.append(loads(options.loads, folder))
        if options.seconds:
            rows.append(calls(options.seconds))
    table = [asdict(r) for r in rows]
    print(json.dumps(table, indent=2) if options.json else render(rows))
    return 0 if all(r.is_within for r in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
