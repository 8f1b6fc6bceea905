"""What a block reads or writes of a buffer is told by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tscript.analysis.access_regions import detect_regions
from tscript.analysis.ranges import range_bounds
from tscript.arith import simplify
from tscript.ir import construct as make
from tscript.ir import expr as ex
from tscript.ir.buffer import Buffer
from tscript.ir.expr import BufferLoad, IntImm, PrimExpr, Range, Var
from tscript.ir.functor import pre_order_visit, substitute
from tscript.ir.index_map import IndexMap
from tscript.ir.stmt import Block, BufferRegion, BufferStore
from tscript.schedule.access_notes import with_explicit
from tscript.schedule.buffers import accessed
from tscript.schedule.buffers import buffer_index as index_of
from tscript.schedule.core import ScheduleCore
from tscript.schedule.coverage import writes_all
from tscript.schedule.errors import refuse
from tscript.schedule.instruction import Arg, InstructionKind, Role, block
from tscript.schedule.layout import find_exception, require_closed
from tscript.schedule.primitive import primitive
from tscript.schedule.primitives.unsafe_hide_buffer_access import access_kind
from tscript.schedule.rv import BlockRV
from tscript.schedule.symbols import axis_ranges
from tscript.schedule.trace_text import unique_names
from tscript.support.wording import kind_of

RangesLike = IndexMap | Callable[..., Sequence[Any]]

_KIND = InstructionKind(
    "AnnotateBufferAccess",
    "annotate_buffer_access",
    (
        block(),
        Arg("buffer_index", Role.INPUT),
        Arg("buf_type", Role.INPUT),
        Arg("gen_new_ranges", Role.INPUT, is_ranges=True),
    ),
)


@primitive(_KIND)
def annotate_buffer_access(
    s: ScheduleCore, block: BlockRV, buffer_index: int | str | Buffer, buf_type: str, gen_new_ranges: RangesLike
) -> None:
    """Say which part of a buffer each run of a block reads or writes (`buf_type` "read" or "write").

    `gen_new_ranges` is a function of the axes of the block. It gives, for each dimension of the buffer, a pair of a
    begin and an end, or one expression for a single element. (An IndexMap gives all begins and ends in a row.) The
    block keeps, as annotation `explicit_read_region` or `explicit_write_region`, that the region was given by hand.

    Where subscripts are integer arithmetic, the region must hold all that the block accesses, and a written region
    nothing else. Subscripts that are computed from floats or read from memory are beyond proof: there the caller
    knows best, and the interpreter reports an access outside the region.

    >>> import tscript
    >>> from tscript.script import tir as T
    >>> @T.prim_func
    ... def half(A: T.Buffer((16,), "float32"), B: T.Buffer((8,), "float32")):
    ...     for i in range(8):
    ...         with T.block("B"):
    ...             v = T.axis.spatial(8, i)
    ...             B[v] = A[T.Cast("int32", T.floor(T.Cast("float32", v) * T.float32(1.9)))]
    >>> sch = tscript.tir.Schedule(half)
    >>> sch.annotate_buffer_access(sch.get_block("B"), 0, "read", lambda v: [(v, v * 2 + 1)])
    >>> sch.get(sch.get_block("B")).reads
    (A[v:v + (v + 1)],)
    """
    target = s.block(block)
    stmt = target.block
    kind = access_kind(buf_type, stmt)
    index = index_of(stmt, buffer_index, kind)
    buffer = accessed(stmt, index, kind).buffer
    ends = _as_ends(gen_new_ranges, stmt, buffer)
    region = _region(ends, stmt, buffer)
    regions = list(stmt.reads if kind == "read" else stmt.writes)
    regions[index] = region
    changed = stmt.replace(**{f"{kind}s": tuple(regions)}, annotations=with_explicit(stmt, kind, index))
    _require_right(changed, kind, region, [r for r in regions if r.buffer is buffer])
    s.state.replace(target, changed)
    s.record_as(buffer_index=index, gen_new_ranges=ends)


def _as_ends(given: RangesLike, block: Block, buffer: Buffer) -> IndexMap:
    """The begins and ends of all dimensions as a map from the axes of a block."""
    axes = [axis.var for axis in block.iter_vars]
    if isinstance(given, IndexMap):
        if len(given.initial_indices) != len(axes) or len(given.final_indices) != 2 * buffer.ndim:
            refuse(
                f"the ranges must come from the {len(axes)} axes of {{0}}, and be a begin and an end for each of the "
                f"{buffer.ndim} dimensions of `{buffer.name}`",
                block,
            )
        made = given
    elif callable(given):
        named = [Var(n, v.dtype) for n, v in zip(unique_names(IndexMap(tuple(axes), ())), axes, strict=True)]
        made = IndexMap(tuple(named), tuple(_ends_of(given(*named), block, buffer)))
    else:
        raise TypeError(f"ranges are given by a function of the axes, not by {kind_of(given)}")
    for e in made.final_indices:
        if not e.dtype.is_int or e.dtype.lanes != 1:
            refuse(f"`{e}`, an end of a range of `{buffer.name}`, is no integer", block)
        require_closed(made, e, block)
    return made


def _ends_of(items: Any, block: Block, buffer: Buffer) -> list[PrimExpr]:
    if not isinstance(items, (list, tuple)):
        items = (items,)
    if len(items) != buffer.ndim:  # pyright: ignore[reportUnknownArgumentType]
        refuse(f"`{buffer.name}` has {buffer.ndim} dimensions, but {len(items)} ranges are given", block)  # pyright: ignore[reportUnknownArgumentType]
    found: list[PrimExpr] = []
    for item, size in zip(items, buffer.shape, strict=True):  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        if isinstance(item, (list, tuple)) and len(item) != 2:  # pyright: ignore[reportUnknownArgumentType]
            refuse(f"a range of `{buffer.name}` is a begin and an end, not {item!r}", block)
        pair: Sequence[Any] = item if isinstance(item, (list, tuple)) else (item, make.add(make.convert(item), 1))  # pyright: ignore[reportUnknownVariableType]
        for e in pair:  # pyright: ignore[reportUnknownVariableType]
            end = make.convert(e)
            found.append(make.cast(end, size.dtype) if isinstance(end, IntImm) else end)
    return found


def _region(ends: IndexMap, block: Block, buffer: Buffer) -> BufferRegion:
    axes = {v: axis.var for v, axis in zip(ends.initial_indices, block.iter_vars, strict=True)}
    bounds = range_bounds(axis_ranges(block))
    found = [simplify(substitute(e, axes), bounds) for e in ends.final_indices]
    ranges = [
        Range.from_min_extent(begin, simplify(make.sub(end, begin), bounds))
        for begin, end in zip(found[::2], found[1::2], strict=True)
    ]
    return BufferRegion(buffer, tuple(ranges))


# -- whether it is right --------------------------------------------------------------------------


def _require_right(block: Block, kind: str, region: BufferRegion, given: Sequence[BufferRegion]) -> None:
    """Refuse a region that leaves out something the block accesses, or that it does not write entirely."""
    reads, writes = detect_regions(block)
    found = next((r for r in (reads if kind == "read" else writes) if r.buffer is region.buffer), None)
    plain = _plain_dimensions(block, region.buffer)
    if found is not None and len(given) == 1:
        for d, (have, want) in enumerate(zip(region.region, found.region, strict=True)):
            if plain[d]:
                _require_inside(block, kind, region.buffer, d, have, want)
    if kind == "write" and all(plain) and not writes_all(block, region):
        refuse(
            f"{{0}} is not seen to write all of `{region}`, and what it leaves out would count as written",
            block,
            hint="give just what each run of the block writes",
        )


def _require_inside(block: Block, kind: str, buffer: Buffer, dim: int, outer: Range, inner: Range) -> None:
    bounds = range_bounds(axis_ranges(block))
    below = make.compare(ex.LE, outer.min, inner.min)
    above = make.compare(ex.LE, inner.min + inner.extent, outer.min + outer.extent)
    for condition in (below, above):
        known = simplify(condition, bounds)
        if isinstance(known, IntImm) and known.value:
            continue
        witness = find_exception(condition, axis_ranges(block)) if isinstance(condition, ex.LE) else ""
        if witness is None:
            continue
        at = f", for example where {witness}" if witness else ""
        refuse(
            f"{{0}} {kind}s `{buffer.name}` from {inner.min} to {simplify(inner.min + inner.extent - 1, bounds)} in "
            f"dimension {dim}, which the range from {outer.min} does not hold{at}",
            block,
        )


def _plain_dimensions(block: Block, buffer: Buffer) -> list[bool]:
    """Whether the subscripts of each dimension of a buffer are integer arithmetic, so that they can be told."""
    plain = [True] * buffer.ndim

    def look(node: object) -> bool:
        if isinstance(node, (BufferLoad, BufferStore)) and node.buffer is buffer:
            for d, i in enumerate(node.indices):
                plain[d] = plain[d] and _is_plain(i)
        return True

    pre_order_visit(block.body, look)
    return plain


_ARITHMETIC = (IntImm, Var, ex.Add, ex.Sub, ex.Mul, ex.FloorDiv, ex.FloorMod, ex.Min, ex.Max, ex.Ramp, ex.Broadcast)


def _is_plain(e: PrimExpr) -> bool:
    found = True

    def look(node: object) -> bool:
        nonlocal found
        if isinstance(node, PrimExpr):
            is_cast = isinstance(node, ex.Cast) and node.value.dtype.is_int
            found = found and node.dtype.is_int and (is_cast or isinstance(node, _ARITHMETIC))
        return found

    pre_order_visit(e, look)
    return found
