"""What a space generator has in common with every other: its rules, postprocessors and mutators."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tscript.meta_schedule.mutator.mutator import Mutator
from tscript.meta_schedule.postproc.postproc import Postproc
from tscript.meta_schedule.schedule_rule.schedule_rule import ScheduleRule
from tscript.meta_schedule.space_generator.space_generator import SpaceGenerator
from tscript.meta_schedule.target_kind import default_kind
from tscript.meta_schedule.tune_context import TuneContext
from tscript.support.wording import kind_of

Rules = Iterable[ScheduleRule] | str | None
Postprocs = Iterable[Postproc] | str | None
MutatorProbs = Mapping[Mutator, float] | str | None


class SpaceOfParts(SpaceGenerator):
    """A generator whose parts are given, or taken from the target when it learns of it."""

    def __init__(
        self,
        sch_rules: Rules = "from-target",
        postprocs: Postprocs = "from-target",
        mutator_probs: MutatorProbs = "from-target",
    ) -> None:
        self._given = (sch_rules, postprocs, mutator_probs)
        for given, role in zip(self._given, (ScheduleRule, Postproc, Mutator), strict=True):
            _require_parts(given, role)
        self.sch_rules = []
        self.postprocs = []
        self.mutator_probs = {}

    def _initialize_with_tune_context(self, context: TuneContext) -> None:
        rules, postprocs, mutators = self._given
        self.sch_rules = [r.clone() for r in _chosen(rules, ScheduleRule, context)]
        self.postprocs = [p.clone() for p in _chosen(postprocs, Postproc, context)]
        self.mutator_probs = {m.clone(): w for m, w in _chosen(mutators, Mutator, context).items()}
        for part in (*self.sch_rules, *self.postprocs, *self.mutator_probs):
            part.initialize_with_tune_context(context)

    def settings(self) -> dict[str, Any]:
        """The arguments that make an equal generator."""
        return dict(zip(("sch_rules", "postprocs", "mutator_probs"), self._given, strict=True))


def _require_parts(given: Any, role: type[Any]) -> None:
    if given is None or isinstance(given, str):
        return
    if role is Mutator and not isinstance(given, Mapping):
        raise TypeError(f"mutator_probs is a dict of mutators to weights, not {kind_of(given)}")
    parts: list[Any] = [*given]
    for part in parts:
        if not isinstance(part, role):
            raise TypeError(f"{part!r} is no {role.role}: derive its class from meta_schedule's {role.__name__}")
    if isinstance(given, Mapping):
        for weight in given.values():  # pyright: ignore[reportUnknownVariableType]
            if not (isinstance(weight, (int, float)) and weight >= 0):
                raise ValueError(f"the weight of a mutator is a number of at least 0, not {weight!r}")


def _chosen(given: Any, role: type[Any], context: TuneContext) -> Any:
    if given is None or given == "from-target":
        if context.target is None:
            raise ValueError(
                f"the context has no target, which decides the {role.role}s; give the context a `target`, or the space "
                "lists of its own"
            )
        given = default_kind(context.target)
    return role.create(given) if isinstance(given, str) else given
