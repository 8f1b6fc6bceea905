"""What the iterations of a loop touch, and what is around it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from tscript.analysis.dependence.accesses import Access, footprint
from tscript.analysis.dependence.conflict import Conflict
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


@dataclass(frozen=True)
class Setting:
    """The accesses below a loop, less memory that each iteration has for itself; the memory of their buffers; loops and
    axes around. `unknown` tells of a pointer that is used directly.
    """

    accesses: list[Access]
    memory: MemoryOf
    around: Mapping[Var, Range]
    unknown: Conflict | None


def setting_of(program: PrimFunc | Stmt, loop: For) -> Setting:
    """What `loop` touches in `program`. Raises ValueError where it is not in it, TypeError for other programs."""
    place = _Place.of([*path_to(program, loop), loop])
    found = footprint(loop)
    own = {b.data: None for b in found.own} | found.fresh
    accesses = [place.put(a) for a in found.found if a.buffer.data not in own]
    pointer = next((v for v in found.escaped if _behind(v, found.views) not in own), None)
    unknown = None
    if pointer is not None:
        access = through_pointer(pointer, accesses)
        unknown = Conflict(access, access, None, pointer.name)
    return Setting(accesses, memory_through(place.sources | found.views), place.around, unknown)


def path_to(program: PrimFunc | Stmt, loop: For) -> list[Node]:
    """What is around `loop`, the outermost first. Raises as `setting_of`."""
    if not isinstance(program, (PrimFunc, Stmt)):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"a function or a statement has loops, not {kind_of(program)}")
    stack: list[tuple[Node, tuple[Node, ...]]] = [(program.body if isinstance(program, PrimFunc) else program, ())]
    while stack:
        node, path = stack.pop()
        if node is loop:
            return list(path)
        stack.extend((c, (*path, node)) for c in children(node) if isinstance(c, Stmt))
    raise ValueError(f"the loop over `{loop.loop_var.name}` is not part of the program")


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


def through_pointer(pointer: Var, accesses: Sequence[Access]) -> Access:
    """What is done through a pointer that is used directly: anything, to all of the memory.

    `accesses` may name a buffer there.
    """
    buffer = next((a.buffer for a in accesses if a.buffer.data is pointer), None) or decl_buffer(
        (1,), "uint8", pointer.name, data=pointer
    )
    region = tuple(Range.from_min_extent(IntImm(d.dtype, 0), d) for d in buffer.shape)
    return Access(None, buffer, region, True, {}, in_doubt=True)


def memory_through(sources: Mapping[Var, Var]) -> MemoryOf:
    """Finds the memory of buffers, given what pointers of views point into."""

    def find(buffer: Buffer) -> Var:
        return _behind(buffer.data, sources)

    return find


def _behind(pointer: Var, sources: Mapping[Var, Var]) -> Var:
    while pointer in sources:
        pointer = sources[pointer]
    return pointer
