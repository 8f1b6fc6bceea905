"""The axes of an einsum are rounded up: it works on padded copies of its buffers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tscript.analysis.affine import find_digits
from tscript.arith import simplify
from tscript.ir import construct as make
from tscript.ir import expr as ex
from tscript.ir.buffer import Buffer
from tscript.ir.expr import BufferLoad, IntImm, IterVar, PrimExpr, Range, Var
from tscript.ir.functor import Rewriter, pre_order_visit
from tscript.ir.occurrences import mentions
from tscript.ir.stmt import (
    Block,
    BlockRealize,
    BufferRegion,
    BufferStore,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    seq,
)
from tscript.schedule.accumulation import require_accumulation
from tscript.schedule.bindings import TRUE
from tscript.schedule.buffers import cache_of
from tscript.schedule.checks import require_complete_or_reduction, require_scope_root, require_stage_pipeline
from tscript.schedule.core import ScheduleCore
from tscript.schedule.errors import refuse
from tscript.schedule.inlining import require_pure
from tscript.schedule.instruction import InstructionKind, attr, block
from tscript.schedule.primitive import primitive
from tscript.schedule.primitives.reverse_compute_inline import require_all_instances
from tscript.schedule.rewrite import path_to, replace_stmts
from tscript.schedule.rv import BlockRV
from tscript.schedule.sref import StmtSRef
from tscript.schedule.staging import Redirect
from tscript.schedule.symbols import conjuncts, loop_ranges, no_less, outer_bounds, proves
from tscript.te.reduction import value_of


@primitive(InstructionKind("PadEinsum", "pad_einsum", (block(), attr("padding"))))
def pad_einsum(s: ScheduleCore, block: BlockRV | str, padding: list[int]) -> None:
    """Round the extents of a block's axes up to multiples of `padding` (one number for each axis).

    The block accesses buffers only at subscripts that are bare axes or constants. Inputs with a changed dimension are
    copied, with zeros in what is added, to a buffer `<name>_pad` before it; outputs are made in such a buffer and
    copied back after it. Reduce axes can be padded where the values added do not count: for a maximum or a
    product they are what it starts from instead of zeros. The block is alone in its loops.

    >>> import tscript
    >>> from tscript.script import tir as T
    >>> @T.prim_func
    ... def double(A: T.Buffer((60,), "float32"), B: T.Buffer((60,), "float32")):
    ...     for i in range(60):
    ...         with T.block("B"):
    ...             vi = T.axis.spatial(60, i)
    ...             B[vi] = A[vi] * T.float32(2)
    >>> sch = tscript.tir.Schedule(double)
    >>> sch.pad_einsum("B", [16])
    >>> print(sch.get(sch.get_loops("A_pad")[0]))
    for i0 in range(64):
        with T.block("A_pad"):
            v0 = T.axis.spatial(64, i0)
            A = T.Buffer((60,))
            T.reads(A[v0])
            A_pad = T.Buffer((64,))
            T.writes(A_pad[v0])
            A_pad[v0] = T.if_then_else(v0 < 60, A[v0], T.float32(0.0))
    >>> [sch.get(r).extent for r in sch.get_loops("B") + sch.get_loops("B_pad")]
    [64, 60]
    """
    target = s.block(block)  # pyright: ignore[reportArgumentType]
    plan = _plan(s, target, _checked_padding(target.block, padding))
    s.record_as(padding=list(padding))
    if not plan.changed:
        return
    padded = [p for p in (_padded(plan, u) for u in plan.uses) if p is not None]
    fills = [_fill_nest(plan, p) for p in padded if not p.use.is_output]
    backs = [_copy_back(p) for p in padded if p.use.is_output]
    nest, new = _enlarged(plan, padded)
    root = plan.root.block
    changed, reuse = replace_stmts(root, {plan.top: seq(*fills, nest, *backs)})
    changed = changed.replace(alloc_buffers=(*changed.alloc_buffers, *(p.buffer for p in padded)))
    s.state.replace(plan.root, changed, {**reuse, target.block: new})


def _checked_padding(block: Block, padding: Sequence[int]) -> list[int]:
    if not isinstance(padding, (list, tuple)) or any(isinstance(p, bool) or not isinstance(p, int) for p in padding):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"padding is a list of integers, not {padding!r}")
    count = len(block.iter_vars)
    if len(padding) != count or any(p < 1 for p in padding):
        refuse(f"padding has one positive number for each of the {count} axes of {{0}}, unlike {list(padding)}", block)
    return list(padding)


@dataclass(frozen=True)
class _Use:
    """A buffer of the block, and what stands in each dimension: an axis, or a constant."""

    buffer: Buffer
    subscripts: tuple[PrimExpr, ...]
    is_output: bool


@dataclass(frozen=True)
class _Padded:
    """The padded buffer for one of the block's. `extents` are those of the axes before, `starts` the constants."""

    use: _Use
    buffer: Buffer
    extents: list[PrimExpr]
    starts: list[PrimExpr]


