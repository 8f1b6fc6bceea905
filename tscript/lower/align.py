"""Buffers get the strides that blocks ask for.

Before: any program. After: a buffer for which a block has the annotation `buffer_dim_align` is declared with strides,
so that views of it, and whatever else counts elements, see them. The annotations stay, for what makes buffers smaller.
"""

from __future__ import annotations

from tscript.ir.alignment import with_alignment
from tscript.ir.function import PrimFunc


def align_buffers(func: PrimFunc) -> PrimFunc:
    """Give buffers strides that are a multiple of a factor plus an offset, where blocks ask for them."""
    return with_alignment(func)


__all__ = ["align_buffers"]
