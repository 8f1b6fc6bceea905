"""Which loops of a program may run their iterations in any order, or all at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tscript.analysis.dependence.accesses import Access, inner_accesses, is_known
from tscript.analysis.dependence.apart import keeps_apart
from tscript.analysis.dependence.conflict import Conflict
from tscript.analysis.dependence.order import keeps_order
from tscript.analysis.dependence.setting import MemoryOf, path_to, setting_of
from tscript.analysis.dependence.witness import Witness, find_exchange, find_witness, never_exchanged
from tscript.ir.base import Node
from tscript.ir.expr import Range, Var
from tscript.ir.function import PrimFunc
from tscript.ir.functor import children
from tscript.ir.occurrences import mentions
from tscript.ir.stmt import For, Stmt


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
    setting = setting_of(program, loop)
    conflict = first_conflict(loop.loop_var, setting.accesses, setting.memory, setting.around)
    if conflict is None or not conflict.is_certain:
        return setting.unknown or conflict
    return conflict


def order_conflict(program: PrimFunc | Stmt, loops: Sequence[For]) -> Conflict | None:
    """What keeps `loops` of one nest in `program` from running in the given order, the outermost first; None if it is
    proven that nothing does.

    They must nest tightly, each being all that the next one outside of it holds; loops between them that are not given
    stay. Two accesses conflict where both touch an element, one writes it, and they would come in another order. As for
    `loop_conflict`, there is a `witness`, unless it could only not be proven that nothing conflicts. Raises ValueError
    for loops that are no such nest in `program`, TypeError for something else than a function or statement.

    >>> from tscript.script import tir as T
    >>> @T.prim_func
    ... def waves(A: T.Buffer((9, 9), "int32"), B: T.Buffer((9, 9), "int32")):
    ...     for i, j in T.grid(8, 8):
    ...         A[i + 1, j + 1] = A[i, j + 1] + A[i + 1, j]
    ...     for i, j in T.grid(8, 8):
    ...         B[i + 1, j] = B[i, j + 1]
    >>> first, second = waves.body.seq
    >>> order_conflict(waves, [first.body, first]) is None
    True
    >>> print(order_conflict(waves, [second.body, second]).witness.explain("B", writes=False))
    iteration (i=0, j=1) writes B[1, 1], iteration (i=1, j=0) reads it
    """
    if not loops:
        return None
    chain = _nest(program, loops)
    given = iter(loops)
    order = [next(given) if any(f is g for g in loops) else f for f in chain]
    if all(a is b for a, b in zip(chain, order, strict=True)):
        return None
    for k, f in enumerate(order):
        if mentions(f.min, inside := {g.loop_var: None for g in order[k:]}) or mentions(f.extent, inside):
            raise ValueError(
                f"the range of the loop over `{f.loop_var.name}` depends on one that would be inside of it"
            )
    setting = setting_of(program, chain[0])
    old, new = [f.loop_var for f in chain], [f.loop_var for f in order]
    maybe: Conflict | None = None
    for w, x in _pairs(setting.accesses, setting.memory):
        found = exchange(w, x, old, new, setting.around)
        if isinstance(found, Conflict):
            maybe = maybe or found
        elif found is not None:
            return Conflict(w, x, found[0])
    return setting.unknown or maybe


def _nest(program: PrimFunc | Stmt, loops: Sequence[For]) -> list[For]:
    """The loops from the outermost to the innermost of `loops`; ValueError unless they nest tightly."""
    paths = [path_to(program, f) for f in loops]
    deepest = max(range(len(loops)), key=lambda k: len(paths[k]))
    line = [*paths[deepest], loops[deepest]]
    first = min((k for k, n in enumerate(line) if any(n is f for f in loops)), default=0)
    chain = [n for n in line[first:] if isinstance(n, For)]
    missing = next((f for f in loops if not any(f is n for n in chain)), None)
    if missing is not None or len(dict.fromkeys(loops)) < len(loops) or len(chain) < len(line) - first:
        raise ValueError(f"loops over {', '.join(f'`{f.loop_var.name}`' for f in loops)} are no tight nest")
    return chain


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
    maybe: Conflict | None = None
    for w, x in _pairs(accesses, memory):
        if not keeps_apart(var, w, x):
            found = Conflict(w, x, find_witness(var, w, x, around))
            if found.is_certain:
                return found
            maybe = maybe or found
    return maybe


def exchange(
    w: Access, x: Access, old: Sequence[Var], new: Sequence[Var], around: Mapping[Var, Range], same: Sequence[Var] = ()
) -> tuple[Witness, Var, Var] | Conflict | None:
    """Two iterations in which `w` and `x` touch the same element that change places, as `find_exchange` finds them;
    a conflict without an example where none is known, None for a proof that there are none.
    """
    if keeps_order(w, x, old, new):
        return None
    found = find_exchange(w, x, old, new, around, same)
    if found is not None:
        return found
    # A block may declare more than it touches.
    first, second = (inner_accesses(a) if is_known(a) else [a] for a in (w, x))
    for a in first:
        for b in second:
            if not (keeps_order(a, b, old, new) or never_exchanged(a, b, old, new, around)):
                return Conflict(w, x, None)
    return None


def _pairs(accesses: Sequence[Access], memory: MemoryOf) -> Iterator[tuple[Access, Access]]:
    """A write first, and another access to the same memory, each pair once."""
    by_memory: dict[Var, list[Access]] = {}
    for a in accesses:
        by_memory.setdefault(memory(a.buffer), []).append(a)
    for group in by_memory.values():
        for k, w in enumerate(group):
            for j, x in enumerate(group):
                if w.is_write and not (x.is_write and j < k):
                    yield w, x
