"""Going back: how a schedule was before its steps. Programs are immutable: one costs a few references."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tscript.ir.expr import GlobalVar
from tscript.ir.function import IRModule
from tscript.schedule.core import ScheduleCore, Value
from tscript.schedule.numeric import Unverified
from tscript.schedule.sref import Mark, StmtSRef


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A schedule at one moment: its functions, bookkeeping, handles, trace, random numbers and focus."""

    functions: dict[GlobalVar, Any]
    fields: dict[str, Any]
    places: list[tuple[StmtSRef, tuple[Any, Any, int, str]]]
    symbols: dict[Any, Value]
    trace: tuple[list[Any], dict[Any, Any]] | None
    rng: int
    focus: GlobalVar | None
    unverified: tuple[Unverified, ...]

    def module(self, like: IRModule) -> IRModule:
        """The program of that moment; attributes are those of `like`."""
        return like.replace(functions={**self.functions})


@dataclass(frozen=True, eq=False)
class Step:
    """A call by the user: how the schedule was before, and whether it changed more than handles."""

    before: Snapshot
    changes: bool


def snapshot(sch: ScheduleCore) -> Snapshot:
    """How a schedule is now."""
    state, trace = sch.state, sch.trace
    srefs = dict.fromkeys([*state.stmt2ref.values(), *(v for v in sch.symbols.values() if isinstance(v, StmtSRef))])
    return Snapshot(
        {**state.mod.functions},
        {name: _copied(value) for name, value in vars(state).items()},
        [(r, (r.stmt, r.parent, r.seq_index, r.death)) for r in srefs if not isinstance(r, Mark)],
        {**sch.symbols},
        None if trace is None else ([*trace.insts], {**trace.decisions}),
        sch.rng.state,
        sch.func_working_on,
        sch.unverified,
    )


def _copied(value: Any) -> Any:
    """A table of the bookkeeping as it is now; anything else stands for itself."""
    if isinstance(value, dict):
        return {**value}  # pyright: ignore[reportUnknownVariableType]
    return [*value] if isinstance(value, list) else value  # pyright: ignore[reportUnknownVariableType]


def restore(sch: ScheduleCore, then: Snapshot) -> None:
    """Put a schedule back to how it was; handles that it has got since are dead."""
    state = sch.state
    known = {r for r, _ in then.places}
    for sref in state.stmt2ref.values():
        if sref not in known:
            sref.stmt, sref.parent, sref.seq_index, sref.death = None, None, -1, "made by a step that was undone"
    for name, value in then.fields.items():
        setattr(state, name, _copied(value))
    for var, func in then.functions.items():
        if state.mod[var] is not func:
            state.mod[var] = func
    for sref, (stmt, parent, index, death) in then.places:
        sref.stmt, sref.parent, sref.seq_index, sref.death = stmt, parent, index, death
    sch.undone.update({rv: None for rv in sch.symbols if rv not in then.symbols})
    sch.symbols.clear()
    sch.symbols.update(then.symbols)
    if sch.trace is not None and then.trace is not None:
        insts, decisions = then.trace
        sch.trace.insts[:] = insts
        sch.trace.decisions.clear()
        sch.trace.decisions.update(decisions)
    sch.rng.state = then.rng
    sch.func_working_on = then.focus
    sch.unverified = then.unverified


def last_changes(sch: ScheduleCore, steps: int) -> int:
    """Where in the history the last `steps` steps that changed something begin. ValueError if there are fewer."""
    if isinstance(steps, bool) or not isinstance(steps, int):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"steps are counted, so give an integer, not {steps!r}")
    if steps < 1:
        raise ValueError(f"at least one step can be taken back, not {steps}")
    places = [k for k, step in enumerate(sch.history) if step.changes]
    if len(places) < steps:
        have = f"only {len(places)}" if places else "none"
        raise ValueError(f"{steps} step{'s' * (steps > 1)} cannot be taken back: the schedule has made {have}")
    return places[-steps]


class Checkpoint:
    """A moment of a schedule: `restore()` comes back to it, and so does `with sch.checkpoint():` if its block fails."""

    def __init__(self, sch: ScheduleCore) -> None:
        self.schedule = sch
        self.then = snapshot(sch)
        self.done: list[Step] = [*sch.history]

    def restore(self) -> None:
        """Put the schedule back to this moment. It can be done any number of times, also after going further back.

        Raises ValueError for a moment within `with sch.unchecked(...)` once that has ended: the checks would stay off.
        """
        if any(u.context == "ended" for u in self.then.unverified):
            raise ValueError(
                "the checkpoint was made within `with sch.unchecked(...)`, which has ended, so that nothing would turn "
                "the checks on again; make it before that, or come back to it within"
            )
        restore(self.schedule, self.then)
        self.schedule.history[:] = self.done

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is not None:
            self.restore()


__all__ = ["Checkpoint", "Snapshot", "Step", "last_changes", "restore", "snapshot"]
