"""Constructs that hold statements and are neither blocks, loops nor buffers; and plain statements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from typing import cast as cast_type

from tscript.ir.base import Node
from tscript.ir.buffer import Buffer, subscript
from tscript.ir.construct import cast, const, convert, convert_attr
from tscript.ir.dtype import DataType, int_range
from tscript.ir.expr import (
    Broadcast,
    BufferLoad,
    Call,
    ExprLike,
    IntImm,
    IterVar,
    Let,
    PointerType,
    PrimExpr,
    PrimType,
    Ramp,
    Range,
    StringImm,
    Type,
    Var,
)
from tscript.ir.stmt import (
    AssertStmt,
    AttrStmt,
    BufferRealize,
    BufferRegion,
    BufferStore,
    Evaluate,
    IfThenElse,
    LetStmt,
    Prefetch,
    Stmt,
    While,
)
from tscript.ir.threads import require_thread
from tscript.parser.blocks import TRUE, FunctionFrame
from tscript.parser.builder import Builder, Frame, current
from tscript.parser.diagnostics import fail, warn
from tscript.support.wording import kind_of, shown_int, with_article


class MetaVar:
    """A value to be bound to a name while the source is read, without a variable in the program."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def parts(self) -> Any:
        """One for each of several values; itself where there is one value."""
        if isinstance(self.value, Node) or not hasattr(self.value, "__iter__"):
            return self
        return [MetaVar(v) for v in self.value]


def meta_var(value: Any) -> MetaVar:
    """Bind the name to `value` at reading time: `x = T.meta_var(expr)` makes no variable."""
    return MetaVar(value)


# -- values ---------------------------------------------------------------------------------------


def region_as_vector(region: BufferRegion) -> BufferLoad:
    """A region as the vector of its elements (a single element as a scalar)."""
    return BufferLoad(region.buffer, vector_indices(region))


def vector_indices(region: BufferRegion) -> tuple[PrimExpr, ...]:
    """Subscripts of a region: the start where it has one element, else a ramp. ValueError for a variable extent."""
    indices: list[PrimExpr] = []
    for r in region.region:
        if not isinstance(r.extent, IntImm):
            raise ValueError(f"a vector of {region.buffer.name} needs a constant number of lanes, not {r.extent}")
        if r.extent.value < 1:
            raise ValueError(f"the slice of {region.buffer.name} is empty")
        lanes = r.extent.value
        indices.append(r.min if lanes == 1 else Ramp(r.min, IntImm(r.min.dtype, 1), lanes))
    return tuple(indices)


def as_expr(value: Any) -> PrimExpr:
    """A Python number, text, region or expression as an expression."""
    if isinstance(value, PrimExpr):
        return value
    if isinstance(value, BufferRegion):
        return region_as_vector(value)
    return convert(value)


def operand(value: Any) -> Any:
    """A region as the vector of its elements, anything else as it is."""
    return region_as_vector(value) if isinstance(value, BufferRegion) else value


def argument(value: Any) -> Any:
    """An operand, or a list or tuple of operands."""
    if type(value) in (list, tuple) and any(isinstance(v, BufferRegion) for v in value):
        return type(value)(map(operand, value))
    return operand(value)


def value_type(value: PrimExpr) -> Type:
    """The type of a variable that holds `value`."""
    if isinstance(value, Var):
        return value.type_annotation
    if (
        isinstance(value, Call)
        and getattr(value.op, "name", "") == "tir.address_of"
        and isinstance(value.args[0], BufferLoad)
    ):
        buffer = value.args[0].buffer
        return PointerType(PrimType(buffer.dtype), buffer.scope())
    return PrimType(value.dtype)


def stored_value(buffer: Buffer, value: Any, lanes: int) -> PrimExpr:
    """`value` as what a store to `buffer` takes; a float stored as an integer warns.

    Raises TypeError for texts, handles, and a number of lanes other than that of the subscripts.
    """
    want = buffer.dtype.with_lanes(buffer.dtype.lanes * lanes)
    if isinstance(value, (bool, int, float)):
        value = _python_number(buffer, value)
    expr = as_expr(value)
    if expr.dtype is want:
        return expr
    got = expr.dtype
    if got.is_handle != want.is_handle or got.code == "void":
        raise TypeError(f"a {_noun(got)} cannot be stored in {buffer.name}, which holds {buffer.dtype!s}")
    if got.lanes != want.lanes:
        fail(
            f"incompatible types in a store to {buffer.name}: the target has {want.lanes} lanes, the value {got.lanes}",
            None,
            f"write T.broadcast(value, {want.lanes})"
            if got.lanes == 1
            else "give both sides the same number of elements",
        )
    if got.is_float and (want.is_integer or want.is_bool):
        warn(
            f"{with_article(got)} is stored in {buffer.name}, which holds {buffer.dtype!s}: the fraction is lost",
            current().span,
        )
    return cast(expr, want)


