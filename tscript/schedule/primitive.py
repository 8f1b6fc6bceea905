"""The wrapper of every primitive: arguments in, step recorded, errors told with the step they belong to.

A primitive is a function `f(s: ScheduleCore, ...)` that checks everything before it changes anything, then
calls `s.state.replace` once, and returns handles. `@primitive(kind)` makes it a descriptor: as an attribute
of Schedule it is a method with the same signature (less `s`), which records an instruction of `kind`.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from tscript.schedule.core import ScheduleCore
from tscript.schedule.errors import ScheduleError
from tscript.schedule.instruction import Instruction, InstructionKind, Outputs, Role
from tscript.schedule.rv import BlockRV, LoopRV
from tscript.schedule.sref import StmtSRef
from tscript.schedule.stepping import Stepping
from tscript.schedule.trace import Trace

P = ParamSpec("P")
R = TypeVar("R")


class Primitive(Generic[P, R]):
    """A primitive as an attribute of Schedule."""

    def __init__(self, kind: InstructionKind, function: Callable[Concatenate[Any, P], R]) -> None:
        self.kind = kind
        self.function = function
        self.__doc__ = function.__doc__
        self.__name__ = function.__name__
        # Tools that look for documentation and examples know these.
        self.__module__ = function.__module__
        self.__wrapped__ = function
        parameters = list(inspect.signature(function).parameters.values())[1:]
        self.signature = inspect.Signature(parameters)
        # As an attribute of the class, the schedule is the first argument.
        own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
        self.__signature__ = inspect.Signature([own, *parameters])
        METHODS[kind.method] = self

    @overload
    def __get__(self, sch: None, owner: type) -> Primitive[P, R]: ...
    @overload
    def __get__(self, sch: ScheduleCore, owner: type) -> Callable[P, R]: ...
    def __get__(self, sch: ScheduleCore | None, owner: type) -> Primitive[P, R] | Callable[P, R]:
        if sch is None:
            return self
        return _Bound(self, sch)

    def __call__(self, sch: ScheduleCore, *args: P.args, **kwargs: P.kwargs) -> R:
        """The step, as `Schedule.split(sch, loop, factors)`."""
        with Stepping(sch, self.__name__, not self.kind.is_pure):
            return self.run(sch, args, kwargs)

    def run(self, sch: ScheduleCore, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Carry out the step on a schedule and record it."""
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as e:
            raise TypeError(f"sch.{self.__name__}: {e}; its signature is {self.__name__}{self.signature}") from None
        bound.apply_defaults()
        values: dict[str, Any] = dict(bound.arguments)
        steps = 0 if sch.trace is None else len(sch.trace.insts)
        handles = len(sch.symbols)
        try:
            try:
                self.find_named(sch, values)
            except ScheduleError as e:
                self._sign(sch, e)
                raise
            return self._step(sch, values)
        except Exception:
            # What was looked up by name for a step that then fails is part of it: nothing stays.
            sch.forget_since(steps, handles)
            raise

    def find_named(self, sch: ScheduleCore, values: dict[str, Any]) -> None:
        """Put handles in the place of names of blocks and loops."""
        for a in self.kind.input_args:
            value = values[a.name]
            if a.role is Role.INPUT and isinstance(value, str):
                if "block" in a.name:
                    values[a.name] = _block_named(sch, value)
                elif a.name == "loop":
                    values[a.name] = _loop_named(sch, value)
            elif a.role is Role.INPUTS and a.name == "loops":
                values[a.name] = tuple(_loop_named(sch, v) if isinstance(v, str) else v for v in value)
            elif a.role is Role.INPUT_LIST and "block" in a.name and isinstance(value, (list, tuple)):
                values[a.name] = [_block_named(sch, v) if isinstance(v, str) else v for v in value]  # pyright: ignore[reportUnknownVariableType]

    def _sign(self, sch: ScheduleCore, error: ScheduleError) -> None:
        """Tell an error which step it belongs to, and the program as it is then."""
        if not error.primitive:
            now = sch.state.mod
            error.primitive, error.module = self.__name__, now.replace(functions={**now.functions})
            error.render_level = sch.error_render_level

    def _step(self, sch: ScheduleCore, values: dict[str, Any]) -> Any:
        sch.decision, sch.recorded, sch.following = None, {}, []
        sch.state.step = len(sch.trace.insts) if sch.trace is not None else -1
        variadic = next((p.name for p in self.signature.parameters.values() if p.kind is p.VAR_POSITIONAL), None)
        rest = {k: v for k, v in values.items() if k != variadic}
        try:
            if variadic is not None:
                result: Any = self.function(sch, *values[variadic], **rest)  # pyright: ignore[reportCallIssue]
            else:
                result = self.function(sch, **rest)  # pyright: ignore[reportCallIssue]
        except ScheduleError as e:
            self._sign(sch, e)
            raise
        if sch.state.debug_mask:
            sch.state.verify()
        if sch.trace is not None:
            _record(sch.trace, self.kind, {**values, **sch.recorded}, result, sch.decision)
        for method, arguments in sch.following:
            METHODS[method].run(sch, (), arguments)
        return result


