"""Reductions over nothing: where a reduction has no elements, its init alone gives the result.

The init of a block runs in the first of the instances that reduce into an element. Over an empty domain there
are none, and still the element is to hold the identity. So in front of the outermost loop of such a reduction
stands, under the condition that the domain is empty, what `decompose_reduction` would put there: the loops of
the other axes around the init.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tscript.ir import expr as ex
from tscript.ir import stmt as st
from tscript.ir.buffer import Buffer
from tscript.ir.construct import and_, compare, const, not_, or_
from tscript.ir.expr import IntImm, IterVar, PrimExpr, Range, Var
from tscript.ir.function import PrimFunc
from tscript.ir.functor import Rewriter, post_order_visit, pre_order_visit, substitute
from tscript.ir.occurrences import mentions, reads_memory, variables
from tscript.ir.stmt import Block, BlockRealize, For, ForKind, Stmt

_LAUNCHES: Final = ("thread_extent", "virtual_thread")


def with_empty_inits(func: PrimFunc) -> PrimFunc:
    """`func` with statements that run the init of every reduction whose domain is empty.

    It is the same object where the extents of all reductions are positive constants.
    """
    if not any(_may_be_empty(b) for b in _blocks(func.body)):
        return func
    return func.replace(body=_EmptyInits().whole(func.body))


def empty_condition(block: Block) -> PrimExpr:
    """Whether an axis over which `block` reduces has no values; the constant False where all extents are positive.

    >>> from tscript.script import tir as T
    >>> @T.prim_func
    ... def row_sum(x: T.handle, Y: T.Buffer((8,), "float32")):
    ...     n = T.int32()
    ...     X = T.match_buffer(x, (8, n))
    ...     for i, k in T.grid(8, n):
    ...         with T.block("sum"):
    ...             vi, vk = T.axis.remap("SR", [i, k])
    ...             with T.init():
    ...                 Y[vi] = T.float32(0)
    ...             Y[vi] = Y[vi] + X[vi, vk]
    >>> empty_condition(row_sum.body.block.body.body.body.block)
    n <= 0
    """
    condition: PrimExpr = const(False)
    for e in _extents(block):
        if not _is_positive(e):
            condition = or_(condition, compare(ex.LE, e, const(0, e.dtype)))
    return condition


def _blocks(body: Stmt) -> list[Block]:
    found: list[Block] = []

    def look(node: object) -> bool:
        if isinstance(node, Block):
            found.append(node)
        return not isinstance(node, PrimExpr)

    pre_order_visit(body, look)
    return found


def _may_be_empty(block: Block) -> bool:
    return block.init is not None and any(not _is_positive(e) for e in _extents(block))


def _extents(block: Block) -> list[PrimExpr]:
    return [a.dom.extent for a in block.iter_vars if a.iter_type == IterVar.CommReduce and a.dom is not None]


def _is_positive(e: PrimExpr) -> bool:
    return isinstance(e, IntImm) and e.value > 0


@dataclass(slots=True)
class _Pending:
    """An init on its way out to its place."""

    condition: PrimExpr
    body: Stmt
    inside: dict[Var, None]
    """Variables of loops and lets that go over the reduction: the init does without them."""
    waiting: int
    """How many of these loops are still around it."""

    def statement(self) -> Stmt:
        if isinstance(self.condition, IntImm) and self.condition.value:
            return self.body
        return st.IfThenElse(self.condition, self.body)

    def uses(self, var: Var) -> bool:
        return var in variables(self.condition, self.body)

    def put_under_condition(self) -> None:
        self.body, self.condition = self.statement(), const(True)


class _EmptyInits(Rewriter):
    def __init__(self) -> None:
        super().__init__()
        # Loops and lets around the current statement, up to the block that it belongs to.
        self._around: list[tuple[Var, PrimExpr | None]] = []
        self._pending: list[_Pending] = []

    def whole(self, body: Stmt) -> Stmt:
        """A body with the inits of its blocks in place."""
        around, pending, self._around, self._pending = self._around, self._pending, [], []
        result = self._settled(self.rewrite(body))
        self._around, self._pending = around, pending
        return result

    def _settled(self, s: Stmt) -> Stmt:
        """`s` behind the inits that need go no further."""
        here = [p for p in self._pending if not p.waiting]
        self._pending = [p for p in self._pending if p.waiting]
        return st.seq(*(p.statement() for p in here), s)

    def _below(self, body: Stmt) -> tuple[Stmt, list[_Pending]]:
        """A body rewritten, and the inits that come out of it."""
        outer, self._pending = self._pending, []
        body = self.rewrite(body)
        found, self._pending = self._pending, outer
        return body, found

    def _settled_below(self, body: Stmt) -> tuple[Stmt, list[_Pending]]:
        """A body with the inits in place that need go no further, and those that do."""
        outer, self._pending = self._pending, []
        body = self._settled(self.rewrite(body))
        found, self._pending = self._pending, outer
        return body, found

    # -- blocks ----------------------------------------------------------------------------------

    def rewrite_Block(self, block: Block) -> Any:
        init = None if block.init is None else self.whole(block.init)
        return block.replace(init=init, body=self.whole(block.body))

    def rewrite_BlockRealize(self, s: BlockRealize) -> Any:
        if _may_be_empty(s.block):
            made = self._init_alone(s)
            if made is not None:
                self._pending.append(made)
        return s.replace(block=self.rewrite(s.block))

    def _init_alone(self, s: BlockRealize) -> _Pending | None:
        """The init of a block, or None where nothing but a block that is not to run leads to it."""
        block, inside, free = s.block, *self._inside(s)
        variables: dict[Var, PrimExpr] = {}
        axes: list[IterVar] = []
        values: list[PrimExpr] = []
        loops: list[tuple[Var, Range]] = []
        condition = empty_condition(block)
        for axis, value in zip(block.iter_vars, s.iter_values, strict=True):
            if axis.iter_type == IterVar.CommReduce and axis.dom is not None:
                variables[axis.var] = axis.dom.min
                continue
            fresh = axis.var.copy_with()
            variables[axis.var] = fresh
            axes.append(axis.replace(var=fresh))
            if axis in free and axis.dom is not None:
                loops.append((Var(axis.var.name, value.dtype), _of_type(axis.dom, value)))
                value = loops[-1][0]
            values.append(value)
        kept = [c for c in _conjuncts(s.predicate) if not mentions(c, inside)]
        predicate: PrimExpr = const(True)
        for c in kept:
            predicate = and_(predicate, c)
        body: Stmt = BlockRealize(tuple(values), predicate, _block_of_init(block, axes, variables))
        for var, dom in reversed(loops):
            body = For(var, dom.min, dom.extent, ForKind.SERIAL, body)
        waiting = sum(1 for v, value in self._around if value is None and v in inside)
        if not waiting or mentions(condition, inside) or mentions(body, inside):
            return None
        return _Pending(condition, body, inside, waiting)

    def _inside(self, s: BlockRealize) -> tuple[dict[Var, None], dict[IterVar, None]]:
        """Variables that go over the reduction, and the axes beside it whose values come from them.

        Such an axis, of a loop over both, has a loop of its own for the init; so no loop that it depends on is
        around that.
        """
        lets = {v: value for v, value in self._around if value is not None}
        pairs = list(zip(s.block.iter_vars, s.iter_values, strict=True))
        inside: dict[Var, None] = {}
        free: dict[IterVar, None] = {}
        found = [v for a, v in pairs if a.iter_type == IterVar.CommReduce]
        while found:
            reached = variables(*found)
            for v, value in reversed(self._around):
                if value is not None and v in reached:
                    reached.update(variables(value))
            inside.update({v: None for v, value in self._around if value is None and v in reached})
            for v, value in lets.items():
                if mentions(value, inside):
                    inside[v] = None
            found = list[PrimExpr]()
            for axis, value in pairs:
                if axis.iter_type != IterVar.CommReduce and axis not in free and mentions(value, inside):
                    free[axis] = None
                    found.append(value)
        return inside, free

    # -- statements around -----------------------------------------------------------------------

    def rewrite_For(self, loop: For) -> Any:
        self._around.append((loop.loop_var, None))
        body, found = self._below(loop.body)
        self._around.pop()
        here: list[Stmt] = []
        for p in found:
            if loop.loop_var in p.inside:
                p.waiting -= 1
            elif not p.waiting and not _may_leave(p, loop):
                here.append(p.statement())
                continue
            else:
                if loop.loop_var in variables(p.condition):
                    p.put_under_condition()
                fresh = loop.loop_var.copy_with()
                p.body = loop.replace(loop_var=fresh, body=substitute(p.body, {loop.loop_var: fresh}))
            self._pending.append(p)
        return loop.replace(body=st.seq(*here, body))

    def rewrite_SeqStmt(self, s: st.SeqStmt) -> Any:
        parts: list[Stmt] = []
        for part in s.seq:
            part, found = self._settled_below(part)
            parts.append(part)
            self._pending += found
        return st.seq(*parts)

    def rewrite_IfThenElse(self, s: st.IfThenElse) -> Any:
        then, found = self._settled_below(s.then_case)
        otherwise, others = (None, []) if s.else_case is None else self._settled_below(s.else_case)
        for condition, pending in ((s.condition, found), (not_(s.condition), others)):
            for p in pending:
                if not mentions(condition, p.inside):
                    p.put_under_condition()
                    p.body = st.IfThenElse(condition, p.body)
                self._pending.append(p)
        return s.replace(then_case=then, else_case=otherwise)

    def rewrite_LetStmt(self, s: st.LetStmt) -> Any:
        self._around.append((s.var, s.value))
        body, found = self._settled_below(s.body)
        self._around.pop()
        for p in found:
            if p.uses(s.var):
                p.put_under_condition()
                fresh = s.var.copy_with()
                p.body = st.LetStmt(fresh, s.value, substitute(p.body, {s.var: fresh}))
            self._pending.append(p)
        return s.replace(body=body)

    def rewrite_AttrStmt(self, s: st.AttrStmt) -> Any:
        launched = s.node.var if s.attr_key in _LAUNCHES and isinstance(s.node, IterVar) else None
        if launched is not None:
            self._around.append((launched, None))
        body, found = self._settled_below(s.body)
        if launched is not None:
            self._around.pop()
        for p in found:
            if launched is not None and launched in p.inside:
                p.waiting -= 1
            elif launched is not None:
                p.put_under_condition()
                p.body = s.replace(body=p.body)
            self._pending.append(p)
        return s.replace(body=body)

    def rewrite_DeclBuffer(self, s: st.DeclBuffer) -> Any:
        body, found = self._settled_below(s.body)
        for p in found:
            p.put_under_condition()
            p.body = s.replace(body=p.body)
            self._pending.append(p)
        return s.replace(body=body)

    def rewrite_AssertStmt(self, s: st.AssertStmt) -> Any:
        body, found = self._settled_below(s.body)
        self._pending += found
        return s.replace(body=body)

    def _of_memory(self, s: Any, pointer: Var) -> Any:
        body, found = self._settled_below(s.body)
        # What is allocated below a loop that does not run is seen by nobody.
        self._pending += [p for p in found if not p.uses(pointer)]
        return s.replace(body=body)

    def rewrite_Allocate(self, s: st.Allocate) -> Any:
        return self._of_memory(s, s.buffer_var)

    def rewrite_AllocateConst(self, s: st.AllocateConst) -> Any:
        return self._of_memory(s, s.buffer_var)

    def rewrite_BufferRealize(self, s: st.BufferRealize) -> Any:
        return self._of_memory(s, s.buffer.data)

    def rewrite_While(self, s: st.While) -> Any:
        # Whether the body would run is known only between the runs, of which there are none.
        body, _ = self._settled_below(s.body)
        return s.replace(body=body)


def _may_leave(p: _Pending, loop: For) -> bool:
    """Whether an init may stand in front of a loop around all its reduction, where it costs less."""
    return (
        loop.kind != ForKind.THREAD_BINDING
        and loop.loop_var not in variables(p.condition)
        and not reads_memory(p.condition)
    )


def _of_type(dom: Range, value: PrimExpr) -> Range:
    return Range.from_min_extent(_cast(dom.min, value), _cast(dom.extent, value))


def _cast(e: PrimExpr, like: PrimExpr) -> PrimExpr:
    return e if e.dtype is like.dtype else e.astype(like.dtype)


def _block_of_init(block: Block, axes: list[IterVar], variables: Mapping[Var, PrimExpr]) -> Block:
    """A block of the axes beside the reduction that does what the init of `block` does."""
    assert block.init is not None
    used = _buffers(block.init)
    views = tuple(m for m in block.match_buffers if m.buffer in used)
    touched = {**used, **{m.source.buffer: None for m in views}}
    made = Block(
        (),
        tuple(r for r in block.reads if r.buffer in touched),
        tuple(r for r in block.writes if r.buffer in touched),
        f"{block.name_hint}_init",
        block.init,
        None,
        tuple(b for b in block.alloc_buffers if b in used),
        views,
        span=block.span,
    )
    return substitute(made, variables).replace(iter_vars=tuple(axes))


def _buffers(s: Stmt) -> dict[Buffer, None]:
    found: dict[Buffer, None] = {}

    def look(node: object) -> None:
        if isinstance(node, Buffer):
            found[node] = None

    post_order_visit(s, look)
    return found


def _conjuncts(e: PrimExpr) -> list[PrimExpr]:
    return [*_conjuncts(e.a), *_conjuncts(e.b)] if isinstance(e, ex.And) else [e]
