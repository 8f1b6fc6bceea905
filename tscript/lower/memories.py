"""What lowering knows about memory: which pointers cannot meet, and where the accesses of a statement are."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

from tscript.ir.base import Node
from tscript.ir.expr import And, BufferLoad, Call, Cast, IntImm, Op, Or, PrimExpr, Var
from tscript.ir.function import PrimFunc
from tscript.ir.functor import children
from tscript.ir.linear import LinearForm, linear_form
from tscript.ir.stmt import (
    Allocate,
    AllocateConst,
    Block,
    BufferStore,
    DeclBuffer,
    For,
    IfThenElse,
    LetStmt,
    Stmt,
    While,
)  # fmt: skip


class Memories:
    """Which pointers of a function may lead to the same memory.

    Allocations overlap nothing, parameters no other parameter where the function promises so (`tir.noalias`);
    a pointer made by an expression may lead to any memory whose address the function takes.
    """

    def __init__(self, func: PrimFunc) -> None:
        flag = func.attrs.get("tir.noalias")
        self._no_alias = isinstance(flag, IntImm) and bool(flag.value)
        self._given = dict.fromkeys([*(b.data for b in func.buffer_map.values()), *func.params])
        self._owned: dict[Var, None] = {}
        self._named: dict[Var, None] = {}
        seen: set[Node] = set()
        stack: list[Node] = [func.body]
        while stack:
            n = stack.pop()
            if n in seen:
                continue
            if isinstance(n, PrimExpr):
                seen.add(n)
            if isinstance(n, (Allocate, AllocateConst)):
                self._owned[n.buffer_var] = None
            elif isinstance(n, Block):
                self._owned.update(dict.fromkeys(b.data for b in n.alloc_buffers))
            elif isinstance(n, Call) and isinstance(n.op, Op) and n.op.name == "tir.address_of":
                self._named.update(dict.fromkeys(a.buffer.data for a in n.args if isinstance(a, BufferLoad)))
            elif isinstance(n, Var) and n.dtype.is_handle:
                self._named[n] = None
            stack.extend(children(n))

    def where_apart(self) -> Memories | None:
        """What is known where parameters lead to no memory in common; None where that is no news."""
        if self._no_alias:
            return None
        other = copy.copy(self)
        other._no_alias = True
        return other

    def may_overlap(self, a: Var, b: Var) -> bool:
        """Whether memory reached from `a` may be reached from `b` too."""
        if a is b:
            return True
        if any(v in self._owned and v not in self._named for v in (a, b)):
            return False
        if any(v not in self._owned and v not in self._given for v in (a, b)):
            return True
        return a in self._given and b in self._given and not self._no_alias

    def is_private(self, a: Var) -> bool:
        """Whether the function allocates the memory of `a`, and nothing reaches it but accesses by that name."""
        return a in self._owned and a not in self._named

    def is_reached_by_name(self, a: Var) -> bool:
        """Whether nothing reaches the memory of `a`, allocated or a parameter's, but accesses by that name."""
        return (a in self._owned or (a in self._given and self._no_alias)) and a not in self._named


@dataclass(slots=True, eq=False)
class Access:
    """A load or store below a statement. `certain`: it takes place whenever that statement runs."""

    node: Any
    is_store: bool
    certain: bool
    loops: tuple[For, ...]

    @property
    def data(self) -> Var:
        """The pointer to the memory."""
        return self.node.buffer.data


