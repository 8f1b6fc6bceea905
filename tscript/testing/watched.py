"""A schedule that can tell whether its latest step, which was refused, left anything behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tscript.schedule import Schedule, Trace
from tscript.schedule.primitive import METHODS


class WatchedSchedule(Schedule):
    """A schedule that notes, before each step that is asked of it, how everything is then."""

    _noted: tuple[Any, ...] | None = None

    def note(self) -> None:
        """Note the program, the trace and the handles."""
        self._noted = self._everything()

    def require_untouched(self) -> None:
        """Raise AssertionError unless everything is as it was before the latest step."""
        assert self._noted is not None, "there was no step"
        functions, insts, decisions, handles = self._noted
        now = self._everything()
        assert list(now[0]) == list(functions), "the functions of the program have changed"
        assert all(now[0][v] is f for v, f in functions.items()), "the program has changed"
        assert now[1] == insts, "the trace has changed"
        assert now[2] == decisions, "the decisions have changed"
        assert list(now[3]) == list(handles), "there are other handles than before"
        for rv, (value, stmt) in handles.items():
            assert now[3][rv][0] is value and now[3][rv][1] is stmt, "a handle stands for something else"

    def _everything(self) -> tuple[Any, ...]:
        handles = {rv: (v, getattr(v, "stmt", None)) for rv, v in self.symbols.items()}
        trace = self.trace if self.trace is not None else Trace()
        return dict(self.state.mod.functions), list(trace.insts), dict(trace.decisions), handles


def _noting(name: str) -> Callable[..., Any]:
    def step(self: WatchedSchedule, *args: Any, **kwargs: Any) -> Any:
        self.note()
        return METHODS[name](self, *args, **kwargs)

    return step


for _name in METHODS:
    setattr(WatchedSchedule, _name, _noting(_name))
