"""How the best schedule got better: against trials and against time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tscript.analysis.flops import estimate_tir_flops
from tscript.ir.function import IRModule, PrimFunc
from tscript.meta_schedule.database.database import Database
from tscript.meta_schedule.database.record import TuningRecord
from tscript.meta_schedule.tune_context import normalize_mod
from tscript.target.target import Target

_WIDTH, _HEIGHT = 640, 240


@dataclass(frozen=True)
class Curve:
    """The speed of the best so far, in GFLOPS, after each trial; `seconds` since the first trial was recorded.

    >>> Curve([1.0, 1.0, 4.0], [0.0, 1.0, 3.0]).show(height=2)
      4.00 |  *
      1.00 |**
    """

    gflops: list[float]
    seconds: list[float]

    def text(self, width: int = 64, height: int = 10) -> str:
        """A plot of characters, trials to the right."""
        if not self.gflops:
            return "no trials"
        count = min(width, len(self.gflops))
        columns = [self.gflops[(k + 1) * len(self.gflops) // count - 1] for k in range(count)]
        low, high = min(columns), max(columns)
        step = (high - low) / max(1, height - 1) or 1.0
        rows = [round((g - low) / step) for g in columns]
        lines = [
            f"{low + r * step:6.2f} |" + "".join("*" if at == r else " " for at in rows).rstrip()
            for r in range(max(rows), -1, -1)
        ]
        return "\n".join(lines)

    def show(self, width: int = 64, height: int = 10) -> None:
        """Print the plot."""
        print(self.text(width, height))

    def plot(self, axes: Any = None, *, over_time: bool = False) -> Any:
        """Draw the steps of the best, over trials or over time, with matplotlib: on `axes`, or new ones; returns them.

        Raises ImportError, with what to do, without matplotlib. `svg` and `text` do without.
        """
        if axes is None:
            axes = load_pyplot().subplots()[1]
        xs = self.seconds if over_time else [float(k + 1) for k in range(len(self.gflops))]
        axes.step(xs, self.gflops, where="post")
        axes.set_xlabel("seconds" if over_time else "trials")
        axes.set_ylabel("best so far (GFLOPS)")
        axes.set_ylim(bottom=0)
        return axes

    def svg(self, over_time: bool = False) -> str:
        """The plot as an SVG picture, over trials or over time."""
        xs = self.seconds if over_time else [float(k + 1) for k in range(len(self.gflops))]
        right, top = max(xs, default=0.0) or 1.0, max(self.gflops, default=0.0) or 1.0
        points = " ".join(
            f"{40 + x / right * (_WIDTH - 50):.1f},{_HEIGHT - 20 - g / top * (_HEIGHT - 40):.1f}"
            for x, g in zip(xs, self.gflops, strict=True)
        )
        unit = "s" if over_time else "trials"
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}">'
            f'<polyline points="{points}" fill="none" stroke="#3b7dd8" stroke-width="2"/>'
            f'<text x="2" y="14" fill="#888">{top:.1f} GFLOPS</text>'
            f'<text x="{_WIDTH - 90}" y="{_HEIGHT - 4}" fill="#888">{right:.0f} {unit}</text></svg>'
        )

    def _repr_svg_(self) -> str:
        return self.svg()


def tuning_curve(database: Database, mod: IRModule | PrimFunc, target: Target | str) -> Curve:
    """The curve of a program and target, from the records of a database in the order of their commits."""
    wanted = Target(target) if isinstance(target, str) else target
    program = normalize_mod(mod)
    if not database.has_workload(program):
        return Curve([], [])
    workload = database.commit_workload(program)
    records = [r for r in database.get_all_tuning_records() if r.workload is workload and r.target == wanted]
    return Curve(*_best_so_far(records, float(estimate_tir_flops(program))))


def _best_so_far(records: Sequence[TuningRecord], flops: float) -> tuple[list[float], list[float]]:
    gflops: list[float] = []
    seconds: list[float] = []
    best = 0.0
    start = next((r.when for r in records if r.when is not None), 0.0)
    for r in records:
        if r.is_valid:
            best = max(best, flops / r.mean_secs / 1e9)
        gflops.append(best)
        seconds.append(max(0.0, (r.when if r.when is not None else start) - start))
    return gflops, seconds


def load_pyplot() -> Any:
    """matplotlib's `pyplot`, loaded when it is first needed. Raises ImportError with what to do."""
    try:
        import matplotlib.pyplot as plt  # noqa: PLC0415 - heavy, and not everyone has it
    except ImportError as e:
        raise ImportError(
            "plots need the package matplotlib (pip install 'tscript[plot]'); Curve.show prints one without, and "
            "Curve.svg gives a picture"
        ) from e
    return plt
