"""The init of a reduction becomes a block of its own, run before the accumulation."""

from __future__ import annotations

from tscript.analysis import detect_regions
from tscript.analysis.affine import find_digits, join_limited
from tscript.analysis.ranges import range_bounds
from tscript.arith import simplify
from tscript.ir import construct as make
from tscript.ir.buffer import Buffer
from tscript.ir.dtype import BOOL
from tscript.ir.empty_reductions import empty_condition
from tscript.ir.expr import BufferLoad, IntImm, IterVar, PrimExpr, Range, Var
from tscript.ir.functor import pre_order_visit, substitute
from tscript.ir.occurrences import mentions, variables
from tscript.ir.stmt import Block, BlockRealize, BufferRegion, BufferStore, For, SeqStmt, Stmt, seq
from tscript.schedule.buffers import same_region
from tscript.schedule.checks import region_cover, require_reduction, require_scope_root
from tscript.schedule.core import ScheduleCore
from tscript.schedule.errors import refuse
from tscript.schedule.instruction import InstructionKind, Outputs, block, loop
from tscript.schedule.loop_checks import require_loop
from tscript.schedule.primitive import primitive
from tscript.schedule.rewrite import declaring_reads, fresh_copy, path_to, replace_stmts
from tscript.schedule.rv import BlockRV, LoopRV
from tscript.schedule.sref import StmtSRef
from tscript.schedule.state import ScheduleState
from tscript.schedule.symbols import conjuncts, loop_ranges, loop_variables_of, outer_bounds


@primitive(InstructionKind("DecomposeReduction", "decompose_reduction", (block(), loop()), Outputs.ONE))
def decompose_reduction(s: ScheduleCore, block: BlockRV | str, loop: LoopRV | str) -> BlockRV:
    """Move the init of a reduction into a block `<name>_init` just before `loop`; the handle of that block.

    `loop` is one of the loops around the block, and no loop outside it is used by a reduce axis. The new block
    runs over the loops from `loop` inward that spatial axes use, under the part of the guard that concerns
    them. What is left of the block, `<name>_update`, keeps its handle and reads what it accumulates into.

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
    >>> i, k = sch.get_loops("sum")
    >>> init = sch.decompose_reduction("sum", k)
    >>> print(sch.get(i))
    for i in range(8):
        Y = T.Buffer((8,))
        with T.block("sum_init"):
            vi = T.axis.spatial(8, i)
            T.reads()
            T.writes(Y[vi])
            Y[vi] = T.float32(0.0)
        for k in range(12):
            with T.block("sum_update"):
                vi, vk = T.axis.remap("SR", [i, k])
                X = T.Buffer((8, 12))
                T.reads(Y[vi], X[vi, vk])
                T.writes(Y[vi])
                Y[vi] = Y[vi] + X[vi, vk]
    """
    target = s.block(block)  # pyright: ignore[reportArgumentType]
    at = require_loop(s, loop)  # pyright: ignore[reportArgumentType]
    root = require_scope_root(s.state, target)
    stmt = target.block
    loops = s.state.loops_of(target)
    if at not in loops:
        refuse("{0} is none of the loops around {1}", at.loop, stmt, hint="the loop comes from sch.get_loops(block)")
    if stmt.init is None:
        refuse("{0} has no T.init() that could be taken out", stmt)
    if s.enable_check:
        require_reduction(s.state, target, root)
        _require_movable_init(s, target, at, loops)
    inner = [r.loop for r in loops[loops.index(at) :]]
    made = _init_nest(s, target, inner)
    update = stmt.replace(name_hint=f"{stmt.name_hint}_update", init=None, reads=_update_reads(stmt))
    realize = s.state.realize_of(target)
    changed, _ = replace_stmts(at.loop, {realize: realize.replace(block=update)})
    top, new, reuse = declaring_reads(s.state, at, seq(made, changed), dict.fromkeys(w.buffer for w in stmt.writes))
    s.state.replace(top, new, {**reuse, stmt: update})
    return s.block_of(_innermost(made))


