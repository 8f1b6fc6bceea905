"""What tells rules whether a block profits from tiling."""

from __future__ import annotations

from tscript.ir.expr import IntImm, IterVar, Var
from tscript.ir.occurrences import variables
from tscript.ir.stmt import Block, For
from tscript.schedule.rv import BlockRV
from tscript.schedule.schedule import Schedule

TILED = "meta_schedule.tiling_structure"


def is_trivially_bound(sch: Schedule, block: BlockRV) -> bool:
    """Whether the axes of a block are its loops, one by one, in order."""
    realize = sch.state.realize_of(sch.get_sref(block))
    loops = [sref.loop for sref in sch.state.loops_of(sch.get_sref(block))]
    values = realize.iter_values
    return len(values) == len(loops) and all(v is loop.loop_var for v, loop in zip(values, loops, strict=True))


def axis_kinds(stmt: Block) -> str:
    """One letter for each axis: S for a spatial one, R for one that is reduced over, O for others."""
    letters = {IterVar.DataPar: "S", IterVar.CommReduce: "R"}
    return "".join(letters.get(v.iter_type, "O") for v in stmt.iter_vars)


def needs_multi_level_tiling(sch: Schedule, block: BlockRV) -> bool:
    """Whether a block reads some buffer again and again, for different values of an axis that does not subscript it."""
    stmt = sch.get(block)
    assert isinstance(stmt, Block)
    kinds = axis_kinds(stmt)
    if TILED in stmt.annotations or len(stmt.writes) != 1 or not stmt.reads or "R" not in kinds or "O" in kinds:
        return False
    if not is_trivially_bound(sch, block):
        return False
    buffers = [r.buffer for r in stmt.reads]
    if len(set(buffers)) < len(buffers):
        return False
    if not all(isinstance(r.extent, IntImm) for region in stmt.reads for r in region.region):
        return False
    return any(
        axis not in variables(*(r.min for r in region.region))
        for region in stmt.reads
        if region.buffer is not stmt.writes[0].buffer
        for axis in _long_spatial_axes(stmt)
    )


def _long_spatial_axes(stmt: Block) -> list[Var]:
    found: list[Var] = []
    for v in stmt.iter_vars:
        extent = None if v.dom is None else v.dom.extent
        is_unit = isinstance(extent, IntImm) and extent.value == 1
        if v.iter_type == IterVar.DataPar and not is_unit:
            found.append(v.var)
    return found


def loop_extent(loop: object) -> int | None:
    """The extent of a loop, if it is constant."""
    extent = loop.extent if isinstance(loop, For) else None
    return extent.value if isinstance(extent, IntImm) else None
