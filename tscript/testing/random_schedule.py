"""Random schedules: steps with random arguments, most of which are sensible and some of which must be refused."""

from __future__ import annotations

import random
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from tscript.ir.buffer import Buffer
from tscript.ir.expr import PrimExpr
from tscript.ir.functor import post_order_visit
from tscript.ir.index_map import IndexMap
from tscript.ir.stmt import Block, BufferStore
from tscript.schedule import BlockRV, LoopRV, Schedule, ScheduleError
from tscript.support.errors import RaceWarning
from tscript.testing.random_layouts import random_index_map, random_pad_value
from tscript.testing.random_tensorize import Tile, register_tile
from tscript.testing.watched import WatchedSchedule

Step = Callable[[Schedule, "RandomSteps"], None]


@dataclass
class RandomSteps:
    """Draws steps for a schedule, of the kinds in `only`. `accepted` and `refused` count them by primitive."""

    rng: random.Random
    only: frozenset[str] | None = None
    accepted: Counter[str] = field(default_factory=Counter[str])
    refused: Counter[str] = field(default_factory=Counter[str])

    def run(self, sch: WatchedSchedule, steps: int) -> None:
        """Try `steps` steps. Whatever is raised but ScheduleError is a fault, as is a refusal that changes things."""
        drawn = [s for s in _STEPS if self.only is None or s[0] in self.only]
        for _ in range(steps):
            name, step = self.rng.choice(drawn)
            if not hasattr(sch, name):
                continue
            sch.note()
            try:
                step(sch, self)
            except ScheduleError as error:
                self.refused[name] += 1
                assert error.primitive, f"a refusal by {name} does not name the step"
                str(error)
                try:
                    sch.require_untouched()
                except AssertionError as fault:
                    raise AssertionError(f"{name} was refused, but {fault}") from error
            else:
                self.accepted[name] += 1

    # -- arguments ------------------------------------------------------------------------------

    def block(self, sch: Schedule) -> BlockRV:
        """Some block, the root seldom."""
        name, root = sch.function_root(None)
        del name
        blocks = sch.state.blocks_below(root) or [root]
        choice = self.rng.choice(blocks) if self.rng.random() < 0.98 else root
        return sch.get_block(choice.block.name_hint)

    def block_or_name(self, sch: Schedule) -> BlockRV | str:
        """Some block, by handle or by name."""
        block = self.block(sch)
        return block if self.rng.random() < 0.7 else sch.block(block).block.name_hint

    def reduction(self, sch: Schedule) -> BlockRV:
        """Some block with an init; where there is none, any block."""
        _, root = sch.function_root(None)
        sums = [b for b in sch.state.blocks_below(root) if b.block.init is not None]
        return sch.get_block(self.rng.choice(sums).block.name_hint) if sums else self.block(sch)

    def loops(self, sch: Schedule) -> list[LoopRV]:
        """The loops around some block."""
        return sch.get_loops(self.block(sch))

    def loop(self, sch: Schedule) -> LoopRV:
        """Some loop; ScheduleError where there is none."""
        for _ in range(8):
            found = self.loops(sch)
            if found:
                return self.rng.choice(found)
        if isinstance(sch, WatchedSchedule):
            sch.note()
        error = ScheduleError("the program has no loops")
        error.primitive = "random"
        raise error

    def loop_of_some(self, sch: Schedule, blocks: list[BlockRV]) -> LoopRV:
        """A loop around one of `blocks`; now and then, or where there are none, any loop."""
        if blocks and self.rng.random() < 0.9:
            found = sch.get_loops(self.rng.choice(blocks))
            if found:
                return self.rng.choice(found)
        return self.loop(sch)

    def factors(self) -> list[int | None]:
        """Factors of a split: one is open most of the time."""
        count = self.rng.choice([2, 2, 2, 3])
        found: list[int | None] = [self.rng.choice([1, 2, 2, 3, 4, 5, 8, 16]) for _ in range(count)]
        if self.rng.random() < 0.8:
            found[self.rng.randrange(count)] = None
        return found


def _split(sch: Schedule, r: RandomSteps) -> None:
    sch.split(r.loop(sch), r.factors(), preserve_unit_iters=r.rng.random() < 0.7)


