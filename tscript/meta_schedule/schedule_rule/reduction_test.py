"""What tells rules whether a block profits from tiling."""

from __future__ import annotations

from tscript.ir.expr import IntImm, IterVar, Var
from tscript.ir.occurrences import variables
from tscript.ir.stmt import Block, For, SeqStmt
from tscript.schedule.rv import BlockRV, LoopRV
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
    root = sch.state.scope_root(sch.get_sref(block))
    if root is None or root.parent is not None or not is_trivially_bound(sch, block):
        return False  # the part of an intrinsic, inside of the block that is tiled, keeps its shape
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


def needs_partial_results(sch: Schedule, block: BlockRV, max_parallel: int) -> bool:
    """Whether a reduction has so few results, and so many steps for each, that they should be shared out.

    The block must be alone in its loops, which are, one by one, its axes. A block that reads data again and again is
    tiled instead, unless fewer results than steps are wanted, and at most `max_parallel`.
    """
    stmt = sch.get(block)
    assert isinstance(stmt, Block)
    kinds = axis_kinds(stmt)
    root = sch.state.scope_root(sch.get_sref(block))
    if root is None or root.parent is not None:
        return False
    if TILED in stmt.annotations or stmt.init is None or "R" not in kinds or "O" in kinds:
        return False
    if not is_trivially_bound(sch, block):
        return False
    loops = [sref.loop for sref in sch.state.loops_of(sch.get_sref(block))]
    if any(isinstance(loop.body, SeqStmt) for loop in loops):
        return False
    results = steps = 1
    for loop, kind in zip(loops, kinds, strict=True):
        extent = loop_extent(loop)
        if extent is None:
            return False
        results, steps = (results * extent, steps) if kind == "S" else (results, steps * extent)
    if needs_multi_level_tiling(sch, block):
        return results < steps and results <= max_parallel
    return steps > 1


def fuse_reduction_loops(sch: Schedule, block: BlockRV) -> tuple[LoopRV, int]:
    """Bring the loops that are reduced over inside and fuse them; the fused loop, and how many are around it."""
    stmt = sch.get(block)
    assert isinstance(stmt, Block)
    loops = sch.get_loops(block)
    spatial = [loop for loop, kind in zip(loops, axis_kinds(stmt), strict=True) if kind == "S"]
    reduced = [loop for loop, kind in zip(loops, axis_kinds(stmt), strict=True) if kind == "R"]
    if len(loops) > 1:
        sch.reorder(*spatial, *reduced)
    return sch.fuse(*reduced), len(spatial)


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
