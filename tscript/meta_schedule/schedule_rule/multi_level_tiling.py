"""Loops are cut into tiles on several levels, so that data is used again while it is near."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tscript.ir.stmt import Block, For, SeqStmt
from tscript.meta_schedule.schedule_rule.auto_inline import maps_elementwise
from tscript.meta_schedule.schedule_rule.reduction_test import TILED, axis_kinds, loop_extent, needs_multi_level_tiling
from tscript.meta_schedule.schedule_rule.reuse import Reuse, ReuseType, reuse_of
from tscript.meta_schedule.schedule_rule.schedule_rule import ScheduleRule
from tscript.meta_schedule.target_kind import cuda_arch
from tscript.meta_schedule.tune_context import TuneContext
from tscript.schedule.errors import ScheduleError
from tscript.schedule.rv import BlockRV, LoopRV
from tscript.schedule.schedule import Schedule
from tscript.schedule.sref import StmtSRef

_FETCH = "meta_schedule.cooperative_fetch"
# The widest vectors that one thread loads: 16 bytes.
_MOST_BYTES = 16


@dataclass
class TiledState:
    """A schedule on the way: its block, and the loops of each tile level from the outside in."""

    sch: Schedule
    block: BlockRV
    tiles: list[list[LoopRV]] = field(default_factory=list[list[LoopRV]])
    read_caches: list[BlockRV] = field(default_factory=list[BlockRV])

    def copy(self) -> TiledState:
        """An independent state; handles are valid in both."""
        return replace(self, sch=self.sch.copy(), tiles=[list(t) for t in self.tiles], read_caches=[*self.read_caches])


Filter = Callable[[Schedule, StmtSRef], bool]


class MultiLevelTiling(ScheduleRule):
    """Tiles a block that reads data again and again.

    `structure` has a letter for each tile level, from the outside in: "S" for a level of the spatial loops, "R" for
    one of the loops that are reduced over. Tile sizes are sampled, the innermost at most `max_innermost_factor` (None
    for any). `tile_binds` binds the leading levels to GPU threads. `reuse_write` keeps a copy of the result,
    `reuse_read` of what is read, at tile levels counted from 1; threads share the work of copying, with vectors of a
    length sampled from `vector_load_lens`. `filter_fn(sch, sref)` may name further blocks that are to be tiled.

    Raises ValueError for a structure or reuse that makes no sense.
    """

    def __init__(
        self,
        structure: str,
        tile_binds: Sequence[str] | None = None,
        max_innermost_factor: int | None = None,
        vector_load_lens: Sequence[int] | None = None,
        reuse_read: Reuse = None,
        reuse_write: Reuse = None,
        filter_fn: Filter | None = None,
    ) -> None:
        if not structure or set(structure) - set("SR"):
            raise ValueError(f"a tiling structure is made of S and R, such as 'SSRSRS', unlike {structure!r}")
        self.structure = structure
        self.tile_binds = list(tile_binds or [])
        if len(self.tile_binds) > len(structure):
            raise ValueError(
                f"{structure!r} has {len(structure)} levels, too few for {len(self.tile_binds)} thread axes"
            )
        self.max_innermost_factor = -1 if max_innermost_factor is None else max_innermost_factor
        self.vector_load_lens = list(vector_load_lens or [])
        self.reuse_read, self.reuse_write = reuse_of(reuse_read), reuse_of(reuse_write)
        for reuse in (self.reuse_read, self.reuse_write):
            reuse.require_levels(structure)
        self.filter_fn = filter_fn
        self._warp_size = self._max_threads = 0
        self._is_async = False

    def _initialize_with_tune_context(self, context: TuneContext) -> None:
        target = context.target
        if target is None:
            return
        self._warp_size = int(target.get_attr("thread_warp_size", 0) or 0)
        self._max_threads = int(target.get_attr("max_threads_per_block", 0) or 0)
        self._is_async = cuda_arch(target) >= 80

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        """The tiled schedules, or the schedule as it was."""
        wanted = self.filter_fn is not None and self.filter_fn(sch, sch.get_sref(block))
        if not (wanted or needs_multi_level_tiling(sch, block)):
            return [sch]
        return self.tile(sch, block)

    def tile(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        """The schedules with a block tiled, whatever it computes."""
        sch.annotate(block, TILED, self.structure)
        states = [TiledState(sch, block)]
        for step in self.steps():
            states = [made for state in states for made in step(state)]
        return [state.sch for state in states]

    def steps(self) -> list[Callable[[TiledState], list[TiledState]]]:
        """What is done to each state, in order; each step gives the alternatives to go on with."""
        return [self.tile_loops, self.add_write_reuse, self.add_read_reuse, self.add_async_pipeline]

    # -- tiles ------------------------------------------------------------------------------------

    def tile_loops(self, state: TiledState) -> list[TiledState]:
        """Split each loop into its levels, and bring the levels into order."""
        sch, block = state.sch, state.block
        stmt = sch.get(block)
        assert isinstance(stmt, Block)
        loops = sch.get_loops(block)
        kinds = axis_kinds(stmt)
        levels = {k: [i for i, letter in enumerate(self.structure) if letter == k] for k in "SR"}
        tiles: list[list[LoopRV]] = [[] for _ in self.structure]
        product = 1
        for loop, kind in zip(loops, kinds, strict=True):
            if kind == "S":
                product *= loop_extent(sch.get(loop)) or 1
            places = levels.get(kind, [])
            if not places:
                continue
            for place, part in zip(places, self.split_loop(sch, loop, kind, len(places)), strict=True):
                tiles[place].append(part)
        sch.reorder(*(loop for level in tiles for loop in level))
        for i, tag in enumerate(self.tile_binds):
            fused = sch.fuse(*tiles[i])
            sch.bind(fused, tag)
            tiles[i] = [fused]
        state.tiles = tiles
        if self.tile_binds and self._max_threads and self._warp_size:
            low = self._warp_size if product > 2 * self._warp_size else 1
            sch.annotate(block, "meta_schedule.thread_extent_low_inclusive", low)
            sch.annotate(block, "meta_schedule.thread_extent_high_inclusive", self._max_threads)
        return [state]

    def split_loop(self, sch: Schedule, loop: LoopRV, kind: str, n: int) -> list[LoopRV]:
        """A loop in `n` parts, of sampled extents."""
        del kind
        if n == 1:
            return [loop]
        factors = sch.sample_perfect_tile(loop, n, self.max_innermost_factor)
        return sch.split(loop, factors)

    # -- copies -----------------------------------------------------------------------------------

    def add_write_reuse(self, state: TiledState) -> list[TiledState]:
        """Keep the result in a copy that is written back once a tile is done."""
        sch = state.sch
        reuse = self._write_reuse_of(sch, state.block)
        if reuse.req == "no":
            return [state]
        made: list[TiledState] = []
        if reuse.req == "may":
            consumer = self._write_cache_after(sch, state.block)
            if consumer is not None:
                for level in reuse.levels:
                    new = state.copy()
                    new.sch.reverse_compute_at(consumer, new.tiles[level - 1][-1], preserve_unit_loops=True)
                    made.append(new)
                return [*made, state]
            made.append(state.copy())
        try:
            cache = sch.cache_write(state.block, 0, reuse.scope or "global")
        except ScheduleError:
            if reuse.req == "must":
                raise
            return made  # the result cannot be copied; a copy was only an offer
        for level in reuse.levels:
            new = state.copy()
            new.sch.reverse_compute_at(cache, new.tiles[level - 1][-1], preserve_unit_loops=True)
            made.append(new)
        return made

    def _write_reuse_of(self, sch: Schedule, block: BlockRV) -> ReuseType:
        stmt = sch.get(block)
        assert isinstance(stmt, Block)
        given: Any = stmt.annotations.get("meta_schedule.write_cache_level")
        if given is None:
            return self.reuse_write
        levels = tuple(int(x) for x in given)
        sch.unannotate(block, "meta_schedule.write_cache_level")
        return ReuseType("must", levels, self.reuse_write.scope)

    def _write_cache_after(self, sch: Schedule, block: BlockRV) -> BlockRV | None:
        """The only consumer, if it does no more than pass each element on."""
        consumers = sch.get_consumers(block)
        if len(consumers) != 1:
            return None
        stmt, own = sch.get(consumers[0]), sch.get(block)
        assert isinstance(stmt, Block) and isinstance(own, Block)
        reads = [r for r in stmt.reads if r.buffer is own.writes[0].buffer]
        if len(stmt.writes) != 1 or len(reads) != 1:
            return None
        indices = [r.min for r in reads[0].region]
        return consumers[0] if maps_elementwise(stmt, indices, injective=True, ordered=True) else None

    def add_read_reuse(self, state: TiledState) -> list[TiledState]:
        """Fetch what a tile reads into a copy first."""
        reuse = self.reuse_read
        if reuse.req != "must":
            return [state]
        sch = state.sch
        stmt = sch.get(state.block)
        assert isinstance(stmt, Block)
        written = {r.buffer for r in stmt.writes}
        for level in reuse.levels:
            loop = state.tiles[level - 1][-1]
            for i, region in enumerate(stmt.reads):
                if region.buffer in written:
                    continue
                cache = sch.cache_read(state.block, i, reuse.scope or "global", [state.block])
                sch.compute_at(cache, loop, preserve_unit_loops=True)
                sch.fuse(*sch.get_loops(cache)[-len(region.buffer.shape) :])
                state.read_caches.append(cache)
                self._share_fetching(sch, cache, str(region.buffer.dtype))
        return [state]

    def _share_fetching(self, sch: Schedule, cache: BlockRV, dtype: str) -> None:
        lengths = [n for n in self.vector_load_lens if fits_vector(dtype, n)]
        if lengths:
            length = sch.sample_categorical(lengths, [1.0 / len(lengths)] * len(lengths))
            sch.annotate(cache, _FETCH, length)

    def add_async_pipeline(self, state: TiledState) -> list[TiledState]:
        """Offer to fetch the next tiles while one is computed."""
        if not self._is_async or self.reuse_read.req == "no" or "R" not in self.structure:
            return [state]
        loop = state.tiles[self.structure.index("R")][-1]
        stmt = state.sch.get(loop)
        children = stmt.body.seq if isinstance(stmt, For) and isinstance(stmt.body, SeqStmt) else ()
        if len(children) != 3 or not all(isinstance(c, For) for c in children):
            return [state]
        made = [state.copy()]
        for stages in (4, 5):
            new = state.copy()
            fused = new.sch.fuse(*new.tiles[self.structure.index("R")])
            new.sch.annotate(fused, "software_pipeline_stage", [0, 0, stages - 2])
            new.sch.annotate(fused, "software_pipeline_order", [0, 1, 2])
            new.sch.annotate(fused, "software_pipeline_async_stages", [0])
            made.append(new)
        return made


def fits_vector(dtype: str, length: int) -> bool:
    """Whether one thread may load `length` elements at once: at most 16 bytes, of float16 an even number or one."""
    if dtype == "float32":
        return length <= _MOST_BYTES // 4
    if dtype == "float16":
        return length == 1 or (length % 2 == 0 and length <= _MOST_BYTES // 2)
    return length <= _MOST_BYTES if dtype == "int8" else True
