"""Random layouts of parameters and of blocks: what they compute, on arguments brought into the layout and back."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from tests.schedule.check import Packed, check_schedule
from tscript.ir.function import PrimFunc
from tscript.parser import from_source
from tscript.schedule import Schedule, ScheduleError
from tscript.schedule.trace_text import index_map_text
from tscript.testing.random_layouts import random_index_map

SOURCE = """
@T.prim_func
def main(X: T.Buffer(({n}, {m}), "float32"), Y: T.Buffer(({m}, {n}), "float32")):
    for i, j in T.grid({n}, {m}):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            Y[vj, vi] = X[vi, vj] * T.float32(2) + T.float32(1)
"""


def program(rng: random.Random) -> tuple[PrimFunc, tuple[int, int]]:
    n, m = rng.choice([1, 3, 4, 7, 8]), rng.choice([1, 2, 5, 6, 12])
    made = from_source(SOURCE.format(n=n, m=m))
    assert isinstance(made, PrimFunc)
    return made, (n, m)


@pytest.mark.parametrize("first", range(0, 120, 20))
def test_a_parameter_in_a_random_layout_means_the_same(first: int):
    accepted = 0
    for seed in range(first, first + 20):
        rng = random.Random(seed)
        func, (n, m) = program(rng)
        which = rng.choice([0, 1])
        layout = random_index_map(rng, (n, m) if which == 0 else (m, n), steps=3)
        places = eval(index_map_text(layout, {}))
        pad = rng.choice([0, 3, -1])

        def steps(s: Schedule, which: int = which, layout: object = layout, pad: int = pad) -> None:
            s.transform_layout("B", "XY"[which], layout, pad_value=pad)

        try:
            steps(Schedule(func))
        except ScheduleError as e:
            # A map that loses something, or a rest of a split that is fused and cut again.
            known = ("cannot be laid out so", "is not known as an expression")
            assert any(k in str(e) for k in known), f"seed {seed}: {e}"
            continue
        accepted += 1
        check_schedule(func, steps, packed={which: Packed(places, pad)}, native=seed % 4 == 0)
    assert accepted >= 10


def test_a_block_counted_in_a_random_way_computes_the_same():
    outcomes: Counter[str] = Counter()
    for seed in range(60):
        rng = random.Random(seed)
        func, extents = program(rng)
        layout = random_index_map(rng, extents, steps=3)

        def steps(s: Schedule, layout: object = layout) -> None:
            s.transform_block_layout("B", layout)

        try:
            steps(Schedule(func))
        except ScheduleError as e:
            assert "every point" in str(e) or "cannot be mapped so" in str(e), f"seed {seed}: {e}"
            outcomes["refused"] += 1
            continue
        outcomes["accepted"] += 1
        check_schedule(func, steps, native=seed % 8 == 0)
    assert outcomes["accepted"] >= 30 and outcomes["refused"] >= 3, outcomes
