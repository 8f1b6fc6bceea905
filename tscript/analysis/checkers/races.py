"""Iterations that run at the same time and touch the same memory, at least one of them writing it.

Loops that run their iterations at the same time are parallel and vectorized ones, and those over threads. The
indices of one kind (`threadIdx`, `blockIdx`) belong together: two threads differ if any index does. Threads of a
block are kept apart by barriers; memory that exists once for each iteration is no matter of races.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from tscript.analysis.checkers.moments import Together, Trace, together
from tscript.analysis.checkers.out_of_bounds import assignments, statement_text
from tscript.analysis.checkers.points import needed_variables
from tscript.analysis.checkers.proofs import Proofs
from tscript.analysis.checkers.report import POSSIBLE, PROVEN, Finding
from tscript.analysis.checkers.separation import always_apart
from tscript.analysis.checkers.sites import READ, WRITE, Binding, Loop, Site, Survey
from tscript.ir.base import Node
from tscript.ir.expr import BufferLoad, PrimExpr, Var
from tscript.ir.function import PrimFunc
from tscript.ir.functor import post_order_visit
from tscript.ir.occurrences import mentions, reads_memory, variables
from tscript.ir.stmt import BlockRealize, BufferStore, ForKind

KIND: Final = "race"


@dataclass(frozen=True, slots=True)
class Group:
    """Loops whose iterations run at the same time, the outermost first."""

    kind: str
    loops: tuple[Loop, ...]


def find_races(func: PrimFunc, found: Survey, proofs: Proofs) -> list[Finding]:
    """Pairs of accesses in `func` that may meet at an element while their order is open."""
    findings: list[Finding] = []
    has_blocks = _has_blocks(func)
    by_data: dict[Var, list[Site]] = {}
    for site in found.sites:
        if site.role in (READ, WRITE) and not site.axis:
            by_data.setdefault(site.memory.data, []).append(site)
    for group in _groups(found):
        for data, sites in by_data.items():
            inside = [s for s in sites if _is_inside(s, group)]
            sums = {s: axis for s in inside if (axis := _thread_reduction(s, group)) is not None}
            inside = [s for s in inside if s not in sums or not sums[s].has_init]
            if not any(s.role == WRITE for s in inside) or data in found.escaped:
                continue
            if _is_private(group, inside, found, data, has_blocks):
                continue
            finding = _conflict(func, group, inside, found, proofs)
            if finding is not None and any(s in sums for s in inside):
                # Without its init at hand, such a reduction may be part of one that is combined elsewhere.
                finding = replace(finding, status=POSSIBLE)
            if finding is not None:
                findings.append(finding)
    return findings


# -- what runs at the same time ---------------------------------------------------------------------


def _groups(found: Survey) -> list[Group]:
    groups: list[Group] = []
    joined: dict[tuple[str, Loop | None], list[Loop]] = {}
    for loop, _ in found.loops:
        if loop.thread.startswith(("threadIdx", "blockIdx")):
            kind = loop.thread.partition(".")[0]
            outer = next((s for s in loop.chain() if isinstance(s, Loop) and s.thread.startswith(kind)), loop)
            joined.setdefault((kind, outer), []).append(loop)
        elif loop.thread or loop.kind in (ForKind.PARALLEL, ForKind.VECTORIZED):
            groups.append(Group(loop.thread or ForKind.NAMES[loop.kind], (loop,)))
    return groups + [Group(kind, tuple(loops)) for (kind, _), loops in joined.items()]


def _is_inside(site: Site, group: Group) -> bool:
    return group.loops[0] in site.scopes()


def _thread_reduction(site: Site, group: Group) -> Binding | None:
    """The axis of a block that reduces over the threads of `group`, which is for lowering to combine."""
    if group.kind != "threadIdx":
        return None
    names: dict[Var, object] = {loop.var: None for loop in group.loops}
    for scope in site.scopes():
        if isinstance(scope, Binding) and mentions(scope.value, names):
            if scope.reduces:
                return scope
            names[scope.var] = None
    return None


def _is_private(group: Group, sites: Sequence[Site], found: Survey, data: Var, has_blocks: bool) -> bool:
    """Whether each iteration has memory of its own, or barriers between threads are still to be placed."""
    storage = found.stores.get(data)
    if storage is None:
        return False
    if group.loops[-1] in storage.chain() or (len(group.loops) > 1 and group.loops[0] in storage.chain()):
        return group.kind != "threadIdx" or not storage.buffer.scope().startswith("shared")
    scope = sites[0].memory.scope()
    if group.kind == "threadIdx" and has_blocks and scope.startswith("shared"):
        return True
    if group.kind in ("parallel", "vectorized") or scope in ("", "global"):
        return False
    return group.kind == "blockIdx" or not scope.startswith(("shared", "warp"))


def _has_blocks(func: PrimFunc) -> bool:
    found: list[Node] = []

    def look(node: Node) -> None:
        if isinstance(node, BlockRealize) and node.block.iter_vars:
            found.append(node)

    post_order_visit(func.body, look)
    return bool(found)


# -- meeting at an element --------------------------------------------------------------------------


def _conflict(func: PrimFunc, group: Group, sites: Sequence[Site], found: Survey, proofs: Proofs) -> Finding | None:
    writes = [s for s in sites if s.role == WRITE]
    if all(always_apart(w, s, group.loops, proofs) for w in writes for s in sites):
        return None
    barriers = [
        b for b in found.barriers if b.storage != "warp" and group.loops[0] in (b.scope.chain() if b.scope else [])
    ]
    if group.kind != "threadIdx":
        barriers = []
    complete = True
    maybe: Finding | None = None
    written = {s.memory.data: None for s in found.sites if s.role == WRITE and _is_inside(s, group)}
    copies = [s for s in writes if _is_replicated(s, group, written)]
    rewriting = [s for s in writes if _is_rewriting(s, group, written)]
    for sizes, is_free in assignments(func, *sites):
        runs = together(sites, group.loops, barriers, sizes, copies, rewriting)
        if runs is None:
            complete = False
            break
        complete = complete and runs.complete and not sizes
        pair = _meeting(runs)
        if pair is not None:
            finding = _finding(func, group, pair, is_free, sizes)
            if finding.is_proven:
                return finding
            maybe = maybe or finding
    if maybe is not None:
        return maybe
    return None if complete else _unknown(func, group, writes[0])


def _is_replicated(site: Site, group: Group, written: Mapping[Var, None]) -> bool:
    """Whether every iteration of the group makes the same stores: the same values to the same elements."""
    if not isinstance(site.statement, BufferStore) or site.role != WRITE or site.base is None:
        return False
    value = site.statement.value
    needed = needed_variables(site.scopes(), [*site.base, value])
    if any(loop.var in needed for loop in group.loops):
        return False
    return not any(data in written for data in _loaded(value))


def _is_rewriting(site: Site, group: Group, written: Mapping[Var, None]) -> bool:
    """Whether what is stored depends on the element alone, so that all iterations which store there store the same."""
    statement = site.statement
    if not isinstance(statement, BufferStore) or site.role != WRITE or statement.predicate is not None:
        return False
    subscripts = {i: None for i in statement.indices if isinstance(i, Var)}
    others = [v for v in variables(statement.value) if v not in subscripts]
    inside = {s.var: None for s in site.scopes()[site.scopes().index(group.loops[0]) :] if isinstance(s, Loop)}
    if any(v in inside for v in needed_variables(site.scopes(), others)):
        return False
    return not any(data in written for data in _loaded(statement.value))


def _loaded(value: PrimExpr) -> list[Var]:
    """The memory that an expression reads."""
    loaded: list[Var] = []

    def look(node: Node) -> None:
        if isinstance(node, BufferLoad):
            loaded.append(node.buffer.data)

    post_order_visit(value, look)
    return loaded


def _meeting(runs: Together) -> tuple[Trace, int, Trace, int] | None:
    """Two iterations that meet: a write first, and both sure to take place if there are such."""
    sure = np.concatenate([t.points.sure for t in runs.traces])
    for mask in (sure, np.ones(len(sure), np.bool_)):
        pair = runs.first_pair(mask)
        if pair is not None:
            return pair
    return None


def _where(trace: Trace, row: int) -> str:
    points = trace.points
    loops = [s for s in trace.site.scopes() if isinstance(s, Loop) and not s.is_lane]
    return ", ".join(f"{s.var.name} = {int(points.values[s.var][row])}" for s in loops)


def _finding(
    func: PrimFunc, group: Group, pair: tuple[Trace, int, Trace, int], is_free: bool, sizes: Mapping[Var, int]
) -> Finding:
    first, row, second, other = pair
    site = first.site
    proven = is_free and bool(first.points.sure[row]) and bool(second.points.sure[other])
    at = ", ".join(str(int(first.points.at(i)[row])) for i in site.base or ())
    element = f"{site.memory.name}[{at}]"
    verb = "writes" if second.site.role == WRITE else "reads"
    one, two = _where(first, row), _where(second, other)
    message = f"iteration ({one}) writes {element} and iteration ({two}) {verb} it, in any order"
    hint = "keep the loop serial, or give each iteration memory of its own"
    if group.kind == "threadIdx":
        hint = 'put T.tvm_storage_sync("shared") between the accesses'
    if group.kind == "blockIdx":
        hint = "blocks of threads cannot wait for each other: split the work into two kernels"
    witness = {v.name: n for v, n in sizes.items()}
    return Finding(
        KIND, PROVEN if proven else POSSIBLE, message, func.__name__, site.memory.name, witness,
        statement_text(site), site.span, hint,
    )  # fmt: skip


def _unknown(func: PrimFunc, group: Group, site: Site) -> Finding:
    name, loop = site.memory.name, group.loops[0].var.name
    data = any(reads_memory(i) for i in site.indices)
    why = "the subscripts are read from memory" if data else "the subscripts are not simple enough"
    return Finding(
        KIND, POSSIBLE, f"iterations of the {group.kind} loop {loop} may meet at an element of {name}: {why}",
        func.__name__, name, {}, statement_text(site), site.span,
    )  # fmt: skip