def _fuse(sch: Schedule, r: RandomSteps) -> None:
    loops = r.loops(sch)
    first = r.rng.randrange(len(loops)) if loops else 0
    sch.fuse(
        *(loops[first : first + r.rng.choice([2, 2, 3])] or [r.loop(sch)]), preserve_unit_iters=r.rng.random() < 0.7
    )


def _reorder(sch: Schedule, r: RandomSteps) -> None:
    loops = r.loops(sch)
    r.rng.shuffle(loops)
    sch.reorder(*loops[: r.rng.choice([2, 3, 4])])


def _mark(method: str) -> Step:
    def step(sch: Schedule, r: RandomSteps) -> None:
        getattr(sch, method)(r.loop(sch))

    return step


def _bind(sch: Schedule, r: RandomSteps) -> None:
    sch.bind(r.loop(sch), r.rng.choice(["blockIdx.x", "blockIdx.y", "threadIdx.x", "threadIdx.y", "vthread.x"]))


def _compute_at(sch: Schedule, r: RandomSteps) -> None:
    block = r.block_or_name(sch)
    loop = r.loop_of_some(sch, sch.get_consumers(block))
    sch.compute_at(block, loop, preserve_unit_loops=r.rng.random() < 0.4, index=r.rng.choice([-1, -2]))


def _reverse_compute_at(sch: Schedule, r: RandomSteps) -> None:
    block = r.block_or_name(sch)
    loop = r.loop_of_some(sch, sch.get_producers(block))
    sch.reverse_compute_at(block, loop, preserve_unit_loops=r.rng.random() < 0.4, index=r.rng.choice([-1, -2]))


def _decompose_reduction(sch: Schedule, r: RandomSteps) -> None:
    block = r.block_or_name(sch)
    loops = sch.get_loops(block)
    sch.decompose_reduction(block, r.rng.choice(loops) if loops else r.loop(sch))


def _rfactor(sch: Schedule, r: RandomSteps) -> None:
    loops = sch.get_loops(r.reduction(sch))
    sch.rfactor(r.rng.choice(loops) if loops else r.loop(sch), r.rng.choice([0, 0, -1, 1]))


def _decompose_padding(sch: Schedule, r: RandomSteps) -> None:
    block = r.block(sch)
    loops = sch.get_loops(block)
    sch.decompose_padding(block, r.rng.choice(loops) if loops else r.loop(sch))


def _pad_einsum(sch: Schedule, r: RandomSteps) -> None:
    block = r.block(sch)
    sch.pad_einsum(block, [r.rng.choice([1, 2, 4, 8]) for _ in sch.block(block).block.iter_vars])


def _fuse_reduction_epilogue(sch: Schedule, r: RandomSteps) -> None:
    block = r.reduction(sch)
    users = sch.get_consumers(block)
    sch.fuse_reduction_epilogue(block, r.rng.choice(users) if users else r.block(sch))


def _index(r: RandomSteps) -> int:
    return r.rng.choice([0, 0, 0, 1])


def _cache_read(sch: Schedule, r: RandomSteps) -> None:
    sch.cache_read(r.block_or_name(sch), _index(r), r.rng.choice(["global", "local", "shared"]))


def _cache_write(sch: Schedule, r: RandomSteps) -> None:
    sch.cache_write(r.block_or_name(sch), 0, r.rng.choice(["global", "local", "shared"]))


def _inline(method: str) -> Step:
    def step(sch: Schedule, r: RandomSteps) -> None:
        getattr(sch, method)(r.block_or_name(sch))

    return step


def _set_scope(sch: Schedule, r: RandomSteps) -> None:
    sch.set_scope(r.block_or_name(sch), 0, r.rng.choice(["local", "shared", "global"]))


def _storage_align(sch: Schedule, r: RandomSteps) -> None:
    sch.storage_align(r.block_or_name(sch), 0, r.rng.choice([0, -1]), r.rng.choice([8, 32]), r.rng.choice([0, 1, 4]))


def _annotate(sch: Schedule, r: RandomSteps) -> None:
    sch.annotate(r.loop(sch), "note", r.rng.choice([1, "text", [1, 2]]))


def _unit_loop(sch: Schedule, r: RandomSteps) -> None:
    sch.add_unit_loop(r.block(sch) if r.rng.random() < 0.5 else r.loop(sch))


def _iter_order(sch: Schedule, r: RandomSteps) -> None:
    block = r.block(sch)
    order = list(range(len(sch.block(block).block.iter_vars)))
    r.rng.shuffle(order)
    sch.reorder_block_iter_var(block, order)


