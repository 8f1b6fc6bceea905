"""Which loops of a program may run their iterations in any order, or all at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tscript.analysis.dependence.accesses import Access, footprint
from tscript.analysis.dependence.apart import keeps_apart
from tscript.analysis.dependence.conflict import Conflict
from tscript.analysis.dependence.witness import find_witness
from tscript.analysis.ranges import loop_range
from tscript.ir.base import Node
from tscript.ir.buffer import Buffer
from tscript.ir.expr import Range, Var
from tscript.ir.function import PrimFunc
from tscript.ir.functor import children
from tscript.ir.stmt import Block, For, Stmt
from tscript.support.wording import kind_of

MemoryOf = Callable[[Buffer], Var]
"""The pointer of the memory behind a buffer, through all views."""


def loop_conflict(program: PrimFunc | Stmt, loop: For) -> Conflict | None:
    """What keeps the iterations of `loop` in `program` from running at once, in any order or interleaving; None if
    it is proven that nothing does.

    Two iterations conflict where both touch an element and one of them writes it. What a block with axes declares to
    read and write stands for what is in it; memory that each iteration allocates for itself is left out. A conflict
    `is_certain` where it has a `witness`: two iterations of which it is shown that they meet. Otherwise it could not be
    proven that none do, as where a subscript is read from memory. Raises ValueError where `loop` is not in `program`,
    or uses a pointer directly, TypeError for something else than a function or statement.

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
    found = footprint(loop)
    for pointer in found.escaped:
        raise ValueError(f"the pointer `{pointer.name}` is used directly, so what happens to its memory is not known")
    around: dict[Var, Range] = {}
    sources: dict[Var, Var] = {}
    for n in path:
        if isinstance(n, For):
            around[n.loop_var] = loop_range(n)
        elif isinstance(n, Block):
            around.update({a.var: a.dom for a in n.iter_vars if a.dom is not None})
            sources.update({m.buffer.data: m.source.buffer.data for m in n.match_buffers})
    own = {b.data: None for b in found.own} | found.fresh
    memory = memory_through(sources | found.views)
    accesses = [a for a in found.found if a.buffer.data not in own]
    return first_conflict(loop.loop_var, accesses, memory, around)


def parallel_loops(func: PrimFunc) -> list[For]:
    """The loops of `func`, outer ones first, whose iterations may run at once, as `loop_conflict` tells.

    Loops in blocks that have axes are not looked at by this function. Loops that use a pointer directly are left out.

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
        if isinstance(node, Block) and node.iter_vars:
            continue
        if isinstance(node, For):
            try:
                if loop_conflict(func, node) is None:
                    result.append(node)
            except ValueError:
                pass
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
        data = buffer.data
        while data in sources:
            data = sources[data]
        return data

    return find


def _path_to(body: Stmt, loop: For) -> list[Node] | None:
    """What is around `loop`, the outermost first; None if it is not in `body`."""
    stack: list[tuple[Node, tuple[Node, ...]]] = [(body, ())]
    while stack:
        node, path = stack.pop()
        if node is loop:
            return list(path)
        stack.extend((c, (*path, node)) for c in children(node) if isinstance(c, Stmt))
    return None
