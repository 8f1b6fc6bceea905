"""Each workload is created, printed and read back, interpreted, built, and compared with NumPy."""

from __future__ import annotations

import pytest

import tscript
from tscript import interp
from tscript.ir.well_formed import verify_well_formed
from tscript.testing.differential import check_round_trip
from tscript.testing.workloads import Workload, chained_workloads, small_workloads

WORKLOADS = [*small_workloads(), *chained_workloads()]
IDS = [f"{k}_{w.name}" for k, w in enumerate(WORKLOADS)]


@pytest.mark.parametrize("workload", WORKLOADS, ids=IDS)
def test_workload_agrees_with_numpy_in_the_interpreter_and_as_native_code(workload: Workload) -> None:
    verify_well_formed(workload.func)
    check_round_trip(workload.func)
    arrays = workload.arguments(seed=1)
    interp.run(workload.func, *arrays, check_uninitialized=True)
    workload.check(arrays)
    arrays = workload.arguments(seed=2)
    tscript.build(workload.func, target="llvm")["main"](*arrays)
    workload.check(arrays)


@pytest.mark.parametrize("workload", WORKLOADS, ids=IDS)
def test_arguments_are_the_same_for_the_same_seed(workload: Workload) -> None:
    for a, b in zip(workload.arguments(3), workload.arguments(3), strict=True):
        assert a.tobytes() == b.tobytes()
