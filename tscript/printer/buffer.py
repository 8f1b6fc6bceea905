"""Buffers: declarations, subscripts, regions."""

from __future__ import annotations

from collections.abc import Sequence

from tscript.ir import construct
from tscript.ir.base import Node
from tscript.ir.buffer import Buffer
from tscript.ir.dtype import INT32
from tscript.ir.expr import BufferLoad, IntImm, PrimExpr, Ramp, Range, Var
from tscript.ir.functor import post_order_visit
from tscript.ir.stmt import BufferRegion
from tscript.printer.core import ATOM, Form, Frame, Line, Piece, Printer, prints
from tscript.printer.expr import call, commas, creation, listed, tupled
from tscript.printer.literal import quoted

DEFAULT_ALIGNMENT = 64


def _count_uses(buffer: Buffer) -> dict[Var, int]:
    """How often each variable occurs in the declaration, repeated terms counted each time."""
    count: dict[Var, int] = {}

    def visit(node: Node) -> None:
        if isinstance(node, Var):
            count[node] = count.get(node, 0) + 1

    for e in (buffer.elem_offset, buffer.data, *buffer.strides, *buffer.shape):
        if type(e) is not IntImm:
            post_order_visit(e, visit)
    return count


class _Declaration:
    """The arguments of a buffer's declaration, made in the order in which their variables appear."""

    def __init__(self, p: Printer, buffer: Buffer, frame: Frame, before: Frame, inline_data: bool) -> None:
        self.p = p
        self.buffer = buffer
        self.frame = frame
        self.before = before
        self.name = p.variables[buffer]
        self.uses = _count_uses(buffer)
        self.new: list[Var] = []
        self.args: list[list[Piece]] = []
        self._shape()
        if buffer.dtype is not p.options.buffer_dtype:
            self.args.append([quoted(buffer.dtype)])
        self._data(inline_data)
        self._strides()
        self._rest(self._offset())

    def _is_new(self, e: PrimExpr) -> bool:
        return isinstance(e, Var) and e not in self.p.variables

    def _define_before(self, var: Var) -> None:
        self.p.define_var(var, self.before)
        self.new.append(var)

    def _inline(self, var: Var, text: str) -> bool:
        """Let `text` stand for a variable that only the declaration itself defines."""
        if self.uses[var] == 1 and (var is self.buffer.data or self._is_implied(var)):
            self.p.alias(var, text, self.frame)
            return True
        self._define_before(var)
        return False

    def _is_implied(self, var: Var) -> bool:
        """Whether reading the declaration makes a variable just like this one: strides and offset are as the shape."""
        shape = self.buffer.shape
        return type(var) is Var and var.dtype is (shape[0].dtype if shape else INT32)

    def _text(self, e: PrimExpr, *keys: str | int) -> list[Piece]:
        return [self.p.text([(e, 0, keys)])]

    def _shape(self) -> None:
        for e in self.buffer.shape:
            if isinstance(e, Var) and e not in self.p.variables:
                self._define_before(e)
        self.args.append([self.p.text(tupled(self.buffer.shape, "shape"))])

    def _data(self, inline_data: bool) -> None:
        data = self.buffer.data
        if self._is_new(data):
            if inline_data and self._inline(data, f"{self.name}.data"):
                return
            if data not in self.p.variables:
                self._define_before(data)
        self.args.append(["data=", *self._text(data, "data")])

    def _strides(self) -> None:
        steps: list[list[Piece]] = []
        for i, e in enumerate(self.buffer.strides):
            if isinstance(e, Var) and self._is_new(e) and self._inline(e, f"{self.name}.strides[{i}]"):
                # The name that the variable gets when the text is read, whatever it is called now.
                steps.append([quoted(f"{self.name}_s{i}")])
            else:
                steps.append(self._text(e, "strides", i))
        if steps:
            self.args.append(["strides=(", *commas(steps), ",)" if len(steps) == 1 else ")"])

    def _offset(self) -> bool:
        """Print the offset; whether it is left to be a new variable, which only an `offset_factor` makes."""
        e = self.buffer.elem_offset
        # Without an offset, an offset factor other than 1 would make a variable of it.
        if isinstance(e, IntImm) and e.value == 0 and self.buffer.offset_factor == 1:
            return False
        if isinstance(e, Var) and self._is_new(e) and self._inline(e, f"{self.name}.elem_offset"):
            return True
        self.args.append(["elem_offset=", *self._text(e, "elem_offset")])
        return False

    def _rest(self, implicit_offset: bool) -> None:
        b = self.buffer
        if b.scope() != "global":
            self.args.append([f"scope={quoted(b.scope())}"])
        if b.data_alignment != DEFAULT_ALIGNMENT:
            self.args.append([f"align={b.data_alignment}"])
        if implicit_offset or b.offset_factor != 1:
            self.args.append([f"offset_factor={b.offset_factor}"])
        if b.buffer_type != 1:
            self.args.append(['buffer_type="auto"'])
        if b.axis_separators:
            self.args.append(["axis_separators=", *listed(b.axis_separators, "axis_separators")])

    def write_new(self) -> None:
        """Append the line that makes the new variables."""
        if self.new:
            names: list[list[Piece]] = [[self.p.named(v, self.p.variables[v])] for v in self.new]
            made = [creation(self.p, v) for v in self.new]
            self.before.lines.append(self.p.line([*commas(names), " = ", *commas(made)], frame=self.before))


