"""What the Python side costs: import, parse, print, schedule, build, call. Each beside its budget.

    python benchmarks/compile_time.py                       # the table
    python benchmarks/compile_time.py --peer OTHER/python   # the same steps in apache-tvm, side by side
    python benchmarks/compile_time.py --json

Figures are medians of several runs in one process; import is measured in fresh ones. The column `TVM` holds
figures of TVM taken once on a 2-core machine of the Sapphire-Rapids class; `peer` holds those of the run at
hand. On another machine, or a busy one, compare within a run only.
"""

from __future__ import annotations

import argparse
import gc
import importlib.metadata
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from peer import later_spelling

import tscript
from tscript.support.config import configure

KERNEL = """
@I.ir_module
class MyModule:
    @T.prim_func
    def mm_relu(
        A: T.Buffer((128, 128), "float32"), B: T.Buffer((128, 128), "float32"), C: T.Buffer((128, 128), "float32")
    ):
        T.func_attr({"global_symbol": "mm_relu", "tir.noalias": True})
        Y = T.alloc_buffer((128, 128), dtype="float32")
        for i, j, k in T.grid(128, 128, 128):
            with T.block("Y"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    Y[vi, vj] = T.float32(0)
                Y[vi, vj] = Y[vi, vj] + A[vi, vk] * B[vk, vj]
        for i, j in T.grid(128, 128):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = T.max(Y[vi, vj], T.float32(0))
"""
# One element, so that what is measured is the call.
TINY = """
@T.prim_func
def tiny(A: T.Buffer((1,), "float32"), B: T.Buffer((1,), "float32"), C: T.Buffer((1,), "float32")):
    T.func_attr({"global_symbol": "tiny"})
    C[0] = A[0] + B[0]
"""

# The same steps in TVM's later spelling; runs in the peer's Python, which has no tscript.
_PEER_PROGRAM = """
import json, sys, time
request = json.load(sys.stdin)
start = time.perf_counter()
import tvm
result = {"import": [time.perf_counter() - start]}
import numpy as np
import tvm.script
from statistics import median
try:
    from tvm.script import tirx
except ImportError:
    pass
def timed(f, runs):
    f()
    samples = []
    for _ in range(runs):
        start = time.perf_counter(); f(); samples.append(time.perf_counter() - start)
    return samples
def calls(f, args, number, runs):
    def loop():
        for _ in range(number): f(*args)
    return [s / number for s in timed(loop, runs)]
runs = request["runs"]
mod = tvm.script.from_source(request["kernel"])
result["parse"] = timed(lambda: tvm.script.from_source(request["kernel"]), runs)
result["print"] = timed(lambda: mod.script(), runs)
result["build"] = timed(lambda: tvm.compile(mod, target="llvm")["mm_relu"], runs)
tiny = tvm.compile(tvm.script.from_source(request["tiny"]), target="llvm")["tiny"]
arrays = [np.ones(1, "float32") for _ in range(3)]
tensors = [tvm.runtime.tensor(a) for a in arrays]
result["call_own"] = calls(tiny, tensors, request["number"], runs)
result["call_numpy"] = calls(tiny, arrays, request["number"], runs)
print(json.dumps({"version": tvm.__version__, "seconds": {k: median(v) for k, v in result.items()}}))
"""


@dataclass(frozen=True)
class Row:
    """One step. All figures are in seconds, but for `installed`, which is in bytes."""

    key: str
    step: str
    budget: float
    measured: float
    tvm: float | None = None
    peer: float | None = None


