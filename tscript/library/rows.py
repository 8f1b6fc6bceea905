"""Softmax, layer norm, RMS norm and their kin: each row of the output is made of reductions over rows of the inputs.

All that a row needs is computed while the row is in the nearest cache, so memory is read and written once. Reductions
run as partial results, one in each lane of a few vectors, which are combined at the end of a row.
"""

from __future__ import annotations

from dataclasses import dataclass

from tscript.ir import expr as ex
from tscript.ir.function import PrimFunc
from tscript.library.blocks import leaves
from tscript.library.choices import OWN, Choices
from tscript.library.nests import (
    PARALLEL_FROM,
    Nest,
    calls_of,
    floor_power,
    is_streamed,
    nests_of,
    partial_results,
    row_loop,
    vectorize_partial,
    vectorize_row,
)
from tscript.library.operator import Operator
from tscript.schedule.rv import BlockRV
from tscript.schedule.schedule import Schedule
from tscript.target.target import Target
from tscript.target.vector_registers import VectorRegisters

_DEAR = frozenset(f"tir.{n}" for n in "exp exp2 exp10 log log2 log10 tanh sigmoid erf pow sin cos tan".split())
"""What is kept in memory rather than computed twice."""


@dataclass(frozen=True)
class Rows:
    """The nests of a function whose last one makes rows, and how many axes count these."""

    nests: tuple[Nest, ...]
    rank: int


def find_rows(func: PrimFunc) -> Rows | None:
    """The rows of a function; None if it has no reductions along rows, or rows depend on other rows."""
    nests = nests_of(func)
    if nests is None or len(nests) < 2:
        return None
    last = nests[-1]
    rank = len(last.kinds) - 1
    length = last.extents[-1] if rank > 0 else None
    if length is None or "R" in last.kinds or length < 8:
        return None
    own = {n.buffer: n for n in nests}
    outputs = {b.data for b in func.buffer_map.values()}
    if len(own) != len(nests) or any(n.buffer.data in outputs for n in nests[:-1]):
        return None
    done: set[object] = set()
    for n in nests:
        whole = n.kinds in ("S" * rank, "S" * rank + "S", "S" * rank + "R")
        if not whole or n.extents[:rank] != last.extents[:rank] or n.extents[rank:] not in ((), (length,)):
            return None
        for load in n.loads():
            if load.buffer in own and (load.buffer not in done or load.indices[:rank] != n.axes[:rank]):
                return None
        done.add(n.buffer)
    return Rows(tuple(nests), rank) if any(n.op is not None for n in nests) else None


def schedule_rows(sch: Schedule, rows: Rows, target: Target, choices: Choices = OWN) -> None:
    """Compute row by row, the rows in parallel.

    >>> import tscript
    >>> from tscript.testing.workloads import softmax
    >>> func = softmax(512, 4096).func
    >>> sch = tscript.tir.Schedule(func)
    >>> schedule_rows(sch, find_rows(func), Target("llvm -mcpu=skylake-avx512 -num-cores=2"))
    >>> [tscript.tir.ForKind.NAMES[sch.get(loop).kind] for loop in sch.get_loops("T_softmax")]
    ['parallel', 'vectorized']
    """
    length = rows.nests[-1].extents[-1] or 1
    blocks = leaves(sch)
    register = VectorRegisters.of(target).lanes(max(n.buffer.dtype.bits for n in rows.nests))
    longest = floor_power(length)
    lanes = choices.form([n * register for n in (1, 2, 4, 8) if n * register <= longest], min(4 * register, longest))
    partials: list[BlockRV] = []
    totals: list[BlockRV] = []
    kept: list[BlockRV] = []
    plain: list[BlockRV] = []
    for block, nest in zip(blocks[:-1], rows.nests[:-1], strict=True):
        if nest.op is not None:
            partials += partial_results(sch, block, lanes, min(register, lanes))
            totals.append(block)
            kept += [*partials[-1 - (lanes > register) :], block]
        elif nest.op is None and not calls_of(nest.value) & _DEAR:
            sch.compute_inline(block)
        else:
            kept.append(block)
            if len(nest.kinds) > rows.rank and nest.op is None:
                plain.append(block)
    out = blocks[-1]
    row = sch.merge(*[row_loop(sch, block, rows.rank) for block in (*kept, out)])
    for partial in partials:
        vectorize_partial(sch, partial, 1)
    for block in totals:
        sch.set_scope(block, 0, "local")
    streamed = choices.form((True, False), is_streamed(rows.nests[-1]))
    for block in (*plain, out):
        loop = sch.get_loops(block)[-1]
        if streamed:
            # While this row is worked on in the caches, memory gets the next one.
            sch.annotate(loop, "pragma_prefetch_ahead", length)
        vectorize_row(sch, loop, streamed and block is out)
    if choices.form((True, False), rows.nests[-1].steps >= PARALLEL_FROM):
        sch.parallel(row)


def _softmax(func: PrimFunc) -> Rows | None:
    rows = find_rows(func)
    return rows if rows is not None and [n.op for n in rows.nests if n.op] == [ex.Max, ex.Add] else None


def _norm(sums: int) -> object:
    def find(func: PrimFunc) -> Rows | None:
        rows = find_rows(func)
        if rows is None or [n.op for n in rows.nests if n.op] != [ex.Add] * sums:
            return None
        called = {c for n in rows.nests for c in calls_of(n.value)}
        return rows if called & {"tir.sqrt", "tir.rsqrt"} and not called & _DEAR else None

    return find


def _operator(name: str, find: object) -> Operator:
    assert callable(find)
    return Operator(name, find, schedule_rows)


SOFTMAX = _operator("softmax", _softmax)
LAYER_NORM = _operator("layer_norm", _norm(2))
RMS_NORM = _operator("rms_norm", _norm(1))
ROWS = _operator("rows", find_rows)

__all__ = ["LAYER_NORM", "RMS_NORM", "ROWS", "SOFTMAX", "Rows", "find_rows", "schedule_rows"]
