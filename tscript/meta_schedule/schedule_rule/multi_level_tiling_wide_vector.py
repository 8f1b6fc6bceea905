"""Tiles whose innermost loop along the last dimension of the result is one long vector."""

from __future__ import annotations

from tscript.ir.expr import Var
from tscript.ir.stmt import Block, For
from tscript.meta_schedule.schedule_rule.multi_level_tiling import MultiLevelTiling, TiledState
from tscript.meta_schedule.schedule_rule.reduction_test import loop_extent
from tscript.meta_schedule.schedule_rule.reuse import Reuse
from tscript.schedule.rv import LoopRV
from tscript.schedule.schedule import Schedule


class MultiLevelTilingWideVector(MultiLevelTiling):
    """Tiles as `MultiLevelTiling` does, but the innermost part of the loop along the last dimension of the result fills
    a vector of `vector_length_in_bits`; a loop that is shorter than that is not cut.

    >>> import tscript
    >>> from tscript.testing.workloads import matmul
    >>> rule = MultiLevelTilingWideVector("SRSRS", 1024)
    >>> sch = tscript.tir.Schedule(matmul(4, 96, 4).func)
    >>> (made,) = rule.apply(sch, sch.get_block("C"))
    >>> int(made.get(made.get_loops("C")[-1]).extent)
    32
    """

    def __init__(
        self,
        structure: str,
        vector_length_in_bits: int,
        max_innermost_factor: int | None = None,
        reuse_read: Reuse = None,
        reuse_write: Reuse = None,
    ) -> None:
        super().__init__(
            structure, max_innermost_factor=max_innermost_factor, reuse_read=reuse_read, reuse_write=reuse_write
        )
        if vector_length_in_bits < 1:
            raise ValueError(f"vector_length_in_bits is at least 1, not {vector_length_in_bits}")
        self.vector_length_in_bits = vector_length_in_bits
        self._wide: tuple[Var, int] | None = None

    def tile_loops(self, state: TiledState) -> list[TiledState]:
        """Split each loop into its levels, and bring the levels into order."""
        self._wide = self._wide_loop(state)
        return super().tile_loops(state)

    def _wide_loop(self, state: TiledState) -> tuple[Var, int] | None:
        """The variable of the loop along the last dimension of the result, and the elements of a vector."""
        stmt = state.sch.get(state.block)
        assert isinstance(stmt, Block)
        region = stmt.writes[0]
        last = region.region[-1].min if region.region else None
        if not isinstance(last, Var):
            return None
        for v, loop in zip(stmt.iter_vars, state.sch.get_loops(state.block), strict=False):
            if v.var is last:
                found = state.sch.get(loop)
                assert isinstance(found, For)
                return found.loop_var, max(1, self.vector_length_in_bits // region.buffer.dtype.bits)
        return None

    def split_loop(self, sch: Schedule, loop: LoopRV, kind: str, n: int) -> list[LoopRV]:
        """A loop in `n` parts; of the wide one, the last is a vector, and the others have sampled extents."""
        stmt = sch.get(loop)
        assert isinstance(stmt, For)
        if self._wide is None or stmt.loop_var is not self._wide[0] or n == 1:
            return super().split_loop(sch, loop, kind, n)
        lanes = self._wide[1]
        extent = loop_extent(stmt)
        if extent is None:
            return super().split_loop(sch, loop, kind, n)
        if extent <= lanes:
            return sch.split(loop, [*[1] * (n - 1), extent])
        outer, inner = sch.split(loop, [None, lanes])
        return [*super().split_loop(sch, outer, kind, n - 1), inner]