def _tile(sch: Schedule, r: RandomSteps) -> None:
    loop = r.loop(sch)
    n = r.rng.choice([2, 3])
    sch.split(loop, sch.sample_perfect_tile(loop, n, max_innermost_factor=-1))


def _partitioned_tile(sch: Schedule, r: RandomSteps) -> None:
    loop = r.loop(sch)
    sch.split(loop, sch.sample_partitioned_tile(loop, 3, partition_pos=1, innerpart_factor=r.rng.choice([1, 2])))


def _categorical(sch: Schedule, r: RandomSteps) -> None:
    sch.split(r.loop(sch), [None, sch.sample_categorical([2, 3, 4], [0.5, 0.25, 0.25])])


def _compute_location(sch: Schedule, r: RandomSteps) -> None:
    block = r.block(sch)
    sch.compute_at(block, sch.sample_compute_location(block))


def _unannotate(sch: Schedule, r: RandomSteps) -> None:
    target = r.block(sch) if r.rng.random() < 0.5 else r.loop(sch)
    if r.rng.random() < 0.8:
        sch.annotate(target, "passing", 1)
    sch.unannotate(target, "passing")


def _output(sch: Schedule, r: RandomSteps) -> None:
    outputs = sch.get_output_blocks(sch.get_block("root"))
    sch.annotate(r.rng.choice(outputs), "is_output", 1)


def _child(sch: Schedule, r: RandomSteps) -> None:
    children = sch.get_child_blocks(r.block(sch) if r.rng.random() < 0.5 else sch.get_block("root"))
    if children:
        sch.annotate(r.rng.choice(children), "is_child", 1)


def _partition(sch: Schedule, r: RandomSteps) -> None:
    sch.loop_partition(r.loop(sch), [r.rng.randint(1, 4), None])


def _merge(sch: Schedule, r: RandomSteps) -> None:
    sch.merge(r.loop(sch), r.loop(sch))


def _blockize(sch: Schedule, r: RandomSteps) -> None:
    if r.rng.random() < 0.8:
        sch.blockize(r.loop(sch), preserve_unit_iters=r.rng.random() < 0.7)
    else:
        sch.blockize([r.block(sch) for _ in range(r.rng.choice([1, 2]))])


def _own_access(sch: Schedule, r: RandomSteps) -> tuple[BlockRV, tuple[str, int], tuple[PrimExpr, ...]]:
    """Some access to a buffer that is no parameter, whose layout is the schedule's own affair, and the shape.

    Where there is none, an access that does not exist.
    """
    parameters = sch.mod["main"].buffer_map.values()
    for _ in range(8):
        block = r.block(sch)
        stmt = sch.block(block).block
        accesses = [("read", i, x.buffer) for i, x in enumerate(stmt.reads)]
        accesses += [("write", i, x.buffer) for i, x in enumerate(stmt.writes)]
        own = [(kind, i, x.shape) for kind, i, x in accesses if not any(x is b for b in parameters)]
        if own:
            kind, index, shape = r.rng.choice(own)
            return block, (kind, index), shape
    return r.block(sch), ("write", 9), ()


def _transform_layout(sch: Schedule, r: RandomSteps) -> None:
    block, access, shape = _own_access(sch, r)
    sch.transform_layout(block, access, random_index_map(r.rng, shape), pad_value=random_pad_value(r.rng))


def _transform_block_layout(sch: Schedule, r: RandomSteps) -> None:
    block = r.block(sch)
    axes = sch.block(block).block.iter_vars
    extents = [a.dom.extent for a in axes if a.dom is not None]
    sch.transform_block_layout(block, random_index_map(r.rng, extents))


def _set_axis_separator(sch: Schedule, r: RandomSteps) -> None:
    block, access, _ = _own_access(sch, r)
    sch.set_axis_separator(block, access, r.rng.choice([[], [1], [1, 2]]))


def _reindex(sch: Schedule, r: RandomSteps) -> None:
    sch.reindex(r.block(sch), (r.rng.choice(["read", "write"]), r.rng.choice([0, 0, 1])))