STEPS: dict[str, tuple[str, float, float | None]] = {
    "import": ("import, NumPy included", 0.25, 0.88),
    "parse": ("parse the 128x128 matmul + ReLU module", 5e-3, None),
    "print": ("print it", 3e-3, 0.4e-3),
    "schedule": ("a CPU schedule of it, in 12 steps", 12e-3, 1.8e-3),
    "replay": ("replay of the trace of these steps", 8e-3, 1.3e-3),
    "build": ("build it to native code", 40e-3, 22e-3),
    "call_own": ("one call with three arrays, own", 0.15e-6, 0.23e-6),
    "call_numpy": ("one call with three arrays, NumPy", 0.15e-6, 0.69e-6),
    "installed": ("package plus all required dependencies, installed", 450e6, 1.1e9),
}


def _samples(step: Callable[[], object], runs: int) -> list[float]:
    step()
    gc.collect()
    samples: list[float] = []
    for _ in range(runs):
        start = time.perf_counter()
        step()
        samples.append(time.perf_counter() - start)
    return samples


def _call_samples(kernel: Callable[..., object], arguments: Sequence[Any], *, number: int, runs: int) -> list[float]:
    a, b, c = arguments

    def loop() -> None:
        for _ in range(number):
            kernel(a, b, c)

    return [s / number for s in _samples(loop, runs)]


def _import_samples(runs: int) -> list[float]:
    code = "import time; s = time.perf_counter(); import tscript; print(time.perf_counter() - s)"
    root = Path(__file__).resolve().parents[1]
    # The first process may have to compile bytecode, which an installation has done already.
    return [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root).stdout)
        for _ in range(runs + 1)
    ][1:]


def scheduled(module: tscript.IRModule) -> tscript.tir.Schedule:
    """Tiles, a local sum, threads and vectors for the matrix product."""
    sch = tscript.tir.Schedule(module)
    sch.work_on("mm_relu")
    block = sch.get_block("Y")
    i, j, k = sch.get_loops(block)
    i0, i1 = sch.split(i, [None, 32])
    j0, j1 = sch.split(j, [None, 32])
    k0, k1 = sch.split(k, [None, 4])
    sch.reorder(i0, j0, k0, i1, k1, j1)
    copy = sch.cache_write(block, 0, "global")
    sch.reverse_compute_at(copy, j0)
    sch.parallel(sch.fuse(i0, j0))
    sch.vectorize(j1)
    sch.decompose_reduction(block, k0)
    return sch


def _replayed(module: tscript.IRModule, trace: tscript.tir.schedule.Trace) -> None:
    trace.apply_to_schedule(tscript.tir.Schedule(module), False)


def _built(module: tscript.IRModule) -> object:
    """The module, compiled whatever an earlier run has kept."""
    with configure(cache="off"):
        return tscript.build(module, target="llvm")["mm_relu"]


def build_samples(runs: int) -> list[float]:
    """Seconds of so many builds of the module."""
    module = tscript.script.from_source(KERNEL)
    assert isinstance(module, tscript.IRModule)
    return _samples(lambda: _built(module), runs)


def measure(*, runs: int, number: int) -> dict[str, float]:
    """Median seconds of each step that takes time. `number` is how many calls make one sample of a call."""
    module = tscript.script.from_source(KERNEL)
    assert isinstance(module, tscript.IRModule)
    tiny = tscript.build(tscript.script.from_source(TINY), target="llvm")["tiny"]
    arrays = [np.ones(1, "float32") for _ in range(3)]
    own = [tscript.nd.array(a) for a in arrays]
    trace = scheduled(module).trace
    assert trace is not None
    seconds = {
        "import": _import_samples(min(runs, 5)),
        "parse": _samples(lambda: tscript.script.from_source(KERNEL), runs),
        "print": _samples(lambda: module.script(), runs),
        "schedule": _samples(lambda: scheduled(module), runs),
        "replay": _samples(lambda: _replayed(module, trace), runs),
        "build": build_samples(runs),
        "call_own": _call_samples(tiny, own, number=number, runs=runs),
        "call_numpy": _call_samples(tiny, arrays, number=number, runs=runs),
    }
    return {key: median(samples) for key, samples in seconds.items()}


