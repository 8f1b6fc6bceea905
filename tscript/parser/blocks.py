"""Functions and blocks: `T.block`, its axes, regions, predicate, init, annotations, and views."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from tscript.ir.base import FrozenDict
from tscript.ir.buffer import Buffer
from tscript.ir.construct import const, convert, convert_attr
from tscript.ir.dtype import BOOL, DataType
from tscript.ir.expr import BufferLoad, ExprLike, IntImm, IterVar, PrimExpr, Ramp, Range, TupleType, Type, Var
from tscript.ir.function import PrimFunc, convert_attrs
from tscript.ir.functor import pre_order_visit
from tscript.ir.stmt import Block, BlockRealize, BufferRegion, MatchBufferRegion, Stmt
from tscript.parser.builder import Builder, Frame, current, find_current
from tscript.parser.diagnostics import fail
from tscript.parser.loops import ForFrame
from tscript.parser.regions import detect_missing
from tscript.support.wording import kind_of

TRUE = IntImm(BOOL, 1)


class FunctionFrame(Frame):
    """A function: parameters, their buffers, attributes, buffers allocated at its level."""

    __slots__ = ("attrs", "buffer_map", "env_threads", "name", "params", "private", "ret_type", "root_buffers")

    what = "function"

    def __init__(self, name: str, private: bool) -> None:
        super().__init__()
        self.name = name
        self.private = private
        self.params: list[Var] = []
        self.buffer_map: dict[Var, Buffer] = {}
        self.attrs: dict[str, Any] = {}
        self.root_buffers: list[Buffer] = []
        self.env_threads: dict[Var, IterVar] = {}
        self.ret_type: Type | None = None

    def declared(self) -> Iterable[Buffer]:
        """Parameters and what is allocated at function level."""
        return (*self.buffer_map.values(), *self.root_buffers)

    def build(self, builder: Builder, body: Stmt) -> None:
        """A function is no statement; `finish` makes it."""
        self.stmts = [body]

    def finish(self) -> PrimFunc:
        """The function, once the frame is closed."""
        body = self._with_root(self.stmts[0])
        attrs = dict(self.attrs)
        if not self.private and "global_symbol" not in attrs:
            attrs = {"global_symbol": self.name, **attrs}
        ret_type = TupleType(()) if self.ret_type is None else self.ret_type
        return PrimFunc(tuple(self.params), body, ret_type, self.buffer_map, convert_attrs(attrs), span=self.span)

    def _with_root(self, body: Stmt) -> Stmt:
        if not self.root_buffers:
            if isinstance(body, BlockRealize):
                if not body.block.iter_vars:
                    return body
            elif not contains_block(body):
                return body
        block = Block((), (), (), "root", body, None, tuple(self.root_buffers), (), FrozenDict(), span=self.span)
        return BlockRealize((), TRUE, block, span=self.span)


def contains_block(body: Stmt) -> bool:
    """Whether there is a block in `body`."""
    found = False

    def look(node: Any) -> bool:
        nonlocal found
        found = found or isinstance(node, BlockRealize)
        return not found and isinstance(node, Stmt)

    pre_order_visit(body, look)
    return found


class BlockFrame(Frame):
    """A block being read."""

    __slots__ = (
        "alloc_buffers", "annotations", "init", "iter_values", "iter_vars", "match_buffers", "name", "no_realize",
        "predicate", "reads", "writes",
    )  # fmt: skip

    what = "block"

    def __init__(self, name: str, no_realize: bool) -> None:
        super().__init__()
        self.name = name
        self.no_realize = no_realize
        self.iter_vars: list[IterVar] = []
        self.iter_values: list[PrimExpr] = []
        self.predicate: PrimExpr | None = None
        self.reads: tuple[BufferRegion, ...] | None = None
        self.writes: tuple[BufferRegion, ...] | None = None
        self.init: Stmt | None = None
        self.alloc_buffers: list[Buffer] = []
        self.match_buffers: list[MatchBufferRegion] = []
        self.annotations: Mapping[str, Any] | None = None

    def enter(self, builder: Builder) -> None:
        """Nothing is bound."""
        self.name = builder.block_name(self.name)

    def declared(self) -> Iterable[Buffer]:
        """What the block allocates, and its views."""
        return (*self.alloc_buffers, *(m.buffer for m in self.match_buffers))

    def build(self, builder: Builder, body: Stmt) -> Stmt:
        """The block, realized unless `no_realize` was given."""
        block = Block(
            tuple(self.iter_vars),
            self.reads or (),
            self.writes or (),
            self.name,
            body,
            self.init,
            tuple(self.alloc_buffers),
            tuple(self.match_buffers),
            FrozenDict(self.annotations or {}),
            span=self.span,
        )
        if self.reads is None or self.writes is None:
            block = detect_missing(block, self.reads is None, self.writes is None, _visible_buffers(builder), self.span)
        if self.no_realize:
            if self.predicate is not None or any(v is not None for v in self.iter_values):  # pyright: ignore[reportUnnecessaryComparison]
                fail(
                    f"block {self.name!r} has no_realize=True, so it takes no T.where and its axes no values",
                    self.span,
                    "leave out no_realize, or the predicate and the binding values",
                )
            return block
        predicate = TRUE if self.predicate is None else self.predicate
        return BlockRealize(tuple(self.iter_values), predicate, block, span=self.span)


def _visible_buffers(builder: Builder) -> dict[Var, Buffer]:
    found: dict[Var, Buffer] = {}
    for frame in builder.frames:
        for buffer in frame.declared():
            found.setdefault(buffer.data, buffer)
    return found


class InitFrame(Frame):
    """What a reduction block does in its first iteration."""

    __slots__ = ("owner",)

    what = "T.init"
    owner: BlockFrame

    def enter(self, builder: Builder) -> None:
        """Claim the block's only init."""
        self.owner = enclosing_block(builder, "T.init")
        around = builder.find(InitFrame)
        if self.owner.init is not None or (around is not None and around.owner is self.owner):
            fail("the block has an init already", None, "keep one `with T.init():` in the block")

    def build(self, builder: Builder, body: Stmt) -> None:
        """Give the body to the block."""
        self.owner.init = body


