"""Random schedules of real workloads compute what the unscheduled program computes.

`TSCRIPT_FUZZ_SCHEDULES=first:last` runs other seeds than the ones of every test run,
`TSCRIPT_FUZZ_TARGET="llvm -mcpu=haswell"` builds for another CPU than this one.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest

from tscript.testing.schedule_check import check_random_schedule
from tscript.testing.workloads import chained_workloads, small_workloads, wide_workloads

_FIRST, _LAST = (int(s) for s in os.environ.get("TSCRIPT_FUZZ_SCHEDULES", "0:300").split(":"))
_TARGET = os.environ.get("TSCRIPT_FUZZ_TARGET", "llvm")
BATCH = 50
BATCHES = [range(s, min(s + BATCH, _LAST)) for s in range(_FIRST, _LAST, BATCH)]
WORKLOADS = [*small_workloads(), *wide_workloads(), *chained_workloads()]


@pytest.mark.parametrize("seeds", BATCHES, ids=[f"{b.start}-{b.stop - 1}" for b in BATCHES])
def test_a_random_schedule_computes_the_same_and_replays(seeds: range) -> None:
    accepted: Counter[str] = Counter()
    for seed in seeds:
        workload = WORKLOADS[seed % len(WORKLOADS)]
        try:
            accepted += check_random_schedule(workload, seed, native=seed % 3 == 0, target=_TARGET).accepted
        except Exception as error:
            raise AssertionError(f"seed {seed}, {workload.name}: {error}") from error
    # The generator must not drift into drawing only what is refused.
    assert len(accepted) >= 12, accepted