def _python_number(buffer: Buffer, value: bool | int | float) -> ExprLike:
    element = buffer.dtype.element
    if isinstance(value, int) and (element.is_integer or element.is_bool):
        low, high = int_range(element)
        if not low <= value <= high:
            raise ValueError(
                f"{shown_int(value)} does not fit in {buffer.name}, which holds {element!s} ({low} to {high})"
            )
        return const(value, element)
    return const(value, element) if element.is_float else const(value)


def _noun(dtype: DataType) -> str:
    return "text or pointer" if dtype.is_handle else f"value of type {dtype!s}"


# -- plain statements -----------------------------------------------------------------------------


def evaluate(value: Any) -> None:
    """Evaluate an expression for its effects."""
    builder = current()
    builder.add(Evaluate(as_expr(value), span=builder.span))


def buffer_store(buffer: Buffer, value: Any, indices: Sequence[Any] | Any, predicate: PrimExpr | None = None) -> None:
    """Write `value` to an element of `buffer`, or a vector where the last subscript is a slice."""
    builder = current()
    keys: Any = tuple(indices) if isinstance(indices, (list, tuple)) else indices  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    subscripts = store_indices(buffer, keys)
    lanes = subscripts[-1].dtype.lanes if subscripts else 1
    builder.add(BufferStore(buffer, stored_value(buffer, value, lanes), subscripts, predicate, span=builder.span))


def store_indices(buffer: Buffer, key: Any) -> tuple[PrimExpr, ...]:
    """The subscripts of a store to `buffer[key]`, where a slice stands for a vector of elements."""
    target = subscript(buffer, key)
    return vector_indices(target) if isinstance(target, BufferRegion) else target.indices


def prefetch(buffer: Buffer, bounds: Any) -> None:
    """A hint that a region of `buffer`, given as ranges, slices or single subscripts, will be used soon."""
    builder = current()
    items: list[Any] = [*bounds] if isinstance(bounds, (list, tuple)) else [bounds]
    if len(items) != buffer.ndim:
        raise ValueError(f"T.prefetch of {buffer.name} takes {buffer.ndim} bounds, not {len(items)}")
    ranges = tuple(_as_range(item, extent) for item, extent in zip(items, buffer.shape, strict=True))
    builder.add(Prefetch(buffer, ranges, span=builder.span))


def _as_range(item: Any, extent: PrimExpr) -> Range:
    if isinstance(item, Range):
        return item
    if not isinstance(item, slice):
        return Range(item, convert(item) + 1)
    start, stop = cast_type("tuple[Any, Any]", (item.start, item.stop))
    return Range(0 if start is None else start, extent if stop is None else stop)


# -- frames ---------------------------------------------------------------------------------------


class WrapFrame(Frame):
    """A construct whose statement is made from its body by a function, and that binds a value."""

    __slots__ = ("make", "value")

    def __init__(self, make: Callable[[Stmt, Any], Stmt], value: Any = None) -> None:
        super().__init__()
        self.make = make
        self.value = value

    def enter(self, builder: Builder) -> Any:
        """The value that was given."""
        return self.value

    def build(self, builder: Builder, body: Stmt) -> Stmt:
        """The statement around the body."""
        return self.make(body, self.span)


def _condition(what: str, condition: ExprLike) -> PrimExpr:
    e = as_expr(condition)
    if not e.dtype.is_bool or e.dtype.lanes != 1:
        raise TypeError(f"{what} takes a bool, not {e.dtype!s}; compare the value, as in `x != 0`")
    return e


def require_text(what: str, value: object) -> None:
    """TypeError unless `value` is a text."""
    if not isinstance(value, str):
        raise TypeError(f"{what} is a text, not {kind_of(value)}")


def attr(node: Any, attr_key: str, value: Any) -> WrapFrame:
    """An attribute that holds for the rest of the scope."""
    require_text("the key of T.attr", attr_key)
    kept = convert_attr(node)
    expr = as_expr(value)
    return WrapFrame(lambda body, span: AttrStmt(kept, attr_key, expr, body, span=span))


def assert_(condition: ExprLike, message: str) -> WrapFrame:
    """Stop with `message` unless `condition` holds, before the rest of the scope."""
    require_text("the message of an assertion", message.value if isinstance(message, StringImm) else message)
    test, text = _condition("an assertion", condition), as_expr(message)
    return WrapFrame(lambda body, span: AssertStmt(test, text, body, span=span))


