"""What a store computes, and in which loops: the first group of features."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tscript.ir import expr as ex
from tscript.ir.expr import BufferLoad, PrimExpr
from tscript.ir.functor import children
from tscript.ir.occurrences import any_below
from tscript.ir.stmt import ForKind
from tscript.meta_schedule.feature_extractor.index_form import Form, Loop
from tscript.meta_schedule.feature_extractor.stores import Store

_ARITH: dict[type[PrimExpr], int] = {
    ex.Add: 1, ex.Sub: 1, ex.Mul: 2, ex.Div: 3, ex.Mod: 3, ex.FloorDiv: 3, ex.FloorMod: 3, ex.Min: 4, ex.Max: 4,
    ex.EQ: 4, ex.NE: 4, ex.LT: 4, ex.LE: 4, ex.GT: 4, ex.GE: 4,
}  # fmt: skip
_INTEGER = 7
_LOGIC, _SELECT = 14, 15
THREADS = ("blockIdx.x", "blockIdx.y", "blockIdx.z", "threadIdx.x", "threadIdx.y", "threadIdx.z", "vthread")


def scaled(x: float) -> float:
    """A magnitude on a logarithmic scale on which 0 stays 0."""
    return math.log2(abs(x) + 1)


def product(loops: Sequence[Loop]) -> int:
    """Iterations of loops in each other."""
    return math.prod(v.times for v in loops)


def operations(store: Store) -> list[int]:
    """How many operations of each of 16 kinds one execution of a store takes; those of its own subscripts are none."""
    counts = [0] * 16
    for access in store.accesses[1:]:
        for form in access.forms:
            _count_form(form, counts)
    if store.value is None:  # instructions that multiply and add up, as all known ones do
        offset = 0 if store.accesses[0].memory.buffer.dtype.is_float else _INTEGER
        counts[offset + _ARITH[ex.Add]] = counts[offset + _ARITH[ex.Mul]] = store.instruction_flops // 2
    stack: list[object] = [store.value]
    while stack:
        e = stack.pop()
        if not isinstance(e, PrimExpr) or isinstance(e, BufferLoad):
            continue
        if isinstance(e, ex.Select) and not any_below(e, lambda n: isinstance(n, BufferLoad)):
            continue
        if isinstance(e, (ex.And, ex.Or, ex.Not)):
            counts[_LOGIC] += 1
        elif isinstance(e, ex.Select):
            counts[_SELECT] += 1
        elif isinstance(e, ex.Call):
            pure = isinstance(e.op, ex.Op) and e.op.effect in ("pure", "annotation")
            counts[(5 if pure else 6) + (0 if e.dtype.is_float else _INTEGER)] += 1
        elif (kind := _ARITH.get(type(e))) is not None and isinstance(e, ex.BinaryExpr):
            counts[kind + (0 if e.a.dtype.is_float else _INTEGER)] += 1
        stack += reversed(children(e))
    return counts


def _count_form(form: Form, counts: list[int]) -> None:
    adds, muls, divs, compares = form.operations()
    for offset, n in enumerate((adds, muls, divs, compares), start=1):
        counts[_INTEGER + offset] += n


def computation(store: Store, is_gpu: bool) -> tuple[list[float], float]:
    """The 57 features, and how many float operations the store executes in all."""
    times = product(store.loops)
    counts = [n * times for n in operations(store)]
    row = [scaled(n) for n in counts]
    for kind in (ForKind.VECTORIZED, ForKind.UNROLLED, ForKind.PARALLEL):
        row += _loops_of_kind([v for v in store.loops if v.kind == kind])
    row.append(1.0 if is_gpu else 0.0)
    row += [scaled(next((v.times for v in store.loops if v.thread.startswith(tag)), 1)) for tag in THREADS]
    return row, sum(counts[:7])


def _loops_of_kind(loops: list[Loop]) -> list[float]:
    if not loops:
        return [0.0, 0.0, 0.0, 1.0, *[0.0] * 7]
    return [scaled(len(loops)), scaled(product(loops)), scaled(loops[-1].times), *[0.0] * 7, 1.0]
