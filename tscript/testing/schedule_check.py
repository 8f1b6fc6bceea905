"""A random schedule of a workload: it computes the same, and its trace does it again."""

from __future__ import annotations

import json
import random

from tscript import interp
from tscript.driver import build
from tscript.equivalence import Tolerance, compare_arrays
from tscript.ir.function import PrimFunc
from tscript.ir.structural import assert_structural_equal
from tscript.ir.well_formed import verify_well_formed
from tscript.schedule import Schedule, Trace
from tscript.testing.differential import Array, check_round_trip
from tscript.testing.random_schedule import RandomSteps
from tscript.testing.watched import WatchedSchedule
from tscript.testing.workloads import Workload


def check_random_schedule(
    workload: Workload, seed: int, *, most_steps: int = 8, native: bool = True, target: str = "llvm"
) -> RandomSteps:
    """Schedule `workload` at random, and hold the result to the unscheduled program; the counts of steps.

    The program is verified after every step, printed and read back, interpreted, and (with `native`) built for
    `target`, a CPU; the trace is replayed from its objects and from JSON. Raises AssertionError or what went wrong.
    """
    rng = random.Random(seed)
    steps = RandomSteps(rng)
    sch = WatchedSchedule(workload.func, seed=seed + 1, debug_mask="all")
    steps.run(sch, rng.randint(1, most_steps))
    verify_well_formed(sch.mod)
    func = sch.mod["main"]
    check_round_trip(func)
    expected, got = workload.arguments(seed), workload.arguments(seed)
    interp.run(workload.func, *expected)
    # What was hidden is still accessed.
    interp.run(func, *got, check_regions=not steps.accepted["unsafe_hide_buffer_access"])
    _compare(workload, got, expected, "the interpreter")
    if native:
        again = workload.arguments(seed)
        build(func, target=target)(*again)
        _compare(workload, again, expected, "native code")
    assert sch.trace is not None
    replayed, from_json = Schedule(workload.func, seed=1), Schedule(workload.func, seed=1)
    sch.trace.apply_to_schedule(replayed, remove_postproc=False)
    Trace.apply_json_to_schedule(json.loads(json.dumps(sch.trace.as_json())), from_json)
    for other in (replayed, from_json):
        assert_structural_equal(_main(other), func)
        assert str(other.trace) == str(sch.trace)
    return steps


def _main(sch: Schedule) -> PrimFunc:
    return sch.mod["main"]


def _compare(workload: Workload, got: list[Array], expected: list[Array], what: str) -> None:
    for k, (g, e) in enumerate(zip(got, expected, strict=True)):
        # Sums in another order round differently; inputs must not change at all.
        inputs = k < len(got) - workload.outputs
        allowed = None if inputs else Tolerance(relative=workload.rtol, of_largest=workload.rtol)
        compare_arrays(g, e, f"{what}, parameter {k} of {workload.name},", tolerance=allowed)
