"""Schedules that a GPU could not run are rejected before they are built."""

from __future__ import annotations

from math import prod
from typing import Any

from tscript.ir.expr import IntImm
from tscript.ir.functor import substitute
from tscript.ir.occurrences import variables
from tscript.ir.stmt import ForKind
from tscript.meta_schedule.loop_kinds import extent_of
from tscript.meta_schedule.postproc.postproc import Postproc
from tscript.meta_schedule.postproc.scope_bytes import allocations
from tscript.meta_schedule.thread_binding import loops_above, required_attr, thread_tag
from tscript.meta_schedule.tune_context import TuneContext
from tscript.schedule.schedule import Schedule
from tscript.schedule.sref import StmtSRef
from tscript.schedule.state import ScheduleState

_MOST_VTHREADS = 8
_MOST_VECTOR_BYTES = 16
_SHARED = ("shared", "shared.dyn")


class VerifyGPUCode(Postproc):
    """Rejects a schedule with more threads per block, more shared memory, more virtual threads or wider vectors than
    the target has, or with loops of one kernel that are bound to the same threads but are not equally long.

    The limits are the target's `max_threads_per_block` and `max_shared_memory_per_block`, 8 virtual threads, and 16
    bytes for a vector. A block that says how many threads it wants (`meta_schedule.thread_extent_low_inclusive` and
    `..._high_inclusive`) is held to that. What is checked is the scheduled program; nothing is lowered.

    >>> import tscript
    >>> from tscript.testing.workloads import add
    >>> check = VerifyGPUCode()
    >>> check.initialize_with_tune_context(TuneContext(target="nvidia/geforce-rtx-3070"))
    >>> sch = tscript.tir.Schedule(add(4096).func)
    >>> sch.bind(sch.get_loops("C")[0], "threadIdx.x")
    >>> check.apply(sch)
    False
    """

    def __init__(self) -> None:
        self._max_threads = self._max_shared = 0
        self._warp_size = 0

    def _initialize_with_tune_context(self, context: TuneContext) -> None:
        self._max_threads = required_attr(context, "max_threads_per_block", "VerifyGPUCode")
        self._max_shared = required_attr(context, "max_shared_memory_per_block", "VerifyGPUCode")
        size = None if context.target is None else context.target.get_attr("thread_warp_size")
        self._warp_size = 0 if size is None else int(size)

    def apply(self, sch: Schedule) -> bool:
        """Whether a GPU like the target can run the schedule."""
        for var in sch.mod.functions:
            root = sch.state.root_block(var)
            if root is None:
                continue
            kernels: dict[StmtSRef, list[StmtSRef]] = {}
            for block in sch.state.blocks_below(root):
                kernels.setdefault(_statement_of(block, root), []).append(block)
            if not all(self._fits(sch.state, blocks) for blocks in kernels.values()):
                return False
            if not self._fits_memory(sch.state, root):
                return False
        return True

    def _fits(self, state: ScheduleState, blocks: list[StmtSRef]) -> bool:
        """Whether the threads of one kernel are as many as there may be, and its vectors as wide."""
        lengths: dict[str, int] = {}
        for block in blocks:
            around: dict[str, int] = {}
            for loop in loops_above(state, block):
                tag = thread_tag(loop)
                extent = extent_of(loop.loop)
                if not tag:
                    continue
                if extent is None and not tag.startswith("blockIdx."):
                    return False
                if extent is not None:
                    around[tag] = extent
                    # Virtual threads are unrolled, so each loop may have its own.
                    if not tag.startswith("vthread") and lengths.setdefault(tag, extent) != extent:
                        return False
            if "warp_execution" in block.block.annotations and self._warp_size:
                around["threadIdx.x"] = self._warp_size
                if lengths.setdefault("threadIdx.x", self._warp_size) != self._warp_size:
                    return False
            virtual = prod(n for tag, n in around.items() if tag.startswith("vthread"))
            threads = prod(n for tag, n in around.items() if tag.startswith("threadIdx."))
            low, high = (_annotated(block, f"meta_schedule.thread_extent_{w}_inclusive") for w in ("low", "high"))
            if (low is not None and threads < low) or (high is not None and threads > high):
                return False
            if virtual > _MOST_VTHREADS or not _fits_vectors(state, block):
                return False
        return prod(n for tag, n in lengths.items() if tag.startswith("threadIdx.")) <= self._max_threads

    def _fits_memory(self, state: ScheduleState, root: StmtSRef) -> bool:
        """Whether the shared memory of each kernel is there."""
        used: dict[StmtSRef, int] = {}
        for buffer, size in allocations(state, root, _SHARED):
            if size is None:
                return False
            users = [
                b
                for b in state.blocks_below(root)
                if any(r.buffer is buffer for r in (*b.block.reads, *b.block.writes))
            ]
            for kernel in {_statement_of(b, root) for b in users}:
                used[kernel] = used.get(kernel, 0) + size
        return all(n <= self._max_shared for n in used.values())


def _statement_of(block: StmtSRef, root: StmtSRef) -> StmtSRef:
    """The statement right below the root that holds a block: a kernel."""
    at = block
    while at.parent is not None and at.parent is not root:
        at = at.parent
    return at


def _annotated(block: StmtSRef, key: str) -> int | None:
    value: Any = block.block.annotations.get(key)
    return None if value is None else int(value.value if isinstance(value, IntImm) else value)


def _fits_vectors(state: ScheduleState, block: StmtSRef) -> bool:
    realize = state.realize_of(block)
    bindings = {v.var: x for v, x in zip(realize.block.iter_vars, realize.iter_values, strict=True)}
    for loop in state.loops_of(block):
        if loop.loop.kind != ForKind.VECTORIZED:
            continue
        lanes = extent_of(loop.loop)
        for region in (*realize.block.reads, *realize.block.writes):
            moved = variables(*(substitute(r.min, bindings) for r in region.region))
            if loop.loop.loop_var in moved:
                size = region.buffer.dtype.bits * region.buffer.dtype.lanes
                if lanes is None or lanes * size > 8 * _MOST_VECTOR_BYTES:
                    return False
    return True
