"""Functions and modules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tscript.ir.buffer import Buffer
from tscript.ir.expr import TupleType, Var
from tscript.ir.function import IRModule, PrimFunc
from tscript.printer.block import implicit_root
from tscript.printer.buffer import annotation, assignment, is_simple
from tscript.printer.core import Frame, Line, Piece, Place, Printer
from tscript.printer.expr import call, commas
from tscript.printer.names import legal_name
from tscript.printer.options import PathMark, step


def print_function(p: Printer, func: PrimFunc, name: str, indent: int, mark: PathMark | None) -> list[Line]:
    """The lines of a function, without a header."""
    name = legal_name(name)
    frame = p.begin(func, indent + 1)
    data_users: dict[Var, int] = {}
    for b in func.buffer_map.values():
        data_users[b.data] = data_users.get(b.data, 0) + 1
    params: list[list[Piece]] = []
    inlined: dict[Var, None] = {}
    own_params = dict.fromkeys(func.params)
    for i, var in enumerate(func.params):
        here = step(mark, "params", i)
        buffer = func.buffer_map.get(var)
        if (
            buffer is not None
            and p.options.syntax_sugar
            and is_simple(buffer)
            and data_users[buffer.data] == 1
            and buffer.data not in own_params
            and var not in p.scopes.home
        ):
            params.append(_buffer_param(p, buffer, frame, step(mark, "buffer_map", i)))
            inlined[var] = None
        else:
            named = p.named(var, p.define_var(var, frame), here)
            params.append([named, ": ", (var.type_annotation, 0, ("params", i, "type_annotation"))])
    arrow: list[Piece] = []
    if not (isinstance(func.ret_type, TupleType) and not func.ret_type.fields):
        arrow = [" -> ", (func.ret_type, 0, ("ret_type",))]
    private = "global_symbol" not in func.attrs
    decorator = "@" + p.tir("prim_func") + ("(private=True)" if private else "")
    lines = [
        Line(indent, decorator),
        Line(indent, p.text(["def ", name, "(", *commas(params), ")", *arrow, ":"], mark)),
    ]
    _attributes(p, func, name, mark)
    for var in func.params:
        if var in func.buffer_map and var not in inlined:
            frame.lines.append(assignment(p, func.buffer_map[var], "match_buffer", [[(var, 0, ())]]))
    _body(p, func, frame, step(mark, "body"))
    p.pop()
    lines += frame.lines or [Line(indent + 1, "pass")]
    note = p.note(func, mark)
    if p.tracked:
        p.places.append(Place(func, lines[0], lines[-1], p.is_underlined(func, mark)))
    if note is not None:
        lines[0:0] = [Line(indent, f"# {part}", comment=True) for part in note.split("\n")]
    return lines


def _buffer_param(p: Printer, buffer: Buffer, frame: Frame, mark: PathMark | None) -> list[Piece]:
    name = p.named(buffer, p.define_buffer(buffer, frame), mark)
    return [name, ": ", p.text(annotation(p, buffer, frame), mark)]


def _attributes(p: Printer, func: PrimFunc, name: str, mark: PathMark | None) -> None:
    attrs: Mapping[str, Any] = func.attrs
    if attrs.get("global_symbol") == name:
        attrs = {k: v for k, v in attrs.items() if k != "global_symbol"}
    if attrs:
        p.frames[-1].lines.append(p.line(call(p.tir("func_attr"), [(attrs, 0, ("attrs",))])[1], mark))


def _body(p: Printer, func: PrimFunc, frame: Frame, mark: PathMark | None) -> None:
    root = implicit_root(func.body) if p.options.syntax_sugar else None
    if root is None:
        p.run(p.body(func.body, mark))
        return
    frame.scope = p.scopes.child(0, root)
    frame.opened = (0, frame.scope)
    p.open[frame.scope] = frame
    start = len(frame.lines)
    frame.lines.append(Line(frame.indent, '# with T.block("root"):', comment=True))
    frame.lines.extend(assignment(p, b, "alloc_buffer", []) for b in root.alloc_buffers)
    p.run(p.body(root.body, step(mark, "block", "body")))
    p.also_place(func.body, mark, frame.lines[start:])
    p.also_place(root, step(mark, "block"), frame.lines[start:])


def print_module(p: Printer, mod: IRModule, mark: PathMark | None) -> list[Line]:
    """The lines of a module, without a header."""
    class_name = p.names.take(p.options.name or "Module")
    for v in mod.functions:
        p.functions[v] = f"{class_name}.{v.name_hint}"
    frame = p.begin(None, 1)
    lines = frame.lines
    if mod.attrs:
        lines.append(p.line(call(p.ir("module_attrs"), [(mod.attrs, 0, ("attrs",))])[1], mark))
    if mod.global_infos:
        infos: Piece = (mod.global_infos, 0, ("global_infos",))
        lines.append(p.line(call(p.ir("module_global_infos"), [infos])[1], mark))
    for v in sorted(mod.functions, key=lambda v: (v.name_hint == "main", v.name_hint)):
        func: Any = mod.functions[v]
        here = step(mark, "functions", v.name_hint)
        if isinstance(func, PrimFunc):
            lines += print_function(p, func, v.name_hint, 1, here)
            lines.append(Line(0, ""))
        else:
            lines.append(Line(1, p.text([v.name_hint, " = ", (func, 0, ("functions", v.name_hint))], mark)))
    p.pop()
    head = [Line(0, "@" + p.ir("ir_module")), Line(0, f"class {class_name}:")]
    return head + (lines or [Line(1, "pass")])
