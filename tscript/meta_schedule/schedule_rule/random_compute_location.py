"""Where an intermediate result is computed is left to chance."""

from __future__ import annotations

from tscript.ir.stmt import Block, For
from tscript.meta_schedule.schedule_rule.schedule_rule import ScheduleRule
from tscript.schedule.rv import BlockRV
from tscript.schedule.schedule import Schedule

_PRODUCER = "meta_schedule.random_compute_producer"
_TILED = "meta_schedule.tiling_structure"


class RandomComputeLocation(ScheduleRule):
    """Samples a loop of its consumer for a block to be computed at.

    The block is a child of the root, alone in its loops, not tiled, and has consumers. A block that AddRFactor has
    marked keeps its place, and its producer, the partial results, moves instead.
    """

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        """The schedule with the block, or its producer, moved."""
        stmt = sch.get(block)
        assert isinstance(stmt, Block)
        if _PRODUCER in stmt.annotations:
            sch.unannotate(block, _PRODUCER)
            producers = sch.get_producers(block)
            if len(producers) == 1:
                self._move(sch, producers[0])
        elif self._is_movable(sch, block, stmt):
            self._move(sch, block)
        return [sch]

    def _is_movable(self, sch: Schedule, block: BlockRV, stmt: Block) -> bool:
        sref = sch.get_sref(block)
        if sref.parent is None or _TILED in stmt.annotations:
            return False
        loops = sch.get_loops(block)
        if not loops:
            return False
        outer = sch.get_sref(loops[0])
        if outer.parent is None or outer.parent.parent is not None:
            return False  # inside another block
        top = sch.get(loops[0])
        assert isinstance(top, For)
        return len(sch.get_child_blocks(loops[0])) == 1 and bool(sch.get_consumers(block))

    def _move(self, sch: Schedule, block: BlockRV) -> None:
        location = sch.sample_compute_location(block)
        sch.compute_at(block, location, preserve_unit_loops=True)