def declaration(
    p: Printer,
    buffer: Buffer,
    method: str,
    first: Sequence[Sequence[Piece]],
    *,
    frame: Frame,
    before: Frame | None = None,
    inline_data: bool = True,
) -> list[Piece]:
    """The call that declares `buffer`, which has its name in `frame` already.

    New variables of its shape are defined by a line in `before` (default: `frame`); `inline_data` lets the data
    pointer be implied where nothing else names it.
    """
    made = _Declaration(p, buffer, frame, frame if before is None else before, inline_data)
    made.write_new()
    return list(call(p.tir(method), *first, *made.args)[1])


def annotation(p: Printer, buffer: Buffer, frame: Frame) -> list[Piece]:
    """The type of a parameter that stands for a simple buffer: `T.Buffer((8,), "float32")`."""
    p.alias(buffer.data, f"{p.variables[buffer]}.data", frame)
    return list(call(p.tir("Buffer"), tupled(buffer.shape, "shape"), [quoted(buffer.dtype)])[1])


def is_simple(buffer: Buffer) -> bool:
    """Whether shape and dtype tell all about `buffer`."""
    return (
        not buffer.strides
        and not buffer.axis_separators
        and isinstance(buffer.elem_offset, IntImm)
        and buffer.elem_offset.value == 0
        and buffer.scope() == "global"
        and buffer.data_alignment == DEFAULT_ALIGNMENT
        and buffer.offset_factor == 1
        and buffer.buffer_type == 1
        and all(type(v) is IntImm or not _has_var(v) for v in buffer.shape)
    )


def _has_var(e: PrimExpr) -> bool:
    found: list[Node] = []
    post_order_visit(e, lambda n: found.append(n) if isinstance(n, Var) else None)
    return bool(found)


@prints(Buffer)
def _buffer(p: Printer, buffer: Buffer) -> Form:
    known = p.variables.get(buffer)
    if known is None:
        frame = p.home(buffer)
        known = p.define_buffer(buffer, frame)
        made = declaration(p, buffer, "Buffer", [], frame=frame)
        frame.lines.append(p.line([p.named(buffer, known), " = ", *made], frame=frame))
    return ATOM, (known,)


def assignment(p: Printer, buffer: Buffer, method: str, first: Sequence[Sequence[Piece]]) -> Line:
    """The line that declares `buffer` in the innermost frame."""
    frame = p.frames[-1]
    name = p.define_buffer(buffer, frame)
    made = declaration(p, buffer, method, first, frame=frame)
    return p.line([p.named(buffer, name), " = ", *made])


def subscripts(indices: Sequence[PrimExpr]) -> list[Piece]:
    """`[i, j]`; a vector of constant stride as a slice."""
    if not indices:
        return ["[()]"]
    return ["[", *commas([_subscript(e, i) for i, e in enumerate(indices)]), "]"]


def _subscript(e: PrimExpr, i: int) -> list[Piece]:
    keys = ("indices", i)
    if not isinstance(e, Ramp) or not isinstance(e.stride, IntImm) or e.stride.value < 1 or not e.base.dtype.is_int:
        return [(e, 0, keys)]
    stop = construct.add(e.base, construct.mul(IntImm(e.stride.dtype, e.lanes), e.stride))
    pieces: list[Piece] = [(e.base, 0, (*keys, "base")), ":", (stop, 0, keys)]
    if e.stride.value != 1:
        pieces += [":", (e.stride, 0, (*keys, "stride"))]
    return pieces


def box(region: Sequence[Range], *, points: bool = True) -> list[Piece]:
    """`[i, 0:4]`; with `points`, a range of one element prints as that element."""
    if not region:
        return ["[()]"]
    items: list[list[Piece]] = []
    for i, r in enumerate(region):
        low: Piece = (r.min, 0, ("region", i, "min"))
        if points and construct.is_const_int(r.extent, 1):
            items.append([low])
        else:
            items.append([low, ":", (construct.add(r.min, r.extent), 0, ("region", i, "extent"))])
    return ["[", *commas(items), "]"]


@prints(BufferRegion)
def _buffer_region(p: Printer, r: BufferRegion) -> Form:
    return ATOM, [(r.buffer, 0, ("buffer",)), *box(r.region)]


@prints(BufferLoad)
def _buffer_load(p: Printer, e: BufferLoad) -> Form:
    buffer: Piece = (e.buffer, 0, ("buffer",))
    if e.predicate is None:
        return ATOM, [buffer, *subscripts(e.indices)]
    predicate: list[Piece] = ["predicate=", (e.predicate, 0, ("predicate",))]
    return ATOM, [buffer, ".vload(", *commas([listed(e.indices, "indices"), predicate]), ")"]
