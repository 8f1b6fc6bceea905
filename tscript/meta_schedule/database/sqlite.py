"""A database in one SQLite file, for many processes and many records."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tscript.ir.function import IRModule
from tscript.meta_schedule.database.codec import (
    dump_line,
    parse_line,
    record_extra,
    record_of,
    record_values,
    workload_module,
    workload_values,
)
from tscript.meta_schedule.database.database import TuningRecord, Workload
from tscript.meta_schedule.database.equality import ModuleEquality
from tscript.meta_schedule.database.shelf import ShelfDatabase

FILE = "database.sqlite"
_TABLES = """
CREATE TABLE IF NOT EXISTS workload (id INTEGER PRIMARY KEY, line TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS record (
    id INTEGER PRIMARY KEY, workload INTEGER NOT NULL, line TEXT NOT NULL, time REAL NOT NULL
);
CREATE INDEX IF NOT EXISTS record_of_workload ON record (workload);
"""


class SQLiteDatabase(ShelfDatabase):
    """Records in an SQLite file, `database.sqlite` in `work_dir` unless `path` says otherwise.

    Each commit is a transaction: a process killed at any moment loses at most the record it was writing, and any
    number of processes may read and write at once. Lines are those of `JSONDatabase`.

    Raises ValueError for a file that is no such database or holds a damaged record.
    """

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        work_dir: str | Path | None = None,
        module_equality: str | ModuleEquality = "structural",
        timeout_sec: float = 60.0,
    ) -> None:
        super().__init__(module_equality)
        if path is None and work_dir is None:
            raise ValueError("an SQLite database needs a path or a work_dir")
        self.path = Path(path or Path(work_dir or ".") / FILE)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._timeout = timeout_sec
        self._numbers: dict[int, int] = {}
        self._ids: dict[int, int] = {}
        self._last = (0, 0)
        with self._connection() as c:
            c.executescript(_TABLES)
        with self._lock:
            self._refresh()

    @contextmanager
    def _connection(self) -> Generator[sqlite3.Connection, None, None]:
        # One for each use: connections belong to a thread, and must not be carried over a fork.
        connection = sqlite3.connect(self.path, timeout=self._timeout, isolation_level=None)
        try:
            connection.execute("PRAGMA synchronous=FULL")
            yield connection
        except sqlite3.DatabaseError as e:
            raise ValueError(f"{self.path} cannot be used as a database of tuning records: {e}") from e
        finally:
            connection.close()

    def _refresh(self) -> None:
        with self._connection() as c:
            self._learn(c)

    def _learn(self, c: sqlite3.Connection) -> None:
        workload_id, record_id = self._last
        # Records first: what they refer to is committed before them.
        records = c.execute("SELECT id, workload, line FROM record WHERE id > ? ORDER BY id", (record_id,)).fetchall()
        workloads = c.execute("SELECT id, line FROM workload WHERE id > ? ORDER BY id", (workload_id,)).fetchall()
        for key, line in workloads:
            self._learn_workload(key, line)
        for key, workload, line in records:
            try:
                (_, values), extra = parse_line(line)
                number = self._numbers[workload]
                record = record_of(values, self._shelf.workloads[number], extra)
            except (ValueError, KeyError, TypeError) as e:
                raise ValueError(f"{self.path}: record {key} cannot be read: {e}") from e
            self._shelf.put(number, record)
            self._last = self._last[0], key

    def _learn_workload(self, key: int, line: str) -> None:
        try:
            mod = workload_module(parse_line(line)[0])
        except ValueError as e:
            raise ValueError(f"{self.path}: workload {key} cannot be read: {e}") from e
        number = self._shelf.find(mod)
        if number is None:
            number = len(self._shelf.workloads)
            self._shelf.add(mod)
        self._ids.setdefault(number, key)
        self._numbers[key] = number
        self._last = key, self._last[1]

    def _commit(self, mod: IRModule | None, record: TuningRecord | None) -> Workload:
        with self._connection() as c:
            c.execute("BEGIN IMMEDIATE")
            self._learn(c)
            number = self._insert_workload(c, mod) if mod is not None else self._insert_record(c, record)
            c.execute("COMMIT")
            # What is kept now is learnt as from any other writer; a failure before leaves no trace.
            self._learn(c)
            if mod is not None:
                number = self._shelf.find(mod)
        assert number is not None
        return self._shelf.workloads[number]

    def _insert_workload(self, c: sqlite3.Connection, mod: IRModule) -> int | None:
        number = self._shelf.find(mod)
        if number is None:
            line = dump_line(workload_values(Workload(mod, self.equality.hash(mod))))
            c.execute("INSERT INTO workload (line) VALUES (?)", (line,))
        return number

    def _insert_record(self, c: sqlite3.Connection, record: TuningRecord | None) -> int:
        assert record is not None
        number = self._shelf.number(record.workload)
        assert number is not None
        key = self._ids[number]
        line = dump_line([key, record_values(record)], record_extra(record))
        c.execute("INSERT INTO record (workload, line, time) VALUES (?, ?, ?)", (key, line, time.time()))
        return number
