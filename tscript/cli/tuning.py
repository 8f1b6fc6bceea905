"""The commands `tune` and `db`: search for a fast schedule of a file's program, and look after what was found."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tscript.analysis.flops import estimate_tir_flops
from tscript.cli.loading import Program
from tscript.ir.function import PrimFunc
from tscript.meta_schedule.database import Database, JSONDatabase, SQLiteDatabase, TuningRecord
from tscript.meta_schedule.database.database import copy_records
from tscript.meta_schedule.database.repair import check, repair, sqlite_file
from tscript.meta_schedule.tir_integration import tune_tir
from tscript.meta_schedule.tune_context import normalize_mod
from tscript.support.errors import TuneError
from tscript.target.target import Target


@dataclass(frozen=True)
class TuneRequest:
    """What `tune` was asked for."""

    target: str
    trials: int
    work_dir: Path
    seed: int | None
    quiet: bool


def run_tune(programs: Sequence[Program], asked: TuneRequest) -> int:
    """Tune the programs, function by function, and print the best schedule of each; 1 if one has none."""
    log = logging.getLogger("tscript.meta_schedule")
    before = log.level
    log.setLevel(logging.WARNING if asked.quiet else logging.INFO)
    missing = 0
    functions = _functions(programs)
    try:
        target = Target(asked.target)
        for name, func in functions:
            try:
                missing += not _tune(name, func, target, asked)
            except (TuneError, ValueError) as e:
                # The others of a file are tuned all the same.
                if len(functions) == 1:
                    raise
                missing += 1
                print(f"{name}: {e}")
    except ValueError as e:
        raise TuneError(str(e)) from e
    except OSError as e:
        raise TuneError(f"cannot write to {asked.work_dir}: {e}") from e
    finally:
        log.setLevel(before)
    return 1 if missing else 0


def _tune(name: str, func: PrimFunc, target: Target, asked: TuneRequest) -> bool:
    """Tune one function and print its best schedule; whether there is one."""
    database = tune_tir(func, target, str(asked.work_dir), asked.trials, seed=asked.seed, task_name=name)
    record = database.query_tuning_record(normalize_mod(func), target)
    if record is None:
        print(f"{name}: no schedule was found; the log in {asked.work_dir / 'logs'} says why")
        return False
    speed = estimate_tir_flops(func) / record.mean_secs / 1e9
    print(f"{name}: {record.mean_secs * 1e6:.2f} us, {speed:.2f} GFLOPS, best of {len(database)} records")
    print(record.trace)
    return True


def _functions(programs: Sequence[Program]) -> list[tuple[str, PrimFunc]]:
    found: list[tuple[str, PrimFunc]] = []
    for p in programs:
        if isinstance(p, PrimFunc):
            found.append((p.__name__, p))
        else:
            found.extend((v.name_hint, f) for v, f in p.functions.items())
    return found


def open_database(path: Path, *, must_exist: bool = True) -> Database:
    """The database of a folder (text files, or SQLite where that is there) or of an SQLite file.

    Raises TuneError where there is none, or it is damaged.
    """
    file = sqlite_file(path)
    try:
        if file is not None:
            if must_exist and not file.exists():
                raise TuneError(f"there is no database {file}")
            return SQLiteDatabase(file)
        return JSONDatabase(work_dir=path, allow_missing=not must_exist)
    except (OSError, ValueError) as e:
        raise TuneError(str(e)) from e


def run_merge(destination: Path, sources: Sequence[Path]) -> int:
    """Add the records of databases to another, leaving out those that it has."""
    into = open_database(destination, must_exist=False)
    known = {_identity(r) for r in into.get_all_tuning_records()}
    count = 0
    for source in sources:
        new = [r for r in open_database(source).get_all_tuning_records() if _identity(r) not in known]
        known.update(_identity(r) for r in new)
        count += copy_records(new, into)
    print(f"{count} records added to {destination}, which has {len(into)} now")
    return 0


def _identity(r: TuningRecord) -> tuple[int, str, str, str]:
    return r.workload.shash, str(r.target), json.dumps(r.trace.as_json()), str(r.run_secs)


def run_prune(source: Path, destination: Path) -> int:
    """Copy the best record of each program and target."""
    into = open_database(destination, must_exist=False)
    open_database(source).dump_pruned(into)
    print(f"{len(into)} records in {destination}")
    return 0


def run_database_show(path: Path) -> int:
    """Print the table of programs and targets."""
    open_database(path).show()
    return 0


def run_query(path: Path, programs: Sequence[Program], target: str) -> int:
    """Print the best record of each function; 1 if one has none."""
    database = open_database(path)
    missing = 0
    for name, func in _functions(programs):
        record = database.query_tuning_record(normalize_mod(func), Target(target))
        if record is None:
            missing += 1
            print(f"{name}: no record for {Target(target)}")
        else:
            print(f"{name}: {record.mean_secs * 1e6:.2f} us\n{record.trace}")
    return 1 if missing else 0


def run_repair(path: Path) -> int:
    """Keep what can be read of a damaged database."""
    try:
        done = repair(path)
    except OSError as e:
        raise TuneError(str(e)) from e
    for line in done.lost:
        print(f"lost: {line}")
    print(f"{done.kept} records kept, {len(done.lost)} entries lost")
    return 0


def run_database_check(path: Path) -> int:
    """Say what of a database can be read; 1 if something cannot."""
    try:
        found = check(path)
    except OSError as e:
        raise TuneError(str(e)) from e
    for line in found.lost:
        print(f"damaged: {line}")
    print(f"{found.kept} records can be read, {len(found.lost)} entries cannot")
    return 1 if found.lost else 0