@dataclass
class _Plan:
    """An einsum, the new extents of its axes, and the loops that it is alone in, `top` first."""

    s: ScheduleCore
    block: StmtSRef
    root: StmtSRef
    top: Stmt
    loops: list[For]
    uses: list[_Use]
    extents: dict[Var, PrimExpr]
    changed: dict[Var, PrimExpr]
    fill: IntImm | ex.FloatImm | None = None


def _plan(s: ScheduleCore, block: StmtSRef, padding: Sequence[int]) -> _Plan:
    stmt = block.block
    root = require_scope_root(s.state, block)
    require_stage_pipeline(s, root)
    require_complete_or_reduction(s.state, block, root)
    uses = _uses(stmt)
    extents: dict[Var, PrimExpr] = {}
    changed: dict[Var, PrimExpr] = {}
    for axis, p in zip(stmt.iter_vars, padding, strict=True):
        assert axis.dom is not None
        if not make.is_const_int(axis.dom.min, 0):
            refuse(f"the axis `{axis.var.name}` of {{0}} starts at `{axis.dom.min}`, not at 0", stmt)
        old = axis.dom.extent
        new = simplify(make.mul(make.floordiv(make.add(old, p - 1), p), p))
        extents[axis.var] = old
        if new is not simplify(old):
            changed[axis.var] = new
    path = path_to(root.block.body, s.state.realize_of(block))
    start = next((i for i, p in enumerate(path) if not isinstance(p, SeqStmt)), len(path) - 1)
    for above, below in zip(path[start:-1], path[start + 1 :], strict=True):
        if not isinstance(above, For) or above.body is not below:
            name = above.loop_var.name if isinstance(above, For) else "them"
            refuse(
                f"{{0}} is not alone in the loops around it: see `{name}`",
                stmt,
                hint="pad before other blocks are computed in its loops",
            )
    loops = [p for p in path[start:] if isinstance(p, For)]
    plan = _Plan(s, block, root, path[start], loops, uses, extents, changed)
    if changed:
        require_all_instances(s, block)
        _require_outputs(plan)
        _require_all_stored(stmt)
        _require_defined(stmt)
        plan.fill = _neutral(plan)
    return plan


