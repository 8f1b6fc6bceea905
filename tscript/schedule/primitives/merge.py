"""Loop nests that follow one another become one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from tscript.analysis.dependence import (
    Access,
    find_overtaken,
    footprint,
    keeps_apart,
    never_after,
    never_overtaken,
)
from tscript.ir.construct import cast
from tscript.ir.expr import EQ, PrimExpr, Range, Var
from tscript.ir.functor import substitute
from tscript.ir.stmt import Block, For, SeqStmt, Stmt, seq
from tscript.schedule.bindings import is_proved, ranges_around, rebind
from tscript.schedule.conflicts import memory_of
from tscript.schedule.core import ScheduleCore
from tscript.schedule.errors import literal, refuse
from tscript.schedule.instruction import Arg, InstructionKind, Outputs, Role
from tscript.schedule.loop_checks import (
    require_loop,
    require_only_child,
    require_plain,
    require_zero_start,
    serial_nest,
)
from tscript.schedule.primitive import primitive
from tscript.schedule.rv import LoopRV
from tscript.schedule.sref import StmtSRef
from tscript.schedule.symbols import loop_ranges, outside_of

Nest = list[StmtSRef]


@primitive(InstructionKind("Merge", "merge", (Arg("loops", Role.INPUTS, keyword=False),), Outputs.ONE))
def merge(s: ScheduleCore, *loops: LoopRV) -> LoopRV:
    """Merge loop nests that follow one another into one that runs their bodies in turn; the new innermost loop.

    Each argument is the innermost loop to merge of a nest; the loops from there out to what holds all nests take part.
    The nests must be tight, of the same depth and extents, count from 0, and have neither annotations nor threads. The
    new nest stands where the last one was. Refused where an iteration of a later nest touches what a later iteration of
    an earlier nest does, or where what stands between them touches it, so that the order matters.

    >>> import tscript
    >>> from tscript.script import tir as T
    >>> @T.prim_func
    ... def both(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    ...     for i in range(8):
    ...         with T.block("B"):
    ...             v = T.axis.spatial(8, i)
    ...             B[v] = A[v] * T.float32(2)
    ...     for j in range(8):
    ...         with T.block("C"):
    ...             v = T.axis.spatial(8, j)
    ...             C[v] = B[v] + T.float32(1)
    >>> sch = tscript.tir.Schedule(both)
    >>> i, j = sch.get_loops("B")[0], sch.get_loops("C")[0]
    >>> [b.name_hint for b in map(sch.get, sch.get_child_blocks(sch.merge(i, j)))]
    ['B', 'C']
    """
    if len(loops) < 2:
        raise ValueError("sch.merge: give at least two loops")
    srefs = [require_loop(s, rv) for rv in loops]
    for k, sref in enumerate(srefs):
        if any(sref is other for other in srefs[:k]):
            refuse("{0} is given more than once", sref.loop)
    for sref in srefs[1:]:
        if s.state.root_of(sref) is not s.state.root_of(srefs[0]):
            refuse("{0} and {1} are in different functions", srefs[0].loop, sref.loop)
    around = s.state.common_ancestor(srefs)
    nests = [_nest(s, sref, around) for sref in srefs]
    stmts = _require_siblings(around, nests)
    nests.sort(key=lambda nest: next(k for k, stmt in enumerate(stmts) if stmt is nest[0].loop))
    for nest in nests[1:]:
        _require_same_extents(s, nests[0], nest)
    dtypes = [level.loop.loop_var.dtype for level in nests[0]]
    new_vars = [Var(f"{level.loop.loop_var.name}_m", t) for level, t in zip(nests[0], dtypes, strict=True)]
    _require_order_kept(s, nests, stmts, new_vars)
    extents = [level.loop.extent for level in nests[0]]
    ranges = ranges_around(s.state, nests[0][0])
    ranges.update({v: Range.from_min_extent(cast(0, v.dtype), e) for v, e in zip(new_vars, extents, strict=True)})
    bodies: list[Stmt] = []
    reuse: dict[Block, Block] = {}
    for nest in nests:
        body, changed = rebind(nest[-1].loop.body, _renamed(nest, new_vars), ranges)
        bodies.append(body)
        reuse.update(changed)
    made, inner = serial_nest(new_vars, extents, seq(*bodies))
    gone = dict.fromkeys(nest[0].loop for nest in nests)
    last = nests[-1][0].loop
    rest = seq(*(made if stmt is last else stmt for stmt in stmts if stmt is last or stmt not in gone))
    holder = around.stmt
    assert holder is not None
    s.state.replace(around, holder.replace(body=rest), reuse, f"merged into {', '.join(v.name for v in new_vars)}")
    return s.loop_of(inner[-1])


def _nest(s: ScheduleCore, innermost: StmtSRef, around: StmtSRef) -> Nest:
    """The loops from `around` (left out) down to `innermost`, checked."""
    nest: Nest = []
    at: StmtSRef | None = innermost
    while at is not None and at is not around:
        if isinstance(at.stmt, Block):
            refuse("{0} is inside {1}, which not all the loops are in", innermost.loop, at.stmt)
        nest.insert(0, at)
        at = at.parent
    if not nest:
        refuse("{0} is around the others; give loops of nests that follow one another", innermost.loop)
    for outer, inner in pairwise(nest):
        require_only_child(outer.loop, inner.loop)
    for level in nest:
        require_zero_start(level.loop)
        require_plain(level.loop)
    return nest


def _require_siblings(around: StmtSRef, nests: Sequence[Nest]) -> tuple[Stmt, ...]:
    """The sequence that the nests stand in."""
    assert around.stmt is not None
    body = around.stmt.body
    stmts = body.seq if isinstance(body, SeqStmt) else (body,)
    for nest in nests:
        if not any(stmt is nest[0].loop for stmt in stmts):
            refuse("{0} does not stand directly in the body of {1}", nest[0].loop, around.stmt)
    return stmts


def _require_same_extents(s: ScheduleCore, first: Nest, other: Nest) -> None:
    if len(first) != len(other):
        refuse(
            f"the nests differ in depth: {len(first)} loops down to {{0}}, but {len(other)} down to {{1}}",
            first[-1].loop,
            other[-1].loop,
        )
    ranges = loop_ranges(s.state.loops_of(first[0]))
    for a, b in zip(first, other, strict=True):
        x, y = a.loop.extent, b.loop.extent
        if x is not y and not is_proved(EQ(x, cast(y, x.dtype)), ranges):
            refuse(f"{{0}} has the extent `{x}`, but {{1}} has `{y}`", a.loop, b.loop)


def _renamed(nest: Nest, new_vars: Sequence[Var]) -> dict[Var, PrimExpr]:
    return {r.loop.loop_var: cast(v, r.loop.loop_var.dtype) for r, v in zip(nest, new_vars, strict=True)}


# -- order ----------------------------------------------------------------------------------------


def _require_order_kept(s: ScheduleCore, nests: Sequence[Nest], stmts: Sequence[Stmt], new_vars: Sequence[Var]) -> None:
    touched = [_touched(s, nest, new_vars) for nest in nests]
    memory = memory_of(s.state, nests[0][0])
    outside = outside_of(s.state, nests[0][0])
    for k, earlier in enumerate(touched):
        for later, nest in zip(touched[k + 1 :], nests[k + 1 :], strict=True):
            for a in earlier:
                for b in later:
                    clash = memory(a.buffer) is memory(b.buffer) and (a.is_write or b.is_write)
                    if clash and not all(keeps_apart(v, a, b) for v in new_vars):
                        _require_in_turn(nests[k][-1], nest[-1], a, b, new_vars, outside)
    _require_free_way(s, nests, stmts)


def _require_in_turn(
    first: StmtSRef, second: StmtSRef, a: Access, b: Access, loops: Sequence[Var], outside: Mapping[Var, Range]
) -> None:
    """Refuse unless the later nest touches in each iteration only what is no more touched by the earlier one."""
    if never_after(a, b, loops):
        return
    found = find_overtaken(a, b, loops, outside)
    if found is None and never_overtaken(a, b, loops, outside):
        return
    example = "" if found is None else f": {literal(found.explain(a.buffer.name, b.is_write, a.is_write))}"
    refuse(
        f"an iteration of {{1}} {'would' if found else 'may'} touch what a later one of {{0}} does: `{a}` and `{b}`, "
        f"so they cannot run in turn{example}",
        first.loop,
        second.loop,
        hint="merge fewer levels, or leave the nests apart",
    )


def _require_free_way(s: ScheduleCore, nests: Sequence[Nest], stmts: Sequence[Stmt]) -> None:
    """Refuse where an earlier nest would pass something that it shares elements with on its way to the last one."""
    tops = dict.fromkeys(nest[0].loop for nest in nests)
    passing: list[tuple[For, list[Access]]] = []
    memory = memory_of(s.state, nests[0][0])
    for stmt in stmts:
        if stmt in tops:
            assert isinstance(stmt, For)
            passing.append((stmt, footprint(stmt).found))
            if len(passing) == len(nests):
                return
            continue
        for b in footprint(stmt).found:
            for top, accesses in passing:
                for a in accesses:
                    if memory(a.buffer) is memory(b.buffer) and (a.is_write or b.is_write):
                        refuse(
                            f"`{a.buffer.name}` is used by what stands between {{0}} and the last of the loops, "
                            "where the merged loop is put",
                            top,
                        )


def _touched(s: ScheduleCore, nest: Nest, new_vars: Sequence[Var]) -> list[Access]:
    """What an iteration of a nest touches, in terms of the new variables."""
    renamed = _renamed(nest, new_vars)
    result: list[Access] = []
    for a in footprint(nest[0].loop).found:
        domain: dict[Var, Range] = {}
        for v, r in a.domain.items():
            new = renamed.get(v, v)
            domain[new if isinstance(new, Var) else v] = _in(r, renamed)
        realize = a.realize
        if realize is not None:
            realize = realize.replace(iter_values=tuple(substitute(v, renamed) for v in realize.iter_values))
        result.append(
            replace(
                a,
                realize=realize,
                region=tuple(_in(r, renamed) for r in a.region),
                domain=domain,
                conditions=tuple(substitute(c, renamed) for c in a.conditions),
            )
        )
    return result


def _in(r: Range, renamed: Mapping[Var, PrimExpr]) -> Range:
    return Range.from_min_extent(substitute(r.min, renamed), substitute(r.extent, renamed))
