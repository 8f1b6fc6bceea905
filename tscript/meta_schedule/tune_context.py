"""Everything that belongs to tuning one program: the program, its target, its space and how it is searched."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable
from typing import Any, Final, Protocol, cast

import psutil

from tscript.ir.function import IRModule, PrimFunc
from tscript.schedule.rng import LinearCongruential
from tscript.schedule.schedule import Schedule
from tscript.support.wording import kind_of
from tscript.target.target import Target
from tscript.tensor_intrin import amx, arm_cpu, cuda, x86


class DesignSpace(Protocol):
    """What a context asks of its space generator."""

    def generate_design_space(self, mod: IRModule) -> list[Schedule]:
        """The schedules, with choices left open, that the search starts from."""
        ...

    def initialize_with_tune_context(self, context: TuneContext) -> None:
        """Get ready for one task."""
        ...

    def clone(self) -> Any:
        """An independent generator of the same settings."""
        ...


class Strategy(Protocol):
    """What a context asks of its search strategy."""

    def initialize_with_tune_context(self, context: TuneContext) -> None:
        """Get ready for one task."""
        ...

    def pre_tuning(
        self,
        max_trials: int,
        num_trials_per_iter: int,
        design_spaces: list[Schedule],
        database: Any = None,
        cost_model: Any = None,
    ) -> None:
        """Begin a search."""
        ...

    def generate_measure_candidates(self) -> list[Any] | None:
        """The next batch, or None when the search is over."""
        ...

    def notify_runner_results(self, measure_candidates: list[Any], results: list[Any]) -> None:
        """Learn what was measured."""
        ...

    def post_tuning(self) -> None:
        """End the search."""
        ...

    def clone(self) -> Any:
        """An independent strategy of the same settings."""
        ...


INTRINSICS: Final = (x86, amx, arm_cpu, cuda)
"""The modules whose intrinsics the rules find by name; importing them registers these."""

_MAKERS: dict[str, Callable[[Any], Any]] = {}


def register_maker(what: str, make: Callable[[Any], Any]) -> None:
    """Say how a word or function becomes a part: `what` is "space_generator" or "search_strategy"."""
    _MAKERS[what] = make


def normalize_mod(mod: IRModule | PrimFunc) -> IRModule:
    """The module that is tuned. A function becomes one named `main`, if it has no name, with `tir.noalias`; the only
    function of a module becomes `main`.
    """
    if isinstance(mod, PrimFunc):
        func = mod.with_attr("tir.noalias", True)
        if "global_symbol" not in func.attrs:
            func = func.with_attr("global_symbol", "main")
        mod = IRModule({str(func.attrs["global_symbol"]): func})
    if not isinstance(mod, IRModule):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"only a function or a module can be tuned, not {kind_of(mod)}")
    names = [v.name_hint for v in mod.functions]
    if len(names) == 1 and names[0] != "main":
        func = next(iter(mod.functions.values()))
        return IRModule({"main": func.with_attr("global_symbol", "main")})
    return mod


def count_threads(num_threads: int | str) -> int:
    """A number of threads: "physical" cores, "logical" ones, or a number of at least 1."""
    if num_threads in ("physical", "logical"):
        return psutil.cpu_count(logical=num_threads == "logical") or psutil.cpu_count() or 1
    if isinstance(num_threads, int) and num_threads >= 1:
        return num_threads
    raise ValueError(f"num_threads is 'physical', 'logical' or a number of at least 1, not {num_threads!r}")


class TuneContext:
    """A program to be tuned, for a target, with the space of its schedules and the strategy that searches it.

    `mod` is a function or module; `space_generator` and `search_strategy` are parts, or words as for `create`
    (a function of a schedule is a space too). `rand_state` seeds everything random of this task; -1 takes a seed
    from the operating system. `num_threads` is "physical", "logical" or a number.
    """

    def __init__(
        self,
        mod: IRModule | PrimFunc | None = None,
        *,
        target: Target | str | None = None,
        space_generator: Any = None,
        search_strategy: Any = None,
        task_name: str = "main",
        rand_state: int = -1,
        num_threads: int | str = "physical",
        logger: logging.Logger | None = None,
    ) -> None:
        self.mod = None if mod is None else normalize_mod(mod)
        self.target = Target(target) if isinstance(target, str) else target
        self.task_name = task_name
        if rand_state == -1:
            rand_state = secrets.randbelow(2**30 - 1) + 1
        if rand_state < 0:
            raise ValueError(f"rand_state is a seed of at least 0, or -1 for any, not {rand_state}")
        self.rng = LinearCongruential(rand_state)
        self.num_threads = count_threads(num_threads)
        self.logger = logging.getLogger("tscript.meta_schedule") if logger is None else logger
        self.space_generator = cast("DesignSpace | None", _made("space_generator", space_generator))
        self.search_strategy = cast("Strategy | None", _made("search_strategy", search_strategy))
        self.initialize()

    @property
    def rand_state(self) -> int:
        """The state of the task's random numbers."""
        return self.rng.state

    def initialize(self) -> None:
        """Tell the parts, generator first, what task they work on."""
        for part in (self.space_generator, self.search_strategy):
            if part is not None:
                part.initialize_with_tune_context(self)

    def _space(self) -> DesignSpace:
        if self.space_generator is None or self.mod is None:
            raise ValueError("this context needs a `mod` and a `space_generator` to generate a design space")
        return self.space_generator

    def _strategy(self) -> Strategy:
        if self.search_strategy is None:
            raise ValueError("this context needs a `search_strategy` to search")
        return self.search_strategy

    def generate_design_space(self) -> list[Schedule]:
        """The schedules, with choices left open, that the search starts from."""
        space = self._space()
        assert self.mod is not None
        return space.generate_design_space(self.mod)

    def pre_tuning(
        self,
        max_trials: int,
        num_trials_per_iter: int = 64,
        design_spaces: list[Schedule] | None = None,
        database: Any = None,
        cost_model: Any = None,
    ) -> None:
        """Begin a search of at most `max_trials` candidates."""
        spaces = self.generate_design_space() if design_spaces is None else design_spaces
        self._strategy().pre_tuning(max_trials, num_trials_per_iter, spaces, database, cost_model)

    def generate_measure_candidates(self) -> list[Any] | None:
        """The next batch of candidates, or None when the search is over."""
        return self._strategy().generate_measure_candidates()

    def notify_runner_results(self, measure_candidates: list[Any], results: list[Any]) -> None:
        """Tell the search what was measured."""
        self._strategy().notify_runner_results(measure_candidates, results)

    def post_tuning(self) -> None:
        """End the search."""
        self._strategy().post_tuning()

    def clone(self) -> TuneContext:
        """An independent context with copies of the parts and random numbers of its own."""
        return TuneContext(
            self.mod,
            target=self.target,
            space_generator=None if self.space_generator is None else self.space_generator.clone(),
            search_strategy=None if self.search_strategy is None else self.search_strategy.clone(),
            task_name=self.task_name,
            rand_state=self.rng.fork(),
            num_threads=self.num_threads,
            logger=self.logger,
        )


def _made(what: str, part: Any) -> Any:
    return part if part is None or what not in _MAKERS else _MAKERS[what](part)
