"""What tuning finds and how soon, beside Apache TVM where that is installed.

    python benchmarks/tune.py                                   # all rows
    python benchmarks/tune.py --rows matmul_128 softmax --trials 32
    python benchmarks/tune.py --tvm /path/to/python             # the interpreter that has TVM
    python benchmarks/tune.py --no-tvm --json

Both tune the same program, with the same number of trials, one after the other on this machine, each in a process of
its own; then the best schedule of each is timed in that process, where the median of 15 repeats counts. A curve says
how fast the best was that had been measured after so many seconds. The load of the machine is printed with each row:
where others work on it too, a single run says little.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import tscript
from tscript import meta_schedule as ms
from tscript.ir.semantics import numpy_dtype
from tscript.testing import workloads
from tscript.testing.workloads import Workload

RECORDS = "database_tuning_record.json"
PEER = Path(__file__).with_name("tune_peer.py")
TIMEOUT = 3600


@dataclass(frozen=True)
class Row:
    """A program, the cores to tune it for, and what NumPy does instead where it has one call for it."""

    make: Callable[[], Workload]
    cores: int
    numpy: bool = False


ROWS: dict[str, Row] = {
    "matmul_128": Row(lambda: workloads.matmul(128, 128, 128), 1, True),
    "matmul_1024": Row(lambda: workloads.matmul(1024, 1024, 1024), 2, True),
    "matmul_397x509x253": Row(lambda: workloads.matmul(397, 509, 253), 2, True),
    "softmax": Row(lambda: workloads.softmax(512, 1024), 2),
    "rms_norm": Row(lambda: workloads.rms_norm(512, 1024), 2),
    "conv2d": Row(lambda: workloads.conv2d(56, 64, 64), 2),
    "batch_matmul": Row(lambda: workloads.batch_matmul(12, 128, 128, 64), 2, True),
    "matvec": Row(lambda: workloads.matvec(4096, 4096), 2),
    "transpose": Row(lambda: workloads.transpose(2048, 2048), 2),
    "matmul_int8": Row(lambda: workloads.matmul(512, 512, 512, "int8", "int32"), 2),
}


@dataclass
class Outcome:
    """What one tuner found: seconds of the best schedule, of the search, and (seconds, best so far) of its trials."""

    secs: float = 0.0
    wall: float = 0.0
    curve: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    failure: str = ""


class Watch:
    """Notes when the records of a run appear in its file, which both tuners write in one form."""

    def __init__(self, folder: str) -> None:
        self._path = Path(folder, RECORDS)
        self._seen: list[float] = []
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _lines(self) -> list[str]:
        return self._path.read_text().splitlines() if self._path.exists() else []

    def _note(self) -> None:
        now = time.time()
        self._seen += [now] * (len(self._lines()) - len(self._seen))

    def _look(self) -> None:
        while not self._done.wait(0.2):
            self._note()

    def curve(self, start: float) -> list[tuple[float, float]]:
        """Stop watching; the best time so far after so many seconds since `start`, where it became better."""
        self._done.set()
        self._thread.join()
        self._note()
        best = float("inf")
        found: list[tuple[float, float]] = []
        for when, line in zip(self._seen, self._lines(), strict=False):
            record = json.loads(line)[1]
            secs = median(float(s) for s in record[1]) if record[1] else float("inf")
            if secs < min(best, 1e9):
                best = secs
                found.append((round(when - start, 1), secs))
        return found


def job_of(name: str, trials: int, work_dir: str) -> dict[str, Any]:
    """All that a process must know to tune a row."""
    row = ROWS[name]
    workload = row.make()
    buffers = [workload.func.buffer_map[p] for p in workload.func.params]
    return {
        "row": name,
        "program": peer_program(workload.func),
        "arguments": [([int(str(d)) for d in b.shape], str(numpy_dtype(b.dtype))) for b in buffers],
        "cores": row.cores,
        "trials": trials,
        "batch": min(trials, 64),
        "seed": 1,
        "work_dir": work_dir,
    }


def peer_program(func: tscript.tir.PrimFunc) -> str:
    """The program in the spelling of today's TVM."""
    lines = [line for line in func.script().splitlines() if "func_attr" not in line and "import" not in line]
    text = "\n".join(lines).replace("T.block(", "T.sblock(").replace("@T.prim_func", "@T.prim_func(s_tir=True)")
    return "# from tvm.script import tirx as T\n" + text


def run(python: str, script: Path, job: dict[str, Any]) -> Outcome:
    """Tune in a process."""
    env = {**os.environ, "TVM_NUM_THREADS": str(job["cores"])}
    env.pop("TSCRIPT_NUM_THREADS", None)
    watch = Watch(job["work_dir"])
    command = [python, str(script), *(["--job"] if script != PEER else [])]
    done = subprocess.run(
        command, input=json.dumps(job), env=env, capture_output=True, text=True, timeout=TIMEOUT, check=False
    )
    last = done.stdout.strip().splitlines()[-1:] or [""]
    if done.returncode or not last[0].startswith("{"):
        return Outcome(curve=watch.curve(time.time()), failure=(done.stderr or done.stdout).strip()[-400:])
    found = json.loads(last[0])
    return Outcome(found["secs"], found["wall"], watch.curve(found["start"]))