METHODS: dict[str, Primitive[..., Any]] = {}
"""Every primitive, by the name of its method."""


class _Bound(Generic[P, R]):
    """A primitive of one schedule."""

    def __init__(self, primitive: Primitive[P, R], sch: ScheduleCore) -> None:
        self._primitive = primitive
        self._sch = sch
        self.__doc__ = primitive.__doc__
        self.__name__ = primitive.__name__
        self.__signature__ = primitive.signature

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        # A call by the user is what `undo` takes back, with all that is looked up for it.
        with Stepping(self._sch, self.__name__, not self._primitive.kind.is_pure):
            return self._primitive.run(self._sch, args, kwargs)

    def __repr__(self) -> str:
        return f"<primitive {self.__name__}{self.__signature__}>"


def primitive(kind: InstructionKind) -> Callable[[Callable[Concatenate[ScheduleCore, P], R]], Primitive[P, R]]:
    """Make a function the primitive of an instruction kind."""

    def wrap(function: Callable[Concatenate[ScheduleCore, P], R]) -> Primitive[P, R]:
        return Primitive(kind, function)

    return wrap


def _record(trace: Trace, kind: InstructionKind, values: dict[str, Any], result: Any, decision: Any) -> None:
    inputs, attrs = kind.pack(values)
    trace.append(Instruction(kind, inputs, attrs, outputs_of(kind, result)), decision)


def outputs_of(kind: InstructionKind, result: Any) -> list[Any]:
    """The handles that a step gives, as a list."""
    if kind.outputs is Outputs.NONE:
        return []
    return [result] if kind.outputs is Outputs.ONE else list(result)


def run_instruction(
    sch: ScheduleCore, inst: Instruction, inputs: Sequence[Any], attrs: Sequence[Any], decision: Any
) -> list[Any]:
    """Carry out a recorded step with other inputs; its outputs."""
    kind = inst.kind
    values = kind.unpack(inputs, attrs)
    if kind.has_decision:
        values["decision"] = decision
    found = METHODS[kind.method]
    return outputs_of(kind, found._step(sch, values))  # pyright: ignore[reportPrivateUsage]


def _block_named(sch: ScheduleCore, name: str) -> BlockRV:
    """A block given by name: found by a step of its own, as if the user had written it."""
    return METHODS["get_block"].run(sch, (name,), {})


def _loop_named(sch: ScheduleCore, name: str) -> LoopRV:
    """A loop given by the name of its variable: found through the first block below it."""
    _, root = sch.function_root(None)
    blocks = sch.state.blocks_below(root)
    count = Counter(b.block.name_hint for b in blocks)
    hits: dict[StmtSRef, tuple[StmtSRef, int]] = {}
    known: dict[str, None] = {}
    # A block whose name no other block has can be found again by a trace.
    for below in sorted(blocks, key=lambda b: count[b.block.name_hint] > 1):
        for i, loop in enumerate(sch.state.loops_of(below)):
            known[loop.loop.loop_var.name] = None
            if loop.loop.loop_var.name == name:
                hits.setdefault(loop, (below, i))
    if len(hits) != 1:
        what = "no loop is" if not hits else f"{len(hits)} loops are"
        raise ScheduleError(f"{what} called {name!r}", [h.loop for h in hits], f"the loops are {', '.join(known)}")
    ((block, index),) = hits.values()
    return METHODS["get_loops"].run(sch, (_block_named(sch, block.block.name_hint),), {})[index]
