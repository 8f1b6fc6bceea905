"""Apache TVM for `benchmarks/tune.py`, which starts this in the interpreter that has TVM and what its tuner needs.

Each of TVM's build processes first loads all tensor intrinsics, which takes it 14 s of work on some machines; on a busy
one that alone uses up the 30 s that a build may last by default, so that every candidate fails. Builds may take longer
here, which changes nothing else.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
from tune_worker import Array, Call, Tool, serve

BUILD_TIMEOUT, RUN_TIMEOUT = 300.0, 60.0


class Tvm(Tool):
    """The tuner of TVM 0.2x."""

    def __init__(self) -> None:
        self._tvm: Any = None
        self._ms: Any = None

    def start(self, job: dict[str, Any]) -> str:
        """Import TVM."""
        self._tvm = importlib.import_module("tvm")
        self._ms = importlib.import_module("tvm.s_tir.meta_schedule")
        return str(self._tvm.__version__)

    def prepare(self) -> None:
        """Import the intrinsics, which tuning would do first."""
        importlib.import_module("tvm.s_tir.tensor_intrin")

    def _program(self, job: dict[str, Any]) -> tuple[Any, Any]:
        func = self._tvm.script.from_source(job["program"])
        cpu = self._tvm.target.codegen.llvm_get_system_cpu()
        target = self._tvm.target.Target({"kind": "llvm", "mcpu": cpu, "num-cores": job["cores"]})
        return func.with_attr("global_symbol", "main"), target  # not in a module: compile_tir would miss its attributes

    def tune(self, job: dict[str, Any]) -> dict[str, float]:
        """Tune at TVM's own settings."""
        func, target = self._program(job)
        Path(job["work_dir"]).mkdir(parents=True, exist_ok=True)
        with self._ms.Profiler() as profiler:
            self._ms.tune_tir(
                func, target, job["work_dir"], job["trials"], num_trials_per_iter=job["batch"], seed=job["seed"],
                builder=self._ms.builder.LocalBuilder(timeout_sec=BUILD_TIMEOUT),
                runner=self._ms.runner.LocalRunner(timeout_sec=RUN_TIMEOUT),
            )  # fmt: skip
        return {str(name): float(secs) for name, secs in profiler.get().items()}

    def load(self, job: dict[str, Any], arrays: list[Array]) -> tuple[Call, Any]:
        """The best of the records."""
        func, target = self._program(job)
        database = self._ms.database.JSONDatabase(work_dir=job["work_dir"])
        if "Tensorize" in Path(job["work_dir"], job["records"]).read_text():
            importlib.import_module("tvm.s_tir.tensor_intrin")
        schedule = self._ms.tir_integration.compile_tir(database, func, target)
        if schedule is None:
            raise LookupError("no candidate could be measured")
        library = self._tvm.compile(schedule.mod, target)
        tensors = [self._tvm.runtime.tensor(a) for a in arrays]
        kernel = library["main"]
        return (lambda: kernel(*tensors)), (lambda: [np.asarray(t.numpy()) for t in tensors])


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        for needed in ("tvm.s_tir.meta_schedule", "psutil", "cloudpickle", "xgboost"):
            importlib.import_module(needed)
    else:
        serve(Tvm())
