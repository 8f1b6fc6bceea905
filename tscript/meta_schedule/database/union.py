"""Databases asked together."""

from __future__ import annotations

from tscript.ir.function import IRModule
from tscript.meta_schedule.database.database import Database
from tscript.meta_schedule.database.record import TuningRecord, Workload
from tscript.schedule.schedule import Schedule
from tscript.target.target import Target


class _ReadOnly(Database):
    """Several databases, for queries only."""

    def __init__(self, *databases: Database) -> None:
        self.databases = list(databases)

    def has_workload(self, mod: IRModule) -> bool:
        """Whether one of them knows a program."""
        return any(d.has_workload(mod) for d in self.databases)

    def commit_workload(self, mod: IRModule) -> Workload:
        """Refused: which of them should keep it?"""
        raise NotImplementedError("a union of databases only answers queries; commit to one of its members")

    def commit_tuning_record(self, record: TuningRecord) -> None:
        """Refused: which of them should keep it?"""
        raise NotImplementedError("a union of databases only answers queries; commit to one of its members")

    def get_top_k(self, workload: Workload, top_k: int, target: Target | None = None) -> list[TuningRecord]:
        """The fastest records of all of them."""
        found = [r for d in self.databases for r in d.get_top_k(workload, top_k, target)]
        return sorted(found, key=lambda r: r.mean_secs)[:top_k]

    def get_all_tuning_records(self) -> list[TuningRecord]:
        """The records of each in turn."""
        return [r for d in self.databases for r in d.get_all_tuning_records()]

    def __len__(self) -> int:
        return sum(len(d) for d in self.databases)


class UnionDatabase(_ReadOnly):
    """The best answer that any of several databases gives."""

    def query_tuning_record(self, mod: IRModule, target: Target, workload_name: str = "main") -> TuningRecord | None:
        """The fastest record of a program in any of them."""
        found = [r for d in self.databases if (r := d.query_tuning_record(mod, target, workload_name)) is not None]
        return min(found, key=lambda r: r.mean_secs, default=None)

    def query_schedule(self, mod: IRModule, target: Target, workload_name: str = "main") -> Schedule | None:
        """The schedule of the database that has the fastest record."""
        best: tuple[float, Database] | None = None
        for d in self.databases:
            record = d.query_tuning_record(mod, target, workload_name)
            if record is not None and (best is None or record.mean_secs < best[0]):
                best = record.mean_secs, d
        return None if best is None else best[1].query_schedule(mod, target, workload_name)


class OrderedUnionDatabase(_ReadOnly):
    """The answer of the first of several databases that has one."""

    def query_tuning_record(self, mod: IRModule, target: Target, workload_name: str = "main") -> TuningRecord | None:
        """The record that the first of them gives."""
        answers = (d.query_tuning_record(mod, target, workload_name) for d in self.databases)
        return next((r for r in answers if r is not None), None)

    def query_schedule(self, mod: IRModule, target: Target, workload_name: str = "main") -> Schedule | None:
        """The schedule that the first of them gives."""
        answers = (d.query_schedule(mod, target, workload_name) for d in self.databases)
        return next((s for s in answers if s is not None), None)
