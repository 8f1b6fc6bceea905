"""What a statement touches, in terms of the loops in it: regions of blocks, and loads and stores outside of blocks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from tscript.analysis.ranges import binding_map, bound_region, loop_range, range_bounds
from tscript.arith import Bound
from tscript.ir import construct as make
from tscript.ir.buffer import Buffer
from tscript.ir.expr import BufferLoad, Call, IntImm, Let, Op, PrimExpr, Range, Select, Var
from tscript.ir.functor import Visitor, substitute
from tscript.ir.stmt import (
    Allocate,
    Block,
    BlockRealize,
    BufferStore,
    DeclBuffer,
    For,
    IfThenElse,
    LetStmt,
    Stmt,
    While,
)


@dataclass(frozen=True)
class Access:
    """Elements of a buffer that a block (or a statement outside of blocks) touches, in terms of loop variables.

    `realize` is the outermost block with axes or declared writes around the access, if any: what it declares stands for
    all in it. `domain` holds the loops that were passed on the way, the outermost first; `conditions` must hold for the
    access to take place; `in_doubt` says that there are others, which are not known.
    """

    realize: BlockRealize | None
    buffer: Buffer
    region: tuple[Range, ...]
    is_write: bool
    domain: Mapping[Var, Range]
    conditions: tuple[PrimExpr, ...] = ()
    in_doubt: bool = False

    @property
    def block(self) -> Block | None:
        """The block of `realize`."""
        return None if self.realize is None else self.realize.block

    @property
    def is_sure(self) -> bool:
        """Whether the access certainly takes place where its conditions hold: a block may declare more than it does."""
        return not self.in_doubt and (self.block is None or (self.buffer, self.is_write) in _sure_accesses(self.block))

    @cached_property
    def bounds(self) -> Mapping[Var, Bound]:
        """Constant bounds of the loop variables."""
        return range_bounds(self.domain)

    def __str__(self) -> str:
        shown = ", ".join(
            str(r.min) if isinstance(r.extent, IntImm) and r.extent.value == 1 else f"{r.min}:{r.min + r.extent}"
            for r in self.region
        )
        return f"{self.buffer.name}[{shown}]"


class Footprint(Visitor):
    """The accesses of a statement in program order (`found`).

    `own` are buffers, and `fresh` pointers, that it allocates anew; `escaped` are pointers that are used directly, so
    that not all that is done to their memory is known; `views` tells what pointers of views point into.
    """

    def __init__(self) -> None:
        self.domain: dict[Var, Range] = {}
        self.conditions: tuple[PrimExpr, ...] = ()
        self.found: list[Access] = []
        self.own: dict[Buffer, None] = {}
        self.lets: dict[Var, PrimExpr] = {}
        self.views: dict[Var, Var] = {}
        self.fresh: dict[Var, None] = {}
        self.escaped: dict[Var, None] = {}
        self.in_doubt = 0

    def visit_For(self, node: For) -> None:
        """The loop is part of the domain of what is below, which never runs if it has no iterations."""
        if make.is_const_int(node.extent, 0):
            return
        self.visit(node.min)
        self.visit(node.extent)
        self.domain[node.loop_var] = self._plain_range(loop_range(node))
        self.visit(node.body)
        del self.domain[node.loop_var]

    def visit_IfThenElse(self, node: IfThenElse) -> None:
        """Each branch under its condition."""
        self.visit(node.condition)
        condition = self._plain(node.condition)
        self._under(condition, node.then_case)
        if node.else_case is not None:
            self._under(make.not_(condition), node.else_case)

    def visit_While(self, node: While) -> None:
        """Whether the body runs, and how often, is not known."""
        self._in_doubt(node.condition, node.body)

    def visit_Select(self, node: Select) -> None:
        """Which value is taken is left open."""
        self._in_doubt(node.condition, node.true_value, node.false_value)

    def visit_Call(self, node: Call) -> None:
        """What is in a call may be left out, as by `if_then_else`."""
        if isinstance(node.op, Op) and node.op.name == "tir.if_then_else":
            self._in_doubt(*node.args)
        else:
            self.visit_children(node)

    def visit_LetStmt(self, node: LetStmt) -> None:
        """The variable stands for its value."""
        self.visit(node.value)
        self.lets[node.var] = self._plain(node.value)
        self.visit(node.body)

    def visit_Let(self, node: Let) -> None:
        """The variable stands for its value."""
        self.visit(node.value)
        self.lets[node.var] = self._plain(node.value)
        self.visit(node.body)

    def visit_Allocate(self, node: Allocate) -> None:
        """Memory that each iteration has for itself."""
        self.fresh[node.buffer_var] = None
        self.visit_children(node)

    def visit_Var(self, node: Var) -> None:
        """A pointer that is used directly: what happens to its memory cannot be told."""
        if node.dtype.is_handle:
            self.escaped[node] = None

    def visit_BlockRealize(self, node: BlockRealize) -> None:
        """A block stands for its regions; one without axes for what is in it."""
        block = node.block
        if not block.iter_vars and not block.writes:
            self.own.update(dict.fromkeys(block.alloc_buffers))
            self.views.update({m.buffer.data: m.source.buffer.data for m in block.match_buffers})
            self._under(node.predicate, block.body)
            return
        for e in (*node.iter_values, node.predicate):
            self.visit(e)
        domain = dict(self.domain)
        conditions = (*self.conditions, self._plain(node.predicate))
        for region, is_write in [(w, True) for w in block.writes] + [(r, False) for r in block.reads]:
            ranges = tuple(self._plain_range(r) for r in bound_region(node, region))
            doubt = bool(self.in_doubt)
            self.found.append(Access(node, region.buffer, ranges, is_write, domain, conditions, doubt))

    def visit_DeclBuffer(self, node: DeclBuffer) -> None:
        """A view of memory that is counted where it is used."""
        self.visit(node.body)

    def visit_BufferStore(self, node: BufferStore) -> None:
        """A store outside of blocks."""
        self._element(node.buffer, node.indices, True, node.predicate is None)
        self.visit_children(node)

    def visit_BufferLoad(self, node: BufferLoad) -> None:
        """A load outside of blocks."""
        self._element(node.buffer, node.indices, False, node.predicate is None)
        self.visit_children(node)

    def _element(self, buffer: Buffer, indices: tuple[PrimExpr, ...], is_write: bool, always: bool) -> None:
        if any(i.dtype.lanes != 1 for i in indices):
            region = tuple(Range.from_min_extent(IntImm(d.dtype, 0), d) for d in buffer.shape)
        else:
            region = tuple(Range.from_min_extent(self._plain(i), IntImm(i.dtype, 1)) for i in indices)
        doubt = bool(self.in_doubt) or not always
        self.found.append(Access(None, buffer, region, is_write, dict(self.domain), self.conditions, doubt))

    def _under(self, condition: PrimExpr, body: Stmt) -> None:
        outside = self.conditions
        self.conditions = (*outside, self._plain(condition))
        self.visit(body)
        self.conditions = outside

    def _in_doubt(self, *nodes: Stmt | PrimExpr) -> None:
        self.in_doubt += 1
        for n in nodes:
            self.visit(n)
        self.in_doubt -= 1

    def _plain(self, e: PrimExpr) -> PrimExpr:
        return substitute(e, self.lets) if self.lets else e

    def _plain_range(self, r: Range) -> Range:
        return Range.from_min_extent(self._plain(r.min), self._plain(r.extent)) if self.lets else r


def footprint(stmt: Stmt) -> Footprint:
    """Everything that a statement touches."""
    found = Footprint()
    found.visit(stmt)
    return found


def inner_accesses(access: Access) -> list[Access]:
    """The accesses in the block of `access` that it declares together, as far as they are known (see `is_known`);
    itself if it is of one element.
    """
    realize = access.realize
    if realize is None or all(make.is_const_int(r.extent, 1) for r in access.region):
        return [access]
    values = binding_map(realize)

    def placed(e: PrimExpr) -> PrimExpr:
        return substitute(e, values)

    def in_range(r: Range) -> Range:
        return Range.from_min_extent(placed(r.min), placed(r.extent))

    result: list[Access] = []
    block = realize.block
    starts = [] if block.init is None else [replace(a, in_doubt=True) for a in footprint(block.init).found]
    for a in (*starts, *footprint(block.body).found):
        if a.buffer is access.buffer and a.is_write == access.is_write:
            inside = replace(
                a,
                region=tuple(map(in_range, a.region)),
                domain={**access.domain, **{v: in_range(r) for v, r in a.domain.items()}},
                conditions=(*access.conditions, *map(placed, a.conditions)),
                in_doubt=access.in_doubt or a.in_doubt,
            )
            if a.realize is not None:
                inside = replace(inside, realize=_with_bindings(a.realize, values))
            result += inner_accesses(inside)
    return result


def is_known(access: Access) -> bool:
    """Whether all that is accessed in the block of `access` is known: it uses no pointers and makes no views."""
    if access.block is None:
        return True
    parts = [p for p in (access.block.init, access.block.body) if p is not None]
    found = [footprint(p) for p in parts]
    return (
        not any(f.escaped or f.views for f in found)
        and not access.block.match_buffers
        and all(a.block is None or is_known(a) for f in found for a in f.found)
    )


def _with_bindings(realize: BlockRealize, values: Mapping[Var, PrimExpr]) -> BlockRealize:
    return realize.replace(iter_values=tuple(substitute(v, values) for v in realize.iter_values))


def _sure_accesses(block: Block) -> dict[tuple[Buffer, bool], None]:
    """The buffers that each instance of a block is certain to load from (False) or store to (True)."""
    return {
        (a.buffer, a.is_write): None
        for a in footprint(block.body).found
        if a.is_sure and not a.conditions and all(isinstance(r.extent, IntImm) for r in a.domain.values())
    }
