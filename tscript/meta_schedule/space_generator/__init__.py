"""Which schedules exist for a program."""

from typing import Any

from tscript.meta_schedule.space_generator.post_order_apply import PostOrderApply
from tscript.meta_schedule.space_generator.schedule_fn import ScheduleFn
from tscript.meta_schedule.space_generator.schedule_union import ScheduleUnion, SpaceGeneratorUnion
from tscript.meta_schedule.space_generator.space_generator import PySpaceGenerator, SpaceGenerator
from tscript.meta_schedule.tune_context import register_maker

SpaceGenerator.register_kind("post-order-apply", PostOrderApply)
SpaceGenerator.register_kind("union", SpaceGeneratorUnion)


def make_space(space: Any) -> Any:
    """A generator from a word, a function of a schedule, a word of rules ("llvm", "cuda", ...), or itself."""
    if callable(space) and not isinstance(space, SpaceGenerator):
        return ScheduleFn(space)
    if isinstance(space, str) and space not in SpaceGenerator.kinds():
        return PostOrderApply(sch_rules=space, postprocs=space, mutator_probs=space)
    return SpaceGenerator.create(space)


register_maker("space_generator", make_space)

__all__ = [
    "PostOrderApply",
    "PySpaceGenerator",
    "ScheduleFn",
    "ScheduleUnion",
    "SpaceGenerator",
    "SpaceGeneratorUnion",
    "make_space",
]
