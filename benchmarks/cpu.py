"""How fast kernels run on this CPU, beside NumPy, PyTorch and TVM where they are installed, and what the CPU can do.

    python benchmarks/cpu.py                              # the table, on one core and on all: about four minutes
    python benchmarks/cpu.py --only 'matmul_*' add_16M    # some rows
    python benchmarks/cpu.py --threads 2 --json           # on two threads, as JSON
    python benchmarks/cpu.py --tvm /path/to/python        # beside the TVM of another interpreter ($TVM_PYTHON)

The schedules are those of `tscript.library`; TVM's are written by hand (`cpu_peer.py`), as tuning takes minutes a row
(`tune.py`). Results of all sides have their memory before, where the library takes it. The contenders of a row run in
turn for short rounds, each row with the ceiling of its kind: fused multiply-adds on registers, a copy, or reading. A
ratio is the median over the rounds, beside that of the best rounds; the verdict goes by the median. On a machine that
others use too, compare within a run only, and take it again.
"""

from __future__ import annotations

import argparse
import fnmatch
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Final

import calls
import compile_time
import cpu_race
import numpy as np
from cpu_rows import ROWS, Case, Goal, Row

import tscript
from tscript import library
from tscript.target.detect import core_count

NAMES: Final = {"ours": "tscript", "numpy": "NumPy", "torch": "PyTorch", "tvm": "TVM"}
UNITS: Final = {"fma": "GF", "copy": "GB/s", "read": "GB/s"}
CEILINGS: Final = {
    "fma": "fused multiply-adds on registers", "copy": "a copy that bypasses the caches", "read": "reading an array",
}  # fmt: skip
COSTS: Final = {"call": calls.BUDGET, "thread_start": calls.START_BUDGET, "build": 40e-3}
"""Rows that are seconds beside a budget: a call with three arrays, starting and joining threads, a build."""
PAUSE: Final = 0.03
"""Seconds before each contender on several threads: so long the threads of OpenBLAS spin after a call."""


@dataclass(frozen=True)
class Result:
    """A line of the table: rates (or seconds) of each contender, ratios as (median, of the best rounds), verdicts."""

    key: str
    threads: int
    unit: str
    rates: dict[str, float]
    ratios: dict[str, tuple[float, float]] = field(default_factory=dict[str, tuple[float, float]])
    of_ceiling: float | None = None
    goals: dict[str, bool | None] = field(default_factory=dict[str, bool | None])
    """By what is to be reached; None where the contender was not measured."""


@dataclass(frozen=True)
class Setting:
    """What a process measures with."""

    threads: int
    rounds: int
    seconds: float
    small: bool
    torch: Any
    tvm: cpu_race.Peer | None
    tvm_python: str | None


def judged(goals: Sequence[Goal], ratios: dict[str, tuple[float, float]], ceiling: str, share: float) -> dict[str, Any]:
    """The goals in words, and whether each is reached."""
    found: dict[str, bool | None] = {}
    for goal in goals:
        if goal.over == "best":
            name = "the better of NumPy and PyTorch"
            value = min((ratios[n][0] for n in ("numpy", "torch") if n in ratios), default=None)
        elif goal.over == ceiling:
            name, value = CEILINGS[ceiling], share
        else:
            name = NAMES[goal.over]
            value = ratios[goal.over][0] if goal.over in ratios else None
        found[f"{goal.least:g} of {name}" if goal.over in CEILINGS else f"{goal.least:g} x {name}"] = (
            None if value is None else value >= goal.least
        )
    return found


