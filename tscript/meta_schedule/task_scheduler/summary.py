"""The table of all tasks, as it is logged after each batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tscript.meta_schedule.task_scheduler.task_record import TaskRecord

_TITLES = (
    "ID", "Name", "FLOP", "Weight", "Speed (GFLOPS)", "Latency (us)", "Weighted Latency (us)", "Trials", "Done",
)  # fmt: skip


def rows(tasks: Sequence[TaskRecord]) -> list[tuple[str, ...]]:
    """One row of cells for each task."""
    found: list[tuple[str, ...]] = []
    for i, t in enumerate(tasks):
        speed = latency = weighted = "N/A"
        if t.has_result:
            speed = f"{t.gflops(t.best_ms):.4f}"
            latency = f"{t.best_ms * 1e3:.4f}"
            weighted = f"{t.best_ms * 1e3 * t.task_weight:.4f}"
        done = "Y" if t.is_terminated else ""
        name = t.context.task_name
        work = (str(int(t.flop)), str(int(t.task_weight)))
        found.append((str(i), name, *work, speed, latency, weighted, str(len(t.latency_ms)), done))
    return found


def summary(tasks: Sequence[TaskRecord]) -> str:
    """The table with totals below, how many trials failed for what reason, and why tasks without a result ended."""
    table = [_TITLES, *rows(tasks)]
    widths = [max(len(r[k]) for r in table) for k in range(len(_TITLES))]
    lines = ["|".join(f" {cell.rjust(w)} " for cell, w in zip(r, widths, strict=True)) for r in table]
    rule = "-" * len(lines[0])
    trials = sum(len(t.latency_ms) for t in tasks)
    latency = sum(t.best_ms * 1e3 * t.task_weight for t in tasks if t.has_result)
    text = [lines[0], rule, *lines[1:], rule, f"Total trials: {trials}", f"Total latency (us): {latency:.6g}"]
    failures = sum((t.failures for t in tasks), Counter[str]())
    if failures:
        text.append("Failed trials:")
        text.extend(f"  {n} x {reason}" for reason, n in failures.most_common())
    for i, t in enumerate(tasks):
        if t.is_terminated and not t.has_result and (t.ending or t.rejected):
            text.append(f"Task #{i} has no result: {t.ending or 'no candidate ran'}")
            if not t.ending:
                text.extend(f"  {n} x {reason}" for reason, n in t.rejected.most_common(10))
    return "\n".join([*text, ""])
