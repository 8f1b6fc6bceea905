"""A database in two text files of JSON lines, for exchange and for reading by eye."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tscript.meta_schedule.database.codec import dump_line, parse_line
from tscript.meta_schedule.database.equality import ModuleEquality
from tscript.meta_schedule.database.file_database import Damaged, FileDatabase, Found
from tscript.meta_schedule.database.line_file import LineFile, append_line, put_aside, write_lines

WORKLOADS = "database_workload.json"
RECORDS = "database_tuning_record.json"
SPARE = ".copy"
"""What the name of the file of workloads is followed by in that of its copy."""


class JSONDatabase(FileDatabase):
    """Records in two text files, one line each, loaded when opened and appended to with each commit.

    The files are `path_workload` and `path_tuning_record`, or `database_workload.json` and
    `database_tuning_record.json` in `work_dir`. A commit is a whole line on the disk when it returns, so a process
    killed at any moment loses at most the record that it was writing. Several processes may use the files at once
    (not on Windows). A copy of each workload, in `database_workload.json.copy`, is for repair only.
    `allow_missing=False` raises FileNotFoundError for files that do not exist. `repair` opens damaged files: what can
    be read is kept, the files are written anew, and what they were is put aside.

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
        repair: bool = False,
    ) -> None:
        super().__init__(module_equality)
        if work_dir is None and (path_workload is None or path_tuning_record is None):
            raise ValueError("a JSON database needs a work_dir, or a path_workload and a path_tuning_record")
        folder = Path(work_dir or ".")
        self.path_workload = Path(path_workload or folder / WORKLOADS)
        self.path_tuning_record = Path(path_tuning_record or folder / RECORDS)
        self.path = self.path_tuning_record
        for path in (self.path_workload, self.path_tuning_record):
            if not path.exists():
                if not allow_missing:
                    raise FileNotFoundError(f"there is no database file {path}")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch()
        self._workload_file = LineFile(self.path_workload)
        self._record_file = LineFile(self.path_tuning_record)
        self._open(repair)

    def _damage(self) -> str:
        return self._record_file.damage() or self._workload_file.damage()

    def _learn_new(self) -> None:
        # Records first: what they refer to is written before them.
        records = self._record_file.new_lines()
        for n, text in self._workload_file.new_lines():
            key = len(self._numbers)
            _at(self._workload_file, n, lambda text=text, key=key: self._learn_workload(key, text))
        for n, text in records:
            number, record = _at(self._record_file, n, lambda text=text: self._read_record(text))
            self._shelf.put(number, record)

    def _keep_all(self) -> None:
        with self._workload_file.lock():
            self._catch_up()
            while self._unkept:
                number, record = self._unkept[0]
                if number not in self._keys:
                    key = len(self._numbers)
                    line = dump_line(self._shelf.workloads[number].as_json())
                    append_line(_spare_path(self.path_workload), dump_line([key, line]))
                    self._workload_file.append(line)
                    self._keys[number] = key
                    self._numbers[key] = number
                if record is not None:
                    values = [self._keys[number], record.as_json()]
                    self._record_file.append(dump_line(values, record.extra()))
                del self._unkept[0]

    def _restore(self, why: str) -> None:
        files = (self._workload_file, self._record_file)
        with self._workload_file.lock():
            for file in files:
                file.forget()
            workloads, records = (file.new_lines() for file in files)
            missing, damaged = self._merge(_found(self.path_workload, workloads, self.path_tuning_record, records))
            damaged += len(self._numbers) > len(workloads)  # some came from the copy
            aside = None
            if missing or damaged:
                aside = self._write_anew(damaged > 0)
                self._warn_restored(why, missing, damaged, aside)
            for file in files:
                file.damage()  # as it is now is how it is known

    def _write_anew(self, keep: bool) -> Path | None:
        """Write both files from memory; where the damaged file of records went, if it is kept."""
        shelf = self._shelf
        lines = (
            [dump_line(w.as_json()) for w in shelf.workloads],
            [dump_line([shelf.number(r.workload), r.as_json()], r.extra()) for r in shelf.records],
        )
        files = (self._workload_file, self._record_file)
        parts = [file.path.with_name(f"{file.path.name}.part") for file in files]
        for part, text in zip(parts, lines, strict=True):
            write_lines(part, text)
        write_lines(_spare_path(self.path_workload), [dump_line([k, line]) for k, line in enumerate(lines[0])])
        aside = None
        for part, file in zip(parts, files, strict=True):
            aside = put_aside(file.path) if keep and file.path.exists() else None
            os.replace(part, file.path)
            file.forget()
            file.new_lines()
        self._numbers = {k: k for k in range(len(shelf.workloads))}
        self._keys = dict(self._numbers)
        self._unkept.clear()
        return aside


def _found(
    path_workload: Path, workloads: list[tuple[int, bytes]], path_record: Path, records: list[tuple[int, bytes]]
) -> Found:
    return Found(
        [(key, f"{path_workload.name}:{n}", text) for key, (n, text) in enumerate(workloads)],
        [(f"{path_record.name}:{n}", text) for n, text in records],
        spare=_spare_lines(_spare_path(path_workload)),
    )


def _spare_path(path_workload: Path) -> Path:
    return path_workload.with_name(path_workload.name + SPARE)


def _spare_lines(path: Path) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    for _, text in LineFile(path).new_lines():
        try:
            (key, line), _ = parse_line(text.decode())
            found[int(key)] = str(line).encode()  # the last of a key: a writer may have died after an earlier one
        except (ValueError, TypeError):
            continue  # a copy is one too many
    return found


def read_lines(work_dir: Path) -> Found:
    """All lines of a folder's files, be they readable or not."""
    paths = (work_dir / WORKLOADS, work_dir / RECORDS)
    workloads, records = (LineFile(path).new_lines() for path in paths)
    return _found(paths[0], workloads, paths[1], records)


def _at(file: LineFile, line: int, learn: Callable[[], Any]) -> Any:
    try:
        return learn()
    except Exception as e:
        raise Damaged(
            f"{file.path}:{line}: this line of the database cannot be read: {e}; `python -m tscript db repair` keeps "
            "the lines that can"
        ) from e
