"""What can be read of a damaged database is kept."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tscript.meta_schedule.database.file_database import readable
from tscript.meta_schedule.database.json_lines import RECORDS, WORKLOADS, JSONDatabase, read_lines
from tscript.meta_schedule.database.sqlite import FILE, SQLiteDatabase, read_rows


@dataclass(frozen=True)
class Repair:
    """How many records were kept, and what was not: place and why."""

    kept: int
    lost: list[str]


def sqlite_file(path: str | Path) -> Path | None:
    """The SQLite file that a path names, or that lies in the folder that it names; None for text files.

    >>> sqlite_file("runs/best.sqlite").name
    'best.sqlite'
    """
    path = Path(path)
    if path.suffix in (".sqlite", ".db") or path.is_file():
        return path
    return path / FILE if (path / FILE).exists() else None


def repair(path: str | Path) -> Repair:
    """Write the text files of a folder, or an SQLite file, anew with what can be read; what was there is kept beside it
    as `*.damaged`.

    A database without damage stays as it is. Raises FileNotFoundError where there is none.
    """
    file = _existing(path)
    database = JSONDatabase(work_dir=path, repair=True) if file is None else SQLiteDatabase(file, repair=True)
    return Repair(len(database), database.lost)


def check(path: str | Path) -> Repair:
    """What `repair` would keep and lose; nothing is changed. Raises FileNotFoundError where there is no database."""
    file = _existing(path)
    return Repair(*readable(read_lines(Path(path)) if file is None else read_rows(file)))


def _existing(path: str | Path) -> Path | None:
    file = sqlite_file(path)
    for needed in (Path(path) / WORKLOADS, Path(path) / RECORDS) if file is None else (file,):
        if not needed.exists():
            raise FileNotFoundError(f"there is no database file {needed}")
    return file
