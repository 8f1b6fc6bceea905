"""Ranges that variables of loops run over, and regions of blocks in terms of the loops around them."""

from __future__ import annotations

from collections.abc import Mapping

from tscript.arith import Bound, const_bound
from tscript.ir.expr import IntImm, PrimExpr, Range, Var
from tscript.ir.functor import substitute
from tscript.ir.stmt import BlockRealize, BufferRegion, For


def loop_range(loop: For) -> Range:
    """The range of a loop variable."""
    return Range.from_min_extent(loop.min, loop.extent)


def range_bounds(domain: Mapping[Var, Range]) -> dict[Var, Bound]:
    """Constant bounds of variables that run over ranges; later ranges may use earlier variables."""
    bounds: dict[Var, Bound] = {}
    for var, r in domain.items():
        if isinstance(r.min, IntImm) and isinstance(r.extent, IntImm):
            bounds[var] = Bound(r.min.value, r.min.value + max(r.extent.value, 1) - 1)
            continue
        low, extent = const_bound(r.min, bounds), const_bound(r.extent, bounds)
        high = None
        start = const_bound(r.min, bounds).high
        if start is not None and extent.high is not None:
            high = max(start + extent.high - 1, low.low if low.low is not None else start)
        bounds[var] = Bound(low.low, high)
    return bounds


def bound_region(realize: BlockRealize, region: BufferRegion) -> list[Range]:
    """A region of a block in terms of the loops around it."""
    values = binding_map(realize)
    return [Range.from_min_extent(substitute(r.min, values), substitute(r.extent, values)) for r in region.region]


def binding_map(realize: BlockRealize) -> dict[Var, PrimExpr]:
    """The binding value of each axis variable."""
    return {axis.var: v for axis, v in zip(realize.block.iter_vars, realize.iter_values, strict=True)}
