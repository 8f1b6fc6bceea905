"""A database that ends with its process."""

from __future__ import annotations

from tscript.ir.function import IRModule
from tscript.meta_schedule.database.record import TuningRecord, Workload
from tscript.meta_schedule.database.shelf import ShelfDatabase


class MemoryDatabase(ShelfDatabase):
    """Records in memory.

    `module_equality` says when two programs are the same workload: "structural", "ignore-ndarray" or "anchor-block".

    >>> len(MemoryDatabase())
    0
    """

    def _commit(self, mod: IRModule | None, record: TuningRecord | None) -> Workload:
        if mod is not None:
            return self._shelf.add(mod)
        assert record is not None
        number = self._shelf.number(record.workload)
        assert number is not None
        self._shelf.put(number, record)
        return self._shelf.workloads[number]
