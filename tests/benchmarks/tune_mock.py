"""A tuner that measures nothing, for tests of `benchmarks/tune.py`: what it does follows from its argument."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import numpy as np

worker = importlib.import_module("tune_worker")

SLEEPER = """import os, sys, time
if sys.argv[2:]:
    os.setsid()
with open(sys.argv[1], "a") as stream:
    stream.write(f"{os.getpid()}\\n")
time.sleep(600)"""


class Mock(worker.Tool):
    """Writes records as a tuner does; its kernel is NumPy's product."""

    def __init__(self, how: str) -> None:
        self.how = how

    def start(self, job):
        print("noise on standard output")
        if self.how == "no start":
            raise SystemExit("it cannot start")
        return "1.0"

    def tune(self, job):
        folder = Path(job["work_dir"])
        folder.mkdir(parents=True)
        with Path(folder.parent, "calls").open("a") as calls:
            calls.write("tune\n")
        records = folder / job["records"]
        for k, secs in enumerate([[1e10], [3e-3], [2e-3, 2e-3, 9.0], [5e-3]] if self.how != "nothing" else [[1e10]]):
            with records.open("a") as stream:
                stream.write(json.dumps([0, [[], secs, {}, []]]) + "\n")
            if k == 2 and self.how == "crash":
                raise RuntimeError("it fell over")
        if self.how == "hang":
            pids = str(folder.parent / "pids")
            for extra in ([], ["own session"]):
                subprocess.Popen([sys.executable, "-c", SLEEPER, pids, *extra])
            time.sleep(600)
        return {"Total": 4.0, "SendToBuilder": 1.0, "SendToRunner": 1.5, "Search": 1.5}

    def load(self, job, arrays):
        a, b, out = arrays
        if self.how == "nothing":
            raise LookupError("no candidate could be measured")

        def call():
            np.matmul(a, b, out=out)
            if self.how == "wrong":
                out[0, 0] += 1

        return call, lambda: arrays


if __name__ == "__main__":
    worker.serve(Mock(sys.argv[1]))