def enclosing_block(builder: Builder, what: str) -> BlockFrame:
    """The innermost block around; ScriptError, naming the construct that wants it, if there is none."""
    frame = builder.find(BlockFrame)
    if frame is None:
        fail(f"{what} stands outside any block", None, f"put {what} inside `with T.block(...):`")
    return frame


def block(name: str = "", no_realize: bool = False) -> BlockFrame:
    """A block: `with T.block("name"):`. With `no_realize`, a bare block without binding values."""
    if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"the name of a block is a text, not {kind_of(name)}")
    if not isinstance(no_realize, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"no_realize is True or False, not {kind_of(no_realize)}")
    return BlockFrame(name, no_realize)


def init() -> InitFrame:
    """The init of a reduction block: `with T.init():`."""
    return InitFrame()


def where(predicate: ExprLike) -> None:
    """Run the block only where `predicate` holds. At most once in a block."""
    frame = enclosing_block(current(), "T.where")
    if frame.predicate is not None:
        fail("the block has a T.where already", None, "join the conditions with `and` in one T.where")
    condition = convert(predicate)
    if not condition.dtype.is_bool:
        raise TypeError(f"T.where takes a bool, not {condition.dtype!s}; compare the value, as in `x != 0`")
    frame.predicate = condition


def region_of(what: str, value: Any) -> BufferRegion:
    """A region, element, vector without gaps, or whole buffer, as a region; TypeError naming `what` otherwise."""
    if isinstance(value, BufferRegion):
        return value
    if isinstance(value, BufferLoad):
        ranges: list[Range] = []
        for index in value.indices:
            if isinstance(index, Ramp):
                if not (isinstance(index.stride, IntImm) and index.stride.value == 1):
                    raise TypeError(f"{what} takes regions without gaps; {value.buffer.name} is given with a step")
                ranges.append(Range.from_min_extent(index.base, IntImm(index.base.dtype, index.lanes)))
            else:
                ranges.append(Range.from_min_extent(index, IntImm(index.dtype.element, 1)))
        return BufferRegion(value.buffer, tuple(ranges))
    if isinstance(value, Buffer):
        return value.full_region()
    raise TypeError(f"{what} takes regions such as A[i, 0:4], not {kind_of(value)}")


def _as_regions(what: str, values: tuple[Any, ...]) -> tuple[BufferRegion, ...]:
    if len(values) == 1 and isinstance(values[0], (list, tuple)):
        values = tuple(cast("Sequence[Any]", values[0]))
    return tuple(region_of(what, v) for v in values)


def reads(*regions: Any) -> None:
    """What the block reads: regions or elements, or one list of them. At most once in a block."""
    frame = enclosing_block(current(), "T.reads")
    if frame.reads is not None:
        fail("the block has T.reads already", None, "list all regions in one T.reads")
    frame.reads = _as_regions("T.reads", regions)


