"""A database in one SQLite file, for many processes and many records."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tscript.meta_schedule.database.codec import dump_line
from tscript.meta_schedule.database.equality import ModuleEquality
from tscript.meta_schedule.database.file_database import Damaged, FileDatabase, Found
from tscript.meta_schedule.database.line_file import FileLock, put_aside
from tscript.meta_schedule.database.record import TuningRecord
from tscript.meta_schedule.database.sqlite_pages import table_rows

FILE = "database.sqlite"
_TABLES = """
CREATE TABLE IF NOT EXISTS workload (id INTEGER PRIMARY KEY, line TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS record (
    id INTEGER PRIMARY KEY, workload INTEGER NOT NULL, line TEXT NOT NULL, time REAL NOT NULL
);
CREATE TABLE IF NOT EXISTS copy (id INTEGER PRIMARY KEY, line TEXT NOT NULL, made REAL NOT NULL);
CREATE INDEX IF NOT EXISTS record_of_workload ON record (workload);
"""
_RECORDS = "SELECT id, workload, line FROM record WHERE id > ? ORDER BY id"
_WORKLOADS = "SELECT id, line FROM workload WHERE id > ? ORDER BY id"
_PASSING = ("locked", "busy", "full", "readonly", "read-only", "disk i/o", "unable to open")
"""Words of failures that leave the file as it is."""


class SQLiteDatabase(FileDatabase):
    """Records in an SQLite file, `database.sqlite` in `work_dir` unless `path` says otherwise.

    Each commit is a transaction: a process killed at any moment loses at most the record it was writing, and any
    number of processes may read and write at once. Lines are those of `JSONDatabase`; a second table has a copy of each
    workload, for repair only. `repair` opens a damaged file:
    what can be read is kept, the file is written anew, and what it was is put aside.

    Raises ValueError for a file that is no such database or holds a damaged record.
    """

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        work_dir: str | Path | None = None,
        module_equality: str | ModuleEquality = "structural",
        timeout_sec: float = 60.0,
        repair: bool = False,
    ) -> None:
        super().__init__(module_equality)
        if path is None and work_dir is None:
            raise ValueError("an SQLite database needs a path or a work_dir")
        self.path = Path(path or Path(work_dir or ".") / FILE)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._timeout = timeout_sec
        self._last = (0, 0)
        self._file: tuple[int, int] | None = None
        if not repair:
            with _connection(self.path, timeout_sec, make=True) as c:
                c.executescript(_TABLES)
            self._file = _identity(self.path)
        self._open(repair)

    def _damage(self) -> str:
        found = _identity(self.path)
        if found == self._file:
            return ""
        return "was deleted" if found is None else "was replaced by another file"

    def _learn_new(self) -> None:
        with _connection(self.path, self._timeout) as c:
            self._learn(c)

    def _learn(self, c: sqlite3.Connection) -> None:
        # Records first: what they refer to is committed before them.
        records = c.execute(_RECORDS, (self._last[1],)).fetchall()
        for key, line in c.execute(_WORKLOADS, (self._last[0],)).fetchall():
            with self._naming(f"workload {key}"):
                self._learn_workload(key, line)
            self._last = key, self._last[1]
        for key, workload, line in records:
            with self._naming(f"record {key}"):
                number, record = self._read_record(line)
                if self._numbers.get(workload) != number:
                    raise ValueError(f"it says that it is of workload {workload}, and is of another")
            self._shelf.put(number, record)
            self._last = self._last[0], key

    @contextmanager
    def _naming(self, what: str) -> Generator[None, None, None]:
        try:
            yield
        except Exception as e:
            raise Damaged(
                f"{self.path}: {what} cannot be read: {e}; `python -m tscript db repair` keeps those that can"
            ) from e

    def _keep_all(self) -> None:
        self._catch_up()
        if not self._unkept:
            return
        with _connection(self.path, self._timeout) as c:
            c.execute("BEGIN IMMEDIATE")
            self._learn(c)
            last = self._last
            keys: dict[int, int] = {}
            for number, record in self._unkept:
                last = self._insert(c, number, record, keys, last)
            c.execute("COMMIT")
        # Only now is anything of it kept; a failure before leaves no trace.
        self._keys.update(keys)
        self._numbers.update({key: number for number, key in keys.items()})
        self._last = last
        self._unkept.clear()

    def _insert(
        self,
        c: sqlite3.Connection,
        number: int,
        record: TuningRecord | None,
        keys: dict[int, int],
        last: tuple[int, int],
    ) -> tuple[int, int]:
        """Insert a workload, if it has no key yet, and a record; the last keys then. `keys` learns the new ones."""
        key = self._keys.get(number, keys.get(number))
        if key is None:
            line = dump_line(self._shelf.workloads[number].as_json())
            key = keys[number] = c.execute("INSERT INTO workload (line) VALUES (?)", (line,)).lastrowid or 0
            c.execute("INSERT OR REPLACE INTO copy (id, line, made) VALUES (?, ?, ?)", (key, line, time.time()))
            last = key, last[1]
        if record is None:
            return last
        values = (key, dump_line([key, record.as_json()], record.extra()), record.when or time.time())
        row = c.execute("INSERT INTO record (workload, line, time) VALUES (?, ?, ?)", values).lastrowid or 0
        return last[0], row

    def _restore(self, why: str) -> None:
        with FileLock(self.path).held():
            found = read_rows(self.path, self._timeout)
            missing, damaged = self._merge(found)
            if missing or damaged or not self.path.exists():
                aside = self._write_anew(damaged > 0)
                self._warn_restored(why, missing, damaged, aside)
            else:
                with _connection(self.path, self._timeout) as c:
                    ids = (c.execute(f"SELECT max(id) FROM {t}").fetchone()[0] or 0 for t in ("workload", "record"))
                    workload, record = ids
                self._last = workload, record
            self._file = _identity(self.path)

    def _write_anew(self, keep: bool) -> Path | None:
        """Write the file from memory; where the damaged one went, if it is kept."""
        part = self.path.with_name(f"{self.path.name}.part")
        part.unlink(missing_ok=True)
        shelf = self._shelf
        keys: dict[int, int] = {}
        last = 0, 0
        self._keys = {}
        with _connection(part, self._timeout, make=True) as c:
            c.executescript(_TABLES)
            c.execute("BEGIN IMMEDIATE")
            for number in range(len(shelf.workloads)):
                last = self._insert(c, number, None, keys, last)
            for r in shelf.records:
                number = shelf.number(r.workload)
                assert number is not None
                last = self._insert(c, number, r, keys, last)
            c.execute("COMMIT")
        aside = put_aside(self.path) if keep and self.path.exists() else None
        for end in ("-journal", "-wal", "-shm"):
            self.path.with_name(self.path.name + end).unlink(missing_ok=True)  # they belong to what was there
        os.replace(part, self.path)
        self._keys = keys
        self._numbers = {key: number for number, key in keys.items()}
        self._last = last
        self._unkept.clear()
        return aside


@contextmanager
def _connection(path: Path, timeout: float, *, make: bool = False) -> Generator[sqlite3.Connection, None, None]:
    """A connection for one use: they belong to a thread, and must not be carried over a fork.

    Raises OSError for what leaves the file as it is, such as a full disk, and Damaged for the rest.
    """
    uri = f"{path.absolute().as_uri()}?mode={'rwc' if make else 'rw'}"
    try:
        connection = sqlite3.connect(uri, uri=True, timeout=timeout, isolation_level=None)
        connection.text_factory = bytes
        try:
            connection.execute("PRAGMA synchronous=FULL")
            yield connection
        finally:
            connection.close()
    except sqlite3.DatabaseError as e:
        if any(word in str(e).lower() for word in _PASSING):
            raise OSError(f"{path} cannot be used now: {e}") from e
        raise Damaged(
            f"{path} cannot be used as a database of tuning records: {e}; `python -m tscript db repair` keeps what "
            "can be read"
        ) from e


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def read_rows(path: Path, timeout: float = 60.0) -> Found:
    """All lines of a file, be they readable or not; where SQLite cannot tell, those that its pages hold."""
    if not path.exists():
        return Found()
    try:
        with _connection(path, timeout) as c:
            records: list[Any] = c.execute(_RECORDS, (0,)).fetchall()
            workloads: list[Any] = c.execute(_WORKLOADS, (0,)).fetchall()
            c.executescript(_TABLES)  # files of before there were copies
            spare: dict[int, bytes] = dict(c.execute("SELECT id, line FROM copy").fetchall())
        damage: list[str] = []
    except Damaged as e:
        damage = [str(e)]
        workloads, records, spare = _rows_of_pages(path.read_bytes())
    found = Found(
        [(key, f"{path.name}: workload {key}", line) for key, line in workloads],
        [(f"{path.name}: record {key}", line) for key, _, line in records],
        damage,
        spare,
    )
    for what, keys in (("workload", [w[0] for w in workloads]), ("record", [r[0] for r in records])):
        gone = sorted(set(range(1, max(keys, default=0))) - set(keys))
        found.lost += [f"{path.name}: {what} {key} is not there" for key in gone]
    return found


def _rows_of_pages(data: bytes) -> tuple[list[Any], list[Any], dict[int, bytes]]:
    workloads: dict[int, Any] = {}
    records: dict[int, Any] = {}
    spare: dict[int, bytes] = {}
    for row, values in table_rows(data):
        match values:
            case [None, bytes(line)] if line.startswith(b'["'):
                workloads[row] = row, line
            case [None, int(workload), bytes(line), float()] if line.startswith(b"["):
                records[row] = row, workload, line
            case [None, bytes(line), float()] if line.startswith(b'["'):
                spare[row] = line
            case _:
                continue  # of the schema, or no row at all
    return [workloads[k] for k in sorted(workloads)], [records[k] for k in sorted(records)], spare
