"""A loop of a reduction becomes spatial: partial results, and a block that combines them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tscript.analysis import detect_regions
from tscript.arith import Bound, simplify
from tscript.ir import construct as make
from tscript.ir import expr as ex
from tscript.ir.buffer import Buffer
from tscript.ir.empty_reductions import empty_condition
from tscript.ir.expr import BufferLoad, FloorDiv, IntImm, IterVar, PrimExpr, Range, Var
from tscript.ir.functor import Rewriter, substitute
from tscript.ir.occurrences import mentions, variables
from tscript.ir.stmt import Block, BlockRealize, BufferRegion, For, ForKind, IfThenElse, SeqStmt, Stmt, seq
from tscript.schedule.accumulation import Accumulation, initial, loads_any, require_accumulation, storing
from tscript.schedule.bindings import TRUE
from tscript.schedule.buffers import cache_of
from tscript.schedule.checks import require_reduction, require_scope_root, require_stage_pipeline
from tscript.schedule.core import ScheduleCore
from tscript.schedule.errors import refuse
from tscript.schedule.instruction import InstructionKind, Outputs, attr, loop
from tscript.schedule.loop_checks import require_loop
from tscript.schedule.primitive import primitive
from tscript.schedule.primitives.decompose_reduction import require_first_values
from tscript.schedule.rewrite import fresh_copy, nest, path_to, replace_stmts
from tscript.schedule.rv import BlockRV, LoopRV
from tscript.schedule.sref import StmtSRef
from tscript.schedule.staging import uses_loops_around
from tscript.schedule.symbols import conjuncts, loop_variables_of, outer_bounds, proves


@primitive(InstructionKind("RFactor", "rfactor", (loop(), attr("factor_axis")), Outputs.ONE))
def rfactor(s: ScheduleCore, loop: LoopRV | str, factor_axis: int) -> BlockRV:
    """Make a loop of a reduction spatial: each of its iterations gets partial results of its own, in a block
    `<name>_rf`, and the block itself combines them; the handle of the new block.

    `loop` is a serial loop over one block, which is a reduction and does not share the loop with spatial axes. The
    partial results stand in a buffer `<output>.rf` with one dimension more, put at `factor_axis` (negative counts
    from the end). The update must be a known reduction (of `te`, or `te.register_reducer`), with operands in
    either order, and start from its identity; what picks one of its operands, as a maximum does, may start from
    anything. Sums of floats are taken in another order, and of equal candidates of an argmax another may win.

    >>> import tscript
    >>> from tscript.script import tir as T
    >>> @T.prim_func
    ... def row_sum(X: T.Buffer((8, 12), "float32"), Y: T.Buffer((8,), "float32")):
    ...     for i, k in T.grid(8, 12):
    ...         with T.block("sum"):
    ...             vi, vk = T.axis.remap("SR", [i, k])
    ...             with T.init():
    ...                 Y[vi] = T.float32(0)
    ...             Y[vi] = Y[vi] + X[vi, vk]
    >>> sch = tscript.tir.Schedule(row_sum)
    >>> k_0, k_1 = sch.split(sch.get_loops("sum")[1], [3, 4])
    >>> partial = sch.rfactor(k_0, 0)
    >>> sch.get(partial).name_hint, sch.get(partial).writes
    ('sum_rf', (Y_rf[vk_0, vi],))
    >>> print(sch.get(sch.get_loops("sum")[0]))
    for i, k_0 in T.grid(8, 3):
        with T.block("sum"):
            vk_0, vi = T.axis.remap("RS", [k_0, i])
            Y_rf = T.Buffer((3, 8))
            T.reads(Y_rf[vk_0, vi])
            Y = T.Buffer((8,))
            T.writes(Y[vi])
            with T.init():
                Y[vi] = T.float32(0.0)
            Y[vi] = Y[vi] + Y_rf[vk_0, vi]
    """
    at = require_loop(s, loop)  # pyright: ignore[reportArgumentType]
    if isinstance(factor_axis, bool) or not isinstance(factor_axis, int):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"factor_axis is an integer, not {factor_axis!r}")
    plan = _plan(s, at, factor_axis)
    partial = _partial_nest(plan)
    final = _final(plan)
    stmt, realize = plan.block.block, s.state.realize_of(plan.block)
    inner: Stmt = realize.replace(iter_values=final[0], predicate=_guard(plan, _innermost(partial)), block=final[1])
    for r in reversed(plan.inside):
        if r is at.loop or r.loop_var not in plan.dropped:
            inner = r.replace(body=inner)
    top = plan.inside[0]
    changed, _ = replace_stmts(plan.outermost, {top: inner})
    root = plan.root.block
    new, reuse = replace_stmts(root, {plan.outermost: seq(partial, changed)})
    new = new.replace(alloc_buffers=(*new.alloc_buffers, *plan.partials))
    s.state.replace(plan.root, new, {**reuse, stmt: final[1]}, "dropped: its iterations are those of the new block")
    return s.block_of(_innermost(partial))


@dataclass
class _Plan:
    """What is factored: the block in its loops, `outermost` first; those `inside` are the reduction's, from its
    outermost on; `dropped` are the ones that the block will not run over any more, with their first values.
    """

    s: ScheduleCore
    at: StmtSRef
    block: StmtSRef
    root: StmtSRef
    outermost: Stmt
    loops: list[For]
    inside: list[For]
    dropped: dict[Var, PrimExpr]
    sums: Accumulation
    axis: int
    partials: list[Buffer]

    @property
    def loop(self) -> For:
        """The loop that becomes spatial."""
        return self.at.loop

    @property
    def bounds(self) -> dict[Var, Bound]:
        """Constant bounds of the loops around the block."""
        return outer_bounds(self.s.state, self.block)

    def at_partial(self, position: Sequence[PrimExpr], axis: PrimExpr) -> list[PrimExpr]:
        """A position in the buffers of partial results."""
        step = axis if make.is_const_int(self.loop.min, 0) else simplify(make.sub(axis, self.loop.min))
        return [*position[: self.axis], step, *position[self.axis :]]


def _plan(s: ScheduleCore, at: StmtSRef, factor_axis: int) -> _Plan:
    state = s.state
    children = state.child_blocks(at)
    if len(children) != 1:
        refuse(
            f"{{0}} has {len(children)} blocks in it; it must run over the reduction alone",
            at.loop,
            *[c.block for c in children],
        )
    block = children[0]
    root = require_scope_root(state, block)
    require_stage_pipeline(s, root)
    if s.enable_check:
        require_reduction(state, block, root)
    if at.loop.kind != ForKind.SERIAL:
        kind = ForKind.NAMES[at.loop.kind]
        refuse(f"{{0}} is a loop of kind `{kind}`, not serial", at.loop, hint="change its kind afterwards")
    reduced = _require_loops(s, at, block, root)
    path = path_to(root.block.body, state.realize_of(block))
    start, top = _require_nest(state, at, block, path, reduced)
    loops = [p for p in path[start:] if isinstance(p, For)]
    inside = loops[loops.index(top) :]
    dropped: dict[Var, PrimExpr] = {r.loop_var: r.min for r in inside if r.loop_var in reduced and r is not at.loop}
    _require_ranges(at, block, root, inside, dropped, state)
    sums = require_accumulation(block.block)
    if loads_any(state.realize_of(block).predicate, dict.fromkeys(sums.buffers)):
        refuse("{0} runs only under a condition on what it accumulates", block.block)
    require_first_values(state, block)
    rank = len(sums.position)
    if not -(rank + 1) <= factor_axis <= rank:
        refuse(
            f"factor_axis {factor_axis} is no place for a new dimension of `{sums.buffers[0].name}`",
            block.block,
            hint=f"it lies between {-(rank + 1)} and {rank}",
        )
    axis = factor_axis if factor_axis >= 0 else factor_axis + rank + 1
    partials = [_partial_buffer(b, axis, at.loop.extent) for b in sums.buffers]
    return _Plan(s, at, block, root, path[start], loops, inside, dropped, sums, axis, partials)


def _partial_buffer(buffer: Buffer, axis: int, extent: PrimExpr) -> Buffer:
    shape = [*buffer.shape[:axis], extent, *buffer.shape[axis:]]
    return cache_of(buffer, buffer.scope(), shape, f"{buffer.name}.rf")


# -- conditions -----------------------------------------------------------------------------------


def _require_loops(s: ScheduleCore, at: StmtSRef, block: StmtSRef, root: StmtSRef) -> dict[Var, None]:
    """The loops of reduce axes; refused where one of them is shared with spatial axes, or they are not all here."""
    realize = s.state.realize_of(block)
    spatial = loop_variables_of(realize, IterVar.DataPar)
    reduced = loop_variables_of(realize, IterVar.CommReduce)
    if at.loop.loop_var in spatial:
        refuse("spatial axes of {1} run over {0}, so it is no loop of the reduction alone", at.loop, block.block)
    for r in s.state.loops_of(block):
        if r.loop.loop_var in spatial and r.loop.loop_var in reduced:
            refuse(
                "both spatial and reduce axes of {1} run over {0}",
                r.loop,
                block.block,
                hint="factor the reduction before fusing these loops",
            )
    values = zip(block.block.iter_vars, realize.iter_values, strict=True)
    if uses_loops_around(s.state, root, [v for a, v in values if a.iter_type == IterVar.CommReduce]):
        refuse("{0} goes on accumulating in later runs of {1}", block.block, root.block)
    return reduced


def _require_nest(
    state: object, at: StmtSRef, block: StmtSRef, path: list[Stmt], reduced: Mapping[Var, None]
) -> tuple[int, For]:
    """Where in the path to the block the nest begins that is to be copied, and the outermost loop of the reduction."""
    inner = [p for p in path if isinstance(p, For) and (p.loop_var in reduced or p is at.loop)]
    top = inner[0]
    for step in path[:-1]:
        if not isinstance(step, (For, SeqStmt)):
            refuse("between the loops around {0} stands a statement that is no loop", block.block)
    for step in path[path.index(top) : -1]:
        if not isinstance(step, For):
            refuse("{0} has more in it than {1}", top, block.block, hint="the reduction must be alone in its loops")
        if step.loop_var not in reduced and not _is_bound(step, path[-1]) and not make.is_const_int(step.extent, 1):
            refuse("{0} repeats {1} without any of its axes running over it", step, block.block)
    # What stands before the block in the same iteration stays before its partial results.
    start = next(i for i, p in enumerate(path) if isinstance(p, For))
    for i, step in enumerate(path):
        if isinstance(step, SeqStmt) and i > start and step.seq[0] is not path[i + 1]:
            start = i + 1
    return start, top


def _is_bound(r: For, realize: Stmt) -> bool:
    return isinstance(realize, BlockRealize) and r.loop_var in variables(*realize.iter_values)


def _require_ranges(
    at: StmtSRef, block: StmtSRef, root: StmtSRef, inside: list[For], dropped: Mapping[Var, PrimExpr], state: object
) -> None:
    """Refuse ranges that have no meaning as a dimension or an axis, or without the loops that go."""
    around: dict[Var, For] = {}
    up = block.parent
    while up is not None:
        if isinstance(up.stmt, For):
            around[up.stmt.loop_var] = up.stmt
        else:
            around.update({a.var: at.loop for a in up.block.iter_vars})
        up = up.parent
    for r in inside:
        is_kept = r.loop_var not in dropped and r is not at.loop
        forbidden: Mapping[Var, object] = dropped if is_kept else around
        if mentions(r.min, forbidden) or mentions(r.extent, forbidden):
            refuse(
                f"{{0}} runs over [{r.min}, {r.min + r.extent}), which is not the same in all iterations around it", r
            )
    if isinstance(at.loop.extent, IntImm) and at.loop.extent.value < 1:
        refuse("{0} has no iterations, so there are no partial results", at.loop)


# -- the new blocks -------------------------------------------------------------------------------


class _ReplaceLoads(Rewriter):
    """Puts loads of partial results for loads of the elements."""

    def __init__(self, loads: Mapping[BufferLoad, PrimExpr]) -> None:
        super().__init__()
        self.loads = dict(loads)

    def rewrite_BufferLoad(self, node: BufferLoad) -> PrimExpr:
        """The partial result, or another load."""
        found = self.loads.get(node)
        return found if found is not None else self.rewrite_children(node)


def _partial_nest(plan: _Plan) -> Stmt:
    """The block of partial results, in a copy of all the loops."""
    stmt, realize = plan.block.block, plan.s.state.realize_of(plan.block)
    axes, values, known = _partial_axes(plan, realize)
    factor = axes[0].var
    position = plan.at_partial(plan.sums.position, factor)
    elements = [BufferLoad(b, plan.sums.position) for b in plan.sums.buffers]
    loads = [BufferLoad(p, tuple(position)) for p in plan.partials]
    is_sum = any(a.iter_type == IterVar.CommReduce for a in axes)
    init: Stmt | None = None
    condition = plan.sums.condition
    if is_sum:
        init = initial(plan.partials, plan.sums.starts, position)
        swap = _ReplaceLoads(dict(zip(elements, loads, strict=True)))
        results = [swap.rewrite(v) for v in plan.sums.values]
    else:
        results = plan.sums.terms
        if condition is not TRUE:
            starts = zip(results, plan.sums.starts, strict=True)
            results, condition = [make.if_then_else(condition, t, start) for t, start in starts], TRUE
    body = storing(plan.partials, results, position)
    if condition is not TRUE:
        body = IfThenElse(condition, body)
    written = dict.fromkeys(plan.sums.buffers)
    made = Block(
        (),
        tuple(r for r in stmt.reads if r.buffer not in written),
        tuple(_point(p, position) for p in plan.partials),
        f"{stmt.name_hint}_rf",
        body,
        init,
        stmt.alloc_buffers,
        stmt.match_buffers,
        stmt.annotations,
    )
    made = substitute(made, known).replace(iter_vars=tuple(axes))
    return fresh_copy(nest(plan.loops, BlockRealize(tuple(values), realize.predicate, made)))


def _partial_axes(plan: _Plan, realize: BlockRealize) -> tuple[list[IterVar], list[PrimExpr], dict[Var, PrimExpr]]:
    """Axes and bindings of the block of partial results, and what its old axes are in terms of these.

    Reduce axes that run over the loop, or share loops with such, make way for one axis for each of their other loops.
    """
    var = plan.loop.loop_var
    factor = Var(f"v{var.name}", var.dtype)
    axes = [IterVar(Range.from_min_extent(plan.loop.min, plan.loop.extent), factor, IterVar.DataPar)]
    values: list[PrimExpr] = [var]
    pairs = list(zip(realize.block.iter_vars, realize.iter_values, strict=True))
    split: dict[Var, None] = {var: None}
    grown = True
    while grown:
        grown = False
        for axis, value in pairs:
            if axis.iter_type == IterVar.CommReduce and mentions(value, split):
                more = [v for v in variables(value) if v in plan.dropped and v not in split]
                split.update(dict.fromkeys(more))
                grown = grown or bool(more)
    made: dict[Var, PrimExpr] = {var: factor}
    known: dict[Var, PrimExpr] = {}
    ranges = {r.loop_var: Range.from_min_extent(r.min, r.extent) for r in plan.inside}
    for axis, value in pairs:
        if axis.iter_type != IterVar.CommReduce or not mentions(value, split):
            axes.append(axis)
            values.append(value)
            continue
        for v in variables(value):
            if v in split and v not in made:
                inner = Var(f"v{v.name}", v.dtype)
                made[v] = inner
                axes.append(IterVar(ranges[v], inner, IterVar.CommReduce))
                values.append(v)
        known[axis.var] = substitute(value, made)
    return axes, values, known


def _final(plan: _Plan) -> tuple[tuple[PrimExpr, ...], Block]:
    """The bindings of the block that combines the partial results, and the block."""
    stmt, realize = plan.block.block, plan.s.state.realize_of(plan.block)
    var = plan.loop.loop_var
    factor = Var(f"v{var.name}", var.dtype)
    axes = [IterVar(Range.from_min_extent(plan.loop.min, plan.loop.extent), factor, IterVar.CommReduce)]
    values: list[PrimExpr] = [var]
    for axis, value in zip(stmt.iter_vars, realize.iter_values, strict=True):
        if axis.iter_type == IterVar.DataPar:
            axes.append(axis)
            values.append(value)
    sums = plan.sums
    elements = [BufferLoad(b, sums.position) for b in sums.buffers]
    partials = [BufferLoad(p, tuple(plan.at_partial(sums.position, factor))) for p in plan.partials]
    body = storing(sums.buffers, sums.combined(elements, partials), sums.position)
    made = Block(
        tuple(axes),
        (),
        (),
        stmt.name_hint,
        body,
        initial(sums.buffers, sums.starts, sums.position),
        annotations=stmt.annotations,
    )
    reads, writes = detect_regions(made)
    first = [_point(p, plan.at_partial(sums.position, factor)) for p in plan.partials]
    more = [r for r in reads if r.buffer not in dict.fromkeys(plan.partials)]
    return tuple(values), made.replace(reads=(*first, *more), writes=writes)


def _point(buffer: Buffer, position: Sequence[PrimExpr]) -> BufferRegion:
    return BufferRegion(buffer, tuple(Range.from_min_extent(i, IntImm(i.dtype, 1)) for i in position))


def _guard(plan: _Plan, partial: Block) -> PrimExpr:
    """Where there are partial results: the guard of the block at the first values of the loops that are dropped.

    The init of a partial result runs there, so the guard must hold there whenever it holds anywhere. Where the loops
    that are dropped are empty, all partial results are what the init says.
    """
    nothing = empty_condition(partial)
    facts = conjuncts(plan.s.state.realize_of(plan.block).predicate)
    bounds = plan.bounds
    kept: list[PrimExpr] = []
    for fact in facts:
        part = fact
        if mentions(fact, plan.dropped):
            part = simplify(substitute(fact, plan.dropped), bounds)
            if not proves(part, bounds, facts):
                refuse(
                    f"the guard `{fact}` of {{0}} may keep the first iteration of other loops of the reduction from "
                    "running while later ones run, and then a partial result would have no start",
                    plan.block.block,
                )
            part = simplify(make.or_(part, nothing), bounds)
        if not proves(part, bounds, kept):
            kept.append(part)
    for r in plan.inside:
        if r.loop_var in plan.dropped and not _is_positive(r.extent, bounds, kept):
            part = make.compare(ex.LT, IntImm(r.extent.dtype, 0), r.extent)
            kept.append(simplify(make.or_(part, nothing), bounds))
    result: PrimExpr = TRUE
    for part in kept:
        result = make.and_(result, part)
    return result


def _is_positive(e: PrimExpr, bounds: Mapping[Var, Bound], facts: Sequence[PrimExpr]) -> bool:
    """Whether `e >= 1` is certain where `facts` hold."""
    if isinstance(e, FloorDiv) and isinstance(e.b, IntImm) and e.b.value > 0:
        return proves(make.compare(ex.GE, e.a, e.b), bounds, facts)
    return proves(make.compare(ex.GE, e, IntImm(e.dtype, 1)), bounds, facts)


def _innermost(stmt: Stmt) -> Block:
    while isinstance(stmt, For):
        stmt = stmt.body
    assert isinstance(stmt, BlockRealize)
    return stmt.block
