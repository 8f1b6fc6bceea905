"""Statements other than blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from tscript.ir import construct
from tscript.ir import expr as ex
from tscript.ir import stmt as st
from tscript.ir.dtype import BOOL, DataType
from tscript.ir.expr import IntImm, IterVar, PrimExpr, Var
from tscript.ir.occurrences import mentions
from tscript.ir.stmt import ForKind, Stmt
from tscript.printer.buffer import assignment, box, declaration, subscripts
from tscript.printer.core import Frame, Keys, Line, Piece, Printer, Steps, Text, prints_stmt
from tscript.printer.expr import call, commas, listed
from tscript.printer.literal import float_text, quoted
from tscript.printer.options import PathMark, step
from tscript.printer.scopes import THREAD_KEYS

INT8: Final = DataType("int8")
MOST_CONSTANTS: Final = 201
"""How many elements of constant memory are printed."""


def is_true(e: PrimExpr) -> bool:
    """Whether `e` is the constant true."""
    return isinstance(e, IntImm) and e.value == 1


def is_zero(e: PrimExpr) -> bool:
    """Whether `e` is the integer constant 0."""
    return isinstance(e, IntImm) and e.value == 0


# -- simple statements ----------------------------------------------------------------------------


@prints_stmt(st.Evaluate)
def _evaluate(p: Printer, s: st.Evaluate, mark: PathMark | None) -> None:
    e = s.value
    pieces: Sequence[Piece]
    if isinstance(e, ex.Call) and p.options.syntax_sugar and _is_return(e):
        pieces = ["return ", (e.args[0], 0, ("value", "args", 0))]
    elif isinstance(e, ex.Call):
        pieces = [(e, 0, ("value",))]
    else:
        pieces = call(p.tir("evaluate"), [(e, 0, ("value",))])[1]
    p.emit(s, mark, [p.line(pieces, mark)])


def _is_return(e: ex.Call) -> bool:
    return isinstance(e.op, ex.Op) and e.op.name == "tir.ret" and len(e.args) == 1


@prints_stmt(st.BufferStore)
def _buffer_store(p: Printer, s: st.BufferStore, mark: PathMark | None) -> None:
    # In this order, which is that of the definitions of free variables.
    buffer = p.text([(s.buffer, 0, ("buffer",))], mark)
    value = p.text([(s.value, 0, ("value",))], mark)
    if s.predicate is None:
        p.emit(s, mark, [p.line([buffer, *subscripts(s.indices), " = ", value], mark)])
        return
    predicate: list[Piece] = ["predicate=", (s.predicate, 0, ("predicate",))]
    args = commas([listed(s.indices, "indices"), [value], predicate])
    p.emit(s, mark, [p.line([buffer, ".vstore(", *args, ")"], mark)])


@prints_stmt(st.Prefetch)
def _prefetch(p: Printer, s: st.Prefetch, mark: PathMark | None) -> None:
    pieces = call(p.tir("prefetch"), [(s.buffer, 0, ("buffer",))], listed(s.bounds, "bounds"))[1]
    p.emit(s, mark, [p.line(pieces, mark)])


@prints_stmt(st.SeqStmt)
def _seq(p: Printer, s: st.SeqStmt, mark: PathMark | None) -> Steps:
    return p.body(s, mark)


# -- branches and loops ---------------------------------------------------------------------------


@prints_stmt(st.IfThenElse)
def _if(p: Printer, s: st.IfThenElse, mark: PathMark | None) -> Steps:
    lines = [p.line(["if ", (s.condition, 0, ("condition",)), ":"], mark)]
    p.push(p.frame(s.then_case))
    yield p.body(s.then_case, step(mark, "then_case"))
    lines += p.pop().lines
    if s.else_case is not None:
        lines.append(p.line(["else:"]))
        p.push(p.frame(s.else_case))
        yield p.body(s.else_case, step(mark, "else_case"))
        lines += p.pop().lines
    p.emit(s, mark, lines, compound=True)


@prints_stmt(st.While)
def _while(p: Printer, s: st.While, mark: PathMark | None) -> Steps:
    head = p.line(["while ", (s.condition, 0, ("condition",)), ":"], mark)
    p.push(p.frame(s))
    yield p.body(s.body, step(mark, "body"))
    p.emit(s, mark, [head, *p.pop().lines], compound=True)


def _grid(p: Printer, loop: st.For, mark: PathMark | None) -> list[st.For]:
    """The directly nested loops, from `loop` inwards, that one `T.grid` can stand for."""
    chain: list[st.For] = []
    variables: dict[Var, None] = {}
    node: Stmt = loop
    while isinstance(node, st.For):
        if (
            node.kind != ForKind.SERIAL
            or node.annotations
            or not is_zero(node.min)
            or (chain and (mentions(node.extent, variables) or p.note(node, mark) is not None))
        ):
            break
        chain.append(node)
        variables[node.loop_var] = None
        node, mark = node.body, step(mark, "body")
    return chain


@prints_stmt(st.For)
def _for(p: Printer, s: st.For, mark: PathMark | None) -> Steps:
    chain = _grid(p, s, mark) if p.options.syntax_sugar else []
    loops = chain if len(chain) > 1 else [s]
    frame = p.frame(*loops)
    marks: list[PathMark | None] = [mark]
    for _ in loops:
        marks.append(step(marks[-1], "body"))
    names: list[Text] = []
    for loop, m in zip(loops, marks, strict=False):
        names.append(p.named(loop.loop_var, p.define_var(loop.loop_var, frame), step(m, "loop_var")))
        p.loops[loop.loop_var] = loop
    header: list[Piece] = ["for ", *commas([[n] for n in names]), " in "]
    if len(loops) > 1:
        extents: list[list[Piece]] = [
            [p.text([(g.extent, 0, ("extent",))], m)] for g, m in zip(loops, marks, strict=False)
        ]
        header += [*call(p.tir("grid"), *extents)[1], ":"]
    else:
        header += [*_loop_kind(p, s), ":"]
    head = p.line(header, mark)
    p.push(frame)
    yield p.body(loops[-1].body, marks[-1])
    lines = [head, *p.pop().lines]
    for loop in loops:
        p.loops.pop(loop.loop_var, None)
    for loop, m in reversed(list(zip(loops[1:], marks[1:], strict=False))):
        p.also_place(loop, m, lines)
    p.emit(s, mark, lines, compound=True)


def _loop_kind(p: Printer, s: st.For) -> list[Piece]:
    args: list[list[Piece]] = []
    if is_zero(s.min):
        args.append([(s.extent, 0, ("extent",))])
    else:
        args.append([(s.min, 0, ("min",))])
        args.append([(construct.add(s.min, s.extent), 0, ("extent",))])
    if s.thread_binding is not None or s.kind == ForKind.THREAD_BINDING:
        args.append(["thread=", quoted(s.thread_binding.thread_tag if s.thread_binding is not None else "")])
    if s.annotations:
        args.append(["annotations=", (s.annotations, 0, ("annotations",))])
    plain = s.kind == ForKind.SERIAL and not s.annotations
    return list(call("range" if plain else p.tir(ForKind.NAMES[s.kind]), *args)[1])


# -- declarations that last to the end of their scope ---------------------------------------------


def _scoped(
    p: Printer,
    s: Stmt,
    mark: PathMark | None,
    frame: Frame,
    concise: bool,
    lines: tuple[Sequence[Piece], Sequence[Piece]],
    body: Stmt,
    keys: Keys = ("body",),
) -> Steps:
    """Print `lines[0]` and the body at the same depth, or the `with` line `lines[1]` and the body deeper.

    The frame's own variables are defined already, so that the lines can name them.
    """
    head = p.line(lines[0] if concise else [*lines[1], ":"], mark)
    p.push(frame)
    yield p.body(body, step(mark, *keys))
    p.emit(s, mark, [head, *p.pop().lines], compound=not concise)


def _with(rhs: Sequence[Piece], name: Text | None) -> list[Piece]:
    return ["with ", *rhs] if name is None else ["with ", *rhs, " as ", name]


@prints_stmt(st.LetStmt)
def _let(p: Printer, s: st.LetStmt, mark: PathMark | None) -> Steps:
    concise = p.take_concise(s, mark)
    value = p.text([(s.value, 0, ("value",))], mark)
    again = p.variables.get(s.var)
    if again is not None:
        frame = p.frame(s)
        rhs = call(p.tir("LetStmt"), [value], [f"var={again}"])[1]
        return _scoped(p, s, mark, frame, False, ([], _with(rhs, None)), s.body)
    frame = p.frame(s, deeper=not concise)
    name = p.named(s.var, p.define_var(s.var, frame), step(mark, "var"))
    kind: Piece = (s.var.type_annotation, 0, ("var", "type_annotation"))
    typed = [] if isinstance(s.var.type_annotation, ex.PrimType) else [[kind]]
    rhs = call(p.tir("LetStmt"), [value], *typed)[1]
    return _scoped(p, s, mark, frame, concise, ([name, ": ", kind, " = ", value], _with(rhs, name)), s.body)


@prints_stmt(st.AssertStmt)
def _assert(p: Printer, s: st.AssertStmt, mark: PathMark | None) -> Steps:
    concise = p.take_concise(s, mark)
    args: list[list[Piece]] = [[(s.condition, 0, ("condition",))], [(s.message, 0, ("message",))]]
    text = p.text(commas(args), mark)
    lines = (["assert ", text], _with([p.tir("Assert") + "(", text, ")"], None))
    return _scoped(p, s, mark, p.frame(s, deeper=not concise), concise, lines, s.body)


def _assigned(rhs: Sequence[Piece], name: Text | None) -> list[Piece]:
    return list(rhs) if name is None else [name, " = ", *rhs]


@prints_stmt(st.AttrStmt)
def _attr(p: Printer, s: st.AttrStmt, mark: PathMark | None) -> Steps:
    concise = p.take_concise(s, mark)
    frame = p.frame(s, deeper=not concise)
    name: Text | None = None
    body, keys = s.body, ("body",)
    value: Piece = (s.value, 0, ("value",))
    if s.attr_key == "realize_scope" and isinstance(s.body, st.BufferRealize) and s.body.buffer is s.node:
        frame = p.frame(s, s.body, deeper=not concise)
        rhs = _realize(p, s.body, ("body",), value)
        body, keys = s.body.body, ("body", "body")
    elif s.attr_key in THREAD_KEYS and isinstance(s.node, IterVar) and s.node.thread_tag:
        axis = s.node
        value = p.text([value], mark)
        known = p.variables.get(axis.var)
        if known is None and p.scopes.is_within(axis.var, frame.scope) and axis.var.dtype is s.value.dtype:
            name = p.named(axis, p.define_var(axis.var, frame), step(mark, "node"))
            first: Piece = quoted(axis.thread_tag)
        else:
            first = p.named(axis, known or _env_thread(p, axis), step(mark, "node"))
        rhs = call(p.tir("launch_thread"), [first], [value])[1]
    else:
        node: Piece = (s.node, 0, ("node",))
        rhs = call(p.tir("attr"), [node], [quoted(s.attr_key)], [value])[1]
    rhs = [p.text(rhs, mark)]
    return _scoped(p, s, mark, frame, concise, (_assigned(rhs, name), _with(rhs, name)), body, keys)


def _env_thread(p: Printer, axis: IterVar) -> str:
    """Define a thread index that several launches share, around all of them."""
    frame = p.home(axis.var)
    name = p.define_var(axis.var, frame)
    kind: list[list[Piece]] = [] if axis.var.dtype is p.options.int_dtype else [["dtype=", quoted(axis.var.dtype)]]
    rhs = call(p.tir("env_thread"), [quoted(axis.thread_tag)], *kind)[1]
    frame.lines.append(p.line([p.named(axis.var, name), " = ", *rhs], frame=frame))
    return name


def _realize(p: Printer, s: st.BufferRealize, keys: Keys, scope: Piece | None) -> Sequence[Piece]:
    region: list[Piece] = [(s.buffer, 0, (*keys, "buffer")), *box(s.bounds, points=False)]
    args: list[list[Piece]] = [region] if scope is None else [region, [scope]]
    if not is_true(s.condition):
        args.append([*(["condition="] if scope is None else []), (s.condition, 0, (*keys, "condition"))])
    return call(p.tir("realize"), *args)[1]


@prints_stmt(st.BufferRealize)
def _buffer_realize(p: Printer, s: st.BufferRealize, mark: PathMark | None) -> Steps:
    concise = p.take_concise(s, mark)
    rhs = [p.text(_realize(p, s, (), None), mark)]
    return _scoped(p, s, mark, p.frame(s, deeper=not concise), concise, (rhs, _with(rhs, None)), s.body)


def _is_plain_declaration(s: st.Allocate) -> bool:
    """Whether the body declares the allocated memory as one buffer, so that `T.decl_buffer` can do both."""
    if not isinstance(s.body, st.DeclBuffer) or s.annotations or not is_true(s.condition):
        return False
    b = s.body.buffer
    # The pointer that the declaration would make: memory of bools is addressed as bytes.
    element = INT8.with_lanes(b.dtype.lanes) if b.dtype.element is BOOL else b.dtype
    return (
        b.data is s.buffer_var
        and b.data.type_annotation is ex.PointerType(ex.PrimType(element), b.scope())
        and b.dtype is s.dtype
        and len(b.shape) == len(s.extents)
        and all(x is y for x, y in zip(b.shape, s.extents, strict=True))
    )


@prints_stmt(st.Allocate)
def _allocate(p: Printer, s: st.Allocate, mark: PathMark | None) -> Steps:
    if p.options.syntax_sugar and s.buffer_var not in p.variables and _is_plain_declaration(s):
        return _declare(p, s, s.body, mark)  # pyright: ignore[reportArgumentType]
    concise = p.take_concise(s, mark)
    pointer = s.buffer_var.type_annotation
    scope = pointer.storage_scope if isinstance(pointer, ex.PointerType) else "global"
    args: list[list[Piece]] = [listed(s.extents, "extents"), [quoted(s.dtype)], [quoted(scope)]]
    if not is_true(s.condition):
        args.append([(s.condition, 0, ("condition",))])
    return _memory(p, s, mark, concise, "allocate", args)


@prints_stmt(st.AllocateConst)
def _allocate_const(p: Printer, s: st.AllocateConst, mark: PathMark | None) -> Steps:
    concise = p.take_concise(s, mark)
    data: Any = np.asarray(s.data).reshape(-1)
    numbers = [_plain_number(v) for v in data[:MOST_CONSTANTS].tolist()]
    args: list[list[Piece]] = [["[" + ", ".join(numbers) + "]"], [quoted(s.dtype)], listed(s.extents, "extents")]
    if data.size > MOST_CONSTANTS:
        text = f"# The first {MOST_CONSTANTS} of {data.size} values are shown."
        p.frames[-1].lines.append(Line(p.frames[-1].indent, text, comment=True))
    return _memory(p, s, mark, concise, "allocate_const", args)


def _plain_number(value: Any) -> str:
    return float_text(value) if isinstance(value, float) else str(value)


def _memory(
    p: Printer,
    s: st.Allocate | st.AllocateConst,
    mark: PathMark | None,
    concise: bool,
    method: str,
    args: list[list[Piece]],
) -> Steps:
    if s.annotations:
        args.append(["annotations=", (s.annotations, 0, ("annotations",))])
    rhs = [p.text(call(p.tir(method), *args)[1], mark)]
    frame = p.frame(s, deeper=not concise)
    name = p.named(s.buffer_var, p.define_var(s.buffer_var, frame), step(mark, "buffer_var"))
    return _scoped(p, s, mark, frame, concise, (_assigned(rhs, name), _with(rhs, name)), s.body)


@prints_stmt(st.DeclBuffer)
def _decl_buffer(p: Printer, s: st.DeclBuffer, mark: PathMark | None) -> Steps:
    return _declare(p, None, s, mark)


def _declare(p: Printer, allocation: st.Allocate | None, s: st.DeclBuffer, mark: PathMark | None) -> Steps:
    """Print the declaration of a buffer, together with the allocation of its memory where there is one."""
    whole: Stmt = s if allocation is None else allocation
    keys: Keys = ("body",) if allocation is None else ("body", "body")
    concise = p.take_concise(whole, mark)
    frame = p.frame(s, deeper=not concise) if allocation is None else p.frame(allocation, s, deeper=not concise)
    name = p.named(s.buffer, p.define_buffer(s.buffer, frame))
    made = declaration(
        p, s.buffer, "decl_buffer", [], frame=frame, before=p.frames[-1], inline_data=allocation is not None
    )
    rhs = [p.text(made, mark)]
    return _scoped(p, whole, mark, frame, concise, (_assigned(rhs, name), _with(rhs, name)), s.body, keys)


# -- parts of blocks, printed alone ---------------------------------------------------------------


def match_line(p: Printer, m: st.MatchBufferRegion) -> Line:
    """The line that makes a buffer a view of a region."""
    source = p.text([(m.source, 0, ())])
    return assignment(p, m.buffer, "match_buffer", [[source]])
