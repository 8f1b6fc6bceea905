"""Programs that count in int64 stay so: no step brings in a loop, an axis or a size of another type."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from tests.schedule.check import check_schedule
from tscript.ir.buffer import Buffer
from tscript.ir.expr import PrimExpr
from tscript.ir.functor import post_order_visit
from tscript.ir.stmt import Block, For
from tscript.schedule import Schedule
from tscript.testing.random_schedule import RandomSteps
from tscript.testing.watched import WatchedSchedule
from tscript.testing.workloads import Workload, wide_workloads

WIDE = wide_workloads()
MATMUL, CONVOLUTION = WIDE[0], WIDE[12]


def narrow_parts(sch: Schedule) -> list[str]:
    """What does not count in int64."""
    found: list[str] = []

    def sizes(buffer: Buffer) -> list[PrimExpr]:
        return [*buffer.shape, *buffer.strides, buffer.elem_offset]

    def look(node: object) -> None:
        counted: dict[str, list[PrimExpr]] = {}
        if isinstance(node, For):
            counted[node.loop_var.name] = [node.loop_var, node.min, node.extent]
        elif isinstance(node, Block):
            counted |= {a.var.name: [a.var, a.dom.min, a.dom.extent] for a in node.iter_vars if a.dom is not None}
            counted |= {b.name: sizes(b) for b in node.alloc_buffers}
        found.extend(name for name, exprs in counted.items() if any(str(e.dtype) != "int64" for e in exprs))

    post_order_visit(sch.mod["main"].body, look)
    return found


@pytest.mark.parametrize("workload", WIDE, ids=lambda w: w.name)
def test_random_steps_bring_in_nothing_narrower(workload: Workload) -> None:
    accepted: Counter[str] = Counter()
    for seed in range(12):
        rng = random.Random(seed)
        sch = WatchedSchedule(workload.func, seed=seed + 1)
        steps = RandomSteps(rng)
        steps.run(sch, 6)
        assert narrow_parts(sch) == [], (seed, str(sch.trace))
        accepted += steps.accepted
    assert len(accepted) >= 10


def test_a_loop_of_one_iteration_counts_as_its_neighbours_do() -> None:
    def steps(s: Schedule) -> None:
        s.add_unit_loop(s.get_loops("C")[2])
        s.add_unit_loop("C")
        s.rfactor(s.get_loops("C")[2], 0)
        s.cache_read("C", 0, "local")

    assert narrow_parts(check_schedule(MATMUL.func, steps)) == []


def test_factors_that_are_small_numbers_make_wide_loops() -> None:
    def steps(s: Schedule) -> None:
        i, j, k = s.get_loops("C")
        s.split(i, s.sample_perfect_tile(i, 2))
        s.split(j, [None, 5])
        s.rfactor(s.split(k, [3, None])[1], 2)
        s.fuse(*s.get_loops("C")[:2])

    assert narrow_parts(check_schedule(MATMUL.func, steps)) == []


def test_a_chain_is_tiled_and_moved() -> None:
    def steps(s: Schedule) -> None:
        s.reindex("conv", ("read", 1))
        loops = s.get_loops("conv")
        s.split(loops[1], [None, 4])
        s.compute_at("pad", s.get_loops("conv")[2])
        s.transform_layout("pad", ("write", 0), lambda n, h, w, c: [n, c, h, w // 2, w % 2])
        s.decompose_reduction("conv", s.get_loops("conv")[-3])

    assert narrow_parts(check_schedule(CONVOLUTION.func, steps)) == []


def test_padding_is_filled_and_lanes_count_wide() -> None:
    def steps(s: Schedule) -> None:
        s.decompose_padding("pad", s.get_loops("pad")[0])
        s.vectorize(s.get_loops("pad")[-1])
        s.transform_block_layout("conv", lambda n, h, w, f, p, q, r: [n, h, w, f, p * 3 + q, r])

    assert narrow_parts(check_schedule(CONVOLUTION.func, steps)) == []
