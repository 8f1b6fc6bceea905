"""The part that reindex_cache_read and reindex_cache_write share: the map, and the loops of the copy."""

from __future__ import annotations

from collections.abc import Sequence

from tscript.analysis.ranges import range_bounds
from tscript.arith import simplify
from tscript.ir import construct as make
from tscript.ir.buffer import Buffer
from tscript.ir.construct import is_const_int
from tscript.ir.expr import LE, LT, IntImm, PrimExpr, Var
from tscript.ir.functor import substitute
from tscript.ir.index_map import IndexMap
from tscript.ir.occurrences import mentions, variables
from tscript.schedule.buffers import cache_of
from tscript.schedule.core import ScheduleCore
from tscript.schedule.errors import refuse
from tscript.schedule.layout import MapLike, as_index_map, index_dtype, invert
from tscript.schedule.point_copies import Copy, PointAccess
from tscript.schedule.staging import Location
from tscript.schedule.symbols import axis_ranges, conjuncts, outer_bounds, proves


def new_place(s: ScheduleCore, found: PointAccess, given_map: MapLike) -> tuple[IndexMap, Buffer, list[PrimExpr]]:
    """The map from all axes of a block, the new buffer, and where the block uses it. Refused where the map uses other
    axes than the subscripts do, or takes different elements to the same place.
    """
    block = found.access.target.block
    extents = [a.dom.extent for a in block.iter_vars if a.dom is not None]
    given = as_index_map(s, given_map, len(block.iter_vars), index_dtype(extents), block)
    mapping = given.mapping
    if given.separators:
        refuse("the copy for {0} is made without axis separators", block, hint="call set_axis_separator afterwards")
    at = [simplify(e, range_bounds(axis_ranges(block))) for e in mapping.map_indices([a.var for a in block.iter_vars])]
    used = {v: None for e in mapping.final_indices for v in variables(e)}
    pairs = zip(mapping.initial_indices, block.iter_vars, strict=True)
    chosen = [(v, a) for v, a in pairs if v in used]
    wanted = [a.var for a in found.axes]
    if [a.var for _, a in chosen] != wanted:
        refuse(
            f"the index map uses the axes {_names([a.var for _, a in chosen])}, but the subscripts of "
            f"`{found.access.buffer.name}` in {{0}} use {_names(wanted)}",
            block,
        )
    own = IndexMap(tuple(v for v, _ in chosen), mapping.final_indices)
    try:
        shape = invert(own, found.extents).shape
    except ValueError as e:
        refuse(f"the axes of {{0}} cannot be mapped so: {str(e).replace('{', '{{').replace('}', '}}')}", block)
    return given.recorded, cache_of(found.access.buffer, found.access.scope, shape), at


def _names(found: Sequence[Var]) -> str:
    return ", ".join(f"`{v.name}`" for v in found) or "none"


def copy_in_loops(s: ScheduleCore, found: PointAccess, location: Location, back: bool) -> Copy:
    """The copy that runs in the loops of the block below a place, as far as the axes that occur use them."""
    target = found.access.target
    realize = s.state.realize_of(target)
    pairs = zip(realize.block.iter_vars, realize.iter_values, strict=True)
    values = {a.var: v for a, v in pairs}
    bindings = [values[a.var] for a in found.axes]
    loops = s.state.loops_of(target)
    below = loops[loops.index(location.loop) + 1 :] if location.loop is not None else loops
    used = variables(*bindings)
    kept = [r.loop for r in below if r.loop.loop_var in used]
    gone = {r.loop.loop_var: None for r in below if r.loop.loop_var not in used}
    for r in below:
        loop = r.loop
        if loop.loop_var in used and (mentions(loop.min, gone) or mentions(loop.extent, gone)):
            refuse("the range of {0} depends on a loop that the copy does without", loop)
        if back and loop.loop_var in gone and not (isinstance(loop.extent, IntImm) and loop.extent.value > 0):
            refuse("{0} may run no iteration, and {1} would be copied back unwritten", loop, target.block)
    # A loop of one iteration has its only value in the copy too.
    fresh: dict[Var, PrimExpr] = {
        r.loop.loop_var: r.loop.min for r in below if r.loop.loop_var in gone and is_const_int(r.loop.extent, 1)
    }
    made: list[tuple[Var, PrimExpr, PrimExpr]] = []
    for loop in kept:
        var = loop.loop_var.copy_with()
        made.append((var, substitute(loop.min, fresh), substitute(loop.extent, fresh)))
        fresh[loop.loop_var] = var
    bounds = {**outer_bounds(s.state, target)}
    bounds.update({v: bounds[old] for old, v in fresh.items() if isinstance(v, Var) and old in bounds})
    conditions: list[PrimExpr] = []
    for c in conjuncts(realize.predicate):
        now = simplify(substitute(c, fresh), bounds)
        if not mentions(now, gone):
            conditions.extend(conjuncts(now))
        elif back:
            refuse(f"{{0}} runs only where `{c}`, which the loops of the copy do not tell", target.block)
    new_values = [substitute(b, fresh) for b in bindings]
    for axis, value in zip(found.axes, new_values, strict=True):
        assert axis.dom is not None
        for inside in (make.compare(LE, axis.dom.min, value), make.compare(LT, value, axis.dom.extent)):
            if not proves(inside, bounds, conditions):
                conditions.append(inside)
    return Copy(made, [a.var.name for a in found.axes], new_values, conditions)