def _uses(stmt: Block) -> list[_Use]:
    """What the block accesses, the inputs first; refused where a subscript is more than an axis or a constant."""
    axes = {a.var: None for a in stmt.iter_vars}
    found: dict[Buffer, tuple[PrimExpr, ...]] = {}
    stored: dict[Buffer, None] = {}
    if stmt.match_buffers or stmt.alloc_buffers:
        refuse("{0} has views or buffers of its own, so it is no einsum", stmt)

    def note(buffer: Buffer, indices: Sequence[PrimExpr]) -> None:
        for i in indices:
            if i not in axes and not isinstance(i, IntImm):
                refuse(f"the subscript `{i}` of `{buffer.name}` in {{0}} is no axis and no constant", stmt)
        known = found.setdefault(buffer, tuple(indices))
        if any(a is not b for a, b in zip(known, indices, strict=True)):
            refuse(f"{{0}} accesses `{buffer.name}` at different subscripts, so it is no einsum", stmt)

    def look(node: object) -> bool:
        if isinstance(node, Stmt) and not isinstance(node, (BufferStore, SeqStmt, LetStmt, IfThenElse)):
            refuse("the body of {0} has more in it than stores, conditions and names of values", stmt)
        if isinstance(node, (BufferLoad, BufferStore)):
            if node.predicate is not None:
                refuse(f"{{0}} accesses `{node.buffer.name}` as a vector", stmt)
            note(node.buffer, node.indices)
        if isinstance(node, BufferStore):
            stored[node.buffer] = None
            require_pure(stmt, node.value, node.buffer)
        return True

    for part in (stmt.init, stmt.body):
        if part is not None:
            pre_order_visit(part, look)
    for r in (*stmt.reads, *stmt.writes):
        if any(not make.is_const_int(d.extent, 1) for d in r.region):
            refuse(f"{{0}} declares to access more than one element of `{r.buffer.name}`", stmt)
        note(r.buffer, [d.min for d in r.region])
    written = {w.buffer: None for w in stmt.writes}
    # What is hidden from the signature is accessed all the same, and copies of it would be hidden too: whatever moves
    # or replaces these later would miss the block.
    declared = {r.buffer: None for r in (*stmt.reads, *stmt.writes)}
    for b in found:
        if b not in (written if b in stored else declared):
            refuse(f"{{0}} {'stores to' if b in stored else 'reads'} `{b.name}`, which its signature hides", stmt)
    order = dict.fromkeys(r.buffer for r in stmt.reads)
    order = dict.fromkeys([*(b for b in order if b not in written), *written])
    return [_Use(b, found[b], b in written) for b in order]


def _require_outputs(plan: _Plan) -> None:
    """Refuse outputs of which not every copied element would have been made, or made once."""
    stmt = plan.block.block
    for use in plan.uses:
        axes = [i for i in use.subscripts if isinstance(i, Var)]
        if not use.is_output:
            continue
        if len(dict.fromkeys(axes)) != len(axes):
            refuse(f"{{0}} writes a diagonal of `{use.buffer.name}`", stmt)
        for a in stmt.iter_vars:
            if a.var in plan.changed and a.iter_type == IterVar.DataPar and a.var not in dict.fromkeys(axes):
                refuse(
                    f"the axis `{a.var.name}` of {{0}} is no dimension of `{use.buffer.name}`, so its added instances "
                    "would write what others have written",
                    stmt,
                    hint="give 1 as its padding",
                )


def _require_all_stored(stmt: Block) -> None:
    """Refuse a block that leaves elements of its outputs as they are under some condition."""
    stored: dict[Buffer, None] = {}

    def look(node: object) -> bool:
        if isinstance(node, BufferStore):
            stored[node.buffer] = None
        return not isinstance(node, IfThenElse)

    for part in (stmt.init, stmt.body):
        if part is not None:
            pre_order_visit(part, look)
    for w in stmt.writes:
        if w.buffer not in stored:
            refuse(
                f"{{0}} stores to `{w.buffer.name}` under a condition only, and the copy from the padded buffer would "
                "overwrite the other elements",
                stmt,
            )


def _require_defined(stmt: Block) -> None:
    """Refuse divisions of integers that padding might make divisions by zero."""

    def look(node: object) -> bool:
        if isinstance(node, (ex.FloorDiv, ex.FloorMod, ex.Div, ex.Mod)) and not node.a.dtype.is_float:
            by: PrimExpr = node.b
            if not (isinstance(by, IntImm) and by.value):
                refuse(f"`{node}` in {{0}} may divide by zero where a buffer is padded", stmt)
        return True

    pre_order_visit(stmt.body, look)


# -- what padding holds ---------------------------------------------------------------------------


class _Constant(Rewriter):
    """Puts constants for loads of some buffers."""

    def __init__(self, values: Mapping[Buffer, PrimExpr]) -> None:
        super().__init__()
        self.values = values

    def rewrite_BufferLoad(self, node: BufferLoad) -> PrimExpr:
        """The constant, or the load."""
        return self.values.get(node.buffer, node)


