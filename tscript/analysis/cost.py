"""What a program costs before it runs: an estimate from its loops, for comparing steps of a schedule.

Counts of operations, accesses, iterations and guards are exact wherever loops and guards are affine; `exact` says
whether they are. Traffic is a model (see `footprint`): one core, caches that keep what was used last, lines that begin
where rows do.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from tscript.analysis.counting import Count, Loop, plus, times
from tscript.analysis.footprint import Footprints
from tscript.analysis.work import Access, Statement, Work, size_of
from tscript.arith.simplify import simplify
from tscript.ir.buffer import Buffer
from tscript.ir.construct import const
from tscript.ir.expr import IntImm, PrimExpr, Var
from tscript.ir.function import IRModule, PrimFunc
from tscript.ir.functor import substitute
from tscript.ir.occurrences import variables
from tscript.ir.stmt import ForKind
from tscript.target.target import Target

Number = int | PrimExpr
"""A number, or an expression in the sizes that are not known."""


@dataclass(frozen=True)
class Cache:
    """A cache: its name, bytes, and bytes of a line."""

    name: str
    capacity: int
    line: int = 64


CPU_CACHES: Final = (Cache("L1", 32 << 10), Cache("L2", 1 << 20), Cache("L3", 32 << 20))
GPU_CACHES: Final = (Cache("L2", 4 << 20, 128),)


@dataclass(frozen=True)
class BufferCost:
    """A buffer: where it lives, how many bytes of it are touched, how many are loaded and stored in all.

    `traffic`: how many come through each cache, by its name.
    """

    name: str
    scope: str
    touched: Number
    loaded: Number
    stored: Number
    traffic: Mapping[str, int]


@dataclass(frozen=True)
class LoopCost:
    """A loop: how often its body runs in all, and what bytes one iteration, and all of one run of the loop, touch."""

    name: str
    kind: str
    depth: int
    trips: Number
    runs: Number
    body_bytes: int | None
    loop_bytes: int | None


@dataclass(frozen=True)
class Cost:
    """The estimate for a program, from `estimate_cost`.

    `flops`: arithmetic on stored values; `math_calls`: calls such as exp, which it leaves out; `opaque_calls`: calls
    that nothing is known of. `iterations`: of serial and parallel loops; vectorized, unrolled and thread loops are no
    control flow. `guards`: conditions evaluated. `parallelism` and `lanes`: how many threads, and elements of a
    vector, the statement with most of the work has. `traffic`: bytes through each cache; None with sizes unknown.
    `scopes`: bytes loaded and stored in each memory scope.
    """

    flops: Number
    math_calls: Number
    opaque_calls: Number
    iterations: Number
    guards: Number
    parallelism: Number
    lanes: Number
    buffers: tuple[BufferCost, ...]
    loops: tuple[LoopCost, ...]
    caches: tuple[Cache, ...]
    scopes: Mapping[str, Number]
    exact: bool

    @property
    def traffic(self) -> dict[str, int] | None:
        """Bytes through each cache, from and to what is behind it; None where sizes are not known."""
        if any(not b.traffic for b in self.buffers):
            return None
        return {c.name: sum(b.traffic[c.name] for b in self.buffers) for c in self.caches}

    @property
    def intensity(self) -> float | None:
        """FLOPs for each byte that comes through the last cache; None where sizes are not known or nothing comes."""
        moved = self.traffic
        if moved is None or not self.caches or not isinstance(self.flops, int):
            return None
        last = moved[self.caches[-1].name]
        return self.flops / last if last else None


def caches_of(target: Target | str | None, is_gpu: bool) -> tuple[Cache, ...]:
    """The caches to model: those of CPUs in general, or of a GPU, with the size of L2 that the target gives."""
    if isinstance(target, str):
        target = Target(target)
    if not is_gpu:
        return CPU_CACHES
    size = target.attrs.get("l2_cache_size_bytes") if target is not None else None
    size = size.value if isinstance(size, IntImm) else size
    return (Cache("L2", size, 128),) if isinstance(size, int) and size > 0 else GPU_CACHES


def estimate_cost(
    program: PrimFunc | IRModule,
    target: Target | str | None = None,
    values: Mapping[Var | str, int] | None = None,
    caches: tuple[Cache, ...] | None = None,
) -> Cost:
    """What a function costs, or the functions of a module together, each called once.

    `values` gives numbers for sizes, by variable or name. With sizes left open, counts are expressions in them, and
    there is no traffic. `caches` replaces those of `target`, smallest first. Raises TypeError for what is no program,
    ValueError for a name in `values` that is no size of it.

    >>> from tscript.testing.workloads import matmul
    >>> cost = estimate_cost(matmul(64, 64, 64).func)
    >>> cost.flops, cost.parallelism, cost.lanes, cost.traffic["L1"]
    (524288, 1, 1, 65536)
    """
    return CostEstimator(target, values, caches).cost(program)


class CostEstimator:
    """`estimate_cost` for many programs: functions that they share are looked at once."""

    def __init__(
        self,
        target: Target | str | None = None,
        values: Mapping[Var | str, int] | None = None,
        caches: tuple[Cache, ...] | None = None,
    ) -> None:
        self.target = target
        self.values = dict(values or {})
        self.caches = caches
        self._works: dict[PrimFunc, Work] = {}
        self._costs: dict[tuple[PrimFunc, tuple[Cache, ...], bool], Cost] = {}

    def cost(self, program: PrimFunc | IRModule) -> Cost:
        """The estimate for a program; raises as `estimate_cost` does."""
        functions = _functions(program)
        sizes: dict[str, None] = {v.name: None for f in functions for v in _sizes(f)}
        for key in self.values:
            name = key if isinstance(key, str) else key.name
            if name not in sizes:
                raise ValueError(f"{name!r} is no size of the program; its sizes are {', '.join(sizes) or 'all known'}")
        works = [self._work(f) for f in functions]
        is_gpu = any(loop.thread for w in works for s in w.statements for loop in s.path)
        chosen = self.caches if self.caches is not None else caches_of(self.target, is_gpu)
        return _joined([self._cost(f, w, chosen, is_gpu) for f, w in zip(functions, works, strict=True)], chosen)

    def _work(self, func: PrimFunc) -> Work:
        found = self._works.get(func)
        if found is None:
            found = self._works[func] = _work(func, self.values)
        return found

    def _cost(self, func: PrimFunc, work: Work, caches: tuple[Cache, ...], is_gpu: bool) -> Cost:
        found = self._costs.get((func, caches, is_gpu))
        if found is None:
            found = self._costs[func, caches, is_gpu] = _cost(work, caches, is_gpu)
        return found


def _functions(program: PrimFunc | IRModule) -> list[PrimFunc]:
    if isinstance(program, PrimFunc):
        return [program]
    if isinstance(program, IRModule):  # pyright: ignore[reportUnnecessaryIsInstance]
        return [f for f in program.functions.values() if isinstance(f, PrimFunc)]  # pyright: ignore[reportUnnecessaryIsInstance]
    raise TypeError(f"costs are estimated for a function or a module, not for {program!r}")


def _sizes(func: PrimFunc) -> list[Var]:
    shapes = [e for b in func.buffer_map.values() for e in (*b.shape, *b.strides, b.elem_offset)]
    scalars = [p for p in func.params if p not in func.buffer_map and p.dtype.is_integer]
    return list(variables(*shapes, *scalars))


def _work(func: PrimFunc, values: Mapping[Var | str, int]) -> Work:
    known: dict[Var, PrimExpr] = {}
    for v in _sizes(func):
        number = values.get(v, values.get(v.name))
        if number is not None:
            known[v] = const(number, v.dtype)
    work = Work(known)
    work.stmt(func.body)
    return work


def _number(count: Count) -> Number:
    if isinstance(count, PrimExpr):
        found = simplify(count)
        return found.value if isinstance(found, IntImm) else found
    return math.ceil(count) if count == int(count) else round(count)


def _cost(work: Work, caches: tuple[Cache, ...], is_gpu: bool) -> Cost:
    totals: dict[str, Count] = {"flops": 0, "math": 0, "opaque": 0}
    for s in work.statements:
        for name in totals:
            each: int = getattr(s.each, name)
            if each:
                totals[name] = plus(totals[name], times(s.count, each))
    hot = max(work.statements, key=_weight, default=None)
    parallel, lanes = _width(hot)
    prints = None if _is_open(work) else Footprints(work)
    buffers = _buffers(work, prints, caches, is_gpu)
    scopes: dict[str, Count] = {}
    for b in buffers:
        scopes[b.scope] = plus(scopes.get(b.scope, 0), plus(b.loaded, b.stored))
    return Cost(
        _number(totals["flops"]), _number(totals["math"]), _number(totals["opaque"]), _number(work.iterations),
        _number(work.guards), parallel, lanes, buffers, _loops(work, prints), caches,
        {k: _number(v) for k, v in scopes.items()}, work.exact,
    )  # fmt: skip


def _is_open(work: Work) -> bool:
    """Whether some size is not known: there are no footprints then."""
    return any(isinstance(loop.trips, PrimExpr) for _, path, _ in work.nests for loop in path) or any(
        not isinstance(simplify(substitute(e, work.known_sizes)), IntImm)
        for a in work.accesses
        for e in (*a.buffer.shape, *(n for _, n in a.box))
    )


def _weight(s: Statement) -> tuple[float, float]:
    return _guess(times(s.count, s.each.flops + s.each.math + s.each.opaque)), _guess(s.count)


def _guess(count: Count) -> float:
    """The number, with 64 for each size that is not known."""
    if not isinstance(count, PrimExpr):
        return float(count)
    found = simplify(substitute(count, {v: const(64, v.dtype) for v in variables(count)}))
    return float(found.value) if isinstance(found, IntImm) else 0.0


def _width(hot: Statement | None) -> tuple[Number, Number]:
    """In how many threads, and vector lanes, a statement runs."""
    if hot is None:
        return 1, 1
    threads: dict[str, Count] = {}
    parallel: Count = 1
    lanes: Count = hot.lanes
    for loop in hot.path:
        if loop.thread and not loop.thread.startswith(("vthread", "cthread")):
            threads[loop.thread] = loop.trips
        elif loop.kind == ForKind.PARALLEL:
            parallel = times(parallel, loop.trips)
        elif loop.kind == ForKind.VECTORIZED:
            lanes = times(lanes, loop.trips)
    for trips in threads.values():
        parallel = times(parallel, trips)
    return _number(parallel), _number(lanes)


def _buffers(work: Work, prints: Footprints | None, caches: tuple[Cache, ...], is_gpu: bool) -> tuple[BufferCost, ...]:
    places: dict[Buffer, list[Access]] = {}
    for a in work.accesses:
        places.setdefault(a.buffer, []).append(a)
    touched = {} if prints is None else prints.touched(work.root, 0)
    moved = {} if prints is None else {c.name: prints.traffic(c.capacity, c.line) for c in caches}
    found: list[BufferCost] = []
    for buffer, accesses in places.items():
        scope = buffer.scope() or "global"
        # A GPU keeps what is not global beside its caches.
        beside = is_gpu and scope != "global"
        traffic = {name: 0 if beside else _rounded(t.get(buffer, 0)) for name, t in moved.items()}
        size = _shape_bytes(buffer, work) if prints is None else touched[buffer]
        loaded, stored = _moved(accesses, False), _moved(accesses, True)
        found.append(BufferCost(buffer.name, scope, size, loaded, stored, traffic))
    return tuple(found)


def _rounded(count: int | Fraction) -> int:
    return round(count)


def _moved(accesses: list[Access], is_write: bool) -> Number:
    total: Count = 0
    for a in accesses:
        if a.is_write is is_write:
            total = plus(total, times(a.count, a.nbytes))
    return _number(total)


def _shape_bytes(buffer: Buffer, work: Work) -> Number:
    total: Count = size_of(buffer.dtype)
    for e in buffer.shape:
        total = times(total, substitute(e, work.known_sizes))
    return _number(total)


_KINDS: Final = ("serial", "parallel", "vectorized", "unrolled", "thread")


def _loops(work: Work, prints: Footprints | None) -> tuple[LoopCost, ...]:
    found: list[LoopCost] = []
    for nest, path, count in work.nests:
        loop: Loop = path[-1]
        body = whole = None
        if prints is not None:
            body = sum(prints.touched(nest, len(path)).values())
            whole = sum(prints.touched(nest, len(path) - 1).values())
        kind = loop.thread or _KINDS[loop.kind]
        found.append(LoopCost(loop.var.name, kind, len(path) - 1, _number(loop.trips), _number(count), body, whole))
    return tuple(found)


def _joined(costs: list[Cost], caches: tuple[Cache, ...]) -> Cost:
    """Several functions, each called once: sums, and the width of the one with most of the work."""
    if len(costs) == 1:
        return costs[0]
    heavy = max(range(len(costs)), key=lambda k: _guess(costs[k].flops), default=None)
    scopes: dict[str, Count] = {}
    for c in costs:
        for name, n in c.scopes.items():
            scopes[name] = plus(scopes.get(name, 0), n)

    def total(name: str) -> Number:
        sum_: Count = 0
        for c in costs:
            sum_ = plus(sum_, getattr(c, name))
        return _number(sum_)

    return Cost(
        total("flops"), total("math_calls"), total("opaque_calls"), total("iterations"), total("guards"),
        1 if heavy is None else costs[heavy].parallelism, 1 if heavy is None else costs[heavy].lanes,
        tuple(b for c in costs for b in c.buffers), tuple(p for c in costs for p in c.loops), caches,
        {k: _number(v) for k, v in scopes.items()}, all(c.exact for c in costs),
    )  # fmt: skip


__all__ = [
    "BufferCost", "CPU_CACHES", "Cache", "Cost", "CostEstimator", "GPU_CACHES", "LoopCost", "caches_of",
    "estimate_cost",
]  # fmt: skip
