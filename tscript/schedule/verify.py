"""Which step of a trace changes what the program computes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tscript.equivalence import Report
from tscript.ir.function import IRModule
from tscript.schedule.core import ScheduleCore
from tscript.schedule.instruction import Instruction
from tscript.schedule.numeric import NumericCheck, Verification
from tscript.schedule.primitive import run_instruction
from tscript.schedule.trace import Trace
from tscript.schedule.trace_text import instruction_text, name_outputs


class _Found(Exception):
    """The step is known; the rest of the trace does not matter."""


class _Stepper:
    """What a trace is replayed onto: a schedule whose program is compared after each step."""

    def __init__(self, trace: Trace, sch: ScheduleCore, numeric: NumericCheck) -> None:
        self.sch, self.numeric = sch, numeric
        self.result = Verification()
        self._trace = trace
        self._names = name_outputs(trace.insts)
        # The first step that may have changed the result, of those that are not compared one by one.
        self._suspect: tuple[int, str, Report] | None = None

    @property
    def mod(self) -> IRModule:
        """The program as it is."""
        return self.sch.state.mod

    def run_instruction(
        self, inst: Instruction, inputs: Sequence[Any], attrs: Sequence[Any], decision: Any
    ) -> list[Any]:
        """Carry out a step and compare; _Found for the first that changes the result."""
        before = {**self.sch.state.mod.functions}
        outputs = run_instruction(self.sch, inst, inputs, attrs, decision)
        k = self.result.steps
        self.result.steps += 1
        recorded = self._trace.insts[k]
        text = instruction_text(recorded, self._names, self._trace.decisions.get(recorded))
        report = self._compared(before, k, text)
        deferred = bool(self.sch.unverified) and not self.sch.unverified[-1].every_step
        if report is None:
            if not self.numeric.not_compared:
                self._suspect = None
        elif deferred:
            self._suspect = self._suspect or (k, text, report)
        else:
            self._name(self._suspect or (k, text, report))
        if not deferred and self._suspect is not None:
            self._name(self._suspect)
        return outputs

    def _compared(self, before: dict[Any, Any], k: int, text: str) -> Report | None:
        """How the program differs from the one before all steps; nothing new where this one changed nothing."""
        now = self.sch.state.mod
        if all(now.functions.get(v) is f for v, f in before.items()):
            self.numeric.not_compared = "nothing changed"
            return None
        report = self.numeric.compare(before, now)
        if self.numeric.not_compared:
            self.result.not_compared.append((k, text, self.numeric.not_compared))
        return report

    def _name(self, found: tuple[int, str, Report]) -> None:
        self.result.step, self.result.instruction, self.result.report = found
        raise _Found

    def finish(self) -> Verification:
        """What was found, once there are no more steps."""
        if self._suspect is not None and self.result.report is None:
            self.result.step, self.result.instruction, self.result.report = self._suspect
        return self.result


def verified(trace: Trace | None, fresh: ScheduleCore, numeric: NumericCheck) -> Verification:
    """Replay a trace on a fresh schedule of its program and compare after each step. ValueError without a trace."""
    if trace is None:
        raise ValueError("the schedule records no trace, so there are no steps to verify")
    stepper = _Stepper(trace, fresh, numeric)
    try:
        trace.apply_to_schedule(stepper, remove_postproc=False)
    except _Found:
        pass
    return stepper.finish()
