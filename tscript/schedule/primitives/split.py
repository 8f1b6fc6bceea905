"""One loop becomes several."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from tscript.ir import construct as make
from tscript.ir.expr import LT, IntImm, PrimExpr, Range, Var
from tscript.ir.stmt import For
from tscript.schedule.bindings import is_proved, ranges_around, rebind, simplified
from tscript.schedule.core import ScheduleCore
from tscript.schedule.errors import refuse
from tscript.schedule.instruction import Arg, InstructionKind, Outputs, Role, flag, loop
from tscript.schedule.loop_checks import require_fits, require_loop, require_plain, require_zero_start, serial_nest
from tscript.schedule.primitive import primitive
from tscript.schedule.rv import LoopRV

_KIND = InstructionKind(
    "Split",
    "split",
    (loop(), Arg("factors", Role.INPUTS, is_list=True), flag("preserve_unit_iters"), flag("disable_predication")),
    Outputs.LIST,
)


@primitive(_KIND)
def split(
    s: ScheduleCore,
    loop: LoopRV,
    factors: Sequence[int | PrimExpr | None],
    preserve_unit_iters: bool = True,
    disable_predication: bool = False,
) -> list[LoopRV]:
    """Split a loop into nested loops of the given extents, outermost first; handles of these.

    At most one factor is None: it is inferred, rounded up. The loop must count from 0 and have neither annotations
    nor a thread; a kind such as parallel is lost. The extents must multiply to the old one or more; where they
    may exceed it, the blocks below get a guard (not with `disable_predication`, which is then the user's promise).
    With `preserve_unit_iters`, loops of one iteration stay in the bindings.

    >>> import tscript
    >>> from tscript.script import tir as T
    >>> @T.prim_func
    ... def twice(A: T.Buffer((10,), "float32"), B: T.Buffer((10,), "float32")):
    ...     for i in range(10):
    ...         with T.block("B"):
    ...             v = T.axis.spatial(10, i)
    ...             B[v] = A[v] * T.float32(2)
    >>> sch = tscript.tir.Schedule(twice)
    >>> outer, inner = sch.split(sch.get_loops("B")[0], [None, 4])
    >>> print(sch.get(outer))
    for i_0, i_1 in T.grid(3, 4):
        with T.block("B"):
            v = T.axis.spatial(10, i_0 * 4 + i_1)
            T.where(i_0 * 4 + i_1 < 10)
            A = T.Buffer((10,))
            T.reads(A[v])
            B = T.Buffer((10,))
            T.writes(B[v])
            B[v] = A[v] * T.float32(2.0)
    """
    given = checked_factors(factors)
    sref = require_loop(s, loop)
    old = sref.loop
    require_plain(old)
    require_zero_start(old)
    ranges = ranges_around(s.state, sref)
    extents = _extents(old, [None if f is None else s.integer(f) for f in given])
    total: PrimExpr = IntImm(old.extent.dtype, 1)
    for e in extents:
        total = make.mul(total, e)
    if not (isinstance(total, IntImm) and isinstance(old.extent, IntImm)):
        covers = None in given or is_proved(make.compare(LT, make.sub(old.extent, 1), total), ranges)
        exact = is_proved(make.compare(LT, make.sub(total, 1), old.extent), ranges)
    else:
        covers, exact = total.value >= old.extent.value, total.value <= old.extent.value
    if not covers:
        refuse(
            f"the factors multiply to {simplified(total, ranges)}, which is not known to reach the extent "
            f"`{old.extent}` of {{0}}",
            old,
            hint="let one factor be None, to be inferred",
        )
    variables = [old.loop_var.copy_with(name=f"{old.loop_var.name}_{k}") for k in range(len(extents))]
    value = _joined(variables, extents)
    ranges.update({v: Range.from_min_extent(IntImm(v.dtype, 0), e) for v, e in zip(variables, extents, strict=True)})
    guard = None if exact or disable_predication else make.compare(LT, value, old.extent)
    body, reuse = rebind(
        old.body, {old.loop_var: value}, ranges, guard=guard, preserve_unit_iters=bool(preserve_unit_iters)
    )
    nest, loops = serial_nest(variables, extents, body)
    names = ", ".join(v.name for v in variables)
    s.state.replace(sref, nest, reuse, f"split into {names}")
    s.record_as(factors=given)
    return [s.loop_of(new) for new in loops]


def checked_factors(factors: Sequence[int | PrimExpr | None]) -> list[int | PrimExpr | None]:
    """Factors as a list of numbers, handles of numbers, and at most one None. TypeError for what is none of these."""
    if isinstance(factors, (str, PrimExpr)) or not isinstance(factors, Sequence):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"the factors are a list such as [None, 4], not {factors!r}")
    result: list[int | PrimExpr | None] = []
    for f in factors:
        result.append(_checked_factor(f))
    return result


def _checked_factor(f: Any) -> int | PrimExpr | None:
    if isinstance(f, (np.integer, IntImm)):
        return int(f)  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(f, bool) or not (f is None or isinstance(f, (int, PrimExpr))):
        raise TypeError(f"a factor is an integer, a sampled integer or None, not {f!r}")
    return f


def require_factors(loop: For, factors: Sequence[int | None]) -> None:
    """Refuse an empty list, several factors left open, and factors below 1."""
    if not factors:
        refuse("no factor is given for {0}", loop, hint="give at least one, such as [None]")
    if sum(f is None for f in factors) > 1:
        refuse(f"{sum(f is None for f in factors)} factors of {{0}} are None; only one can be inferred", loop)
    for k, f in enumerate(factors):
        if f is not None and f < 1:
            refuse(f"factor {k} of {{0}} is {f}; factors are at least 1", loop, hint="use None for a factor to infer")


def _extents(loop: For, factors: Sequence[int | None]) -> list[PrimExpr]:
    """The extents of the new loops, the inferred one among them."""
    require_factors(loop, factors)
    dtype = loop.loop_var.dtype
    known = prod(f for f in factors if f is not None)
    count = loop.extent.value if isinstance(loop.extent, IntImm) else 0
    require_fits(max(known, -(-count // known) * known), dtype, "the split loop", loop)
    result: list[PrimExpr] = []
    for f in factors:
        if f is not None:
            result.append(IntImm(dtype, f))
        elif isinstance(loop.extent, IntImm):
            result.append(IntImm(dtype, -(-count // known)))
        else:
            by = IntImm(dtype, known)
            result.append(simplified(make.floordiv(make.add(loop.extent, known - 1), by), {}))
    return result


def _joined(variables: Sequence[Var], extents: Sequence[PrimExpr]) -> PrimExpr:
    """The old variable in terms of the new ones."""
    value: PrimExpr = variables[0]
    for v, e in zip(variables[1:], extents[1:], strict=True):
        value = make.add(make.mul(value, e), v)
    return value
