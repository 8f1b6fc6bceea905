"""One loop becomes several, one after the other, each with a part of the iterations."""

from __future__ import annotations

from collections.abc import Sequence

from tscript.analysis import detect_regions
from tscript.ir.construct import const
from tscript.ir.expr import IntImm, IterVar, PrimExpr, Range, Var
from tscript.ir.stmt import Block, BlockRealize, For, ForKind, Stmt, seq
from tscript.schedule.buffers import same_region
from tscript.schedule.checks import affine_binding
from tscript.schedule.core import ScheduleCore
from tscript.schedule.errors import refuse
from tscript.schedule.instruction import Arg, InstructionKind, Outputs, Role, flag, loop
from tscript.schedule.loop_checks import require_loop, require_plain
from tscript.schedule.primitive import primitive
from tscript.schedule.primitives.split import checked_factors, require_factors
from tscript.schedule.rewrite import declaring_reads, fresh_copy
from tscript.schedule.rv import LoopRV
from tscript.schedule.sref import StmtSRef
from tscript.schedule.symbols import axes_using

_KIND = InstructionKind(
    "LoopPartition",
    "loop_partition",
    (loop(), Arg("factors", Role.INPUTS, is_list=True), flag("preserve_unit_iters")),
    Outputs.LIST,
)


@primitive(_KIND)
def loop_partition(
    s: ScheduleCore, loop: LoopRV, factors: Sequence[int | PrimExpr | None], preserve_unit_iters: bool = True
) -> list[LoopRV]:
    """Cut the iterations of a loop into consecutive parts of the given lengths, each a loop of its own; their handles.

    At most one length is None: what the others leave. Without one, what is left becomes a part more. Start and extent
    of the loop must be constant, it must have neither annotations nor a thread, and hold a single block (inside further
    loops). Each part gets a copy of that block, whose axis covers the part only. `preserve_unit_iters` has no effect.

    >>> import tscript
    >>> from tscript.script import tir as T
    >>> @T.prim_func
    ... def twice(A: T.Buffer((10,), "float32"), B: T.Buffer((10,), "float32")):
    ...     for i in range(10):
    ...         with T.block("B"):
    ...             v = T.axis.spatial(10, i)
    ...             B[v] = A[v] * T.float32(2)
    >>> sch = tscript.tir.Schedule(twice)
    >>> first, rest = sch.loop_partition(sch.get_loops("B")[0], [8])
    >>> print(sch.get(rest))
    for i1 in range(8, 10):
        with T.block("B_i1"):
            v = T.axis.spatial((8, 10), i1)
            A = T.Buffer((10,))
            T.reads(A[v])
            B = T.Buffer((10,))
            T.writes(B[v])
            B[v] = A[v] * T.float32(2.0)
    """
    del preserve_unit_iters
    given = checked_factors(factors)
    sref = require_loop(s, loop)
    old = sref.loop
    require_plain(old)
    if not (isinstance(old.min, IntImm) and isinstance(old.extent, IntImm)):
        refuse(f"{{0}} runs over [{old.min}, {old.min + old.extent}); only constant bounds can be cut into parts", old)
    lengths = _lengths(old, old.extent.value, [None if f is None else s.integer(f) for f in given])
    block = _only_block(old)
    continues = _goes_on(s, s.state.stmt2ref[block], old.loop_var)
    name = block.name_hint
    parts: list[Stmt] = []
    loops: list[For] = []
    begin = old.min.value
    for k, length in enumerate(lengths):
        part = _part(old, k, begin, length, continues and k > 0)
        loops.append(part)
        parts.append(_opaque(f"{name}_{old.loop_var.name}{k}_partition", part))
        begin += length
    common = _opaque(f"{name}_{old.loop_var.name}_common", seq(*parts))
    names = ", ".join(part.loop_var.name for part in loops)
    summed = dict.fromkeys(w.buffer for w in block.writes) if continues else {}
    place, stmt, reuse = declaring_reads(s.state, sref, common, summed)
    s.state.replace(place, stmt, reuse, f"partitioned into {names}")
    s.record_as(factors=given)
    return [s.loop_of(part) for part in loops]


def _lengths(loop: For, extent: int, factors: Sequence[int | None]) -> list[int]:
    require_factors(loop, factors)
    total = sum(f for f in factors if f is not None)
    if total >= extent:
        refuse(
            f"the parts have {total} iterations, which leaves nothing of the {extent} of {{0}} for another part",
            loop,
            hint="give parts that are shorter together than the loop",
        )
    rest = extent - total
    if None in factors:
        return [rest if f is None else f for f in factors]
    return [*(f for f in factors if f is not None), rest]


def _only_block(loop: For) -> Block:
    at: Stmt = loop.body
    while isinstance(at, For):
        at = at.body
    if not isinstance(at, BlockRealize):
        refuse("{0} holds more than a single block inside loops", loop, hint="partition the loops inside it")
    return at.block


def _opaque(name: str, body: Stmt) -> BlockRealize:
    """A block without axes. It declares what is touched inside, or other blocks could be moved across it."""
    block = Block((), (), (), name, body)
    reads, writes = detect_regions(block)
    return BlockRealize((), const(True), block.replace(reads=reads, writes=writes))


def _goes_on(s: ScheduleCore, block: StmtSRef, var: Var) -> bool:
    """Whether the parts share one accumulation, so that only the first may set its initial value."""
    stmt = block.block
    kinds = [axis.iter_type for axis in axes_using(s.state.realize_of(block), var)]
    if stmt.init is None or IterVar.CommReduce not in kinds:
        return False
    if IterVar.DataPar in kinds:
        refuse(
            f"`{var.name}` counts through spatial and reduce axes of {{0}}, so every part would start some sums",
            stmt,
            hint="cut a loop of one sort of axes, or take the start out by decompose_reduction first",
        )
    if not affine_binding(s.state, block):
        refuse("the axes of {0} are not bound to an affine map of its loops, so where it starts is not known", stmt)
    return True


def _part(loop: For, k: int, begin: int, length: int, goes_on: bool) -> For:
    """The loop over one part, with a copy of what it holds."""
    dtype = loop.loop_var.dtype
    var = loop.loop_var.copy_with(name=f"{loop.loop_var.name}{k}")
    domain = Range.from_min_extent(IntImm(dtype, begin), IntImm(dtype, length))
    body = fresh_copy(loop.body, known={loop.loop_var: var})
    return For(var, domain.min, domain.extent, ForKind.SERIAL, _narrowed(body, var, domain, goes_on))


def _narrowed(stmt: Stmt, var: Var, domain: Range, goes_on: bool) -> Stmt:
    if isinstance(stmt, For):
        return stmt.replace(body=_narrowed(stmt.body, var, domain, goes_on))
    assert isinstance(stmt, BlockRealize)
    old = stmt.block
    axes = tuple(
        axis.replace(dom=Range.from_min_extent(_as(domain.min, axis), _as(domain.extent, axis)))
        if value is var
        else axis
        for axis, value in zip(old.iter_vars, stmt.iter_values, strict=True)
    )
    reads, init = old.reads, old.init
    if goes_on:
        # The first part has set the initial value, and later ones go on from what they find.
        init, reads = None, (*(w for w in old.writes if not any(same_region(w, r) for r in reads)), *reads)
    block = old.replace(
        iter_vars=axes,
        name_hint=f"{old.name_hint}_{var.name}",
        reads=reads,
        init=init,
    )
    return stmt.replace(block=block)


def _as(bound: PrimExpr, axis: IterVar) -> PrimExpr:
    assert isinstance(bound, IntImm)
    return IntImm(axis.var.dtype, bound.value)
