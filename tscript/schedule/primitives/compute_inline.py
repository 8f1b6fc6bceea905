"""A block disappears into those that read what it computes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tscript.analysis import detect_regions
from tscript.analysis.affine import DigitString
from tscript.ir import construct as make
from tscript.ir.expr import BufferLoad, IntImm, IterVar, PrimExpr, Range, Var
from tscript.ir.functor import substitute
from tscript.ir.stmt import Block, BufferRegion, BufferStore
from tscript.schedule.buffers import same_region
from tscript.schedule.checks import (
    require_complete,
    require_not_output,
    require_scope_root,
    require_stage_pipeline,
)
from tscript.schedule.core import ScheduleCore
from tscript.schedule.coverage import relax_range
from tscript.schedule.errors import refuse
from tscript.schedule.inlining import (
    find_strings,
    has_let,
    require_closed,
    require_lasting_inputs,
    require_no_overwrite,
    require_plain_loads,
    require_pure,
    solve_strings,
)
from tscript.schedule.instruction import InstructionKind, block
from tscript.schedule.primitive import primitive
from tscript.schedule.rewrite import BlockReuse, TrackingRewriter, followed, fresh_copy, remove_stmt, require_removable
from tscript.schedule.rv import BlockRV
from tscript.schedule.sref import StmtSRef


@primitive(InstructionKind("ComputeInline", "compute_inline", (block(),)))
def compute_inline(s: ScheduleCore, block: BlockRV | str) -> None:
    """Compute the values of a block where they are read, and remove the block and its buffer.

    The block is complete, has no init, and its body is one store to a buffer allocated in the scope, at subscripts that
    determine all axes (`B[vi, vj]`, `B[vj * 4 + vi]`). The scope is a pipeline of stages, and nothing uses the
    buffer but loads of single elements.

    >>> import tscript
    >>> from tscript.script import tir as T
    >>> @T.prim_func
    ... def func(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    ...     B = T.alloc_buffer((8,))
    ...     for i in range(8):
    ...         with T.block("B"):
    ...             v = T.axis.spatial(8, i)
    ...             B[v] = A[v] * T.float32(2)
    ...     for i in range(8):
    ...         with T.block("C"):
    ...             v = T.axis.spatial(8, i)
    ...             C[v] = B[v] + T.float32(1)
    >>> sch = tscript.tir.Schedule(func)
    >>> sch.compute_inline("B")
    >>> sch.get(sch.get_block("C")).body.value
    A[v] * T.float32(2.0) + T.float32(1.0)
    """
    root, new, reuse = plan_compute_inline(s, s.block(block))  # pyright: ignore[reportArgumentType]
    s.state.replace(root, new, reuse, "inlined")


def plan_compute_inline(s: ScheduleCore, target: StmtSRef) -> tuple[StmtSRef, Block, BlockReuse]:
    """The block around, as it is after inlining, and what becomes of its blocks; refused where that is not allowed."""
    stmt = target.block
    root = require_scope_root(s.state, target)
    if stmt.init is not None:
        refuse("{0} has a T.init(), so its values are not computed by one store", stmt)
    if len(dict.fromkeys(w.buffer for w in stmt.writes)) != 1:
        refuse("{0} writes several buffers; only one can be inlined", stmt)
    require_stage_pipeline(s, root)
    require_not_output(s.state, target, root)
    require_complete(s.state, target, root)
    store, strings = _stored(stmt)
    gone = require_removable(s.state, target, root)
    buffer = store.buffer
    require_plain_loads(root.block, buffer)
    require_pure(stmt, store.value, buffer)
    require_closed(s.state, target, root, store.value)
    require_no_overwrite(s.state, target, root)
    require_lasting_inputs(s.state, target, root)
    remaining, reuse = remove_stmt(root.block, gone)
    inliner = _Inline(stmt, store, strings)
    new = remaining.replace(
        body=inliner.rewrite(remaining.body),
        alloc_buffers=tuple(b for b in remaining.alloc_buffers if b is not buffer),
    )
    return root, new, followed(reuse, inliner.block_reuse)


def _stored(stmt: Block) -> tuple[BufferStore, list[DigitString]]:
    """The only store of the body, and its subscripts as digits of the axes."""
    store = stmt.body
    if not isinstance(store, BufferStore) or store.predicate is not None:
        refuse("the body of {0} is more than one store of a single element", stmt)
    if store.buffer is not stmt.writes[0].buffer or stmt.match_buffers or stmt.alloc_buffers:
        refuse("{0} has buffers of its own or stores through a view", stmt)
    strings = find_strings(store.indices, stmt.iter_vars, keep_units=True)
    if strings is None:
        shown = ", ".join(str(i) for i in store.indices)
        refuse(
            f"the subscripts in `{store.buffer.name}[{shown}]` do not determine the axes of {{0}}",
            stmt,
            hint="each axis must be found from the subscripts, as in B[vi, vj] or B[vi * 4 + vj]",
        )
    return store, strings


class _Inline(TrackingRewriter):
    """Puts the stored value in the place of loads, and brings the declared reads of blocks up to date."""

    def __init__(self, block: Block, store: BufferStore, strings: Sequence[DigitString]) -> None:
        super().__init__()
        self.block = block
        self.buffer = store.buffer
        self.value = store.value
        self.strings = strings
        self.binds = has_let(store.value)

    def rewrite_BufferLoad(self, node: BufferLoad) -> PrimExpr:
        """The value instead of a load of the buffer."""
        new = self._rebuilt(node)
        if node.buffer is not self.buffer:
            return new
        values = solve_strings(self.strings, self.block.iter_vars, new.indices)
        plain: Mapping[Var, PrimExpr] = {v: make.cast(e, v.dtype) for v, e in values.items()}
        value = fresh_copy(self.value) if self.binds else self.value
        return substitute(value, plain)

    def _rebuilt(self, node: BufferLoad) -> BufferLoad:
        return node.replace(
            indices=tuple(self.rewrite(i) for i in node.indices),
            predicate=None if node.predicate is None else self.rewrite(node.predicate),
        )

    def rewrite_BufferRegion(self, node: BufferRegion) -> BufferRegion:
        """Regions of other buffers, whose ends may load the buffer."""
        if node.buffer is self.buffer:
            return node
        return node.replace(region=tuple(self.rewrite(r) for r in node.region))

    def rewrite_Block(self, node: Block) -> Block:
        """The block, with its reads found anew; reads that were declared by hand stay, but for the inlined buffer."""
        new: Block = self.rewrite_children(node)
        if not any(r.buffer is self.buffer for r in node.reads) and new is node:
            return new
        by_hand = not _same_regions(node.reads, _detected(node))
        reads = None if by_hand else _detected(new)
        return new.replace(reads=self._exchanged(new.reads) if reads is None else reads)

    def _exchanged(self, reads: Sequence[BufferRegion]) -> tuple[BufferRegion, ...]:
        """Reads with those of the buffer replaced by what the inlined block reads for them."""
        result: list[BufferRegion] = []
        for r in reads:
            found = [r] if r.buffer is not self.buffer else [self._behind(r, inner) for inner in self.block.reads]
            for f in found:
                if not any(same_region(f, other) for other in result):
                    result.append(f)
        return tuple(result)

    def _behind(self, region: BufferRegion, inner: BufferRegion) -> BufferRegion:
        """What the inlined block reads of a buffer to make a region of its own; all of it where that is not simple."""
        axes: Sequence[IterVar] = self.block.iter_vars
        domain = {a.var: a.dom for a in axes if a.dom is not None}
        if all(make.is_const_int(r.extent, 1) for r in region.region):
            point = solve_strings(self.strings, axes, [r.min for r in region.region])
            domain |= {v: Range.from_min_extent(e, IntImm(e.dtype, 1)) for v, e in point.items()}
        else:
            # A dimension that has only some digits of an axis does not say where the axis is.
            for string, r in zip(self.strings, region.region, strict=True):
                var = string.whole
                if string.digits:
                    digit, _ = string.digits[0]
                    is_all = digit.lower == 1 and make.is_const_int(domain[digit.var].extent, digit.extent)
                    var = digit.var if is_all and var is None and len(string.digits) == 1 else None
                if var is not None:
                    first = make.add(domain[var].min, make.sub(r.min, string.base))
                    domain[var] = Range.from_min_extent(first, r.extent)
        ranges: list[Range] = []
        for size, r in zip(inner.buffer.shape, inner.region, strict=True):
            found = relax_range(r, domain, {})
            if found is None:
                ranges.append(Range.from_min_extent(make.const(0, size.dtype), size))
            else:
                ranges.append(Range.from_min_extent(found.low, make.simple_sub(make.add(found.high, 1), found.low)))
        return BufferRegion(inner.buffer, tuple(ranges))


def _detected(block: Block) -> tuple[BufferRegion, ...] | None:
    try:
        return detect_regions(block)[0]
    except ValueError:
        return None


def _same_regions(a: Sequence[BufferRegion], b: Sequence[BufferRegion] | None) -> bool:
    return b is not None and len(a) == len(b) and all(same_region(x, y) for x, y in zip(a, b, strict=True))
