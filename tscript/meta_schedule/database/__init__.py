"""What was tuned, and how well it went."""

from typing import Any

from tscript.meta_schedule.database.database import Database, PyDatabase
from tscript.meta_schedule.database.equality import ModuleEquality
from tscript.meta_schedule.database.json_lines import JSONDatabase
from tscript.meta_schedule.database.memory import MemoryDatabase
from tscript.meta_schedule.database.record import TuningRecord, Workload
from tscript.meta_schedule.database.schedule_fn import ScheduleFnDatabase
from tscript.meta_schedule.database.sqlite import SQLiteDatabase
from tscript.meta_schedule.database.union import OrderedUnionDatabase, UnionDatabase

Database.register_kind("json", JSONDatabase)
Database.register_kind("memory", MemoryDatabase)
Database.register_kind("sqlite", SQLiteDatabase)
Database.register_kind("union", UnionDatabase)
Database.register_kind("ordered_union", OrderedUnionDatabase)


def make_database(kind: Any, *args: Any, **options: Any) -> Database:
    """A database from its word, a function of a schedule, or itself."""
    if callable(kind) and not isinstance(kind, Database):
        schedule_fn: Any = kind
        return ScheduleFnDatabase(schedule_fn, *args, **options)
    return Database.create(kind, *args, **options)


__all__ = [
    "Database", "JSONDatabase", "MemoryDatabase", "ModuleEquality", "OrderedUnionDatabase", "PyDatabase",
    "SQLiteDatabase", "ScheduleFnDatabase", "TuningRecord", "UnionDatabase", "Workload", "make_database",
]  # fmt: skip
