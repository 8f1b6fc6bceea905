"""What is built and measured."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tscript.meta_schedule.arg_info import ArgInfo
from tscript.schedule.schedule import Schedule


class MeasureCandidate:
    """A finished schedule and what its entry function takes.

    `sch` may be a function that makes the schedule when it is first asked for: of the many candidates of a search,
    few are built. `features` holds what extractors have found out, each under a key of its own; `program` is the hash
    of the scheduled program, where the search has one.
    """

    def __init__(
        self, sch: Schedule | Callable[[], Schedule], args_info: list[ArgInfo], program: int | None = None
    ) -> None:
        self._sch = sch
        self.args_info = args_info
        self.program = program
        self.features: dict[Hashable, NDArray[np.float64]] = {}

    @property
    def sch(self) -> Schedule:
        """The schedule, postprocessing included."""
        made: Any = self._sch
        if not isinstance(made, Schedule):
            made = self._sch = made()
        return made
