"""What tuning finds and how soon, beside Apache TVM where that is installed.

    python benchmarks/tune.py                                  # all rows, 64 trials each
    python benchmarks/tune.py --only matmul_128 softmax --trials 16
    python benchmarks/tune.py --tvm /path/to/python            # the interpreter that has TVM ($TVM_PYTHON)
    python benchmarks/tune.py --dir /tmp/tuning --json         # keep what is done; the same command goes on from there

TVM's tuner needs its extra packages: pip install apache-tvm psutil cloudpickle xgboost.

Both tune the same program, with the same number of trials, one after the other on this machine, each in a process of
its own with nothing left to import. A curve says how fast the best was of what had been recorded after so many seconds,
and `search` how much of the wall time was neither building nor measuring. Then the best kernels of both, and NumPy
where it has one call for the row, are checked with the same arrays and timed in turn, for `--rounds` short rounds: the
best round of each counts. The load of the machine is printed with each row: where others work on it too, a single run
says little.

A tuner that takes longer than `--limit` is ended, with all its processes, and the best of what it recorded counts. With
`--dir`, tuning that was finished with the same settings and the same version (for tscript, the same sources) is not
done again; the final timing always is, so that all ratios are of one sitting.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from peer import later_program
from tune_process import Watch, Worker, WorkerError

from tscript.testing import workloads
from tscript.testing.workloads import Workload

HERE: Final = Path(__file__).parent
RECORDS: Final = "database_tuning_record.json"
START_LIMIT, LOAD_LIMIT, ROUND_LIMIT = 300.0, 300.0, 60.0
ROUND: Final = 0.1
PAUSE: Final = 0.05
"""Seconds before each contender: so long the threads of another may still spin after their last call."""
OUTSIDE_SEARCH: Final = ("SendToBuilder", "SendToRunner", "JoinRunnerFutures")


@dataclass(frozen=True)
class Row:
    """A program, the cores to tune it for, and whether NumPy has one call for it."""

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


@dataclass(frozen=True)
class Settings:
    """What the command line asks for."""

    trials: int = 64
    seed: int = 1
    limit: float = 900.0
    rounds: int = 15
    commands: dict[str, list[str]] = field(default_factory=dict[str, list[str]])


@dataclass
class Outcome:
    """What one contender did: seconds of a call (best and all rounds), seconds of tuning, the share of search in them,
    seconds to load what tuning needs before that, (seconds, best so far), trials and how many failed; `failure` says
    what went wrong, `cut` that time ran out, `again` that it was tuned before.
    """

    secs: float = 0.0
    rounds: list[float] = field(default_factory=list[float])
    wall: float = 0.0
    search: float = 0.0
    start: float = 0.0
    curve: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    trials: int = 0
    failed: int = 0
    cut: bool = False
    again: bool = False
    failure: str = ""


def own_commands() -> dict[str, list[str]]:
    """How tscript and NumPy are started."""
    return {who: [sys.executable, str(HERE / "tune_own.py"), who.lower()] for who in ("tscript", "NumPy")}


def job_of(name: str, who: str, settings: Settings, work_dir: Path) -> dict[str, Any]:
    """All that a tuner must know of a row."""
    func = ROWS[name].make().func
    return {
        "row": name,
        "own_program": func.script(),
        "program": later_program(func),
        "cores": ROWS[name].cores,
        "trials": settings.trials,
        "batch": max(1, min(settings.trials, 64)),
        "seed": settings.seed,
        "work_dir": str(work_dir),
        "records": RECORDS,
        "who": who,
    }


def environment(who: str, cores: int) -> dict[str, str]:
    """Of a contender: kernels run on as many threads as the row has cores."""
    names = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS") if who == "NumPy" else ("TVM_NUM_THREADS",)
    env = {k: v for k, v in os.environ.items() if k != "TSCRIPT_NUM_THREADS"}  # tscript reads TVM's too
    return {**env, **dict.fromkeys(names, str(cores))}


@contextmanager
def started(job: dict[str, Any], settings: Settings) -> Generator[tuple[Worker, str]]:
    """A contender's process that knows its job, and its version."""
    who = job["who"]
    log = Path(job["work_dir"]).parent / f"{who}.log"
    with Worker(settings.commands[who], environment(who, job["cores"]), log) as worker:
        yield worker, worker.ask(START_LIMIT, "start", job=job)["version"]