def race_row(key: str, row: Row, case: Case, ceiling: cpu_race.Ceiling, setting: Setting) -> Result:
    """Check the result of a case, then measure it beside the others."""
    target = f"llvm -num-cores={setting.threads}"
    kernel = tscript.build(library.schedule(case.func, target).mod, target)["main"]
    kernel(*case.arrays)
    want = np.asarray(case.want(), np.float64)
    scale = max(1.0, float(np.abs(want).max()))
    got = np.asarray(case.arrays[-1], np.float64)
    np.testing.assert_allclose(got, want, rtol=case.tolerance, atol=case.tolerance * scale)
    contenders = {"ours": cpu_race.calling(lambda: kernel(*case.arrays)), "ceiling": ceiling.run}
    contenders |= {name: cpu_race.calling(call) for name, call in case.others.items()}
    peer = setting.tvm.contender(case.func) if setting.tvm is not None else None
    if peer is not None:
        contenders["tvm"] = peer
    seconds = cpu_race.race(
        contenders, rounds=setting.rounds, seconds=setting.seconds, pause=PAUSE if setting.threads > 1 else 0.0
    )
    ratios = {name: cpu_race.ratio(seconds["ours"], seconds[name]) for name in NAMES if name in seconds}
    del ratios["ours"]
    share = cpu_race.ratio(seconds["ours"], seconds["ceiling"])[0] * case.amount / ceiling.amount
    rates = {name: case.amount / median(seconds[name]) * 1e-9 for name in NAMES if name in seconds}
    rates["ceiling"] = ceiling.amount / median(seconds["ceiling"]) * 1e-9
    goals = judged(row.goals, ratios, row.ceiling, share)
    return Result(key, setting.threads, UNITS[row.ceiling], rates, ratios, share, goals)


def cost_rows(keys: Sequence[str], setting: Setting) -> Iterator[Result]:
    """What a call, the start of threads and a build cost, by the programs that measure those in detail."""
    runs = 3 if setting.small else 9
    found: dict[str, dict[str, float]] = {}
    if {"call", "thread_start"} & {*keys}:
        peer = calls.Peer(setting.tvm_python) if setting.tvm_python else None
        try:
            seconds = calls.measure(rounds=runs, number=200 if setting.small else 5000, peer=peer)
        finally:
            if peer is not None:
                peer.close()
        columns = {"ours": "numpy", "numpy": "ufunc", "tvm": "peer_numpy"}
        found["call"] = {n: seconds["arrays3", c] for n, c in columns.items() if ("arrays3", c) in seconds}
        found["thread_start"] = {
            n: max(0.0, seconds["parallel", c] - seconds["arrays1", c])
            for n, c in columns.items()
            if ("parallel", c) in seconds
        }
    if "build" in keys:
        found["build"] = {"ours": median(compile_time.build_samples(runs))}
        if setting.tvm_python:
            found["build"]["tvm"] = compile_time.measure_peer(setting.tvm_python, runs=runs, number=10)["build"]
    for key in keys:
        ours = found[key]["ours"]
        ratios = {n: (s / ours, s / ours) for n, s in found[key].items() if n != "ours" and ours > 0}
        goal: dict[str, bool | None] = {f"within {1e6 * COSTS[key]:g} µs": ours <= COSTS[key]}
        yield Result(key, setting.threads, "µs", {n: 1e6 * s for n, s in found[key].items()}, ratios, None, goal)


def measure(keys: Sequence[str], setting: Setting) -> Iterator[Result]:
    """The rows that are asked for, one after another as they are done."""
    tscript.runtime.set_num_threads(setting.threads)
    costs = [k for k in keys if k in COSTS and (k == "thread_start") == (setting.threads > 1)]
    yield from cost_rows(costs, setting) if costs else ()
    count = 1 << (16 if setting.small else 24)
    makers: dict[str, Callable[[], cpu_race.Ceiling]] = {
        "fma": lambda: cpu_race.fma(setting.threads),
        "copy": lambda: cpu_race.copy(setting.threads, count),
        "read": lambda: cpu_race.read(setting.threads, count),
    }
    ceilings: dict[str, cpu_race.Ceiling] = {}
    for key in keys:
        if key in COSTS or (ROWS[key].threads == "one" and setting.threads > 1):
            continue
        row = ROWS[key]
        if row.ceiling not in ceilings:
            ceilings[row.ceiling] = makers[row.ceiling]()
        yield race_row(key, row, row.make(setting.torch, setting.small), ceilings[row.ceiling], setting)


def head() -> str:
    """The first two lines of the table."""
    names = ["work", "threads", "unit", *NAMES.values(), *(f"÷ {n}" for n in list(NAMES.values())[1:])]
    return f"| {' | '.join([*names, 'of ceiling', 'goal'])} |\n|---|--:|---|{'--:|' * 8}---|"


