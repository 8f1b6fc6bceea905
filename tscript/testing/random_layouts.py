"""Random layouts of buffers and of blocks, for random schedules."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from tscript.ir.expr import IntImm, PrimExpr, Var
from tscript.ir.index_map import IndexMap


def random_index_map(rng: random.Random, extents: Sequence[PrimExpr | int], steps: int = 2) -> IndexMap:
    """A map made of some splits, fusions, swaps and mirrorings; now and then one that loses something."""
    sources = [Var(f"i{k}", "int32" if isinstance(e, int) else e.dtype) for k, e in enumerate(extents)]
    axes: list[PrimExpr] = list(sources)
    sizes = [e if isinstance(e, int) else e.value if isinstance(e, IntImm) else None for e in extents]
    for _ in range(rng.randint(1, steps) if axes else 0):
        at = rng.randrange(len(axes))
        size = sizes[at]
        step = rng.choice(["split", "split", "fuse", "swap", "swap", "mirror"])
        if step == "split":
            by = rng.choice([d for d in (2, 3, 4, 8) if size is None or size % d == 0 or rng.random() < 0.2] or [1])
            axes[at : at + 1] = [axes[at] // by, axes[at] % by]
            sizes[at : at + 1] = [None if size is None else -(-size // by), by]
        elif step == "fuse" and at + 1 < len(axes):
            below = sizes[at + 1]
            if size is not None and below is not None:
                axes[at : at + 2] = [axes[at] * below + axes[at + 1]]
                sizes[at : at + 2] = [size * below]
        elif step == "swap":
            other = rng.randrange(len(axes))
            axes[at], axes[other] = axes[other], axes[at]
            sizes[at], sizes[other] = sizes[other], sizes[at]
        elif step == "mirror" and size is not None:
            axes[at] = size - 1 - axes[at]
    if axes and rng.random() < 0.03:
        axes.pop()
    return IndexMap(tuple(sources), tuple(axes))


def random_pad_value(rng: random.Random) -> Any:
    """A number to pad with, or none."""
    return rng.choice([None, 0, 1, 3])
