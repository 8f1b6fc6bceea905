"""What is done to the result of a reduction becomes what the reduction starts from."""

from __future__ import annotations

from dataclasses import dataclass

from tscript.analysis import detect_regions
from tscript.analysis.affine import DigitString
from tscript.ir import construct as make
from tscript.ir.buffer import Buffer
from tscript.ir.expr import BufferLoad, IntImm, PrimExpr, Sub, Var
from tscript.ir.functor import Rewriter, pre_order_visit, substitute
from tscript.ir.stmt import Block, BufferStore, IfThenElse, SeqStmt
from tscript.ir.structural import structural_equal
from tscript.schedule.accumulation import Accumulation, determines, initial, require_accumulation, storing
from tscript.schedule.checks import (
    require_complete,
    require_not_output,
    require_reduction,
    require_region_cover,
    require_scope_root,
    require_stage_pipeline,
    writers_of,
)
from tscript.schedule.core import ScheduleCore
from tscript.schedule.errors import refuse
from tscript.schedule.inlining import find_strings, require_closed, require_plain_loads, require_pure, solve_strings
from tscript.schedule.instruction import InstructionKind, block
from tscript.schedule.primitive import primitive
from tscript.schedule.primitives.reverse_compute_inline import require_all_instances
from tscript.schedule.rewrite import followed, path_to, remove_stmt, replace_stmts, require_removable
from tscript.schedule.rv import BlockRV
from tscript.schedule.sref import StmtSRef
from tscript.te.reducers import match_reducer
from tscript.te.reduction import value_of

_KIND = InstructionKind(
    "FuseReductionEpilogue", "fuse_reduction_epilogue", (block("reduction_block"), block("epilogue_block"))
)


@primitive(_KIND)
def fuse_reduction_epilogue(s: ScheduleCore, reduction_block: BlockRV | str, epilogue_block: BlockRV | str) -> None:
    """Let a reduction start from what an epilogue adds to its result, and store where the epilogue stores; the
    epilogue and the buffer between the two go.

    The epilogue combines the result with a value in the way of the reduction: a sum plus (or minus) a bias, a maximum
    with a bound, a product with a factor. It is the only block that reads the result, runs over all of it, and what
    else it reads is there before the reduction begins. Floats are combined in another order. What is not of this
    form, as `T.max` of a sum, would be applied to partial sums, and is refused.

    >>> import tscript
    >>> from tscript.script import tir as T
    >>> @T.prim_func
    ... def biased(X: T.Buffer((8, 12), "float32"), B: T.Buffer((8,), "float32"), Z: T.Buffer((8,), "float32")):
    ...     Y = T.alloc_buffer((8,))
    ...     for i, k in T.grid(8, 12):
    ...         with T.block("sum"):
    ...             vi, vk = T.axis.remap("SR", [i, k])
    ...             with T.init():
    ...                 Y[vi] = T.float32(0)
    ...             Y[vi] = Y[vi] + X[vi, vk]
    ...     for i in range(8):
    ...         with T.block("bias"):
    ...             vi = T.axis.spatial(8, i)
    ...             Z[vi] = Y[vi] + B[vi]
    >>> sch = tscript.tir.Schedule(biased)
    >>> sch.fuse_reduction_epilogue("sum", "bias")
    >>> print(sch.get(sch.get_loops("sum")[0]))
    for i, k in T.grid(8, 12):
        with T.block("sum"):
            vi, vk = T.axis.remap("SR", [i, k])
            B = T.Buffer((8,))
            X = T.Buffer((8, 12))
            T.reads(B[vi], X[vi, vk])
            Z = T.Buffer((8,))
            T.writes(Z[vi])
            with T.init():
                Z[vi] = B[vi]
            Z[vi] = Z[vi] + X[vi, vk]
    """
    reduction, epilogue = s.block(reduction_block), s.block(epilogue_block)  # pyright: ignore[reportArgumentType]
    root = require_scope_root(s.state, reduction)
    plan = _plan(s, reduction, epilogue, root)
    gone = require_removable(s.state, epilogue, root)
    new = _fused(plan)
    remaining, reuse = remove_stmt(root.block, gone)
    realize = s.state.realize_of(reduction)
    changed, more = replace_stmts(remaining, {realize: realize.replace(block=new)})
    changed = changed.replace(alloc_buffers=tuple(b for b in changed.alloc_buffers if b is not plan.between))
    reuse = followed(reuse, more)
    reuse[reduction.block] = new
    s.state.replace(root, changed, reuse, f"fused into {new.name_hint}")


