"""Workloads and records in memory, found by hash, as every database that keeps them itself needs."""

from __future__ import annotations

import heapq
import logging
from abc import abstractmethod
from threading import RLock

from tscript.ir.function import IRModule
from tscript.meta_schedule.database.database import Database
from tscript.meta_schedule.database.equality import ModuleEquality
from tscript.meta_schedule.database.record import TuningRecord, Workload
from tscript.meta_schedule.database.transfer import schedule_like
from tscript.meta_schedule.tune_context import normalize_mod
from tscript.schedule.schedule import Schedule
from tscript.support.wording import kind_of
from tscript.target.target import Target


class Shelf:
    """Workloads in order, each with its records."""

    def __init__(self, equality: ModuleEquality) -> None:
        self.equality = equality
        self.workloads: list[Workload] = []
        self.records: list[TuningRecord] = []
        self.of_workload: list[list[TuningRecord]] = []
        self._by_hash: dict[int, list[int]] = {}
        self._number: dict[Workload, int] = {}

    def find(self, mod: IRModule) -> int | None:
        """The number of the workload of a program, or None."""
        key = self.equality.hash(mod)
        for i in self._by_hash.get(key, ()):
            if self.equality.equal(self.workloads[i].mod, mod):
                return i
        return None

    def add(self, mod: IRModule) -> Workload:
        """A new workload."""
        workload = Workload(mod, self.equality.hash(mod))
        self._by_hash.setdefault(workload.shash, []).append(len(self.workloads))
        self._number[workload] = len(self.workloads)
        self.workloads.append(workload)
        self.of_workload.append([])
        return workload

    def number(self, workload: Workload) -> int | None:
        """The number of a workload, be it one of these objects or an equal one."""
        known = self._number.get(workload)
        return self.find(workload.mod) if known is None else known

    def put(self, number: int, record: TuningRecord) -> None:
        """Add a record of a workload."""
        self.records.append(record)
        self.of_workload[number].append(record)

    def best(self, number: int | None, count: int, target: Target | None) -> list[TuningRecord]:
        """The fastest records that ran; equal ones in the order of commits."""
        if number is None:
            return []
        fits = (r for r in self.of_workload[number] if r.is_valid and (target is None or r.target == target))
        return heapq.nsmallest(count, fits, key=lambda r: r.mean_secs)


class ShelfDatabase(Database):
    """A database whose records are all in memory; subclasses say where else they are kept."""

    def __init__(self, module_equality: str | ModuleEquality = "structural") -> None:
        self.equality = ModuleEquality.create(module_equality)
        self._shelf = Shelf(self.equality)
        self._lock = RLock()

    @abstractmethod
    def _commit(self, mod: IRModule | None, record: TuningRecord | None) -> Workload:
        """Keep a new workload, or a record of a workload that is known."""

    def _find(self, mod: IRModule) -> int | None:
        """The number of a program. Functions are tuned with `tir.noalias`, be it set in the program given or not."""
        number = self._shelf.find(mod)
        if number is None:
            number = self._shelf.find(IRModule({v: f.with_attr("tir.noalias", True) for v, f in mod.functions.items()}))
        return number

    def _refresh(self) -> None:
        """Learn what others have kept meanwhile."""

    def has_workload(self, mod: IRModule) -> bool:
        """Whether a program is known."""
        with self._lock:
            self._refresh()
            return self._find(normalize_mod(mod)) is not None

    def commit_workload(self, mod: IRModule) -> Workload:
        """The entry of a program, made if need be."""
        mod = normalize_mod(mod)
        with self._lock:
            self._refresh()
            number = self._find(mod)
            return self._shelf.workloads[number] if number is not None else self._commit(mod, None)

    def commit_tuning_record(self, record: TuningRecord) -> None:
        """Add a record. Its workload is added too, where it is unknown.

        Raises TypeError for what is no record.
        """
        if not isinstance(record, TuningRecord):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"a TuningRecord is committed, not {kind_of(record)}")
        with self._lock:
            self._refresh()
            if self._shelf.number(record.workload) is None:
                self._commit(record.workload.mod, None)
            self._commit(None, record)

    def get_top_k(self, workload: Workload, top_k: int, target: Target | None = None) -> list[TuningRecord]:
        """At most `top_k` records that ran, fastest (by mean) first; of one target, if it is given."""
        if top_k < 0:
            raise ValueError(f"top_k is at least 0, not {top_k}")
        with self._lock:
            self._refresh()
            return self._shelf.best(self._shelf.number(workload), top_k, target)

    def get_all_tuning_records(self) -> list[TuningRecord]:
        """Every record, in the order of commits."""
        with self._lock:
            self._refresh()
            return list(self._shelf.records)

    def get_all_workloads(self) -> list[Workload]:
        """Every workload, in the order of commits."""
        with self._lock:
            self._refresh()
            return list(self._shelf.workloads)

    def __len__(self) -> int:
        with self._lock:
            self._refresh()
            return len(self._shelf.records)

    def query_tuning_record(self, mod: IRModule, target: Target, workload_name: str = "main") -> TuningRecord | None:
        """The fastest record of a program for a target.

        A warning tells when there are records, but all for other targets.
        """
        del workload_name  # programs are found by what they are
        with self._lock:
            self._refresh()
            number = self._find(normalize_mod(mod))
            found = self._shelf.best(number, 1, target)
            others = [] if found else self._shelf.best(number, len(self._shelf.records), None)
        if others:
            names = "; ".join(sorted({str(r.target) for r in others}))
            logger = logging.getLogger("tscript.meta_schedule")
            logger.warning("the program was tuned, but not for %s; there are records for %s", target, names)
        return found[0] if found else None

    def query_schedule(self, mod: IRModule, target: Target, workload_name: str = "main") -> Schedule | None:
        """The fastest schedule of a program for a target, replayed on it; None where nothing is known."""
        record = self.query_tuning_record(mod, target, workload_name)
        if record is None:
            return None
        mod = normalize_mod(mod)
        if self.equality.kind == "anchor-block":
            return schedule_like(mod, record)
        return record.schedule(mod)