def render(result: Result) -> str:
    """A line of the table."""
    digits = 2 if result.unit == "µs" else 1
    rates = [f"{result.rates[n]:.{digits}f}" if n in result.rates else "–" for n in NAMES]
    ratios = [
        f"{result.ratios[n][0]:.2f} ({result.ratios[n][1]:.2f})" if n in result.ratios else "–" for n in list(NAMES)[1:]
    ]
    share = "–" if result.of_ceiling is None else f"{result.of_ceiling:.2f}"
    marks = {True: "reached", False: "MISSED", None: "not measured"}
    goals = ", ".join(f"{goal}: {marks[met]}" for goal, met in result.goals.items())
    cells = [result.key, str(result.threads), result.unit, *rates, *ratios, share, goals]
    return f"| {' | '.join(cells)} |"


def chosen(patterns: Sequence[str]) -> list[str]:
    """The rows that patterns name, in the order of the table. ValueError for a pattern that names none."""
    known = [*ROWS, *COSTS]
    for p in patterns:
        if not fnmatch.filter(known, p):
            raise ValueError(f"no row {p!r}; choose from {', '.join(known)}")
    return [k for k in known if not patterns or any(fnmatch.fnmatch(k, p) for p in patterns)]


def _work(options: argparse.Namespace) -> None:
    """Measure in this process, on one number of threads; a line of JSON for each row."""
    threads, torch = options.threads[0], None
    if not options.no_torch:
        try:
            torch = importlib.import_module("torch")
        except ImportError:
            pass
        else:
            torch.set_num_threads(threads)
            torch.set_grad_enabled(False)
    python = None if options.no_tvm else options.tvm
    keys = chosen(options.only)
    tvm = cpu_race.Peer(python, threads) if python and any(k in ROWS for k in keys) else None
    try:
        setting = Setting(threads, options.rounds, options.seconds, options.small, torch, tvm, python)
        for result in measure(keys, setting):
            print(json.dumps(asdict(result)), flush=True)
    finally:
        if tvm is not None:
            tvm.close()


def _results(argv: Sequence[str], threads: int) -> Iterator[Result]:
    """The rows on so many threads, from a process where libraries are told the number before they load."""
    told = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "TVM_NUM_THREADS")
    command = [sys.executable, str(Path(__file__).resolve()), *argv, "--worker", "--threads", str(threads)]
    env = {**os.environ, **dict.fromkeys(told, str(threads))}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as process:
        assert process.stdout is not None
        for line in process.stdout:
            values = json.loads(line)
            values["ratios"] = {n: tuple(r) for n, r in values["ratios"].items()}
            yield Result(**values)
    if process.returncode:
        raise SystemExit(f"measuring on {threads} threads ended with status {process.returncode}")


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", default=[], metavar="ROW", help="rows to measure; * stands for anything")
    parser.add_argument("--threads", nargs="+", type=int, metavar="N", help="numbers of threads (default: 1 and all)")
    parser.add_argument("--rounds", type=int, default=21, help="most rounds of each row (default 21)")
    parser.add_argument("--seconds", type=float, default=2.0, help="how long a row should take (default 2)")
    parser.add_argument("--tvm", metavar="PYTHON", default=os.environ.get("TVM_PYTHON"), help="a Python with TVM 0.25")
    parser.add_argument("--no-tvm", action="store_true", help="leave TVM out though $TVM_PYTHON names it")
    parser.add_argument("--no-torch", action="store_true", help="leave PyTorch out even where it is installed")
    parser.add_argument("--small", action="store_true", help="small arrays: to see that all of it runs")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    given = list(sys.argv[1:] if argv is None else argv)
    options = parser.parse_args(given)
    try:
        chosen(options.only)
    except ValueError as error:
        parser.error(str(error))
    if options.worker:
        _work(options)
        return 0
    numbers = options.threads or sorted({1, core_count()})
    found: list[Result] = []
    if not options.json:
        print("Rates are medians; ÷ is how many times as fast as theirs, median (best) of the rounds.\n\n" + head())
    for threads in numbers:
        for result in _results(given, threads):
            found.append(result)
            if not options.json:
                print(render(result), flush=True)
    if options.json:
        print(json.dumps([asdict(r) for r in found], indent=2))
    else:
        verdicts = [met for r in found for met in r.goals.values()]
        print(f"\n{verdicts.count(True)} of {len(verdicts)} goals reached, {verdicts.count(None)} not measured.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