def writes(*regions: Any) -> None:
    """What the block writes: regions or elements, or one list of them. At most once in a block."""
    frame = enclosing_block(current(), "T.writes")
    if frame.writes is not None:
        fail("the block has T.writes already", None, "list all regions in one T.writes")
    frame.writes = _as_regions("T.writes", regions)


def block_attr(attrs: Mapping[str, Any]) -> None:
    """Annotations of the block. At most once in a block."""
    frame = enclosing_block(current(), "T.block_attr")
    if frame.annotations is not None:
        fail("the block has T.block_attr already", None, "put all of them in one T.block_attr")
    frame.annotations = _attrs("T.block_attr", attrs)


def _attrs(what: str, attrs: Any) -> Mapping[str, Any]:
    if not isinstance(attrs, Mapping):
        raise TypeError(f"{what} takes a dict, not {kind_of(attrs)}")
    for key in attrs:  # pyright: ignore[reportUnknownVariableType]
        if not isinstance(key, str):
            raise TypeError(f"the keys of {what} are texts, not {key!r}")
    return {k: convert_attr(v) for k, v in attrs.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


def func_attr(attrs: Mapping[str, Any]) -> None:
    """Attributes of the function. Each key can be set once."""
    frame = enclosing_function("T.func_attr")
    for key, value in _attrs("T.func_attr", attrs).items():
        if key == "global_symbol" and not isinstance(value, str):
            raise TypeError(f"the attribute global_symbol is the name of the function as a text, not {kind_of(value)}")
        if key in frame.attrs:
            fail(f"the function attribute {key!r} is set twice", None, "keep one of the two values")
        if key == "global_symbol" and frame.private:
            fail(
                "a private function has no global symbol",
                None,
                "leave out private=True, or the attribute global_symbol",
            )
        frame.attrs[key] = value


def enclosing_function(what: str) -> FunctionFrame:
    """The function being read; ScriptError, naming the construct that wants it, outside one."""
    frame = current().find(FunctionFrame)
    if frame is None:
        fail(f"{what} stands outside any function", None, "use it in a function decorated with @T.prim_func")
    return frame


def arg(name: str, obj: Var | Buffer) -> Var | Buffer:
    """Add a parameter to the function being built: a variable, or a buffer."""
    if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"the name of a parameter is a text, not {kind_of(name)}")
    return add_param(enclosing_function("T.arg"), name, obj)


def add_param(frame: FunctionFrame, name: str, obj: Var | Buffer) -> Var | Buffer:
    """Make `obj`, called `name`, the next parameter; a buffer gets a handle of its own."""
    if isinstance(obj, Buffer):
        name_buffer(obj, name)
        handle = Var(name + "_handle", "handle")
        frame.params.append(handle)
        frame.buffer_map[handle] = obj
        return obj
    if not isinstance(obj, Var):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"a parameter is a variable or a buffer, not {kind_of(obj)}")
    if not obj.name:
        object.__setattr__(obj, "name", name)
    frame.params.append(obj)
    return obj


def name_buffer(buffer: Buffer, name: str) -> None:
    """Name a buffer that has none yet, along with its data pointer and stride variables."""
    if buffer.name:
        return
    builder = find_current()
    put = object.__setattr__
    put(buffer, "name", name)
    if not buffer.data.name:
        put(buffer.data, "name", name)
    for i, stride in enumerate(buffer.strides):
        if builder is not None and isinstance(stride, Var) and stride in builder.named_strides:
            put(stride, "name", f"{name}_s{i}")


