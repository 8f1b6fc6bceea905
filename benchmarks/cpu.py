"""How fast kernels run on this CPU, beside NumPy, PyTorch where it is installed, and what the hardware can do.

    python benchmarks/cpu.py                       # the table
    python benchmarks/cpu.py --json                # the same as JSON
    python benchmarks/cpu.py matmul_128 matmul_512 # some rows

One core. In each round every contender runs in turn for the same time, and the figure of each is its median over the
rounds. Compare within a run only: clocks change from one run to the next. The ceilings are measured too: fused
multiply-adds on registers alone, and a copy of arrays that fit no cache.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import tscript
from tscript import te
from tscript.script import from_source

MATMULS = {
    "matmul_128": (128, 128, 128),
    "matmul_512": (512, 512, 512),
    "matmul_1024": (1024, 1024, 1024),
    "matmul_397x509x253": (397, 509, 253),
}
"""Rows (m, n, k): C[m, n] is the sum over k of A[m, k] * B[k, n], in float32."""
ROUND = 0.02
"""Seconds that a contender runs for in one round."""


@dataclass(frozen=True)
class Row:
    """Gigaflops (gigabytes a second for the copy) of each contender; None where it is not installed."""

    key: str
    unit: str
    tscript: float
    numpy: float | None = None
    torch: float | None = None


@dataclass(frozen=True)
class Tile:
    """The part of a product that stays in registers: rows, columns, and lanes of a vector."""

    rows: int
    columns: int
    lanes: int


def tile_for(n: int, target: tscript.target.Target) -> Tile:
    """A tile that leaves room for a row of B and an element of A beside it in the registers of `target`."""
    if "avx512f" in target.features:
        # Wide tiles load less of A, narrow ones have shorter tails.
        return Tile(6, 64, 16) if n % 64 == 0 else Tile(12, 32, 16)
    return Tile(6, 16, 8) if "avx2" in target.features else Tile(2, 16, 4)


def matmul(m: int, n: int, k: int) -> tscript.tir.PrimFunc:
    """The product as it is written down."""
    a, b = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    r = te.reduce_axis((0, k), "k")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")
    return te.create_prim_func([a, b, c])


def scheduled_matmul(m: int, n: int, k: int, tile: Tile) -> tscript.tir.Schedule:
    """The product in register tiles, over panels of B that are copied next to each other first."""
    sch = tscript.tir.Schedule(matmul(m, n, k))
    block = sch.get_block("C")
    panel = sch.cache_read(block, 1, "global")
    columns = tile.columns
    # Column tiles past the end of B are filled up, so that no load of a panel needs a guard.
    fill = 0.0 if n % columns else None

    def panels(row: Any, column: Any) -> tuple[Any, ...]:
        return column // columns, row, column % columns

    sch.transform_layout(block, ("read", 1), panels, pad_value=fill)
    i, j, r = sch.get_loops(block)
    i0, i1 = sch.split(i, [None, tile.rows])
    j0, j1, j2 = sch.split(j, [None, columns // tile.lanes, tile.lanes])
    sch.reorder(j0, i0, r, i1, j1, j2)
    sch.unroll(i1)
    sch.unroll(j1)
    sch.vectorize(j2)
    _, lanes = sch.split(sch.get_loops(panel)[-1], [None, tile.lanes])
    sch.vectorize(lanes)
    sch.decompose_reduction(block, r)
    return sch


def race(contenders: Sequence[Callable[[], object]], rounds: int) -> list[float]:
    """Median seconds of a call of each, taken in turns."""
    numbers: list[int] = []
    for call in contenders:
        call()
        start = time.perf_counter()
        call()
        numbers.append(max(1, int(ROUND / max(time.perf_counter() - start, 1e-7))))
    seconds: list[list[float]] = [[] for _ in contenders]
    for _ in range(rounds):
        for call, number, found in zip(contenders, numbers, seconds, strict=True):
            start = time.perf_counter()
            for _ in range(number):
                call()
            found.append((time.perf_counter() - start) / number)
    return [median(s) for s in seconds]


def matmul_row(key: str, rounds: int, torch: Any) -> Row:
    """Measure one product, after a check of its result."""
    m, n, k = MATMULS[key]
    target = tscript.target.Target("llvm")
    kernel = tscript.build(scheduled_matmul(m, n, k, tile_for(n, target)).mod, target=target)["main"]
    rng = np.random.default_rng(0)
    a, b = rng.random((m, k), np.float32), rng.random((k, n), np.float32)
    ours, theirs = np.empty((2, m, n), np.float32)
    kernel(a, b, ours)
    np.testing.assert_allclose(ours, a @ b, rtol=1e-4)
    contenders: list[Callable[[], object]] = [lambda: kernel(a, b, ours), lambda: np.matmul(a, b, out=theirs)]
    if torch is not None:
        ta, tb, tc = (torch.from_numpy(x) for x in (a, b, theirs))
        contenders.append(lambda: torch.matmul(ta, tb, out=tc))
    rates = [2e-9 * m * n * k / s for s in race(contenders, rounds)]
    return Row(key, "GF", rates[0], rates[1], rates[2] if torch is not None else None)


def peak_row(rounds: int) -> Row:
    """Fused multiply-adds of 16 independent vectors that stay in registers."""
    lanes, count, steps = tile_for(64, tscript.target.Target("llvm")).lanes, 16, 20_000
    chains = "\n".join(
        f"        A[{c * lanes}:{(c + 1) * lanes}] = A[{c * lanes}:{(c + 1) * lanes}] * X[0:{lanes}] + Y[0:{lanes}]"
        for c in range(count)
    )
    params = f"A: T.Buffer(({count * lanes},)), X: T.Buffer(({lanes},)), Y: T.Buffer(({lanes},))"
    func = from_source(
        f"@T.prim_func\ndef peak({params}):\n    T.func_attr({{'global_symbol': 'peak', 'tir.noalias': True}})\n"
        f"    for _ in range({steps}):\n{chains}\n"
    )
    kernel = tscript.build(func, target="llvm")["peak"]
    acc = np.zeros(count * lanes, np.float32)
    x, y = np.full((2, lanes), 0.5, np.float32)
    (seconds,) = race([lambda: kernel(acc, x, y)], rounds)
    return Row("fma_peak", "GF", 2e-9 * count * lanes * steps / seconds)


def copy_row(rounds: int, megabytes: int = 256) -> Row:
    """Bytes read and written by a copy."""
    count = megabytes * 1_000_000 // 4 // 1024 * 1024
    a = te.placeholder((count,), name="A")
    b = te.compute((count,), lambda i: a[i], name="B")
    sch = tscript.tir.Schedule(te.create_prim_func([a, b]))
    _, lanes = sch.split(sch.get_loops("B")[0], [None, 64])
    sch.vectorize(lanes)
    kernel = tscript.build(sch.mod, target="llvm")["main"]
    source, ours, theirs = np.ones((3, count), np.float32)
    seconds = race([lambda: kernel(source, ours), lambda: np.copyto(theirs, source)], rounds)
    rates = [8e-9 * count / s for s in seconds]
    return Row("copy", "GB/s", rates[0], rates[1])


def measure(keys: Sequence[str], rounds: int, with_torch: bool = True) -> list[Row]:
    """The ceilings and the rows asked for."""
    torch: Any = None
    if with_torch:
        try:
            torch = importlib.import_module("torch")
        except ImportError:
            pass
        else:
            torch.set_num_threads(1)
    rows: list[Row] = []
    for key in keys:
        if key == "fma_peak":
            rows.append(peak_row(rounds))
        elif key == "copy":
            rows.append(copy_row(rounds))
        else:
            rows.append(matmul_row(key, rounds, torch))
    return rows


def render(rows: Sequence[Row]) -> str:
    """The rows as Markdown, with ratios to the other contenders and to the ceiling."""
    peak = next((r.tscript for r in rows if r.key == "fma_peak"), None)
    lines = ["| work | unit | tscript | NumPy | PyTorch | ÷ NumPy | ÷ PyTorch | of peak |", f"|---|---|{'--:|' * 6}"]
    for r in rows:
        others = [r.numpy, r.torch]
        plain = ["–" if o is None else f"{o:.1f}" for o in others]
        ratios = ["–" if o is None else f"{r.tscript / o:.2f}" for o in others]
        share = "–" if peak is None or r.unit != "GF" else f"{r.tscript / peak:.2f}"
        lines.append(f"| {' | '.join([r.key, r.unit, f'{r.tscript:.1f}', *plain, *ratios, share])} |")
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    known = ["fma_peak", "copy", *MATMULS]
    parser = argparse.ArgumentParser(description="Speed of kernels on one core of this CPU.")
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"what to measure (default: all): {', '.join(known)}")
    parser.add_argument("--rounds", type=int, default=15, help="rounds of each row (default 15)")
    parser.add_argument("--no-torch", action="store_true", help="leave PyTorch out even where it is installed")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args(argv)
    unknown = [r for r in arguments.rows if r not in known]
    if unknown:
        parser.error(f"no row {unknown[0]!r}; choose from {', '.join(known)}")
    rows = measure(arguments.rows or known, arguments.rounds, not arguments.no_torch)
    print(json.dumps([asdict(r) for r in rows], indent=2) if arguments.json else render(rows))
    return 0


def on_one_thread() -> int:
    """Run this program again where the libraries are told, before they load, to use one thread."""
    settings = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "TSCRIPT_NUM_THREADS"), "1")
    command = [sys.executable, "-c", _AGAIN, str(Path(__file__).resolve().parent), *sys.argv[1:]]
    return subprocess.run(command, env={**os.environ, **settings}, check=False).returncode


_AGAIN = "import sys; sys.path.insert(0, sys.argv.pop(1)); import cpu; raise SystemExit(cpu.main())"

if __name__ == "__main__":
    raise SystemExit(on_one_thread())
