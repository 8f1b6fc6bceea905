"""How fast the library's schedules of products run, beside NumPy and, where it is installed, PyTorch.

    python benchmarks/products.py                     # all rows, one thread
    python benchmarks/products.py --threads 2         # two threads on each side
    python benchmarks/products.py matmul_1x4096x4096  # some rows

The contenders run in turn for short rounds. A ratio is the median, over the rounds, of the ratio in that round, beside
that of the best rounds: on a machine that others use too, a single figure says little. Between contenders is a pause,
as threads of a library that wait for more work take the cores from the next.
"""

from __future__ import annotations

import argparse
import importlib
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import tscript
from tscript import library, te
from tscript.ir.dtype import DataType
from tscript.ir.semantics import numpy_dtype
from tscript.testing.workloads import batch_matmul, conv2d

Call = Callable[[], object]
SHAPES = [
    (128, 128, 128), (512, 512, 512), (1024, 1024, 1024), (2048, 2048, 2048), (397, 509, 253), (1, 4096, 4096),
    (4096, 8, 4096),
]  # fmt: skip
"""Rows, columns and depth of the products in float32."""
FLOATS = ("float32", "float32", "float32")
ROUND = 0.02


@dataclass(frozen=True)
class Case:
    """A function, its arguments (results last), and the same work by others."""

    func: tscript.tir.PrimFunc
    arrays: list[Any]
    flop: float
    others: dict[str, Call]
    want: Callable[[], Any]
    tolerance: float = 1e-3


def product(m: int, n: int, k: int, types: tuple[str, str, str], finish: str = "") -> tscript.tir.PrimFunc:
    """A product, with a bias and an activation after it where `finish` names one."""
    a, b = te.placeholder((m, k), types[0], name="A"), te.placeholder((k, n), types[1], name="B")
    r = te.reduce_axis((0, k), "k")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, r].astype(types[2]) * b[r, j].astype(types[2]), axis=r), name="C")
    if not finish:
        return te.create_prim_func([a, b, c])
    bias = te.placeholder((n,), name="bias")
    d = te.compute((m, n), lambda i, j: c[i, j] + bias[j], name="D")
    if finish == "relu":
        e = te.compute((m, n), lambda i, j: tscript.tir.max(d[i, j], te.const(0, "float32")), name="E")
    else:
        e = te.compute((m, n), lambda i, j: d[i, j] * 0.5 * (1.0 + te.erf(d[i, j] * 0.70710678)), name="E")
    return te.create_prim_func([a, b, bias, e])


def float_case(m: int, n: int, k: int, torch: Any) -> Case:
    """A product in float32."""
    rng = np.random.default_rng(0)
    a, b = rng.random((m, k), np.float32), rng.random((k, n), np.float32)
    c, d = np.empty((2, m, n), np.float32)
    others: dict[str, Call] = {"NumPy": lambda: np.matmul(a, b, out=d)}
    if torch is not None:
        x, y, z = map(torch.from_numpy, (a, b, d))
        others["PyTorch"] = lambda: torch.matmul(x, y, out=z)
    return Case(product(m, n, k, FLOATS), [a, b, c], 2.0 * m * n * k, others, lambda: a @ b)


def finished_case(size: int, finish: str, torch: Any) -> Case:
    """A product with a bias and an activation; by the others one after another."""
    rng = np.random.default_rng(0)
    a, b = rng.random((2, size, size), np.float32) - np.float32(0.5)
    bias, c = rng.random(size, np.float32), np.empty((size, size), np.float32)
    others: dict[str, Call] = {}
    if finish == "relu":
        others["NumPy"] = lambda: np.maximum(a @ b + bias, 0)
    if torch is not None:
        x, y, z = map(torch.from_numpy, (a, b, bias))
        act = torch.relu if finish == "relu" else torch.nn.functional.gelu
        others["PyTorch"] = lambda: act(torch.matmul(x, y) + z)
    func = product(size, size, size, FLOATS, finish)

    def want() -> Any:
        plain = (a @ b + bias).astype(np.float64)
        if finish == "relu":
            return np.maximum(plain, 0)
        return plain * 0.5 * (1 + np.vectorize(math.erf)(plain * 0.5**0.5))

    return Case(func, [a, b, bias, c], 2.0 * size**3, others, want)


