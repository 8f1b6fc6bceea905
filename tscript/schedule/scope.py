"""Which blocks of a scope depend on which: the edges that primitives must respect."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from tscript.ir.buffer import Buffer
from tscript.schedule.sref import StmtSRef


class DepKind(Enum):
    """How one block depends on an earlier one."""

    RAW = "read after write"
    WAW = "write after write"
    WAR = "write after read"


@dataclass(frozen=True, slots=True)
class Dependency:
    """`dst` must come after `src`."""

    src: StmtSRef
    dst: StmtSRef
    kind: DepKind


@dataclass
class BlockScope:
    """The child blocks of a scope root, in program order, with their dependences.

    Whether regions overlap is not asked: touching the same buffer is enough. `buffer_writers` lists the
    blocks that write each buffer.
    """

    children: list[StmtSRef] = field(default_factory=list[StmtSRef])
    src2deps: dict[StmtSRef, list[Dependency]] = field(default_factory=dict[StmtSRef, list[Dependency]])
    dst2deps: dict[StmtSRef, list[Dependency]] = field(default_factory=dict[StmtSRef, list[Dependency]])
    buffer_writers: dict[Buffer, list[StmtSRef]] = field(default_factory=dict[Buffer, list[StmtSRef]])

    def producers(self, block: StmtSRef) -> list[StmtSRef]:
        """Blocks whose values `block` reads or overwrites."""
        deps = self.dst2deps.get(block, [])
        return list(dict.fromkeys(d.src for d in deps if d.kind is not DepKind.WAR))

    def consumers(self, block: StmtSRef) -> list[StmtSRef]:
        """Blocks that read or overwrite what `block` writes."""
        deps = self.src2deps.get(block, [])
        return list(dict.fromkeys(d.dst for d in deps if d.kind is not DepKind.WAR))

    def _edge(self, src: StmtSRef, dst: StmtSRef, kind: DepKind) -> None:
        if src is not dst:
            dep = Dependency(src, dst, kind)
            self.src2deps.setdefault(src, []).append(dep)
            self.dst2deps.setdefault(dst, []).append(dep)


def block_scope(children: list[StmtSRef]) -> BlockScope:
    """The dependences among the child blocks of a scope, given in program order."""
    scope = BlockScope(children)
    readers: dict[Buffer, list[StmtSRef]] = {}
    writers = scope.buffer_writers
    for child in children:
        block = child.block
        reads = list(dict.fromkeys(r.buffer for r in block.reads))
        writes = list(dict.fromkeys(w.buffer for w in block.writes))
        for b in reads:
            readers.setdefault(b, []).append(child)
        for b in writes:
            writers.setdefault(b, []).append(child)
        for b in reads:
            for w in writers.get(b, ()):
                scope._edge(w, child, DepKind.RAW)  # pyright: ignore[reportPrivateUsage]
        for b in writes:
            for w in writers[b]:
                scope._edge(w, child, DepKind.WAW)  # pyright: ignore[reportPrivateUsage]
            for r in readers.get(b, ()):
                scope._edge(r, child, DepKind.WAR)  # pyright: ignore[reportPrivateUsage]
    return scope