def _require_movable_init(s: ScheduleCore, target: StmtSRef, at: StmtSRef, loops: list[StmtSRef]) -> None:
    state, stmt = s.state, target.block
    realize = state.realize_of(target)
    reduced = loop_variables_of(realize, IterVar.CommReduce)
    for outer in loops[: loops.index(at)]:
        if outer.loop.loop_var in reduced:
            refuse(
                "{0} is outside {1}, but the reduce axes of {2} run over it, so the init would be repeated",
                outer.loop,
                at.loop,
                stmt,
                hint=f"give the outermost loop of the reduction, `{outer.loop.loop_var.name}`, or reorder it inside",
            )
    bound = variables(*realize.iter_values)
    for inner in loops[loops.index(at) :]:
        if inner.loop.loop_var not in bound and not make.is_const_int(inner.loop.extent, 1):
            refuse("{0} repeats {1} without any of its axes running over it", inner.loop, stmt)
    require_first_values(state, target)
    path = path_to(at.loop, realize)
    for step in path[:-1]:
        if not isinstance(step, (For, SeqStmt)):
            refuse(
                "between {0} and {1} stands a statement that is no loop, which would not cover the init", at.loop, stmt
            )
    require_no_interference(s, target, at)


def require_first_values(state: ScheduleState, block: StmtSRef) -> None:
    """Refuse a reduction whose init may not run in the first iteration of its loops."""
    stmt, realize = block.block, state.realize_of(block)
    domain = loop_ranges(state.loops_of(block))
    values, _, domain = join_limited(realize.iter_values, conjuncts(realize.predicate), domain)
    for axis, value in zip(stmt.iter_vars, values, strict=True):
        if axis.iter_type == IterVar.CommReduce:
            found = find_digits(value, domain)
            assert axis.dom is not None
            if found is None or found.base is not axis.dom.min:
                refuse(f"the axis `{axis.var.name}` of {{0}} never takes its first value, at which the init runs", stmt)


def require_no_interference(s: ScheduleCore, target: StmtSRef, at: StmtSRef) -> None:
    """Refuse other blocks below the loop that see the written buffers before they are complete, or feed the init."""
    stmt = target.block
    written = dict.fromkeys(w.buffer for w in stmt.writes)
    needed = {} if stmt.init is None else _loaded(stmt.init)
    others = s.state.child_blocks(at)
    position = others.index(target)
    for i, other in enumerate(others):
        if other is target:
            continue
        if any(w.buffer in needed for w in other.block.writes):
            refuse("{0} makes what the init of {1} reads, below {2}", other.block, stmt, at.loop)
        if any(r.buffer in written for r in other.block.reads) and (i < position or not region_cover(s.state, other)):
            refuse("{0} reads what {1} writes before it is complete", other.block, stmt)


def _loaded(stmt: Stmt) -> dict[Buffer, None]:
    found: dict[Buffer, None] = {}

    def look(node: object) -> bool:
        if isinstance(node, BufferLoad):
            found[node.buffer] = None
        return True

    pre_order_visit(stmt, look)
    return found


def _stored(stmt: Stmt) -> dict[Buffer, None]:
    found: dict[Buffer, None] = {}

    def look(node: object) -> bool:
        if isinstance(node, BufferStore):
            found[node.buffer] = None
        return True

    pre_order_visit(stmt, look)
    return found


def _init_nest(s: ScheduleCore, target: StmtSRef, inner: list[For]) -> Stmt:
    """The init block in its loops: those of `inner` that spatial axes use."""
    stmt, realize = target.block, s.state.realize_of(target)
    assert stmt.init is not None
    spatial = loop_variables_of(realize, IterVar.DataPar)
    kept = [r for r in inner if r.loop_var in spatial]
    dropped: dict[Var, PrimExpr] = {r.loop_var: r.min for r in inner if r.loop_var not in spatial}
    renamed: dict[Var, PrimExpr] = {r.loop_var: r.loop_var.copy_with(name=f"{r.loop_var.name}_init") for r in kept}
    axes = tuple(a for a in stmt.iter_vars if a.iter_type == IterVar.DataPar)
    values = tuple(
        substitute(v, renamed)
        for a, v in zip(stmt.iter_vars, realize.iter_values, strict=True)
        if a.iter_type == IterVar.DataPar
    )
    predicate = _guard(s, target, inner, dropped)
    body: Stmt = BlockRealize(values, substitute(predicate, renamed), _init_block(stmt, axes))
    for r in reversed(kept):
        if mentions(r.min, dropped) or mentions(r.extent, dropped):
            refuse("{0} runs over a range that depends on a loop of the reduction", r)
        var = renamed[r.loop_var]
        assert isinstance(var, Var)
        body = For(var, substitute(r.min, renamed), substitute(r.extent, renamed), r.kind, body, r.thread_binding)
    return body


