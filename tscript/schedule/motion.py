"""Moving a block into a loop: what `compute_at` and `reverse_compute_at` have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tscript.analysis.dependence import find_witness, footprint
from tscript.analysis.ranges import loop_range, range_bounds
from tscript.arith import Bound, Interval, simplify
from tscript.ir import construct as make
from tscript.ir import expr as ex
from tscript.ir.buffer import Buffer
from tscript.ir.empty_reductions import empty_condition
from tscript.ir.expr import IntImm, IterVar, PrimExpr, Var
from tscript.ir.functor import children, post_order_visit
from tscript.ir.occurrences import variables
from tscript.ir.stmt import Block, BlockRealize, For, ForKind, SeqStmt, Stmt, seq
from tscript.schedule.bindings import TRUE
from tscript.schedule.checks import require_complete_or_reduction, require_scope_root, require_stage_pipeline
from tscript.schedule.core import ScheduleCore
from tscript.schedule.errors import literal, refuse
from tscript.schedule.instances import AxisDomain, Box, clip, lies_within, moves_apart, reach_of, solve, touched
from tscript.schedule.loop_kind import require_still_independent
from tscript.schedule.rewrite import replace_stmts, require_removable
from tscript.schedule.sref import StmtSRef
from tscript.schedule.state import ScheduleState
from tscript.schedule.symbols import axis_ranges, conjuncts, loop_ranges, outer_bounds, proves
from tscript.schedule.update_order import require_order_kept


@dataclass
class Move:
    """A block, the loop it goes under, the scope of both, and the blocks it must stay after and before."""

    s: ScheduleCore
    block: StmtSRef
    loop: StmtSRef
    root: StmtSRef
    before: Sequence[StmtSRef]
    after: Sequence[StmtSRef]

    @property
    def state(self) -> ScheduleState:
        """The program."""
        return self.s.state


def prepare(s: ScheduleCore, block: StmtSRef, loop: StmtSRef) -> Move:
    """What moving `block` under `loop` involves; refused where the two do not fit."""
    root = require_scope_root(s.state, block)
    require_stage_pipeline(s, root)
    require_complete_or_reduction(s.state, block, root)
    if s.state.scope_root(loop) is not root:
        refuse("{0} and {1} are in different blocks", loop.loop, block.block)
    if s.state.is_ancestor(loop, block):
        refuse("{0} is around {1} already", loop.loop, block.block, hint="choose a loop of another nest")
    _require_closed(s.state, block)
    for outer in (*s.state.loops_of(loop), loop):
        if outer.loop.kind == ForKind.VECTORIZED:
            refuse(
                "{0} is vectorized, and a nest of loops cannot be put inside its lanes",
                outer.loop,
                hint="compute at a loop outside of it, or vectorize afterwards",
            )
    scope = s.state.scope(root)
    return Move(s, block, loop, root, scope.producers(block), scope.consumers(block))


def _require_closed(state: ScheduleState, block: StmtSRef) -> None:
    """Refuse a block whose body uses loops around it directly, as one without axes may: elsewhere they do not exist."""
    around = {r.loop.loop_var: r for r in state.loops_of(block)}
    used: list[StmtSRef] = []

    def look(node: object) -> None:
        if isinstance(node, Var) and node in around:
            used.append(around[node])

    if around and not block.block.iter_vars:
        post_order_visit(block.block, look)
    if used:
        refuse(
            "{0} has no axes and uses {1} directly, so it has no meaning outside of that loop",
            block.block,
            used[0].loop,
            hint="move the blocks inside it, or give it axes",
        )


def position(move: Move, index: int) -> int:
    """Where among the statements of the loop's body the block goes: after its producers, before its consumers.

    -1 is the last such place, -2 the first; other numbers must be one of them.
    """
    body = move.loop.loop.body
    parts = body.seq if isinstance(body, SeqStmt) else (body,)
    places = [dict.fromkeys(blocks_in(move.state, p)) for p in parts]
    first = max((i + 1 for i, p in enumerate(places) if any(b in p for b in move.before)), default=0)
    last = min((i for i, p in enumerate(places) if any(b in p for b in move.after)), default=len(parts))
    if first > last:
        refuse(
            "{0} would have to stand both after its producers and before its consumers in {1}",
            move.block.block,
            move.loop.loop,
        )
    if index in (-1, -2):
        return last if index == -1 else first
    if not first <= index <= last:
        raise ValueError(
            f"index {index} is no place for the block: {first} to {last} are, -1 is the last and -2 the first"
        )
    return index


def blocks_in(state: ScheduleState, stmt: Stmt) -> list[StmtSRef]:
    """The child blocks of the scope that stand in one statement of a loop's body."""
    found: list[StmtSRef] = []
    stack = [stmt]
    while stack:
        at = stack.pop()
        if isinstance(at, BlockRealize):
            found.append(state.stmt2ref[at.block])
        elif not isinstance(at, Block):
            stack.extend(c for c in children(at) if isinstance(c, Stmt))
    return found