def annotated_type(annotation: Any) -> Type:
    """The type that an annotation such as `T.int32` or `T.handle("float32")` stands for."""
    if isinstance(annotation, Type):
        return annotation
    if isinstance(annotation, str):
        return PrimType(DataType(annotation))
    made = annotation() if callable(annotation) else annotation
    if isinstance(made, Var):
        return made.type_annotation
    raise TypeError(f'a type is written as T.int32 or T.handle("float32"), not as {kind_of(annotation)}')


class LetFrame(Frame):
    """A variable that holds a value for the rest of the scope."""

    __slots__ = ("value", "var")

    what = "T.LetStmt"

    def __init__(self, var: Var, value: PrimExpr) -> None:
        super().__init__()
        if not isinstance(var, Var):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"a let binds a variable, not {kind_of(var)}")
        if var.dtype is not value.dtype:
            raise TypeError(
                f"{var.name or 'the variable'} is {var.dtype!s} but its value is {value.dtype!s}; convert the value"
            )
        self.var = var
        self.value = value

    def enter(self, builder: Builder) -> Var:
        """The variable."""
        return self.var

    def build(self, builder: Builder, body: Stmt) -> Stmt:
        """The let around the body."""
        return LetStmt(self.var, self.value, body, span=self.span)


def let_stmt(value: Any, type_annotation: Any = None, *, var: Var | None = None) -> LetFrame:
    """A variable (a new one unless `var` is given) that holds `value` for the rest of the scope."""
    kind = None if type_annotation is None else annotated_type(type_annotation)
    if isinstance(value, (bool, int, float)) and isinstance(kind, PrimType):
        expr: PrimExpr = const(value, kind.dtype)
    else:
        expr = as_expr(value)
    return LetFrame(Var("", value_type(expr) if kind is None else kind) if var is None else var, expr)


def let(var: Var, value: ExprLike, body: ExprLike | None = None) -> LetFrame | PrimExpr:
    """With a body, that expression with `var` bound to `value`; without, the same for the rest of the scope."""
    frame = LetFrame(var, as_expr(value))
    return frame if body is None else Let(var, frame.value, as_expr(body))


def realize(region: BufferRegion | BufferLoad, storage_scope: str, condition: ExprLike = True) -> WrapFrame:
    """The region of a buffer exists, in a storage scope, for the rest of the scope."""
    bounds = (
        region.region
        if isinstance(region, BufferRegion)
        else tuple(Range.from_min_extent(i, IntImm(i.dtype, 1)) for i in region.indices)
    )
    buffer, test, scope = region.buffer, _condition("T.realize", condition), as_expr(storage_scope)
    return WrapFrame(
        lambda body, span: AttrStmt(
            buffer, "realize_scope", scope, BufferRealize(buffer, bounds, test, body, span=span), span=span
        ),
        buffer,
    )


class LaunchThreadFrame(Frame):
    """The rest of the scope runs on `extent` hardware threads."""

    __slots__ = ("extent", "iter_var", "tag_or_var")

    what = "T.launch_thread"
    iter_var: IterVar

    def __init__(self, tag_or_var: str | Var, extent: ExprLike) -> None:
        super().__init__()
        if not isinstance(tag_or_var, (str, Var)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f'a thread is named by a text such as "threadIdx.x", not by {kind_of(tag_or_var)}')
        if isinstance(tag_or_var, str):
            require_thread(tag_or_var)
        self.tag_or_var = tag_or_var
        self.extent = convert(extent)
        if not self.extent.dtype.is_integer:
            raise TypeError(f"a number of threads is an integer, not {self.extent.dtype!s}")

    def enter(self, builder: Builder) -> Var:
        """The index of the thread."""
        dom = Range.from_min_extent(const(0, self.extent.dtype), self.extent)
        function = builder.find(FunctionFrame)
        if isinstance(self.tag_or_var, str):
            self.iter_var = IterVar(dom, Var("", self.extent.dtype), IterVar.ThreadIndex, self.tag_or_var)
            if function is not None:
                # A launch inside this one may name the same thread.
                function.env_threads[self.iter_var.var] = self.iter_var
            return self.iter_var.var
        known = None if function is None else function.env_threads.get(self.tag_or_var)
        if function is None or known is None:
            fail(
                f"{getattr(self.tag_or_var, 'name', self.tag_or_var)} is no thread variable",
                None,
                'make one with T.env_thread("threadIdx.x"), or give the name of the thread',
            )
        if known.dom is None:
            dom = Range.from_min_extent(const(0, known.var.dtype), cast(self.extent, known.var.dtype))
            function.env_threads[self.tag_or_var] = known = IterVar(
                dom, known.var, IterVar.ThreadIndex, known.thread_tag
            )
        elif known.dom.extent is not cast(self.extent, known.var.dtype):
            fail(
                f"thread {known.thread_tag} was launched with extent {known.dom.extent} before, now with {self.extent}",
                None,
                "all launches of one thread variable have the same extent",
            )
        self.iter_var = known
        return known.var

    def build(self, builder: Builder, body: Stmt) -> Stmt:
        """The attribute around the body."""
        tag = self.iter_var.thread_tag
        key = "virtual_thread" if tag == "vthread" or tag.startswith("vthread.") else "thread_extent"
        dom = self.iter_var.dom
        extent = self.extent if dom is None else dom.extent
        return AttrStmt(self.iter_var, key, extent, body, span=self.span)


