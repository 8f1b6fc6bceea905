"""A space made of spaces."""

from __future__ import annotations

from collections.abc import Sequence

from tscript.ir.function import IRModule
from tscript.meta_schedule.space_generator.defaults import MutatorProbs, Postprocs, Rules, SpaceOfParts
from tscript.meta_schedule.space_generator.space_generator import SpaceGenerator
from tscript.meta_schedule.tune_context import TuneContext
from tscript.schedule.schedule import Schedule


class SpaceGeneratorUnion(SpaceOfParts):
    """All schedules of several generators, in order. The postprocessors and mutators are those of the union."""

    def __init__(
        self,
        space_generators: Sequence[SpaceGenerator],
        sch_rules: Rules = "from-target",
        postprocs: Postprocs = "from-target",
        mutator_probs: MutatorProbs = "from-target",
    ) -> None:
        super().__init__(sch_rules, postprocs, mutator_probs)
        self.space_generators = list(space_generators)
        if not self.space_generators:
            raise ValueError("a union of spaces needs at least one")

    def _initialize_with_tune_context(self, context: TuneContext) -> None:
        super()._initialize_with_tune_context(context)
        for space in self.space_generators:
            space.initialize_with_tune_context(context)

    def generate_design_space(self, mod: IRModule) -> list[Schedule]:
        """The schedules of each generator in turn."""
        return [sch for space in self.space_generators for sch in space.generate_design_space(mod)]

    def clone(self) -> SpaceGeneratorUnion:
        """An independent union of copies of the generators."""
        return SpaceGeneratorUnion([s.clone() for s in self.space_generators], **self.settings())


ScheduleUnion = SpaceGeneratorUnion