def require_droppable_predicate(move: Move) -> None:
    """Refuse a block with a condition of its own: at a new place only the domains of its axes are kept."""
    realize = move.state.realize_of(move.block)
    kept: PrimExpr = TRUE
    for axis, value in zip(realize.block.iter_vars, realize.iter_values, strict=True):
        assert axis.dom is not None
        kept = make.and_(kept, make.compare(ex.LT, value, make.add(axis.dom.min, axis.dom.extent)))
        kept = make.and_(kept, make.compare(ex.GE, value, axis.dom.min))
    bounds = outer_bounds(move.state, move.block)
    for part in conjuncts(realize.predicate):
        if not proves(part, bounds, conjuncts(kept)):
            refuse("{0} runs only where {1}, which is more than the domains of its axes say", move.block.block, part)


def wanted_regions(
    move: Move,
    others: Sequence[StmtSRef],
    buffers: Mapping[Buffer, None],
    reads: bool,
    by_all_threads: bool = True,
) -> dict[Buffer, Box]:
    """What `others`, which are under the loop, read or write of `buffers` in one of its iterations."""
    return touched(move.state, move.loop, others, buffers, reads, inner_bounds(move), by_all_threads)


def inner_bounds(move: Move) -> dict[Var, Bound]:
    """Constant bounds of the loops around the new place."""
    state = move.state
    above = outer_bounds(state, move.loop)
    return {**above, **range_bounds({**loop_ranges([*state.loops_of(move.loop), move.loop])})}


def place(move: Move, solution: Mapping[Var, Interval], preserve_unit_loops: bool, index: int, why: str) -> None:
    """Take the block out and put it, with loops over the needed instances, into the loop."""
    at = position(move, index)
    require_order_kept(move.state.realize_of(move.block), [r.loop for r in move.state.loops_of(move.block)], solution)
    gone = require_removable(move.state, move.block, move.root)
    nest = _new_nest(move, solution, preserve_unit_loops)
    _require_init_runs(move, nest)
    loop = move.loop.loop
    parts = list(loop.body.seq) if isinstance(loop.body, SeqStmt) else [loop.body]
    parts.insert(at, nest)
    changed, reuse = replace_stmts(move.root.block, {gone: None, loop: loop.replace(body=seq(*parts))})
    require_still_independent(move.s, move.loop, move.block.block, (move.root, changed, reuse))
    move.state.replace(move.root, changed, reuse, why)


def _require_init_runs(move: Move, nest: Stmt) -> None:
    """Refuse a reduction that may be empty in a loop that may be empty for another reason: no init would be left."""
    if make.is_const_int(empty_condition(move.block.block), 0):
        return
    used = variables(nest)
    before = move.state.loops_of(move.block)
    for outer in (*move.state.loops_of(move.loop), move.loop):
        extent = outer.loop.extent
        positive = isinstance(extent, IntImm) and extent.value > 0
        if not positive and outer not in before and outer.loop.loop_var not in used:
            refuse(
                "{0} reduces over what may be empty and still writes what its init says, but not inside {1}, which may "
                "have no iterations",
                move.block.block,
                outer.loop,
                hint="separate the init first, with decompose_reduction",
            )