def _neutral(plan: _Plan) -> IntImm | ex.FloatImm | None:
    """The number that padding of the inputs holds, so that added instances of reduce axes do not count.

    None for zeros, each in the type of its buffer.
    """
    stmt = plan.block.block
    reduced = [a.var for a in stmt.iter_vars if a.iter_type == IterVar.CommReduce and a.var in plan.changed]
    if not reduced:
        return None
    sums = require_accumulation(stmt, from_identity=False)
    for fill in (None, *dict.fromkeys(s for s in sums.starts if isinstance(s, (IntImm, ex.FloatImm)))):
        if all(_is_neutral(plan, sums.terms, [*sums.neutral], var, fill) for var in reduced):
            return fill
    var = reduced[0]
    shown = ", ".join(str(t) for t in sums.terms)
    refuse(
        f"with padding in its inputs, `{shown}` in {{0}} is not seen to leave the result as it is where the reduce "
        f"axis `{var.name}` is padded",
        stmt,
        hint="take what does not depend on that axis out of the reduction, or give 1 as its padding",
    )


def _is_neutral(
    plan: _Plan, terms: Sequence[PrimExpr], wanted: Sequence[PrimExpr], var: Var, fill: IntImm | ex.FloatImm | None
) -> bool:
    """Whether terms are the wanted constants where all inputs that have an axis as a dimension hold the padding."""
    values: dict[Buffer, PrimExpr] = {}
    for use in plan.uses:
        if not use.is_output and any(i is var for i in use.subscripts):
            number = make.const(0, use.buffer.dtype) if fill is None else fill
            if number.dtype is not use.buffer.dtype:
                return False
            values[use.buffer] = number
    for term, want in zip(terms, wanted, strict=True):
        got, expected = value_of(simplify(_Constant(values).rewrite(term))), value_of(want)
        if got is None or got != expected:
            return False
    return True


# -- new buffers and loops ------------------------------------------------------------------------


def _padded(plan: _Plan, use: _Use) -> _Padded | None:
    """The padded buffer for one that a changed axis is a dimension of."""
    if not any(i in plan.changed for i in use.subscripts if isinstance(i, Var)):
        return None
    shape: list[PrimExpr] = []
    extents: list[PrimExpr] = []
    starts: list[PrimExpr] = []
    for i in use.subscripts:
        if isinstance(i, Var):
            extents.append(plan.extents[i])
            shape.append(plan.changed.get(i, plan.extents[i]))
            starts.append(make.const(0, i.dtype))
        else:
            extents.append(make.const(1, i.dtype))
            shape.append(make.const(1, i.dtype))
            starts.append(i)
    buffer = cache_of(use.buffer, use.buffer.scope(), shape, f"{use.buffer.name}_pad")
    return _Padded(use, buffer, extents, starts)


def _fill_nest(plan: _Plan, p: _Padded) -> Stmt:
    """Loops that copy an input to its padded buffer, with padding in what is added."""
    axes, loops = _axes(p.buffer.shape)
    inside: PrimExpr = TRUE
    for a, i, size in zip(axes, p.use.subscripts, p.use.buffer.shape, strict=True):
        if isinstance(i, Var):
            # A block that reads under a condition may have axes that go beyond the buffer.
            fits = no_less(size, plan.extents[i], {})
            if i in plan.changed and (fits or not no_less(plan.extents[i], size, {})):
                inside = make.and_(inside, make.compare(ex.LT, a.var, plan.extents[i]))
            if not fits:
                inside = make.and_(inside, make.compare(ex.LT, a.var, size))
    source = _moved(axes, p.starts)
    fill = make.const(0, p.buffer.dtype) if plan.fill is None or plan.fill.dtype is not p.buffer.dtype else plan.fill
    value = make.if_then_else(inside, BufferLoad(p.use.buffer, source), fill)
    return _nest(p.buffer, [a.var for a in axes], value, (p.use.buffer, source), p.buffer.name, axes, loops)


def _copy_back(p: _Padded) -> Stmt:
    """Loops that copy what was there before padding from a padded buffer to an output."""
    axes, loops = _axes(p.extents)
    indices = tuple(a.var for a in axes)
    value = BufferLoad(p.buffer, indices)
    return _nest(p.use.buffer, _moved(axes, p.starts), value, (p.buffer, indices), p.buffer.name, axes, loops)


