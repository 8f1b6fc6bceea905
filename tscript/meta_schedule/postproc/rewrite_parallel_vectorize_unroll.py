"""Limits noted on the root block become parallel, vectorized and unrolled loops."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tscript.ir.expr import IntImm, PrimExpr, Var
from tscript.ir.functor import substitute
from tscript.ir.linear import linear_form
from tscript.ir.occurrences import variables
from tscript.ir.stmt import BufferRegion, ForKind
from tscript.meta_schedule.loop_kinds import Nest, block_of, extent_of, has_one_child, is_plain, is_spatial
from tscript.meta_schedule.postproc.postproc import Postproc
from tscript.schedule.errors import ScheduleError
from tscript.schedule.rv import BlockRV, LoopRV
from tscript.schedule.schedule import Schedule

_KEYS = ("parallel", "vectorize", "unroll_explicit", "unroll_implicit")


@dataclass
class _Limits:
    """What the root block says: instances in parallel, lanes, steps to unroll, by whom; -1 for nothing."""

    parallel: int = -1
    vectorize: int = -1
    unroll: int = -1
    explicit: bool = False


class RewriteParallelVectorizeUnroll(Postproc):
    """Carries out what `ParallelizeVectorizeUnroll` noted on the root block.

    For each block below: leading spatial loops are fused and run in parallel until their product exceeds the limit;
    trailing spatial loops over neighbouring elements are fused and vectorized while their product stays within the
    limit, or cut to it where the innermost alone is longer; blocks that reduce are marked to be unrolled, unless loops
    of theirs are unrolled already. A loop whose iterations depend on each other stays serial.

    >>> import tscript
    >>> from tscript.testing.workloads import add
    >>> sch = tscript.tir.Schedule(add(1024).func)
    >>> sch.annotate(sch.get_block("root"), "meta_schedule.parallel", 16)
    >>> sch.annotate(sch.get_block("root"), "meta_schedule.vectorize", 64)
    >>> RewriteParallelVectorizeUnroll().apply(sch)
    True
    >>> [loop.kind == tscript.tir.ForKind.VECTORIZED for loop in map(sch.get, sch.get_loops("C"))]
    [False, True]
    """

    def apply(self, sch: Schedule) -> bool:
        """Always True: a loop that cannot be rewritten stays as it is."""
        for var in sorted(sch.mod.functions, key=lambda v: v.name_hint):
            ref = sch.state.root_block(var)
            if ref is None or not any(f"meta_schedule.{k}" in ref.block.annotations for k in _KEYS):
                continue
            root = sch.get_block(ref.block.name_hint, var.name_hint)
            limits = _take_limits(sch, root)
            for block in sch.get_child_blocks(root):
                loops = sch.get_loops(block)
                if loops:
                    _rewrite(sch, block, loops, limits)
        return True


def _take_limits(sch: Schedule, root: BlockRV) -> _Limits:
    """The limits of a root block, which is rid of them."""
    annotations = block_of(sch, root).annotations
    found: dict[str, int] = {}
    for key in _KEYS:
        value: Any = annotations.get(f"meta_schedule.{key}")
        if value is not None:
            found[key] = int(value.value if isinstance(value, IntImm) else value)
            sch.unannotate(root, f"meta_schedule.{key}")
    explicit = found.get("unroll_explicit")
    steps = found.get("unroll_implicit", -1) if explicit is None else explicit
    return _Limits(found.get("parallel", -1), found.get("vectorize", -1), steps, explicit is not None)


def _rewrite(sch: Schedule, block: BlockRV, loops: list[LoopRV], limits: _Limits) -> None:
    nest = Nest.around(sch, block)
    n = len(loops)
    fusible = fusible_lanes(sch, block, nest)
    parallel, length = nest.count_parallel(limits.parallel) if limits.parallel > 0 else (0, 1)
    parallel = parallel if length > 1 else 0
    lanes, width = nest.count_vectorized(limits.vectorize) if limits.vectorize > 0 else (0, 1)
    lanes = min(lanes, fusible) if width > 1 else 0
    everything = set(nest.kinds) == {"S"} and all(map(is_plain, nest.loops)) and fusible == n
    if parallel and limits.vectorize > 1 and everything and _is_chain(nest):
        first = _cut(sch, loops, limits.vectorize)
    else:
        parallel = min(parallel, n - lanes)
        first = loops[0]
        if parallel:
            first = sch.fuse(*loops[:parallel])
            _parallel(sch, first)
        if lanes:
            fused = sch.fuse(*loops[n - lanes :])
            _vectorize(sch, fused)
            first = fused if lanes == n else first
        elif fusible and parallel < n and _is_long(nest, limits.vectorize):
            outer, inner = sch.split(loops[-1], [None, limits.vectorize])
            _vectorize(sch, inner)
            first = outer if n == 1 else first
    by_hand = any(loop.kind == ForKind.UNROLLED for loop in nest.loops)
    if limits.unroll > 0 and not by_hand and not is_spatial(block_of(sch, block)):
        sch.annotate(first, "pragma_auto_unroll_max_step", limits.unroll)
        sch.annotate(first, "pragma_unroll_explicit", int(limits.explicit))


def _is_long(nest: Nest, limit: int) -> bool:
    """Whether the innermost loop could be a vector, were it not longer than the limit."""
    last = nest.loops[-1]
    return nest.kinds[-1] == "S" and is_plain(last) and has_one_child(last) and (extent_of(last) or 0) > limit > 1


def _is_chain(nest: Nest) -> bool:
    return all(outer.body is inner for outer, inner in zip(nest.loops, nest.loops[1:], strict=False))


def _cut(sch: Schedule, loops: list[LoopRV], lanes: int) -> LoopRV:
    """All loops as one, in parallel pieces of one vector each."""
    outer, inner = sch.split(sch.fuse(*loops), [None, lanes])
    _parallel(sch, outer)
    _vectorize(sch, inner)
    return outer


def _parallel(sch: Schedule, loop: LoopRV) -> None:
    try:
        sch.parallel(loop)
    except ScheduleError:
        pass  # iterations that depend on each other stay in order


def _vectorize(sch: Schedule, loop: LoopRV) -> None:
    try:
        sch.vectorize(loop)
    except ScheduleError:
        pass


def fusible_lanes(sch: Schedule, block: BlockRV, nest: Nest) -> int:
    """How many innermost loops of a block can become one vector, by what each access does with them."""
    realize = sch.state.realize_of(sch.get_sref(block))
    bindings = {v.var: value for v, value in zip(realize.block.iter_vars, realize.iter_values, strict=True)}
    regions = [*realize.block.reads, *realize.block.writes]
    return min((_lanes_of(region, bindings, nest) for region in regions), default=len(nest.loops))


def _lanes_of(region: BufferRegion, bindings: dict[Var, PrimExpr], nest: Nest) -> int:
    """Loops that walk over one region without gaps: each either leaves it alone, or goes on where the one inside of it
    ends. The innermost may have gaps, since gathers are lanes, too.
    """
    strides = _strides(region, bindings)
    count = 0
    expected: int | None = None
    for loop in reversed(nest.loops):
        stride = strides.get(loop.loop_var, 0)
        if stride and expected is None:
            if stride != 1 and count:
                return count
        elif stride and stride != expected:
            return count
        if stride:
            expected = stride * (extent_of(loop) or 0)
        count += 1
    return count


def _strides(region: BufferRegion, bindings: dict[Var, PrimExpr]) -> dict[Var, int]:
    """Elements from one iteration of a loop to the next, for the last dimension that each loop moves along.

    A loop that moves along a dimension in other than even steps, or across one of unknown size, has the stride -1.
    """
    found: dict[Var, int] = {}
    row = 1
    for dimension, size in zip(reversed(region.region), reversed(region.buffer.shape), strict=True):
        terms, _ = linear_form(substitute(dimension.min, bindings))
        for term, factor in terms.items():
            if isinstance(term, Var):
                found.setdefault(term, factor * row if row > 0 else -1)
            else:
                for v in variables(term):
                    found.setdefault(v, -1)
        row = row * size.value if isinstance(size, IntImm) and row > 0 else -1
    return found