class AxisNamespace:
    """`T.axis`: the axes of a block. Each has a domain (an extent, a pair of bounds, or a Range) and a value."""

    def spatial(self, dom: Any, binding: ExprLike | None = None, dtype: str = "int32") -> Var:
        """An axis whose iterations are independent."""
        return _axis(IterVar.DataPar, dom, binding, dtype)

    def reduce(self, dom: Any, binding: ExprLike | None = None, dtype: str = "int32") -> Var:
        """An axis over which values are combined."""
        return _axis(IterVar.CommReduce, dom, binding, dtype)

    def scan(self, dom: Any, binding: ExprLike | None = None, dtype: str = "int32") -> Var:
        """An axis whose iterations run in order."""
        return _axis(IterVar.Ordered, dom, binding, dtype)

    def opaque(self, dom: Any, binding: ExprLike | None = None, dtype: str = "int32") -> Var:
        """An axis of which nothing is known."""
        return _axis(IterVar.Opaque, dom, binding, dtype)

    S = spatial
    R = reduce

    def remap(self, kinds: str, bindings: Sequence[PrimExpr], dtype: str = "int32") -> list[Var] | Var:
        """Axes bound to loop variables as they are: one letter, S or R, for each. A list, unless there is one."""
        values = list(bindings) if isinstance(bindings, (list, tuple)) else [bindings]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        frame = _axis_block()
        for letter in kinds:
            if letter not in "SR":
                fail(f"`{letter}` is no kind of axis", None, "the letters are S (spatial) and R (reduce)")
        if len(kinds) != len(values):
            fail(
                f"T.axis.remap names {len(kinds)} axes but gets {len(values)} loop variables",
                None,
                "give one letter each",
            )
        loops = _loop_domains(current())
        made: list[Var] = []
        for letter, value in zip(kinds, values, strict=True):
            if not isinstance(value, Var):
                fail(
                    f"T.axis.remap binds loop variables, not `{value}`",
                    None,
                    "use T.axis.spatial(extent, value) for axes that are not plain loop variables",
                )
            dom = loops.get(value)
            if dom is None:
                fail(
                    f"`{value.name}` is no variable of a loop around the block",
                    None,
                    "bind variables of loops around the block",
                )
            kind = IterVar.DataPar if letter == "S" else IterVar.CommReduce
            made.append(_add_axis(frame, kind, dom, value, value.dtype))
        return made[0] if len(made) == 1 else made


axis = AxisNamespace()


def _loop_domains(builder: Builder) -> dict[PrimExpr, Range]:
    return {
        var: Range.from_min_extent(low, extent)
        for frame in builder.frames
        if isinstance(frame, ForFrame)
        for var, low, extent in zip(frame.vars, frame.mins, frame.extents, strict=True)
    }


def _axis_block() -> BlockFrame:
    builder = current()
    frame = builder.innermost(BlockFrame)
    if frame is None:
        inside = builder.find(BlockFrame)
        hint = (
            "declare the axes directly in the block, before loops and variables"
            if inside is not None
            else "put the axis inside `with T.block(...):`"
        )
        fail("T.axis belongs at the top of a block", None, hint)
    return frame


def _domain(dom: Any) -> Range:
    if isinstance(dom, Range):
        return dom
    if isinstance(dom, (list, tuple)):
        if len(dom) != 2:  # pyright: ignore[reportUnknownArgumentType]
            raise ValueError("the domain of an axis is an extent or a pair (begin, end)")
        return Range(dom[0], dom[1])  # pyright: ignore[reportUnknownArgumentType]
    return Range(dom)


def _axis(kind: int, dom: Any, binding: ExprLike | None, dtype: str) -> Var:
    frame = _axis_block()
    domain = _domain(dom)
    for part in (domain.min, domain.extent):
        if not part.dtype.is_integer:
            raise TypeError(f"the domain of an axis is made of integers, not {part.dtype!s}")
    if isinstance(domain.extent, IntImm) and domain.extent.value < 0:
        raise ValueError(f"the domain of an axis has the extent {domain.extent.value}; it cannot be negative")
    wanted = DataType(dtype)
    if not wanted.is_integer or wanted.lanes != 1:
        raise TypeError(f"an axis is an integer, not {wanted!s}")
    bits = max(domain.min.dtype.bits, domain.extent.dtype.bits, wanted.bits)
    return _add_axis(frame, kind, domain, binding, wanted if wanted.bits == bits else DataType(f"{wanted.code}{bits}"))


def _add_axis(frame: BlockFrame, kind: int, dom: Range, binding: ExprLike | None, dtype: DataType) -> Var:
    if frame.no_realize:
        if binding is not None:
            fail("an axis of a block with no_realize=True takes no value", None, "leave out the value")
    elif binding is None:
        fail("the axis needs a value", None, "write T.axis.spatial(extent, value)")
    else:
        value = convert(binding)
        if not value.dtype.is_integer:
            raise TypeError(f"the value of an axis is an integer, not {value.dtype!s}")
        frame.iter_values.append(value)
    var = Var("", dtype)
    if dom.min.dtype is not dtype or dom.extent.dtype is not dtype:
        dom = Range.from_min_extent(_widen(dom.min, dtype), _widen(dom.extent, dtype))
    frame.iter_vars.append(IterVar(dom, var, kind, ""))
    return var


def _widen(e: PrimExpr, dtype: DataType) -> PrimExpr:
    return const(e.value, dtype) if isinstance(e, IntImm) else e if e.dtype is dtype else e.astype(dtype)
