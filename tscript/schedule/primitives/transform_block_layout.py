"""The iterations of a block are counted in another way."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from tscript.analysis.ranges import range_bounds
from tscript.arith import Bound, simplify
from tscript.ir import construct as make
from tscript.ir.expr import IntImm, IterVar, PrimExpr, Range, Var
from tscript.ir.functor import substitute
from tscript.ir.index_map import IndexMap
from tscript.ir.occurrences import mentions, variables
from tscript.ir.stmt import Block, BlockRealize, For, ForKind, Stmt
from tscript.schedule.conflicts import find_conflict, touched_by
from tscript.schedule.core import ScheduleCore
from tscript.schedule.errors import refuse
from tscript.schedule.instruction import Arg, InstructionKind, block
from tscript.schedule.layout import Inverse, MapLike, ReplaceAxes, as_index_map, bounds_below, index_dtype, invert
from tscript.schedule.loop_checks import require_independent_range, require_only_child, require_zero_start
from tscript.schedule.primitive import primitive
from tscript.schedule.rewrite import BlockReuse
from tscript.schedule.rv import BlockRV
from tscript.schedule.sref import StmtSRef

_KIND = InstructionKind("TransformBlockLayout", "transform_block_layout", (block(), Arg("index_map", is_saved=True)))


@primitive(_KIND)
def transform_block_layout(s: ScheduleCore, block: BlockRV | str, index_map: MapLike) -> None:
    """Run a block over `index_map(i, j, ..)` in place of its axes `i, j, ..`, in new loops `ax0..` with axes `v0..`.

    The loops around the block start at 0, nest tightly, hold nothing else and are bound to its axes one by one. The map
    (a function or an IndexMap) must be made of splits, fusions and permutations, and reach every point of its result;
    each result must come from axes of one sort. The order of iterations must not matter. Kinds and annotations of the
    old loops are gone.

    >>> import tscript
    >>> from tscript.script import tir as T
    >>> @T.prim_func
    ... def func(A: T.Buffer((8, 6), "float32"), B: T.Buffer((8, 6), "float32")):
    ...     for i, j in T.grid(8, 6):
    ...         with T.block("B"):
    ...             vi, vj = T.axis.remap("SS", [i, j])
    ...             B[vi, vj] = A[vi, vj]
    >>> sch = tscript.tir.Schedule(func)
    >>> sch.transform_block_layout("B", lambda i, j: [i * 6 + j])
    >>> print(sch.get(sch.get_loops("B")[0]))
    for ax0 in range(48):
        with T.block("B"):
            v0 = T.axis.spatial(48, ax0)
            A = T.Buffer((8, 6))
            T.reads(A[v0 // 6, v0 % 6])
            B = T.Buffer((8, 6))
            T.writes(B[v0 // 6, v0 % 6])
            B[v0 // 6, v0 % 6] = A[v0 // 6, v0 % 6]
    """
    target = s.block(block)  # pyright: ignore[reportArgumentType]
    loops = _require_nest(s, target)
    _require_any_order(s, target, loops)
    extents = [r.loop.extent for r in loops]
    given = as_index_map(s, index_map, len(loops), index_dtype(extents), target.block)
    if given.separators:
        refuse(
            "the axes of {0} are no dimensions of a buffer, so no axis separator can stand between them", target.block
        )
    if given.recorded.free_variables():
        refuse(
            "the index map for {0} uses a sampled number, but the trace keeps this map as a constant",
            target.block,
            hint="use the value, `sch.get(..)`, or split and fuse by the number",
        )
    inverse = _require_bijective(given.mapping, extents, target.block)
    kinds = _kinds(given.mapping, inverse, target.block, extents)
    nest, reuse = _new_nest(s, target, loops, inverse, kinds)
    s.state.replace(s.state.loops_of(target)[0], nest, reuse, "counted anew")
    s.record_as(index_map=given.mapping)


def _require_nest(s: ScheduleCore, target: StmtSRef) -> list[StmtSRef]:
    """The loops around a block, in the order of its axes. Refused unless they are there for these alone."""
    loops, realize = s.state.loops_of(target), s.state.realize_of(target)
    if not loops:
        refuse("{0} stands in no loop", target.block)
    for r in loops:
        require_zero_start(r.loop)
        if r.loop.thread_binding is not None:
            refuse("{0} is bound to a thread, and new loops would not be", r.loop, hint="bind the new loops afterwards")
    for outer, inner in pairwise(loops):
        require_only_child(outer.loop, inner.loop)
        require_independent_range(inner.loop, [r.loop for r in loops])
    if loops[-1].loop.body is not realize:
        refuse("{0} has more in its body than {1}", loops[-1].loop, target.block)
    ordered: list[StmtSRef] = []
    for axis, value in zip(realize.block.iter_vars, realize.iter_values, strict=True):
        bound = next((r for r in loops if r.loop.loop_var is value), None)
        if bound is None or bound in ordered:
            refuse(f"axis `{axis.var.name}` of {{0}} is not bound to a loop of its own, but to `{value}`", target.block)
        ordered.append(bound)
    for r in loops:
        if r not in ordered:
            refuse("no axis of {1} is bound to {0}, which runs it again and again", r.loop, target.block)
    return ordered


def _require_any_order(s: ScheduleCore, target: StmtSRef, loops: Sequence[StmtSRef]) -> None:
    """Refuse a block that depends on the order of its iterations."""
    outermost = s.state.loops_of(target)[0]
    for axis in target.block.iter_vars:
        if axis.iter_type not in (IterVar.DataPar, IterVar.CommReduce):
            refuse(f"axis `{axis.var.name}` of {{0}} is neither spatial nor reduce, so its order matters", target.block)
    touched = touched_by(s.state, outermost)
    for r in loops:
        found = find_conflict(s.state, r, at_once=False, within=touched)
        if found is not None:
            refuse(f"the order of the iterations of {{0}} matters: {found.explain()}", target.block, r.loop)
    predicate = s.state.realize_of(target).predicate
    reduced = {
        r.loop.loop_var: None
        for r, axis in zip(loops, target.block.iter_vars, strict=True)
        if axis.iter_type == IterVar.CommReduce
    }
    if target.block.init is not None and mentions(predicate, reduced):
        refuse(
            "{0} skips some of the iterations it reduces over, maybe the first one, which runs its init", target.block
        )


def _require_bijective(mapping: IndexMap, extents: Sequence[PrimExpr], block: Block) -> Inverse:
    try:
        found = invert(mapping, extents)
    except ValueError as e:
        refuse(f"the axes of {{0}} cannot be mapped so: {str(e).replace('{', '{{').replace('}', '}}')}", block)
    if found.has_padding:
        refuse("the index map does not reach every point of its result, so some iterations of {0} would be none", block)
    if found.back is None:
        refuse("the inverse of the index map is not known, so the body of {0} cannot be rewritten", block)
    return found


def _kinds(mapping: IndexMap, inverse: Inverse, block: Block, extents: Sequence[PrimExpr]) -> list[int]:
    """The sort of each new axis: that of the axes it comes from."""
    found: list[int] = []
    pairs = zip(mapping.initial_indices, block.iter_vars, extents, strict=True)
    kinds = {v: axis.iter_type for v, axis, extent in pairs if not make.is_const_int(extent, 1)}
    for result, extent in zip(mapping.final_indices, inverse.shape, strict=True):
        used = list(dict.fromkeys(kinds[v] for v in variables(result) if v in kinds))
        if make.is_const_int(extent, 1) or not used:
            found.append(IterVar.DataPar)
        elif len(used) > 1:
            refuse(f"`{result}` comes from spatial and from reduce axes of {{0}}, so it is neither", block)
        else:
            found.append(used[0])
    return found


def _new_nest(
    s: ScheduleCore, target: StmtSRef, loops: Sequence[StmtSRef], inverse: Inverse, kinds: Sequence[int]
) -> tuple[Stmt, BlockReuse]:
    """The new loops around the block, whose axes are the new ones; and what became of it and the blocks in it."""
    assert inverse.back is not None
    new_loops = [Var(f"ax{k}", e.dtype) for k, e in enumerate(inverse.shape)]
    axes = [Var(f"v{k}", e.dtype) for k, e in enumerate(inverse.shape)]
    ranges = [Range.from_min_extent(IntImm(e.dtype, 0), e) for e in inverse.shape]
    outer = bounds_below(s.state.root_of(target).block)
    bounds = {
        **outer,
        **range_bounds({**dict(zip(axes, ranges, strict=True)), **dict(zip(new_loops, ranges, strict=True))}),
    }
    old = [axis.var for axis in target.block.iter_vars]
    rewriter = ReplaceAxes(_values(old, inverse.back, axes, bounds), bounds)
    inside: Block = rewriter.rewrite_children(target.block)
    made = inside.replace(iter_vars=tuple(IterVar(r, v, kind) for r, v, kind in zip(ranges, axes, kinds, strict=True)))
    realize = s.state.realize_of(target)
    around = _values([r.loop.loop_var for r in loops], inverse.back, new_loops, bounds)
    predicate = simplify(substitute(realize.predicate, around), bounds)
    body: Stmt = BlockRealize(tuple(new_loops), predicate, made)
    for var, extent in zip(reversed(new_loops), reversed(inverse.shape), strict=True):
        body = For(var, IntImm(var.dtype, 0), extent, ForKind.SERIAL, body)
    return body, {**rewriter.block_reuse, target.block: made}


def _values(old: Sequence[Var], back: IndexMap, new: Sequence[Var], bounds: dict[Var, Bound]) -> dict[Var, PrimExpr]:
    results = back.map_indices(list(new))
    return {v: make.cast(simplify(e, bounds), v.dtype) for v, e in zip(old, results, strict=True)}