def _new_nest(move: Move, solution: Mapping[Var, Interval], preserve_unit_loops: bool) -> Stmt:
    realize = move.state.realize_of(move.block)
    bounds = inner_bounds(move)
    loops: list[tuple[Var, PrimExpr]] = []
    values: list[PrimExpr] = []
    guards: list[PrimExpr] = []
    for axis in realize.block.iter_vars:
        domain = clip(axis, solution.get(axis.var), bounds)
        value, loop = _bind(domain, axis, len(loops), preserve_unit_loops)
        if loop is not None:
            loops.append((loop, domain.extent))
            extent = domain.extent
            bounds[loop] = Bound(0, extent.value - 1 if isinstance(extent, IntImm) and extent.value > 0 else None)
        values.append(simplify(value, bounds))
        if domain.at_least is not None:
            guards.append(make.compare(ex.GE, value, domain.at_least))
        if domain.below is not None:
            guards.append(make.compare(ex.LT, value, domain.below))
    predicate: PrimExpr = TRUE
    for g in guards:
        predicate = make.and_(predicate, simplify(g, bounds))
    body: Stmt = BlockRealize(tuple(values), predicate, realize.block)
    for var, extent in reversed(loops):
        body = For(var, IntImm(var.dtype, 0), extent, ForKind.SERIAL, body)
    return body


def _bind(domain: AxisDomain, axis: IterVar, count: int, preserve_unit_loops: bool) -> tuple[PrimExpr, Var | None]:
    if make.is_const_int(domain.extent, 1) and not preserve_unit_loops:
        return domain.low, None
    loop = Var(f"ax{count}", domain.extent.dtype)
    return make.add(domain.low, loop), loop


def domain_interval(axis: IterVar, bounds: Mapping[Var, Bound]) -> Interval:
    """All values of an axis."""
    assert axis.dom is not None
    last = simplify(make.sub(make.add(axis.dom.min, axis.dom.extent), 1), bounds)
    return Interval(axis.dom.min, last)


def require_sources_ready(move: Move, solution: Mapping[Var, Interval], sources: Sequence[StmtSRef]) -> None:
    """Refuse a move after which the block reads what `sources`, which are under the loop, have not made yet."""
    if not sources or not move.s.enable_check:
        return
    block, bounds = move.block.block, inner_bounds(move)
    axes = {a.var: solution.get(a.var) or domain_interval(a, bounds) for a in block.iter_vars}
    made = wanted_regions(move, sources, dict.fromkeys(w.buffer for p in sources for w in p.block.writes), reads=False)
    for buffer, box in made.items():
        for reach in reach_of(axes, block.reads, buffer, bounds):
            if not lies_within(reach, box, buffer, bounds):
                example = _example_of_unready(move, solution, buffer)
                refuse(
                    f"in one iteration of {{0}}, {{1}} would read elements of `{literal(buffer.name)}` that other "
                    f"iterations make{literal(example)}",
                    move.loop.loop,
                    block,
                    hint="choose a loop further out",
                )


def _example_of_unready(move: Move, solution: Mapping[Var, Interval], buffer: Buffer) -> str:
    """An iteration that would read what a later one writes, in words; "" where none is found."""
    loop, state = move.loop.loop, move.state
    root = axis_ranges(move.root.block)
    around = {**root, **loop_ranges(state.loops_of(move.loop))}
    readers = [
        replace(a, domain={loop.loop_var: loop_range(loop), **a.domain})
        for a in footprint(_new_nest(move, solution, True)).found
        if not a.is_write and a.buffer is buffer
    ]
    for w in footprint(loop).found:
        for x in readers if w.is_write else ():
            found = find_witness(loop.loop_var, w, x, around, too_late=True)
            if found is not None:
                return ": " + found.explain(buffer.name, False)
    return ""


__all__ = [
    "Move", "blocks_in", "domain_interval", "inner_bounds", "moves_apart", "place", "position", "prepare",
    "require_droppable_predicate", "require_sources_ready", "solve", "wanted_regions",
]  # fmt: skip
