"""A block that pads becomes two: one that fills everything with the padding, one that overwrites the inner part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tscript.analysis import detect_regions
from tscript.analysis.ranges import loop_range, range_bounds
from tscript.arith import Bound, simplify
from tscript.ir import construct as make
from tscript.ir.expr import GE, LT, BufferLoad, Call, IterVar, Op, PrimExpr, Range, Select, Var
from tscript.ir.functor import Rewriter, pre_order_visit, substitute
from tscript.ir.occurrences import mentions
from tscript.ir.stmt import Block, BlockRealize, BufferStore, For, ForKind, SeqStmt, Stmt, seq
from tscript.schedule.accumulation import determines
from tscript.schedule.bindings import TRUE
from tscript.schedule.checks import require_complete, require_scope_root
from tscript.schedule.core import ScheduleCore
from tscript.schedule.errors import ScheduleError, refuse
from tscript.schedule.inlining import require_pure
from tscript.schedule.instruction import InstructionKind, Outputs, block, loop
from tscript.schedule.loop_checks import require_loop
from tscript.schedule.primitive import primitive
from tscript.schedule.primitives.decompose_reduction import require_no_interference
from tscript.schedule.rewrite import BlockReuse, fresh_copy, nest, path_to, replace_stmts
from tscript.schedule.rv import BlockRV, LoopRV
from tscript.schedule.sref import StmtSRef
from tscript.schedule.symbols import axis_ranges, conjuncts, gap_of, no_less, outer_bounds, proves


@primitive(InstructionKind("DecomposePadding", "decompose_padding", (block(), loop()), Outputs.ONE))
def decompose_padding(s: ScheduleCore, block: BlockRV | str, loop: LoopRV | str) -> BlockRV:
    """Fill all that a padding block writes with the padding, just before `loop`, and let the block write only the
    inner part; the handle of the block that fills, `<name>_pad_const`.

    The block is complete, `loop` is one of the loops around it, and its body is one store of
    `T.if_then_else(inside, value, padding)`, where `inside` limits axes one by one and `padding` reads no memory.
    Loops below `loop` that an axis is bound to are shortened to the inner part, other axes get a guard.

    >>> import tscript
    >>> from tscript.script import tir as T
    >>> @T.prim_func
    ... def pad(X: T.Buffer((128,), "int32"), Y: T.Buffer((140,), "int32")):
    ...     for i in range(140):
    ...         with T.block("pad"):
    ...             vi = T.axis.spatial(140, i)
    ...             Y[vi] = T.if_then_else(vi >= 6 and vi < 134, X[vi - 6], 0)
    >>> sch = tscript.tir.Schedule(pad)
    >>> fill = sch.decompose_padding("pad", sch.get_loops("pad")[0])
    >>> sch.get(fill).name_hint
    'pad_pad_const'
    >>> print(sch.get(sch.get_loops("pad")[0]))
    for i in range(128):
        with T.block("pad"):
            vi = T.axis.spatial(128, i)
            X = T.Buffer((128,), "int32")
            T.reads(X[vi])
            Y = T.Buffer((140,), "int32")
            T.writes(Y[vi + 6])
            Y[vi + 6] = X[vi]
    """
    plan = _plan(s, s.block(block), require_loop(s, loop))  # pyright: ignore[reportArgumentType]
    filling = _filling(plan)
    inner = _inner(plan)
    changed, reuse = _shortened(plan, inner)
    s.state.replace(plan.at, seq(filling, changed), {**reuse, plan.block.block: inner.block})
    return s.block_of(_innermost(filling))


def can_decompose_padding(s: ScheduleCore, block: BlockRV | str, loop: LoopRV | str) -> bool:
    """Whether `decompose_padding` would be accepted. TypeError, ValueError for what is no block or loop, ScheduleError
    for a name that none or several have.
    """
    steps, handles = 0 if s.trace is None else len(s.trace.insts), len(s.symbols)
    named: dict[str, Any] = {"block": block, "loop": loop}
    try:
        decompose_padding.find_named(s, named)
        target, at = s.block(named["block"]), s.loop(named["loop"])
        try:
            _plan(s, target, at)
        except ScheduleError:
            return False
        return True
    finally:
        # A question is no step, so what was looked up for it is none either.
        s.forget_since(steps, handles)


@dataclass
class _Axis:
    """An axis of a padding block, and the part of it that is inside: `extent` values from `start` on.

    `loop` is the one that runs over exactly these values afterwards, if any; `is_changed` is False where all are
    inside.
    """

    axis: IterVar
    value: PrimExpr
    loop: For | None
    start: PrimExpr
    end: PrimExpr
    is_changed: bool = False
    lows: list[PrimExpr] = field(default_factory=list[PrimExpr])
    highs: list[PrimExpr] = field(default_factory=list[PrimExpr])


@dataclass
class _Plan:
    """A padding block in its loops, from `at` on, what it stores inside and outside, and the part that is inside."""

    s: ScheduleCore
    block: StmtSRef
    at: StmtSRef
    loops: list[For]
    store: BufferStore
    inside: PrimExpr
    padding: PrimExpr
    axes: list[_Axis]

    @property
    def realize(self) -> BlockRealize:
        """The block with its bindings."""
        return self.s.state.realize_of(self.block)


def _plan(s: ScheduleCore, block: StmtSRef, at: StmtSRef) -> _Plan:
    state = s.state
    root = require_scope_root(state, block)
    require_complete(state, block, root)
    around = state.loops_of(block)
    if at not in around:
        refuse("{0} is none of the loops around {1}", at.loop, block.block, hint="take one of sch.get_loops(block)")
    realize = state.realize_of(block)
    path = path_to(at.loop, realize)
    for step in path[:-1]:
        if not isinstance(step, (For, SeqStmt)):
            refuse("between {0} and {1} stands a statement that is no loop", at.loop, block.block)
        if isinstance(step, For) and step.thread_binding is not None:
            refuse("{0} is bound to threads, some of which would fill what others have written", step)
    store, condition, value, padding = _pattern(block.block)
    if not determines(store.indices, axis_ranges(block.block)):
        refuse("different instances of {0} may write the same element, the last of which counts", block.block)
    require_no_interference(s, block, at)
    loops = [p for p in path if isinstance(p, For)]
    tight: list[For] = []
    for above, below in zip(reversed(path[:-1]), reversed(path[1:]), strict=True):
        if not isinstance(above, For) or above.body is not below:
            break
        tight.append(above)
    axes = _inner_axes(s, block, condition, tight)
    return _Plan(s, block, at, loops, store, value, padding, axes)


def _pattern(block: Block) -> tuple[BufferStore, PrimExpr, PrimExpr, PrimExpr]:
    """The store of a padding block, when its value is taken from inside, that value, and the padding."""
    store = block.body
    value = store.value if isinstance(store, BufferStore) else None
    parts: Sequence[PrimExpr] = ()
    if isinstance(value, Call) and isinstance(value.op, Op) and value.op.name == "tir.if_then_else":
        parts = value.args  # pyright: ignore[reportAssignmentType]
    elif isinstance(value, Select):
        parts = (value.condition, value.true_value, value.false_value)
    if not isinstance(store, BufferStore) or not parts or store.predicate is not None or block.init is not None:
        refuse("the body of {0} is not one store of `T.if_then_else(inside, value, padding)`", block)
    condition, inside, padding = parts
    if block.alloc_buffers or any(m.buffer is not store.buffer for m in block.match_buffers):
        refuse("{0} has buffers of its own, which only one of the two blocks could have", block)
    require_pure(block, inside, store.buffer)
    for part, what in ((padding, "the padding"), (condition, "the condition")):
        require_pure(block, part, store.buffer)
        if _has_load(part):
            refuse(f"{what} `{part}` of {{0}} reads memory", block)
    return store, condition, inside, padding


def _has_load(e: PrimExpr) -> bool:
    found = False

    def look(node: object) -> bool:
        nonlocal found
        found = found or isinstance(node, BufferLoad)
        return not found

    pre_order_visit(e, look)
    return found


# -- the inner part -------------------------------------------------------------------------------


def _inner_axes(s: ScheduleCore, block: StmtSRef, condition: PrimExpr, tight: Sequence[For]) -> list[_Axis]:
    stmt, realize = block.block, s.state.realize_of(block)
    by_var: dict[Var, _Axis] = {}
    loops = {r.loop_var: r for r in tight}
    for axis, value in zip(stmt.iter_vars, realize.iter_values, strict=True):
        assert axis.dom is not None
        own = loops.get(value) if isinstance(value, Var) else None
        end = simplify(make.add(axis.dom.min, axis.dom.extent))
        by_var[axis.var] = _Axis(axis, value, own, axis.dom.min, end)
    bounds = {**_sizes(stmt), **outer_bounds(s.state, block), **range_bounds(axis_ranges(stmt))}
    for part in conjuncts(simplify(condition, bounds)):
        if make.is_const_int(part, 0):
            refuse(f"the condition `{condition}` of {{0}} never holds, so there is no inner part", stmt)
        gap = gap_of(part)
        used = [t for t in (gap[0] if gap is not None else ()) if mentions(t, by_var)]
        if gap is None or len(used) != 1 or not isinstance(used[0], Var):
            refuse(
                f"the condition `{part}` of {{0}} does not limit one axis from below or above, so the inner part is "
                "no box",
                stmt,
            )
        limit = _limit(used[0], *gap)
        if limit is None:
            refuse(f"the condition `{part}` of {{0}} does not give a limit of `{used[0].name}`", stmt)
        end, is_low = limit
        (by_var[used[0]].lows if is_low else by_var[used[0]].highs).append(make.cast(end, used[0].dtype))
    for a in by_var.values():
        _narrow(a, stmt, bounds)
    if not any(a.is_changed for a in by_var.values()):
        refuse("the condition in {0} holds for all its instances, so nothing is padded", stmt)
    return list(by_var.values())


def _sizes(block: Block) -> dict[Var, Bound]:
    """Bounds of variables that are dimensions of the buffers a block uses."""
    buffers = [r.buffer for r in (*block.reads, *block.writes)]
    return {d: Bound(0, None) for b in buffers for d in b.shape if isinstance(d, Var)}


def _limit(var: Var, terms: dict[PrimExpr, int], constant: int) -> tuple[PrimExpr, bool] | None:
    """What `terms + constant >= 0` says of a variable: its least value, or the first one beyond (then False)."""
    factor = terms[var]
    rest: PrimExpr = make.const(constant, var.dtype)
    for t, c in terms.items():
        if t is not var:
            if abs(factor) != 1:
                return None
            rest = make.add(rest, make.mul(make.cast(t, var.dtype), c))
    if factor > 0:
        # factor * v >= -rest
        return (simplify(make.neg(rest)) if factor == 1 else make.const(-(constant // factor), var.dtype)), True
    last = rest if factor == -1 else make.const(constant // -factor, var.dtype)
    return simplify(make.add(last, 1)), False


def _narrow(a: _Axis, stmt: Block, bounds: dict[Var, Bound]) -> None:
    """Cut the part of an axis that is inside to what its limits leave."""
    lows = [e for e in a.lows if not no_less(a.start, e, bounds)]
    highs = [e for e in a.highs if not no_less(e, a.end, bounds)]
    a.is_changed = bool(lows or highs)
    if not a.is_changed:
        return
    if a.loop is not None:
        r = loop_range(a.loop)
        lows.append(r.min)
        highs.append(simplify(make.add(r.min, r.extent)))
    for e in lows:
        a.start = e if no_less(e, a.start, bounds) else simplify(make.max_(a.start, e), bounds)
    for e in highs:
        a.end = e if no_less(a.end, e, bounds) else simplify(make.min_(a.end, e), bounds)
    if no_less(a.start, a.end, bounds):
        refuse(f"the condition in {{0}} holds nowhere on its axis `{a.axis.var.name}`, so there is no inner part", stmt)
    if not no_less(a.end, a.start, bounds):
        # Sizes that may leave nothing inside.
        a.end = make.max_(a.start, a.end)


# -- the two blocks -------------------------------------------------------------------------------


def _filling(plan: _Plan) -> Stmt:
    """Copies of the loops from `at` on around the block that fills everything."""
    stmt = plan.block.block
    made = Block(
        stmt.iter_vars,
        (),
        stmt.writes,
        f"{stmt.name_hint}_pad_const",
        plan.store.replace(value=plan.padding),
        None,
        (),
        stmt.match_buffers,
        stmt.annotations,
    )
    serial = [r.replace(kind=ForKind.SERIAL, thread_binding=None, annotations={}) for r in plan.loops]
    return fresh_copy(nest(serial, plan.realize.replace(block=made)))


def _shifts(plan: _Plan) -> dict[Var, PrimExpr]:
    """What loop variables were, in terms of those of the shortened loops."""
    return {a.loop.loop_var: make.add(a.loop.loop_var, a.start) for a in plan.axes if a.is_changed and a.loop}


def _inner(plan: _Plan) -> BlockRealize:
    """The block, over the inner part only, with its bindings and guard."""
    stmt, realize = plan.block.block, plan.realize
    shifts = _shifts(plan)
    bounds = _new_bounds(plan)
    axes: list[IterVar] = []
    values: list[PrimExpr] = []
    known: dict[Var, PrimExpr] = {}
    guard: list[PrimExpr] = []
    for a in plan.axes:
        value = substitute(a.value, shifts)
        if not a.is_changed:
            axes.append(a.axis)
            values.append(value if value is a.value else simplify(value, bounds))
            continue
        extent = simplify(make.sub(a.end, a.start), bounds)
        axes.append(a.axis.replace(dom=Range.from_min_extent(make.const(0, extent.dtype), extent)))
        values.append(simplify(make.sub(value, a.start), bounds))
        known[a.axis.var] = make.add(a.axis.var, a.start)
        if a.loop is None:
            guard += [make.compare(GE, value, a.start), make.compare(LT, value, a.end)]
    guard += [substitute(c, shifts) for c in conjuncts(realize.predicate)]
    kept: list[PrimExpr] = []
    for part in guard:
        if not proves(part, bounds, kept):
            kept.append(simplify(part, bounds))
    predicate: PrimExpr = TRUE
    for part in kept:
        predicate = make.and_(predicate, part)
    tidy = _Shift(known, range_bounds(axis_ranges(stmt.replace(iter_vars=tuple(axes)))))
    body: BufferStore = tidy.rewrite(plan.store.replace(value=plan.inside))
    made = stmt.replace(iter_vars=tuple(axes), body=body)
    made = made.replace(match_buffers=tuple(tidy.rewrite(m) for m in stmt.match_buffers))
    reads, writes = detect_regions(made)
    return BlockRealize(tuple(values), predicate, made.replace(reads=reads, writes=writes))


def _new_bounds(plan: _Plan) -> dict[Var, Bound]:
    """Constant bounds of the loops around the block, the shortened ones as they will be."""
    ranges = {
        a.loop.loop_var: Range.from_min_extent(make.const(0, a.end.dtype), simplify(make.sub(a.end, a.start)))
        for a in plan.axes
        if a.is_changed and a.loop
    }
    return {**outer_bounds(plan.s.state, plan.block), **range_bounds(ranges)}


class _Shift(Rewriter):
    """Puts what axes were in terms of the new ones, and simplifies subscripts."""

    def __init__(self, known: dict[Var, PrimExpr], bounds: dict[Var, Bound]) -> None:
        super().__init__()
        self.known = known
        self.bounds = bounds

    def rewrite_Var(self, node: Var) -> PrimExpr:
        """What an axis was."""
        return self.known.get(node, node)

    def leave_BufferLoad(self, node: BufferLoad) -> PrimExpr:
        """A load with simple subscripts."""
        return node.replace(indices=tuple(simplify(i, self.bounds) for i in node.indices))

    def leave_BufferStore(self, node: BufferStore) -> Stmt:
        """A store with simple subscripts."""
        return node.replace(indices=tuple(simplify(i, self.bounds) for i in node.indices))


def _shortened(plan: _Plan, inner: BlockRealize) -> tuple[Stmt, BlockReuse]:
    """The loops from `at` on, those that run over the inner part shortened to it."""
    shifts = _shifts(plan)
    short = {a.loop.loop_var: a for a in plan.axes if a.is_changed and a.loop}
    body: Stmt = inner
    old: Stmt = plan.realize
    for r in reversed(plan.loops):
        if r.body is not old:
            break
        found = short.get(r.loop_var)
        if found is not None:
            extent = simplify(make.sub(found.end, found.start))
            body = r.replace(min=make.const(0, r.loop_var.dtype), extent=extent, body=body)
        else:
            body = r.replace(min=substitute(r.min, shifts), extent=substitute(r.extent, shifts), body=body)
        old = r
    if old is plan.at.loop:
        return body, {}
    return replace_stmts(plan.at.loop, {old: body})


def _innermost(stmt: Stmt) -> Block:
    while isinstance(stmt, For):
        stmt = stmt.body
    assert isinstance(stmt, BlockRealize)
    return stmt.block