def bfloat16(values: Any) -> Any:
    """The array in bfloat16."""
    return values.astype(np.float32).astype(numpy_dtype(DataType("bfloat16")))


def bf16_case(size: int, torch: Any) -> Case:
    """A product of bfloat16, summed up in float32."""
    rng = np.random.default_rng(0)
    a, b = (bfloat16(rng.standard_normal((size, size))) for _ in range(2))
    others: dict[str, Call] = {}
    if torch is not None:
        x, y = (torch.from_numpy(v.view(np.int16)).view(torch.bfloat16) for v in (a, b))
        z = torch.empty((size, size), dtype=torch.bfloat16)
        others["PyTorch"] = lambda: torch.matmul(x, y, out=z)
    func = product(size, size, size, ("bfloat16", "bfloat16", "float32"))
    wide = a.astype(np.float32), b.astype(np.float32)
    c = np.empty((size, size), np.float32)
    return Case(func, [a, b, c], 2.0 * size**3, others, lambda: wide[0] @ wide[1], 0.1)


def byte_case(size: int, torch: Any) -> Case:
    """A product of unsigned and signed bytes in int32, which neither of the others has."""
    del torch
    rng = np.random.default_rng(0)
    a = rng.integers(0, 256, (size, size)).astype(np.uint8)
    b = rng.integers(-128, 128, (size, size)).astype(np.int8)
    func = product(size, size, size, ("uint8", "int8", "int32"))
    c = np.empty((size, size), np.int32)
    return Case(func, [a, b, c], 2.0 * size**3, {}, lambda: a.astype(np.float64) @ b.astype(np.float64), 0.0)


def workload_case(key: str, torch: Any) -> Case:
    """A batch of products, or a convolution."""
    w = batch_matmul(12, 128, 128, 64) if key == "batch_12x128x128x64" else conv2d(56, 64, 64)
    arrays = w.arguments()
    others: dict[str, Call] = {}
    a, b, c = arrays
    if key.startswith("batch"):
        d = np.empty_like(c)
        others["NumPy"] = lambda: np.matmul(a, b, out=d)
    if torch is not None:
        x, y = torch.from_numpy(a), torch.from_numpy(b)
        if key.startswith("batch"):
            z = torch.empty(c.shape)
            others["PyTorch"] = lambda: torch.bmm(x, y, out=z)
        else:
            image = x.permute(0, 3, 1, 2)
            weights = y.permute(3, 2, 0, 1).contiguous(memory_format=torch.channels_last)
            others["PyTorch"] = lambda: torch.nn.functional.conv2d(image, weights, padding=1)
    return Case(w.func, arrays, float(w.flop), others, lambda: w.reference(a, b), 1e-2)  # pyright: ignore[reportCallIssue]


def cases() -> dict[str, Callable[[Any], Case]]:
    """All rows by name."""
    found: dict[str, Callable[[Any], Case]] = {}
    for m, n, k in SHAPES:
        found[f"matmul_{m}x{n}x{k}"] = partial(float_case, m, n, k)
    for finish in ("relu", "gelu"):
        found[f"matmul_bias_{finish}_512"] = partial(finished_case, 512, finish)
    found["bf16_1024"] = partial(bf16_case, 1024)
    found["u8s8_1024"] = partial(byte_case, 1024)
    for key in ("batch_12x128x128x64", "conv2d_56x56x64x64"):
        found[key] = partial(workload_case, key)
    return found