def _init_block(stmt: Block, axes: tuple[IterVar, ...]) -> Block:
    assert stmt.init is not None
    own = dict.fromkeys(stmt.alloc_buffers)
    touched = {**_loaded(stmt.init), **_stored(stmt.init)}
    if any(b in own for b in touched):
        name = next(b.name for b in touched if b in own)
        refuse(f"the init of {{0}} uses `{name}`, which {{0}} allocates itself", stmt)
    reduced = {a.var: None for a in stmt.iter_vars if a.iter_type != IterVar.DataPar}
    if mentions(stmt.init, reduced):
        refuse("the init of {0} depends on one of its reduce axes", stmt)
    views = tuple(m for m in stmt.match_buffers if m.buffer in touched)
    made = Block(
        axes,
        (),
        tuple(_free_of(w, reduced) for w in stmt.writes),
        f"{stmt.name_hint}_init",
        stmt.init,
        None,
        (),
        views,
        stmt.annotations,
    )
    if _loaded(stmt.init):
        made = made.replace(reads=detect_regions(made)[0])
    return fresh_copy(made)


def _free_of(region: BufferRegion, names: dict[Var, None]) -> BufferRegion:
    """The region, with whole dimensions where it depends on `names`."""
    ranges = [
        Range.from_min_extent(make.const(0, size.dtype), size)
        if mentions(r.min, names) or mentions(r.extent, names)
        else r
        for r, size in zip(region.region, region.buffer.shape, strict=True)
    ]
    return BufferRegion(region.buffer, tuple(ranges))


def _guard(s: ScheduleCore, target: StmtSRef, inner: list[For], dropped: dict[Var, PrimExpr]) -> PrimExpr:
    """The predicate at the first values of the loops that are dropped: there the init ran, so there it must run.

    Where a reduce axis is empty, it ran too, whatever the predicate says of the loops of the reduction.
    """
    nothing = empty_condition(target.block)
    realize = s.state.realize_of(target)
    bounds = {
        **outer_bounds(s.state, target),
        **range_bounds({r.loop_var: Range.from_min_extent(r.min, r.extent) for r in inner}),
    }
    spatial = loop_variables_of(realize, IterVar.DataPar)
    reduced = loop_variables_of(realize, IterVar.CommReduce)
    mixed = {r.loop_var: None for r in inner if r.loop_var in spatial and r.loop_var in reduced}
    result: PrimExpr = IntImm(BOOL, 1)
    for part in conjuncts(realize.predicate):
        if mentions(part, mixed):
            refuse(
                f"the guard `{part}` of {{0}} restricts a loop that both spatial and reduce axes run over",
                target.block,
                hint="decompose the reduction before fusing these loops",
            )
        if mentions(part, dropped):
            part = simplify(make.or_(substitute(part, dropped), nothing), bounds)
        # The last condition first.
        result = make.and_(part, result)
    return result


def _update_reads(stmt: Block) -> list[BufferRegion]:
    """What the block without its init reads: also what it accumulates into."""
    more = [w for w in stmt.writes if not any(same_region(w, r) for r in stmt.reads)]
    return [*more, *stmt.reads]


def _innermost(stmt: Stmt) -> Block:
    while isinstance(stmt, For):
        stmt = stmt.body
    assert isinstance(stmt, BlockRealize)
    return stmt.block
