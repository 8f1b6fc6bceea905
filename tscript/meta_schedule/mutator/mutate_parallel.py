"""Another number of loops that run in parallel."""

from __future__ import annotations

from typing import Any

from tscript.ir.function import IRModule
from tscript.meta_schedule.loop_kinds import Nest, extent_of, has_one_child, is_plain
from tscript.meta_schedule.mutator.mutator import Mutator
from tscript.meta_schedule.mutator.traced_samples import before_postproc
from tscript.meta_schedule.schedule_rule.parallel_vectorize_unroll import num_cores
from tscript.meta_schedule.tune_context import TuneContext
from tscript.schedule.errors import ScheduleError
from tscript.schedule.instruction import Instruction
from tscript.schedule.rng import LinearCongruential
from tscript.schedule.schedule import Schedule
from tscript.schedule.trace import Trace

_KEY = "meta_schedule.parallel"


class MutateParallel(Mutator):
    """Chooses another limit for iterations in parallel, one that other loops follow from.

    The limit is at most `max_jobs_per_core` times the cores of the target.
    """

    def __init__(self, max_jobs_per_core: int) -> None:
        if max_jobs_per_core < 1:
            raise ValueError(f"max_jobs_per_core is at least 1, not {max_jobs_per_core}")
        self.max_jobs_per_core = max_jobs_per_core
        self._most = 0
        self._mod: IRModule | None = None

    def _initialize_with_tune_context(self, context: TuneContext) -> None:
        self._most = num_cores(context) * self.max_jobs_per_core
        self._mod = context.mod

    def apply(self, trace: Trace, rand_state: int) -> Trace | None:
        """The trace with another limit; None where none is annotated, or all lead to the same loops.

        Raises ValueError before the mutator knows the program, which a context tells it.
        """
        if self._mod is None:
            raise ValueError("MutateParallel looks at the program: initialise it with a context that has one")
        noted = [i for i in before_postproc(trace) if i.kind.name == "Annotate" and i.attrs[0] == _KEY]
        if not noted:
            return None
        rng = LinearCongruential(rand_state)
        inst = noted[rng.below(len(noted))]
        now: Any = inst.inputs[1]
        sch = Schedule(self._mod, seed=1, error_render_level="none")
        try:
            trace.apply_to_schedule(sch, remove_postproc=True)
        except ScheduleError:
            return None
        plans = self._plans(_prefixes(sch))
        current = next((plan for plan, limits in plans.items() if int(now) in limits), None)
        others = [limits for plan, limits in plans.items() if plan != current]
        if not others:
            return None
        chosen = others[rng.below(len(others))]
        return _with_limit(trace, inst, chosen[-1])

    def _plans(self, prefixes: list[list[int]]) -> dict[tuple[int, ...], list[int]]:
        """How many loops of each block run in parallel, with the limits that lead there."""
        # Loops are taken up to the one that exceeds the limit, so the plan changes just where a product is reached.
        turns = sorted({p for products in prefixes for p in products if p <= self._most} | {self._most, 1})
        limits = sorted({*turns, *(t - 1 for t in turns if t > 1)})
        plans: dict[tuple[int, ...], list[int]] = {}
        for limit in limits:
            counts = tuple(sum(1 for p in products[:-1] if p <= limit) + 1 for products in prefixes if products)
            plans.setdefault(counts, []).append(limit)
        return plans


def _prefixes(sch: Schedule) -> list[list[int]]:
    """For each child of a root block, the products of the extents of its leading plain spatial loops."""
    found: list[list[int]] = []
    for var in sorted(sch.mod.functions, key=lambda v: v.name_hint):
        root = sch.state.root_block(var)
        if root is None or _KEY not in root.block.annotations:
            continue
        for ref in sch.state.child_blocks(root):
            nest = Nest.of(sch.state, ref)
            products: list[int] = []
            product = 1
            for loop, kind in zip(nest.loops, nest.kinds, strict=True):
                if kind != "S" or not is_plain(loop):
                    break
                product *= extent_of(loop) or 0
                products.append(product)
                if not has_one_child(loop):
                    break
            found.append(products)
    return found


def _with_limit(trace: Trace, inst: Instruction, limit: int) -> Trace:
    """The trace with another value of an annotation, without its postprocessing part."""
    insts = [
        Instruction(i.kind, [i.inputs[0], limit], i.attrs, i.outputs) if i is inst else i
        for i in before_postproc(trace)
    ]
    return Trace(insts, {i: trace.decisions[i] for i in insts if i in trace.decisions}, trace.start)
