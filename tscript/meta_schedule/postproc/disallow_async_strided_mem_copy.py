"""Asynchronous copies of pieces that do not lie side by side are of no use to simple copying hardware."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tscript.ir.expr import BufferLoad, IntImm, PrimExpr, Var
from tscript.ir.functor import substitute
from tscript.ir.linear import linear_form
from tscript.ir.stmt import BufferStore, For
from tscript.meta_schedule.loop_kinds import extent_of
from tscript.meta_schedule.postproc.postproc import Postproc
from tscript.schedule.schedule import Schedule
from tscript.schedule.sref import StmtSRef

_STAGES, _ASYNC = "software_pipeline_stage", "software_pipeline_async_stages"


class DisallowAsyncStridedMemCopy(Postproc):
    """Rejects a schedule with a pipelined loop that copies, in an asynchronous stage, elements that are not one run of
    neighbours both where they come from and where they go.

    >>> import tscript
    >>> from tscript.testing.workloads import matmul
    >>> sch = tscript.tir.Schedule(matmul(8, 8, 8).func)
    >>> i, j, k = sch.get_loops("C")
    >>> copy = sch.cache_read("C", 0, "global.vtcm")
    >>> sch.compute_at(copy, i)
    >>> sch.annotate(i, "software_pipeline_stage", [0, 1])
    >>> sch.annotate(i, "software_pipeline_order", [0, 1])
    >>> sch.annotate(i, "software_pipeline_async_stages", [0])
    >>> DisallowAsyncStridedMemCopy().apply(sch)  # rows
    True
    """

    def apply(self, sch: Schedule) -> bool:
        """Whether all asynchronous copies are of neighbours."""
        for var in sch.mod.functions:
            root = sch.state.root_block(var)
            for block in () if root is None else sch.state.blocks_below(root):
                inside = _loops_of_async_copy(sch, block)
                if inside is not None and not _is_one_run(sch, block, inside):
                    return False
        return True


def _numbers(loop: For, key: str) -> list[int] | None:
    given: Any = loop.annotations.get(key)
    return None if given is None else [int(getattr(x, "value", x)) for x in given]


def _loops_of_async_copy(sch: Schedule, block: StmtSRef) -> list[For] | None:
    """The loops of one asynchronous copy, inside of the pipelined loop; None for a block that is none."""
    loops = sch.state.loops_of(block)
    for k, loop in enumerate(loops):
        stages, asynchronous = _numbers(loop.loop, _STAGES), _numbers(loop.loop, _ASYNC)
        if not stages or not asynchronous:
            continue
        below = sch.state.child_blocks(loop)
        tops: list[StmtSRef] = []
        for b in below:
            top = b
            while top.parent is not None and top.parent is not loop:
                top = top.parent
            if top not in tops:
                tops.append(top)
        own = next((n for n, top in enumerate(tops) if top is block or sch.state.is_ancestor(top, block)), None)
        if own is not None and own < len(stages) and stages[own] in asynchronous:
            return [x.loop for x in loops[k + 1 :]]
    return None


def _is_one_run(sch: Schedule, block: StmtSRef, loops: Sequence[For]) -> bool:
    realize = sch.state.realize_of(block)
    body = realize.block.body
    if not (isinstance(body, BufferStore) and isinstance(body.value, BufferLoad)):
        return True  # computes, and copies nothing
    bindings = {v.var: x for v, x in zip(realize.block.iter_vars, realize.iter_values, strict=True)}
    ends: list[BufferStore | BufferLoad] = [body, body.value]
    return all(_runs(_strides(end, bindings), loops) for end in ends)


def _strides(access: BufferStore | BufferLoad, bindings: Mapping[Var, PrimExpr]) -> dict[Var, int] | None:
    """Elements between iterations of each loop; None where they are not even."""
    found: dict[Var, int] = {}
    row = 1
    for index, size in zip(reversed(access.indices), reversed(access.buffer.shape), strict=True):
        terms, _ = linear_form(substitute(index, bindings))
        for term, factor in terms.items():
            if not isinstance(term, Var) or row < 0:
                return None
            found[term] = found.get(term, 0) + factor * row
        row = row * size.value if isinstance(size, IntImm) and row > 0 else -1
    return found


def _runs(strides: dict[Var, int] | None, loops: Sequence[For]) -> bool:
    expected = 1
    for loop in reversed(loops):
        extent = extent_of(loop)
        if strides is None or extent is None:
            return False
        if extent == 1:
            continue
        if strides.get(loop.loop_var, 0) != expected:
            return False
        expected *= extent
    return True
