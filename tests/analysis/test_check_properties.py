"""The checks held to the interpreter: silent about what runs clean, and not blind to what was broken on purpose."""

from __future__ import annotations

import random

import numpy as np
import pytest

import tscript
from tscript import interp
from tscript.analysis import check
from tscript.ir import construct as make
from tscript.ir import stmt as st
from tscript.ir.expr import IterVar, Var
from tscript.ir.functor import Rewriter, post_order_visit
from tscript.ir.occurrences import mentions
from tscript.support.errors import InterpError, TScriptError
from tscript.testing.random_program import random_arguments, random_program
from tscript.testing.random_schedule import RandomSteps
from tscript.testing.watched import WatchedSchedule
from tscript.testing.workloads import small_workloads

WORKLOADS = small_workloads()


def scheduled(seed: int):
    workload = WORKLOADS[seed % len(WORKLOADS)]
    rng = random.Random(seed)
    sch = WatchedSchedule(workload.func, seed=seed + 1, debug_mask=0)
    steps = RandomSteps(rng)
    steps.run(sch, rng.randint(1, 8))
    return workload, sch.mod["main"], bool(steps.accepted["cache_index"])


def first_function(program):
    return program if hasattr(program, "params") else next(iter(program.functions.values()))


def copies(arguments):
    return [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]


def runs_clean(func, arguments) -> bool:
    try:
        interp.run(func, *copies(arguments), check_uninitialized=True, check_regions=False)
    except InterpError:
        return False
    return True


@pytest.mark.parametrize("start", range(0, 80, 20))
def test_random_programs_give_no_finding(start):
    for seed in range(start, start + 20):
        func = random_program(seed)
        for program in (func, first_function(tscript.lower(func))):
            assert [str(f) for f in check(program)] == [], seed


@pytest.mark.parametrize("start", range(0, 60, 15))
def test_random_schedules_give_no_finding(start):
    for seed in range(start, start + 15):
        _, func, reads_subscripts = scheduled(seed)
        if reads_subscripts:
            # What a subscript read from memory is cannot be proven; neither is it ever proven wrong.
            assert not check(func).proven, seed
            continue
        assert [str(f) for f in check(func)] == [], seed
        assert [str(f) for f in check(first_function(tscript.lower(func))).possible] == [], seed


class Shift(Rewriter):
    """Moves subscript number `target` up or down by `by`."""

    memoize = False

    def __init__(self, target: int, by: int) -> None:
        super().__init__()
        self.left = target
        self.by = by

    def leave_BufferStore(self, node):
        self.left -= 1
        if self.left != -1 or not node.indices or node.indices[0].dtype.lanes > 1:
            return node
        return node.replace(indices=(make.add(node.indices[0], self.by), *node.indices[1:]))

    def leave_BufferLoad(self, node):
        self.left -= 1
        if self.left != -1 or not node.indices or node.indices[0].dtype.lanes > 1:
            return node
        return node.replace(indices=(make.add(node.indices[0], self.by), *node.indices[1:]))


def test_a_shifted_subscript_is_found_where_the_interpreter_stops():
    stopped = 0
    for seed in range(60):
        workload, func, _ = scheduled(seed) if seed % 2 else (None, random_program(seed), False)
        rng = random.Random(seed)
        broken = Shift(rng.randrange(6), rng.choice([-1, 1, 2])).rewrite(func)
        arguments = workload.arguments(seed) if workload else random_arguments(func, seed)
        try:
            interp.run(broken, *copies(arguments), check_regions=False)
        except InterpError as error:
            if "out of bounds" not in error.reason:
                continue
            stopped += 1
            assert check(broken, kinds=("out-of-bounds",)), f"{seed}: {error}"
        else:
            assert not check(broken, kinds=("out-of-bounds",)).proven, seed
    assert stopped > 15


class DropInit(Rewriter):
    """Takes the init from blocks."""

    def leave_Block(self, node):
        return node if node.init is None else node.replace(init=None)


class DropStore(Rewriter):
    """Takes store number `target` away."""

    def __init__(self, target: int) -> None:
        super().__init__()
        self.left = target

    def leave_BufferStore(self, node):
        self.left -= 1
        return st.Evaluate(make.convert(0)) if self.left == -1 else node


def test_a_dropped_init_or_store_is_found_where_the_interpreter_stops():
    stopped = 0
    for seed in range(90):
        workload, func, _ = scheduled(seed)
        broken = (DropInit() if seed % 3 == 0 else DropStore(random.Random(seed).randrange(4))).rewrite(func)
        if not runs_clean(broken, workload.arguments(seed)):
            stopped += 1
            assert check(broken), seed
        else:
            assert not [f for f in check(broken).proven if f.kind != "race"], seed
    assert stopped > 15


def test_a_reduction_made_parallel_is_a_race():
    found = 0
    for workload in WORKLOADS:
        reduced: dict[Var, None] = {}

        def collect(node, reduced=reduced):
            if isinstance(node, st.BlockRealize):
                for axis, value in zip(node.block.iter_vars, node.iter_values, strict=True):
                    if axis.iter_type == IterVar.CommReduce and isinstance(value, Var):
                        reduced[value] = None

        post_order_visit(workload.func.body, collect)

        class Parallel(Rewriter):
            def leave_For(self, node, reduced=reduced):
                return node.replace(kind=st.ForKind.PARALLEL) if mentions(node.loop_var, reduced) else node

        broken = Parallel().rewrite(workload.func)
        if broken is not workload.func:
            found += 1
            assert check(broken, kinds=("race",)).proven, workload.name
    assert found >= 8


def test_no_error_but_findings_comes_out_of_any_program():
    for seed in range(1000, 1030):
        func = random_program(seed)
        broken = DropStore(seed % 5).rewrite(Shift(seed % 7, 3).rewrite(func))
        try:
            check(broken)
        except TScriptError as error:  # pragma: no cover
            raise AssertionError(seed) from error
