"""Another place for an intermediate result."""

from __future__ import annotations

from typing import Any

from tscript.ir.function import IRModule
from tscript.meta_schedule.mutator.mutator import Mutator
from tscript.meta_schedule.tune_context import TuneContext
from tscript.schedule.errors import ScheduleError
from tscript.schedule.instruction import Instruction
from tscript.schedule.primitives.sample_compute_location import compute_locations
from tscript.schedule.rng import LinearCongruential
from tscript.schedule.schedule import Schedule
from tscript.schedule.trace import Trace


class MutateComputeLocation(Mutator):
    """Chooses another of the places where a block can be computed."""

    def __init__(self) -> None:
        self._mod: IRModule | None = None

    def _initialize_with_tune_context(self, context: TuneContext) -> None:
        self._mod = context.mod

    def apply(self, trace: Trace, rand_state: int) -> Trace | None:
        """The trace with a block at another place; None where no block has a choice.

        Raises ValueError before the mutator knows the program, which a context tells it.
        """
        if self._mod is None:
            raise ValueError("MutateComputeLocation looks at the program: initialise it with a context that has one")
        if not any(inst.kind.name == "SampleComputeLocation" for inst in trace.insts):
            return None
        rng = LinearCongruential(rand_state)
        found = self._choices(trace, self._mod)
        if not found:
            return None
        inst, places = found[rng.below(len(found))]
        return trace.with_decision(inst, places[rng.below(len(places))], remove_postproc=True)

    def _choices(self, trace: Trace, mod: IRModule) -> list[tuple[Instruction, list[int]]]:
        """Each sample of a place, with the other places that were possible when it was taken."""
        sch = Schedule(mod, seed=1, error_render_level="none")
        found: list[tuple[Instruction, list[int]]] = []

        def look(inst: Instruction, inputs: list[Any], attrs: list[Any], decision: Any) -> Any:
            del attrs
            if inst.kind.name == "SampleComputeLocation":
                others = [k for k in compute_locations(sch, sch.get_sref(inputs[0])) if k != decision]
                if others:
                    found.append((inst, others))
            return decision

        try:
            trace.apply_to_schedule(sch, remove_postproc=True, decision_provider=look)
        except ScheduleError:
            pass  # what was found before the step that fails still holds
        return found
