"""Costs of random schedules against counts from running their loops, one iteration after the other."""

from __future__ import annotations

import operator
import random
from collections import Counter
from typing import Any

import pytest

from tscript.analysis.cost import estimate_cost
from tscript.analysis.flops import operations
from tscript.analysis.work import Work, size_of
from tscript.ir import expr as ex
from tscript.ir import stmt as st
from tscript.ir.function import PrimFunc
from tscript.ir.functor import children
from tscript.ir.occurrences import any_below
from tscript.schedule import ScheduleError
from tscript.testing.random_schedule import RandomSteps
from tscript.testing.watched import WatchedSchedule
from tscript.testing.workloads import small_workloads

_OPERATORS: dict[type, Any] = {
    ex.Add: operator.add, ex.Sub: operator.sub, ex.Mul: operator.mul, ex.FloorDiv: operator.floordiv,
    ex.FloorMod: operator.mod, ex.Min: min, ex.Max: max, ex.EQ: operator.eq, ex.NE: operator.ne, ex.LT: operator.lt,
    ex.LE: operator.le, ex.GT: operator.gt, ex.GE: operator.ge, ex.And: lambda a, b: a and b,
    ex.Or: lambda a, b: a or b, ex.Not: operator.not_, ex.Cast: int, ex.Select: lambda c, a, b: a if c else b,
}  # fmt: skip


class Counting:
    """Runs the loops of a function and counts."""

    def __init__(self, func: PrimFunc) -> None:
        self.flops = self.iterations = 0
        self.loaded: Counter[Any] = Counter()
        self.stored: Counter[Any] = Counter()
        self.elements: dict[Any, set[tuple[int, ...]]] = {}
        self.run(func.body, {})

    def value(self, e: Any, env: dict[Any, int]) -> int:
        """Integer arithmetic. KeyError for anything else."""
        if isinstance(e, ex.IntImm):
            return e.value
        if isinstance(e, ex.Var):
            return env[e]
        return _OPERATORS[type(e)](*(self.value(c, env) for c in children(e)))

    def run(self, s: Any, env: dict[Any, int]) -> None:
        """Carry out a statement."""
        if isinstance(s, st.SeqStmt):
            for part in s.seq:
                self.run(part, env)
        elif isinstance(s, st.For):
            low = self.value(s.min, env)
            for i in range(low, low + self.value(s.extent, env)):
                self.iterations += s.kind in (st.ForKind.SERIAL, st.ForKind.PARALLEL)
                self.run(s.body, env | {s.loop_var: i})
        elif isinstance(s, st.BlockRealize):
            self.block(s, env)
        elif isinstance(s, st.IfThenElse):
            taken = s.then_case if self.value(s.condition, env) else s.else_case
            self.expression(s.condition, env)
            if taken is not None:
                self.run(taken, env)
        elif isinstance(s, st.LetStmt):
            self.expression(s.value, env)
            self.run(s.body, env | {s.var: self.value(s.value, env)})
        elif isinstance(s, st.BufferStore):
            self.expression(s.value, env)
            self.stored[s.buffer] += size_of(s.value.dtype)
            self.touch(s.buffer, s.indices, env)
        elif isinstance(s, st.Evaluate):
            self.expression(s.value, env)
        else:
            raise NotImplementedError(type(s))

    def block(self, s: st.BlockRealize, env: dict[Any, int]) -> None:
        """An instance of a block."""
        block = s.block
        if block.match_buffers:
            raise NotImplementedError
        inner = env | {a.var: self.value(v, env) for a, v in zip(block.iter_vars, s.iter_values, strict=True)}
        if not self.value(s.predicate, env):
            return
        reduce = [a for a in block.iter_vars if a.iter_type == ex.IterVar.CommReduce]
        if block.init is not None and all(inner[a.var] == self.value(a.dom.min, env) for a in reduce if a.dom):
            self.run(block.init, inner)
        self.run(block.body, inner)

    def expression(self, e: Any, env: dict[Any, int]) -> None:
        """What evaluating takes; both branches of a choice are loaded from."""
        self.flops += operations(e).flops
        found: dict[Any, None] = {}
        any_below(e, lambda n: isinstance(n, ex.BufferLoad) and found.setdefault(n) is not None)
        for load in found:
            self.loaded[load.buffer] += size_of(load.dtype)
            self.touch(load.buffer, load.indices, env)

    def touch(self, buffer: Any, indices: Any, env: dict[Any, int]) -> None:
        """An element that is accessed; one that is not there is in a branch that is not taken."""
        element = tuple(self.value(i, env) for i in indices)
        if all(0 <= i < n.value for i, n in zip(element, buffer.shape, strict=True)):
            self.elements.setdefault(buffer, set()).add(element)


@pytest.mark.parametrize("seed", range(60))
def test_counts_are_those_of_running_the_loops(seed: int) -> None:
    workloads = small_workloads()
    workload = workloads[seed % len(workloads)]
    steps = RandomSteps(random.Random(seed))
    sch = WatchedSchedule(workload.func, seed=seed + 1)
    steps.run(sch, 1 + seed % 9)
    func = sch.mod["main"]
    cost = estimate_cost(func)
    try:
        counted = Counting(func)
    except (KeyError, NotImplementedError):
        pytest.skip("more than loops over integers")
    if not cost.exact:
        assert cost.flops >= counted.flops
        return
    assert (cost.flops, cost.iterations) == (counted.flops, counted.iterations), func
    given = [*func.buffer_map.values()]
    # By buffer: names are not unique.
    rows = {id(b): row for b, row in zip(counted_order(func), cost.buffers, strict=True)}
    for buffer, elements in counted.elements.items():
        row = rows[id(buffer)]
        assert (row.loaded, row.stored) == (counted.loaded[buffer], counted.stored[buffer]), (buffer.name, func)
        if buffer in given:
            # A box around all that is touched, so never less.
            assert row.touched >= len(elements) * size_of(buffer.dtype), (buffer.name, func)


def counted_order(func: PrimFunc) -> list[Any]:
    """The buffers in the order of the estimate: of first access."""
    work = Work({})
    work.stmt(func.body)
    return list(dict.fromkeys(a.buffer for a in work.accesses))


def test_running_is_not_skipped_for_most() -> None:
    ran = 0
    for seed in range(60):
        workloads = small_workloads()
        sch = WatchedSchedule(workloads[seed % len(workloads)].func, seed=seed + 1)
        try:
            RandomSteps(random.Random(seed)).run(sch, 1 + seed % 9)
            ran += bool(Counting(sch.mod["main"]).iterations)
        except (KeyError, NotImplementedError, ScheduleError):
            continue
    assert ran > 30
