"""A subtree of loops becomes the body of a block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tscript.analysis import detect_regions
from tscript.analysis.ranges import loop_range, range_bounds
from tscript.arith import Bound, simplify
from tscript.ir import construct as make
from tscript.ir.buffer import Buffer
from tscript.ir.expr import BufferLoad, IntImm, IterVar, PrimExpr, Range, Var
from tscript.ir.functor import post_order_visit, substitute
from tscript.ir.occurrences import mentions, variables
from tscript.ir.stmt import Block, BlockRealize, BufferRegion, BufferStore, For, SeqStmt, Stmt, seq
from tscript.schedule.bindings import ranges_around
from tscript.schedule.checks import require_scope_root
from tscript.schedule.core import ScheduleCore
from tscript.schedule.errors import refuse
from tscript.schedule.instruction import Arg, InstructionKind, Outputs, Role, flag
from tscript.schedule.loop_checks import require_loop
from tscript.schedule.primitive import primitive
from tscript.schedule.rewrite import fresh_copy, path_to, replace_stmts, statement_of
from tscript.schedule.rv import BlockRV, LoopRV
from tscript.schedule.sref import StmtSRef
from tscript.schedule.subspace import (
    TRUE,
    Division,
    NewAxes,
    divide,
    in_new_axes,
    inner_realize,
    new_axes,
    relaxed,
)
from tscript.schedule.symbols import conjuncts, no_less

_KIND = InstructionKind("Blockize", "blockize", (Arg("target", Role.INPUT), flag("preserve_unit_iters")), Outputs.ONE)


@primitive(_KIND)
def blockize(s: ScheduleCore, target: LoopRV | Sequence[BlockRV], preserve_unit_iters: bool = True) -> BlockRV:
    """Make a block of a loop and all below it, or of blocks that stand next to each other; the handle of that block.

    A loop has one block below it, `name`. Its axes are divided into parts of the loops outside, which are the axes
    `<axis>_o` of the new block `<name>_o`, and parts of the loop and those below, the axes `<axis>_i` of `name`, which
    keeps its handle; a part of one value gets no inner axis. An init moves out to the new block. With
    `preserve_unit_iters=False`, axes of one value are replaced by 0.

    Blocks are given as a list. The new block, `outer_<name>_<name>_`, holds them with the loops that each has alone;
    no reduce axis may run over the loops outside.

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
    >>> k_0, k_1 = sch.split(k, [None, 4])
    >>> outer = sch.blockize(k_1)
    >>> print(sch.get(i))
    for i, k_0 in T.grid(8, 3):
        with T.block("sum_o"):
            vi_o, vk_o = T.axis.remap("SR", [i, k_0])
            X = T.Buffer((8, 12))
            T.reads(X[vi_o, vk_o * 4:vk_o * 4 + 4])
            Y = T.Buffer((8,))
            T.writes(Y[vi_o])
            with T.init():
                with T.block("sum_init"):
                    T.reads()
                    T.writes(Y[vi_o])
                    Y[vi_o] = T.float32(0.0)
            for k_1 in range(4):
                with T.block("sum"):
                    vk_i = T.axis.reduce(4, k_1)
                    T.reads(Y[vi_o], X[vi_o, vk_o * 4 + vk_i])
                    T.writes(Y[vi_o])
                    Y[vi_o] = Y[vi_o] + X[vi_o, vk_o * 4 + vk_i]
    """
    if isinstance(target, LoopRV):
        return s.block_of(blockize_loop(s, require_loop(s, target), preserve_unit_iters))
    if not isinstance(target, (list, tuple)):
        raise TypeError(f"blockize takes a loop or a list of blocks, not {target!r}")
    return s.block_of(_blockize_blocks(s, [s.block(b) for b in target], preserve_unit_iters))


# -- a loop ---------------------------------------------------------------------------------------


def blockize_loop(s: ScheduleCore, at: StmtSRef, preserve_unit_iters: bool) -> Block:
    """Carry out `blockize` of a loop; the new block."""
    outer, reuse = loop_as_block(s, at, preserve_unit_iters)
    s.state.replace(at, outer, reuse, f"put into block {outer.block.name_hint}")
    return outer.block


def loop_as_block(s: ScheduleCore, at: StmtSRef, preserve_unit_iters: bool) -> tuple[BlockRealize, dict[Block, Block]]:
    """The block that a loop would become, realized, and what would become of the blocks below."""
    state = s.state
    blocks = state.child_blocks(at)
    if len(blocks) != 1:
        refuse(
            f"{{0}} has {len(blocks)} blocks below it, not one",
            at.loop,
            *(b.block for b in blocks),
            hint="give the blocks as a list, or a loop around just one of them",
        )
    (child,) = blocks
    realize = state.realize_of(child)
    inner = _loops_on_path(at.loop, realize)
    division = _divided(s, child, inner, preserve_unit_iters, at.loop)
    _require_first_values(realize.block, division)
    axes = new_axes(division, preserve_unit_iters)
    inside, moved, reuse = inner_realize(realize, axes, division.inner_condition, keep_init=False)
    body, _ = replace_stmts(at.loop, {realize: inside})
    # A block without axes may use the loops themselves.
    domain = {**axes.inner_ranges(), **{f.loop_var: loop_range(f) for f in inner}}
    bounds = {**axes.bounds, **range_bounds({f.loop_var: loop_range(f) for f in inner})}
    init = None
    if moved.init is not None:
        init = _init_nest(realize.block, moved, axes, division, inner)
    outer = Block(
        tuple(axes.outer),
        tuple(relaxed(moved.reads, domain, bounds)),
        tuple(relaxed(moved.writes, domain, bounds)),
        f"{realize.block.name_hint}_o",
        body,
        init,
    )
    made = BlockRealize(tuple(axes.outer_values), division.outer_condition, outer)
    _require_hidden_loops_unused(s, at, made, [realize.block])
    return made, {**reuse, realize.block: inside.block}


def _require_first_values(block: Block, division: Division) -> None:
    """Refuse a block whose init would run, once outside, though a reduce axis never takes its first value."""
    for d in division.axes if block.init is not None else ():
        dom = d.axis.dom
        if d.axis.iter_type == IterVar.CommReduce and not (dom is not None and make.is_const_int(dom.min, d.base)):
            refuse(
                f"the axis `{d.axis.var.name}` of {{0}} does not start at its first value, where the init runs", block
            )


def _require_hidden_loops_unused(s: ScheduleCore, at: StmtSRef, made: BlockRealize, blocks: Sequence[Block]) -> None:
    """Refuse to put what uses loops outside directly, as blocks without axes do, into a block with axes."""
    if not made.block.iter_vars:
        return
    outside = ranges_around(s.state, at)
    own = {n.loop_var for n in _nodes_in(made.block) if isinstance(n, For)}
    used = next((n for n in _nodes_in(made.block) if isinstance(n, Var) and n in outside and n not in own), None)
    if used is not None:
        refuse(f"what is below {{0}} uses the loop `{used.name}` outside, which the new block would hide", *blocks)


def _loops_on_path(top: Stmt, realize: BlockRealize) -> list[For]:
    """The loops from `top` down to a block. Refused where anything else is in between."""
    loops: list[For] = []
    for step in path_to(top, realize)[:-1]:
        if not isinstance(step, For):
            refuse("between the loops around {0} stands more than loops", realize.block)
        loops.append(step)
    return loops


def _divided(
    s: ScheduleCore, block: StmtSRef, inner: Sequence[For], preserve_unit_iters: bool, *shown: Any
) -> Division:
    ranges = ranges_around(s.state, block)
    found = divide(s.state.realize_of(block), ranges, [f.loop_var for f in inner], preserve_unit_iters)
    if found is None:
        realize = s.state.realize_of(block)
        pairs = zip(realize.block.iter_vars, realize.iter_values, strict=True)
        bindings = ", ".join(f"{a.var.name} = {v}" for a, v in pairs).replace("{", "{{").replace("}", "}}")
        guard = "" if make.is_const_int(realize.predicate, 1) else f", where {realize.predicate}"
        names = ", ".join(f"`{f.loop_var.name}`" for f in inner) or "none"
        refuse(
            f"the axes of {{0}} ({bindings}{guard}) cannot be divided into parts of the loops inside ({names}) and of "
            "those outside",
            block.block,
            *shown,
            hint="split loops so that each axis, and each condition, uses whole loops inside and outside",
        )
    return found


def _init_nest(block: Block, moved: Block, axes: NewAxes, division: Division, inner: Sequence[For]) -> Stmt:
    """The init as a block `<name>_init` in loops of its own: those inside that its axes run over."""
    assert moved.init is not None
    used = variables(moved.init)
    pairs = [(a, v) for a, v in zip(axes.inner, axes.inner_values, strict=True) if a.var in used]
    for a, _ in pairs:
        if a.iter_type != IterVar.DataPar:
            refuse(f"the init of {{0}} uses its axis `{a.var.name}`, which is not spatial", block)
    needed = variables(*(v for _, v in pairs))
    loops = [f for f in inner if f.loop_var in needed]
    renamed: dict[Var, PrimExpr] = {f.loop_var: f.loop_var.copy_with() for f in loops}
    domain = {a.var: a.dom for a in axes.inner if a.var not in used and a.dom is not None}
    own: dict[Var, PrimExpr] = {a.var: a.var.copy_with(name=f"{a.var.name}_init") for a, _ in pairs}
    local = dict.fromkeys(block.alloc_buffers)
    touched = _buffers_in(moved.init)
    for b in touched:
        if b in local:
            refuse(f"the init of {{0}} uses `{b.name}`, which {{0}} allocates itself", block)
    made = Block(
        (),
        (),
        tuple(relaxed(moved.writes, domain, axes.bounds)),
        f"{block.name_hint}_init",
        moved.init,
        None,
        (),
        tuple(m for m in moved.match_buffers if m.buffer in touched),
    )
    if any(isinstance(n, BufferLoad) for n in _nodes_in(moved.init)):
        made = made.replace(reads=detect_regions(made)[0])
    made = substitute(made, own).replace(
        iter_vars=tuple(a.replace(var=own[a.var]) for a, _ in pairs),
    )
    values = tuple(substitute(v, renamed) for _, v in pairs)
    nest: Stmt = BlockRealize(values, substitute(_init_guard(block, division, axes, needed), renamed), fresh_copy(made))
    for f in reversed(loops):
        var = renamed[f.loop_var]
        assert isinstance(var, Var)
        if mentions(f.min, renamed) or mentions(f.extent, renamed):
            refuse("{0} runs over a range that depends on another loop inside", f)
        nest = For(var, f.min, f.extent, f.kind, nest, f.thread_binding)
    return nest


def _init_guard(block: Block, division: Division, axes: NewAxes, kept: Mapping[Var, None]) -> PrimExpr:
    """The condition on inner loops under which the init runs."""
    result: PrimExpr = TRUE
    for part in conjuncts(division.inner_condition):
        if not all(v in kept for v in variables(part)):
            refuse(
                f"the guard `{part}` of {{0}} concerns loops that the axes of its init do not run over",
                block,
                hint="decompose the reduction first",
            )
        result = make.and_(result, part)
    return result


def _nodes_in(stmt: Stmt) -> list[Any]:
    found: list[Any] = []
    post_order_visit(stmt, found.append)
    return found


def _buffers_in(stmt: Stmt) -> dict[Buffer, None]:
    return {n.buffer: None for n in _nodes_in(stmt) if isinstance(n, (BufferLoad, BufferStore))}


# -- a list of blocks -----------------------------------------------------------------------------


def _blockize_blocks(s: ScheduleCore, blocks: list[StmtSRef], preserve_unit_iters: bool) -> Block:
    state = s.state
    if not blocks:
        refuse("no block is given to make a block of")
    if len(dict.fromkeys(blocks)) < len(blocks):
        refuse("a block is given twice", *dict.fromkeys(b.block for b in blocks))
    roots = dict.fromkeys(require_scope_root(state, b) for b in blocks)
    if len(roots) > 1:
        refuse("the blocks do not stand in the same block", *(b.block for b in blocks))
    above = state.common_ancestor(blocks) if len(blocks) > 1 else blocks[0].parent
    assert above is not None and above.stmt is not None
    run = _run_of(s, above, blocks)
    ordered = [b for b in state.child_blocks(above) if b in blocks]
    shared = _SharedAxes(preserve_unit_iters)
    bodies: dict[Stmt, Stmt] = {}
    reuse: dict[Block, Block] = {}
    reads: list[BufferRegion] = []
    writes: list[BufferRegion] = []
    conditions: list[PrimExpr] = []
    for b in ordered:
        realize = state.realize_of(b)
        part = next(p for p in run if path_to(p, realize))
        inner = _loops_on_path(part, realize)
        division = _divided(s, b, inner, preserve_unit_iters)
        axes = shared.axes_of(b.block, division)
        inside, moved, more = inner_realize(realize, axes, division.inner_condition, keep_init=True)
        bodies[part] = replace_stmts(part, {realize: inside})[0] if part is not realize else inside
        reuse.update({**more, b.block: inside.block})
        bounds = {**range_bounds({a.var: a.dom for a in shared.axes if a.dom is not None}), **axes.bounds}
        _unite(reads, relaxed(moved.reads, axes.inner_ranges(), bounds), bounds)
        _unite(writes, relaxed(moved.writes, axes.inner_ranges(), bounds), bounds)
        conditions.append(division.outer_condition)
    if any(c is not conditions[0] for c in conditions):
        refuse("the blocks run under different conditions on the loops around them", *(b.block for b in ordered))
    name = "outer_" + "".join(f"{b.block.name_hint}_" for b in ordered)
    made = Block(tuple(shared.axes), tuple(reads), tuple(writes), name, seq(*(bodies[p] for p in run)))
    realized = BlockRealize(tuple(shared.values), conditions[0], made)
    _require_hidden_loops_unused(s, ordered[0], realized, [b.block for b in ordered])
    body = above.stmt.body
    parts = list(body.seq) if isinstance(body, SeqStmt) else [body]
    first = parts.index(run[0])
    new_body = seq(*parts[:first], realized, *parts[first + len(run) :])
    changed: Any = above.stmt.replace(body=new_body)
    if isinstance(above.stmt, Block):
        reuse[above.stmt] = changed
    state.replace(above, changed, reuse, f"put into block {name}")
    return made


def _run_of(s: ScheduleCore, above: StmtSRef, blocks: Sequence[StmtSRef]) -> list[Stmt]:
    """The statements directly below `above` that hold the blocks. Refused unless they follow each other and hold
    nothing else.
    """
    assert above.stmt is not None
    body = above.stmt.body
    parts = list(body.seq) if isinstance(body, SeqStmt) else [body]
    places: list[int] = []
    for b in blocks:
        realize = statement_of(s.state, b)
        place = next((i for i, p in enumerate(parts) if path_to(p, realize)), None)
        if place is None:
            refuse("{0} stands in no sequence with the others", b.block)
        if place in places:
            refuse("{0} shares loops with another of the blocks, but not with all of them", b.block)
        places.append(place)
    low, high = min(places), max(places)
    for i in range(low, high + 1):
        if i not in places:
            refuse("a statement that is not among the blocks stands between them", *(b.block for b in blocks))
    for b, place in zip(blocks, places, strict=True):
        _loops_on_path(parts[place], s.state.realize_of(b))
    return parts[low : high + 1]


class _SharedAxes:
    """The axes of the block around several blocks, found by what they are bound to."""

    def __init__(self, preserve_unit_iters: bool) -> None:
        self.preserve_unit_iters = preserve_unit_iters
        self.axes: list[IterVar] = []
        self.values: list[PrimExpr] = []
        self.first: Block | None = None
        self.known: dict[Var, None] = {}

    def axes_of(self, block: Block, division: Division) -> NewAxes:
        """The axes of one of the blocks. Refused where it is not divided as the first one is."""
        made = NewAxes([], [], [], [], {})
        free = list(range(len(self.axes)))
        for d in division.axes:
            v = d.axis.var
            if d.axis.iter_type != IterVar.DataPar and not d.outer.is_unit:
                refuse(
                    f"the axis `{v.name}` of {{0}}, which is not spatial, runs over loops outside",
                    block,
                    hint="reorder the loops of the reduction inside, or give the loop that is to become a block",
                )
            inner = v.copy_with(name=f"{v.name}_i")
            if d.axis.iter_type == IterVar.DataPar:
                outer = self._outer(block, d, free)
            else:
                outer = inner
            if not d.inner.is_unit:
                domain = Range.from_min_extent(IntImm(d.inner.extent.dtype, 0), d.inner.extent)
                made.inner.append(IterVar(domain, inner, d.axis.iter_type, d.axis.thread_tag))
                made.inner_values.append(d.inner.value)
            elif outer is inner:
                made.old[v] = IntImm(v.dtype, d.base)
                continue
            made.old[v] = in_new_axes(d, outer, inner, self.preserve_unit_iters)
        missing = [self.axes[i] for i in free if not _is_unit(self.axes[i])]
        if self.first is None:
            self.first = block
        elif missing:
            refuse(f"no axis of {{0}} is bound as `{missing[0].var.name}` of {{1}} is", block, self.first)
        made.outer, made.outer_values = self.axes, self.values
        return made

    def _outer(self, block: Block, d: Any, free: list[int]) -> Var:
        for i in free:
            same = self.values[i] is d.outer.value or make.is_const_int(simplify(self.values[i] - d.outer.value), 0)
            dom = self.axes[i].dom
            assert dom is not None
            if same and simplify(dom.extent - d.outer.extent) is IntImm(dom.extent.dtype, 0):
                free.remove(i)
                return self.axes[i].var
        if self.first is not None and not d.outer.is_unit:
            refuse(
                f"the axis `{d.axis.var.name}` of {{0}} runs over the loops outside as `{d.outer.value}`, unlike all "
                "axes of {1}",
                block,
                self.first,
            )
        var = d.axis.var.copy_with(name=f"{d.axis.var.name}_o")
        domain = Range.from_min_extent(IntImm(d.outer.extent.dtype, 0), d.outer.extent)
        self.axes.append(IterVar(domain, var, d.axis.iter_type, d.axis.thread_tag))
        self.values.append(d.outer.value)
        return var


def _is_unit(axis: IterVar) -> bool:
    return axis.dom is not None and make.is_const_int(axis.dom.extent, 1)


def _unite(known: list[BufferRegion], more: Sequence[BufferRegion], bounds: Mapping[Var, Bound]) -> None:
    """Add regions to a list that has one for each buffer."""
    for region in more:
        at = next((i for i, k in enumerate(known) if k.buffer is region.buffer), None)
        if at is None:
            known.append(region)
        else:
            ranges = [_hull(a, b, bounds) for a, b in zip(known[at].region, region.region, strict=True)]
            known[at] = BufferRegion(region.buffer, tuple(ranges))


def _hull(a: Range, b: Range, bounds: Mapping[Var, Bound]) -> Range:
    if a.min is b.min and a.extent is b.extent:
        return a
    a_end, b_end = make.add(a.min, a.extent), make.add(b.min, b.extent)
    low = (
        a.min if no_less(b.min, a.min, bounds) else b.min if no_less(a.min, b.min, bounds) else make.min_(a.min, b.min)
    )
    end = (
        a_end if no_less(a_end, b_end, bounds) else b_end if no_less(b_end, a_end, bounds) else make.max_(a_end, b_end)
    )
    return Range.from_min_extent(low, simplify(make.sub(end, low), bounds))
