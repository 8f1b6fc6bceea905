"""A block uses a buffer in the order of its own axes."""

from __future__ import annotations

from itertools import pairwise

from tscript.ir.buffer import Buffer
from tscript.ir.expr import IntImm, PointerType, PrimExpr, Range, Var
from tscript.ir.stmt import BufferRegion, SeqStmt, Stmt
from tscript.schedule.buffers import accessed, cache_of, resolve_access
from tscript.schedule.checks import require_region_cover, require_scope_root, require_stage_pipeline
from tscript.schedule.core import ScheduleCore
from tscript.schedule.coverage import written_box
from tscript.schedule.errors import refuse
from tscript.schedule.instruction import InstructionKind, Outputs, access, block
from tscript.schedule.loop_checks import require_only_child
from tscript.schedule.point_copies import Copy, PointAccess, point_access, put_copy, require_copy_back
from tscript.schedule.primitive import primitive
from tscript.schedule.rv import BlockRV
from tscript.schedule.sref import StmtSRef
from tscript.schedule.staging import CachedAccess, Location
from tscript.schedule.symbols import loop_ranges, no_less, outer_bounds


@primitive(InstructionKind("ReIndex", "reindex", (block(), access("buffer")), Outputs.ONE))
def reindex(s: ScheduleCore, block: BlockRV | str, buffer: tuple[str, int] | str | Buffer) -> BlockRV:
    """Let a block use a copy of a buffer that is subscripted by just the axes that occur; the copying block.

    The buffer is given by ("read", index) or ("write", index), by name, or itself. The copy is called
    `<buffer>_reindex`, has a dimension for each axis in the subscripts, and is made before the loops of the block (or
    copied back after them). The block uses the buffer at the same subscripts throughout; its loops nest tightly.

    >>> import tscript
    >>> from tscript.script import tir as T
    >>> @T.prim_func
    ... def func(A: T.Buffer((4, 8), "float32"), B: T.Buffer((8, 4), "float32")):
    ...     for i, j in T.grid(8, 4):
    ...         with T.block("B"):
    ...             vi, vj = T.axis.remap("SS", [i, j])
    ...             B[vi, vj] = A[vj, vi]
    >>> sch = tscript.tir.Schedule(func)
    >>> copy = sch.reindex("B", ("read", 0))
    >>> sch.get(copy).writes, sch.get(sch.get_block("B")).reads
    ((A_reindex[v0, v1],), (A_reindex[vi, vj],))
    """
    target = s.block(block)  # pyright: ignore[reportArgumentType]
    root = require_scope_root(s.state, target)
    kind, index = resolve_access(target.block, buffer)
    old = accessed(target.block, index, kind).buffer
    require_stage_pipeline(s, root)
    nest = _require_chain(s, target, root)
    found = point_access(s, CachedAccess(old.scope(), target, root, index, old, []), kind)
    cache = _reindexed(old, found)
    at = [a.var for a in found.axes]
    if kind == "write":
        require_copy_back(s, found)
        _require_all_runs(s, found, cache)
    else:
        require_region_cover(s.state, target)
    loops = [Var(f"ax{k}", e.dtype) for k, e in enumerate(found.extents)]
    copy = Copy(
        [(v, IntImm(v.dtype, 0), e) for v, e in zip(loops, found.extents, strict=True)],
        [f"v{k}" for k in range(len(loops))],
        list(loops),
        [],
    )
    location = Location(nest if kind == "read" else _after(root, nest), None)
    name = f"{(old if kind == 'write' else cache).name}_reindex"
    made = put_copy(s, found, cache, at, name, copy, location, back=kind == "write")
    s.record_as(buffer=(kind, index))
    return made


def _require_chain(s: ScheduleCore, target: StmtSRef, root: StmtSRef) -> Stmt:
    """The outermost statement around a block that holds nothing else, directly in the block around."""
    loops, realize = s.state.loops_of(target), s.state.realize_of(target)
    for outer, inner in pairwise(loops):
        require_only_child(outer.loop, inner.loop)
    if loops and loops[-1].loop.body is not realize:
        refuse("{0} has more in its body than {1}", loops[-1].loop, target.block)
    top: Stmt = loops[0].loop if loops else realize
    body = root.block.body
    if body is not top and not (isinstance(body, SeqStmt) and any(p is top for p in body.seq)):
        refuse("{0} stands under a condition, and a copy outside of it would be made without it", target.block)
    return top


def _after(root: StmtSRef, nest: Stmt) -> Stmt | None:
    """The statement that follows in the block around, if any."""
    body = root.block.body
    parts = list(body.seq) if isinstance(body, SeqStmt) else [body]
    place = next(k for k, p in enumerate(parts) if p is nest)
    return parts[place + 1] if place + 1 < len(parts) else None


def _reindexed(old: Buffer, found: PointAccess) -> Buffer:
    """The new buffer, with a dimension for each axis."""
    name = f"{old.name}_reindex"
    pointer = old.data.type_annotation
    assert isinstance(pointer, PointerType)
    made = cache_of(old, old.scope(), found.extents)
    return made.replace(name=name, data=Var(name, PointerType(pointer.element_type, old.scope())))


def _require_all_runs(s: ScheduleCore, found: PointAccess, cache: Buffer) -> None:
    """Refuse a block that does not run for all values of its axes: the copy back would take what was never written."""
    target = found.access.target
    one = [Range.from_min_extent(a.var, IntImm(a.var.dtype, 1)) for a in found.axes]
    bounds = outer_bounds(s.state, target)
    box = written_box(
        s.state.realize_of(target), BufferRegion(cache, tuple(one)), loop_ranges(s.state.loops_of(target)), bounds
    )
    whole = box is not None and not box.conditions
    for lows, highs, extent in zip(box.lows, box.highs, found.extents, strict=True) if box is not None else ():
        zero: PrimExpr = IntImm(extent.dtype, 0)
        whole = whole and all(no_less(zero, e, bounds) for e in lows)
        whole = whole and all(no_less(e, extent - 1, bounds) for e in highs)
    if not whole:
        refuse(
            f"{{0}} is not seen to run for all values of its axes, so some elements of `{found.access.buffer.name}` "
            "would be overwritten by what was never computed",
            target.block,
        )
