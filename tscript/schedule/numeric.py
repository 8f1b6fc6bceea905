"""Whether steps leave what the program computes as it was: tried on random arguments, in the interpreter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from tscript.equivalence import Report, Trial
from tscript.ir.buffer import Buffer
from tscript.ir.expr import GlobalVar
from tscript.ir.function import IRModule, PrimFunc
from tscript.support.errors import RaceWarning, UnknownMeaning
from tscript.support.warning import warn_user

Functions = Mapping[GlobalVar, Any]
_Key = tuple[str, tuple[Buffer, ...]]


@dataclass(eq=False)
class Unverified:
    """The program from when checks of meaning were turned off, and whether each step is compared with it since.

    `context` is "open" where `with sch.unchecked(...)` turned them off and is to turn them on again; once it has ended,
    nothing does.
    """

    functions: dict[GlobalVar, Any]
    every_step: bool
    context: Literal["", "open", "ended"] = ""


@dataclass
class NumericCheck:
    """Compares programs of a schedule. What the first one leaves in its arguments is kept, so that each takes one run.

    It is used again for programs that were found to compute the same. Others are run: steps in between may have been
    taken back, or not been compared. With `always_with_first`, all are compared with the first one.

    Where a step changes the layout or the type of a parameter, arguments mean something else: what follows is compared
    with the program that the step gave, and `not_compared` tells why the step itself was not. Of iterations that run at
    once and could not be shown to keep apart, the user is warned.
    """

    seed: int = 0
    sizes: Mapping[str, int] = field(default_factory=dict[str, int])
    special_values: bool = False
    whole: bool = False
    enabled: bool = True
    always_with_first: bool = False
    not_compared: str = ""
    trials: dict[_Key, Trial] = field(default_factory=dict[_Key, Trial])
    same: dict[PrimFunc, Trial] = field(default_factory=dict[PrimFunc, Trial])
    warned: dict[str, None] = field(default_factory=dict[str, None])

    def copy(self) -> NumericCheck:
        """A check of the same programs for another schedule."""
        return replace(self, trials={**self.trials}, same={**self.same}, warned={**self.warned})

    def compare(self, before: Functions, now: IRModule) -> Report | None:
        """How functions that a step changed differ in what they compute; None where nothing does.

        Raises InterpError where the program from before fails on all that is drawn.
        """
        self.not_compared = ""
        if not self.enabled:
            return None
        for var, old in before.items():
            new = now.functions.get(var)
            if new is old or not isinstance(old, PrimFunc) or new is None:
                continue
            report = self._compare_function(var.name_hint, old, new, now.replace(functions={**before}), now)
            if report is not None:
                return report
        return None

    def _compare_function(
        self, name: str, old: PrimFunc, new: PrimFunc, old_mod: IRModule, new_mod: IRModule
    ) -> Report | None:
        key = _key(name, old)
        if _key(name, new) != key:
            self.not_compared = "it changes what the arguments are"
            return None
        report = Report(seed=self.seed, special_values=self.special_values)
        try:
            trial = self.trials.get(key)
            if trial is None or not (self.always_with_first or self.same.get(old) is trial):
                made = Trial(old, name, old_mod, self.seed, self.sizes, self.special_values, self.whole)
                trial = self.trials[key] = self.same[old] = made
            trial.compare(new, new_mod, report)
        except UnknownMeaning as error:
            self.not_compared = str(error).splitlines()[0]
            return None
        if report.equal:
            self.same[new] = trial
            self._warn(report)
        return None if report.equal else report

    def _warn(self, report: Report) -> None:
        for text in report.possible_races:
            if text not in self.warned:
                self.warned[text] = None
                warn_user(f"{text}. Nothing else looks for this: be sure that it does not happen", RaceWarning)


def _key(name: str, func: PrimFunc) -> _Key:
    """A function and what its arguments mean. A layout may change while the shape does not: the buffers tell."""
    return name, tuple(func.buffer_map[p] for p in func.params if p in func.buffer_map)


@dataclass
class Verification:
    """What `sch.verify()` found. It is true where no step changed the result.

    `step` is the number in the trace of the first step that did, `instruction` its text, `report` the difference.
    `not_compared` tells of steps that could not be tried: number, text, and why.
    """

    steps: int = 0
    step: int | None = None
    instruction: str = ""
    report: Report | None = None
    not_compared: list[tuple[int, str, str]] = field(default_factory=list[tuple[int, str, str]])

    @property
    def equal(self) -> bool:
        """Whether no step changed the result."""
        return self.report is None

    def __bool__(self) -> bool:
        return self.equal

    def __str__(self) -> str:
        if self.report is None:
            count = f"{self.steps} step{'s' * (self.steps != 1)}"
            text = f"no step of {count} changed the result"
        else:
            text = f"step {self.step} changed the result: {self.instruction}\n  {self.report.difference}"
        return "".join([text, *(f"\n  not compared: step {k}, {line}: {why}" for k, line, why in self.not_compared)])

    def show(self) -> None:
        """Print what was found."""
        print(self)

    def require(self) -> None:
        """Raise AssertionError, naming the step and the difference, if one changed the result."""
        if self.report is not None:
            raise AssertionError(str(self))


__all__ = ["NumericCheck", "Unverified", "Verification"]