@dataclass
class _Plan:
    """A reduction into `between`, and the store of its epilogue, which combines the element with `term`.

    `strings` are the subscripts at which the epilogue reads, by which its axes are known.
    """

    reduction: StmtSRef
    epilogue: StmtSRef
    between: Buffer
    sums: Accumulation
    store: BufferStore
    term: PrimExpr
    strings: list[DigitString]


def _plan(s: ScheduleCore, reduction: StmtSRef, epilogue: StmtSRef, root: StmtSRef) -> _Plan:
    state = s.state
    made, stmt = reduction.block, epilogue.block
    if s.state.scope_root(epilogue) is not root:
        refuse("{0} and {1} are in different blocks", made, stmt)
    require_stage_pipeline(s, root)
    require_reduction(state, reduction, root)
    require_not_output(state, reduction, root)
    require_complete(state, epilogue, root)
    require_region_cover(state, epilogue)
    sums = require_accumulation(made, from_identity=False)
    if len(sums.buffers) != 1:
        refuse("{0} makes several results at once", made)
    between = sums.buffers[0]
    others = [c for c in state.scope(root).consumers(reduction) if c is not epilogue]
    if others:
        refuse(f"`{between.name}` is used by {{0}} too, so it has to be kept", others[0].block)
    store = stmt.body
    if not isinstance(store, BufferStore) or store.predicate is not None or stmt.init is not None:
        refuse("the body of {0} is more than one store of a single element", stmt)
    if stmt.match_buffers or stmt.alloc_buffers or stmt.annotations:
        refuse("{0} has buffers of its own, views or annotations, which would be lost", stmt)
    require_all_instances(s, epilogue)
    load = _only_load(stmt, store.value, between)
    for part in (store.value, *store.indices):
        require_closed(state, epilogue, root, part)
        require_pure(stmt, part, store.buffer)
    require_plain_loads(root.block, between)
    if store.buffer.dtype is not between.dtype:
        refuse(
            f"{{0}} stores {store.buffer.dtype!s} values, while {{1}} accumulates {between.dtype!s} values", stmt, made
        )
    strings = _whole_subscripts(load, stmt)
    term = _term(sums, load, store.value, made, stmt)
    plan = _Plan(reduction, epilogue, between, sums, store, term, strings)
    _require_early(s, plan, root)
    return plan


def _only_load(stmt: Block, value: PrimExpr, buffer: Buffer) -> BufferLoad:
    found: dict[BufferLoad, None] = {}

    def look(node: object) -> bool:
        if isinstance(node, BufferLoad) and node.buffer is buffer:
            found[node] = None
        return True

    pre_order_visit(value, look)
    if len(found) != 1:
        how = "at several places" if found else "in its regions only, not in what it stores"
        refuse(f"{{0}} reads `{buffer.name}` {how}", stmt)
    return next(iter(found))


def _whole_subscripts(load: BufferLoad, stmt: Block) -> list[DigitString]:
    """The subscripts of the result, which run over all of its buffer and determine the axes of the epilogue."""
    units: dict[Var, PrimExpr] = {
        a.var: a.dom.min for a in stmt.iter_vars if a.dom is not None and make.is_const_int(a.dom.extent, 1)
    }
    strings = find_strings([substitute(i, units) for i in load.indices], stmt.iter_vars)
    if strings is None:
        refuse(f"the subscripts in `{load}` do not determine the axes of {{0}}", stmt)
    for string, size in zip(strings, load.buffer.shape, strict=True):
        same = string.count is size or structural_equal(string.count, size)
        if not make.is_const_int(string.base, 0) or not same:
            refuse(f"{{0}} does not run over all of `{load.buffer.name}`, which the reduction makes", stmt)
    return strings


