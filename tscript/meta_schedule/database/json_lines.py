"""A database in two text files of JSON lines, for exchange and for reading by eye."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

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
from tscript.meta_schedule.database.line_file import LineFile
from tscript.meta_schedule.database.shelf import ShelfDatabase

WORKLOADS = "database_workload.json"
RECORDS = "database_tuning_record.json"


class JSONDatabase(ShelfDatabase):
    """Records in two text files, one line each, loaded when opened and appended to with each commit.

    The files are `path_workload` and `path_tuning_record`, or `database_workload.json` and
    `database_tuning_record.json` in `work_dir`. A commit is a whole line on the disk when it returns, so a process
    killed at any moment loses at most the record that it was writing. Several processes may use the files at once
    (not on Windows). `allow_missing=False` raises FileNotFoundError for files that do not exist.

    Raises ValueError, with file and line, for a line that is no record or was damaged.
    """

    def __init__(
        self,
        path_workload: str | Path | None = None,
        path_tuning_record: str | Path | None = None,
        *,
        work_dir: str | Path | None = None,
        allow_missing: bool = True,
        module_equality: str | ModuleEquality = "structural",
    ) -> None:
        super().__init__(module_equality)
        if work_dir is None and (path_workload is None or path_tuning_record is None):
            raise ValueError("a JSON database needs a work_dir, or a path_workload and a path_tuning_record")
        folder = Path(work_dir or ".")
        self.path_workload = Path(path_workload or folder / WORKLOADS)
        self.path_tuning_record = Path(path_tuning_record or folder / RECORDS)
        for path in (self.path_workload, self.path_tuning_record):
            if not path.exists():
                if not allow_missing:
                    raise FileNotFoundError(f"there is no database file {path}")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch()
        self._workload_file = LineFile(self.path_workload)
        self._record_file = LineFile(self.path_tuning_record)
        # Lines may repeat a workload that is known under another number.
        self._numbers: list[int] = []
        self._lines: dict[int, int] = {}
        with self._lock:
            self._refresh()

    def _refresh(self) -> None:
        # Records first: what they refer to is written before them.
        records = self._record_file.new_lines()
        for n, text in self._workload_file.new_lines():
            _at(self._workload_file, n, lambda text=text: self._learn_workload(text))
        for n, text in records:
            _at(self._record_file, n, lambda text=text: self._learn_record(text))

    def _learn_workload(self, text: str) -> None:
        values, _ = parse_line(text)
        mod = workload_module(values)
        number = self._shelf.find(mod)
        if number is None:
            number = len(self._shelf.workloads)
            self._shelf.add(mod)
        self._lines.setdefault(number, len(self._numbers))
        self._numbers.append(number)

    def _learn_record(self, text: str) -> None:
        (line, values), extra = parse_line(text)
        if type(line) is not int or not 0 <= line < len(self._numbers):
            raise ValueError(f"it is a record of workload {line!r}, and there are {len(self._numbers)}")
        number = self._numbers[line]
        record = record_of(values, self._shelf.workloads[number], extra)
        self._shelf.put(number, record)

    def _commit(self, mod: IRModule | None, record: TuningRecord | None) -> Workload:
        with self._workload_file.lock():
            self._refresh()
            if mod is not None:
                number = self._shelf.find(mod)
                if number is None:
                    number = len(self._shelf.workloads)
                    workload = self._shelf.add(mod)
                    self._lines[number] = len(self._numbers)
                    self._numbers.append(number)
                    self._workload_file.append(dump_line(workload_values(workload)))
                return self._shelf.workloads[number]
            assert record is not None
            number = self._shelf.number(record.workload)
            assert number is not None
            values = [self._lines[number], record_values(record)]
            self._record_file.append(dump_line(values, record_extra(record)))
            self._shelf.put(number, record)
            return self._shelf.workloads[number]


def _at(file: LineFile, line: int, learn: Callable[[], Any]) -> None:
    try:
        learn()
    except Exception as e:
        raise ValueError(
            f"{file.path}:{line}: this line of the database cannot be read: {e}; `python -m tscript db repair` keeps "
            "the lines that can"
        ) from e
