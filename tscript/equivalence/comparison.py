"""`compare`: two programs on the same random arguments, in the interpreter, and where they first differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from tscript import interp
from tscript.equivalence.arguments import Arguments, known_shape, require_sizes
from tscript.equivalence.demand import CannotCut, Cut, Mask
from tscript.equivalence.races import Races
from tscript.equivalence.tolerance import EXACT, Array, Tolerance, first_difference, reassociation_tolerance
from tscript.ir.buffer import Buffer
from tscript.ir.expr import Call, IntImm, Op, Var
from tscript.ir.function import IRModule, PrimFunc
from tscript.ir.functor import post_order_visit
from tscript.ir.stmt import Block, BufferStore
from tscript.support.errors import InterpError, UnknownMeaning

WHOLE = 100_000
"""Programs of up to about so many iterations are run whole."""
_ATTEMPTS = 3


class Scheduled(Protocol):
    """What has a program: a schedule."""

    @property
    def mod(self) -> IRModule:
        """The program."""
        ...


Program = PrimFunc | IRModule | Scheduled


@dataclass(frozen=True)
class Difference:
    """Where two programs differ: an element of a parameter; with an empty `buffer`, what only `after` does wrong."""

    function: str
    buffer: str
    index: tuple[int, ...]
    before: Any
    after: Any

    def __str__(self) -> str:
        if not self.buffer:
            return f"{self.function}: only the program after fails: {self.after}"
        place = ", ".join(str(i) for i in self.index)
        return f"{self.function}: {self.buffer}[{place}] is {self.before} before and {self.after} after"


@dataclass
class Report:
    """What a comparison found. It is true where nothing differs.

    `difference` is the first one. `compared` counts the elements of results that were looked at, of `elements`;
    arguments are drawn again from `seed`, `special_values` and `sizes`. `possible_races` tells of iterations that run
    at the same time in the program after, and that could not be shown to keep apart.
    """

    difference: Difference | None = None
    seed: int = 0
    special_values: bool = False
    sizes: dict[str, int] = field(default_factory=dict[str, int])
    compared: int = 0
    elements: int = 0
    possible_races: list[str] = field(default_factory=list[str])

    @property
    def equal(self) -> bool:
        """Whether nothing differs."""
        return self.difference is None

    def __bool__(self) -> bool:
        return self.equal

    def __str__(self) -> str:
        sizes = "".join(f", {n}={v}" for n, v in self.sizes.items())
        some = f"{self.compared} of {self.elements} elements" if self.compared < self.elements else "all elements"
        if self.difference is None:
            races = "".join(f"\n  possible race: {r}" for r in self.possible_races)
            return f"equal: {some} of the results, seed {self.seed}{sizes}{races}"
        again = f"compare(before, after, {self._options()})"
        return f"different: {self.difference} (seed {self.seed}{sizes})\n  again: {again}"

    def _options(self) -> str:
        special = ", special_values=True" if self.special_values else ""
        return f"seed={self.seed}{special}" + (f", sizes={self.sizes}" if self.sizes else "")

    def show(self) -> None:
        """Print what was found."""
        print(self)

    def require(self) -> None:
        """Raise AssertionError, with the difference, if there is one."""
        if self.difference is not None:
            raise AssertionError(str(self))


def compare(
    before: Program,
    after: Program,
    *,
    seed: int = 0,
    sizes: Mapping[str, int] | None = None,
    special_values: bool = False,
    exact: bool = False,
    tolerance: Tolerance | None = None,
    whole: bool = False,
) -> Report:
    """Run two programs (functions, modules or schedules) on the same random arguments, and compare what they leave.

    `seed` draws the arguments: floats that are exact in sums and products, unless `special_values` puts infinities
    and NaN among them; subscripts that stay in range. `sizes` gives symbolic sizes and integer parameters by name (5
    where it does not). Integers must be equal; floats may differ by what another order of the same sums may change,
    unless `exact` forbids it or a `tolerance` says how much.

    Of programs that would take long, only what some elements of the results depend on is run: the first and last
    position of each dimension, and two neighbours anywhere. `whole` runs everything. Faults are part of the result:
    where only `after` reads out of bounds, say, it differs. So it does where iterations that run at the same time meet
    at an element in `after` only: they run in order here, and are looked at without running (`tscript.analysis.check`).
    A program that fails itself cannot be compared: the fault of `before` is raised. Raises ValueError for programs
    whose functions or parameters do not match, and for a name in `sizes` that is none.

    >>> import tscript
    >>> from tscript.testing.workloads import matmul
    >>> w = matmul(128, 128, 128)
    >>> sch = tscript.tir.Schedule(w.func)
    >>> i, j, k = sch.get_loops("C")
    >>> sch.reorder(k, i)
    >>> report = tscript.compare(w.func, sch)
    >>> report.show()
    equal: 16 of 16384 elements of the results, seed 0
    >>> bool(report)
    True
    """
    old, new = functions_of(before), functions_of(after)
    if len(old) == len(new) == 1:
        new = dict(zip(old, new.values(), strict=True))
    if list(old) != list(new):
        raise ValueError(f"the programs have other functions: {', '.join(old)} before, {', '.join(new)} after")
    require_sizes([*old.values(), *new.values()], sizes)
    result = Report(seed=seed, special_values=special_values)
    for name, func in old.items():
        trial = Trial(func, name, module_of(before), seed, sizes, special_values, whole)
        if interface(new[name], trial.sizes) != interface(func, trial.sizes):
            raise ValueError(
                f"{name} takes other parameters after than before, so that their results cannot be compared: "
                "the same arguments must mean the same to both"
            )
        allowed = EXACT if exact else tolerance
        trial.compare(new[name], module_of(after), result, allowed)
        if result.difference is not None:
            break
    return result


def functions_of(program: Program) -> dict[str, PrimFunc]:
    """The functions of a program by name, sorted."""
    mod = module_of(program)
    return {v.name_hint: f for v, f in sorted(mod.functions.items(), key=lambda item: item[0].name_hint)}


def module_of(program: Program) -> IRModule:
    """A program as a module. TypeError for what is none."""
    if isinstance(program, PrimFunc):
        return IRModule({program.__name__: program})
    mod = program if isinstance(program, IRModule) else getattr(program, "mod", None)
    if not isinstance(mod, IRModule):
        raise TypeError(f"what is compared is a function, a module or a schedule, not {program!r}")
    return mod


def interface(func: PrimFunc, sizes: Mapping[str, int]) -> tuple[Any, ...]:
    """What arguments a function takes, for given sizes: types, shapes, and strides that are fixed."""
    return tuple(
        (str(b.dtype), known_shape(b, sizes), _spacing(b, sizes))
        if (b := func.buffer_map.get(p)) is not None
        else str(p.dtype)
        for p in func.params
    )


def _spacing(buffer: Buffer, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """The strides of a buffer that are fixed and leave gaps; empty where it takes an array without gaps."""
    strides = [e.value for e in buffer.strides if isinstance(e, IntImm)]
    compact = np.empty(known_shape(buffer, sizes), np.int8).strides
    return () if len(strides) < buffer.ndim or tuple(strides) == compact else tuple(strides)


class Trial:
    """Arguments of a function, what it makes of them, and whether another function makes the same of them.

    Raises InterpError where the function fails on whatever is drawn.
    """

    def __init__(
        self,
        func: PrimFunc,
        name: str,
        mod: IRModule,
        seed: int,
        sizes: Mapping[str, int] | None = None,
        special: bool = False,
        whole: bool = False,
    ) -> None:
        self.func, self.name, self._mod = func, name, mod
        self._seed = seed
        self._special, self._whole = special, whole
        self._wanted: dict[int, list[Mask]] = {}
        self._is_cut = False
        self.arguments, self._expected = self._drawn(sizes)
        self.sizes = self.arguments.sizes
        self._races = Races(func)

    def _drawn(self, sizes: Mapping[str, int] | None) -> tuple[Arguments, list[Any]]:
        """Arguments of which all that the function does is defined, and what it makes of them."""
        failed: InterpError | None = None
        for attempt in range(_ATTEMPTS):
            arguments = Arguments(self.func, self._seed, sizes, special=self._special, attempt=attempt)
            self._wanted = self._choice(arguments.sizes)
            try:
                expected, self._is_cut = self._run(self.func, self._mod, arguments)
                return arguments, expected
            except InterpError as error:
                failed = failed or error
        assert failed is not None
        raise failed

    def _choice(self, sizes: Mapping[str, int]) -> dict[int, list[Mask]]:
        """Positions of each parameter that are looked at, should the program be large."""
        rng = np.random.default_rng([self._seed, 1])
        chosen: dict[int, list[Mask]] = {}
        for k, p in enumerate(self.func.params):
            buffer = self.func.buffer_map.get(p)
            if buffer is not None:
                chosen[k] = [_positions(rng, n) for n in known_shape(buffer, sizes)]
        return chosen

    def _run(self, func: PrimFunc, mod: IRModule, arguments: Arguments) -> tuple[list[Any], bool]:
        """What the function leaves in its arguments and returns; and whether only chosen elements count.

        What blocks declare is no part of what they compute, and schedules may declare less on purpose.
        """
        args = arguments.fresh()
        part = None if self._whole else self._part(func, arguments.sizes)
        if part is not None:
            return [*args, interp.run(part, *args, check_regions=False)], True
        several = len(mod.functions) > 1
        returned = interp.run(
            mod if several else func, *args, entry=self.name if several else None, check_regions=False
        )
        return [*args, returned], False

    def _part(self, func: PrimFunc, sizes: Mapping[str, int]) -> PrimFunc | None:
        """What of a large function is needed; None where all of it is to run."""
        written = written_parameters(func)
        try:
            cut = Cut(func, {k: masks for k, masks in self._wanted.items() if k in written}, sizes)
        except CannotCut:
            return None
        return cut.function if cut.whole_work > WHOLE else None

    def compare(self, func: PrimFunc, mod: IRModule, result: Report, tolerance: Tolerance | None = None) -> None:
        """Run a function that takes the same arguments, and note in `result` what was compared and differs.

        Raises UnknownMeaning for one that the interpreter cannot run.
        """
        result.sizes = self.sizes
        try:
            got, is_cut = self._run(func, mod, self.arguments)
        except UnknownMeaning:
            raise
        except InterpError as error:
            result.difference = Difference(self.name, "", (), None, str(error))
            return
        allowed = tolerance or reassociation_tolerance((self.func, func))
        written = {**written_parameters(self.func), **written_parameters(func)}
        for k in sorted(written):
            chosen = is_cut or self._is_cut
            places = np.ix_(*map(np.flatnonzero, self._wanted[k])) if chosen and got[k].ndim else ...
            name = self.func.buffer_map[self.func.params[k]].name
            self._compare_array(got[k], self._expected[k], places, name, result, allowed)
            if result.difference is not None:
                return
        if got[-1] is not None or self._expected[-1] is not None:
            returned = [np.asarray(v[-1]) for v in (got, self._expected)]
            if first_difference(returned[0], returned[1], allowed) is not None:
                result.difference = Difference(self.name, "ret", (), self._expected[-1], got[-1])
                return
        self._compare_races(func, result)

    def _compare_races(self, func: PrimFunc, result: Report) -> None:
        """Note races that only the other function has: values of a run in order do not show them."""
        for race in self._races.new_in(func):
            if race.is_proven:
                result.difference = Difference(self.name, "", (), None, f"its iterations race: {race.message}")
                return
            result.possible_races.append(f"{self.name}: {race.message}")

    def _compare_array(
        self, got: Array, expected: Array, places: Any, name: str, result: Report, allowed: Tolerance
    ) -> None:
        g, e = got[places], expected[places]
        result.compared += int(np.size(e))
        result.elements += int(np.size(expected))
        where = first_difference(np.asarray(g), np.asarray(e), allowed)
        if where is not None:
            # Back to the position in the whole array.
            index = where if places is ... else tuple(int(np.ravel(p)[i]) for p, i in zip(places, where, strict=True))
            result.difference = Difference(self.name, name, index, expected[index], got[index])


def written_parameters(func: PrimFunc) -> dict[int, None]:
    """Which parameters a function may write to, by number; all arrays where it passes addresses on."""
    numbers = {func.buffer_map[p]: k for k, p in enumerate(func.params) if p in func.buffer_map}
    found: dict[int, None] = {}
    anything = False

    def look(n: Any) -> None:
        nonlocal anything
        if isinstance(n, BufferStore) and n.buffer in numbers:
            found[numbers[n.buffer]] = None
        elif isinstance(n, Block):
            found.update({numbers[r.buffer]: None for r in n.writes if r.buffer in numbers})
        elif (isinstance(n, Call) and not isinstance(n.op, Op)) or (isinstance(n, Var) and n.dtype.is_handle):
            anything = True

    post_order_visit(func.body, look)
    return dict.fromkeys(numbers.values()) if anything else found


def _positions(rng: np.random.Generator, size: int) -> Mask:
    """The first, the last, and two neighbours of the positions of a dimension."""
    mask = np.zeros(size, dtype=bool)
    if size:
        start = int(rng.integers(0, max(1, size - 1)))
        mask[[0, size - 1, start, min(start + 1, size - 1)]] = True
    return mask