def _term(sums: Accumulation, load: BufferLoad, value: PrimExpr, made: Block, stmt: Block) -> PrimExpr:
    """What the epilogue combines the result with, in the way of the reduction."""
    known = sums.matches[0].reducer
    if known.name == "sum" and isinstance(value, Sub) and value.a is load and _free_of(value.b, load.buffer):
        return make.neg(value.b)
    found = match_reducer([load], [value])
    if found is None or not structural_equal(found.reducer.combiner, known.combiner):
        shown = str(value).replace("{", "{{").replace("}", "}}")
        refuse(
            f"`{shown}` in {{0}} does not combine the result with something in the way of {{1}} ({known.name}), so "
            "applied in each step it would give something else",
            stmt,
            made,
            hint="compute the epilogue in a loop of the reduction with reverse_compute_at instead",
        )
    return found.terms[0]


def _free_of(e: PrimExpr, buffer: Buffer) -> bool:
    found = False

    def look(node: object) -> bool:
        nonlocal found
        found = found or (isinstance(node, BufferLoad) and node.buffer is buffer)
        return not found

    pre_order_visit(e, look)
    return not found


def _require_early(s: ScheduleCore, plan: _Plan, root: StmtSRef) -> None:
    """Refuse an epilogue that reads what is made later, or stores where others look or store."""
    made, stmt = plan.reduction.block, plan.epilogue.block
    order = s.state.scope(root).children
    target = plan.store.buffer
    start = _top(s, root, plan.reduction)
    for r in stmt.reads:
        for w in writers_of(s.state, root, r.buffer):
            if r.buffer is plan.between:
                continue
            if order.index(w) > order.index(plan.reduction) or _top(s, root, w) is start:
                refuse(
                    f"{{0}} reads `{r.buffer.name}`, which {{1}} makes in or after the loops of {{2}}",
                    stmt,
                    w.block,
                    made,
                )
    for other in order[: order.index(plan.epilogue)]:
        if any(r.buffer is target for r in (*other.block.reads, *other.block.writes)):
            refuse(f"{{0}} uses `{target.name}` before {{1}} stores to it", other.block, stmt)


def _top(s: ScheduleCore, root: StmtSRef, at: StmtSRef) -> object:
    """The outermost loop (or the block) that a block stands in."""
    path = path_to(root.block.body, s.state.realize_of(at))
    return next(p for p in path if not isinstance(p, SeqStmt))


class _Replace(Rewriter):
    """Puts another element for loads of the result."""

    def __init__(self, buffer: Buffer, element: BufferLoad) -> None:
        super().__init__()
        self.buffer = buffer
        self.element = element

    def rewrite_BufferLoad(self, node: BufferLoad) -> PrimExpr:
        """The element, or another load."""
        return self.element if node.buffer is self.buffer else self.rewrite_children(node)


def _fused(plan: _Plan) -> Block:
    """The reduction, storing where the epilogue stores, from what it combines on."""
    made, stmt, sums = plan.reduction.block, plan.epilogue.block, plan.sums
    axes = solve_strings(plan.strings, stmt.iter_vars, sums.position)
    known = {v: make.cast(e, v.dtype) for v, e in axes.items()}
    position = tuple(substitute(i, known) for i in plan.store.indices)
    spatial = {a.var: a.dom for a in made.iter_vars if a.iter_type == a.DataPar and a.dom is not None}
    if not determines(position, spatial):
        shown = ", ".join(str(i) for i in plan.store.indices)
        refuse(f"the subscripts in `{plan.store.buffer.name}[{shown}]` do not tell the elements apart", stmt)
    target = plan.store.buffer
    term = substitute(plan.term, known)
    swap = _Replace(plan.between, BufferLoad(target, position))
    body = storing([target], [swap.rewrite(sums.values[0])], position)
    if not (isinstance(sums.condition, IntImm) and sums.condition.value):
        body = IfThenElse(sums.condition, body)
    new = made.replace(body=body, init=initial([target], [_start(sums, term)], position))
    reads, writes = detect_regions(new)
    return new.replace(reads=reads, writes=writes)


def _start(sums: Accumulation, term: PrimExpr) -> PrimExpr:
    """What the reduction starts from, combined with the term."""
    match = sums.matches[0]
    start, identity = sums.starts[0], match.identity()[0]
    number = value_of(start)
    if number is not None and number == value_of(identity):
        return term
    return match.combined([start], [term])[0]
