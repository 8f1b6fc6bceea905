"""The record of a schedule: instructions and decisions, printable, storable, replayable."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from tscript.ir.base import Scriptable
from tscript.ir.expr import PrimExpr, Var
from tscript.ir.function import IRModule
from tscript.ir.functor import post_order_visit, substitute
from tscript.ir.index_map import IndexMap
from tscript.printer.highlight import markup, show_text
from tscript.schedule.instruction import Instruction
from tscript.schedule.rv import BlockRV, LoopRV, new_expr_rv
from tscript.schedule.steps import TraceStep, collect_steps, costs_of, report
from tscript.schedule.trace_text import (
    input_from_json,
    instruction_json,
    instruction_text,
    kind_of_json,
    name_outputs,
)
from tscript.schedule.viewer import page, viewer
from tscript.target.target import Target

Decide = Callable[[Instruction, list[Any], list[Any], Any], Any]


class Replayable(Protocol):
    """What a trace is replayed onto: a schedule."""

    def run_instruction(
        self, inst: Instruction, inputs: Sequence[Any], attrs: Sequence[Any], decision: Any
    ) -> list[Any]:
        """Carry out an instruction with other inputs; its outputs."""
        ...

    @property
    def mod(self) -> IRModule:
        """The program as it is."""
        ...


class Trace(Scriptable):
    """Instructions in order, with the decisions of those that sample.

    `print(trace)` is a Python function that, called with a fresh schedule of the same program, does the same.
    """

    def __init__(
        self,
        insts: Sequence[Instruction] = (),
        decisions: Mapping[Instruction, Any] | None = None,
        start: Callable[[], Replayable] | None = None,
    ) -> None:
        self.insts: list[Instruction] = list(insts)
        self.decisions: dict[Instruction, Any] = dict(decisions or {})
        # Gives a fresh schedule of the program that the trace was recorded on; None where that is not known.
        self.start = start

    def get_decision(self, inst: Instruction) -> Any:
        """What an instruction decided, or None."""
        return self.decisions.get(inst)

    def append(self, inst: Instruction, decision: Any = None) -> None:
        """Add an instruction at the end."""
        self.insts.append(inst)
        if decision is not None:
            self.decisions[inst] = decision

    def pop(self) -> Instruction | None:
        """Take the last instruction away, with its decision; None when there is none."""
        if not self.insts:
            return None
        inst = self.insts.pop()
        self.decisions.pop(inst, None)
        return inst

    def copy(self) -> Trace:
        """An independent trace of the same instructions."""
        return Trace(self.insts, self.decisions, self.start)

    def _kept(self, remove_postproc: bool) -> list[Instruction]:
        if not remove_postproc:
            return self.insts
        cut = next((i for i, inst in enumerate(self.insts) if inst.kind.is_postproc), len(self.insts))
        return self.insts[:cut]

    # -- forms ----------------------------------------------------------------------------------

    def as_python(self, remove_postproc: bool = False) -> list[str]:
        """The lines of the body of the printed function."""
        insts = self._kept(remove_postproc)
        names = name_outputs(insts)
        return [instruction_text(i, names, self.decisions.get(i)) for i in insts]

    def script(self, **options: Any) -> str:
        """The whole function as text; the only option is `remove_postproc`."""
        lines = self.as_python(bool(options.get("remove_postproc", False))) or ["pass"]
        head = ["# from tvm import tir", "def apply_trace(sch: tir.Schedule) -> None:"]
        return "\n".join([*head, *("  " + line for line in lines)])

    def show(
        self, style: str | None = None, black_format: bool | None = None, costs: bool = False, **options: Any
    ) -> None:
        """Print the function highlighted, or with `costs` the `report`; `style`, `black_format` are as for programs."""
        if costs:
            print(self.report(colours=sys.stdout.isatty()))
        else:
            show_text(self.script(**options), style, black_format)

    def _repr_html_(self) -> str:
        return self.html()

    def as_json(self, remove_postproc: bool = False) -> list[Any]:
        """`[instructions, decisions]`, of lists, numbers and text."""
        insts = self._kept(remove_postproc)
        names = name_outputs(insts)
        decisions = [[k, self.decisions[i]] for k, i in enumerate(insts) if i in self.decisions]
        return [[instruction_json(i, names) for i in insts], decisions]

    # -- steps ------------------------------------------------------------------------------------

    def steps(self) -> list[TraceStep]:
        """The steps, each with the program after it; step 0 is the start.

        The trace is replayed on the program that it was recorded on. Raises ValueError where that is not known: a trace
        that was made by hand, and not by a schedule.

        >>> from tscript.schedule import Schedule
        >>> from tscript.testing.workloads import matmul
        >>> sch = Schedule(matmul(8, 8, 8).func)
        >>> sch.parallel(sch.get_loops("C")[0])
        >>> [step.name for step in sch.trace.steps()]
        ['start', 'parallel']
        """
        if self.start is None:
            raise ValueError("the trace does not know its program; replay it on a schedule, and use that one's trace")
        sch = self.start()
        programs = (sch.mod for _ in self.replayed(sch, remove_postproc=False))
        return collect_steps(self.insts, self.as_python(), programs, sch.mod)

    def report(
        self,
        target: Target | str | None = None,
        values: Mapping[Var | str, int] | None = None,
        colours: bool = False,
    ) -> str:
        """What the program costs after each step, as a table. `target` and `values` are as for `estimate_cost`.

        Raises ValueError as `steps` does.
        """
        steps = self.steps()
        return report(steps, costs_of(steps, target, values), colours)

    def html(self, target: Target | str | None = None, values: Mapping[Var | str, int] | None = None) -> str:
        """Markup that shows the steps one by one, with the program before and after and the cost of each.

        Of a trace that does not know its program, markup of its text. This is what notebooks show for a trace.
        """
        if self.start is None:
            return markup(self.script())
        steps = self.steps()
        return viewer(steps, costs_of(steps, target, values), self.script())

    def save_html(
        self,
        path: str | Path,
        target: Target | str | None = None,
        values: Mapping[Var | str, int] | None = None,
    ) -> None:
        """Write `html` as a page of its own, for any browser."""
        Path(path).write_text(page(self.html(target, values), "Steps of a schedule"), encoding="utf-8")

    # -- derived traces -------------------------------------------------------------------------

    def with_decision(self, inst: Instruction, decision: Any, remove_postproc: bool) -> Trace:
        """The same instructions with one decision changed."""
        insts = self._kept(remove_postproc)
        decisions = {i: self.decisions[i] for i in insts if i in self.decisions}
        decisions[inst] = decision
        return Trace(insts, decisions, self.start)

    def simplified(self, remove_postproc: bool) -> Trace:
        """Without the instructions that change nothing and whose handles nothing uses."""
        used: dict[Any, None] = {}
        kept: list[Instruction] = []
        for inst in reversed(self._kept(remove_postproc)):
            if inst.kind.is_pure and not any(o in used for o in inst.outputs if o is not None):
                continue
            kept.append(inst)
            for value in inst.input_handles():
                if isinstance(value, (BlockRV, LoopRV)):
                    used[value] = None
                elif isinstance(value, IndexMap):
                    used.update(dict.fromkeys(value.free_variables()))
                elif isinstance(value, PrimExpr):
                    post_order_visit(value, lambda n: used.__setitem__(n, None) if isinstance(n, Var) else None)
        kept.reverse()
        return Trace(kept, {i: self.decisions[i] for i in kept if i in self.decisions}, self.start)

    # -- replay ---------------------------------------------------------------------------------

    def apply_to_schedule(
        self, sch: Replayable, remove_postproc: bool, decision_provider: Decide | None = None
    ) -> None:
        """Do the instructions on another schedule.

        `decision_provider(inst, inputs, attrs, decision)` may give another decision. Raises IndexError for an
        input that no earlier instruction gives, and whatever an instruction raises.
        """
        for _ in self.replayed(sch, remove_postproc, decision_provider):
            pass

    def replayed(
        self, sch: Replayable, remove_postproc: bool, decision_provider: Decide | None = None
    ) -> Iterator[Instruction]:
        """`apply_to_schedule`, one instruction at a time: each is given back when it is done."""
        mapped: dict[Any, Any] = {}
        for inst in self._kept(remove_postproc):
            inputs = self.mapped_inputs(inst, mapped)
            decision = self.decisions.get(inst)
            if decision_provider is not None:
                decision = decision_provider(inst, inputs, inst.attrs, decision)
            outputs = sch.run_instruction(inst, inputs, inst.attrs, decision)
            for old, new in zip(inst.outputs, outputs, strict=True):
                if old is not None:
                    mapped[old] = new
            yield inst

    @staticmethod
    def mapped_inputs(inst: Instruction, mapped: Mapping[Any, Any]) -> list[Any]:
        """The inputs of an instruction with other handles. Raises IndexError for a handle that `mapped` lacks."""
        return [_mapped(v, mapped) for v in inst.inputs]

    @staticmethod
    def apply_json_to_schedule(json_obj: Any, sch: Replayable) -> None:
        """Do the instructions of a JSON form on a schedule. ValueError for what is no such form."""
        records, decisions = _parts_of_json(json_obj)
        handles: dict[str, Any] = {}
        for k, record in enumerate(records):
            kind, inputs, attrs, outputs = kind_of_json(record)
            inst = Instruction(kind, [input_from_json(v, handles) for v in inputs], attrs)
            made = sch.run_instruction(inst, inst.inputs, attrs, decisions.get(k))
            if len(made) != len(outputs):
                raise ValueError(
                    f"instruction {k} ({kind.name}) gives {len(made)} handles, but {len(outputs)} are named"
                )
            handles.update({name: rv for name, rv in zip(outputs, made, strict=True) if rv is not None})

    @staticmethod
    def from_json(json_obj: Any) -> Trace:
        """The trace of a JSON form, without any program to run it on. ValueError for what is no such form.

        >>> import tscript
        >>> from tscript.testing.workloads import rms_norm
        >>> sch = tscript.tir.Schedule(rms_norm(4, 6).func)
        >>> i, k = sch.get_loops("square")
        >>> sch.reorder(k, i)
        >>> Trace.from_json(sch.trace.as_json()).script() == sch.trace.script()
        True
        """
        records, decisions = _parts_of_json(json_obj)
        trace = Trace()
        handles: dict[str, Any] = {}
        for k, record in enumerate(records):
            kind, inputs, attrs, outputs = kind_of_json(record)
            made = [_handle_named(name, k) for name in outputs]
            trace.append(
                Instruction(kind, [input_from_json(v, handles) for v in inputs], attrs, made), decisions.get(k)
            )
            handles.update({name: rv for name, rv in zip(outputs, made, strict=True) if rv is not None})
        return trace


def _parts_of_json(json_obj: Any) -> tuple[list[Any], dict[int, Any]]:
    """Instruction records, and decisions by number of instruction. ValueError for what is no such form."""
    if not (isinstance(json_obj, (list, tuple)) and len(json_obj) == 2):  # pyright: ignore[reportUnknownArgumentType]
        raise ValueError("a trace in JSON is [instructions, decisions]")
    records, decided = json_obj  # pyright: ignore[reportUnknownVariableType]
    if not (isinstance(records, list) and isinstance(decided, list)):
        raise ValueError("a trace in JSON is [instructions, decisions]")
    decisions: dict[int, Any] = {}
    for pair in decided:  # pyright: ignore[reportUnknownVariableType]
        if not (isinstance(pair, (list, tuple)) and len(pair) == 2 and isinstance(pair[0], int)):  # pyright: ignore[reportUnknownArgumentType]
            raise ValueError(f"a decision is [instruction number, value], not {pair!r}")
        decisions[pair[0]] = pair[1]
    return records, decisions  # pyright: ignore[reportUnknownVariableType]


_HANDLES: Mapping[str, Callable[[], Any]] = {"b": BlockRV, "l": LoopRV, "v": new_expr_rv}


def _handle_named(name: Any, k: int) -> Any:
    """A handle of the sort that its name in JSON tells; None for one that is left open."""
    if name == "_":
        return None
    make = _HANDLES.get(name[:1]) if isinstance(name, str) else None
    if make is None:
        raise ValueError(f"instruction {k} gives {name!r}: handles are named b, l or v and a number")
    return make()


def _mapped(value: Any, mapped: Mapping[Any, Any]) -> Any:
    if isinstance(value, (BlockRV, LoopRV)):
        if value not in mapped:
            raise IndexError(f"{value!r} is used before any instruction gives it")
        return mapped[value]
    if isinstance(value, (list, tuple)):
        return [_mapped(v, mapped) for v in value]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, Mapping):
        return {k: _mapped(v, mapped) for k, v in value.items()}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, IndexMap):
        free = value.free_variables()
        return value.with_values({v: mapped[v] for v in free if v in mapped}) if free else value
    if isinstance(value, PrimExpr):
        return substitute(value, {k: v for k, v in mapped.items() if isinstance(k, Var) and isinstance(v, PrimExpr)})
    return value
