"""Checks a program against the rules of `rules`: what every other part of the compiler may rely on.

The walk follows the order of evaluation with an explicit stack of generators, one for each open statement,
so that programs of any depth can be checked. Opening a scope and closing it again stand next to each other in
the handler of the statement that makes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from tscript.ir import expr as ex
from tscript.ir import stmt as st
from tscript.ir.base import Node
from tscript.ir.binding import is_realized_below
from tscript.ir.buffer import Buffer
from tscript.ir.expr import IntImm, IterVar, PrimExpr, Var
from tscript.ir.function import IRModule, PrimFunc
from tscript.ir.rules import WellFormedError
from tscript.ir.scopes import ScopeVerifier
from tscript.ir.stmt import Block, BlockRealize, For, ForKind, Stmt
from tscript.support.wording import kind_of, with_article


def verify_well_formed(obj: PrimFunc | IRModule, assert_mode: bool = True) -> bool:
    """Whether a function or module follows all rules; with `assert_mode` the first breach is raised.

    Raises WellFormedError (a VerifyError with `rule`, `node` and `span`), and TypeError for another object.
    """
    if not isinstance(obj, (PrimFunc, IRModule)):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"verify_well_formed takes a PrimFunc or an IRModule, not {kind_of(obj)}")
    try:
        if isinstance(obj, PrimFunc):
            _Verifier(None).function(obj)
        else:
            _verify_module(obj)
    except WellFormedError:
        if assert_mode:
            raise
        return False
    return True


def _verify_module(mod: IRModule) -> None:
    verifier = _Verifier(mod)
    symbols: dict[str, str] = {}
    for var, func in mod.functions.items():
        if not isinstance(func, PrimFunc):  # pyright: ignore[reportUnnecessaryIsInstance]
            continue
        symbol = func.attrs.get("global_symbol")
        if symbol is not None:
            # The key of a function that was given without a module is "main", whatever its own name.
            if var.name_hint not in (symbol, "main"):
                found = f"the function {var.name_hint!r} of the module has the global symbol {symbol!r}"
                raise WellFormedError("W15", found, func, func.span)
            if symbol in symbols:
                raise WellFormedError("W15", f"two functions have the global symbol {symbol!r}", func, func.span)
            symbols[symbol] = var.name_hint
        verifier.function(func)
    verifier.attributes("the module", mod.attrs)


Steps = Iterator[Stmt]


class _Verifier(ScopeVerifier):
    """Walks functions and statements."""

    # -- functions ----------------------------------------------------------------------------------

    def function(self, func: PrimFunc) -> None:
        """Check one function."""
        self.spans = [func.span]
        self.threads = {}
        self.block_level = 0
        made: list[Var] = []
        for p in func.params:
            if not isinstance(p, Var):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise self.fail("W14", f"a parameter is {kind_of(p)}, not a variable", func)
            if p in self.in_scope:
                raise self.fail("W14", f"the parameter {p.name} occurs twice", func)
            self.define(p, func)
            made.append(p)
        for p, buffer in func.buffer_map.items():
            if not any(p is q for q in func.params):
                raise self.fail("W14", f"the buffer {buffer.name} belongs to {p.name}, which is no parameter", func)
            if not p.dtype.is_handle:
                raise self.fail(
                    "W14", f"the buffer {buffer.name} belongs to {p.name}, which is {with_article(p.dtype)}", func
                )
            made += self.declare(buffer, True, func)
            made += self.implied(buffer, func)
        for buffer in func.buffer_map.values():
            self.layout(buffer)
        self.attributes("the function", func.attrs)
        self.statement(func.body, func)
        self.undefine(made)
        self.buffers.difference_update(func.buffer_map.values())

    # -- statements ---------------------------------------------------------------------------------

    def statement(self, root: Any, parent: object) -> None:
        """Check a statement and all below it."""
        open_: list[Steps] = [self._steps(root, parent)]
        while open_:
            below = next(open_[-1], _END)
            if below is _END:
                open_.pop()
                self.spans.pop()
            else:
                open_.append(self._steps(below, None))

    def _steps(self, s: Any, parent: object) -> Steps:
        handler = _HANDLERS.get(s.__class__)
        if handler is None:
            raise self.fail("W20", f"{kind_of(s)} stands where a statement is needed", s if parent is None else parent)
        self.spans.append(s.span)
        return handler(self, s)

    def evaluate(self, s: st.Evaluate) -> Steps:
        """A statement without parts."""
        self.expr(s.value)
        yield from ()

    def let(self, s: st.LetStmt) -> Steps:
        """The value is outside the scope of the variable."""
        self.expr(s.value)
        self.define(s.var, s)
        yield s.body
        self.undefine((s.var,))

    def attr(self, s: st.AttrStmt) -> Steps:
        """An attribute that launches a thread defines its index; other nodes are used."""
        self.expr(s.value)
        made: list[Var] = []
        if isinstance(s.node, IterVar):
            made = self._thread(s.node, s.value if s.attr_key in ("thread_extent", "virtual_thread") else None, s)
        elif isinstance(s.node, ex.CommReducer):
            self.reducer(s.node)
        elif isinstance(s.node, Buffer):
            # The buffer that the body realizes is named where it does not exist yet.
            if not is_realized_below(s):
                self.use_buffer(s.node)
        elif isinstance(s.node, PrimExpr):
            self.expr(s.node)
        yield s.body
        self.undefine(made)

    def _thread(self, axis: IterVar, extent: PrimExpr | None, node: object) -> list[Var]:
        """Define a thread index; one index may be launched at several places, with one extent."""
        if axis.dom is not None:
            self.range(axis.dom)
        if axis.var in self.threads:
            known = self.threads[axis.var]
            if _differ(extent, known):
                raise self.fail(
                    "W11", f"the thread {axis.thread_tag or axis.var.name} is launched with another extent", node
                )
            if axis.var in self.in_scope:
                return []
            self.in_scope.add(axis.var)
            return [axis.var]
        if axis.var in self.in_scope:
            return []
        self.define(axis.var, node)
        self.threads[axis.var] = extent
        return [axis.var]

    def assertion(self, s: st.AssertStmt) -> Steps:
        """The body stands after the check."""
        self.expr(s.condition)
        if not s.condition.dtype.is_bool:
            raise self.fail("W18", f"the condition of an assertion is {with_article(s.condition.dtype)}", s)
        if not isinstance(s.message, ex.StringImm):
            raise self.fail("W18", f"the message of an assertion is {kind_of(s.message)}", s)
        yield s.body

    def allocate(self, s: st.Allocate) -> Steps:
        """Memory that lives as long as the body runs."""
        self._extents(s.buffer_var, s.extents, s)
        self.expr(s.condition)
        if not s.condition.dtype.is_bool:
            raise self.fail("W18", f"the condition of an allocation is {with_article(s.condition.dtype)}", s)
        self.attributes("the allocation", s.annotations)
        self.define(s.buffer_var, s)
        yield s.body
        self.undefine((s.buffer_var,))

    def allocate_const(self, s: st.AllocateConst) -> Steps:
        """Constant memory."""
        self._extents(s.buffer_var, s.extents, s)
        self.attributes("the allocation", s.annotations)
        self.define(s.buffer_var, s)
        yield s.body
        self.undefine((s.buffer_var,))

    def _extents(self, pointer: Var, extents: Iterable[PrimExpr], node: object) -> None:
        if not pointer.dtype.is_handle:
            raise self.fail(
                "W19", f"memory is allocated for {pointer.name}, which is {with_article(pointer.dtype)}", node
            )
        for e in extents:
            self.expr(e)
            if not e.dtype.is_integer:
                raise self.fail("W19", f"an extent of the allocation is {with_article(e.dtype)}", node)

    def decl_buffer(self, s: st.DeclBuffer) -> Steps:
        """A view of memory that is in scope."""
        self.layout(s.buffer)
        if s.buffer.data not in self.in_scope:
            raise self.fail("W03", f"the buffer {s.buffer.name} is declared on a pointer that is not in scope", s)
        self.buffers.add(s.buffer)
        yield s.body
        self.buffers.discard(s.buffer)

    def realize_buffer(self, s: st.BufferRealize) -> Steps:
        """A buffer whose region exists while the body runs."""
        made = self.declare(s.buffer, True, s)
        self.layout(s.buffer)
        for r in s.bounds:
            self.range(r)
        self.expr(s.condition)
        yield s.body
        self.undefine(made)
        self.buffers.discard(s.buffer)

    def store(self, s: st.BufferStore) -> Steps:
        """Value, subscripts and buffer are used."""
        self.expr(s.value)
        self.access(s)
        lanes = s.indices[-1].dtype.lanes if s.indices else 1
        want = s.buffer.dtype.with_lanes(s.buffer.dtype.lanes * lanes)
        if s.value.dtype is not want:
            raise self.fail("W12", f"a store to {s.buffer.name} takes {want!s}, not {s.value.dtype!s}", s)
        for e in s.indices:
            self.expr(e)
        if s.predicate is not None:
            self.expr(s.predicate)
        self.use_buffer(s.buffer)
        yield from ()

    def sequence(self, s: st.SeqStmt) -> Steps:
        """Statements one after the other."""
        if len(s.seq) < 2 or any(isinstance(x, st.SeqStmt) for x in s.seq):
            raise self.fail("W08", "a sequence is too short or holds a sequence", s)
        yield from s.seq

    def branch(self, s: st.IfThenElse) -> Steps:
        """One of two statements."""
        self._condition(s.condition, s)
        yield s.then_case
        if s.else_case is not None:
            yield s.else_case

    def repeat(self, s: st.While) -> Steps:
        """A loop without a counter."""
        self._condition(s.condition, s)
        yield s.body

    def _condition(self, e: PrimExpr, node: object) -> None:
        self.expr(e)
        if not e.dtype.is_bool or e.dtype.lanes != 1:
            raise self.fail("W18", f"a condition is {with_article(e.dtype)}", node)

    def loop(self, s: For) -> Steps:
        """Start and extent are outside the scope of the loop variable."""
        self.expr(s.min)
        self.expr(s.extent)
        kind = s.loop_var.dtype
        if not kind.is_integer or kind.lanes != 1 or s.min.dtype is not kind or s.extent.dtype is not kind:
            bounds = f"from {with_article(s.min.dtype)} over {with_article(s.extent.dtype)}"
            found = f"the loop over {s.loop_var.name} ({kind!s}) runs {bounds}"
            raise self.fail("W09", found, s)
        made: list[Var] = []
        if (s.kind == ForKind.THREAD_BINDING) is not (s.thread_binding is not None):
            found = f"the loop over {s.loop_var.name} is of kind {ForKind.NAMES[s.kind]}"
            raise self.fail("W10", found + (" but names a thread" if s.thread_binding else " but names no thread"), s)
        if s.thread_binding is not None and s.thread_binding.var is not s.loop_var:
            made = self._thread(s.thread_binding, None, s)
        self.define(s.loop_var, s)
        self.loop_level[s.loop_var] = self.block_level
        self.attributes(f"the loop over {s.loop_var.name}", s.annotations)
        yield s.body
        del self.loop_level[s.loop_var]
        self.undefine((*made, s.loop_var))

    def prefetch(self, s: st.Prefetch) -> Steps:
        """A region is used."""
        self.use_buffer(s.buffer)
        for r in s.bounds:
            self.range(r)
        yield from ()

    # -- blocks -------------------------------------------------------------------------------------

    def realize_block(self, s: BlockRealize) -> Steps:
        """Values and predicate are outside the block."""
        for axis, value in zip(s.block.iter_vars, s.iter_values, strict=True):
            self.expr(value)
            if not value.dtype.is_integer or value.dtype.lanes != 1:
                found = f"the axis {axis.var.name} is {axis.var.dtype!s} but takes a value of type {value.dtype!s}"
                raise self.fail("W05", found, s)
        self.expr(s.predicate)
        if not s.predicate.dtype.is_bool or s.predicate.dtype.lanes != 1:
            raise self.fail(
                "W06", f"the predicate of block {s.block.name_hint!r} is {with_article(s.predicate.dtype)}", s
            )
        yield s.block

    def block(self, s: Block) -> Steps:
        """Axes, local buffers and views are visible inside only."""
        made: list[Var] = []
        for axis in s.iter_vars:
            self._axis(axis, s)
        for axis in s.iter_vars:
            self.define(axis.var, s)
            made.append(axis.var)
        if s.iter_vars:
            self.block_level += 1
        for buffer in s.alloc_buffers:
            self.layout(buffer)
            made += self.declare(buffer, True, s)
        for match in s.match_buffers:
            made += self._match(match, s)
        self.attributes(f"block {s.name_hint!r}", s.annotations)
        if s.init is not None:
            yield s.init
        yield s.body
        # Last, since regions have no place in a source: what is wrong in them mostly comes from a statement.
        for region in (*s.reads, *s.writes):
            self.region(region)
        if s.iter_vars:
            self.block_level -= 1
        self.undefine(made)
        self.buffers.difference_update(s.alloc_buffers)
        self.buffers.difference_update(m.buffer for m in s.match_buffers)

    def _axis(self, axis: IterVar, block: Block) -> None:
        if axis.dom is None:
            raise self.fail("W05", f"the axis {axis.var.name} of block {block.name_hint!r} has no domain", block)
        self.range(axis.dom)
        kind = axis.var.dtype
        if not kind.is_integer or axis.dom.min.dtype is not kind or axis.dom.extent.dtype is not kind:
            domain = f"runs from {with_article(axis.dom.min.dtype)} over {with_article(axis.dom.extent.dtype)}"
            found = f"the axis {axis.var.name} is {kind!s} but {domain}"
            raise self.fail("W05", found, block)

    def _match(self, match: st.MatchBufferRegion, block: Block) -> list[Var]:
        view, source = match.buffer, match.source
        self.region(source)
        if view.dtype is not source.buffer.dtype:
            raise self.fail(
                "W07", f"{view.name} is {view.dtype!s} but views {with_article(source.buffer.dtype)} buffer", block
            )
        if view.scope() != source.buffer.scope():
            found = f"{view.name} lies in {view.scope()!r} but views a buffer in {source.buffer.scope()!r}"
            raise self.fail("W07", found, block)
        dropped = len(source.region) - len(view.shape)
        if dropped < 0:
            raise self.fail("W07", f"{view.name} has more dimensions than the region it views", block)
        for r in source.region[:dropped]:
            if isinstance(r.extent, IntImm) and r.extent.value != 1:
                raise self.fail("W07", f"{view.name} leaves out a dimension of extent {r.extent.value}", block)
        for size, r in zip(view.shape, source.region[dropped:], strict=True):
            if isinstance(size, IntImm) and isinstance(r.extent, IntImm) and size.value != r.extent.value:
                raise self.fail(
                    "W07", f"{view.name} has an extent {size.value} where its region has {r.extent.value}", block
                )
        made = self.declare(view, True, block)
        made += self.implied(view, block)
        self.layout(view)
        return made


_END: Final = object()


def _differ(x: PrimExpr | None, y: PrimExpr | None) -> bool:
    if isinstance(x, IntImm) and isinstance(y, IntImm):
        return x.value != y.value
    return x is not None and y is not None and x is not y


_HANDLERS: Final[dict[type[Node], Callable[[_Verifier, Any], Steps]]] = {
    st.Evaluate: _Verifier.evaluate,
    st.LetStmt: _Verifier.let,
    st.AttrStmt: _Verifier.attr,
    st.AssertStmt: _Verifier.assertion,
    st.Allocate: _Verifier.allocate,
    st.AllocateConst: _Verifier.allocate_const,
    st.DeclBuffer: _Verifier.decl_buffer,
    st.BufferRealize: _Verifier.realize_buffer,
    st.BufferStore: _Verifier.store,
    st.SeqStmt: _Verifier.sequence,
    st.IfThenElse: _Verifier.branch,
    st.While: _Verifier.repeat,
    For: _Verifier.loop,
    st.Prefetch: _Verifier.prefetch,
    BlockRealize: _Verifier.realize_block,
    Block: _Verifier.block,
}

__all__ = ["WellFormedError", "verify_well_formed"]