def own_job() -> None:
    """The job on standard input, by tscript."""
    job = json.load(sys.stdin)
    workload = ROWS[job["row"]].make()
    target = tscript.target.Target(f"llvm -num-cores {job['cores']}")
    start = time.time()
    database = ms.tune_tir(
        workload.func, target, job["work_dir"], job["trials"], num_trials_per_iter=job["batch"], seed=job["seed"]
    )
    wall = time.time() - start
    schedule = ms.compile_tir(database, workload.func, target)
    if schedule is None:
        raise SystemExit("no candidate could be measured")
    library = tscript.build(schedule.mod, target=target)
    arrays = workload.arguments(0)
    library["main"](*arrays)
    workload.check(arrays)
    once = library.time_evaluator("main", tscript.cpu(), number=1)(*arrays).mean
    times = library.time_evaluator("main", tscript.cpu(), number=max(1, int(0.02 / once)), repeat=15)(*arrays).results
    print(json.dumps({"start": start, "wall": wall, "secs": median(times), "best": min(times)}))


def numpy_secs(name: str) -> float:
    """How long NumPy takes for the product; as many threads as the row has cores are the environment's to set."""
    a, b, *_ = ROWS[name].make().arguments(0)
    out = np.matmul(a, b)
    times: list[float] = []
    end = time.perf_counter() + 1.0
    while time.perf_counter() < end:
        start = time.perf_counter()
        np.matmul(a, b, out=out)
        times.append(time.perf_counter() - start)
    return median(times)


def numpy_outcome(name: str) -> Outcome:
    """NumPy's time, in a process with as many threads as the row has cores."""
    env = {**os.environ, **dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), str(ROWS[name].cores))}
    done = subprocess.run(
        [sys.executable, __file__, "--numpy", name], env=env, capture_output=True, text=True, check=False
    )
    if done.returncode:
        return Outcome(failure=done.stderr.strip()[-400:])
    return Outcome(secs=float(done.stdout))


def has_tvm(python: str) -> bool:
    """Whether an interpreter can import TVM's tuner."""
    command = [python, "-c", "import tvm.s_tir.meta_schedule"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def speed(name: str, secs: float) -> str:
    """GFLOPS, or GB/s of the arguments for programs that only move data."""
    workload = ROWS[name].make()
    if workload.flop:
        return f"{workload.flop / secs / 1e9:.1f} GF"
    return f"{sum(a.nbytes for a in workload.arguments(0)) / secs / 1e9:.1f} GB/s"


def show(name: str, who: str, found: Outcome, ours: Outcome) -> None:
    """A line for one contender, and its curve."""
    if found.failure:
        print(f"{name:20s} {who:8s} failed: {found.failure}")
        return
    ratio = f"{found.secs / ours.secs:7.2f}" if ours.secs else "      -"
    wall = f"{found.wall:8.1f} s" if found.wall else ""
    print(f"{name:20s} {who:8s} {speed(name, found.secs):>14s} {ratio} {wall}")
    if found.curve:
        print(f"{'':20s} best so far: " + "  ".join(f"{t:.0f}s {speed(name, s)}" for t, s in found.curve))


def measure(name: str, trials: int, tvm: str | None, as_json: bool) -> None:
    """One row."""
    with tempfile.TemporaryDirectory() as folder:
        found = {"tscript": run(sys.executable, Path(__file__), job_of(name, trials, f"{folder}/own"))}
        if tvm is not None:
            found["TVM"] = run(tvm, PEER, job_of(name, trials, f"{folder}/tvm"))
    if ROWS[name].numpy:
        found["NumPy"] = numpy_outcome(name)
    load = os.getloadavg()
    if as_json:
        print(json.dumps({"row": name, "load": load, **{k: asdict(v) for k, v in found.items()}}), flush=True)
        return
    for who, outcome in found.items():
        show(name, who, outcome, found["tscript"])
    print(f"{'':20s} load average {load[0]:.1f} on {os.cpu_count()} cores", flush=True)


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS), metavar="ROW", help=", ".join(ROWS))
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--tvm", default=sys.executable, metavar="PYTHON", help="an interpreter that has TVM")
    parser.add_argument("--no-tvm", action="store_true")
    parser.add_argument("--json", action="store_true", help="a line of JSON for each row")
    parser.add_argument("--job", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--numpy", choices=ROWS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.job:
        own_job()
        return
    if args.numpy:
        print(numpy_secs(args.numpy))
        return
    tvm = None if args.no_tvm or not has_tvm(args.tvm) else args.tvm
    if tvm is None and not args.json:
        print("without TVM" + ("" if args.no_tvm else f", which {args.tvm} does not have"))
    if not args.json:
        print(f"{'row':20s} {'by':8s} {'speed':>14s} {'time/ours':>7s} {'search':>8s}")
    for name in args.rows:
        measure(name, args.trials, tvm, args.json)


if __name__ == "__main__":
    main()
