"""Which memory a part of a program touches, and what of it has to come through a cache of some size.

A loop nest is looked at from outside in. Where everything that a loop touches fits into a cache, or everything that one
iteration of it touches, each line comes through once for the whole loop: lines stay between iterations that use
them again. Where it does not fit, what is inside is looked at, and comes through again in each iteration. A buffer that
the program allocates itself, and that is made and used up within a part that fits, never leaves the cache. Lines that
are written go back, so what is both read and written comes through twice.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction

from tscript.analysis.counting import Loop
from tscript.analysis.work import Access, Nest, Work, size_of
from tscript.arith.const_bound import Bound, const_bound
from tscript.ir.buffer import Buffer
from tscript.ir.expr import IntImm, Var
from tscript.ir.occurrences import variables

Dims = tuple[tuple[int, int, int], ...]
"""For each dimension: first and last index, and how many different ones at most."""

Traffic = dict[Buffer, Fraction]


class Footprints:
    """Footprints of the parts of one function, in which all extents are numbers."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self._boxes: dict[tuple[Access, int], Dims] = {}
        self._sizes: dict[tuple[Nest, int, int], dict[Buffer, int]] = {}
        self._below: dict[Nest, list[Access]] = {}
        self._shared: dict[Buffer, int] = {}
        for buffer in work.own:
            paths = [a.path for a in work.accesses if a.buffer is buffer]
            if paths:
                self._shared[buffer] = _common(paths, buffer.scope())

    def touched(self, nest: Nest, outside: int, line: int = 1) -> dict[Buffer, int]:
        """Bytes of each buffer that a nest touches, in whole lines, while the first `outside` loops stand still."""
        key = (nest, outside, line)
        found = self._sizes.get(key)
        if found is None:
            found = self._sizes[key] = self._touched(self._accesses(nest), outside, line)
        return found

    def _accesses(self, nest: Nest) -> list[Access]:
        found = self._below.get(nest)
        if found is None:
            found = list[Access]()
            for part in nest.parts:
                found += [part] if isinstance(part, Access) else self._accesses(part)
            self._below[nest] = found
        return found

    def _touched(self, accesses: Iterable[Access], outside: int, line: int) -> dict[Buffer, int]:
        grouped: dict[Buffer, dict[Dims, None]] = {}
        for a in accesses:
            grouped.setdefault(a.buffer, {})[self._dims(a, outside)] = None
        return {b: _bytes(b, _hull(list(parts)), line) for b, parts in grouped.items()}

    def _dims(self, access: Access, outside: int) -> Dims:
        # What a program allocates is no larger than what is alive at once.
        outside = max(outside, self._shared.get(access.buffer, 0))
        found = self._boxes.get((access, outside))
        if found is None:
            found = self._boxes[access, outside] = _dims(access, outside)
        return found

    def traffic(self, capacity: int, line: int) -> Traffic:
        """Bytes of each buffer that come through a cache of `capacity` bytes, from and to what is behind it."""
        return self._through(self.work.root, 0, capacity, line)

    def _through(self, nest: Nest, depth: int, capacity: int, line: int) -> Traffic:
        """`depth`: how many loops are outside of the nest."""
        inner = depth if nest.loop is None else depth + 1
        whole = self.touched(nest, depth, line)
        if sum(whole.values()) <= capacity or sum(self.touched(nest, inner, line).values()) <= capacity:
            return self._once(nest, whole, inner)
        total: Traffic = {}
        for part in nest.parts:
            if isinstance(part, Nest):
                moved = self._through(part, inner, capacity, line)
            else:
                each = self._touched([part], inner, line)
                moved = {b: Fraction(n) for b, n in each.items()}
            for b, n in moved.items():
                total[b] = total.get(b, Fraction(0)) + n
        trips = 1 if nest.loop is None else _trips(nest.loop)
        return {b: n * trips for b, n in total.items()}

    def _once(self, nest: Nest, whole: dict[Buffer, int], inner: int) -> Traffic:
        reads: dict[Buffer, None] = {}
        writes: dict[Buffer, None] = {}
        for a in self._accesses(nest):
            (writes if a.is_write else reads)[a.buffer] = None
        kept = {b for b, shared in self._shared.items() if shared >= inner and self.work.root is not nest}
        if self.work.root is nest:
            kept = set(self._shared)
        return {b: Fraction(0 if b in kept else n * ((b in reads) + (b in writes))) for b, n in whole.items()}


