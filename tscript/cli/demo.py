"""The main job on one kernel: show it, interpret it, build it, check it against NumPy, time it, tune it."""

from __future__ import annotations

import logging
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
from rich.console import Console
from rich.table import Table

from tscript.cli.loading import load_file
from tscript.driver import build
from tscript.interp import run
from tscript.ir.function import IRModule
from tscript.meta_schedule.runner import EvaluatorConfig, LocalRunner
from tscript.meta_schedule.tir_integration import compile_tir, tune_tir
from tscript.support.errors import TScriptError
from tscript.target import Target
from tscript.target.detect import core_count

KERNEL: Final = Path(__file__).parent / "kernels" / "mm_relu.py"
_NAME: Final = "mm_relu"
_TUNED: Final = "main"
"""What tuning calls the function of a program that has one."""
_SIZE: Final = 128
_FLOPS: Final = 2 * _SIZE**3 + _SIZE**2
# Sums of 128 products in another order differ by this much at most, relative to the largest element.
_TOLERANCE: Final = 1e-5

Array = np.ndarray[Any, np.dtype[np.float32]]
R = TypeVar("R")


class DemoError(TScriptError):
    """A result that is not what NumPy says."""


@dataclass(frozen=True)
class Step:
    """One line of the summary: what was done, how long it took in seconds, how far from NumPy it came out."""

    what: str
    seconds: float
    difference: float | None = None
    remark: str = ""


def _timed(action: Callable[[], R]) -> tuple[R, float]:
    start = time.perf_counter()
    result = action()
    return result, time.perf_counter() - start


def _difference(what: str, got: Array, expected: Array) -> float:
    largest = float(np.max(np.abs(got - expected)) / np.max(np.abs(expected)))
    if not largest <= _TOLERANCE:
        raise DemoError(f"{what} is off from NumPy by {largest:.1e}: this installation computes wrong results")
    return largest


def _best(action: Callable[[], object], repeat: int) -> float:
    return min(_timed(action)[1] for _ in range(repeat))


def _rate(seconds: float) -> str:
    rate = _FLOPS / seconds
    return f"{rate / 1e9:.2f} GFLOP/s" if rate >= 1e8 else f"{rate / 1e6:.2f} MFLOP/s"


def _tuned(module: IRModule, trials: int) -> IRModule:
    """The fastest of so many schedules from the space of tuning. Raises DemoError if none could be measured."""
    target = Target(f"llvm -num-cores {core_count()}")
    logger = logging.getLogger("tscript.meta_schedule")
    level = logger.level
    logger.setLevel(logging.ERROR)  # the log files have the rest
    try:
        with tempfile.TemporaryDirectory(prefix="tscript-demo-") as folder:
            database = tune_tir(
                module,
                target,
                folder,
                trials,
                runner=LocalRunner(evaluator_config=EvaluatorConfig(min_repeat_ms=10)),
                cost_model="random",
                num_tuning_cores=core_count(),
                seed=1,
            )
            found = compile_tir(database, module, target)
    finally:
        logger.setLevel(level)
    if found is None:
        raise DemoError(f"none of {trials} schedules could be measured: this installation cannot tune")
    return found.mod


def _steps(module: IRModule, *, repeat: int, trials: int) -> list[Step]:
    rng = np.random.default_rng(0)
    a: Array = rng.standard_normal((_SIZE, _SIZE), dtype=np.float32)
    b: Array = rng.standard_normal((_SIZE, _SIZE), dtype=np.float32)
    expected: Array = np.maximum(a @ b, 0)

    interpreted = np.full_like(expected, np.nan)
    _, interpreting = _timed(lambda: run(module[_NAME], a, b, interpreted))
    lib, first_build = _timed(lambda: build(module, target="llvm"))
    lib, building = _timed(lambda: build(module, target="llvm"))
    native = np.full_like(expected, np.nan)
    kernel = lib[_NAME]
    kernel(a, b, native)
    running = lib.time_evaluator(_NAME, number=1, repeat=repeat)(a, b, native).min
    best, tuning = _timed(lambda: _tuned(module, trials))
    tuned = np.full_like(expected, np.nan)
    fast_lib = build(best, target="llvm")
    fast_lib[_TUNED](a, b, tuned)
    fast = fast_lib.time_evaluator(_TUNED, number=1, repeat=repeat)(a, b, tuned).min
    by_numpy = _best(lambda: np.maximum(a @ b, 0), repeat)
    return [
        Step("interpret", interpreting, _difference("the interpreter", interpreted, expected), _rate(interpreting)),
        Step("build the first time", first_build, remark="loads LLVM"),
        Step("build again", building),
        Step("run native code", running, _difference("native code", native, expected), _rate(running)),
        Step(f"try {trials} schedules", tuning),
        Step(
            "run the fastest",
            fast,
            _difference("the tuned code", tuned, expected),
            f"{_rate(fast)}: {running / fast:.0f} x",
        ),
        Step("NumPy, for comparison", by_numpy, remark=_rate(by_numpy)),
    ]


def _duration(seconds: float) -> str:
    return (
        f"{seconds:.2f} s"
        if seconds >= 1
        else f"{seconds * 1e3:.2f} ms"
        if seconds >= 1e-3
        else f"{seconds * 1e6:.1f} µs"
    )


def _summary(steps: list[Step]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("step", no_wrap=True)
    table.add_column("time", justify="right", no_wrap=True)
    table.add_column("off from NumPy", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for s in steps:
        off = "" if s.difference is None else f"{s.difference:.0e}"
        table.add_row(s.what, _duration(s.seconds), off, s.remark)
    return table


def run_demo(*, quick: bool = False) -> int:
    """Do the main job and print it. Raises DemoError when a result is wrong."""
    out = Console()
    out.rule(f"the program of {KERNEL.name}: C = max(A @ B, 0) for {_SIZE} x {_SIZE} matrices", align="left")
    module = next(p for p in load_file(KERNEL).values() if isinstance(p, IRModule))
    sys.stdout.flush()
    module.show()
    out.rule("interpreted, built, run, compared and timed", align="left")
    out.print(_summary(_steps(module, repeat=3 if quick else 20, trials=4 if quick else 12)))
    out.print(
        "All results agree. Native code ran the loops as they are written first, then by the best schedule found."
    )
    return 0
