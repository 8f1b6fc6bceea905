"""Tiles around the instruction of a processor that does many steps at once."""

from __future__ import annotations

from collections.abc import Sequence

from tscript.ir.expr import IterVar
from tscript.ir.function import PrimFunc
from tscript.ir.functor import post_order_visit
from tscript.ir.stmt import Block
from tscript.ir.tensor_intrin import TensorIntrin
from tscript.meta_schedule.loop_kinds import extent_of, loop_of
from tscript.meta_schedule.schedule_rule.multi_level_tiling import Filter, MultiLevelTiling
from tscript.meta_schedule.schedule_rule.reduction_test import TILED, axis_kinds, is_trivially_bound
from tscript.meta_schedule.schedule_rule.reuse import Reuse
from tscript.schedule.errors import ScheduleError
from tscript.schedule.rv import BlockRV, LoopRV
from tscript.schedule.schedule import Schedule

_TENSORIZE = "meta_schedule.auto_tensorize"


class MultiLevelTilingWithIntrin(MultiLevelTiling):
    """Cuts the part that the intrinsic `intrin_name` computes out of a block, and tiles the rest as `MultiLevelTiling`.

    The part is marked, and becomes the intrinsic when the postprocessor `RewriteTensorize` finds it. A block that
    computes something else stays as it was.
    """

    def __init__(
        self,
        intrin_name: str,
        structure: str,
        tile_binds: Sequence[str] | None = None,
        max_innermost_factor: int | None = None,
        vector_load_lens: Sequence[int] | None = None,
        reuse_read: Reuse = None,
        reuse_write: Reuse = None,
        filter_fn: Filter | None = None,
    ) -> None:
        super().__init__(
            structure, tile_binds, max_innermost_factor, vector_load_lens, reuse_read, reuse_write, filter_fn
        )
        self.intrin_name = intrin_name

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        """The tiled schedules, or the schedule as it was."""
        stmt = sch.get(block)
        assert isinstance(stmt, Block)
        if TILED in stmt.annotations or _TENSORIZE in stmt.annotations or not is_trivially_bound(sch, block):
            return [sch]
        new = sch.copy()
        inner = _cut(new, block, TensorIntrin.get(self.intrin_name).desc)
        if inner is None:
            return [sch]
        try:
            # Whether the part is what the intrinsic computes is seen by trying.
            new.copy().tensorize(inner, self.intrin_name)
            outer = new.blockize(inner)
        except ScheduleError:
            return [sch]
        new.annotate(outer, _TENSORIZE, self.intrin_name)
        return self.tile(new, outer)


def _cut(sch: Schedule, block: BlockRV, desc: PrimFunc) -> LoopRV | None:
    """The outermost loop of a part as large as a description, made the innermost loops; None where none fits."""
    wanted = _shape(desc)
    stmt = sch.get(block)
    assert isinstance(stmt, Block)
    loops = sch.get_loops(block)
    kinds = axis_kinds(stmt)
    free = list(range(len(loops)))
    matched: list[tuple[int, int]] = []
    for kind, extent in reversed(wanted):
        fits = [k for k in free if kinds[k] == kind and (extent_of(loop_of(sch, loops[k])) or extent + 1) % extent == 0]
        if not fits:
            return None
        free.remove(fits[-1])
        matched.append((fits[-1], extent))
    inside: list[LoopRV] = []
    outside = {k: [loop] for k, loop in enumerate(loops)}
    for k, extent in reversed(matched):
        outer, inner = sch.split(loops[k], [None, extent])
        outside[k] = [outer]
        inside.append(inner)
    if not inside:
        return None
    sch.reorder(*(loop for part in outside.values() for loop in part), *inside)
    return inside[0]


def _shape(desc: PrimFunc) -> list[tuple[str, int]]:
    """Kind and extent of each axis of what a description computes, outermost first."""
    found: list[tuple[str, int]] = []

    def look(node: object) -> None:
        if isinstance(node, Block) and node.iter_vars and not found:
            for v in node.iter_vars:
                extent = None if v.dom is None else getattr(v.dom.extent, "value", None)
                found.append(("S" if v.iter_type == IterVar.DataPar else "R", int(extent or 1)))

    post_order_visit(desc.body, look)
    return found