def tuned(job: dict[str, Any], settings: Settings) -> Outcome:
    """Tune, unless that is done."""
    work_dir = Path(job["work_dir"])
    done = work_dir.parent / f"{job['who']}.done.json"
    with started(job, settings) as (worker, version):
        key = {**job, "limit": settings.limit, "version": version}
        if done.exists():
            saved: dict[str, Any] = json.loads(done.read_text())
            if saved["key"] == key:
                return replace(Outcome(**saved["outcome"]), again=True)
        done.unlink(missing_ok=True)
        shutil.rmtree(work_dir, ignore_errors=True)
        found = Outcome(start=worker.ask(START_LIMIT, "prepare")["secs"])
        watch = Watch(work_dir / RECORDS)
        begin = time.monotonic()
        try:
            answer = worker.ask(settings.limit, "tune")
        except WorkerError as e:
            found.wall = time.monotonic() - begin
            found.cut = found.wall >= settings.limit
            found.failure = "" if found.cut else str(e)
        else:
            found.wall = answer["wall"]
            found.search = search_share(answer["parts"])
        found.trials, found.failed, found.curve = watch.stop()
    if not found.failure:
        part = done.with_suffix(".part")
        part.write_text(json.dumps({"key": key, "outcome": asdict(found)}))
        part.replace(done)
    return found


def search_share(parts: dict[str, float]) -> float:
    """How much of the time was neither building nor measuring."""
    total = parts["Total"]
    return max(0.0, 1 - sum(parts.get(p, 0.0) for p in OUTSIDE_SEARCH) / total) if total else 0.0


def race(name: str, jobs: dict[str, dict[str, Any]], settings: Settings, found: dict[str, Outcome]) -> None:
    """Check the best kernel of each contender, and time them in turn."""
    workload = ROWS[name].make()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        arguments, results = str(folder / "in.npz"), str(folder / "out.npz")
        np.savez(arguments, *workload.arguments(0))
        racing: dict[str, Worker] = {}
        for who, job in jobs.items():
            try:
                racing[who] = stack.enter_context(started(job, settings))[0]
                racing[who].ask(LOAD_LIMIT, "load", arguments=arguments, results=results)
                with np.load(results) as saved:
                    workload.check([saved[f"arr_{k}"] for k in range(len(saved.files))])
            except (WorkerError, AssertionError) as e:
                racing.pop(who, None)
                found[who].failure = " ".join(str(e).split())[:400]
        for _ in range(settings.rounds):
            for who, worker in list(racing.items()):
                time.sleep(PAUSE)
                try:
                    found[who].rounds.append(worker.ask(ROUND_LIMIT, "time", secs=ROUND)["secs"])
                except WorkerError as e:
                    del racing[who]
                    found[who].failure = str(e)
        for who in racing:
            found[who].secs = min(found[who].rounds)


def measure(name: str, settings: Settings, folder: Path) -> dict[str, Outcome]:
    """One row: what each contender did."""
    row = ROWS[name]
    found: dict[str, Outcome] = {}
    jobs: dict[str, dict[str, Any]] = {}
    for who in settings.commands:
        if who == "NumPy" and not row.numpy:
            continue
        jobs[who] = job_of(name, who, settings, folder / name / who)
        try:
            found[who] = Outcome() if who == "NumPy" else tuned(jobs[who], settings)
        except WorkerError as e:
            found[who] = Outcome(failure=str(e))
    race(name, {who: job for who, job in jobs.items() if who == "NumPy" or found[who].curve}, settings, found)
    return found


def speed(workload: Workload, secs: float) -> str:
    """GFLOPS, or GB/s of the arguments for programs that only move data."""
    if workload.flop:
        return f"{workload.flop / secs / 1e9:.1f} GF"
    return f"{sum(a.nbytes for a in workload.arguments(0)) / secs / 1e9:.1f} GB/s"


def show(name: str, found: dict[str, Outcome]) -> None:
    """A line for each contender, and the curves."""
    workload = ROWS[name].make()
    ours = found["tscript"]
    for who, outcome in found.items():
        if not outcome.secs:
            print(f"{name:20s} {who:8s} failed: {outcome.failure or 'no candidate could be measured'}")
            continue
        if outcome.failure:
            print(f"{name:20s} {who:8s} tuning broke off: {outcome.failure}")
        ratio = f"{outcome.secs / ours.secs:9.2f}" if ours.secs else "        -"
        tuning = ""
        if who != "NumPy":
            trials = f"{outcome.trials - outcome.failed}/{outcome.trials}"
            share = "" if outcome.cut else f"{100 * outcome.search:6.0f} %"
            marks = ("  time ran out" if outcome.cut else "") + ("  tuned before" if outcome.again else "")
            tuning = f"{outcome.wall:8.1f} s {share:>8s} {trials:>8s}{marks}"
        print(f"{name:20s} {who:8s} {speed(workload, outcome.secs):>12s} {ratio} {tuning}".rstrip())
    for who, outcome in found.items():
        if outcome.curve:
            points = "  ".join(f"{t:.0f}s {speed(workload, s)}" for t, s in outcome.curve)
            print(f"{'':20s} {who:8s} best so far: {points}")
    first = found.get("TVM")
    if first is not None and first.curve and ours.curve:
        reached = next((t for t, s in ours.curve if s <= first.curve[-1][1]), None)
        when = "not in this run" if reached is None else f"after {reached:.0f} s (TVM: {first.curve[-1][0]:.0f} s)"
        print(f"{'':20s} tscript reached TVM's best {when}")


