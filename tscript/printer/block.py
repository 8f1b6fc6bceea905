"""Blocks."""

from __future__ import annotations

from typing import Any, Final

from tscript.ir import construct
from tscript.ir.expr import IterVar, PrimExpr, Var
from tscript.ir.stmt import Block, BlockRealize, SeqStmt, Stmt
from tscript.printer.buffer import assignment
from tscript.printer.core import Piece, Printer, Steps, prints_stmt
from tscript.printer.expr import call, commas, subs
from tscript.printer.literal import quoted
from tscript.printer.options import PathMark, step
from tscript.printer.stmt import is_true, is_zero, match_line

_KINDS: Final = {
    IterVar.DataPar: "spatial",
    IterVar.CommReduce: "reduce",
    IterVar.Ordered: "scan",
    IterVar.Opaque: "opaque",
}
_REMAP_LETTERS: Final = {IterVar.DataPar: "S", IterVar.CommReduce: "R"}


@prints_stmt(BlockRealize)
def _block_realize(p: Printer, s: BlockRealize, mark: PathMark | None) -> Steps:
    return _print_block(p, s.block, s, mark, step(mark, "block"))


@prints_stmt(Block)
def _block(p: Printer, s: Block, mark: PathMark | None) -> Steps:
    return _print_block(p, s, None, None, mark)


def _print_block(
    p: Printer, block: Block, realize: BlockRealize | None, outer: PathMark | None, mark: PathMark | None
) -> Steps:
    bare: list[list[Piece]] = [["no_realize=True"]] if realize is None else []
    head = p.line([*call(p.tir("block"), [quoted(block.name_hint)], *bare)[1], ":"])
    head.text = p.text(["with ", head.text])
    frame = p.frame(block)
    p.push(frame)
    _axes(p, block, realize, outer, mark)
    lines = frame.lines
    if realize is not None and not is_true(realize.predicate):
        lines.append(p.line(call(p.tir("where"), [(realize.predicate, 0, ("predicate",))])[1], outer))
    lines.append(p.line(call(p.tir("reads"), *subs(block.reads, "reads"))[1], mark))
    lines.append(p.line(call(p.tir("writes"), *subs(block.writes, "writes"))[1], mark))
    if block.annotations:
        lines.append(p.line(call(p.tir("block_attr"), [(block.annotations, 0, ("annotations",))])[1], mark))
    lines.extend(assignment(p, b, "alloc_buffer", []) for b in block.alloc_buffers)
    for i, m in enumerate(block.match_buffers):
        line = match_line(p, m)
        lines.append(line)
        p.also_place(m, step(mark, "match_buffers", i), [line])
    if block.init is not None:
        begin = p.line(["with ", *call(p.tir("init"))[1], ":"])
        p.push(p.frame(block.init))
        yield p.body(block.init, step(mark, "init"))
        inner = p.pop().lines
        lines += [begin, *inner]
    yield p.body(block.body, step(mark, "body"))
    p.pop()
    whole = [head, *lines]
    if realize is None:
        p.emit(block, mark, whole, compound=True)
    else:
        note = p.note(block, mark)
        p.emit(realize, outer, whole, compound=True)
        p.also_place(block, mark, whole)
        if note is not None and p.note(realize, outer) is None:
            p.put_note_above(note, head)


def _axes(
    p: Printer, block: Block, realize: BlockRealize | None, outer: PathMark | None, mark: PathMark | None
) -> None:
    group: list[int] = []
    for i, axis in enumerate(block.iter_vars):
        if realize is not None and p.options.syntax_sugar and _is_remappable(p, axis, realize.iter_values[i]):
            group.append(i)
        else:
            _remap(p, block, realize, group, outer, mark)
            group = []
            _single(p, block, realize, i, outer, mark)
    _remap(p, block, realize, group, outer, mark)


def _is_remappable(p: Printer, axis: IterVar, value: PrimExpr) -> bool:
    """Whether the axis is bound to a loop variable as it is, and has the loop's domain."""
    if axis.iter_type not in _REMAP_LETTERS or not isinstance(value, Var) or axis.dom is None:
        return False
    loop = p.loops.get(value)
    return (
        loop is not None
        and loop.min is axis.dom.min
        and loop.extent is axis.dom.extent
        and axis.var.dtype is value.dtype
    )


def _remap(
    p: Printer, block: Block, realize: BlockRealize | None, group: list[int], outer: PathMark | None,
    mark: PathMark | None,
) -> None:  # fmt: skip
    if len(group) == 1 or realize is None:
        for i in group:
            _single(p, block, realize, i, outer, mark)
        return
    if not group:
        return
    frame = p.frames[-1]
    axes = [block.iter_vars[i] for i in group]
    names: list[list[Piece]] = [
        [p.named(a, p.define_var(a.var, frame), step(mark, "iter_vars", i))] for a, i in zip(axes, group, strict=True)
    ]
    letters = "".join(_REMAP_LETTERS[a.iter_type] for a in axes)
    values: list[list[Piece]] = [[(realize.iter_values[i], 0, ("iter_values", i))] for i in group]
    rhs = call(p.tir("axis.remap"), [quoted(letters)], ["[", *commas(values), "]"])[1]
    frame.lines.append(p.line([*commas(names), " = ", *rhs], outer))


def _single(
    p: Printer, block: Block, realize: BlockRealize | None, i: int, outer: PathMark | None, mark: PathMark | None
) -> None:
    frame = p.frames[-1]
    axis = block.iter_vars[i]
    here = step(mark, "iter_vars", i)
    args: list[list[Piece]] = []
    if axis.dom is None:
        args.append(["None"])
    elif is_zero(axis.dom.min):
        args.append([p.text([(axis.dom.extent, 0, ("dom", "extent"))], here)])
    else:
        high = construct.add(axis.dom.min, axis.dom.extent)
        args.append([p.text(["(", (axis.dom.min, 0, ("dom", "min")), ", ", (high, 0, ("dom", "extent")), ")"], here)])
    if realize is not None:
        args.append([p.text([(realize.iter_values[i], 0, ("iter_values", i))], outer)])
    name = p.named(axis, p.define_var(axis.var, frame), here)
    kind = _KINDS.get(axis.iter_type, "opaque")
    line = p.line([name, " = ", *call(p.tir(f"axis.{kind}"), *args)[1]])
    frame.lines.append(line)
    p.also_place(axis, here, [line])


def implicit_root(realize: Stmt) -> Block | None:
    """The root block of the body of a function, where leaving it out of the text loses nothing."""
    if not isinstance(realize, BlockRealize) or realize.iter_values or not is_true(realize.predicate):
        return None
    root = realize.block
    if (
        root.name_hint != "root"
        or root.annotations
        or root.match_buffers
        or root.reads
        or root.writes
        or root.init is not None
    ):
        return None
    inner = root.body
    if isinstance(inner, BlockRealize):
        keeps = bool(root.alloc_buffers or inner.block.iter_vars)
    else:
        keeps = bool(root.alloc_buffers) or _contains_block(inner)
    return root if keeps else None


def _contains_block(root: Stmt) -> bool:
    stack: list[Any] = [root]
    while stack:
        s = stack.pop()
        if isinstance(s, BlockRealize):
            return True
        if isinstance(s, SeqStmt):
            stack.extend(s.seq)
        else:
            stack.extend(
                v for f in ("body", "then_case", "else_case", "init") if (v := getattr(s, f, None)) is not None
            )
    return False
