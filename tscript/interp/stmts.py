"""Translation of statements other than blocks and thread launches."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tscript.interp import threads
from tscript.interp.access import compact_strides, declare, integer_of, product, store, total
from tscript.interp.calls import intrinsic_name, is_undef
from tscript.interp.emit import FIXED, STATEMENTS, Gen, Val, handles, number, paren
from tscript.interp.exprs import bind, require_free, root, unrounded
from tscript.interp.scalar import is_literal
from tscript.ir import expr as ex
from tscript.ir import stmt as st
from tscript.ir.buffer import Buffer
from tscript.ir.dtype import DataType, int_range
from tscript.ir.expr import PrimExpr, Var
from tscript.support.errors import InterpError

MAX_NESTED = 16
"""Loops within one Python function: CPython compiles no more than 20 nested ones."""


@handles(STATEMENTS, st.SeqStmt)
def _seq(g: Gen, s: st.SeqStmt) -> None:
    for child in s.seq:
        g.stmt(child)


@handles(STATEMENTS, st.Evaluate)
def _evaluate(g: Gen, s: st.Evaluate) -> None:
    name = intrinsic_name(s.value)
    if name == "ret" and isinstance(s.value, ex.Call):
        value = root(g, s.value.args[0])
        g.line("return True" if g.in_threads else f"return {value.code}")
    elif name == "tvm_storage_sync":
        threads.barrier(g, s.value)
    elif name == "tvm_thread_allreduce":
        threads.all_reduce(g, s.value)
    else:
        v = root(g, s.value)
        if not v.simple:
            g.line(v.code)


@handles(STATEMENTS, st.BufferStore)
def _store(g: Gen, s: st.BufferStore) -> None:
    value = root(g, s.value, unrounded)
    indices = [root(g, i) for i in s.indices]
    predicate = None if s.predicate is None else root(g, s.predicate)
    store(g, s.buffer, s.indices, indices, value, predicate, is_undef(s.value))


@handles(STATEMENTS, st.LetStmt)
def _let(g: Gen, s: st.LetStmt) -> None:
    bind(g, s.var, root(g, s.value))
    g.stmt(s.body)
    g.bound.discard(s.var)


@handles(STATEMENTS, st.AssertStmt)
def _assert(g: Gen, s: st.AssertStmt) -> None:
    condition = root(g, s.condition)
    message = s.message.value if isinstance(s.message, ex.StringImm) else str(s.message)
    g.line(f"if not ({condition.code}): raise _assertion_fails({message!r})")
    g.stmt(s.body)


@handles(STATEMENTS, st.IfThenElse)
def _if(g: Gen, s: st.IfThenElse) -> None:
    condition = root(g, s.condition)
    g.push()
    g.stmt(s.then_case)
    # Lines that the second branch places further out must come before the first one.
    then = g.stack.pop()
    otherwise = None
    if s.else_case is not None:
        g.push()
        g.stmt(s.else_case)
        otherwise = g.stack.pop()
    g.attach(f"if {condition.code}:", then)
    if otherwise is not None:
        g.attach("else:", otherwise)


@handles(STATEMENTS, st.While)
def _while(g: Gen, s: st.While) -> None:
    deep = g.stack[-1].nested >= MAX_NESTED
    if deep:
        g.push(function=True)
    g.push(loop=True)
    if g.options.count_steps:
        g.line("_run.spend(1)")
    condition = root(g, s.condition)
    g.line(f"if not ({condition.code}): break")
    g.stmt(s.body)
    g.pop("while True:")
    if deep:
        _close_part(g)


@handles(STATEMENTS, st.For)
def _for(g: Gen, s: st.For) -> None:
    if s.kind == st.ForKind.THREAD_BINDING and s.thread_binding is not None:
        tag = s.thread_binding.thread_tag
        if threads.launch(g, s.loop_var, tag, s.min, s.extent, s.body):
            return
    serial_loop(g, s.loop_var, s.min, s.extent, lambda: g.stmt(s.body))


def serial_loop(g: Gen, var: Var, start: PrimExpr, extent: PrimExpr, body: Callable[[], None]) -> None:
    """A loop whose iterations run in order; `body` translates one."""
    deep = g.stack[-1].nested >= MAX_NESTED
    require_free(g, var)
    low, count = root(g, start), root(g, extent)
    largest = int_range(var.dtype)[1]
    if low.hi + count.hi - 1 > largest:
        low, count = g.hold(low), g.hold(count)
        last = total(g, [low, count, number(-1)])
        shown = f"{var.name!r}, {str(var.dtype)!r}, {last.code}"
        g.line(f"if {paren(count)} > 0 and {paren(last)} > {largest}: raise _loop_too_long({shown})")
    if deep:
        low, count = g.hold(low), g.hold(count)
        g.push(function=True)
    if g.options.count_steps:
        g.line(f"_run.spend({count.code})")
    stop = total(g, [low, count])
    name = g.name(var.name)
    before = g.loops
    g.loops = (*before, (var.name, name))
    g.push(loop=True)
    top = max(low.hi + count.hi - 1, low.lo)
    g.env[var] = g.named(name, low.lo, min(top, int_range(var.dtype)[1]))
    if is_literal(low) and low.const == 0:
        g.uppers[name] = extent
    body()
    g.bound.discard(var)
    g.loops = before
    g.pop(f"for {name} in range({stop.code if is_literal(low) and low.const == 0 else f'{low.code}, {stop.code}'}):")
    if deep:
        _close_part(g)


def _close_part(g: Gen) -> None:
    part = g.name("part")
    if g.in_threads:
        g.line("return")
        g.line("yield")
    g.pop(f"def {part}():")
    made = g.name("done")
    g.line(f"{made} = yield from {part}()" if g.in_threads else f"{made} = {part}()")
    g.line(f"if {made} is not None: return {made}")


# -- memory ---------------------------------------------------------------------------------------


def allocate(g: Gen, var: Var, name: str, dtype: DataType, elements: Val, scope: str, condition: str = "") -> None:
    """Point `var` at fresh memory for `elements` elements of `dtype`."""
    nbytes = product(g, elements, number(dtype.bytes * dtype.lanes))
    pointer = g.name(f"p_{var.name}")
    code = f"_allocate({nbytes.code}, {name!r})"
    if g.in_threads and not threads.is_private(scope):
        code = f"_block.shared(_thread, {g.name('_site')!r}, {nbytes.code}, {name!r}, {scope.startswith('warp')})"
    g.line(f"{pointer} = {code}" + f" if {condition} else None" * bool(condition))
    g.pointers[var] = pointer
    g.pointer_levels[var] = g.level
    for buffer in [b for b in g.views if b.data is var]:
        del g.views[buffer]
    if threads.is_private(scope) and not g.in_threads:
        g.private.append((var, f"{pointer} = {code}"))


def element_count(g: Gen, extents: Sequence[PrimExpr]) -> Val:
    """The product of extents."""
    count = number(1)
    for e in extents:
        count = product(g, count, integer_of(g, e))
    return count


def allocate_buffer(g: Gen, buffer: Buffer) -> None:
    """Memory for a buffer of its own, big enough for its strides and offset."""
    _bind_layout(g, buffer)
    strides = [integer_of(g, s) for s in buffer.strides]
    offset = integer_of(g, buffer.elem_offset)
    if strides:
        last: Sequence[Val] = [
            product(g, total(g, [integer_of(g, e), number(-1)]), s) for e, s in zip(buffer.shape, strides, strict=True)
        ]
        span = total(g, [number(1), *last])
        count = Val(f"max(0, {span.code})", False, max(0, span.lo), max(0, span.hi))
    else:
        count = element_count(g, buffer.shape)
    count = total(g, [g.hold(count), offset])
    allocate(g, buffer.data, buffer.name, buffer.dtype, count, buffer.scope())
    declare(g, buffer, strides=strides, offset=offset, exact=True)


def _bind_layout(g: Gen, buffer: Buffer) -> None:
    """Offset and strides that the program leaves open are those of compact memory of its own."""
    if isinstance(buffer.elem_offset, Var) and buffer.elem_offset not in g.env:
        g.env[buffer.elem_offset] = number(0)
    if any(isinstance(s, Var) and s not in g.env for s in buffer.strides):
        steps = compact_strides(g, [integer_of(g, e) for e in buffer.shape])
        for s, step in zip(buffer.strides, steps, strict=True):
            if isinstance(s, Var):
                g.env.setdefault(s, step)


@handles(STATEMENTS, st.Allocate)
def _allocate(g: Gen, s: st.Allocate) -> None:
    condition = root(g, s.condition)
    test = "" if is_literal(condition) and condition.const else f"({condition.code})"
    private = len(g.private)
    allocate(g, s.buffer_var, s.buffer_var.name, s.dtype, element_count(g, s.extents), _scope_of(s.buffer_var), test)
    g.stmt(s.body)
    del g.private[private:]


def _scope_of(var: Var) -> str:
    annotation = var.type_annotation
    return annotation.storage_scope if isinstance(annotation, ex.PointerType) else "global"


@handles(STATEMENTS, st.AllocateConst)
def _allocate_const(g: Gen, s: st.AllocateConst) -> None:
    data = threads.constant_memory(s.data, s.dtype)
    g.pointers[s.buffer_var] = g.constant("_const", data)
    g.pointer_levels[s.buffer_var] = 0
    g.stmt(s.body)


@handles(STATEMENTS, st.DeclBuffer)
def _decl_buffer(g: Gen, s: st.DeclBuffer) -> None:
    if s.buffer.data not in g.pointers:
        raise InterpError(f"buffer {s.buffer.name} is declared on memory that nothing allocates", buffer=s.buffer.name)
    declare(g, s.buffer)
    g.stmt(s.body)


@handles(STATEMENTS, st.BufferRealize)
def _buffer_realize(g: Gen, s: st.BufferRealize) -> None:
    buffer = s.buffer
    if buffer.data not in g.pointers:
        # Ends read from memory stay what they are here, whatever the body stores.
        lows = [_kept(g, integer_of(g, r.min)) for r in s.bounds]
        extents = [_kept(g, integer_of(g, r.extent)) for r in s.bounds]
        private = len(g.private)
        allocate(
            g, buffer.data, buffer.name, buffer.dtype, element_count(g, [r.extent for r in s.bounds]), buffer.scope()
        )
        view = declare(g, buffer, strides=[], offset=number(0), lows=lows, extents=extents, exact=True)
        back = [product(g, product(g, low, step), number(-1)) for low, step in zip(lows, view.strides, strict=True)]
        view.base = total(g, back)
        view.extent_exprs = tuple(r.extent for r in s.bounds)
        g.stmt(s.body)
        del g.private[private:]
        del g.pointers[buffer.data], g.views[buffer]
        return
    g.stmt(s.body)


def _kept(g: Gen, v: Val) -> Val:
    return g.hold(v) if v.level == FIXED else v


@handles(STATEMENTS, st.Prefetch)
def _prefetch(g: Gen, s: st.Prefetch) -> None:
    return


@handles(STATEMENTS, st.AttrStmt)
def _attr(g: Gen, s: st.AttrStmt) -> None:
    if s.attr_key in ("thread_extent", "virtual_thread") and isinstance(s.node, ex.IterVar):
        threads.launch_axis(g, s.node, s.value, s.body, serial_loop)
    elif s.attr_key == "reduce_scope":
        g.reducers.append(s.node)
        g.stmt(s.body)
        g.reducers.pop()
    else:
        g.stmt(s.body)