def geometric_mean(values: Sequence[float]) -> float:
    """The mean of ratios.

    >>> geometric_mean([1.0, 4.0])
    2.0
    """
    return math.exp(sum(math.log(v) for v in values) / len(values))


def summary(rows: dict[str, dict[str, Outcome]]) -> str:
    """The means over rows of how much faster the best kernel is, and how much sooner tuning ends."""
    lines: list[str] = []
    for who in ("TVM", "NumPy"):
        pairs = [(r["tscript"], r[who]) for r in rows.values() if who in r and r[who].secs and r["tscript"].secs]
        if pairs:
            ratio = geometric_mean([other.secs / ours.secs for ours, other in pairs])
            lines.append(f"geometric mean of {len(pairs)} row(s), {who}'s time / tscript's: {ratio:.2f}")
        walls = [other.wall / ours.wall for ours, other in pairs if other.wall and ours.wall]
        if walls:
            lines.append(
                f"geometric mean of the wall times of tuning, {who}'s / tscript's: {geometric_mean(walls):.2f}"
            )
    return "\n".join(lines)


def has_tvm(python: str) -> str:
    """Why an interpreter cannot run TVM's tuner; nothing where it can."""
    try:
        done = subprocess.run(
            [python, str(HERE / "tune_peer.py"), "--check"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=START_LIMIT, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as e:
        return str(e)
    return (done.stderr.strip().splitlines() or ["it fails"])[-1] if done.returncode else ""


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=ROWS, default=list(ROWS), metavar="ROW", help=", ".join(ROWS))
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit", type=float, default=900, metavar="SECONDS", help="for each tuner in each row")
    parser.add_argument("--rounds", type=int, default=15, help="of the final timing")
    parser.add_argument("--dir", type=Path, metavar="FOLDER", help="where what is done is kept, to go on from")
    parser.add_argument(
        "--tvm", default=os.environ.get("TVM_PYTHON") or sys.executable, metavar="PYTHON", help="that has TVM"
    )
    parser.add_argument("--no-tvm", action="store_true")
    parser.add_argument("--json", action="store_true", help="a line of JSON for each row")
    args = parser.parse_args(argv)
    if min(args.trials, args.rounds) < 1 or args.limit <= 0:
        parser.error("--trials, --rounds and --limit are positive")
    return args


def _end(*_: object) -> None:
    """End by an exception, so that the processes of tuners end too."""
    raise SystemExit(143)


def main(argv: Sequence[str] | None = None) -> int:
    """Run what the command line asks for. The exit status is 1 if a contender failed in any row."""
    args = parse(argv)
    signal.signal(signal.SIGTERM, _end)
    commands = own_commands()
    lacks = "" if args.no_tvm else has_tvm(args.tvm)
    if not args.no_tvm and not lacks:
        commands = {"tscript": commands["tscript"], "TVM": [args.tvm, str(HERE / "tune_peer.py")], **commands}
    elif lacks:
        print(f"without TVM: {args.tvm} cannot run its tuner ({lacks})", file=sys.stderr)
    settings = Settings(args.trials, args.seed, args.limit, args.rounds, commands)
    if not args.json:
        print(f"{'row':20s} {'by':8s} {'speed':>12s} {'time/ours':>9s} {'tuning':>10s} {'search':>8s} {'trials':>8s}")
    rows: dict[str, dict[str, Outcome]] = {}
    begin = time.monotonic()
    with ExitStack() as stack:
        folder = args.dir or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for name in args.only:
            start = time.monotonic()
            rows[name] = measure(name, settings, folder)
            load, took = os.getloadavg(), time.monotonic() - start
            if args.json:
                outcomes = {who: asdict(o) for who, o in rows[name].items()}
                print(json.dumps({"row": name, "load": load, "took": round(took, 1), **outcomes}), flush=True)
                continue
            show(name, rows[name])
            print(f"{'':20s} took {took:.0f} s; load average {load[0]:.1f} on {os.cpu_count()} cores", flush=True)
    if not args.json:
        print(f"{summary(rows)}\n{time.monotonic() - begin:.0f} s in all".strip())
    return int(any(o.failure or not o.secs for row in rows.values() for o in row.values()))


if __name__ == "__main__":
    sys.exit(main())
