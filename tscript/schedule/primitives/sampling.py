"""Random choices, recorded as decisions, so that a trace can be replayed with the same or other ones."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from tscript.ir.expr import IntImm
from tscript.schedule.core import ScheduleCore
from tscript.schedule.instruction import InstructionKind, Outputs, attr, loop
from tscript.schedule.loop_checks import require_loop
from tscript.schedule.primitive import primitive
from tscript.schedule.rng import LinearCongruential
from tscript.schedule.rv import ExprRV, LoopRV


def _kind(name: str, method: str, args: tuple[Any, ...], outputs: Outputs) -> InstructionKind:
    return InstructionKind(name, method, args, outputs, is_pure=True, has_decision=True)


@primitive(_kind("SampleCategorical", "sample_categorical", (attr("candidates"), attr("probs")), Outputs.ONE))
def sample_categorical(
    s: ScheduleCore, candidates: Sequence[int], probs: Sequence[float], decision: int | None = None
) -> ExprRV:
    """One of `candidates`, each as often as its entry of `probs` says; a handle of it.

    `decision` is the position of the one to take. Raises ValueError for lists of different lengths, weights that are
    negative or all 0, and a decision that is no position.

    >>> import tscript
    >>> from tscript.script import tir as T
    >>> @T.prim_func
    ... def nothing():
    ...     T.evaluate(0)
    >>> sch = tscript.tir.Schedule(nothing, seed=1)
    >>> v = sch.sample_categorical([4, 8, 16], [0.2, 0.3, 0.5], decision=1)
    >>> sch.get(v), sch.get(v * 2)
    (8, 16)
    """
    choices, weights = [s.integer(c) for c in candidates], [float(p) for p in probs]
    if not choices or len(choices) != len(weights):
        raise ValueError(
            f"as many probabilities as candidates are needed, but there are {len(weights)} and {len(choices)}"
        )
    if any(not w >= 0 for w in weights) or not sum(weights) > 0:
        raise ValueError(f"probabilities are not negative, and not all 0, unlike {weights}")
    chosen = s.rng.choice(weights) if decision is None else s.integer(decision)
    if not 0 <= chosen < len(choices):
        raise ValueError(f"the decision is a position from 0 to {len(choices) - 1}, not {chosen}")
    s.record_as(candidates=choices, probs=weights)
    s.decide(chosen)
    return s.new_integer(choices[chosen])


@primitive(
    _kind("SamplePerfectTile", "sample_perfect_tile", (loop(), attr("n"), attr("max_innermost_factor")), Outputs.LIST)
)
def sample_perfect_tile(
    s: ScheduleCore, loop: LoopRV, n: int, max_innermost_factor: int = 16, decision: Sequence[int] | None = None
) -> list[ExprRV | None]:
    """`n` factors whose product is the extent of a loop, the last at most `max_innermost_factor` (-1: no limit).

    All ways to deal out the prime factors are equally likely. For an extent that is not constant (or 0) the first
    factor is None, to be inferred, and the others are 1. A `decision` that does not divide the extent is repaired from
    the innermost factor outwards. Raises ValueError for fewer than one factor, one with a limit, or a decision of
    another length.

    >>> import tscript
    >>> from tscript.script import tir as T
    >>> @T.prim_func
    ... def clear(A: T.Buffer((64,), "float32")):
    ...     for i in range(64):
    ...         with T.block("A"):
    ...             v = T.axis.spatial(64, i)
    ...             A[v] = T.float32(0)
    >>> sch = tscript.tir.Schedule(clear, seed=1)
    >>> factors = sch.sample_perfect_tile(sch.get_loops("A")[0], n=3)
    >>> import math
    >>> math.prod(sch.get(f) for f in factors)
    64
    """
    sref = require_loop(s, loop)
    n, limit = s.integer(n), s.integer(max_innermost_factor)
    _require_count(n, decision)
    if n == 1 and limit != -1:
        raise ValueError("a single factor is the whole extent, so max_innermost_factor must be -1")
    if limit < 1 and limit != -1:
        raise ValueError(f"max_innermost_factor is at least 1, or -1 for no limit, unlike {limit}")
    extent = sref.loop.extent
    if not isinstance(extent, IntImm) or extent.value < 1:
        s.decide([-1] + [1] * (n - 1))
        return [None, *(s.new_integer(1) for _ in range(n - 1))]
    if decision is None:
        factors = _draw(s.rng, extent.value, n)
        while limit != -1 and factors[-1] > limit:
            factors = _draw(s.rng, extent.value, n)
    else:
        factors = _repaired([s.integer(f) for f in decision], extent.value)
    s.decide(factors)
    return [s.new_integer(f) for f in factors]


_PARTITIONED = _kind(
    "SamplePartitionedTile",
    "sample_partitioned_tile",
    (loop(), attr("n"), attr("partition_pos"), attr("innerpart_factor")),
    Outputs.LIST,
)


@primitive(_PARTITIONED)
def sample_partitioned_tile(
    s: ScheduleCore,
    loop: LoopRV,
    n: int,
    partition_pos: int = 0,
    innerpart_factor: int = 1,
    decision: Sequence[int] | None = None,
) -> list[ExprRV | None]:
    """As `sample_perfect_tile`, where `innerpart_factor` divides the product of the factors from `partition_pos` on.

    There is no limit for the last factor. Where the factor does not divide the extent, or that is not constant, the
    first factor is None, to be inferred, and the others are 1. A decision that breaks the rule gives way to the
    plainest factors that keep it. Raises ValueError for a position beyond the factors, a factor below 1, or a decision
    of another length.

    >>> import tscript
    >>> from tscript.testing.workloads import rms_norm
    >>> sch = tscript.tir.Schedule(rms_norm(4, 6).func)
    >>> i, k = sch.get_loops("square")
    >>> factors = sch.sample_partitioned_tile(k, 2, partition_pos=1, innerpart_factor=2)
    >>> sch.get(factors[1]) % 2
    0
    """
    sref = require_loop(s, loop)
    n, position, inner = s.integer(n), s.integer(partition_pos), s.integer(innerpart_factor)
    _require_count(n, decision)
    if not 0 <= position < n:
        raise ValueError(f"partition_pos is a position from 0 to {n - 1}, not {position}")
    if inner < 1:
        raise ValueError(f"innerpart_factor is at least 1, unlike {inner}")
    extent = sref.loop.extent
    if not isinstance(extent, IntImm) or extent.value < 1 or extent.value % inner:
        s.decide([-1] + [1] * (n - 1))
        return [None, *(s.new_integer(1) for _ in range(n - 1))]
    if decision is None:
        # What the inner part must hold is dealt out among its factors, the rest among all.
        fixed = [1] * position + _draw(s.rng, inner, n - position)
        factors = [a * b for a, b in zip(fixed, _draw(s.rng, extent.value // inner, n), strict=True)]
    else:
        given = [s.integer(f) for f in decision]
        if prod(given[position:]) % inner:
            given = [1] * n
            given[position] = inner
        factors = _repaired(given, extent.value)
    s.decide(factors)
    return [s.new_integer(f) for f in factors]


def _require_count(n: int, decision: Sequence[int] | None) -> None:
    if n < 1:
        raise ValueError(f"at least one factor is needed, not {n}")
    if decision is not None and len(decision) != n:
        raise ValueError(f"the decision has {len(decision)} factors, but {n} are asked for")


def _draw(rng: LinearCongruential, extent: int, n: int) -> list[int]:
    """`n` factors of `extent`; for each prime, all ways to deal out its powers are equally likely."""
    factors = [1] * n
    for p, e in _prime_powers(extent):
        # n - 1 separators among e + n - 1 places leave n gaps of e places in all.
        places = _subset(rng, e + n - 1, n - 1)
        for k, (before, after) in enumerate(zip([-1, *places], [*places, e + n - 1], strict=True)):
            factors[k] *= p ** (after - before - 1)
    return factors


def _subset(rng: LinearCongruential, size: int, count: int) -> list[int]:
    """`count` of the numbers below `size`, in order, all such sets being equally likely."""
    chosen: dict[int, None] = {}
    for top in range(size - count, size):
        x = rng.below(top + 1)
        chosen[top if x in chosen else x] = None
    return sorted(chosen)


def _prime_powers(value: int) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    p = 2
    while p * p <= value:
        e = 0
        while value % p == 0:
            value, e = value // p, e + 1
        if e:
            found.append((p, e))
        p += 1
    return [*found, (value, 1)] if value > 1 else found


def _repaired(factors: list[int], extent: int) -> list[int]:
    """Factors that divide `extent`: from the innermost outwards, one that does not takes all that is left."""
    result = list(factors)
    rest = extent
    for k in range(len(result) - 1, 0, -1):
        if result[k] < 1 or rest % result[k]:
            result[k] = rest
        rest //= result[k]
    result[0] = rest
    return result
