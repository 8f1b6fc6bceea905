"""A block disappears into the one that makes what it reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tscript.analysis import detect_regions
from tscript.analysis.affine import DigitString
from tscript.analysis.ranges import binding_map
from tscript.arith import Analyzer
from tscript.ir import construct as make
from tscript.ir.buffer import Buffer, decl_buffer
from tscript.ir.dtype import BOOL
from tscript.ir.expr import BufferLoad, IntImm, IterVar, PrimExpr, Range, Var
from tscript.ir.functor import Rewriter, pre_order_visit, substitute
from tscript.ir.stmt import Block, BlockRealize, BufferRegion, BufferStore, IfThenElse, Stmt
from tscript.schedule.checks import (
    require_complete,
    require_not_output,
    require_region_cover,
    require_scope_root,
    require_stage_pipeline,
)
from tscript.schedule.core import ScheduleCore
from tscript.schedule.coverage import written_box
from tscript.schedule.errors import refuse
from tscript.schedule.inlining import (
    find_strings,
    require_closed,
    require_plain_loads,
    require_pure,
    solve_strings,
    within,
)
from tscript.schedule.instruction import InstructionKind, block
from tscript.schedule.primitive import primitive
from tscript.schedule.rewrite import followed, remove_stmt, replace_stmts, require_removable
from tscript.schedule.rv import BlockRV
from tscript.schedule.scope import DepKind
from tscript.schedule.sref import StmtSRef
from tscript.schedule.symbols import axis_ranges, loop_ranges, no_less, outer_bounds


@primitive(InstructionKind("ReverseComputeInline", "reverse_compute_inline", (block(),)))
def reverse_compute_inline(s: ScheduleCore, block: BlockRV | str) -> None:
    """Let the producer of a block store what the block makes of it; the block and the buffer between them go.

    The block is complete, has no init, runs all its instances, and its body is one store of a value that reads one
    buffer written in the scope, always at the same subscripts, which determine all axes. That buffer is read by no
    other block; its only writer is complete, has no init, and its body is one store, perhaps under a condition. Where
    the producer makes more than the block reads, it gets a guard, beside the one it had.

    >>> import tscript
    >>> from tscript.script import tir as T
    >>> @T.prim_func
    ... def func(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    ...     B = T.alloc_buffer((8,))
    ...     for i in range(8):
    ...         with T.block("B"):
    ...             v = T.axis.spatial(8, i)
    ...             B[v] = A[v] * T.float32(2)
    ...     for i in range(8):
    ...         with T.block("C"):
    ...             v = T.axis.spatial(8, i)
    ...             C[v] = B[v] + T.float32(1)
    >>> sch = tscript.tir.Schedule(func)
    >>> sch.reverse_compute_inline("C")
    >>> [str(w.buffer.name) for w in sch.get(sch.get_block("B")).writes]
    ['C']
    """
    target = s.block(block)  # pyright: ignore[reportArgumentType]
    stmt = target.block
    root = require_scope_root(s.state, target)
    if stmt.init is not None:
        refuse("{0} has a T.init(), so its values are not computed by one store", stmt)
    require_stage_pipeline(s, root)
    require_complete(s.state, target, root)
    require_region_cover(s.state, target)
    producer, buffer = _producer(s, target, root)
    store = _only_store(stmt)
    require_all_instances(s, target)
    indices = _subscripts(store.value, buffer, stmt)
    axes = stmt.iter_vars
    units: dict[Var, PrimExpr] = {
        a.var: a.dom.min for a in axes if a.dom is not None and make.is_const_int(a.dom.extent, 1)
    }
    strings = find_strings([substitute(i, units) for i in indices], axes)
    if strings is None:
        shown = ", ".join(str(i) for i in indices)
        refuse(f"the subscripts in `{buffer.name}[{shown}]` do not determine the axes of {{0}}", stmt)
    for string, size in zip(strings, buffer.shape, strict=True):
        last = make.sub(make.add(string.base, make.cast(string.count, string.base.dtype)), 1)
        if not (no_less(string.base, _zero(string.base), {}) and no_less(make.sub(size, 1), last, {})):
            refuse(f"{{0}} has instances that read outside of `{buffer.name}`, for which nothing is produced", stmt)
    for part in (store.value, *store.indices):
        require_closed(s.state, target, root, part)
    gone = require_removable(s.state, target, root)
    require_plain_loads(root.block, buffer)
    _require_early(s, target, root)
    new = _joined(s, producer, store, buffer, axes, strings)
    realize = s.state.realize_of(producer)
    remaining, reuse = remove_stmt(root.block, gone)
    changed, more = replace_stmts(remaining, {realize: new})
    changed = changed.replace(alloc_buffers=tuple(b for b in changed.alloc_buffers if b is not buffer))
    reuse = followed(reuse, more)
    reuse[producer.block] = new.block
    s.state.replace(root, changed, reuse, f"inlined into {producer.block.name_hint}")


def _producer(s: ScheduleCore, target: StmtSRef, root: StmtSRef) -> tuple[StmtSRef, Buffer]:
    """The only producer of a block, and the buffer between the two, which no other block uses."""
    scope = s.state.scope(root)
    stmt = target.block
    between = list(dict.fromkeys(r.buffer for r in stmt.reads if scope.buffer_writers.get(r.buffer)))
    if len(between) != 1:
        names = ", ".join(f"`{b.name}`" for b in between) or "none"
        refuse(f"{{0}} must read exactly one buffer that is written in {{1}}; it reads {names}", stmt, root.block)
    producers = scope.producers(target)
    if len(producers) != 1:
        names = ", ".join(f"{{{i + 1}}}" for i in range(len(producers)))
        refuse(f"{{0}} has several producers: {names}", stmt, *[p.block for p in producers])
    producer = producers[0]
    require_complete(s.state, producer, root)
    require_not_output(s.state, producer, root)
    made = producer.block
    if made.init is not None or len(dict.fromkeys(w.buffer for w in made.writes)) != 1:
        refuse("{0} has a T.init() or writes several buffers, so {1} cannot be inlined into it", made, stmt)
    others = [c for c in scope.consumers(producer) if c is not target]
    if others:
        refuse(f"`{between[0].name}` is read by {{0}} too, so it has to be kept", others[0].block)
    return producer, between[0]


def _only_store(stmt: Block) -> BufferStore:
    store = stmt.body
    if not isinstance(store, BufferStore) or store.predicate is not None:
        refuse("the body of {0} is more than one store of a single element", stmt)
    if stmt.match_buffers or stmt.alloc_buffers or stmt.annotations:
        refuse("{0} has buffers of its own, views or annotations, which would be lost", stmt)
    return store


def require_all_instances(s: ScheduleCore, target: StmtSRef) -> None:
    """Refuse a block of which some instances do not run: those whose guard fails, or that no iteration is bound to."""
    realize, axes = s.state.realize_of(target), target.block.iter_vars
    bounds = outer_bounds(s.state, target)
    domains = [a.dom for a in axes if a.dom is not None]
    # The instances are the elements of a buffer, one dimension for each axis.
    points = tuple(Range.from_min_extent(a.var, IntImm(a.var.dtype, 1)) for a in axes)
    instances = BufferRegion(decl_buffer([d.extent for d in domains], name="instances"), points)
    box = written_box(realize, instances, loop_ranges(s.state.loops_of(target)), bounds)
    guard = "" if _is_true(realize.predicate) else f", guarded by `{realize.predicate}`,"
    if box is None or box.conditions or not box.is_exact:
        refuse(f"the loops around {{0}}{guard} are not seen to run all its instances", target.block)
    for axis, dom, lows, highs in zip(axes, domains, box.lows, box.highs, strict=True):
        last = make.sub(make.add(dom.min, dom.extent), 1)
        if not all(no_less(dom.min, e, bounds) for e in lows) or not all(no_less(e, last, bounds) for e in highs):
            name = axis.var.name
            refuse(f"the loops around {{0}}{guard} do not run over the whole domain of its axis `{name}`", target.block)


def _is_true(e: PrimExpr) -> bool:
    return isinstance(e, IntImm) and e.value != 0


def _subscripts(value: PrimExpr, buffer: Buffer, stmt: Block) -> tuple[PrimExpr, ...]:
    """The subscripts at which a value reads a buffer, the same for each load."""
    found: list[BufferLoad] = []

    def look(node: object) -> bool:
        if isinstance(node, BufferLoad) and node.buffer is buffer:
            found.append(node)
        return True

    pre_order_visit(value, look)
    if not found:
        refuse(f"{{0}} declares to read `{buffer.name}`, but the value it stores does not", stmt)
    if any(f is not found[0] for f in found):
        refuse(f"{{0}} reads `{buffer.name}` at several places: `{found[0]}` and others", stmt)
    return found[0].indices


def _require_early(s: ScheduleCore, target: StmtSRef, root: StmtSRef) -> None:
    """Refuse a block that overwrites what a block before it reads: its stores would come too early."""
    for dep in s.state.scope(root).dst2deps.get(target, ()):
        if dep.kind is DepKind.WAR:
            refuse("{0} overwrites what {1} reads, so it cannot be computed earlier", target.block, dep.src.block)


def _joined(
    s: ScheduleCore,
    producer: StmtSRef,
    store: BufferStore,
    buffer: Buffer,
    axes: Sequence[IterVar],
    strings: Sequence[DigitString],
) -> BlockRealize:
    """The producer, storing what the consumer makes of its value, where the consumer wants it."""
    made, realize = producer.block, s.state.realize_of(producer)
    inner, condition = made.body, None
    if isinstance(inner, IfThenElse) and inner.else_case is None:
        inner, condition = inner.then_case, inner.condition
    if not isinstance(inner, BufferStore) or inner.predicate is not None or inner.buffer is not buffer:
        refuse("the body of {0} is more than one store of a single element", made)
    require_pure(made, inner.value, buffer)
    require_pure(made, store.value, store.buffer)
    values = solve_strings(strings, axes, inner.indices)
    plain: Mapping[Var, PrimExpr] = {v: make.cast(e, v.dtype) for v, e in values.items()}
    body: Stmt = BufferStore(
        store.buffer,
        _ReplaceLoad(buffer, inner.value, plain).rewrite(store.value),
        tuple(substitute(i, plain) for i in store.indices),
    )
    wanted = [c for string, i in zip(strings, inner.indices, strict=True) for c in within(string, i)]
    if condition is not None:
        if _loads(condition):
            body = IfThenElse(condition, body)
        else:
            wanted.append(condition)
    guard = _guard(s, producer, [substitute(c, binding_map(realize)) for c in wanted])
    draft = made.replace(body=body)
    try:
        reads, writes = detect_regions(draft)
    except ValueError as e:
        refuse(str(e), made)
    return realize.replace(predicate=guard, block=draft.replace(reads=reads, writes=writes))


def _guard(s: ScheduleCore, producer: StmtSRef, wanted: Sequence[PrimExpr]) -> PrimExpr:
    """The guard that the producer has, and what is wanted besides, without what holds anyway."""
    analyzer = Analyzer()
    root = s.state.scope_root(producer)
    ranges = {} if root is None else axis_ranges(root.block)
    for var, r in {**ranges, **loop_ranges(s.state.loops_of(producer))}.items():
        analyzer.bind(var, r)
    old = s.state.realize_of(producer).predicate
    more: PrimExpr = IntImm(BOOL, 1)
    with analyzer.constraint_scope(old):
        for c in wanted:
            more = make.and_(more, c)
        more = analyzer.simplify(more)
    return make.and_(old, more)


def _loads(e: PrimExpr) -> bool:
    found = False

    def look(node: object) -> bool:
        nonlocal found
        found = found or isinstance(node, BufferLoad)
        return not found

    pre_order_visit(e, look)
    return found


class _ReplaceLoad(Rewriter):
    """Puts the producer's value for loads of its buffer, and new values for the consumer's axes."""

    def __init__(self, buffer: Buffer, value: PrimExpr, axes: Mapping[Var, PrimExpr]) -> None:
        super().__init__()
        self.buffer = buffer
        self.value = value
        self.axes = axes

    def rewrite_Var(self, node: Var) -> PrimExpr:
        """The value of an axis in terms of the producer's."""
        return self.axes.get(node, node)

    def rewrite_BufferLoad(self, node: BufferLoad) -> PrimExpr:
        """The producer's value, or a load at other subscripts."""
        if node.buffer is self.buffer:
            return self.value
        return node.replace(indices=tuple(self.rewrite(i) for i in node.indices))


def _zero(like: PrimExpr) -> PrimExpr:
    return IntImm(like.dtype, 0)