def _trips(loop: Loop) -> int | Fraction:
    assert isinstance(loop.trips, (int, Fraction))
    return loop.trips


def _common(paths: list[tuple[Loop, ...]], scope: str) -> int:
    """How many loops are around all accesses. Memory that threads share is one for all threads of a block."""
    first = paths[0]
    count = min(map(len, paths))
    for d in range(count):
        if any(p[d] is not first[d] for p in paths):
            count = d
            break
    if scope.startswith("shared"):
        threads = [d for d in range(count) if first[d].thread.startswith("threadIdx")]
        count = threads[0] if threads else count
    return count


def _middle(low: int, high: int) -> int:
    """A value that stands for a loop that stands still: amid its range, and where tiles begin."""
    half = max(high - low + 1, 0) // 2
    return low + (1 << (half.bit_length() - 1) if half else 0)


def _dims(access: Access, outside: int) -> Dims:
    """Where an access goes while all loops but the first `outside` run."""
    bounds: dict[Var, Bound] = {}
    trips: dict[Var, int] = {}
    for d, loop in enumerate(access.path):
        low = const_bound(loop.low, bounds).low or 0
        extent = const_bound(loop.extent, bounds).high or 0
        high = max(low, low + extent - 1)
        if d < outside:
            at = _middle(low, high)
            bounds[loop.var] = Bound(at, at)
        else:
            bounds[loop.var] = Bound(low, high)
            trips[loop.var] = max(extent, 1)
    result: list[tuple[int, int, int]] = []
    for (first, count), size in zip(access.box, access.buffer.shape, strict=True):
        last = size.value - 1 if isinstance(size, IntImm) else None
        bound = const_bound(first, bounds)
        length = const_bound(count, bounds).high or 1
        low = max(bound.low or 0, 0)
        high = low if bound.high is None and last is None else (bound.high if bound.high is not None else last or 0)
        high += length - 1 if bound.high is not None else 0
        high = high if last is None else min(high, last)
        low = min(low, max(high, 0))
        different = math.prod(trips[v] for v in variables(first) if v in trips) * length
        result.append((low, max(high, low), min(different, max(high, low) - low + 1)))
    return tuple(result)


def _hull(parts: list[Dims]) -> Dims:
    if len(parts) == 1:
        return parts[0]
    result: list[tuple[int, int, int]] = []
    for dims in zip(*parts, strict=True):
        low, high = min(d[0] for d in dims), max(d[1] for d in dims)
        # The same indices of several accesses are the same elements.
        different = sum(d[2] for d in dict.fromkeys(dims))
        result.append((low, high, min(different, high - low + 1)))
    return tuple(result)


def _bytes(buffer: Buffer, dims: Dims, line: int) -> int:
    """Bytes of the lines that hold the elements, when rows begin with a line."""
    element = size_of(buffer.dtype)
    if line == 1:
        return math.prod(d[2] for d in dims) * element
    run = points = 1
    rest = len(dims)
    while rest:
        rest -= 1
        low, high, different = dims[rest]
        run *= high - low + 1
        points *= different
        size = buffer.shape[rest]
        if not isinstance(size, IntImm) or high - low + 1 < size.value:
            break
    lines = min(points * -(-element // line), -(-run * element // line))
    return lines * math.prod(d[2] for d in dims[:rest]) * line


__all__ = ["Footprints", "Traffic"]