def _axes(shape: Sequence[PrimExpr]) -> tuple[list[IterVar], list[Var]]:
    axes = [
        IterVar(Range.from_min_extent(make.const(0, e.dtype), e), Var(f"v{d}", e.dtype), IterVar.DataPar)
        for d, e in enumerate(shape)
    ]
    return axes, [Var(f"i{d}", e.dtype) for d, e in enumerate(shape)]


def _moved(axes: Sequence[IterVar], starts: Sequence[PrimExpr]) -> tuple[PrimExpr, ...]:
    return tuple(make.add(a.var, start) for a, start in zip(axes, starts, strict=True))


def _nest(
    target: Buffer,
    indices: Sequence[PrimExpr],
    value: PrimExpr,
    source: tuple[Buffer, Sequence[PrimExpr]],
    name: str,
    axes: Sequence[IterVar],
    loops: Sequence[Var],
) -> Stmt:
    made = Block(
        tuple(axes),
        (_point(*source),),
        (_point(target, indices),),
        name,
        BufferStore(target, value, tuple(indices)),
    )
    body: Stmt = BlockRealize(tuple(loops), TRUE, made)
    for var, axis in zip(reversed(loops), reversed(axes), strict=True):
        assert axis.dom is not None
        body = For(var, axis.dom.min, axis.dom.extent, ForKind.SERIAL, body)
    return body


def _point(buffer: Buffer, indices: Sequence[PrimExpr]) -> BufferRegion:
    return BufferRegion(buffer, tuple(Range.from_min_extent(i, IntImm(i.dtype, 1)) for i in indices))


def _enlarged(plan: _Plan, padded: Sequence[_Padded]) -> tuple[Stmt, Block]:
    """The nest of the block over its new extents, and the block, which uses the padded buffers."""
    stmt, realize = plan.block.block, plan.s.state.realize_of(plan.block)
    new = stmt
    for p in padded:
        new = Redirect(p.use.buffer, p.buffer, p.starts).rewrite(new)
    axes: list[IterVar] = []
    for a in stmt.iter_vars:
        extent = plan.changed.get(a.var)
        dom = a.dom if extent is None else Range.from_min_extent(make.const(0, extent.dtype), extent)
        axes.append(a.replace(dom=dom))
    new = new.replace(iter_vars=tuple(axes))
    predicate, extents = _new_ranges(plan, realize)
    body: Stmt = realize.replace(predicate=predicate, block=new)
    for r in reversed(plan.loops):
        body = r.replace(body=body, extent=extents.get(r.loop_var, r.extent))
    return body, new


def _new_ranges(plan: _Plan, realize: BlockRealize) -> tuple[PrimExpr, dict[Var, PrimExpr]]:
    """The guard of the block over the new extents, and the extents of the loops that become longer."""
    stmt = plan.block.block
    loops = {r.loop_var: r for r in plan.loops}
    pairs = list(zip(stmt.iter_vars, realize.iter_values, strict=True))
    extents: dict[Var, PrimExpr] = {}
    dropped: list[PrimExpr] = []
    bounds = outer_bounds(plan.s.state, plan.block)
    for axis, value in pairs:
        new = plan.changed.get(axis.var)
        if new is None:
            continue
        if isinstance(value, Var) and value in loops:
            shared = any(mentions(v, {value: None}) for a, v in pairs if a is not axis)
            if shared or any(mentions(r.extent, {value: None}) or mentions(r.min, {value: None}) for r in plan.loops):
                refuse("{0} is used by more than one axis of {1}", loops[value], stmt)
            extents[value] = new
            continue
        domain = loop_ranges(plan.s.state.loops_of(plan.block))
        string = find_digits(value, domain)
        whole = string is not None and string.whole is None and string.scale == 1 and string.count is new
        if string is None or not whole or not make.is_const_int(string.base, 0):
            refuse(
                f"the axis `{axis.var.name}` of {{0}} is bound to `{value}`, which cannot run over `{new}` values",
                stmt,
                hint="pad before splitting and fusing the loops, or split so that they run over as many",
            )
        dropped.append(make.compare(ex.LT, value, plan.extents[axis.var]))
    kept: PrimExpr = TRUE
    for part in conjuncts(realize.predicate):
        if any(proves(part, bounds, [d]) for d in dropped):
            continue
        kept = make.and_(kept, part)
    return kept, extents
