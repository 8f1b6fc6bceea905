"""May the iterations of a loop run in another order, on several threads, or as lanes of a vector?

`loop_conflict(program, loop) -> Conflict | None` is the question for any function or statement, with blocks or without:
None is a proof that no two iterations meet, a `Conflict` says which accesses do or may, with a `Witness` where there is
an example. `parallel_loops(func)` asks it for all loops; `order_conflict(program, loops)` asks whether loops may change
places.

Schedules ask the same of what blocks declare, and add what blocks promise: `footprint` (accesses in terms of loop
variables), `keeps_apart` (the proof), `find_witness`; for loops that change places `exchange`; for nests that become
one `never_after`, `never_overtaken`, `find_overtaken`. `find_unwritten`, `find_meeting` give examples for what else is
asked of blocks.
"""

from __future__ import annotations

from tscript.analysis.dependence.accesses import Access, Footprint, footprint
from tscript.analysis.dependence.apart import keeps_apart
from tscript.analysis.dependence.conflict import Conflict
from tscript.analysis.dependence.loops import exchange, loop_conflict, order_conflict, parallel_loops
from tscript.analysis.dependence.missing import find_meeting, find_unwritten
from tscript.analysis.dependence.order import never_after
from tscript.analysis.dependence.setting import memory_through, through_pointer
from tscript.analysis.dependence.witness import Witness, find_overtaken, find_witness, never_overtaken

__all__ = [
    "Access", "Conflict", "Footprint", "Witness", "exchange", "find_meeting", "find_overtaken", "find_unwritten",
    "find_witness", "footprint", "keeps_apart", "loop_conflict", "memory_through", "never_after", "never_overtaken",
    "order_conflict", "parallel_loops", "through_pointer",
]  # fmt: skip
