"""Another number of steps to unroll."""

from __future__ import annotations

from tscript.meta_schedule.mutator.mutator import Mutator
from tscript.meta_schedule.mutator.traced_samples import sampled_otherwise, samples_of_annotations
from tscript.schedule.rng import LinearCongruential
from tscript.schedule.trace import Trace

_KEYS = ("meta_schedule.unroll_explicit", "meta_schedule.unroll_implicit")


class MutateUnroll(Mutator):
    """Samples another of the candidates of an annotation that tells how far loops are unrolled."""

    def apply(self, trace: Trace, rand_state: int) -> Trace | None:
        """The trace with another number of steps; None where no such annotation was sampled."""
        rng = LinearCongruential(rand_state)
        found = samples_of_annotations(trace, _KEYS)
        return sampled_otherwise(trace, found[rng.below(len(found))], rng) if found else None