@dataclass(slots=True)
class Accesses:
    """All accesses below a statement, in the order of the text, and what else matters about it.

    `defined`: variables that it binds. `is_opaque`: it holds a call that may touch any memory, or leaves the function.
    `loops` of an access are those between the statement and it.
    """

    found: list[Access] = field(default_factory=list[Access])
    defined: dict[Var, None] = field(default_factory=dict[Var, None])
    is_opaque: bool = False

    def statement(self, s: Stmt, certain: bool = True, loops: tuple[For, ...] = ()) -> None:
        """Add what is in `s`."""
        match s:
            case BufferStore():
                for e in (s.value, *s.indices, *(() if s.predicate is None else (s.predicate,))):
                    self.expression(e, certain, loops)
                self.found.append(Access(s, True, certain, loops))
                return
            case For():
                self.defined[s.loop_var] = None
                self.expression(s.min, certain, loops)
                self.expression(s.extent, certain, loops)
                runs = isinstance(s.extent, IntImm) and s.extent.value > 0
                self.statement(s.body, certain and runs, (*loops, s))
                return
            case IfThenElse():
                self.expression(s.condition, certain, loops)
                for branch in (s.then_case, s.else_case):
                    if branch is not None:
                        self.statement(branch, False, loops)
                return
            case While():
                # What a loop without a count reads is read again, in an order that is not followed here.
                self.is_opaque = True
            case LetStmt():
                self.defined[s.var] = None
            case Allocate() | AllocateConst():
                self.defined[s.buffer_var] = None
            case DeclBuffer():
                self.statement(s.body, certain, loops)
                return
            case _:
                pass
        for c in children(s):
            if isinstance(c, Stmt):
                self.statement(c, certain, loops)
            elif isinstance(c, PrimExpr):
                self.expression(c, certain, loops)

    def expression(self, root: PrimExpr, certain: bool, loops: tuple[For, ...] = ()) -> None:
        """Add what is in an expression, operands first."""
        seen: set[PrimExpr] = set()
        stack: list[tuple[PrimExpr, bool, bool]] = [(root, certain, False)]
        while stack:
            e, sure, ready = stack.pop()
            if ready:
                self.found.append(Access(e, False, sure, loops))
                continue
            if e in seen:
                continue
            seen.add(e)
            if isinstance(e, Call):
                self._call(e)
            elif isinstance(e, BufferLoad):
                stack.append((e, sure, True))
            below = [c for c in children(e) if isinstance(c, PrimExpr)]
            guarded = isinstance(e, (And, Or)) or (
                isinstance(e, Call) and getattr(e.op, "name", "") == "tir.if_then_else"
            )
            stack.extend((c, sure and not (guarded and n > 0), False) for n, c in reversed(list(enumerate(below))))

    def _call(self, e: Call) -> None:
        if not isinstance(e.op, Op) or e.op.effect not in ("pure", "read") or e.op.name == "tir.address_of":
            self.is_opaque = True
        elif e.op.effect == "read":
            # It reads by a pointer, and so maybe what a store of the statement writes.
            self.is_opaque = True


def index_form(e: PrimExpr) -> LinearForm:
    """The linear form of an index, also through casts to wider types: index arithmetic does not overflow."""
    result: dict[PrimExpr, int] = {}
    terms, constant = linear_form(e)
    stack = list(terms.items())
    while stack:
        term, factor = stack.pop()
        inner = term.value if isinstance(term, Cast) else None
        if inner is not None and term.dtype.is_int and inner.dtype.is_int and term.dtype.bits >= inner.dtype.bits >= 32:
            below, more = linear_form(inner)
            constant += factor * more
            stack.extend((t, factor * c) for t, c in below.items())
        else:
            result[term] = result.get(term, 0) + factor
    return {t: c for t, c in result.items() if c}, constant


def is_invariant(root: PrimExpr, changing: dict[Var, None]) -> bool:
    """Whether `root` keeps its value while the variables `changing`, and memory, change."""
    seen: set[PrimExpr] = set()
    stack: list[PrimExpr] = [root]
    while stack:
        e = stack.pop()
        if e in seen:
            continue
        seen.add(e)
        if isinstance(e, (BufferLoad, Call)) or (isinstance(e, Var) and e in changing):
            return False
        stack.extend(c for c in children(e) if isinstance(c, PrimExpr))
    return True
