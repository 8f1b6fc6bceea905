"""The schedule of a program: that of the operator which it is recognised as, else the default one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tscript.ir.expr import StringImm
from tscript.ir.function import IRModule, PrimFunc
from tscript.library.choices import OWN
from tscript.library.default import schedule_default
from tscript.library.operator import Operator
from tscript.library.operators import OPERATORS
from tscript.schedule.schedule import Schedule
from tscript.target.target import Target


def recognise(func: PrimFunc) -> str | None:
    """The name of the operator that a function computes, by its structure; None if the library has none for it.

    >>> from tscript.testing.workloads import argmax, matmul
    >>> recognise(matmul(8, 8, 8).func)
    'product'
    >>> recognise(argmax(8, 8).func)
    """
    found = find_operator(func)
    return None if found is None else found[0].name


def schedule(program: PrimFunc | IRModule, target: str | Mapping[str, Any] | Target | None = None) -> Schedule:
    """A schedule for each function of a program: that of the operator it is recognised as, else the default one.

    The schedule is one of primitives only, so its trace (`schedule(...).trace`) shows how it is made, and replays on
    the program; go on from it, or copy what you need. `target` is in any form that `tscript.build` takes; without it
    the innermost `with target:` counts, else this machine's CPU. A function with an attribute `target` is scheduled for
    that one. Functions without a root block are left as they are.

    Raises ValueError for a target that is no CPU, TypeError for what is no program.

    >>> import tscript
    >>> from tscript.testing.workloads import add
    >>> sch = schedule(add(1 << 20).func, "llvm -mcpu=skylake-avx512 -num-cores=2")
    >>> len(sch.trace.insts) > 0
    True
    """
    if not isinstance(program, (PrimFunc, IRModule)):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"a schedule is made for a PrimFunc or an IRModule, not for a {type(program).__name__}")
    given = Target.target_or_current(Target("llvm") if target is None and Target.current() is None else target)
    sch = Schedule(program)
    for var, func in sorted(sch.mod.functions.items(), key=lambda item: item[0].name_hint):
        chosen = _target_of(func, given)
        if chosen.kind.name != "llvm":
            raise ValueError(
                f"the library schedules for CPUs, and the target of {var.name_hint} is {chosen}\n"
                '  try: a target such as "llvm", or a schedule of your own'
            )
        if sch.state.root_block(var) is None:
            continue
        sch.work_on(var.name_hint)
        found = find_operator(func)
        if found is None:
            schedule_default(sch, chosen)
        else:
            found[0].apply(sch, found[1], chosen, OWN)
    return sch


def find_operator(func: PrimFunc) -> tuple[Operator, Any] | None:
    """The operator that a function computes, and what its schedule needs to know; None if the library has none for it.

    >>> from tscript.testing.workloads import softmax
    >>> operator, _ = find_operator(softmax(8, 8).func)
    >>> operator.name
    'softmax'
    """
    for operator in OPERATORS:
        found = operator.recognise(func)
        if found is not None:
            return operator, found
    return None


def _target_of(func: PrimFunc, given: Target) -> Target:
    own = func.attrs.get("target")
    if own is None:
        return given
    return own if isinstance(own, Target) else Target(own.value if isinstance(own, StringImm) else own)


__all__ = ["find_operator", "recognise", "schedule"]
