"""Which regions of which buffers a block reads and writes, from its init and body.

Loops inside the block are relaxed over their ranges, narrowed by the conditions around an access; axes
and outer loop variables stay symbols. Inner blocks count with what they declare.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tscript.arith.const_bound import EVERYTHING, Bound, const_bound
from tscript.arith.interval import Domains, Interval, eval_interval, union
from tscript.arith.simplify import simplify
from tscript.ir import construct as make
from tscript.ir import expr as ex
from tscript.ir import stmt as st
from tscript.ir.buffer import Buffer
from tscript.ir.dtype import int_range
from tscript.ir.expr import BufferLoad, IntImm, PrimExpr, Range, Var
from tscript.ir.functor import Visitor, substitute
from tscript.ir.linear import difference, from_linear, linear_form
from tscript.ir.occurrences import mentions, variables
from tscript.ir.stmt import Block, BufferRegion

Touched = dict[Buffer, list[Interval | None]]
"""For each buffer, in order of first access, the interval of each dimension (None: all of it)."""


def detect_regions(
    block: Block, buffer_of: Mapping[Var, Buffer] | None = None
) -> tuple[tuple[BufferRegion, ...], tuple[BufferRegion, ...]]:
    """What `block` reads and writes, as it would be declared.

    `buffer_of` tells which buffer outside the block a data pointer belongs to. Buffers come in the order
    of first access; those allocated in the block are left out, views count as accesses of their source,
    and with an init, written buffers are no reads. An element whose address is taken stands for reading
    and writing the whole buffer. Raises ValueError when the pointer of a buffer of `buffer_of` is used
    other than by `access_ptr`, since then nothing can be told.
    """
    scan = _Scan(block, buffer_of or {})
    if block.init is not None:
        scan.visit(block.init)
    scan.visit(block.body)
    local = dict.fromkeys(block.alloc_buffers) | dict.fromkeys(m.buffer for m in block.match_buffers)
    writes = {b: dims for b, dims in scan.writes.items() if b not in local}
    reads = {
        b: dims for b, dims in scan.reads.items() if b not in local and not (block.init is not None and b in writes)
    }
    return _regions(reads, scan.domains), _regions(writes, scan.domains)


def _regions(touched: Touched, domains: Domains) -> tuple[BufferRegion, ...]:
    return tuple(
        BufferRegion(b, tuple(_range(b, d, interval, domains) for d, interval in enumerate(dims)))
        for b, dims in touched.items()
    )


def _range(buffer: Buffer, dim: int, interval: Interval | None, domains: Domains) -> Range:
    if interval is None:
        extent = buffer.shape[dim]
        return Range.from_min_extent(IntImm(extent.dtype, 0), extent)
    dtype = interval.low.dtype.element
    one = IntImm(dtype, 1)
    if interval.is_point:
        return Range.from_min_extent(interval.low, one)
    length = simplify(from_linear(_plus_one(interval), dtype), domains.bounds)
    return Range.from_min_extent(simplify(interval.low, domains.bounds), length)


def _plus_one(interval: Interval) -> tuple[dict[PrimExpr, int], int]:
    terms, constant = difference(interval.high, interval.low)
    return terms, constant + 1


class _Scan(Visitor):
    """Collects accesses in order of evaluation, with the intervals of the loops around them."""

    def __init__(self, block: Block, buffer_of: Mapping[Var, Buffer]) -> None:
        self.buffer_of = buffer_of
        self.reads: Touched = {}
        self.writes: Touched = {}
        self.relaxed: dict[Var, Interval] = {}
        self.positive: dict[PrimExpr, None] = {}
        self.lets: dict[Var, PrimExpr] = {}
        bounds: dict[Var, Bound] = {}
        for axis in block.iter_vars:
            if axis.dom is not None:
                b = const_bound(axis.dom.min + axis.dom.extent - 1, {})
                bounds[axis.var] = Bound(const_bound(axis.dom.min, {}).low, b.high)
        self.domains = Domains(self.relaxed, bounds, self.positive)
        self.views = {m.buffer: m for m in block.match_buffers}
        self.allocated: dict[Var, None] = {}

    # -- accesses -------------------------------------------------------------------------------

    def _record(self, table: Touched, buffer: Buffer, dims: list[Interval | None]) -> None:
        while (view := self.views.get(buffer)) is not None:
            dims = self._through_view(view, dims)
            buffer = view.source.buffer
        known = table.get(buffer)
        if known is None:
            table[buffer] = dims
            return
        for d, new in enumerate(dims):
            old = known[d]
            known[d] = None if old is None or new is None else union(old, new, self.domains)

    def _through_view(self, view: st.MatchBufferRegion, dims: list[Interval | None]) -> list[Interval | None]:
        """Positions in the source: leading dimensions that the view lacks are those of the region."""
        region = view.source.region
        lead = len(region) - len(dims)
        result: list[Interval | None] = []
        for d, r in enumerate(region):
            inner = dims[d - lead] if 0 <= d - lead < len(dims) else None
            if inner is None:
                result.append(self._range_interval(r))
            else:
                low = simplify(make.add(r.min, inner.low), self.domains.bounds)
                high = low if inner.is_point else simplify(make.add(r.min, inner.high), self.domains.bounds)
                result.append(Interval(low, high))
        return result

    def _index_interval(self, e: PrimExpr) -> Interval | None:
        plain = self._plain(e)
        return None if self._may_wrap(plain) else eval_interval(plain, self.domains)

    def _may_wrap(self, e: PrimExpr) -> bool:
        """Whether arithmetic may leave its type, so that its limits say nothing. What has no limits is left out."""
        if isinstance(e, (Var, IntImm)):
            return False
        known: dict[PrimExpr, Bound] = {}
        const_bound(e, {v: self._limits(v) for v in variables(e)}, known)
        for part, bound in known.items():
            if isinstance(part, ex.ArithExpr) and part.dtype.is_int:
                low, high = int_range(part.dtype)
                if (bound.low is not None and bound.low < low) or (bound.high is not None and bound.high > high):
                    return True
        return False

    def _limits(self, var: Var) -> Bound:
        over = self.relaxed.get(var)
        if over is None:
            return self.domains.bounds.get(var, EVERYTHING)
        return Bound(const_bound(over.low, self.domains.bounds).low, const_bound(over.high, self.domains.bounds).high)

    def _plain(self, e: PrimExpr) -> PrimExpr:
        return substitute(e, self.lets) if self.lets else e

    def _range_interval(self, r: Range) -> Interval | None:
        low = self._index_interval(r.min)
        extent = self._plain(r.extent)
        if make.is_const_int(extent, 1):
            return low
        last = self._index_interval(simplify(make.sub(make.add(r.min, r.extent), 1), self.domains.bounds))
        return None if low is None or last is None else Interval(low.low, last.high)

    def visit_BufferLoad(self, node: BufferLoad) -> None:
        """A read, then the subscripts."""
        if node.buffer.data not in self.allocated:
            self._record(self.reads, node.buffer, [self._index_interval(i) for i in node.indices])
        self.visit_children(node)

    def visit_BufferStore(self, node: st.BufferStore) -> None:
        """A write, then the value, then the subscripts."""
        if node.buffer.data not in self.allocated:
            self._record(self.writes, node.buffer, [self._index_interval(i) for i in node.indices])
        self.visit(node.value)
        for i in node.indices:
            self.visit(i)
        if node.predicate is not None:
            self.visit(node.predicate)

    def visit_BlockRealize(self, node: st.BlockRealize) -> None:
        """What the inner block declares, with its axes replaced by their bindings."""
        block = node.block
        values: dict[Var, PrimExpr] = {}
        for axis, value in zip(block.iter_vars, node.iter_values, strict=True):
            self.visit(value)
            values[axis.var] = self._plain(value)
        self.visit(node.predicate)
        for table, regions in ((self.reads, block.reads), (self.writes, block.writes)):
            for region in regions:
                ranges = [
                    Range.from_min_extent(substitute(r.min, values), substitute(r.extent, values))
                    for r in region.region
                ]
                self._record(table, region.buffer, [self._range_interval(r) for r in ranges])

    def visit_Block(self, node: Block) -> None:
        """A block without values for its axes touches what it declares, for all values in their domains."""
        outside, lets = dict(self.relaxed), dict(self.lets)
        for axis in node.iter_vars:
            over = None if axis.dom is None else self._range_interval(axis.dom)
            if over is None:
                self.lets[axis.var] = _unknown(axis.var)
            else:
                self.relaxed[axis.var] = over
        for table, regions in ((self.reads, node.reads), (self.writes, node.writes)):
            for region in regions:
                self._record(table, region.buffer, [self._range_interval(r) for r in region.region])
        self.relaxed.clear()
        self.relaxed.update(outside)
        self.lets = lets

    def visit_Var(self, node: Var) -> None:
        """A pointer that escapes: what it is used for cannot be told."""
        if node in self.buffer_of:
            raise ValueError(
                f"the reads and writes of this block cannot be inferred, because the pointer `{node.name}` is used "
                "directly; declare them with T.reads(...) and T.writes(...)"
            )

    def visit_Call(self, node: ex.Call) -> None:
        """`access_ptr` touches a whole buffer; `if_then_else` narrows the loops in its branches."""
        name = node.op.name if isinstance(node.op, ex.Op) else ""
        if name == "tir.tvm_access_ptr":
            self._access_ptr(node)
        elif name == "tir.if_then_else":
            self.visit(node.args[0])
            self._under(node.args[0], True, node.args[1])
            self._under(node.args[0], False, node.args[2])
        elif name == "tir.address_of" and isinstance(node.args[0], BufferLoad):
            buffer = node.args[0].buffer
            for table in (self.reads, self.writes):
                self._record(table, buffer, [None] * buffer.ndim)
            self.visit_children(node.args[0])
        else:
            self.visit_children(node)

    def _access_ptr(self, node: ex.Call) -> None:
        data, mask = node.args[1], node.args[4]
        buffer = self.buffer_of.get(data)
        if buffer is None or not isinstance(mask, IntImm):
            raise ValueError(
                "the reads and writes of this block cannot be inferred, because a pointer is passed whose buffer is "
                "not known; declare them with T.reads(...) and T.writes(...)"
            )
        for bit, table in ((1, self.reads), (2, self.writes)):
            if mask.value & bit:
                self._record(table, buffer, [None] * buffer.ndim)
        self.visit(node.args[2])
        self.visit(node.args[3])

    # -- what surrounds accesses ----------------------------------------------------------------

    def visit_For(self, node: st.For) -> None:
        """The loop variable runs over its range in the body."""
        self.visit(node.min)
        self.visit(node.extent)
        low = self._index_interval(node.min)
        last = self._index_interval(make.sub(make.add(node.min, node.extent), 1))
        if low is None or last is None:
            return self._hidden(node.loop_var, node.body)
        high = simplify(_tidy(last.high), self.domains.bounds)
        extent = self._plain(node.extent)
        fresh = extent not in self.positive
        self.positive[extent] = None
        self.relaxed[node.loop_var] = Interval(low.low, high)
        self.visit(node.body)
        del self.relaxed[node.loop_var]
        if fresh:
            del self.positive[extent]
        return None

    def _hidden(self, var: Var, body: st.Stmt) -> None:
        """Visit `body` where `var` is unbounded: it is bound to something no interval is known of."""
        self.lets[var] = _unknown(var)
        self.visit(body)
        del self.lets[var]

    def visit_LetStmt(self, node: st.LetStmt) -> None:
        """The variable stands for its value."""
        self.visit(node.value)
        self.lets[node.var] = self._plain(node.value)
        self.visit(node.body)
        del self.lets[node.var]

    def visit_Let(self, node: ex.Let) -> None:
        """The variable stands for its value."""
        self.visit(node.value)
        self.lets[node.var] = self._plain(node.value)
        self.visit(node.body)
        del self.lets[node.var]

    def visit_IfThenElse(self, node: st.IfThenElse) -> None:
        """The condition narrows the loops in each branch."""
        self.visit(node.condition)
        self._under(node.condition, True, node.then_case)
        if node.else_case is not None:
            self._under(node.condition, False, node.else_case)

    def visit_Allocate(self, node: st.Allocate) -> None:
        """Memory that is the block's own."""
        self.allocated[node.buffer_var] = None
        self.visit_children(node)

    def visit_AllocateConst(self, node: st.AllocateConst) -> None:
        """Memory that is the block's own."""
        self.allocated[node.buffer_var] = None
        self.visit(node.body)

    def visit_DeclBuffer(self, node: st.DeclBuffer) -> None:
        """A view of memory; what backs it counts only if it is the block's own."""
        self.visit(node.body)

    def _under(self, condition: PrimExpr, holds: bool, body: ex.PrimExpr | st.Stmt) -> None:
        before = dict(self.relaxed)
        for comparison in _conjuncts(self._plain(condition), holds):
            self._narrow(*comparison)
        self.visit(body)
        self.relaxed.clear()
        self.relaxed.update(before)

    def _narrow(self, node: ex.CmpExpr, holds: bool) -> None:
        """Use a comparison that is linear in a single relaxed variable, with a factor that divides the rest.

        Where the rest is a constant, any factor will do: the quotient is rounded to what the variable can be.
        """
        kind = type(node) if holds else _OPPOSITE.get(type(node))
        if kind is None or not (node.a.dtype.is_int and node.a.dtype.lanes == 1):
            return
        terms, constant = difference(node.a, node.b)
        inside = [t for t in terms if mentions(t, self.relaxed)]
        if len(inside) != 1 or not isinstance(inside[0], Var):
            return
        var = inside[0]
        factor = terms.pop(var)
        if factor < 0:
            kind = _FLIPPED.get(kind, kind)
        # factor * var + rest <kind> 0, so var <kind, flipped if factor < 0> -rest / factor
        size = abs(factor)
        away = -1 if factor > 0 else 1
        exact = all(c % size == 0 for c in (*terms.values(), constant))
        if not exact and (terms or kind in (ex.EQ, ex.NE)):
            return
        scaled = {t: away * c // size for t, c in terms.items()}
        # Of a quotient between two integers, `var > q` and `var <= q` take the one below, `var >= q` and `var < q`
        # the one above.
        number = away * constant
        rounded = number // size if kind in (ex.GT, ex.LE) else -(-number // size)
        limit = from_linear((scaled, rounded), var.dtype)
        old = self.relaxed[var]
        low = high = None
        if kind in (ex.EQ, ex.GE, ex.GT) or (kind is ex.NE and limit is old.low):
            low = _tidy(make.add(limit, 1)) if kind in (ex.GT, ex.NE) else limit
        if kind in (ex.EQ, ex.LE, ex.LT) or (kind is ex.NE and limit is old.high):
            high = _tidy(make.sub(limit, 1)) if kind in (ex.LT, ex.NE) else limit
        self.relaxed[var] = self._tighter(old, low, high)

    def _tighter(self, old: Interval, low: PrimExpr | None, high: PrimExpr | None) -> Interval:
        """`old` with the ends that are certain to be tighter.

        Where nothing is left, the access never happens, and `old` will do.
        """
        sure = self.domains.no_less
        new = Interval(
            low if low is not None and sure(low, old.low) else old.low,
            high if high is not None and sure(old.high, high) else old.high,
        )
        return old if sure(make.sub(new.low, 1), new.high) else new


_OPPOSITE: dict[type[ex.CmpExpr], type[ex.CmpExpr]] = {
    ex.LT: ex.GE,
    ex.LE: ex.GT,
    ex.GT: ex.LE,
    ex.GE: ex.LT,
    ex.EQ: ex.NE,
    ex.NE: ex.EQ,
}
_FLIPPED: dict[type[ex.CmpExpr], type[ex.CmpExpr]] = {ex.LT: ex.GT, ex.LE: ex.GE, ex.GT: ex.LT, ex.GE: ex.LE}


def _unknown(var: Var) -> PrimExpr:
    return ex.Call(var.dtype, ex.Op.get("tir.undef"), ())


def _tidy(e: PrimExpr) -> PrimExpr:
    return from_linear(linear_form(e), e.dtype)


def _conjuncts(condition: PrimExpr, holds: bool) -> Iterable[tuple[ex.CmpExpr, bool]]:
    """The comparisons that are known to hold (or not) when `condition` does (or does not)."""
    stack = [(condition, holds)]
    while stack:
        e, truth = stack.pop()
        if isinstance(e, ex.Not):
            stack.append((e.a, not truth))
        elif isinstance(e, ex.And if truth else ex.Or):
            stack += [(e.b, truth), (e.a, truth)]  # pyright: ignore[reportAttributeAccessIssue]
        elif isinstance(e, ex.Call) and isinstance(e.op, ex.Op) and e.op.name == "tir.likely":
            stack.append((e.args[0], truth))
        elif isinstance(e, ex.CmpExpr):
            yield e, truth
