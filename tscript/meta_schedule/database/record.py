"""Workloads and records of their schedules, and their forms as JSON values."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from tscript.ir.function import IRModule
from tscript.ir.hashing import structural_hash
from tscript.ir.json_io import load_json, save_json
from tscript.meta_schedule.arg_info import ArgInfo
from tscript.meta_schedule.candidate import MeasureCandidate
from tscript.schedule.schedule import Schedule
from tscript.schedule.trace import Trace
from tscript.target.target import Target

FAILED: float = 1e10
"""Seconds that stand for a run that failed."""


@dataclass(frozen=True, eq=False)
class Workload:
    """A program that is tuned; `shash` is its structural hash, by which equal ones are found."""

    mod: IRModule
    shash: int

    def as_json(self) -> list[Any]:
        """Its two values: the hash as text, and the saved program in base64."""
        saved = save_json(self.mod, spans=False)
        return [str(self.shash), base64.b64encode(saved.encode()).decode()]

    @staticmethod
    def from_json(json_obj: list[Any]) -> Workload:
        """The workload of its two values. Raises ValueError for what is none.

        >>> from tscript.testing.workloads import matmul
        >>> given = Workload(IRModule({"main": matmul(4, 4, 4).func}), 7)
        >>> len(Workload.from_json(given.as_json()).mod.functions)
        1
        """
        mod = workload_module(json_obj)
        return Workload(mod, structural_hash(next(iter(mod.functions.values()), ()), map_free_vars=True))


@dataclass(frozen=True, eq=False)
class TuningRecord:
    """A schedule of a workload, as its trace, with the seconds that it took; `[1e10]` stands for a failure.

    `error` says why it failed; it is empty for a success. `program` is the hash of the scheduled program, by which a
    later search knows what was measured already, and `when` the time of the measurement (seconds since 1970).
    """

    trace: Trace
    workload: Workload
    run_secs: list[float] | None = None
    target: Target | None = None
    args_info: list[ArgInfo] | None = None
    error: str = field(default="", kw_only=True)
    program: int | None = field(default=None, kw_only=True)
    when: float | None = field(default=None, kw_only=True)

    def as_json(self) -> list[Any]:
        """Its four values: trace, seconds, target and arguments."""
        return [
            self.trace.as_json(),
            None if self.run_secs is None else [float(s) for s in self.run_secs],
            None if self.target is None else self.target.export(),
            None if self.args_info is None else [a.as_json() for a in self.args_info],
        ]

    def extra(self) -> dict[str, Any]:
        """What is known of it besides its four values."""
        found: dict[str, Any] = {}
        if self.error:
            found["error"] = self.error
        if self.program is not None:
            found["program"] = str(self.program)
        if self.when is not None:
            found["when"] = self.when
        return found

    @staticmethod
    def from_json(json_obj: Any, workload: Workload, extra: Mapping[str, Any] | None = None) -> TuningRecord:
        """The record of its four values, and of what `extra` gave. Raises ValueError for what is none."""
        match json_obj:
            case [[*trace], run_secs, target, args_info]:
                pass
            case _:
                raise ValueError("a record is [trace, run_secs, target, args_info]")
        more = extra or {}
        return TuningRecord(
            Trace.from_json(trace),
            workload,
            _seconds(run_secs),
            None if target is None else Target(target),
            None if args_info is None else [ArgInfo.from_json(a) for a in _list(args_info, "args_info")],
            error=str(more.get("error", "")),
            program=int(more["program"]) if "program" in more else None,
            when=float(more["when"]) if "when" in more else None,
        )

    @property
    def is_valid(self) -> bool:
        """Whether it is a schedule that ran."""
        own = [i for i in self.trace.insts if not i.kind.is_postproc]
        return bool(own) and any(s < FAILED for s in self.run_secs or ())

    @property
    def mean_secs(self) -> float:
        """Mean seconds of the runs; 1e10 without any."""
        return sum(self.run_secs) / len(self.run_secs) if self.run_secs else FAILED

    def schedule(self, mod: IRModule | None = None) -> Schedule:
        """The schedule, replayed on the workload (or on `mod`), postprocessing included."""
        sch = Schedule(self.workload.mod if mod is None else mod)
        self.trace.apply_to_schedule(sch, remove_postproc=False)
        return sch

    def as_measure_candidate(self) -> MeasureCandidate:
        """The candidate that was measured."""
        sch = self.schedule()
        return MeasureCandidate(sch, self.args_info or ArgInfo.from_entry_func(sch.mod))


def workload_module(values: list[Any]) -> IRModule:
    """The program of a workload's values. Raises ValueError for what is none."""
    match values:
        case [str(), str(text)]:
            pass
        case _:
            raise ValueError('a workload is ["<hash>", "<base64 of the module>"]')
    try:
        saved = base64.b64decode(text, validate=True)
    except binascii.Error as e:
        raise ValueError(f"its program is no base64 ({e})") from e
    mod = load_json(saved)
    if not isinstance(mod, IRModule):
        raise ValueError(f"its program is no module but {type(mod).__name__}")
    return mod


def _seconds(value: Any) -> list[float] | None:
    if value is None:
        return None
    seconds = _list(value, "run_secs")
    if not all(type(s) in (int, float) for s in seconds):
        raise ValueError(f"run_secs is a list of seconds, not {seconds!r}")
    return [float(s) for s in seconds]


def _list(value: Any, name: str) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"{name} is a list, not {value!r}")
    return cast("list[Any]", value)
