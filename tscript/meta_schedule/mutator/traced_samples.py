"""Which samples of a trace serve what."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from tscript.schedule.instruction import Instruction
from tscript.schedule.rng import LinearCongruential
from tscript.schedule.trace import Trace


def samples_of_annotations(trace: Trace, keys: Container[str]) -> list[Instruction]:
    """The instructions that sample, from more than one candidate, a value that is annotated under one of `keys`."""
    sources: dict[Any, Instruction] = {}
    found: dict[Instruction, None] = {}
    for inst in before_postproc(trace):
        if inst.kind.name == "SampleCategorical" and len(inst.attrs[0]) > 1:
            sources[inst.outputs[0]] = inst
        elif inst.kind.name == "Annotate" and inst.attrs[0] in keys:
            source = sources.get(inst.inputs[1]) if len(inst.inputs) > 1 else None
            if source is not None:
                found[source] = None
    return list(found)


def before_postproc(trace: Trace) -> list[Instruction]:
    """The instructions that a search decides on: those up to the postprocessors'."""
    insts: list[Instruction] = []
    for inst in trace.insts:
        if inst.kind.is_postproc:
            break
        insts.append(inst)
    return insts


def sampled_otherwise(trace: Trace, inst: Instruction, rng: LinearCongruential) -> Trace | None:
    """The trace with another of the candidates of a categorical sample, by their weights; None where all others have
    the weight 0.
    """
    probs = [float(p) for p in inst.attrs[1]]
    now = trace.get_decision(inst)
    if now is not None:
        probs[int(now)] = 0.0
    if not sum(probs) > 0:
        return None
    return trace.with_decision(inst, rng.choice(probs), remove_postproc=True)
