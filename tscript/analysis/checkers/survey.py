"""The walk over a function that finds its sites."""

from __future__ import annotations

from collections.abc import Iterable

from tscript.analysis.checkers.sites import (
    BOUND,
    ESCAPE,
    READ,
    WRITE,
    Barrier,
    Binding,
    Doubt,
    Guard,
    Loop,
    Scope,
    Site,
    Storage,
    Survey,
    free_of_lanes,
    op_name,
)
from tscript.ir import construct as make
from tscript.ir import expr as ex
from tscript.ir import stmt as st
from tscript.ir.base import Node
from tscript.ir.buffer import Buffer, decl_buffer
from tscript.ir.expr import BufferLoad, IntImm, IterVar, PrimExpr, Range, Var
from tscript.ir.function import PrimFunc
from tscript.ir.functor import Visitor
from tscript.ir.occurrences import any_below
from tscript.support.span import Span


def survey(func: PrimFunc) -> Survey:
    """The sites of `func`, in order."""
    walk = _Walk()
    walk.visit(func.body)
    return walk.found


class _Walk(Visitor):
    """Visits statements and expressions in order of evaluation."""

    def __init__(self) -> None:
        self.found = Survey()
        self.scope: Scope | None = None
        self.place = 0
        self.statement: st.Stmt = st.Evaluate(IntImm("int32", 0))
        self.spans: list[Span] = []
        self.views: dict[Buffer, st.MatchBufferRegion] = {}
        self.realized: dict[Buffer, tuple[Range, ...]] = {}
        self.launched: dict[str, Loop] = {}
        self.source_of: dict[Var, Var] = {}

    # -- what is found --------------------------------------------------------------------------

    def _next(self) -> int:
        self.place += 1
        return self.place

    def _site(
        self,
        role: str,
        buffer: Buffer,
        indices: tuple[PrimExpr, ...],
        span: Span | None = None,
        limits: tuple[Range, ...] | None = None,
        axis: str = "",
    ) -> None:
        memory, base = self._behind(buffer, indices)
        own = span or (self.spans[-1] if self.spans else None)
        if limits is None:
            limits = self.realized.get(buffer) or tuple(
                Range.from_min_extent(IntImm(s.dtype, 0), s) for s in buffer.shape
            )
        self.found.sites.append(
            Site(role, buffer, indices, limits, memory, base, self.scope, self._next(), self.statement, own, axis)
        )

    def _behind(self, buffer: Buffer, indices: tuple[PrimExpr, ...]) -> tuple[Buffer, tuple[PrimExpr, ...]]:
        while (view := self.views.get(buffer)) is not None:
            region = view.source.region
            lead = len(region) - len(indices)
            # A view of vectors has elements of its own.
            indices = (
                *(r.min for r in region[:lead]),
                *(make.add(r.min, i) for r, i in zip(region[lead:], indices, strict=True)),
            )
            buffer = view.source.buffer
        return buffer, indices

    def _access(self, role: str, node: BufferLoad | st.BufferStore, predicate: PrimExpr | None) -> None:
        """An access, which of a vector touches one element for each lane."""
        outer, indices = self.scope, tuple(node.indices)
        lanes = indices[-1].dtype.lanes if indices else 1
        if lanes > 1 or predicate is not None:
            lane = Var("lane", indices[-1].dtype.element if indices else "int32")
            zero = IntImm(lane.dtype, 0)
            self.scope = Loop(
                self.scope, lane, zero, IntImm(lane.dtype, lanes), st.ForKind.SERIAL, self._next(), is_lane=True
            )
            if predicate is not None:
                test = free_of_lanes(predicate, lane)
                self.scope = (
                    Doubt(self.scope, "a mask decides which lanes run") if test is None else Guard(self.scope, test)
                )
            last = free_of_lanes(indices[-1], lane) if indices else zero
            if last is None:
                last = ex.Call(lane.dtype, ex.Op.get("tir.undef"), ())
            indices = (*indices[:-1], last) if indices else ()
        self._site(role, node.buffer, indices, getattr(node, "span", None))
        self.scope = outer

    def _under(self, scope: Scope, *nodes: Node) -> None:
        outer, self.scope = self.scope, scope
        for n in nodes:
            self.visit(n)
        self.scope = outer

    # -- expressions ----------------------------------------------------------------------------

    def visit_BufferLoad(self, node: BufferLoad) -> None:
        """The subscripts, then a read."""
        for i in node.indices:
            self.visit(i)
        if node.predicate is not None:
            self.visit(node.predicate)
        self._access(READ, node, node.predicate)

    def visit_Let(self, node: ex.Let) -> None:
        """The variable stands for its value."""
        self.visit(node.value)
        self._under(Binding(self.scope, node.var, node.value), node.body)

    def visit_Var(self, node: Var) -> None:
        """A pointer by itself: what it is used for cannot be seen."""
        if node.dtype.is_handle:
            self._escape(node, "its pointer is used directly")

    def _escape(self, data: Var, how: str) -> None:
        self.found.escaped.setdefault(self.source_of.get(data, data), how)

    def visit_Call(self, node: ex.Call) -> None:
        """What calls do with memory, and conditions within expressions."""
        name = op_name(node)
        match name:
            case "if_then_else":
                self.visit(node.args[0])
                self._under(Guard(self.scope, node.args[0]), node.args[1])
                self._under(Guard(self.scope, node.args[0], False), node.args[2])
            case "tvm_access_ptr":
                if isinstance(node.args[1], Var):
                    self._escape(node.args[1], "a pointer into it is passed to an intrinsic")
                self.visit(node.args[2])
                self.visit(node.args[3])
            case "address_of" if isinstance(node.args[0], BufferLoad):
                load = node.args[0]
                for i in load.indices:
                    self.visit(i)
                self._site(ESCAPE, load.buffer, tuple(load.indices))
                memory = self._behind(load.buffer, tuple(load.indices))[0]
                self._escape(memory.data, "the address of an element is taken")
            case "tvm_storage_sync":
                storage = node.args[0].value if node.args and isinstance(node.args[0], ex.StringImm) else ""
                self.found.barriers.append(Barrier(self._next(), self.scope, storage))
            case "tvm_thread_allreduce":
                self._all_reduce(node)
            case _:
                self.visit_children(node)

    def _all_reduce(self, node: ex.Call) -> None:
        """The threads meet, and each gets the result."""
        for a in node.args:
            if isinstance(a, BufferLoad):
                self._access(WRITE, a, None)
            elif op_name(a) == "address_of" and isinstance(a, ex.Call) and isinstance(a.args[0], BufferLoad):
                self._access(WRITE, a.args[0], None)
            elif isinstance(a, PrimExpr) and not a.dtype.is_handle:
                self.visit(a)
        self.found.barriers.append(Barrier(self._next(), self.scope, "shared"))

    # -- statements -----------------------------------------------------------------------------

    def visit_Stmt(self, node: st.Stmt) -> None:
        """Statements without a handler of their own: what is below them, in order."""
        self._enter(node, *self._children(node))

    def _children(self, node: Node) -> Iterable[Node]:
        return [n for n in (getattr(node, f, None) for f in ("value", "condition", "body")) if isinstance(n, Node)]

    def _enter(self, node: st.Stmt, *nodes: Node) -> None:
        statement, self.statement = self.statement, node
        if node.span is not None:
            self.spans.append(node.span)
        for n in nodes:
            self.visit(n)
        if node.span is not None:
            self.spans.pop()
        self.statement = statement

    def visit_BufferStore(self, node: st.BufferStore) -> None:
        """The value, the subscripts, then a write."""
        parts = [node.value, *node.indices, *([] if node.predicate is None else [node.predicate])]
        self._enter(node, *parts)
        statement, self.statement = self.statement, node
        self._access(WRITE, node, node.predicate)
        self.statement = statement

    def visit_SeqStmt(self, node: st.SeqStmt) -> None:
        """One after the other; what is assumed, or an early end, holds for the rest."""
        outer = self.scope
        for s in node.seq:
            self.visit(s)
            if isinstance(s, st.Evaluate) and op_name(s.value) == "assume" and isinstance(s.value, ex.Call):
                self.scope = Guard(self.scope, s.value.args[0], stops=True)
            elif any_below(s, lambda n: op_name(n) == "ret"):
                self.scope = Doubt(self.scope, "the function may have returned before")
        self.scope = outer

    def visit_Evaluate(self, node: st.Evaluate) -> None:
        """The expression."""
        self._enter(node, node.value)

    def visit_LetStmt(self, node: st.LetStmt) -> None:
        """The variable stands for its value."""
        self._enter(node, node.value)
        self._under(Binding(self.scope, node.var, node.value), node.body)

    def visit_AssertStmt(self, node: st.AssertStmt) -> None:
        """What is asserted holds in the body."""
        self._enter(node, node.condition)
        self._under(Guard(self.scope, node.condition, stops=True), node.body)

    def visit_IfThenElse(self, node: st.IfThenElse) -> None:
        """Each branch under its condition."""
        self._enter(node, node.condition)
        self._under(Guard(self.scope, node.condition), node.then_case)
        if node.else_case is not None:
            self._under(Guard(self.scope, node.condition, False), node.else_case)

    def visit_While(self, node: st.While) -> None:
        """How often the body runs cannot be told."""
        doubt = Doubt(self.scope, "a while loop may run its body any number of times")
        self._under(Guard(doubt, node.condition), node.body)

    def visit_For(self, node: st.For) -> None:
        """The loop variable runs over its range in the body."""
        self._enter(node, node.min, node.extent)
        thread = node.thread_binding.thread_tag if node.thread_binding is not None else ""
        loop = Loop(self.scope, node.loop_var, node.min, node.extent, node.kind, self._next(), thread)
        self.found.loops.append((loop, node))
        self._launch(loop, node.body)

    def _launch(self, loop: Loop, body: st.Stmt) -> None:
        tag = loop.thread
        same = self.launched.get(tag) if tag.startswith(("threadIdx", "blockIdx")) else None
        if same is not None:
            # Another name for an index that is bound already; beyond its own extent nothing runs.
            bound = Binding(self.scope, loop.var, make.cast(same.var, loop.var.dtype))
            self._under(Guard(bound, make.compare(ex.LT, loop.var, loop.extent)), body)
            return
        if tag:
            self.launched[tag] = loop
        self._under(loop, body)
        if tag:
            del self.launched[tag]

    def visit_AttrStmt(self, node: st.AttrStmt) -> None:
        """Attributes that launch threads are loops over them."""
        axis = node.node
        if node.attr_key not in ("thread_extent", "virtual_thread") or not isinstance(axis, IterVar):
            self.visit(node.body)
            return
        if any(s.var is axis.var for s in self.launched.values()):
            self.visit(node.body)
            return
        extent = make.cast(node.value, axis.var.dtype)
        tag = axis.thread_tag or "vthread"
        loop = Loop(
            self.scope, axis.var, IntImm(axis.var.dtype, 0), extent, st.ForKind.THREAD_BINDING, self._next(), tag
        )
        self.found.loops.append((loop, node))
        self._launch(loop, node.body)

    def visit_Allocate(self, node: st.Allocate) -> None:
        """Fresh memory in the body."""
        shape = decl_buffer(node.extents, node.dtype, name=node.buffer_var.name, data=node.buffer_var)
        storage = Storage(self.scope, node.buffer_var, shape)
        self.found.stores[node.buffer_var] = storage
        self._under(storage, node.body)

    def visit_AllocateConst(self, node: st.AllocateConst) -> None:
        """Memory that holds its values already."""
        self.visit(node.body)

    def visit_DeclBuffer(self, node: st.DeclBuffer) -> None:
        """Another name for memory."""
        self.visit(node.body)

    def visit_BufferRealize(self, node: st.BufferRealize) -> None:
        """Fresh memory for the bounds."""
        known = self.realized.get(node.buffer)
        self.realized[node.buffer] = tuple(node.bounds)
        storage = Storage(self.scope, node.buffer.data, node.buffer)
        self.found.stores[node.buffer.data] = storage
        self._under(storage, node.body)
        if known is None:
            del self.realized[node.buffer]
        else:
            self.realized[node.buffer] = known

    def visit_Prefetch(self, node: st.Prefetch) -> None:
        """A hint touches nothing."""

    # -- blocks ---------------------------------------------------------------------------------

    def visit_BlockRealize(self, node: st.BlockRealize) -> None:
        """The axes take their values where the predicate holds."""
        outer, block = self.scope, node.block
        self._enter(node, *node.iter_values, node.predicate)
        if not make.is_const_int(node.predicate, 1):
            self.scope = Guard(self.scope, node.predicate)
        bound = self.scope
        for axis, value in zip(block.iter_vars, node.iter_values, strict=True):
            reduces = axis.iter_type == IterVar.CommReduce
            bound = Binding(bound, axis.var, make.cast(value, axis.var.dtype), reduces, block.init is not None)
        if block.span is not None:
            self.spans.append(block.span)
        self._domains(block, node)
        self.scope = bound
        self._inside(block)
        if block.span is not None:
            self.spans.pop()
        self.scope = outer

    def _domains(self, block: st.Block, node: st.BlockRealize) -> None:
        """That each value lies in the domain of its axis is checked as a subscript would be."""
        statement, self.statement = self.statement, node
        for axis, value in zip(block.iter_vars, node.iter_values, strict=True):
            if axis.dom is not None and not _is_whole_loop(value, axis.dom, self.scope):
                stand_in = decl_buffer((axis.dom.extent,), "int8", name=block.name_hint)
                self._site(BOUND, stand_in, (value,), block.span, (axis.dom,), axis.var.name)
        self.statement = statement

    def visit_Block(self, node: st.Block) -> None:
        """A block whose axes nothing binds: they run over their domains."""
        outer = self.scope
        for axis in node.iter_vars:
            if axis.dom is not None:
                self.scope = Loop(self.scope, axis.var, axis.dom.min, axis.dom.extent, 0, self._next())
        self._inside(node)
        self.scope = outer

    def _inside(self, block: st.Block) -> None:
        for match in block.match_buffers:
            self._match(match)
        for buffer in block.alloc_buffers:
            storage = Storage(self.scope, buffer.data, buffer)
            self.found.stores[buffer.data] = storage
            self.scope = storage
        if block.init is not None:
            first: Scope | None = self.scope
            for axis in block.iter_vars:
                if axis.iter_type == IterVar.CommReduce and axis.dom is not None:
                    first = Guard(first, make.compare(ex.EQ, axis.var, axis.dom.min), True, True)
            outer, self.scope = self.scope, first
            self.visit(block.init)
            self.scope = outer
        self.visit(block.body)

    def _match(self, match: st.MatchBufferRegion) -> None:
        """A view: its region has to exist, and gives values to the sizes in its shape."""
        region, target = match.source.region, match.buffer
        for last in (False, True):
            corner = tuple(make.sub(make.add(r.min, r.extent), 1) if last else r.min for r in region)
            self._site(BOUND, match.source.buffer, corner)
        self.views[target] = match
        source = match.source.buffer.data
        self.source_of[target.data] = self.source_of.get(source, source)
        lead = len(region) - target.ndim
        bound: dict[Var, None] = {s.var: None for s in (self.scope.chain() if self.scope else []) if hasattr(s, "var")}  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]
        for size, r in zip(target.shape, region[lead:], strict=True):
            if isinstance(size, Var) and size not in bound:
                self.scope = Binding(self.scope, size, make.cast(r.extent, size.dtype))
                bound[size] = None


def _is_whole_loop(value: PrimExpr, dom: Range, scope: Scope | None) -> bool:
    if isinstance(value, Var):
        while scope is not None:
            if isinstance(scope, Loop) and scope.var is value:
                return scope.low is dom.min and scope.extent is dom.extent
            scope = scope.outer
    return False
