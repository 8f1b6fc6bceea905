"""Another number of threads per block."""

from __future__ import annotations

from typing import Any

from tscript.meta_schedule.mutator.mutator import Mutator
from tscript.meta_schedule.mutator.traced_samples import before_postproc, sampled_otherwise
from tscript.schedule.instruction import Instruction
from tscript.schedule.rng import LinearCongruential
from tscript.schedule.trace import Trace


class MutateThreadBinding(Mutator):
    """Samples another extent for a loop bound to `threadIdx.x`.

    The loop is the inner of two that `split` makes with a sampled factor, as `AutoBind` and `CrossThreadReduction`
    write it.
    """

    def apply(self, trace: Trace, rand_state: int) -> Trace | None:
        """The trace with other threads; None where their number was not sampled."""
        rng = LinearCongruential(rand_state)
        found = _sampled_threads(trace)
        return sampled_otherwise(trace, found[rng.below(len(found))], rng) if found else None


def _sampled_threads(trace: Trace) -> list[Instruction]:
    """The samples of more than one candidate that decide how long a loop bound to `threadIdx.x` is."""
    sources: dict[Any, Instruction] = {}
    inner: dict[Any, Instruction] = {}
    found: dict[Instruction, None] = {}
    for inst in before_postproc(trace):
        if inst.kind.name == "SampleCategorical" and len(inst.attrs[0]) > 1:
            sources[inst.outputs[0]] = inst
        elif inst.kind.name == "Split" and len(inst.inputs) == 3:
            source = sources.get(inst.inputs[2]) if inst.inputs[1] is None else None
            if source is not None:
                inner[inst.outputs[1]] = source
        elif inst.kind.name == "Bind" and inst.attrs[0] == "threadIdx.x" and inst.inputs[0] in inner:
            found[inner[inst.inputs[0]]] = None
    return list(found)
