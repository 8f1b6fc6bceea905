"""Loops: `T.grid`, `T.serial` and the other kinds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tscript.ir.base import FrozenDict
from tscript.ir.construct import const, convert, convert_attr, simple_sub
from tscript.ir.dtype import DataType
from tscript.ir.expr import ExprLike, IntImm, IterVar, PrimExpr, Var
from tscript.ir.stmt import For, ForKind, Stmt
from tscript.ir.threads import require_thread
from tscript.parser.builder import Builder, Frame
from tscript.support.wording import kind_of


class ForFrame(Frame):
    """One loop, or several nested ones; `for` binds their variables."""

    __slots__ = ("annotations", "extents", "kind", "mins", "tag", "vars")

    what = "loop"

    def __init__(
        self,
        kind: int,
        bounds: list[tuple[PrimExpr, PrimExpr]],
        annotations: Mapping[str, Any] | None = None,
        tag: str | None = None,
    ) -> None:
        super().__init__()
        self.kind = kind
        self.tag = tag
        self.annotations = (
            FrozenDict({k: convert_attr(v) for k, v in annotations.items()}) if annotations else FrozenDict()
        )
        self.vars: list[Var] = []
        self.mins: list[PrimExpr] = []
        self.extents: list[PrimExpr] = []
        for low, extent in bounds:
            dtype = _loop_dtype(low, extent)
            self.vars.append(Var("", dtype))
            self.mins.append(_widen(low, dtype))
            self.extents.append(_widen(extent, dtype))

    def enter(self, builder: Builder) -> Any:
        """The loop variable, or the list of them."""
        return self.vars[0] if len(self.vars) == 1 else self.vars

    def build(self, builder: Builder, body: Stmt) -> Stmt:
        """The loops, outermost first."""
        for var, low, extent in zip(reversed(self.vars), reversed(self.mins), reversed(self.extents), strict=True):
            binding = None if self.tag is None else IterVar(None, Var("", var.dtype), IterVar.ThreadIndex, self.tag)
            body = For(var, low, extent, self.kind, body, binding, self.annotations, span=self.span)
        return body


def _loop_dtype(low: PrimExpr, extent: PrimExpr) -> DataType:
    for part in (low, extent):
        if not part.dtype.is_integer or part.dtype.lanes != 1:
            raise TypeError(f"the bounds of a loop are integers, not {part.dtype!s}")
    return low.dtype if low.dtype.bits >= extent.dtype.bits else extent.dtype


def _widen(e: PrimExpr, dtype: DataType) -> PrimExpr:
    if e.dtype is dtype:
        return e
    return const(e.value, dtype) if isinstance(e, IntImm) else e.astype(dtype)


def _bounds(start: ExprLike, stop: ExprLike | None) -> list[tuple[PrimExpr, PrimExpr]]:
    for part in (start, stop):
        if isinstance(part, (tuple, list)):
            raise TypeError(
                f"a bound of a loop is one integer, not {kind_of(part)}; T.grid(*extents) makes a nest of loops"
            )
    if stop is None:
        extent = convert(start)
        if not extent.dtype.is_integer:
            raise TypeError(f"the bounds of a loop are integers, not {extent.dtype!s}")
        return [(const(0, extent.dtype), extent)]
    low, high = convert(start), convert(stop)
    return [(low, simple_sub(high, low))]


def serial(start: ExprLike, stop: ExprLike | None = None, *, annotations: Mapping[str, Any] | None = None) -> ForFrame:
    """A loop whose iterations run one after the other."""
    return ForFrame(ForKind.SERIAL, _bounds(start, stop), annotations)


def parallel(
    start: ExprLike, stop: ExprLike | None = None, *, annotations: Mapping[str, Any] | None = None
) -> ForFrame:
    """A loop whose iterations run on several threads."""
    return ForFrame(ForKind.PARALLEL, _bounds(start, stop), annotations)


def vectorized(
    start: ExprLike, stop: ExprLike | None = None, *, annotations: Mapping[str, Any] | None = None
) -> ForFrame:
    """A loop whose iterations are lanes of a vector."""
    return ForFrame(ForKind.VECTORIZED, _bounds(start, stop), annotations)


def unroll(start: ExprLike, stop: ExprLike | None = None, *, annotations: Mapping[str, Any] | None = None) -> ForFrame:
    """A loop that is written out."""
    return ForFrame(ForKind.UNROLLED, _bounds(start, stop), annotations)


def thread_binding(
    start: ExprLike,
    stop: ExprLike | str | None = None,
    thread: str | None = None,
    *,
    annotations: Mapping[str, Any] | None = None,
) -> ForFrame:
    """A loop whose iterations are hardware threads, as in `T.thread_binding(32, thread="threadIdx.x")`."""
    if thread is None:
        if not isinstance(stop, str):
            raise ValueError('T.thread_binding needs a thread, as in T.thread_binding(32, thread="threadIdx.x")')
        thread, stop = stop, None
    require_thread(thread)
    if isinstance(stop, str):
        raise TypeError("T.thread_binding got two threads")
    return ForFrame(ForKind.THREAD_BINDING, _bounds(start, stop), annotations, thread)


def grid(*extents: ExprLike | tuple[ExprLike, ExprLike]) -> ForFrame:
    """Nested serial loops, one for each extent (or pair of start and stop), outermost first."""
    if not extents:
        raise ValueError("T.grid takes at least one extent")
    bounds: list[tuple[PrimExpr, PrimExpr]] = []
    for e in extents:
        bounds += _bounds(*e) if isinstance(e, tuple) else _bounds(e, None)
    return ForFrame(ForKind.SERIAL, bounds)
