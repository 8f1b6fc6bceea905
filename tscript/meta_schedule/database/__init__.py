"""Database."""

from tscript.meta_schedule.database.database import Database, PyDatabase, TuningRecord, Workload

__all__ = ["Database", "PyDatabase", "TuningRecord", "Workload"]
