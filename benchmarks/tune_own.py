"""tscript, and NumPy, for `benchmarks/tune.py`, which starts this for each row in a process of its own."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
from tune_worker import Array, Call, Tool, serve

import tscript
from tscript import meta_schedule as ms
from tscript.meta_schedule.database import JSONDatabase


def digest() -> str:
    """What tells one state of tscript's sources from another."""
    found = hashlib.sha256()
    root = Path(tscript.__file__).parent
    for path in sorted(root.rglob("*.py")):
        found.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    return found.hexdigest()[:16]


class Tscript(Tool):
    """The tuner of tscript."""

    def start(self, job: dict[str, Any]) -> str:
        """Nothing more to load."""
        return digest()

    def _program(self, job: dict[str, Any]) -> tuple[Any, Any]:
        return tscript.script.from_source(job["own_program"]), tscript.target.Target(f"llvm -num-cores {job['cores']}")

    def tune(self, job: dict[str, Any]) -> dict[str, float]:
        """Tune at the default settings."""
        func, target = self._program(job)
        with ms.Profiler() as profiler:
            ms.tune_tir(
                func, target, job["work_dir"], job["trials"], num_trials_per_iter=job["batch"], seed=job["seed"]
            )
        return profiler.get()

    def load(self, job: dict[str, Any], arrays: list[Array]) -> tuple[Call, Any]:
        """The best of the records."""
        func, target = self._program(job)
        schedule = ms.compile_tir(JSONDatabase(work_dir=job["work_dir"]), func, target)
        if schedule is None:
            raise LookupError("no candidate could be measured")
        kernel = tscript.build(schedule.mod, target=target)["main"]
        owned = [tscript.nd.array(a) for a in arrays]
        return (lambda: kernel(*owned)), (lambda: [np.asarray(a.numpy()) for a in owned])


class Numpy(Tool):
    """`numpy.matmul`, on as many threads as the environment says."""

    def start(self, job: dict[str, Any]) -> str:
        """The version."""
        return np.__version__

    def tune(self, job: dict[str, Any]) -> dict[str, float]:
        """There is nothing to tune."""
        raise NotImplementedError("NumPy is not tuned")

    def load(self, job: dict[str, Any], arrays: list[Array]) -> tuple[Call, Any]:
        """The product of the first two arrays, into the third."""
        a, b, out = arrays
        return (lambda: np.matmul(a, b, out=out)), (lambda: arrays)


if __name__ == "__main__":
    serve({"tscript": Tscript, "numpy": Numpy}[sys.argv[1]]())
