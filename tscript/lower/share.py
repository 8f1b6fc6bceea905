"""Allocations whose lifetimes do not meet share memory, and memory is taken outside of loops.

Before and after: loops over flat memory. Of each piece of code that runs in order, the whole function and the body of
a parallel loop, the allocations of more than a small constant size come to its start; two of them become one where the
last access of the first lies before the first access of the second. An access in a loop inside an allocation counts
as one wherever the loop runs, as it may find what an earlier iteration has left.

Memory stays as it is where something else than loads and stores of its buffers gets at it, where it lies in registers
or in the caches of a device, and where its size is a variable one. Memory of different types or alignments is not
shared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tscript.analysis.affine import find_digits, tell_all
from tscript.ir.base import Node
from tscript.ir.buffer import Buffer
from tscript.ir.construct import const
from tscript.ir.expr import BufferLoad, IntImm, PointerType, PrimExpr, Range, Var
from tscript.ir.function import PrimFunc
from tscript.ir.functor import Substitute, children
from tscript.ir.stmt import Allocate, BufferStore, DeclBuffer, For, ForKind, IfThenElse, Stmt, While
from tscript.lower.memories import Memories
from tscript.lower.regions import scalar_index

SMALLEST: Final = 1024
"""What is no larger than this stays where it is: it comes onto the stack, or into registers."""
LARGEST_IF_UNSURE: Final = 64 << 20
"""What is larger is not taken before it is certain that the program wants it."""


def share_storage(func: PrimFunc) -> PrimFunc:
    """Take memory outside of loops that run in order, once for all allocations that are not in use at the same time."""
    if not _asks(func.body):
        return func
    return func.replace(body=_piece(func.body, Memories(func)))


def _asks(body: Stmt) -> bool:
    """Whether there is an allocation in a loop, or more than one, of those that are looked at here."""
    found = 0
    stack: list[tuple[Stmt, bool]] = [(body, False)]
    while stack:
        s, is_repeated = stack.pop()
        if isinstance(s, Allocate) and _is_considered(s):
            found += 1
            if is_repeated or found > 1:
                return True
        if isinstance(s, (For, While)):
            is_repeated = not _is_parallel(s)
        stack.extend((c, is_repeated) for c in children(s) if isinstance(c, Stmt))
    return False


def _is_considered(s: Allocate) -> bool:
    size = _constant_size(s)
    kind = s.buffer_var.type_annotation
    scope = kind.storage_scope if isinstance(kind, PointerType) else "global"
    return size is not None and size > SMALLEST and scope == "global" and not s.annotations


@dataclass(slots=True, eq=False)
class _Loop:
    """A loop, with the numbers of the first and last access or other statement in it."""

    node: For | While
    first: int
    last: int = 0


_Access = tuple[Any, int, tuple[_Loop, ...]]
"""A load or store, its number, and the loops around it."""


@dataclass(slots=True, eq=False)
class _Memory:
    """An allocation: when it is first and last used, and by which accesses. `loops`: how many are around it."""

    node: Allocate
    loops: tuple[_Loop, ...]
    size: int
    buffers: list[Buffer] = field(default_factory=list[Buffer])
    accesses: list[_Access] = field(default_factory=list[_Access])

    def life(self) -> tuple[int, int]:
        """From when to when what is in the memory may matter."""
        spans = [self._span(at, loops) for _, at, loops in self.accesses]
        return min(a for a, _ in spans), max(b for _, b in spans)

    def _span(self, at: int, loops: tuple[_Loop, ...]) -> tuple[int, int]:
        inner = loops[len(self.loops) :]
        return (inner[0].first, inner[0].last) if inner else (at, at)

    def outermost(self) -> tuple[_Loop, ...]:
        """For each access the outermost loop around it that the allocation is not in, if there is one."""
        return tuple(loops[len(self.loops)] for _, _, loops in self.accesses if len(loops) > len(self.loops))


@dataclass(slots=True, eq=False)
class _Slot:
    """Memory for several allocations, one after the other."""

    members: list[_Memory]
    size: int
    until: int


class _Piece:
    """The allocations of a piece of code that runs in order, and their accesses."""

    def __init__(self, memories: Memories) -> None:
        self._memories = memories
        self._now = 0
        self._loops: tuple[_Loop, ...] = ()
        self._loads: dict[PrimExpr, list[BufferLoad]] = {}
        self.found: dict[Var, _Memory] = {}
        self.has_inner = False

    def statement(self, s: Stmt, sure: bool, own: bool) -> None:
        """Number what `s` does. `sure`: it runs whenever the piece does; `own`: it is not in a parallel loop inside."""
        match s:
            case For() | While():
                if isinstance(s, For):
                    self._uses(s.min, s.extent)
                    runs = isinstance(s.extent, IntImm) and s.extent.value > 0
                else:
                    runs = False
                loop = _Loop(s, self._now)
                outside, self._loops = self._loops, (*self._loops, loop)
                if isinstance(s, While):
                    self._uses(s.condition)
                self.statement(s.body, sure and runs, own and not _is_parallel(s))
                loop.last, self._loops = self._now, outside
                self._now += 1
            case BufferStore():
                self._uses(s.value, *s.indices, *(() if s.predicate is None else (s.predicate,)))
                self._access(s.buffer, s)
                self._now += 1
            case Allocate():
                self._uses(*s.extents)
                if own:
                    self._enter(s, sure)
                else:
                    self.has_inner = self.has_inner or _is_considered(s)
                self.statement(s.body, sure, own)
            case DeclBuffer():
                if s.buffer.data in self.found:
                    self.found[s.buffer.data].buffers.append(s.buffer)
                self.statement(s.body, sure, own)
            case _:
                guarded = isinstance(s, IfThenElse)
                for c in children(s):
                    if isinstance(c, Stmt):
                        self.statement(c, sure and not guarded, own)
                    elif isinstance(c, PrimExpr):
                        self._uses(c)
                self._now += 1

    def _enter(self, s: Allocate, sure: bool) -> None:
        size = _constant_size(s) or 0
        if not _is_considered(s) or not self._memories.is_private(s.buffer_var):
            return
        if sure or size <= LARGEST_IF_UNSURE:
            self.found[s.buffer_var] = _Memory(s, self._loops, size)

    def _access(self, buffer: Buffer, node: Any) -> None:
        memory = self.found.get(buffer.data)
        if memory is not None:
            memory.accesses.append((node, self._now, self._loops))

    def _uses(self, *roots: PrimExpr) -> None:
        for e in roots if self.found else ():
            loads = self._loads.get(e)
            if loads is None:
                loads = self._loads[e] = list(_loads(e))
            for load in loads:
                self._access(load.buffer, load)
        self._now += 1


def _is_parallel(s: Stmt) -> bool:
    return isinstance(s, For) and s.kind == ForKind.PARALLEL


def _constant_size(s: Allocate) -> int | None:
    """Bytes of an allocation; None where they are not constant, or it is made under a condition."""
    total = s.dtype.bytes * s.dtype.lanes
    for e in (s.condition, *s.extents):
        if not isinstance(e, IntImm) or e.value < 0:
            return None
        total *= e.value
    return total


# -- which memory is shared ---------------------------------------------------------------------------


def _slots(found: Sequence[_Memory]) -> list[_Slot]:
    slots: list[_Slot] = []
    for memory in sorted((m for m in found if m.accesses), key=lambda m: m.life()[0]):
        first, last = memory.life()
        free = [s for s in slots if _fits(s.members[0], memory) and (s.until < first or _in_place(s, memory))]
        if not free:
            slots.append(_Slot([memory], memory.size, last))
            continue
        # The one that has to grow least, then the smallest.
        best = min(free, key=lambda s: (max(memory.size - s.size, 0), s.size))
        best.members.append(memory)
        best.size, best.until = max(best.size, memory.size), max(best.until, last)
    return slots


def _fits(a: _Memory, b: _Memory) -> bool:
    alignments = {x.data_alignment for m in (a, b) for x in m.buffers}
    return a.node.dtype is b.node.dtype and len(alignments) <= 1


def _in_place(slot: _Slot, new: _Memory) -> bool:
    """Whether `new` may begin where the last user of a slot ends: each element is made of the one in its place.

    All that both do in the loop in which the lives meet is one store to the new memory of what is computed from the
    same place of the old one; no two iterations come to the same place.
    """
    old = slot.members[-1]
    if old.size != new.size or slot.until != old.life()[1] or old.loops != new.loops:
        return False
    meeting = dict.fromkeys(old.outermost())
    ends = [loop for loop in meeting if loop.last == slot.until and new.life()[0] == loop.first]
    if not ends:
        return False
    (loop,) = ends
    of_old = [n for n, _, loops in old.accesses if loop in loops]
    of_new = [(n, loops) for n, _, loops in new.accesses if loop in loops]
    if len(of_new) != 1 or any(not isinstance(n, BufferLoad) for n in of_old):
        return False
    ((store, loops),) = of_new
    if not isinstance(store, BufferStore) or not all(_is_same(n.indices, store.indices) for n in of_old):
        return False
    if sum(n.buffer.data is old.node.buffer_var for n in _loads(store.value)) != len(of_old):
        # A load outside of the store.
        return False
    return _is_one_to_one(store, loops[loops.index(loop) :])


def _is_same(a: Sequence[PrimExpr], b: Sequence[PrimExpr]) -> bool:
    return all(x is y for x, y in zip(a, b, strict=True))


def _loads(e: PrimExpr) -> Iterator[BufferLoad]:
    seen: set[Node] = set()
    stack: list[Node] = [e]
    while stack:
        n = stack.pop()
        if n in seen or isinstance(n, (IntImm, Var)):
            continue
        seen.add(n)
        if isinstance(n, BufferLoad):
            yield n
        stack.extend(c for c in children(n) if isinstance(c, PrimExpr))


def _is_one_to_one(store: BufferStore, loops: Sequence[_Loop]) -> bool:
    """Whether each iteration of `loops` stores to another place."""
    domain: dict[Var, Range] = {}
    for loop in loops:
        if not isinstance(loop.node, For):
            return False
        domain[loop.node.loop_var] = Range.from_min_extent(loop.node.min, loop.node.extent)
    (index,) = store.indices if len(store.indices) == 1 else (None,)
    plain = None if index is None else scalar_index(index, domain)
    string = None if plain is None else find_digits(plain, domain)
    return string is not None and tell_all([string], domain)


# -- what becomes of the program ----------------------------------------------------------------------


def _piece(body: Stmt, memories: Memories) -> Stmt:
    """`body`, which runs in order, with the memory of its own at the start."""
    piece = _Piece(memories)
    piece.statement(body, True, True)
    moved: dict[Var, Var] = {}
    taken: list[tuple[Var, _Slot]] = []
    for slot in _slots(list(piece.found.values())):
        if len(slot.members) == 1 and not slot.members[0].loops:
            continue
        var = slot.members[0].node.buffer_var
        taken.append((var, slot))
        moved.update({m.node.buffer_var: var for m in slot.members})
    if not moved and not piece.has_inner:
        return body
    body = _Shared(moved, memories).rewrite(body)
    for var, slot in reversed(taken):
        dtype = slot.members[0].node.dtype
        count = slot.size // (dtype.bytes * dtype.lanes)
        body = Allocate(var, dtype, (const(count),), const(True), body)
    return body


class _Shared(Substitute):
    """Allocations become the slots they are in; parallel loops become pieces of their own."""

    def __init__(self, moved: dict[Var, Var], memories: Memories) -> None:
        super().__init__({v: slot for v, slot in moved.items() if v is not slot})
        self._moved = moved
        self._memories = memories

    def rewrite_Allocate(self, s: Allocate) -> Any:
        return self.rewrite(s.body) if s.buffer_var in self._moved else self.rewrite_children(s)

    def rewrite_For(self, loop: For) -> Any:
        result: For = self.rewrite_children(loop)
        if result.kind != ForKind.PARALLEL:
            return result
        body = _piece(result.body, self._memories)
        return result if body is result.body else result.replace(body=body)


__all__ = ["share_storage"]
