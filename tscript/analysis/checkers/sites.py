"""Where a function touches memory, and what stands around each of these places.

A `Site` is a load, a store or an address that is taken. What surrounds it is a chain of scopes: loops, bindings,
conditions that hold there, memory that exists there. Everything else about a program (blocks, axes, views, vectors,
launched threads) is told in these terms, so that blocks and plain loops are checked alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tscript.ir import expr as ex
from tscript.ir.base import Node
from tscript.ir.buffer import Buffer
from tscript.ir.expr import PrimExpr, Range, Var
from tscript.ir.stmt import Stmt
from tscript.support.span import Span


@dataclass(frozen=True, slots=True, eq=False)
class Scope:
    """One thing around a site; `outer` is the next one outside."""

    outer: Scope | None

    def chain(self) -> list[Scope]:
        """This scope and those around it, the outermost first."""
        found: list[Scope] = []
        scope: Scope | None = self
        while scope is not None:
            found.append(scope)
            scope = scope.outer
        return found[::-1]


@dataclass(frozen=True, slots=True, eq=False)
class Loop(Scope):
    """`var` runs over `extent` values from `low` on. `place` orders it among sites; `thread` is the tag of a thread."""

    var: Var
    low: PrimExpr
    extent: PrimExpr
    kind: int
    place: int
    thread: str = ""
    is_lane: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Binding(Scope):
    """`var` is `value`. `reduces`: it is the reduce axis of a block; `has_init`: that block has an init."""

    var: Var
    value: PrimExpr
    reduces: bool = False
    has_init: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Guard(Scope):
    """`condition` is true (or false, without `holds`).

    `is_init`: it is the condition of an init. `stops`: where it is not true, the program ends.
    """

    condition: PrimExpr
    holds: bool = True
    is_init: bool = False
    stops: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Doubt(Scope):
    """Whether what is inside runs at all, or how often, cannot be told."""

    reason: str


@dataclass(frozen=True, slots=True, eq=False)
class Storage(Scope):
    """Fresh memory behind the pointer `data`. `shape` is what was allocated."""

    data: Var
    buffer: Buffer


@dataclass(frozen=True, slots=True, eq=False)
class Barrier:
    """All threads of a block meet here."""

    place: int
    scope: Scope | None
    storage: str


READ, WRITE, ESCAPE, BOUND = "read", "write", "escape", "bound"


@dataclass(frozen=True, slots=True, eq=False)
class Site:
    """A place where memory is touched.

    `role`: READ, WRITE, ESCAPE (an address that code out of sight may use), or BOUND (the region that a view shows:
    nothing is touched yet, but it has to exist). `limits` is where the subscripts have to lie. `base` are subscripts
    of `memory`, the buffer behind all views, or None where they are not known.
    """

    role: str
    buffer: Buffer
    indices: tuple[PrimExpr, ...]
    limits: tuple[Range, ...]
    memory: Buffer
    base: tuple[PrimExpr, ...] | None
    scope: Scope | None
    place: int
    statement: Stmt
    span: Span | None
    axis: str = ""

    def scopes(self) -> list[Scope]:
        """The scopes around, the outermost first."""
        return [] if self.scope is None else self.scope.chain()


@dataclass(slots=True)
class Survey:
    """All sites of a function in the order in which the program text runs, and what could not be seen."""

    sites: list[Site] = field(default_factory=list[Site])
    barriers: list[Barrier] = field(default_factory=list[Barrier])
    loops: list[tuple[Loop, Stmt]] = field(default_factory=list[tuple[Loop, Stmt]])
    stores: dict[Var, Storage] = field(default_factory=dict[Var, Storage])
    escaped: dict[Var, str] = field(default_factory=dict[Var, str])


def common_scope(a: Scope | None, b: Scope | None) -> int:
    """How many of the outermost scopes two chains share."""
    first = [] if a is None else a.chain()
    second = [] if b is None else b.chain()
    count = 0
    for x, y in zip(first, second, strict=False):
        if x is not y:
            break
        count += 1
    return count


def free_of_lanes(e: PrimExpr, lane: Var) -> PrimExpr | None:
    """What element number `lane` of a vector is; None for vectors of another form."""
    if e.dtype.lanes == 1:
        return e
    match e:
        case ex.Ramp():
            at = lane if e.stride.dtype is lane.dtype else ex.Cast(e.stride.dtype, lane)
            return ex.Add(e.base, ex.Mul(e.stride, at))
        case ex.Broadcast():
            return e.value
        case ex.BinaryExpr():
            a, b = free_of_lanes(e.a, lane), free_of_lanes(e.b, lane)
            return None if a is None or b is None else type(e)(a, b)
        case ex.Cast():
            value = free_of_lanes(e.value, lane)
            return None if value is None else ex.Cast(e.dtype.element, value)
        case _:
            return None


def conjuncts(condition: PrimExpr, holds: bool = True) -> Iterator[tuple[PrimExpr, bool]]:
    """Conditions that are all true (or false) exactly when `condition` is true (or false)."""
    stack = [(condition, holds)]
    while stack:
        e, truth = stack.pop()
        if isinstance(e, ex.Not):
            stack.append((e.a, not truth))
        elif isinstance(e, ex.And if truth else ex.Or):
            stack += [(e.b, truth), (e.a, truth)]  # pyright: ignore[reportAttributeAccessIssue]
        elif (
            isinstance(e, ex.Call)
            and isinstance(e.op, ex.Op)
            and e.op.name in ("tir.likely", "tir.bitwise_and")
            and ((e.dtype.is_bool and truth) or e.op.name == "tir.likely")
        ):
            stack += [(a, truth) for a in reversed(e.args)]
        else:
            yield e, truth


def op_name(node: Node) -> str:
    """The name of the operator that a call calls, without its prefix; an empty text for other nodes."""
    return node.op.name.removeprefix("tir.") if isinstance(node, ex.Call) and isinstance(node.op, ex.Op) else ""
