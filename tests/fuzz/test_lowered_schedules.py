"""Random schedules, lowered, read no memory that nothing wrote."""

from __future__ import annotations

import random

import pytest

from tscript import interp
from tscript.driver import lower
from tscript.testing.random_schedule import RandomSteps
from tscript.testing.watched import WatchedSchedule
from tscript.testing.workloads import small_workloads

WORKLOADS = small_workloads()


# The first one loaded a tile of maxima before the first of them was there.
@pytest.mark.parametrize("seed", [1222, *range(24)])
def test_lowered_code_reads_what_was_written(seed: int) -> None:
    workload = WORKLOADS[seed % len(WORKLOADS)]
    rng = random.Random(seed)
    sch = WatchedSchedule(workload.func, seed=seed + 1)
    RandomSteps(rng).run(sch, rng.randint(1, 8))
    func = sch.mod["main"]
    interp.run(func, *workload.arguments(seed), check_uninitialized=True, check_regions=False)
    interp.run(lower(func)["main"], *workload.arguments(seed), check_uninitialized=True)