def race(calls: Sequence[Call], rounds: int, pause: float) -> list[list[float]]:
    """Seconds of a call in each round, for each contender."""
    numbers: list[int] = []
    for call in calls:
        call()
        start = time.perf_counter()
        call()
        numbers.append(max(1, int(ROUND / max(time.perf_counter() - start, 1e-7))))
    seconds: list[list[float]] = [[] for _ in calls]
    for _ in range(rounds):
        for call, number, found in zip(calls, numbers, seconds, strict=True):
            time.sleep(pause)
            call()
            start = time.perf_counter()
            for _ in range(number):
                call()
            found.append((time.perf_counter() - start) / number)
    return seconds


def measure(key: str, case: Case, threads: int, rounds: int) -> str:
    """A row of the table, after a check of the result."""
    target = f"llvm -num-cores={threads}"
    kernel = tscript.build(library.schedule(case.func, target).mod, target)["main"]
    kernel(*case.arrays)
    want = case.want()
    if want is not None:
        np.testing.assert_allclose(case.arrays[-1], want, rtol=case.tolerance, atol=case.tolerance)
    calls: list[Call] = [lambda: kernel(*case.arrays), *case.others.values()]
    ours, *theirs = race(calls, rounds, 0.005 if threads > 1 else 0.0)
    cells = [key, f"{1e-9 * case.flop / median(ours):.0f} ({1e-9 * case.flop / min(ours):.0f})"]
    for name in ("NumPy", "PyTorch"):
        place = list(case.others).index(name) if name in case.others else None
        if place is None:
            cells += ["–", "–"]
            continue
        found = theirs[place]
        ratio = median(t / o for t, o in zip(found, ours, strict=True))
        cells.append(f"{1e-9 * case.flop / median(found):.0f} ({1e-9 * case.flop / min(found):.0f})")
        cells.append(f"{ratio:.2f} ({min(found) / min(ours):.2f})")
    return f"| {' | '.join(cells)} |"


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    known = cases()
    parser = argparse.ArgumentParser(description="Speed of the library's products on this CPU.")
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"what to measure (default: all): {', '.join(known)}")
    parser.add_argument("--threads", type=int, default=1, help="threads on each side (default 1)")
    parser.add_argument("--rounds", type=int, default=11, help="rounds of each row (default 11)")
    parser.add_argument("--no-torch", action="store_true", help="leave PyTorch out even where it is installed")
    arguments = parser.parse_args(argv)
    unknown = [r for r in arguments.rows if r not in known]
    if unknown:
        parser.error(f"no row {unknown[0]!r}; choose from {', '.join(known)}")
    torch: Any = None
    if not arguments.no_torch:
        try:
            torch = importlib.import_module("torch")
        except ImportError:
            pass
        else:
            torch.set_num_threads(arguments.threads)
    tscript.runtime.set_num_threads(arguments.threads)
    print("Gigaflops, median (best) of the rounds; ÷ is ours by theirs.")
    print("| work | tscript | NumPy | ÷ NumPy | PyTorch | ÷ PyTorch |\n|---|--:|--:|--:|--:|--:|")
    for key in arguments.rows or known:
        print(measure(key, known[key](torch), arguments.threads, arguments.rounds), flush=True)
    return 0


def with_threads() -> int:
    """Run this program again where the libraries are told, before they load, how many threads to use."""
    place = sys.argv.index("--threads") + 1 if "--threads" in sys.argv else 0
    count = sys.argv[place] if 0 < place < len(sys.argv) else "1"
    settings = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), count)
    command = [sys.executable, "-c", _AGAIN, str(Path(__file__).resolve().parent), *sys.argv[1:]]
    return subprocess.run(command, env={**os.environ, **settings}, check=False).returncode


_AGAIN = "import sys; sys.path.insert(0, sys.argv.pop(1)); import products; raise SystemExit(products.main())"

if __name__ == "__main__":
    raise SystemExit(with_threads())
