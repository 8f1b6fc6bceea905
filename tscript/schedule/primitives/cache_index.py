"""Subscripts that are computed again and again come from a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tscript.analysis.ranges import binding_map, loop_range, range_bounds
from tscript.arith import Bound, const_bound
from tscript.ir import construct as make
from tscript.ir import expr as ex
from tscript.ir.buffer import Buffer, decl_buffer
from tscript.ir.expr import BufferLoad, Call, IntImm, IterVar, Op, PointerType, PrimExpr, Range, Var
from tscript.ir.functor import Rewriter, Visitor, children, pre_order_visit, substitute
from tscript.ir.linear import difference
from tscript.ir.occurrences import mentions, variables
from tscript.ir.stmt import Block, BlockRealize, BufferRegion, BufferStore, For, ForKind, SeqStmt, Stmt, seq
from tscript.schedule.bindings import TRUE
from tscript.schedule.buffers import require_storage_scope
from tscript.schedule.checks import require_scope_root
from tscript.schedule.core import ScheduleCore
from tscript.schedule.instruction import InstructionKind, Outputs, attr, block
from tscript.schedule.primitive import primitive
from tscript.schedule.rewrite import path_to
from tscript.schedule.rv import BlockRV
from tscript.schedule.sref import StmtSRef
from tscript.schedule.staging import Location, with_stage
from tscript.schedule.state import ScheduleState
from tscript.schedule.symbols import axis_ranges, bound_inside, conjuncts, proves

_KIND = InstructionKind("CacheIndex", "cache_index", (block(), attr("storage_scope"), attr("cse_thresh")), Outputs.LIST)


@primitive(_KIND)
def cache_index(s: ScheduleCore, block: BlockRV | str, storage_scope: str, cse_thresh: int = 0) -> list[BlockRV]:
    """Compute subscripts of a block beforehand, each into a table that the block looks it up in; the computing blocks.

    A subscript, or a part of one, gets a table `index_var_0`, `index_var_1`, ... in `storage_scope` if it is computed
    at least `cse_thresh` times in the block, is more than a variable or constant, reads no memory, cannot fail, and
    depends on the axes of the block only (and on what is known outside the scope). The largest ones come first;
    nothing inside of what has a table gets one of its own. The tables have one dimension for each axis involved. They
    are filled in front of the outermost loop of the block by blocks `index_0`, `index_1`, ... Subscripts in blocks
    inside of the block stay. Where nothing qualifies, nothing changes and the list is empty.

    Raises ValueError for a negative threshold, TypeError for one that is no integer.

    >>> import tscript
    >>> from tscript.script import tir as T
    >>> @T.prim_func
    ... def pick(A: T.Buffer((4,), "float32"), B: T.Buffer((8,), "float32")):
    ...     for i in range(8):
    ...         with T.block("B"):
    ...             v = T.axis.spatial(8, i)
    ...             B[v] = A[v * 3 // 7]
    >>> sch = tscript.tir.Schedule(pick)
    >>> table, = sch.cache_index("B", "local")
    >>> print(sch.get(sch.get_loops(table)[0]))
    for ax0 in range(8):
        with T.block("index_0"):
            v0 = T.axis.spatial(8, ax0)
            T.reads()
            index_var_0 = T.Buffer((8,), "int32", scope="local")
            T.writes(index_var_0[v0])
            index_var_0[v0] = v0 * 3 // 7
    >>> print(sch.get(sch.get_block("B")).body)
    B = T.Buffer((8,))
    A = T.Buffer((4,))
    index_var_0 = T.Buffer((8,), "int32", scope="local")
    v = T.int32()
    B[v] = A[index_var_0[v]]
    """
    scope = require_storage_scope(storage_scope)
    if isinstance(cse_thresh, bool) or not isinstance(cse_thresh, int):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"cse_thresh counts occurrences, so it is an integer, not {cse_thresh!r}")
    if cse_thresh < 0:
        raise ValueError(f"cse_thresh counts occurrences, so it cannot be {cse_thresh}")
    target = s.block(block)  # pyright: ignore[reportArgumentType]
    root = require_scope_root(s.state, target)
    subscripts = _Subscripts(s.state, target, root)
    found = _choose(subscripts, cse_thresh)
    if not found:
        return []
    realize = s.state.realize_of(target)
    tables = [_table(s.state, target, subscripts.hidden, group, k, scope) for k, group in enumerate(found)]
    loads = {e: t.load for t, group in zip(tables, found, strict=True) for e in group.forms}
    looked_up = _LookUp(loads)
    old = target.block
    new = old.replace(
        body=looked_up.rewrite(old.body),
        init=None if old.init is None else looked_up.rewrite(old.init),
        reads=(*old.reads, *(t.region for t in tables)),
    )
    path = path_to(root.block.body, realize)
    top = path[1] if isinstance(path[0], SeqStmt) else path[0]
    stage = seq(*(t.stage for t in tables))
    changed, reuse = with_stage(root.block, {realize: realize.replace(block=new)}, Location(top, None), stage)
    changed = changed.replace(alloc_buffers=(*changed.alloc_buffers, *(t.buffer for t in tables)))
    s.state.replace(root, changed, {**reuse, old: new})
    return [s.block_of(t.block) for t in tables]


# -- which subscripts -----------------------------------------------------------------------------


@dataclass
class _Group:
    """Forms of one value, how often it is computed, and how large the first form is."""

    forms: dict[PrimExpr, None]
    count: int
    size: int


class _Subscripts(Visitor):
    """The largest parts of subscripts of a block that may have tables, in order of appearance."""

    def __init__(self, state: ScheduleState, target: StmtSRef, root: StmtSRef) -> None:
        block = target.block
        self.axes = {axis.var: axis for axis in block.iter_vars}
        self.bounds: dict[Var, Bound] = range_bounds(axis_ranges(block))
        self.hidden = {v: None for v in _hidden(state, root) if v not in self.axes}
        values = zip(block.iter_vars, state.realize_of(target).iter_values, strict=True)
        loops = {r.loop.loop_var: None for r in state.loops_of(target)}
        # What an axis is bound to is computed again outside: it must not need what is known only there.
        unknown = {v: None for v in self.hidden if v not in loops}
        self.unusable = {axis.var for axis, value in values if mentions(value, unknown) or _dom_uses(axis, self.hidden)}
        self.groups: list[_Group] = []
        if block.init is not None:
            self.visit(block.init)
        self.visit(block.body)

    def visit_BlockRealize(self, node: BlockRealize) -> None:
        """The subscripts of blocks inside are their own."""

    def visit_BufferLoad(self, node: BufferLoad) -> None:
        """Subscripts of a load, and of the loads in them."""
        for i in node.indices:
            self.add(i, 1)
        self.visit_children(node)

    def visit_BufferStore(self, node: BufferStore) -> None:
        """Subscripts of a store, then its value."""
        for i in node.indices:
            self.add(i, 1)
        self.visit_children(node)

    def add(self, e: PrimExpr, count: int) -> None:
        """Count an expression, or the largest parts of it that may have tables."""
        if not self.is_eligible(e):
            if not isinstance(e, BufferLoad):
                for c in children(e):
                    if isinstance(c, PrimExpr):
                        self.add(c, count)
            return
        for group in self.groups:
            if _same(next(iter(group.forms)), e):
                group.forms[e] = None
                group.count += count
                return
        self.groups.append(_Group({e: None}, count, _size(e)))

    def is_eligible(self, e: PrimExpr) -> bool:
        """Whether an expression may be computed elsewhere, and is worth it."""
        if isinstance(e, (Var, IntImm)) or not e.dtype.is_integer or e.dtype.lanes != 1:
            return False
        used = variables(e)
        if not any(v in self.axes for v in used) or any(v in self.hidden or v in self.unusable for v in used):
            return False
        return _is_safe(e, self.bounds)


def _hidden(state: ScheduleState, root: StmtSRef) -> dict[Var, None]:
    """What a scope defines inside of itself, and the variables of the loops around it."""
    found: dict[Var, None] = {}
    at = root.parent
    while at is not None:
        if isinstance(at.stmt, For):
            found[at.stmt.loop_var] = None
        at = at.parent

    return found | bound_inside(root.block.body)


def _dom_uses(axis: IterVar, hidden: Mapping[Var, None]) -> bool:
    return axis.dom is None or mentions(axis.dom.min, hidden) or mentions(axis.dom.extent, hidden)


_PARTS = (
    ex.Add, ex.Sub, ex.Mul, ex.FloorDiv, ex.FloorMod, ex.Div, ex.Mod, ex.Min, ex.Max, ex.CmpExpr, ex.And, ex.Or,
    ex.Not, ex.Select, ex.Cast, Var, IntImm,
)  # fmt: skip
_DIVISIONS = (ex.FloorDiv, ex.FloorMod, ex.Div, ex.Mod)
_CALLS = "bitwise_and bitwise_or bitwise_xor bitwise_not shift_left shift_right if_then_else likely popcount".split()


def _is_safe(e: PrimExpr, bounds: Mapping[Var, Bound]) -> bool:
    """Whether an expression is integer arithmetic that cannot fail, wherever its axes are in their domains."""
    safe = True

    def look(node: object) -> bool:
        nonlocal safe
        if isinstance(node, _DIVISIONS):
            safe = safe and not node.b.dtype.is_float and _is_not_zero(node.b, bounds)
        if isinstance(node, Call):
            safe = safe and isinstance(node.op, Op) and node.op.name.removeprefix("tir.") in _CALLS
        elif isinstance(node, PrimExpr):
            # The value of an operator is not a subject of its own.
            safe = safe and (isinstance(node, _PARTS) or isinstance(node, Op)) and not _is_handle(node)
        return safe

    pre_order_visit(e, look)
    return safe


def _is_handle(e: PrimExpr) -> bool:
    return isinstance(e, Var) and isinstance(e.type_annotation, PointerType)


def _is_not_zero(e: PrimExpr, bounds: Mapping[Var, Bound]) -> bool:
    found = const_bound(e, bounds)
    return (found.low is not None and found.low > 0) or (found.high is not None and found.high < 0)


def _size(e: PrimExpr) -> int:
    count = 0

    def look(node: object) -> bool:
        nonlocal count
        count += isinstance(node, PrimExpr)
        return True

    pre_order_visit(e, look)
    return count


def _same(a: PrimExpr, b: PrimExpr) -> bool:
    return a is b or (a.dtype == b.dtype and difference(a, b) == ({}, 0))


def _choose(subscripts: _Subscripts, threshold: int) -> list[_Group]:
    """What gets a table, the largest first. What is computed too seldom is taken apart."""
    chosen: list[_Group] = []
    while subscripts.groups:
        group = max(subscripts.groups, key=lambda g: g.size)
        subscripts.groups.remove(group)
        if group.count >= threshold:
            chosen.append(group)
            continue
        for c in children(next(iter(group.forms))):
            if isinstance(c, PrimExpr):
                subscripts.add(c, group.count)
    return chosen


# -- the tables -----------------------------------------------------------------------------------


@dataclass
class _Table:
    buffer: Buffer
    load: BufferLoad
    region: BufferRegion
    stage: Stmt
    block: Block


def _table(
    state: ScheduleState, target: StmtSRef, hidden: Mapping[Var, None], group: _Group, k: int, scope: str
) -> _Table:
    """Table number `k`: the buffer, how the block looks a value up, and the loops that fill it."""
    value = next(iter(group.forms))
    used = variables(value)
    axes = [axis for axis in target.block.iter_vars if axis.var in used]
    doms = [axis.dom for axis in axes if axis.dom is not None]
    name = f"index_var_{k}"
    buffer = decl_buffer(tuple(d.extent for d in doms), value.dtype, name, scope=scope)
    here = tuple(make.sub(axis.var, d.min) for axis, d in zip(axes, doms, strict=True))
    own = {axis.var: Var(f"v{i}", axis.var.dtype) for i, axis in enumerate(axes)}
    there = tuple(make.sub(own[axis.var], d.min) for axis, d in zip(axes, doms, strict=True))
    made = Block(
        tuple(IterVar(d, own[axis.var], IterVar.DataPar) for axis, d in zip(axes, doms, strict=True)),
        (),
        (_point(buffer, there),),
        f"index_{k}",
        BufferStore(buffer, substitute(value, own), there),
    )
    return _Table(
        buffer, BufferLoad(buffer, here), _point(buffer, here), _nest(state, target, hidden, axes, made), made
    )


def _point(buffer: Buffer, indices: Sequence[PrimExpr]) -> BufferRegion:
    return BufferRegion(buffer, tuple(Range.from_min_extent(i, IntImm(i.dtype, 1)) for i in indices))


def _nest(
    state: ScheduleState, target: StmtSRef, hidden: Mapping[Var, None], axes: Sequence[IterVar], made: Block
) -> Stmt:
    """The block inside loops like those that the axes are bound to, where these stay in their domains."""
    realize = state.realize_of(target)
    bindings = binding_map(realize)
    values = [bindings[axis.var] for axis in axes]
    around = [r.loop for r in state.loops_of(target)]
    needed = variables(*values)
    for loop in reversed(around):
        if loop.loop_var in needed:
            needed |= variables(loop.min, loop.extent)
    loops = [loop for loop in around if loop.loop_var in needed]
    fresh: dict[Var, PrimExpr] = {
        loop.loop_var: Var(f"ax{i}", loop.loop_var.dtype) for i, loop in enumerate(loops)
    }  # fmt: skip
    others = {v: None for v in hidden if v not in fresh}
    bounds = range_bounds({loop.loop_var: loop_range(loop) for loop in loops})
    facts = [c for c in conjuncts(realize.predicate) if not mentions(c, others) and variables(c).keys() & needed.keys()]
    guards = [c for c in facts if _is_safe(c, bounds)]
    for axis, value in zip(axes, values, strict=True):
        assert axis.dom is not None
        for inside in (axis.dom.min <= value, value < make.add(axis.dom.min, axis.dom.extent)):
            if not proves(inside, bounds, guards):
                guards.append(inside)
    predicate: PrimExpr = TRUE
    for g in guards:
        predicate = make.and_(predicate, substitute(g, fresh))
    body: Stmt = BlockRealize(tuple(substitute(v, fresh) for v in values), predicate, made)
    for loop in reversed(loops):
        var = fresh[loop.loop_var]
        assert isinstance(var, Var)
        body = For(var, substitute(loop.min, fresh), substitute(loop.extent, fresh), ForKind.SERIAL, body)
    return body


class _Exchange(Rewriter):
    """Loads in place of subscripts, the largest part first."""

    def __init__(self, loads: Mapping[PrimExpr, BufferLoad]) -> None:
        super().__init__()
        self.loads = loads

    def rewrite_PrimExpr(self, node: PrimExpr) -> PrimExpr:
        """The load of an expression that has one."""
        found = self.loads.get(node)
        return self.rewrite_children(node) if found is None else found


class _LookUp(Rewriter):
    """Exchanges subscripts, outside of inner blocks."""

    def __init__(self, loads: Mapping[PrimExpr, BufferLoad]) -> None:
        super().__init__()
        self.exchange = _Exchange(loads)

    def rewrite_BlockRealize(self, node: BlockRealize) -> Stmt:
        """Blocks inside stay."""
        return node

    def _indices(self, indices: Sequence[PrimExpr]) -> tuple[PrimExpr, ...]:
        return tuple(self.exchange.rewrite(i) for i in indices)

    def rewrite_BufferLoad(self, node: BufferLoad) -> PrimExpr:
        """The load at subscripts that are looked up."""
        return node.replace(indices=self._indices(node.indices))

    def rewrite_BufferStore(self, node: BufferStore) -> Stmt:
        """The store at subscripts that are looked up."""
        return node.replace(value=self.rewrite(node.value), indices=self._indices(node.indices))
