"""Chains of elementwise operations: one pass over memory, in parallel pieces of long vector loops."""

from __future__ import annotations

from dataclasses import dataclass

from tscript.ir.expr import PrimExpr, Var
from tscript.ir.function import PrimFunc
from tscript.ir.occurrences import mentions
from tscript.library.blocks import leaves
from tscript.library.choices import OWN, Choices, powers
from tscript.library.nests import PARALLEL_FROM, Nest, is_streamed, nests_of, vectorize_row
from tscript.library.operator import Operator
from tscript.schedule.schedule import Schedule
from tscript.target.target import Target


@dataclass(frozen=True)
class Chain:
    """The nests of a chain; whether all arrays are read in the order in which the last one is written."""

    nests: tuple[Nest, ...]
    is_flat: bool


def find_chain(func: PrimFunc) -> Chain | None:
    """The chain that a function is: nests without reductions, each of which reads the ones before where it writes."""
    nests = nests_of(func)
    if not nests or not nests[-1].kinds or any("R" in n.kinds for n in nests):
        return None
    last = nests[-1]
    outputs = {b.data for b in func.buffer_map.values()}
    own: set[object] = set()
    is_flat = None not in last.extents
    for n in nests:
        if n.buffer in own or n.extents != last.extents or (n is not last and n.buffer.data in outputs):
            return None
        for load in n.loads():
            here = load.indices == n.axes
            is_flat = is_flat and (not load.indices or (here and load.buffer.shape == n.buffer.shape))
            if (load.buffer in own and not here) or not _is_plain(load.indices, n.axes[-1]):
                return None
        own.add(n.buffer)
    return Chain(tuple(nests), is_flat) if last.extents[-1] is not None else None


def _is_plain(indices: tuple[PrimExpr, ...], axis: Var) -> bool:
    """Whether neighbours along an axis are neighbours in what is read, or read the same element."""
    last = len(indices) - 1
    return not any(mentions(i, {axis: None}) and not (n == last and i is axis) for n, i in enumerate(indices))


def schedule_chain(sch: Schedule, chain: Chain, target: Target, choices: Choices = OWN) -> None:
    """Inline all but the last nest, and run that in parallel pieces.

    >>> import tscript
    >>> from tscript.testing.workloads import add
    >>> func = add(1 << 20).func
    >>> sch = tscript.tir.Schedule(func)
    >>> schedule_chain(sch, find_chain(func), Target("llvm"))
    >>> [sch.get(loop).extent.value for loop in sch.get_loops("C")]
    [64, 16384]
    """
    *others, last = leaves(sch)
    for block in others:
        sch.compute_inline(block)
    nest = chain.nests[-1]
    loops = sch.get_loops(last)
    if chain.is_flat:
        whole = sch.fuse(*loops) if len(loops) > 1 else loops[0]
        outer, inner = sch.split(whole, [None, _piece(sch, nest, choices)])
    elif len(loops) > 1:
        inner = loops[-1]
        outer = sch.fuse(*loops[:-1]) if len(loops) > 2 else loops[0]
    else:
        outer, inner = sch.split(loops[0], [None, _piece(sch, nest, choices)])
    if choices.form((True, False), nest.steps > PARALLEL_FROM):
        sch.parallel(outer)
    vectorize_row(sch, inner, choices.form((True, False), is_streamed(nest)))


def _piece(sch: Schedule, nest: Nest, choices: Choices) -> int | PrimExpr:
    own = min(PARALLEL_FROM, nest.steps)
    return choices.number(sch, [n for n in powers(1024, 1 << 17) if nest.steps % n == 0], own)


ELEMENTWISE = Operator("elementwise", find_chain, schedule_chain)

__all__ = ["ELEMENTWISE", "Chain", "find_chain", "schedule_chain"]
