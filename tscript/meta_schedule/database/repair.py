"""What can be read of a damaged database in text files is kept."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tscript.meta_schedule.database.codec import parse_line, record_of, workload_module
from tscript.meta_schedule.database.database import Workload
from tscript.meta_schedule.database.json_lines import RECORDS, WORKLOADS, JSONDatabase


@dataclass(frozen=True)
class Repair:
    """How many records were kept, and what was not: file, line and why."""

    kept: int
    lost: list[str]


def repair(work_dir: str | Path) -> Repair:
    """Write the text files of `work_dir` anew with the lines that can be read; what was there is kept as `*.damaged`.

    A database without a damaged line stays as it is. Raises FileNotFoundError where there is none.
    """
    folder = Path(work_dir)
    files = (folder / WORKLOADS, folder / RECORDS)
    for path in files:
        if not path.exists():
            raise FileNotFoundError(f"there is no database file {path}")
    lost: list[str] = []
    with tempfile.TemporaryDirectory(dir=folder, prefix="repair-") as new:
        fresh = JSONDatabase(work_dir=new)
        workloads = _workloads(files[0], fresh, lost)
        kept = _records(files[1], fresh, workloads, lost)
        if lost:
            for path in files:
                os.replace(path, path.with_name(f"{path.name}.damaged"))
                os.replace(Path(new) / path.name, path)
    return Repair(kept, lost)


def _lines(path: Path) -> list[tuple[int, bytes]]:
    lines = enumerate(path.read_bytes().split(b"\n"), 1)
    return [(n, line) for n, line in lines if line.strip()]


def _workloads(path: Path, fresh: JSONDatabase, lost: list[str]) -> list[Workload | None]:
    found: list[Workload | None] = []
    for n, line in _lines(path):
        try:
            found.append(fresh.commit_workload(workload_module(parse_line(line.decode())[0])))
        except Exception as e:
            lost.append(f"{path.name}:{n}: {e}")
            found.append(None)
    return found


def _records(path: Path, fresh: JSONDatabase, workloads: list[Workload | None], lost: list[str]) -> int:
    kept = 0
    for n, line in _lines(path):
        try:
            (number, values), extra = parse_line(line.decode())
            workload = dict(enumerate(workloads)).get(number)
            if workload is None:
                raise ValueError(f"its workload, {number}, is not there or damaged")
            fresh.commit_tuning_record(record_of(values, workload, extra))
            kept += 1
        except Exception as e:
            lost.append(f"{path.name}:{n}: {e}")
    return kept