def _reindex_cache(sch: Schedule, r: RandomSteps) -> None:
    block, kind = r.block(sch), r.rng.choice(["read", "write"])
    stmt = sch.block(block).block
    index = _index(r) if kind == "read" else 0
    regions = stmt.reads if kind == "read" else stmt.writes
    used: dict[object, None] = {}
    for x in regions[index : index + 1]:
        for k in x.region:
            post_order_visit(k.min, lambda n: used.setdefault(n))
    places = [k for k, a in enumerate(stmt.iter_vars) if a.var in used]
    extents = [a.dom.extent for a in stmt.iter_vars if a.dom is not None]
    inner = random_index_map(r.rng, [extents[k] for k in places], steps=1)
    step = sch.reindex_cache_read if kind == "read" else sch.reindex_cache_write
    step(
        block,
        index,
        r.rng.choice(["global", "shared"]),
        IndexMap.from_func(lambda *i: inner.map_indices([i[k] for k in places]), ndim=len(extents)),
    )


def _unsafe_set_dtype(sch: Schedule, r: RandomSteps) -> None:
    """A wider type, so that nothing is lost."""
    block = r.block(sch)
    writes = sch.block(block).block.writes
    wider = {"float32": "float64", "int32": "int64"}.get(str(writes[0].buffer.dtype) if writes else "", "float64")
    sch.unsafe_set_dtype(block, 0, wider)


def _annotate_buffer_access(sch: Schedule, r: RandomSteps) -> None:
    block = r.block(sch)
    reads = sch.block(block).block.reads
    whole = [(0, s) for s in (reads[0].buffer.shape if reads else ())]
    sch.annotate_buffer_access(block, 0, "read", lambda *_: whole)


def _memory(r: RandomSteps) -> str:
    return r.rng.choice(["global", "local", "shared"])


def _cache_index(sch: Schedule, r: RandomSteps) -> None:
    sch.cache_index(r.block_or_name(sch), _memory(r), r.rng.choice([0, 1, 2]))


def _cache_inplace(sch: Schedule, r: RandomSteps) -> None:
    sch.cache_inplace(r.block_or_name(sch), _index(r), _memory(r))


def _copy_at(method: str) -> Step:
    def step(sch: Schedule, r: RandomSteps) -> None:
        block = r.block(sch)
        getattr(sch, method)(r.loop_of_some(sch, [block]), block, _index(r), _memory(r))

    return step


def _rolling_buffer(sch: Schedule, r: RandomSteps) -> None:
    block = r.block(sch)
    users = sch.get_consumers(block)
    if users and r.rng.random() < 0.6:
        # Only what is computed where it is used comes around again.
        sch.compute_at(block, r.loop_of_some(sch, users))
    sch.rolling_buffer(block, 0)


_INSIDE_A_TILE = frozenset("split fuse reorder unroll vectorize cache_read cache_write reorder_block_iter_var".split())


def _tensorize(sch: Schedule, r: RandomSteps) -> None:
    """By an intrinsic made for what some loop or block computes; its implementation is scheduled at random."""
    block = r.block(sch)
    loops = sch.get_loops(block)
    target: BlockRV | LoopRV = block
    if loops and r.rng.random() < 0.8:
        target = loops[max(0, len(loops) - r.rng.choice([1, 1, 2, 2, 3, 4]))]
    preserve = r.rng.random() < 0.7
    tried = sch.copy()
    if isinstance(sch, WatchedSchedule):
        sch.note()
    tile = Tile.of(tried.block(tried.blockize(target, preserve) if isinstance(target, LoopRV) else block).block)
    # Now and then something else, which must be refused unless it comes to the same.
    wrong = r.rng.randrange(1 << 30) if r.rng.random() < 0.15 else None
    inside = WatchedSchedule(tile.function("implementation", strided=r.rng.random() < 0.5, wrong=wrong))
    RandomSteps(r.rng, _INSIDE_A_TILE).run(inside, r.rng.randint(0, 4))
    name = register_tile(tile.function("description", strided=False, wrong=wrong), inside.mod["main"])
    sch.tensorize(target, name, preserve)