def measure_peer(python: str, *, runs: int, number: int) -> dict[str, float]:
    """The same steps in an installation of apache-tvm 0.25. Raises RuntimeError when it cannot do them."""
    request = {"kernel": later_spelling(KERNEL), "tiny": later_spelling(TINY), "runs": runs, "number": number}
    with tempfile.TemporaryDirectory() as folder:  # away from this source tree and its names
        done = subprocess.run(
            [python, "-c", _PEER_PROGRAM], input=json.dumps(request), capture_output=True, text=True, cwd=folder
        )
    if done.returncode != 0:
        raise RuntimeError(f"the peer failed:\n{done.stderr.strip()}")
    return json.loads(done.stdout.splitlines()[-1])["seconds"]


def installed_size(package: str = "tscript") -> int:
    """Bytes on disk of `package` and of all it requires, directly or through others."""
    sizes: dict[str, int] = {}
    waiting = [package]
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if name in sizes:
            continue
        try:
            found = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue  # a requirement of another platform, or the package itself in its source tree
        paths = [Path(str(found.locate_file(f))) for f in found.files or ()]
        sizes[name] = sum(p.stat().st_size for p in paths if p.is_file())
        for requirement in found.requires or ():
            if "extra ==" not in requirement:
                waiting.append(re.split(r"[\s;<>=!~\[(]", requirement, maxsplit=1)[0])
    return sum(sizes.values())


def rows(seconds: dict[str, float], peer: dict[str, float] | None = None) -> list[Row]:
    """The table: every measured step with its budget."""
    found: list[Row] = []
    for key, (step, budget, tvm) in STEPS.items():
        if key in seconds:
            found.append(Row(key, step, budget, seconds[key], tvm, (peer or {}).get(key)))
    return found


def _amount(row: Row, value: float | None) -> str:
    if value is None:
        return "–"
    if row.key == "installed":
        return f"{value / 1e6:.0f} MB"
    for unit, scale in (("s", 1.0), ("ms", 1e-3)):
        if row.budget >= 0.2 * scale if unit == "s" else row.budget >= scale:
            return f"{value / scale:.2f} {unit}"
    return f"{value * 1e6:.2f} µs"


def render(table: Sequence[Row]) -> str:
    """The rows as Markdown; `over` marks what exceeds its budget."""
    with_peer = any(r.peer is not None for r in table)
    head = ["step", "budget", "measured", "", "TVM"] + (["peer"] if with_peer else [])
    lines = ["| " + " | ".join(head) + " |", "|---|--:|--:|---|--:|" + ("--:|" if with_peer else "")]
    for r in table:
        verdict = "over" if r.measured > r.budget else "within"
        cells = [r.step, _amount(r, r.budget), _amount(r, r.measured), verdict, _amount(r, r.tvm)]
        if with_peer:
            cells.append(_amount(r, r.peer))
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print. The status does not depend on the budgets: a busy machine is no failure."""
    parser = argparse.ArgumentParser(description="Cost of the Python side, step by step, beside its budget.")
    parser.add_argument("--runs", type=int, default=15, help="samples of each step (default 15)")
    parser.add_argument("--number", type=int, default=20_000, help="calls in one sample of a call (default 20000)")
    parser.add_argument("--peer", metavar="PYTHON", help="a Python with apache-tvm 0.25: measure it beside")
    parser.add_argument("--size", action="store_true", help="measure the installed size too")
    parser.add_argument("--json", action="store_true", help="print JSON (seconds; bytes for sizes)")
    arguments = parser.parse_args(argv)
    seconds = measure(runs=arguments.runs, number=arguments.number)
    if arguments.size:
        seconds["installed"] = float(installed_size())
    peer = measure_peer(arguments.peer, runs=arguments.runs, number=arguments.number) if arguments.peer else None
    table = rows(seconds, peer)
    print(json.dumps([asdict(r) for r in table], indent=2) if arguments.json else render(table))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
