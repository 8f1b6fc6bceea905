"""What every test of a primitive checks: the result, the record of it, and that it computes what it did before."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

import tscript
from tscript import interp
from tscript.arith import simplify
from tscript.driver import build
from tscript.ir.expr import IntImm, PrimExpr, Var
from tscript.ir.function import IRModule, PrimFunc
from tscript.ir.functor import post_order_visit, substitute
from tscript.ir.semantics import numpy_dtype
from tscript.ir.structural import assert_structural_equal
from tscript.ir.well_formed import verify_well_formed
from tscript.parser import from_source
from tscript.schedule import Schedule, ScheduleError, Trace
from tscript.script import tir as T
from tscript.testing.differential import check_round_trip, compare_arrays
from tscript.testing.watched import WatchedSchedule

Steps = Callable[[Schedule], Any]
Program = PrimFunc | IRModule


@dataclass
class Packed:
    """Another layout of a parameter: where each element lies, and what padding holds (a number, or a function of the
    indices), before and after; anything, where that is None.
    """

    layout: Callable[..., Any]
    padding: Any = None

    def pack(self, array: np.ndarray, shape: Sequence[int]) -> np.ndarray:
        """The array in the new layout."""
        padding = self.padding(*np.indices(shape)) if callable(self.padding) else self.padding
        made = np.full(shape, 77 if padding is None else padding, dtype=array.dtype)
        places = self._places(array.shape)
        made[places] = array.reshape(np.shape(made[places]))
        return made

    def unpack(self, array: np.ndarray, shape: Sequence[int]) -> np.ndarray:
        """The array in the old layout, after a look at the padding."""
        places = self._places(shape)
        found = np.reshape(array[places], shape)
        if self.padding is not None:
            np.testing.assert_array_equal(self.pack(found, array.shape), array, "padding")
        return found

    def _places(self, shape: Sequence[int]) -> tuple[np.ndarray, ...]:
        return tuple(np.broadcast_to(k, shape) for k in self.layout(*np.indices(shape)))


def check_schedule(
    func: Program,
    steps: Steps,
    expected: Program | str | None = None,
    *,
    sizes: Mapping[str, int] | None = None,
    run: bool = True,
    native: bool = True,
    exact: bool = True,
    packed: Mapping[int, Packed] | None = None,
    regions: bool = True,
) -> Schedule:
    """Do `steps` on a schedule of `func` and check everything that holds for any schedule; the schedule.

    `expected`: the program that results, as text or program. `sizes`: values of symbolic sizes and scalars by
    name (5 for those not given). `run=False` where there is nothing to run, `native=False` where there is no code
    for it, `exact=False` where rounding differs. `packed` tells by number which parameters have another layout now.
    `regions=False` where blocks access more than they declare.
    """
    before = func.script()
    sch = Schedule(func, seed=7, debug_mask="all")
    verify = sch.state.verify

    def verify_all() -> None:
        verify()
        verify_well_formed(sch.state.mod)

    sch.state.verify = verify_all
    steps(sch)
    assert func.script() == before, "the program that was given has changed"
    if expected is not None:
        want = from_source(expected) if isinstance(expected, str) else expected
        got = sch.mod if isinstance(want, IRModule) else sch.mod[sch.func_working_on]
        if isinstance(want, PrimFunc):
            want = want.replace(attrs=got.attrs)
        assert_structural_equal(got, want)
    for f in sch.mod.functions.values():
        check_round_trip(f)
    check_replay(func, sch)
    if run:
        check_same_results(func, sch.mod, sizes or {}, native=native, exact=exact, packed=packed, regions=regions)
    return sch


def check_replay(func: Program, sch: Schedule) -> None:
    """The trace of `sch`, replayed as it is, as text and as JSON, gives the same program and the same trace."""
    text = str(sch.trace)
    stored = sch.trace.as_json()
    read = Trace.from_json(json.loads(json.dumps(stored)))
    assert (read.as_json(), read.script()) == (stored, sch.trace.script())
    assert json.loads(json.dumps(stored)) == stored
    namespace: dict[str, Any] = {"tir": SimpleNamespace(Schedule=Schedule), "tvm": tscript, "T": T}
    exec(text, namespace)

    def by_json(other: Schedule) -> None:
        Trace.apply_json_to_schedule(json.loads(json.dumps(stored)), other)

    ways: dict[str, Steps] = {
        "as text": namespace["apply_trace"],
        "as JSON": by_json,
        "as it is": lambda other: sch.trace.apply_to_schedule(other, False),
    }
    for way, replay in ways.items():
        other = Schedule(func, seed=11, debug_mask="all")
        replay(other)
        assert_structural_equal(other.mod, sch.mod)
        assert other.mod.script() == sch.mod.script(), f"replay of the trace {way} gives other names"
        assert str(other.trace) == text, f"replay of the trace {way} records something else"
        assert other.trace.as_json() == stored


def check_same_results(
    before: Program,
    after: Program,
    sizes: Mapping[str, int],
    *,
    native: bool = True,
    exact: bool = True,
    packed: Mapping[int, Packed] | None = None,
    regions: bool = True,
) -> None:
    """Both programs do the same to the same random arguments, in the interpreter and as native code."""
    old, new = _functions(before), _functions(after)
    assert list(old) == list(new)
    for name, func in old.items():
        expected = arguments_of(func, sizes)
        interp.run(func, *expected)
        got = _ran(func, new[name], sizes, packed, native=False, regions=regions)
        _compare(got, expected, f"{name}, interpreted,", exact)
        if native:
            got = _ran(func, new[name], sizes, packed, native=True)
            _compare(got, expected, f"{name}, as native code,", exact)


def _ran(
    old: PrimFunc,
    new: PrimFunc,
    sizes: Mapping[str, int],
    packed: Mapping[int, Packed] | None,
    *,
    native: bool,
    regions: bool = True,
) -> list[Any]:
    """What `new` makes of the arguments of `old`, brought into its layouts and back."""
    got, shapes = arguments_of(old, sizes), [getattr(a, "shape", ()) for a in arguments_of(new, sizes)]
    before = list(got)
    for k, p in (packed or {}).items():
        got[k] = p.pack(got[k], shapes[k])
    if native:
        build(new.with_attr("global_symbol", "main"), target="llvm")["main"](*got)
    else:
        interp.run(new, *got, check_regions=regions)
    for k, p in (packed or {}).items():
        got[k] = p.unpack(got[k], before[k].shape)
    return got


def _functions(program: Program) -> dict[str, PrimFunc]:
    if isinstance(program, PrimFunc):
        return {"main": program}
    return {v.name_hint: f for v, f in program.functions.items()}


def arguments_of(func: PrimFunc, sizes: Mapping[str, int], seed: int = 0) -> list[Any]:
    """Random arguments. Floats hold small integers, so that sums come out the same in every order."""
    rng = np.random.default_rng(seed)
    known: dict[Var, PrimExpr] = {}
    for p in func.params:
        for dim in func.buffer_map[p].shape if p in func.buffer_map else (p,):
            post_order_visit(
                dim,
                lambda v: known.setdefault(v, IntImm(v.dtype, sizes.get(v.name, 5))) if isinstance(v, Var) else None,
            )
    args: list[Any] = []
    for p in func.params:
        buffer = func.buffer_map.get(p)
        if buffer is None:
            args.append(sizes.get(p.name, 5))
            continue
        shape = tuple(simplify(substitute(s, known)).value for s in buffer.shape)
        low, high = (-4, 5) if buffer.dtype.is_float or buffer.dtype.is_int else (0, 2 if buffer.dtype.is_bool else 9)
        args.append(rng.integers(low, high, shape).astype(numpy_dtype(buffer.dtype)))
    return args


def _compare(got: Sequence[Any], expected: Sequence[Any], what: str, exact: bool) -> None:
    for k, (g, e) in enumerate(zip(got, expected, strict=True)):
        if isinstance(e, np.ndarray):
            compare_arrays(g, e, f"parameter {k} of {what}", exact=exact)


def rejects(
    func: Program,
    steps: Steps,
    match: str,
    at: Sequence[str] | None = None,
    *,
    error: type[Exception] = ScheduleError,
) -> Exception:
    """The last of `steps` is refused, and leaves program, trace and handles as they were; the error.

    `match`: pattern that the text of the error has. `at`: names of the loops and blocks it points at.
    """
    sch = WatchedSchedule(func, seed=7, debug_mask="all")
    try:
        steps(sch)
    except error as raised:
        caught = raised
        assert type(caught) is error or error is not ValueError, f"{type(caught).__name__}: {caught}"
        text = str(caught)
        assert re.search(match, text), f"{match!r} is not in:\n{text}"
        if isinstance(caught, ScheduleError):
            assert caught.primitive, "the error does not say which step it belongs to"
            names = [getattr(s, "name_hint", None) or s.loop_var.name for s in caught.at]
            assert at is None or names == list(at), f"the error points at {names}"
    else:
        raise AssertionError(f"nothing was refused; the program is now:\n{sch.mod.script()}")
    sch.require_untouched()
    sch.state.verify()
    return caught
