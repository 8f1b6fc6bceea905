"""Statements, blocks and loops. Immutable, compared by identity, shared between versions of a program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from tscript.ir.base import FrozenDict, Node, trailing
from tscript.ir.dtype import DataType
from tscript.ir.expr import IntImm, IterVar, PrimExpr, Range, Var, check_indices
from tscript.support.span import Span
from tscript.support.wording import with_article

if TYPE_CHECKING:
    from tscript.ir.buffer import Buffer

Attrs = FrozenDict
"""Attributes and annotations: text keys; values are text, constants, expressions, or tuples and dicts of these."""


class Stmt(Node):
    """A statement. `span` tells where it was written; it takes no part in comparisons."""

    span: Span | None = trailing(default=None)


class Evaluate(Stmt):
    """Evaluate an expression for its effects."""

    value: PrimExpr


class LetStmt(Stmt):
    """`body` with `var` bound to `value`, which is evaluated once, before it."""

    var: Var
    value: PrimExpr
    body: Stmt

    def _check(self) -> None:
        if self.var.dtype is not self.value.dtype:
            raise TypeError(
                f"{self.var.name} is {self.var.dtype!s} but is bound to a value of type {self.value.dtype!s}"
            )


class AttrStmt(Stmt):
    """`body` with the attribute `attr_key` of `node` set to `value` (threads, pragmas, scopes)."""

    node: Any
    attr_key: str
    value: PrimExpr
    body: Stmt


class AssertStmt(Stmt):
    """Stop with `message` unless `condition` holds; then `body`."""

    condition: PrimExpr
    message: PrimExpr
    body: Stmt

    def _check(self) -> None:
        if not self.condition.dtype.is_bool:
            raise TypeError(f"an assertion takes a bool, not {self.condition.dtype!s}")


class Allocate(Stmt):
    """Memory for `extents` elements of `dtype`, addressed by `buffer_var` inside `body`."""

    buffer_var: Var
    dtype: DataType
    extents: tuple[PrimExpr, ...]
    condition: PrimExpr
    body: Stmt
    annotations: Attrs = FrozenDict()

    @staticmethod
    def _coerce(buffer_var: Var, dtype: str, *rest: Any) -> tuple[Any, ...]:
        return buffer_var, DataType(dtype), *rest


class AllocateConst(Stmt):
    """Constant memory holding `data` (a NumPy array of shape `extents`)."""

    buffer_var: Var
    dtype: DataType
    extents: tuple[PrimExpr, ...]
    data: Any
    body: Stmt
    annotations: Attrs = FrozenDict()

    @staticmethod
    def _coerce(buffer_var: Var, dtype: str, *rest: Any) -> tuple[Any, ...]:
        return buffer_var, DataType(dtype), *rest


class DeclBuffer(Stmt):
    """`buffer`, a view on memory that exists already, may be used in `body`."""

    buffer: Buffer
    body: Stmt


class BufferStore(Stmt):
    """Write `value` to an element, or a vector to elements when the last index is a vector."""

    buffer: Buffer
    value: PrimExpr
    indices: tuple[PrimExpr, ...]
    predicate: PrimExpr | None = None

    def _check(self) -> None:
        check_indices(self.buffer, self.indices)
        lanes = self.indices[-1].dtype.lanes if self.indices else 1
        want = self.buffer.dtype.with_lanes(self.buffer.dtype.lanes * lanes)
        if self.value.dtype is not want:
            raise TypeError(f"a store to {self.buffer.name} takes {want!s}, not {self.value.dtype!s}")


class BufferRealize(Stmt):
    """The region `bounds` of `buffer` exists in `body`."""

    buffer: Buffer
    bounds: tuple[Range, ...]
    condition: PrimExpr
    body: Stmt


class SeqStmt(Stmt):
    """Two or more statements, one after the other; no sequence directly inside a sequence (`seq` makes one)."""

    seq: tuple[Stmt, ...]

    def _check(self) -> None:
        if len(self.seq) < 2:
            raise ValueError("a sequence has at least two statements")
        if any(isinstance(s, SeqStmt) for s in self.seq):
            raise ValueError("a sequence holds no sequence directly; join them with `seq`")

    def __len__(self) -> int:
        return len(self.seq)

    def __getitem__(self, i: int) -> Stmt:
        return self.seq[i]


class IfThenElse(Stmt):
    """One of two statements."""

    condition: PrimExpr
    then_case: Stmt
    else_case: Stmt | None = None

    def _check(self) -> None:
        if not self.condition.dtype.is_bool or self.condition.dtype.lanes != 1:
            raise TypeError(f"a condition is a bool, not {self.condition.dtype!s}")


class ForKind:
    """How the iterations of a loop run."""

    SERIAL: ClassVar[int] = 0
    PARALLEL: ClassVar[int] = 1
    VECTORIZED: ClassVar[int] = 2
    UNROLLED: ClassVar[int] = 3
    THREAD_BINDING: ClassVar[int] = 4
    NAMES: ClassVar[tuple[str, ...]] = ("serial", "parallel", "vectorized", "unroll", "thread_binding")


class For(Stmt):
    """`body` for `loop_var` from `min` to `min + extent`, the end excluded. `kind` is one of `ForKind`."""

    loop_var: Var
    min: PrimExpr
    extent: PrimExpr
    kind: int
    body: Stmt
    thread_binding: IterVar | None = None
    annotations: Attrs = FrozenDict()

    def _check(self) -> None:
        want = self.loop_var.dtype
        if not want.is_integer or want.lanes != 1:
            raise TypeError(f"loop variable {self.loop_var.name} is {want!s}; loop variables are integers")
        for what, e in (("start", self.min), ("extent", self.extent)):
            if e.dtype is not want:
                raise TypeError(f"loop variable {self.loop_var.name} is {want!s} but its {what} is {e.dtype!s}")


class While(Stmt):
    """`body` as long as `condition` holds."""

    condition: PrimExpr
    body: Stmt

    def _check(self) -> None:
        if not self.condition.dtype.is_bool or self.condition.dtype.lanes != 1:
            raise TypeError(f"a condition is a bool, not {self.condition.dtype!s}")


class Prefetch(Stmt):
    """A hint that the region `bounds` of `buffer` will be used soon."""

    buffer: Buffer
    bounds: tuple[Range, ...]


class BufferRegion(Node):
    """A box of elements of a buffer, one range for each dimension."""

    kind_in_messages: ClassVar[str] = "a region of a buffer"

    buffer: Buffer
    region: tuple[Range, ...]

    def _check(self) -> None:
        if len(self.region) != len(self.buffer.shape):
            raise ValueError(
                f"{self.buffer.name} has {len(self.buffer.shape)} dimensions, "
                f"but the region has {len(self.region)} dimensions"
            )

    @property
    def dtype(self) -> DataType:
        """Element type of the buffer."""
        return self.buffer.dtype


class MatchBufferRegion(Node):
    """`buffer` names a view of the region `source` of another buffer."""

    buffer: Buffer
    source: BufferRegion


class Block(Stmt):
    """The unit of scheduling: axes with domains, the regions it touches, an optional init, and a body."""

    iter_vars: tuple[IterVar, ...]
    reads: tuple[BufferRegion, ...]
    writes: tuple[BufferRegion, ...]
    name_hint: str
    body: Stmt
    init: Stmt | None = None
    alloc_buffers: tuple[Buffer, ...] = ()
    match_buffers: tuple[MatchBufferRegion, ...] = ()
    annotations: Attrs = FrozenDict()


class BlockRealize(Stmt):
    """An instance of `block` for each surrounding iteration where `predicate` holds."""

    iter_values: tuple[PrimExpr, ...]
    predicate: PrimExpr
    block: Block

    def _check(self) -> None:
        if len(self.iter_values) != len(self.block.iter_vars):
            raise ValueError(
                f"block {self.block.name_hint!r} has {len(self.block.iter_vars)} axes "
                f"but {len(self.iter_values)} binding values"
            )
        for axis, value in zip(self.block.iter_vars, self.iter_values, strict=True):
            if not value.dtype.is_integer:
                raise TypeError(
                    f"axis {axis.var.name} of block {self.block.name_hint!r} is bound to {with_article(value.dtype)}"
                )


def seq(*stmts: Stmt | None) -> Stmt:
    """The statements in order, as one: sequences are flattened, and no-ops beside others dropped."""
    flat: list[Stmt] = []
    for s in stmts:
        if isinstance(s, SeqStmt):
            flat.extend(s.seq)
        elif s is not None:
            flat.append(s)
    kept = [s for s in flat if not is_no_op(s)]
    if not kept:
        return flat[0] if flat else Evaluate(IntImm("int32", 0))
    return kept[0] if len(kept) == 1 else SeqStmt(tuple(kept))


def is_no_op(stmt: Stmt) -> bool:
    """Whether this is `Evaluate` of a constant."""
    return isinstance(stmt, Evaluate) and isinstance(stmt.value, IntImm)