def _unsafe_hide_buffer_access(sch: Schedule, r: RandomSteps) -> None:
    """Reads of what nobody writes, on which no order depends; now and then what does not exist."""
    block = r.block(sch)
    func, stmt = sch.mod["main"], sch.block(block).block
    written: set[Buffer] = set()
    post_order_visit(func.body, lambda n: written.add(n.buffer) if isinstance(n, BufferStore) else None)
    post_order_visit(func.body, lambda n: written.update(w.buffer for w in n.writes) if isinstance(n, Block) else None)
    inputs = set(func.buffer_map.values()) - written
    harmless = [i for i, x in enumerate(stmt.reads) if x.buffer in inputs]
    if r.rng.random() < 0.1:
        harmless.append(len(stmt.reads))
    sch.unsafe_hide_buffer_access(block, "read", r.rng.sample(harmless, r.rng.randint(0, len(harmless))))


def _enter_postproc(sch: Schedule, r: RandomSteps) -> None:
    del r
    sch.enter_postproc()


def _unchecked(sch: Schedule, r: RandomSteps) -> None:
    """A step that only comparing programs holds to its meaning; a refusal must undo all that came with it."""
    program, insts = dict(sch.mod.functions), len(sch.trace.insts) if sch.trace is not None else 0
    step = r.rng.choice(_UNCHECKED)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", RaceWarning)
            with sch.unchecked("a random step"):
                step(sch, r)
    except (ScheduleError, RaceWarning) as error:
        assert sch.mod.functions == program, "the program has changed"
        assert sch.trace is None or len(sch.trace.insts) == insts, "the trace has changed"
        assert sch.enable_check, "checks are still off"
        if isinstance(sch, WatchedSchedule):
            sch.note()
        if isinstance(error, ScheduleError):
            raise
        refused = ScheduleError(str(error))
        refused.primitive = "enable_checks"
        raise refused from error


_UNCHECKED = [
    *[_reorder] * 3, *[_mark("parallel"), _mark("vectorize"), _bind] * 2, _decompose_reduction, _compute_at,
    _reverse_compute_at, _rfactor, _inline("compute_inline"), _inline("reverse_compute_inline"), _split,
]  # fmt: skip


_STEPS: list[tuple[str, Step]] = [
    *[("split", _split)] * 4,
    *[("fuse", _fuse)] * 3,
    *[("reorder", _reorder)] * 3,
    *[("compute_at", _compute_at)] * 5,
    *[("reverse_compute_at", _reverse_compute_at)] * 5,
    *[("decompose_reduction", _decompose_reduction)] * 3,
    *[("rfactor", _rfactor)] * 2,
    *[("decompose_padding", _decompose_padding)] * 2,
    ("pad_einsum", _pad_einsum),
    ("fuse_reduction_epilogue", _fuse_reduction_epilogue),
    *[("cache_read", _cache_read)] * 2,
    *[("cache_write", _cache_write)] * 2,
    ("cache_index", _cache_index),
    ("cache_inplace", _cache_inplace),
    ("read_at", _copy_at("read_at")),
    ("write_at", _copy_at("write_at")),
    ("rolling_buffer", _rolling_buffer),
    ("enable_checks", _unchecked),
    *[("compute_inline", _inline("compute_inline"))] * 2,
    *[("reverse_compute_inline", _inline("reverse_compute_inline"))] * 2,
    ("blockize", _blockize),
    ("parallel", _mark("parallel")),
    ("vectorize", _mark("vectorize")),
    ("unroll", _mark("unroll")),
    ("set_scope", _set_scope),
    ("storage_align", _storage_align),
    ("annotate", _annotate),
    ("add_unit_loop", _unit_loop),
    ("reorder_block_iter_var", _iter_order),
    ("sample_perfect_tile", _tile),
    ("sample_partitioned_tile", _partitioned_tile),
    ("sample_categorical", _categorical),
    ("sample_compute_location", _compute_location),
    ("unannotate", _unannotate),
    ("get_output_blocks", _output),
    ("get_child_blocks", _child),
    *[("tensorize", _tensorize)] * 4,
    ("unsafe_hide_buffer_access", _unsafe_hide_buffer_access),
    ("enter_postproc", _enter_postproc),
    *[("bind", _bind)] * 2,
    ("loop_partition", _partition),
    ("merge", _merge),
    *[("transform_layout", _transform_layout)] * 3,
    *[("transform_block_layout", _transform_block_layout)] * 2,
    ("set_axis_separator", _set_axis_separator),
    ("reindex", _reindex),
    *[("reindex_cache_read", _reindex_cache)] * 2,
    ("unsafe_set_dtype", _unsafe_set_dtype),
    ("annotate_buffer_access", _annotate_buffer_access),
]
