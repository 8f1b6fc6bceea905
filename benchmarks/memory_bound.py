"""How fast kernels that memory limits run on this CPU, beside NumPy, PyTorch where it is installed, and memory itself.

    python benchmarks/memory_bound.py                    # the table, on one core
    python benchmarks/memory_bound.py --threads 2        # on two
    python benchmarks/memory_bound.py softmax_4096 add   # some rows

The schedules are those of `tscript.library`. In each round the contenders and a copy that bypasses the caches run in
turn, so that whatever else the machine does meets all of them; ratios are medians over the rounds. Arrays come from
NumPy, and outputs are allocated before, but for layer norm and RMS norm of PyTorch, which take no output. NumPy is
measured on one core only, since its threads go on spinning after a call.
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
from tscript import library
from tscript.testing import workloads
from tscript.testing.workloads import Workload

Contenders = dict[str, Callable[[], object]]
ROUND = 0.02
"""Seconds that a contender runs for in one round."""


@dataclass(frozen=True)
class Row:
    """Best gigabytes a second; medians of the ratios to a copy, to NumPy and to PyTorch, where these were measured."""

    key: str
    gigabytes: float
    of_copy: float
    over_numpy: float | None = None
    over_torch: float | None = None


@dataclass(frozen=True)
class Case:
    """A workload, the bytes that it has to move, and the same in NumPy and PyTorch."""

    work: Workload
    bytes: int
    numpy: Callable[[list[Any]], object] | None
    torch: Callable[[Any, list[Any]], object]
    aligned: bool = False
    """Whether the arrays begin at a cache line, as those of `tscript.nd` do and large ones of NumPy do not."""


def _aligned(array: Any) -> Any:
    """A copy that begins at a cache line."""
    room = np.empty(array.nbytes + 64, np.uint8)
    first = -room.ctypes.data % 64
    result = room[first : first + array.nbytes].view(array.dtype).reshape(array.shape)
    result[...] = array
    return result


def _softmax(arrays: list[Any]) -> None:
    x, out = arrays
    np.subtract(x, x.max(-1, keepdims=True), out=out)
    np.exp(out, out=out)
    np.divide(out, out.sum(-1, keepdims=True), out=out)


def _rms_norm(arrays: list[Any]) -> None:
    x, w, out = arrays
    scale = 1 / np.sqrt((x * x).mean(-1, keepdims=True) + np.float32(1e-5))
    np.multiply(x, scale, out=out)
    np.multiply(out, w, out=out)


def _layer_norm(arrays: list[Any]) -> None:
    x, gamma, beta, out = arrays
    scale = 1 / np.sqrt(x.var(-1, keepdims=True) + np.float32(1e-5))
    np.multiply((x - x.mean(-1, keepdims=True)) * scale, gamma, out=out)
    np.add(out, beta, out=out)


def cases(small: bool = False) -> dict[str, Case]:
    """What is measured; a tenth of the size for a test of this program."""
    n = 256 if small else 4096
    count = n * n

    def softmax(rows: int) -> Case:
        return Case(
            workloads.softmax(rows, n),
            8 * rows * n,
            _softmax,
            lambda torch, t: torch.softmax(t[0], 1, out=t[1]),
        )

    def transpose(aligned: bool) -> Case:
        return Case(
            workloads.transpose(n, n),
            8 * count,
            lambda t: np.copyto(t[1], t[0].T),
            lambda torch, t: t[1].copy_(t[0].t()),
            aligned,
        )

    return {
        "softmax_4096": softmax(n),
        "softmax_1024x4096": softmax(n // 4),
        "rms_norm_4096": Case(
            workloads.rms_norm(n, n),
            8 * count,
            _rms_norm,
            lambda torch, t: torch.nn.functional.rms_norm(t[0], (n,), t[1], 1e-5),
        ),
        "layer_norm_4096": Case(
            workloads.layer_norm(n, n),
            8 * count,
            _layer_norm,
            lambda torch, t: torch.nn.functional.layer_norm(t[0], (n,), t[1], t[2]),
        ),
        "add": Case(
            workloads.add(count),
            12 * count,
            lambda t: np.add(t[0], t[1], out=t[2]),
            lambda torch, t: torch.add(t[0], t[1], out=t[2]),
        ),
        "matvec_4096": Case(
            workloads.matvec(n, n),
            4 * count,
            lambda t: np.matmul(t[0], t[1], out=t[2]),
            lambda torch, t: torch.mv(t[0], t[1], out=t[2]),
        ),
        "transpose_4096": transpose(False),
        "transpose_4096_aligned": transpose(True),
    }


def race(contenders: Contenders, rounds: int) -> dict[str, list[float]]:
    """Seconds of a call of each in each round."""
    numbers: dict[str, int] = {}
    for name, call in contenders.items():
        call()
        start = time.perf_counter()
        call()
        numbers[name] = max(1, int(ROUND / max(time.perf_counter() - start, 1e-7)))
    found: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, call in contenders.items():
            start = time.perf_counter()
            for _ in range(numbers[name]):
                call()
            found[name].append((time.perf_counter() - start) / numbers[name])
    return found


def _copy(count: int) -> tuple[Callable[[], object], int]:
    """A copy between arrays that begin at a cache line, and the bytes that it moves."""
    func = tscript.te.placeholder((count,), name="A")
    copied = tscript.te.compute((count,), lambda i: func[i], name="B")
    sch = tscript.tir.Schedule(tscript.te.create_prim_func([func, copied]))
    (i,) = sch.get_loops("B")
    outer, inner = sch.split(i, [None, min(count, 1 << 14)])
    sch.parallel(outer)
    sch.annotate(inner, "pragma_nontemporal", 1)
    sch.vectorize(inner)
    kernel = tscript.build(sch.mod, target="llvm")["main"]
    source, target = (tscript.nd.array(np.ones(count, np.float32)) for _ in range(2))
    return lambda: kernel(source, target), 8 * count


def measure(keys: Sequence[str], rounds: int, threads: int, torch: Any, small: bool = False) -> list[Row]:
    """The rows asked for."""
    tscript.runtime.set_num_threads(threads)
    copy, moved = _copy(1 << (16 if small else 24))
    rows: list[Row] = []
    for key in keys:
        case = cases(small)[key]
        kernel = tscript.build(library.schedule(case.work.func).mod, target="llvm")["main"]
        arrays = case.work.arguments()
        if case.aligned:
            arrays = [_aligned(a) for a in arrays]
        kernel(*arrays)
        case.work.check(arrays)
        contenders: Contenders = {"ours": lambda k=kernel, a=arrays: k(*a), "copy": copy}
        others = [*arrays[:-1], _aligned(arrays[-1]) if case.aligned else np.zeros_like(arrays[-1])]
        if case.numpy is not None and threads == 1:
            contenders["numpy"] = lambda c=case.numpy, a=others: c(a)
        if torch is not None:
            tensors = [torch.from_numpy(x) for x in others]
            contenders["torch"] = lambda c=case.torch, t=tensors: c(torch, t)
        seconds = race(contenders, rounds)

        def over(name: str, found: dict[str, list[float]] = seconds) -> float | None:
            if name not in found:
                return None
            return median(other / own for own, other in zip(found["ours"], found[name], strict=True))

        of_copy = (over("copy") or 0.0) * case.bytes / moved
        rows.append(Row(key, case.bytes / min(seconds["ours"]) / 1e9, of_copy, over("numpy"), over("torch")))
    return rows


def render(rows: Sequence[Row]) -> str:
    """The rows as Markdown."""
    lines = ["| work | GB/s, best | of a copy | times NumPy | times PyTorch |", f"|---|{'--:|' * 4}"]
    for r in rows:
        ratios = ["–" if o is None else f"{o:.2f}" for o in (r.of_copy, r.over_numpy, r.over_torch)]
        lines.append(f"| {' | '.join([r.key, f'{r.gigabytes:.1f}', *ratios])} |")
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    known = list(cases(small=True))
    parser = argparse.ArgumentParser(description="Speed of kernels that memory limits.")
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"what to measure (default: all): {', '.join(known)}")
    parser.add_argument("--threads", type=int, default=1, help="threads of ours and of PyTorch (default 1)")
    parser.add_argument("--rounds", type=int, default=15, help="rounds of each row (default 15)")
    parser.add_argument("--no-torch", action="store_true", help="leave PyTorch out even where it is installed")
    parser.add_argument("--small", action="store_true", help="small arrays: to see that all of it runs")
    parser.add_argument("--json", action="store_true", help="print JSON")
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
    rows = measure(arguments.rows or known, arguments.rounds, arguments.threads, torch, arguments.small)
    print(json.dumps([asdict(r) for r in rows], indent=2) if arguments.json else render(rows))
    return 0


def with_quiet_libraries() -> int:
    """Run this program again where the libraries are told, before they load, not to keep threads of their own."""
    settings = dict.fromkeys(("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    command = [sys.executable, "-c", _AGAIN, str(Path(__file__).resolve().parent), *sys.argv[1:]]
    return subprocess.run(command, env={**os.environ, **settings}, check=False).returncode


_AGAIN = "import sys; sys.path.insert(0, sys.argv.pop(1)); import memory_bound; raise SystemExit(memory_bound.main())"

if __name__ == "__main__":
    raise SystemExit(with_quiet_libraries())
