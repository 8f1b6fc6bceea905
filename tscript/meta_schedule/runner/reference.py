"""What a program makes of random arguments before it is scheduled: what its candidates are held to.

Small programs run as they are written. One of many operations would take minutes so, and is run with a schedule that
has nothing to do with the search: in each nest the last spatial loop comes innermost, in vectors, and the first runs in
parallel. Each of these steps is checked like any other, and none changes the order of a sum, so that the results are
those of the program as it is written.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from tscript.analysis.cost import estimate_cost
from tscript.driver import build
from tscript.equivalence.arguments import Arguments
from tscript.equivalence.tolerance import Tolerance, first_difference, reassociation_tolerance
from tscript.ir.function import IRModule, PrimFunc
from tscript.meta_schedule.arg_info import entry_function
from tscript.meta_schedule.loop_kinds import extent_of, is_plain, loop_kind, loop_of
from tscript.meta_schedule.postproc.layout_blocks import apply_layouts
from tscript.runtime.module import Module
from tscript.schedule.errors import ScheduleError
from tscript.schedule.rv import BlockRV
from tscript.schedule.schedule import Schedule
from tscript.support.errors import TScriptError

_MANY = 2**26
"""Operations that run in a second or less without a schedule, wherever they find their operands."""
_LANES = 16


class WrongResult(TScriptError):
    """A candidate computes something else than the program before scheduling."""


class Reference:
    """Random arguments of a program, and what it makes of them."""

    def __init__(self, mod: IRModule) -> None:
        func = entry_function(mod)
        arguments = Arguments(func, seed=1)
        self.given = arguments.fresh()
        self.expected = arguments.fresh()
        self.tolerance: Tolerance = reassociation_tolerance([func])
        build(quick_program(mod), target="llvm")(*self.expected)

    def require(self, candidate: Module, layouts: Mapping[int, PrimFunc] | None = None) -> None:
        """Raise WrongResult for code that makes something else of the arguments, where those that `layouts` numbers
        are given in another layout.
        """
        got: list[Any] = apply_layouts(layouts or {}, copy.deepcopy(self.given))
        candidate(*got)
        for k, (g, e) in enumerate(zip(got, self.expected, strict=True)):
            if k in (layouts or {}):
                continue  # only read
            where = first_difference(g, e, self.tolerance)
            if where is not None:
                raise WrongResult(
                    f"the schedule changes the result: parameter {k} holds {g[where]!r} instead of {e[where]!r} "
                    f"at {where}"
                )


def quick_program(mod: IRModule) -> IRModule:
    """A program of many operations with its loops in an order that is not slow; others as they are.

    >>> from tscript.testing.workloads import matmul
    >>> mod = IRModule({"main": matmul(1024, 1024, 1024).func})
    >>> quick_program(mod) is mod
    False
    """
    func = entry_function(mod)
    try:
        cost = estimate_cost(func)
    except TScriptError:
        return mod
    if not isinstance(cost.iterations, int) or cost.iterations < _MANY:
        return mod
    sch = Schedule(mod, error_render_level="none")
    for var in mod.functions:
        if sch.state.root_block(var) is not None:
            sch.work_on(var.name_hint)
            _quicken(sch, sch.get_block("root", var.name_hint))
    return sch.mod


def _quicken(sch: Schedule, block: BlockRV) -> None:
    inner = sch.get_child_blocks(block)
    for child in inner:
        _quicken(sch, child)
    if inner:
        return
    loops = sch.get_loops(block)
    kinds = [loop_kind(sch.state, sch.get_sref(loop)) for loop in loops]
    # Loops that several blocks share are in no place where one of them could be exchanged.
    spatial = [loop for loop, kind in zip(loops, kinds, strict=True) if kind == "S" and is_plain(loop_of(sch, loop))]
    if not spatial:
        return
    last = spatial[-1]
    reduced = loops[loops.index(last) + 1 :]
    try:
        if reduced:
            sch.reorder(*reduced, last)
        if (extent_of(loop_of(sch, last)) or 0) % _LANES == 0:
            sch.vectorize(sch.split(last, [None, _LANES])[1])
    except ScheduleError:
        pass  # what was done so far holds
    if len(spatial) > 1:
        try:
            sch.parallel(spatial[0])
        except ScheduleError:
            pass  # it stays serial
