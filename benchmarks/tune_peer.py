"""Tunes and times one program with Apache TVM, for `benchmarks/tune.py`, which starts it in TVM's own interpreter.

Reads a job as JSON from standard input and prints the outcome as JSON on the last line of standard output.
"""

from __future__ import annotations

import importlib
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np


def main() -> None:
    """Do the job."""
    tvm: Any = importlib.import_module("tvm")
    ms: Any = importlib.import_module("tvm.s_tir.meta_schedule")
    job = json.load(sys.stdin)
    func = tvm.script.from_source(job["program"])
    mod = tvm.IRModule({"main": func.with_attr("global_symbol", "main")})
    cpu = tvm.target.codegen.llvm_get_system_cpu()
    target = tvm.target.Target({"kind": "llvm", "mcpu": cpu, "num-cores": job["cores"]})
    work_dir = job["work_dir"] or tempfile.mkdtemp()
    Path(work_dir).mkdir(parents=True, exist_ok=True)
    start = time.time()
    database = ms.tune_tir(mod, target, work_dir, job["trials"], num_trials_per_iter=job["batch"], seed=job["seed"])
    wall = time.time() - start
    schedule = ms.tir_integration.compile_tir(database, mod, target)
    if schedule is None:
        raise SystemExit("no candidate could be measured")
    library = tvm.compile(schedule.mod, target)
    rng: Any = np.random.default_rng(0)
    arrays = [tvm.runtime.tensor(np.asarray(rng.random(shape) * 9, dtype=dtype)) for shape, dtype in job["arguments"]]
    once = library.time_evaluator("main", tvm.cpu(), number=1)(*arrays).mean
    number = max(1, int(0.02 / once))
    times = library.time_evaluator("main", tvm.cpu(), number=number, repeat=15)(*arrays).results
    print(json.dumps({"start": start, "wall": wall, "secs": statistics.median(times), "best": min(times)}))


if __name__ == "__main__":
    main()
