"""How a store uses memory: bytes and cache lines of each buffer, and after how much else they are used again."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from tscript.meta_schedule.feature_extractor.computation import product, scaled
from tscript.meta_schedule.feature_extractor.index_form import Loop, loops_of
from tscript.meta_schedule.feature_extractor.stores import Access, Memory, Store

NUMBERS_PER_BUFFER = 18
_LOOP, _SERIAL, _NONE = range(3)

Touches = dict[tuple[Loop, Memory], list[int]]
"""For a loop and a buffer, how many elements each store under the loop touches, so far."""


@dataclass(slots=True)
class BufferUse:
    """What a store does to one buffer; `touched` counts elements under each of its loops, from the outside in."""

    memory: Memory
    accesses: list[Access]
    reads: bool
    writes: bool
    touched: list[int] = field(default_factory=list[int])
    shape: list[int] = field(default_factory=list[int])
    stride: int = 0
    stride_depth: int = -1
    reuse: int = _NONE
    distance: float = 0.0
    distance_bytes: float = 0.0
    count: float = 0.0
    bytes: float = 0.0
    unique_bytes: float = 1.0
    lines: float = 1.0
    unique_lines: float = 1.0

    def features(self, loops: int) -> list[float]:
        """The 18 numbers."""
        again = self.count if self.count > 0 else 0.5
        sizes = (self.bytes, self.unique_bytes, self.lines, self.unique_lines)
        flags = [self.reads and not self.writes, self.writes and not self.reads, self.reads and self.writes]
        innermost = self.stride if self.stride_depth == loops - 1 else 0
        return [
            *map(float, flags),
            *map(scaled, sizes),
            *(float(self.reuse == kind) for kind in range(3)),
            scaled(self.distance), scaled(self.distance_bytes), scaled(self.count),
            *(scaled(x / again) for x in sizes),
            scaled(innermost),
        ]  # fmt: skip


def buffer_uses(store: Store, touches: Touches, line_bytes: int) -> tuple[list[BufferUse], list[int]]:
    """What a store does to its buffers, most cache lines first, and the bytes touched under each loop; `touches` gets
    the store's own.
    """
    uses = _grouped(store)
    loops = store.loops
    for use in uses:
        _touched(use, len(loops))
        for loop, n in zip(loops, use.touched, strict=True):
            touches.setdefault((loop, use.memory), []).append(n)
    touched_bytes = [sum(u.touched[i] * u.memory.item_bytes for u in uses) for i in range(len(loops))]
    for use in uses:
        _find_stride(use, loops)
        _find_reuse(use, loops, touches, touched_bytes, sum(u.memory.item_bytes for u in uses))
        _measure(use, loops, line_bytes)
    uses.sort(key=lambda u: (-u.lines, -u.bytes, u.memory.buffer.name))
    return uses, touched_bytes


def _grouped(store: Store) -> list[BufferUse]:
    """Accesses by buffer; of one that is read and written, those of the store alone."""
    found: dict[Memory, BufferUse] = {}
    for access in store.accesses:
        use = found.get(access.memory)
        if use is None:
            found[access.memory] = BufferUse(access.memory, [access], not access.writes, access.writes)
        elif use.writes:
            use.reads = True
        else:
            use.accesses.append(access)
    return list(found.values())


def _touched(use: BufferUse, loops: int) -> None:
    use.touched = [0] * loops
    use.shape = [1] * len(use.memory.shape)
    for level in range(loops - 1, -1, -1):
        use.shape = []
        for d, size in enumerate(use.memory.shape):
            limits = [a.forms[d].limits(level) for a in use.accesses]
            extent = max(b for _, b in limits) - min(a for a, _ in limits) + 1
            use.shape.append(size if math.isinf(extent) else int(extent))
        use.touched[level] = math.prod(use.shape)


def _find_stride(use: BufferUse, loops: tuple[Loop, ...]) -> None:
    shape = use.memory.shape
    strides = [math.prod(shape[d + 1 :]) for d in range(len(shape))]
    for loop in reversed(loops):
        found: list[int] = []
        for access in use.accesses:
            for d in range(len(shape) - 1, -1, -1):
                factor = access.forms[d].factor_of(loop)
                if factor:
                    found.append(factor * strides[d])
                    break
        use.stride = min(found, default=0)
        if use.stride:
            use.stride_depth = loop.depth
            return


def _find_reuse(
    use: BufferUse, loops: tuple[Loop, ...], touches: Touches, touched_bytes: list[int], item_bytes: int
) -> None:
    used = {v for a in use.accesses for f in a.forms for v in loops_of(f)}
    for loop in reversed(loops):
        if loop not in used:
            inner = loops[loop.depth + 1 :]
            use.reuse, use.count, use.distance = _LOOP, loop.times, product(inner)
            use.distance_bytes = touched_bytes[loop.depth + 1] if inner else item_bytes
            return
        earlier = touches[loop, use.memory]
        if len(earlier) >= 2:
            times = max(loop.times, 1)
            use.reuse, use.count, use.distance = _SERIAL, len(earlier) - 1, min(earlier) / times
            use.distance_bytes = touched_bytes[loop.depth] / times
            return


def _measure(use: BufferUse, loops: tuple[Loop, ...], line_bytes: int) -> None:
    size, shape = use.memory.item_bytes, use.memory.shape
    times = product(loops)
    elements = max(a.elements for a in use.accesses)
    use.bytes = size * times * elements
    if not loops:
        return
    use.unique_bytes = use.touched[0] * size
    unmoved = max(product(loops[use.stride_depth + 1 :]), 1)
    at_a_time = elements * size / line_bytes if elements > 1 else min(1.0, use.stride * size / line_bytes)
    use.lines = max(1.0, times / unmoved * at_a_time)
    whole = next((n for n, all_of_it in zip(use.shape[::-1], shape[::-1], strict=True) if n == all_of_it), 0)
    use.unique_lines = max(1.0, use.unique_bytes / min(line_bytes, max(whole * size, 1)))
