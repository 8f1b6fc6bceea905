"""Which loops of a program may run their iterations in any order, or all at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise

from tscript.analysis.dependence.accesses import Access, footprint
from tscript.analysis.dependence.apart import keeps_apart
from tscript.analysis.dependence.conflict import Conflict
from tscript.analysis.dependence.witness import find_witness
from tscript.analysis.ranges import loop_range
from tscript.ir.base import Node
from tscript.ir.buffer import Buffer, decl_buffer
from tscript.ir.construct import is_const_int, not_
from tscript.ir.expr import IntImm, PrimExpr, Range, Var
from tscript.ir.function import PrimFunc
from tscript.ir.functor import children, substitute
from tscript.ir.stmt import Block, BlockRealize, For, IfThenElse, LetStmt, Stmt, While
from tscript.support.wording import kind_of

MemoryOf = Callable[[Buffer], Var]
"""The pointer of the memory behind a buffer, through all views."""


def loop_conflict(program: PrimFunc | Stmt, loop: For) -> Conflict | None:
    """What keeps the iterations of `loop` in `program` from running at once, in any order or interleaving; None if
    it is proven that nothing does.

    Two iterations conflict where both touch an element and one of them writes it. What a block with axes declares to
    read and write stands for what is in it; memory that each iteration allocates for itself is left out. A conflict
    `is_certain` where it has a `witness`: two iterations of which it is shown that they meet. Otherwise it could not be
    proven that none do, as where a subscript is read from memory, or a pointer is used directly. Raises ValueError
    where `loop` is not in `program`, TypeError for something else than a function or statement.

    >>> from tscript.script import tir as T
    >>> @T.prim_func
    ... def row_sums(X: T.Buffer((4, 8), "float32"), Y: T.Buffer((4,), "float32")):
    ...     for i, j in T.grid(4, 8):
    ...         Y[i] = Y[i] + X[i, j]
    >>> i = row_sums.body
    >>> loop_conflict(row_sums, i) is None
    True
    >>> print(loop_conflict(row_sums, i.body).witness.explain("Y", writes=False))
    iteration (i=0, j=0) writes Y[0], iteration (i=0, j=1) reads it
    """
    if not isinstance(program, (PrimFunc, Stmt)):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"a function or a statement has loops, not {kind_of(program)}")
    path = _path_to(program.body if isinstance(program, PrimFunc) else program, loop)
    if path is None:
        raise ValueError(f"the loop over `{loop.loop_var.name}` is not part of the program")
    place = _Place.of([*path, loop])
    found = footprint(loop)
    own = {b.data: None for b in found.own} | found.fresh
    memory = memory_through(place.sources | found.views)
    accesses = [place.put(a) for a in found.found if a.buffer.data not in own]
    conflict = first_conflict(loop.loop_var, accesses, memory, place.around)
    if conflict is None or not conflict.is_certain:
        for pointer in found.escaped:
            if _behind(pointer, found.views) not in own:
                return _through_pointer(pointer, accesses)
    return conflict


@dataclass
class _Place:
    """What is around a loop: loops and axes, what pointers of views point into, names of values, conditions.

    Of blocks that have axes only the innermost counts: its axes take all of their values.
    """

    around: dict[Var, Range] = field(default_factory=dict[Var, Range])
    sources: dict[Var, Var] = field(default_factory=dict[Var, Var])
    lets: dict[Var, PrimExpr] = field(default_factory=dict[Var, PrimExpr])
    conditions: tuple[PrimExpr, ...] = ()
    in_doubt: bool = False

    @staticmethod
    def of(path: list[Node]) -> _Place:
        """What the nodes of `path`, which ends with the loop, put around it."""
        place = _Place()
        for n, below in pairwise(path):
            place._enter(n, below)
        return place

    def _enter(self, n: Node, below: Node) -> None:
        if isinstance(n, For):
            self.around[n.loop_var] = self._range(loop_range(n))
        elif isinstance(n, Block):
            if n.iter_vars:
                self.around = {a.var: a.dom for a in n.iter_vars if a.dom is not None}
                self.conditions, self.lets = (), {}
            self.sources.update({m.buffer.data: m.source.buffer.data for m in n.match_buffers})
            self.in_doubt |= below is n.init
        elif isinstance(n, BlockRealize):
            self.in_doubt |= not is_const_int(n.predicate, 1)
        elif isinstance(n, LetStmt):
            self.lets[n.var] = substitute(n.value, self.lets)
        elif isinstance(n, IfThenElse):
            condition = substitute(n.condition, self.lets)
            self.conditions += (condition if below is n.then_case else not_(condition),)
        elif isinstance(n, While):
            self.in_doubt = True

    def put(self, access: Access) -> Access:
        """The access with what is known from around."""
        if not (self.lets or self.conditions or self.in_doubt):
            return access
        return replace(
            access,
            region=tuple(map(self._range, access.region)),
            domain={v: self._range(r) for v, r in access.domain.items()},
            conditions=(*self.conditions, *(substitute(c, self.lets) for c in access.conditions)),
            in_doubt=access.in_doubt or self.in_doubt,
        )

    def _range(self, r: Range) -> Range:
        return Range.from_min_extent(substitute(r.min, self.lets), substitute(r.extent, self.lets))


def _through_pointer(pointer: Var, accesses: list[Access]) -> Conflict:
    buffer = next((a.buffer for a in accesses if a.buffer.data is pointer), None) or decl_buffer(
        (1,), "uint8", pointer.name, data=pointer
    )
    region = tuple(Range.from_min_extent(IntImm(d.dtype, 0), d) for d in buffer.shape)
    access = Access(None, buffer, region, True, {}, in_doubt=True)
    return Conflict(access, access, None, pointer.name)


def parallel_loops(func: PrimFunc) -> list[For]:
    """The loops of `func`, outer ones first, whose iterations may run at once, as `loop_conflict` tells.

    In a block that has axes, they are looked at for any one value of each axis.

    >>> from tscript.script import tir as T
    >>> @T.prim_func
    ... def row_sums(X: T.Buffer((4, 8), "float32"), Y: T.Buffer((4,), "float32")):
    ...     for i, j in T.grid(4, 8):
    ...         Y[i] = Y[i] + X[i, j]
    >>> [loop.loop_var.name for loop in parallel_loops(row_sums)]
    ['i']
    """
    result: list[For] = []
    stack: list[Node] = [func.body]
    while stack:
        node = stack.pop()
        if isinstance(node, For) and loop_conflict(func, node) is None:
            result.append(node)
        stack.extend(c for c in reversed(children(node)) if isinstance(c, Stmt))
    return result


def first_conflict(var: Var, accesses: list[Access], memory: MemoryOf, around: Mapping[Var, Range]) -> Conflict | None:
    """Two of `accesses` that different iterations of the loop over `var` may make to one element: one with a witness
    if there is such. None where all are kept apart.
    """
    by_memory: dict[Var, list[Access]] = {}
    for a in accesses:
        by_memory.setdefault(memory(a.buffer), []).append(a)
    maybe: Conflict | None = None
    for group in by_memory.values():
        for k, w in enumerate(group):
            for j, x in enumerate(group):
                if not w.is_write or (x.is_write and j < k) or keeps_apart(var, w, x):
                    continue
                found = Conflict(w, x, find_witness(var, w, x, around))
                if found.is_certain:
                    return found
                maybe = maybe or found
    return maybe


def memory_through(sources: Mapping[Var, Var]) -> MemoryOf:
    """Finds the memory of buffers, given what pointers of views point into."""

    def find(buffer: Buffer) -> Var:
        return _behind(buffer.data, sources)

    return find


def _behind(pointer: Var, sources: Mapping[Var, Var]) -> Var:
    while pointer in sources:
        pointer = sources[pointer]
    return pointer


def _path_to(body: Stmt, loop: For) -> list[Node] | None:
    """What is around `loop`, the outermost first; None if it is not in `body`."""
    stack: list[tuple[Node, tuple[Node, ...]]] = [(body, ())]
    while stack:
        node, path = stack.pop()
        if node is loop:
            return list(path)
        stack.extend((c, (*path, node)) for c in children(node) if isinstance(c, Stmt))
    return None
