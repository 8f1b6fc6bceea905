"""The database's role: what was tuned, and how well it went."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, Literal

from rich.console import Console
from rich.table import Table

from tscript.analysis.flops import estimate_tir_flops
from tscript.ir.function import IRModule, PrimFunc
from tscript.meta_schedule.component import Component
from tscript.meta_schedule.database.record import TuningRecord, Workload
from tscript.schedule.schedule import Schedule
from tscript.target.target import Target

Kind = Literal["schedule", "record", "ir_module"]
_entered: ContextVar[tuple[Database, ...]] = ContextVar("tscript_databases", default=())


class Database(Component, role="database"):
    """Keeps tuning records of workloads and finds the best. Used with `with`, it is `Database.current()` inside."""

    @abstractmethod
    def has_workload(self, mod: IRModule) -> bool:
        """Whether a program is known."""

    @abstractmethod
    def commit_workload(self, mod: IRModule) -> Workload:
        """The entry of a program, made if need be."""

    @abstractmethod
    def commit_tuning_record(self, record: TuningRecord) -> None:
        """Add a record."""

    @abstractmethod
    def get_top_k(self, workload: Workload, top_k: int, target: Target | None = None) -> list[TuningRecord]:
        """At most `top_k` records that ran, fastest (by mean) first; of one target, if it is given."""

    @abstractmethod
    def get_all_tuning_records(self) -> list[TuningRecord]:
        """Every record, in the order of commits."""

    @abstractmethod
    def __len__(self) -> int:
        """Number of records."""

    @property
    def unkept(self) -> int:
        """Records that are in memory alone, as they could not be written where this database keeps them."""
        return 0

    @abstractmethod
    def query_tuning_record(self, mod: IRModule, target: Target, workload_name: str = "main") -> TuningRecord | None:
        """The fastest record of a program for a target."""

    def query_schedule(self, mod: IRModule, target: Target, workload_name: str = "main") -> Schedule | None:
        """The fastest schedule of a program for a target, replayed on it; None where nothing is known."""
        record = self.query_tuning_record(mod, target, workload_name)
        return None if record is None else record.schedule(mod)

    def query_ir_module(self, mod: IRModule, target: Target, workload_name: str = "main") -> IRModule | None:
        """The program under its fastest schedule."""
        sch = self.query_schedule(mod, target, workload_name)
        return None if sch is None else sch.mod

    def query(self, mod: IRModule, target: Target, *, workload_name: str = "main", kind: Kind = "schedule") -> Any:
        """What is best known of a program, as a "schedule", "record" or "ir_module"."""
        asked = {
            "schedule": self.query_schedule,
            "record": self.query_tuning_record,
            "ir_module": self.query_ir_module,
        }
        if kind not in asked:
            raise ValueError(f"kind is one of {', '.join(map(repr, asked))}, not {kind!r}")
        return asked[kind](mod, target, workload_name)

    def best_records(self) -> list[TuningRecord]:
        """The fastest record of each workload and target that has one, in the order of their first records."""
        best: dict[tuple[int, str], TuningRecord] = {}
        for r in self.get_all_tuning_records():
            key = id(r.workload), str(r.target)
            if r.is_valid and (key not in best or r.mean_secs < best[key].mean_secs):
                best[key] = r
        return list(best.values())

    def show(self) -> None:
        """Print, for each workload and target, how many records there are, how many failed, and the best."""
        table = Table(box=None, pad_edge=False)
        for title in ("workload", "target", "records", "failed", "best (us)", "GFLOPS"):
            table.add_column(title, no_wrap=True, overflow="ignore")
        groups: dict[tuple[int, str], list[TuningRecord]] = {}
        for r in self.get_all_tuning_records():
            groups.setdefault((id(r.workload), str(r.target)), []).append(r)
        for (_, target), records in groups.items():
            mod = records[0].workload.mod
            names = ", ".join(f"{v.name_hint}({_takes(f)})" for v, f in mod.functions.items())
            ran = [r.mean_secs for r in records if r.is_valid]
            best = f"{min(ran) * 1e6:.2f}" if ran else "none"
            speed = f"{estimate_tir_flops(mod) / min(ran) / 1e9:.2f}" if ran else ""
            table.add_row(names, target, str(len(records)), str(len(records) - len(ran)), best, speed)
        Console(width=max(200, Console().width)).print(table)

    def dump_pruned(self, destination: Database) -> None:
        """Copy the fastest record of each workload and target to another database."""
        copy_records(self.best_records(), destination)

    def __enter__(self) -> Database:
        _entered.set((*_entered.get(), self))
        return self

    def __exit__(self, *exc: object) -> None:
        _entered.set(_entered.get()[:-1])

    @staticmethod
    def current() -> Database | None:
        """The innermost database that was entered with `with`."""
        entered = _entered.get()
        return entered[-1] if entered else None


def _takes(func: PrimFunc) -> str:
    shapes: list[str] = []
    for p in func.params:
        buffer = func.buffer_map.get(p)
        shapes.append(p.name if buffer is None else f"{buffer.dtype} {'x'.join(map(str, buffer.shape))}")
    return ", ".join(shapes)


def copy_records(records: Iterable[TuningRecord], destination: Database) -> int:
    """Commit records to a database; how many there were."""
    count = 0
    for r in records:
        workload = destination.commit_workload(r.workload.mod)
        destination.commit_tuning_record(replace(r, workload=workload))
        count += 1
    return count


PyDatabase = Database
