"""A function of the user in place of records."""

from __future__ import annotations

from collections.abc import Callable

from tscript.ir.function import IRModule
from tscript.meta_schedule.database.database import Database
from tscript.meta_schedule.database.equality import ModuleEquality
from tscript.meta_schedule.database.record import TuningRecord, Workload
from tscript.meta_schedule.tune_context import normalize_mod
from tscript.schedule.schedule import Schedule
from tscript.target.target import Target


class ScheduleFnDatabase(Database):
    """Answers queries by scheduling: `schedule_fn(sch)` changes a fresh schedule and says whether it did."""

    def __init__(
        self, schedule_fn: Callable[[Schedule], bool], module_equality: str | ModuleEquality = "structural"
    ) -> None:
        self.equality = ModuleEquality.create(module_equality)
        self.schedule_fn = schedule_fn

    def query_schedule(self, mod: IRModule, target: Target, workload_name: str = "main") -> Schedule | None:
        """The schedule that the function makes, or None."""
        sch = Schedule(normalize_mod(mod))
        return sch if self.schedule_fn(sch) else None

    def query_tuning_record(self, mod: IRModule, target: Target, workload_name: str = "main") -> TuningRecord | None:
        """The schedule that the function makes, as a record without a measurement."""
        sch = self.query_schedule(mod, target, workload_name)
        if sch is None or sch.trace is None:
            return None
        mod = normalize_mod(mod)
        return TuningRecord(sch.trace, Workload(mod, self.equality.hash(mod)), target=target)

    def has_workload(self, mod: IRModule) -> bool:
        """Refused: a function keeps nothing."""
        raise NotImplementedError(_REFUSED)

    def commit_workload(self, mod: IRModule) -> Workload:
        """Refused: a function keeps nothing."""
        raise NotImplementedError(_REFUSED)

    def commit_tuning_record(self, record: TuningRecord) -> None:
        """Refused: a function keeps nothing."""
        raise NotImplementedError(_REFUSED)

    def get_top_k(self, workload: Workload, top_k: int, target: Target | None = None) -> list[TuningRecord]:
        """Refused: a function keeps nothing."""
        raise NotImplementedError(_REFUSED)

    def get_all_tuning_records(self) -> list[TuningRecord]:
        """Refused: a function keeps nothing."""
        raise NotImplementedError(_REFUSED)

    def __len__(self) -> int:
        raise NotImplementedError(_REFUSED)


_REFUSED = "a database of a schedule function keeps no records; it only answers queries"
