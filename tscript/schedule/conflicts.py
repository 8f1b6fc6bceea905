"""Which iterations of a loop touch the same elements: what running them at once, or in another order, must respect.

What is touched, and whether a loop keeps two accesses apart, is told by the dependence analysis, of the regions that
blocks declare. Here is added what blocks promise: instances of complete blocks are independent, reductions may be
carried out in any order, what each iteration writes before it reads is its own matter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from tscript.analysis.dependence import (
    Access,
    Conflict,
    Witness,
    exchange,
    find_witness,
    footprint,
    keeps_apart,
    memory_through,
    through_pointer,
)
from tscript.ir.buffer import Buffer
from tscript.ir.construct import is_const_int
from tscript.ir.expr import IterVar, Var
from tscript.ir.occurrences import reads_memory
from tscript.ir.stmt import Block
from tscript.schedule.checks import is_complete_block, is_reduction_block, region_cover
from tscript.schedule.shared_elements import shared_element
from tscript.schedule.sref import StmtSRef
from tscript.schedule.state import ScheduleState
from tscript.schedule.symbols import axes_using, outside_of
from tscript.schedule.update_order import depends_on_order

Touched = Mapping[Var, Sequence[tuple[int, Access]]]
"""The accesses to each piece of memory, by its pointer, with their places in the program."""


def memory_of(state: ScheduleState, sref: StmtSRef) -> Callable[[Buffer], Var]:
    """The pointer of the memory that a buffer lies in, seen through the views of the blocks around a statement."""
    sources: dict[Var, Var] = {}
    at: StmtSRef | None = sref
    while at is not None:
        if isinstance(at.stmt, Block):
            sources.update({m.buffer.data: m.source.buffer.data for m in at.stmt.match_buffers})
        at = at.parent

    return memory_through(sources)


def touched_by(state: ScheduleState, loop: StmtSRef) -> Touched:
    """What a loop touches, less what each of its iterations allocates anew."""
    touched = footprint(loop.loop)
    memory = memory_of(state, loop)
    found: dict[Var, list[tuple[int, Access]]] = {}
    for k, access in enumerate(touched.found):
        if access.buffer not in touched.own:
            found.setdefault(memory(access.buffer), []).append((k, access))
    own = {b.data: None for b in touched.own} | touched.fresh
    for pointer in touched.escaped:
        if pointer not in own:
            # What is done through it is not known: it stands for all of the memory.
            access = through_pointer(pointer, touched.found)
            found.setdefault(memory(access.buffer), []).append((len(touched.found), access))
    return {b: accesses for b, accesses in found.items() if any(a.is_write for _, a in accesses)}


def find_conflict(
    state: ScheduleState,
    loop: StmtSRef,
    *,
    at_once: bool,
    within: Touched | None = None,
    private: Callable[[Buffer], bool] | None = None,
) -> Conflict | None:
    """Two accesses that forbid other orders of the iterations of a loop, or (`at_once`) running them together.

    Left out are accesses that are kept apart; rewriting of the same values; accumulation, which its reduce axes declare
    to be free in its order; buffers that `private` says each iteration has for itself. `within` is what a loop further
    out in the same nest touches: the loops from there on are taken to be in different iterations too.
    """
    var = loop.loop.loop_var
    if any(is_const_int(r.loop.extent, 0) for r in state.loops_of(loop)):
        return None
    touched = within if within is not None else touched_by(state, loop)
    for accesses in touched.values():
        if private is not None and all(private(a.buffer) for _, a in accesses):
            continue
        for k, w in accesses:
            for j, x in accesses:
                if not w.is_write or (x.is_write and j < k) or (not at_once and _accumulates(w, x)):
                    continue
                if keeps_apart(var, w, x) or _is_harmless(state, loop, w, x, k < j, at_once):
                    continue
                return Conflict(w, x, _witness(state, loop, w, x))
    return None


def find_exchange_conflict(
    state: ScheduleState, chain: Sequence[StmtSRef], order: Sequence[StmtSRef]
) -> tuple[StmtSRef, StmtSRef, Conflict] | None:
    """Two accesses to the same element that would come in another order, or may, with the tightly nested loops `chain`
    in the order `order`; before them the loop that decides on their order now, and the one that would.

    What `find_conflict` leaves out is left out here.
    """
    if any(is_const_int(r.loop.extent, 0) for r in (*state.loops_of(chain[0]), *chain)):
        return None
    places = {r: k for k, r in enumerate(order)}
    for accesses in touched_by(state, chain[0]).values():
        for k, w in accesses:
            for j, x in accesses:
                if not w.is_write or (x.is_write and j < k) or _accumulates(w, x):
                    continue
                apart = [keeps_apart(r.loop.loop_var, w, x) for r in chain]
                near = [r for r, a in zip(chain, apart, strict=True) if not a]
                carriers = [r for r in near if not _is_harmless(state, r, w, x, k < j, False)]
                moved = next(((a, b) for a, b in pairwise(carriers) if places[a] > places[b]), None)
                if moved is None:
                    continue
                turned = sorted(carriers, key=places.__getitem__)
                old, new = ([r.loop.loop_var for r in loops] for loops in (carriers, turned))
                free = [r.loop.loop_var for r in near if r not in carriers]
                found = exchange(w, x, old, new, outside_of(state, chain[0]), free)
                if isinstance(found, Conflict):
                    return *moved, found
                if found is not None:
                    witness, first, second = found
                    by_var = {r.loop.loop_var: r for r in carriers}
                    return by_var[first], by_var[second], Conflict(w, x, witness)
    return None


def _accumulates(w: Access, x: Access) -> bool:
    """Whether both are the accumulation of one block into the same elements, free in its order by declaration, unless
    its form shows that it is not.
    """
    if w.block is None or w.block is not x.block:
        return False
    declared = any(axis.iter_type == IterVar.CommReduce for axis in w.block.iter_vars)
    if w.block.init is not None and shared_element(w.block):
        return False
    return declared and _same_region(w, x) and not depends_on_order(w.block, w.buffer)


def _is_harmless(state: ScheduleState, loop: StmtSRef, w: Access, x: Access, in_order: bool, at_once: bool) -> bool:
    """Whether it does not matter that `w` and `x` touch the same element in different iterations."""
    if w.block is None or x.block is None or w.buffer is not x.buffer:
        return False
    first, second = state.stmt2ref[w.block], state.stmt2ref[x.block]
    if first is not second:
        # Each iteration rewrites what it reads later, with the values that the others write.
        rewrites = is_complete_block(state, first, within=loop) or (
            not at_once and is_reduction_block(state, first, within=loop) and not _reduces_over(state, loop, first)
        )
        return rewrites and not x.is_write and in_order and region_cover(state, second)
    if is_complete_block(state, first, within=loop):
        # The same instance writes the same values; other instances are independent, as spatial axes declare. Where
        # subscripts come from memory, nobody can say that from the program.
        if _is_found_in_memory(w) or _is_found_in_memory(x):
            return False
        return _witness(state, loop, w, x, other_instance=True) is None
    if is_reduction_block(state, first, within=loop):
        if at_once:
            return bool(axes_using(state.realize_of(first), loop.loop.loop_var))
        return not depends_on_order(first.block, w.buffer)
    return False


def _is_found_in_memory(a: Access) -> bool:
    return any(reads_memory(r.min) or reads_memory(r.extent) for r in a.region)


def _reduces_over(state: ScheduleState, loop: StmtSRef, block: StmtSRef) -> bool:
    used = axes_using(state.realize_of(block), loop.loop.loop_var)
    return any(axis.iter_type == IterVar.CommReduce for axis in used)


def _same_region(a: Access, b: Access) -> bool:
    return all(x.min is y.min and x.extent is y.extent for x, y in zip(a.region, b.region, strict=True))


def _witness(
    state: ScheduleState, loop: StmtSRef, w: Access, x: Access, *, other_instance: bool = False
) -> Witness | None:
    return find_witness(loop.loop.loop_var, w, x, outside_of(state, loop), other_instance=other_instance)