def launch_thread(thread: str | Var, extent: ExprLike) -> LaunchThreadFrame:
    """Run the rest of the scope on `extent` threads; binds the index of the thread."""
    return LaunchThreadFrame(thread, extent)


def env_thread(thread_tag: str, dtype: str = "int32") -> Var:
    """A variable for the index of a thread, to be launched by `T.launch_thread`, more than once if need be."""
    function = current().find(FunctionFrame)
    if function is None:
        fail("T.env_thread stands outside any function", None, "use it in a function decorated with @T.prim_func")
    require_thread(thread_tag)
    var = Var("", dtype)
    function.env_threads[var] = IterVar(None, var, IterVar.ThreadIndex, thread_tag)
    return var


class WhileFrame(WrapFrame):
    """A loop with a condition."""

    __slots__ = ()
    what = "T.While"


def while_(condition: ExprLike) -> WhileFrame:
    """Repeat the body as long as `condition` holds."""
    test = _condition("a while loop", condition)
    return WhileFrame(lambda body, span: While(test, body, span=span))


class IfFrame(Frame):
    """A branch; its statements are given by `T.Then` and `T.Else`."""

    __slots__ = ("condition", "else_case", "then_case")

    what = "T.If"

    def __init__(self, condition: ExprLike) -> None:
        super().__init__()
        self.condition = _condition("an if statement", condition)
        self.then_case: Stmt | None = None
        self.else_case: Stmt | None = None

    def build(self, builder: Builder, body: Stmt) -> Stmt:
        """The branch. ScriptError without `T.Then`, or with statements beside it."""
        if self.stmts:
            fail("T.If holds only T.Then and T.Else", self.span, "move the statement into `with T.Then():`")
        if self.then_case is None:
            fail("T.If has no T.Then", self.span, "add `with T.Then():` inside it")
        return IfThenElse(self.condition, self.then_case, self.else_case, span=self.span)


class BranchFrame(Frame):
    """One side of a branch."""

    __slots__ = ("owner", "side")

    owner: IfFrame

    def __init__(self, side: str) -> None:
        super().__init__()
        self.side = side

    def enter(self, builder: Builder) -> None:
        """Check that the branch is the innermost construct and has no such side yet."""
        owner = builder.innermost(IfFrame)
        name = "T.Then" if self.side == "then_case" else "T.Else"
        if owner is None:
            fail(f"{name} stands outside T.If", None, f"put `with {name}():` directly in `with T.If(...):`")
        if getattr(owner, self.side) is not None:
            fail(f"T.If has a {name} already", None, f"put the statements of both into one `with {name}():`")
        self.owner = owner

    def build(self, builder: Builder, body: Stmt) -> None:
        """Give the body to the branch."""
        setattr(self.owner, self.side, body)


def if_(condition: ExprLike) -> IfFrame:
    """A branch: `with T.If(c): with T.Then(): ...`."""
    return IfFrame(condition)


def then() -> BranchFrame:
    """What runs where the condition of `T.If` holds."""
    return BranchFrame("then_case")


def else_() -> BranchFrame:
    """What runs where the condition of `T.If` does not hold."""
    return BranchFrame("else_case")


__all__ = [
    "TRUE", "BranchFrame", "Broadcast", "IfFrame", "LaunchThreadFrame", "LetFrame", "MetaVar", "WhileFrame",
    "WrapFrame", "annotated_type", "argument", "as_expr", "assert_", "attr", "buffer_store", "else_", "env_thread",
    "evaluate", "if_", "launch_thread", "let", "let_stmt", "meta_var", "operand", "prefetch", "realize",
    "region_as_vector", "stored_value", "then", "value_type", "vector_indices", "while_",
]  # fmt: skip
