"""What a schedule of the library leaves open: numbers and forms that the library has a good guess for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from tscript.ir.expr import PrimExpr
from tscript.schedule.errors import ScheduleError
from tscript.schedule.schedule import Schedule

_T = TypeVar("_T")


class Choices:
    """Takes for every choice what the library would; other kinds leave it open."""

    def number(self, sch: Schedule, candidates: Iterable[int], own: int) -> int | PrimExpr:
        """A number that loops are split by, and nothing but their extents depends on."""
        del sch, candidates
        return own

    def form(self, candidates: Iterable[_T], own: _T) -> _T:
        """Something that the steps which follow depend on."""
        del candidates
        return own


OWN = Choices()
"""The library's choices."""


class _Offered(Choices):
    """Numbers are sampled, with the library's as the decision; the form of one number takes another of its candidates.

    `turn` is the number of the form and of the candidate, -1 for none. `forms` counts the others of each form met.
    """

    def __init__(self, turn: tuple[int, int] = (-1, 0)) -> None:
        self.turn = turn
        self.forms: list[int] = []

    def number(self, sch: Schedule, candidates: Iterable[int], own: int) -> int | PrimExpr:
        choices = sorted({*candidates, own})
        if len(choices) == 1:
            return own
        return sch.sample_categorical(choices, [1.0 / len(choices)] * len(choices), decision=choices.index(own))

    def form(self, candidates: Iterable[_T], own: _T) -> _T:
        others = [c for c in candidates if c != own]
        self.forms.append(len(others))
        place, which = self.turn
        return others[which] if len(self.forms) - 1 == place else own


def designs(sch: Schedule, apply: Callable[[Schedule, Choices], None]) -> list[Schedule]:
    """The schedules that `apply(sch, choices)` makes of copies of a schedule, the library's own first.

    Numbers are sampled in all of them. Each further one differs from the library's in one form, so that there are as
    many as candidates, and not as combinations. Those whose steps are refused are left out.

    >>> import tscript
    >>> from tscript.testing.workloads import add
    >>> def halves(sch, choices):
    ...     (i,) = sch.get_loops("C")
    ...     outer, inner = sch.split(i, [None, choices.number(sch, (2, 4), 4)])
    ...     if choices.form((True, False), True):
    ...         sch.unroll(inner)
    >>> found = designs(tscript.tir.Schedule(add(8).func), halves)
    >>> [[kind.split("(")[0] for kind in str(s.trace).split("sch.")[-1:]] for s in found]
    [['unroll'], ['split']]
    """
    made: list[Schedule] = []
    first = _Offered()
    _add(made, sch, apply, first)
    for place, count in enumerate(first.forms):
        for which in range(count):
            _add(made, sch, apply, _Offered((place, which)))
    return made


def _add(made: list[Schedule], sch: Schedule, apply: Callable[[Schedule, Choices], None], choices: Choices) -> None:
    new = sch.copy()
    try:
        apply(new, choices)
    except ScheduleError:
        return
    made.append(new)


def powers(least: int, most: int) -> Sequence[int]:
    """The powers of two from `least` to `most`.

    >>> powers(2, 20)
    [2, 4, 8, 16]
    """
    return [1 << n for n in range(most.bit_length()) if least <= 1 << n <= most]


__all__ = ["OWN", "Choices", "designs", "powers"]
