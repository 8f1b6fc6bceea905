"""Other tile sizes."""

from __future__ import annotations

from math import prod
from typing import Any

from tscript.meta_schedule.mutator.mutator import Mutator
from tscript.meta_schedule.mutator.traced_samples import before_postproc, sampled_otherwise, samples_of_annotations
from tscript.schedule.instruction import Instruction
from tscript.schedule.rng import LinearCongruential
from tscript.schedule.trace import Trace

_FETCH = ("meta_schedule.cooperative_fetch",)


class MutateTileSize(Mutator):
    """Moves a factor from one tile level to another, or samples another candidate of a number that a loop is split by,
    or of the vector length of a shared fetch.
    """

    def apply(self, trace: Trace, rand_state: int) -> Trace | None:
        """The trace with another tile size; None where nothing can be moved."""
        rng = LinearCongruential(rand_state)
        tiles = [inst for inst in before_postproc(trace) if _is_tiled(trace, inst)]
        numbers = [*samples_of_annotations(trace, _FETCH), *_sampled_factors(trace)]
        if not tiles and not numbers:
            return None
        k = rng.below(len(tiles) + len(numbers))
        if k >= len(tiles):
            return sampled_otherwise(trace, numbers[k - len(tiles)], rng)
        inst = tiles[k]
        limit = int(inst.attrs[1]) if inst.kind.name == "SamplePerfectTile" else -1
        moved = moved_factor([int(f) for f in trace.decisions[inst]], limit, rng)
        return None if moved is None else trace.with_decision(inst, moved, remove_postproc=True)


def _is_tiled(trace: Trace, inst: Instruction) -> bool:
    if inst.kind.name not in ("SamplePerfectTile", "SamplePartitionedTile"):
        return False
    decision = trace.get_decision(inst)
    return decision is not None and len(decision) > 1 and min(decision) > 0 and prod(decision) > 1


def _sampled_factors(trace: Trace) -> list[Instruction]:
    """The samples, of more than one candidate, of numbers that loops are split by, but for those of threads."""
    sources: dict[Any, Instruction] = {}
    loops: dict[Any, Instruction] = {}
    found: dict[Instruction, None] = {}
    for inst in before_postproc(trace):
        if inst.kind.name == "SampleCategorical" and len(inst.attrs[0]) > 1:
            sources[inst.outputs[0]] = inst
        elif inst.kind.name == "Split":
            for factor, part in zip(inst.inputs[1:], inst.outputs, strict=True):
                if factor in sources:
                    loops[part] = sources[factor]
                    found[sources[factor]] = None
        elif inst.kind.name == "Bind" and inst.inputs[0] in loops:
            found.pop(loops[inst.inputs[0]], None)  # another mutator has these
    return list(found)


def moved_factor(tiles: list[int], limit: int, rng: LinearCongruential) -> list[int] | None:
    """Tile sizes of the same product, a factor of one moved to another; the last stays within `limit` (-1 for none).

    None where no factor can move.

    >>> moved_factor([4, 1], -1, LinearCongruential(1)) in ([2, 2], [1, 4])
    True
    >>> moved_factor([4, 1], 1, LinearCongruential(1)) is None
    True
    """
    moves = [
        (x, y, d)
        for x, size in enumerate(tiles)
        for y in range(len(tiles))
        if x != y
        for d in (_divisors(size) if size > 1 else ())
        if limit == -1 or y != len(tiles) - 1 or tiles[y] * d <= limit
    ]
    if not moves:
        return None
    # The pair of levels is drawn first, so that sizes with many divisors are not favoured.
    pairs = list(dict.fromkeys((x, y) for x, y, _ in moves))
    x, y = pairs[rng.below(len(pairs))]
    factors = [d for a, b, d in moves if (a, b) == (x, y)]
    d = factors[rng.below(len(factors))]
    result = list(tiles)
    result[x] //= d
    result[y] *= d
    return result


def _divisors(n: int) -> list[int]:
    """The divisors of `n` above 1."""
    small = [d for d in range(1, int(n**0.5) + 1) if n % d == 0]
    return sorted({*small[1:], *(n // d for d in small)})
