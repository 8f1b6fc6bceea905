"""The part of a program that some elements of its results depend on, so that a large one can be tried in little time.

From chosen elements of the results, the elements that they are computed from are found backwards through all stores,
as one set of positions for each dimension of each buffer. Iterations are left out whose stores all lie outside of
these sets; all others run in their order, so that what is chosen comes out as it does in the whole program. Nothing is
taken from what a schedule says of its loops: only subscripts count. What iterations left out do wrong, such as an
access out of bounds, is not seen.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tscript.equivalence.arguments import known_shape
from tscript.equivalence.intervals import Bounds, bounds_of
from tscript.ir import construct as make
from tscript.ir import expr as ex
from tscript.ir import stmt as st
from tscript.ir.base import Node
from tscript.ir.buffer import Buffer
from tscript.ir.expr import BufferLoad, Call, IntImm, Op, PrimExpr, Var
from tscript.ir.function import PrimFunc
from tscript.ir.functor import Rewriter, post_order_visit, pre_order_visit
from tscript.ir.occurrences import any_below, variables

Mask = np.ndarray[Any, np.dtype[np.bool_]]
Wanted = dict[Buffer, list[Mask]]
"""For each buffer, the positions wanted in each dimension."""

Values = np.ndarray[Any, np.dtype[Any]] | None
"""Values of a loop variable; None where they are too many to list."""

_MOST_VALUES = 1 << 20
_MOST_TOGETHER = 1 << 16
_MOST_ROUNDS = 40


class CannotCut(Exception):
    """The program does what subscripts do not tell, so all of it has to run."""


@dataclass(frozen=True)
class _Access:
    """Elements of a buffer: in each dimension, from the first expression to the second."""

    buffer: Buffer
    ends: tuple[tuple[PrimExpr, PrimExpr], ...]


@dataclass(frozen=True)
class _Unit:
    """What runs or is left out as one: a store, or a block that does more than loads and stores tell."""

    loops: tuple[st.For, ...]
    writes: tuple[_Access, ...]
    reads: tuple[_Access, ...]


class Cut:
    """What of `func` is needed for the elements `wanted` of its parameters, with sizes given by name.

    `function` is the program of just that, `work` about how many iterations it makes. Raises CannotCut.
    """

    def __init__(self, func: PrimFunc, wanted: Mapping[int, Sequence[Mask]], sizes: Mapping[str, int]) -> None:
        self._sizes = sizes
        self._units: list[_Unit] = []
        self._values: dict[Var, PrimExpr] = {
            v: IntImm(v.dtype, sizes[v.name]) for v in _free_variables(func) if v.name in sizes
        }
        self._memory: dict[Var, Buffer] = {}
        self._wanted: Wanted = {}
        self._users: dict[tuple[PrimExpr, PrimExpr], dict[Var, None]] = {}
        self._counts: dict[Buffer, list[np.ndarray[Any, Any]]] = {}
        for k, masks in wanted.items():
            self._wanted[func.buffer_map[func.params[k]]] = [m.copy() for m in masks]
        for p in func.params:
            if p in func.buffer_map:
                self._note_memory(func.buffer_map[p])
        self._collect(func.body, (), ())
        self._ranges: dict[st.For, Values] = {}
        for u in self._units:
            for k, loop in enumerate(u.loops):
                if loop not in self._ranges:
                    self._ranges[loop] = self._range(loop, u.loops[:k])
        kept = self._settle()
        self.work = _work(self._units, kept, self._ranges)
        self.whole_work = _work(self._units, [dict(self._ranges)] * len(self._units), self._ranges)
        self.function = self._cut_function(func, kept)

    # -- what the program does ----------------------------------------------------------------------

    def _note_memory(self, buffer: Buffer) -> None:
        if self._memory.setdefault(buffer.data, buffer) is not buffer:
            raise CannotCut(f"`{buffer.name}` shares its memory with another buffer")

    def _collect(self, s: st.Stmt, loops: tuple[st.For, ...], reads: tuple[_Access, ...]) -> None:
        """Note all stores below a statement. `reads` is what decides whether it runs."""
        match s:
            case st.SeqStmt():
                for child in s.seq:
                    self._collect(child, loops, reads)
            case st.For():
                self._collect(s.body, (*loops, s), (*reads, *self._loads(s.min, s.extent)))
            case st.IfThenElse():
                reads = (*reads, *self._loads(s.condition))
                self._collect(s.then_case, loops, reads)
                if s.else_case is not None:
                    self._collect(s.else_case, loops, reads)
            case st.LetStmt():
                self._values[s.var] = s.value
                self._collect(s.body, loops, (*reads, *self._loads(s.value)))
            case st.BlockRealize():
                self._collect_block(s, loops, (*reads, *self._loads(s.predicate, *s.iter_values)))
            case st.BufferStore():
                self._note_memory(s.buffer)
                values = [s.value, *s.indices, *(() if s.predicate is None else (s.predicate,))]
                write = _Access(s.buffer, tuple((i, i) for i in s.indices))
                self._units.append(_Unit(loops, (write,), (*reads, *self._loads(*values))))
            case st.Evaluate() if isinstance(s.value, IntImm):
                pass
            case st.Allocate() | st.AllocateConst() | st.DeclBuffer():
                if isinstance(s, st.DeclBuffer):
                    self._note_memory(s.buffer)
                self._collect(s.body, loops, reads)
            case _:
                raise CannotCut(f"it has a statement of kind {type(s).__name__}")

    def _collect_block(self, s: st.BlockRealize, loops: tuple[st.For, ...], reads: tuple[_Access, ...]) -> None:
        block = s.block
        for axis, value in zip(block.iter_vars, s.iter_values, strict=True):
            self._values[axis.var] = value
        if _does_more(block):
            shown, touched = _touched(block)
            for access in (*shown, *touched):
                self._note_memory(access.buffer)
            writes = (*(_of_region(r) for r in block.writes), *shown)
            # Some of what it writes may be left as it was.
            self._units.append(_Unit(loops, writes, (*reads, *writes, *touched)))
            return
        if block.init is not None:
            self._collect(block.init, loops, reads)
        self._collect(block.body, loops, reads)

    def _loads(self, *values: PrimExpr) -> list[_Access]:
        found: list[_Access] = []

        def look(n: object) -> None:
            if isinstance(n, BufferLoad):
                self._note_memory(n.buffer)
                found.append(_Access(n.buffer, tuple((i, i) for i in n.indices)))
            elif isinstance(n, ex.Let):
                self._values[n.var] = n.value
            elif isinstance(n, Node) and _is_opaque(n):
                raise CannotCut("it calls something outside of a block")

        for value in values:
            post_order_visit(value, look)
        return found

    def _range(self, loop: st.For, around: Sequence[st.For]) -> Values:
        """All values of a loop variable, or more; None where they are too many."""
        outer: dict[Var, Bounds] = {}
        for o in around:
            outer[o.loop_var] = self._hull_of_range(o, outer)
        low, high = self._hull_of_range(loop, outer)
        return np.arange(int(low), int(high) + 1) if high - low < _MOST_VALUES else None

    def _hull_of_range(self, loop: st.For, outer: Mapping[Var, Bounds]) -> Bounds:
        start, count = bounds_of(loop.min, outer, self._values), bounds_of(loop.extent, outer, self._values)
        return int(start[0]), int(start[1]) + int(count[1]) - 1

    # -- what is needed -----------------------------------------------------------------------------

    def _settle(self) -> list[dict[st.For, Values] | None]:
        """For each unit, the iterations of its loops that may matter; None for one that does not matter at all."""
        for _ in range(_MOST_ROUNDS):
            kept = [self._narrowed(u) for u in self._units]
            changed = False
            # A unit is asked for in turn by those after it: from the last to the first, one round is mostly enough.
            for k in range(len(self._units) - 1, -1, -1):
                kept[k] = values = self._narrowed(self._units[k])
                if values is not None:
                    for access in self._units[k].reads:
                        changed |= self._want(access, values)
            if not changed:
                return kept
        raise CannotCut("its results depend on each other in too long a chain")

    def _narrowed(self, unit: _Unit) -> dict[st.For, Values] | None:
        values = {loop: self._ranges[loop] for loop in unit.loops}
        if any(v is not None and len(v) == 0 for v in values.values()):
            return None
        for _ in range(2):
            hits = [h for w in unit.writes if (h := self._hits(w, values)) is not None]
            if not hits:
                return None
            for loop, mine in values.items():
                if mine is not None:
                    values[loop] = mine[np.logical_or.reduce([h.get(loop, np.ones(len(mine), bool)) for h in hits])]
        return values

    def _known(self, values: Mapping[st.For, Values]) -> dict[Var, Bounds]:
        known: dict[Var, Bounds] = {}
        for loop, mine in values.items():
            known[loop.loop_var] = self._hull_of_range(loop, known) if mine is None else (int(mine[0]), int(mine[-1]))
        return known

    def _hits(self, access: _Access, values: Mapping[st.For, Values]) -> dict[st.For, Mask] | None:
        """For each loop, the values with which elements may be wanted; None where none is."""
        if access.buffer not in self._wanted:
            return None
        if access.buffer not in self._counts:
            sums = [np.concatenate([[0], np.cumsum(m)]) for m in self._wanted[access.buffer]]
            self._counts[access.buffer] = sums
        found: dict[st.For, Mask] = {}
        for count, ends in zip(self._counts[access.buffer], access.ends, strict=True):
            loops, low, end = self._spans(ends, values, len(count) - 1)
            hit = count[np.maximum(end, low)] - count[low] > 0
            if not hit.any():
                return None
            for axis, loop in enumerate(loops):
                seen: Mask = np.asarray(hit.any(axis=tuple(k for k in range(len(loops)) if k != axis)))
                found[loop] = found[loop] & seen if loop in found else seen
        return found

    def _spans(
        self, ends: tuple[PrimExpr, PrimExpr], values: Mapping[st.For, Values], size: int
    ) -> tuple[list[st.For], Any, Any]:
        """Where a part of a dimension begins and stops, for all values together of the loops that it depends on."""
        if ends not in self._users:
            self._users[ends] = self._variables_of(ends)
        loops = [r for r, mine in values.items() if mine is not None and r.loop_var in self._users[ends]]
        while math.prod(len(mine) for r in loops if (mine := values[r]) is not None) > _MOST_TOGETHER:
            loops.remove(max(loops, key=lambda r: len(values[r])))  # pyright: ignore[reportArgumentType]
        where = self._known(values)
        for axis, loop in enumerate(loops):
            mine = values[loop]
            assert mine is not None
            grid = mine.reshape([-1 if k == axis else 1 for k in range(len(loops))])
            where[loop.loop_var] = (grid, grid)
        shape = [len(mine) for r in loops if (mine := values[r]) is not None]
        low = np.clip(bounds_of(ends[0], where, self._values)[0], 0, size)
        end = np.clip(bounds_of(ends[1], where, self._values)[1] + 1, 0, size)
        return loops, np.broadcast_to(low, shape), np.broadcast_to(end, shape)

    def _variables_of(self, ends: tuple[PrimExpr, PrimExpr]) -> dict[Var, None]:
        """The variables that a part of a dimension depends on, through what they are bound to."""
        found: dict[Var, None] = {}
        pending = [*variables(*ends)]
        while pending:
            v = pending.pop()
            if v not in found:
                found[v] = None
                if v in self._values:
                    pending += variables(self._values[v])
        return found

    def _want(self, access: _Access, values: Mapping[st.For, Values]) -> bool:
        """Want the elements of an access too; whether there are new ones."""
        masks = self._wanted.get(access.buffer)
        if masks is None:
            try:
                shape = known_shape(access.buffer, self._sizes)
            except ValueError as error:
                raise CannotCut(str(error)) from None
            masks = self._wanted[access.buffer] = [np.zeros(n, dtype=bool) for n in shape]
        if all(m.all() for m in masks):
            return False
        changed = False
        for mask, ends in zip(masks, access.ends, strict=True):
            new = mask | self._positions(ends, values, len(mask))
            changed |= bool((new != mask).any())
            mask[:] = new
        if changed:
            self._counts.pop(access.buffer, None)
        return changed

    def _positions(self, ends: tuple[PrimExpr, PrimExpr], values: Mapping[st.For, Values], size: int) -> Mask:
        """The positions between two ends, for any of the values of the loops."""
        _, low, end = self._spans(ends, values, size)
        low, end = np.ravel(low), np.ravel(end)
        steps = np.zeros(size + 1, dtype=np.int64)
        np.add.at(steps, low[low < end], 1)
        np.add.at(steps, end[low < end], -1)
        return np.cumsum(steps[:-1]) > 0

    # -- the smaller program ------------------------------------------------------------------------

    def _cut_function(self, func: PrimFunc, kept: Sequence[dict[st.For, Values] | None]) -> PrimFunc:
        runs: dict[st.For, Mask] = {}
        for loop, values in self._ranges.items():
            if values is not None:
                runs[loop] = np.zeros(len(values), dtype=bool)
        for values in kept:
            for loop, mine in (values or {}).items():
                full = self._ranges[loop]
                if mine is not None and full is not None:
                    runs[loop] |= np.isin(full, mine)
        conditions: dict[st.For, PrimExpr] = {}
        for loop, mask in runs.items():
            full = self._ranges[loop]
            if full is not None and not mask.all():
                conditions[loop] = _among(loop.loop_var, full[mask])
        return func.replace(body=_Guard(conditions).rewrite(func.body))


class _Guard(Rewriter):
    """Puts the bodies of loops under conditions."""

    def __init__(self, conditions: Mapping[st.For, PrimExpr]) -> None:
        super().__init__()
        self._conditions = conditions

    def rewrite_For(self, node: st.For) -> st.Stmt:
        """The loop with its condition."""
        made = self.rewrite_children(node)
        condition = self._conditions.get(node)
        return made if condition is None else made.replace(body=st.IfThenElse(condition, made.body))

    def rewrite_PrimExpr(self, node: PrimExpr) -> PrimExpr:
        """Expressions stay."""
        return node


def _among(var: Var, values: np.ndarray[Any, Any]) -> PrimExpr:
    """The condition that a variable has one of some values, in rising order."""
    parts = np.split(values, np.flatnonzero(np.diff(values) > 1) + 1) if len(values) else []
    result: PrimExpr = make.const(False)
    for k, part in enumerate(parts):
        low, high = IntImm(var.dtype, int(part[0])), IntImm(var.dtype, int(part[-1]))
        inside = ex.EQ(var, low) if len(part) == 1 else ex.And(ex.GE(var, low), ex.LE(var, high))
        result = inside if k == 0 else ex.Or(result, inside)
    return result


def _work(
    units: Sequence[_Unit],
    kept: Sequence[Mapping[st.For, Values] | None],
    ranges: Mapping[st.For, Values],
) -> int:
    """About how many iterations there are: those looked at count as those that run."""
    total = 0
    for unit, values in zip(units, kept, strict=True):
        times = 1
        for loop in unit.loops:
            full = ranges[loop]
            count = _MOST_VALUES if full is None else len(full)
            total += times * count
            mine = None if values is None else values[loop]
            times *= 0 if values is None else count if mine is None else len(mine)
    return total


def _of_region(r: st.BufferRegion) -> _Access:
    return _Access(r.buffer, tuple((k.min, k.min + k.extent - 1) for k in r.region))


def _touched(block: st.Block) -> tuple[list[_Access], list[_Access]]:
    """What views in a block show or it stores to, and what else is touched in it, declared or not.

    Variables of inner loops have no bounds here, so that all their iterations count.
    """
    views: dict[Buffer, None] = {}
    shown: list[_Access] = []
    touched = [_of_region(r) for r in (*block.reads, *block.writes)]

    def look(n: object) -> bool:
        if isinstance(n, st.Block):
            for m in n.match_buffers:
                views[m.buffer] = None
                if m.source.buffer not in views:
                    shown.append(_of_region(m.source))
        elif isinstance(n, (BufferLoad, st.BufferStore)) and n.buffer not in views:
            access = _Access(n.buffer, tuple((i, i) for i in n.indices))
            (touched if isinstance(n, BufferLoad) else shown).append(access)
        return True

    pre_order_visit(block, look)
    return shown, touched


def _is_opaque(n: Node) -> bool:
    """Whether a node may touch memory in a way that is neither load nor store."""
    if isinstance(n, Call):
        return not isinstance(n.op, Op) or n.op.effect != "pure"
    return isinstance(n, Var) and n.dtype.is_handle


def _does_more(block: st.Block) -> bool:
    """Whether a block does more than its own loads and stores tell, other blocks inside it left out."""
    if block.match_buffers:
        return True
    pending: Iterator[st.Stmt | None] = iter((block.init, block.body))
    stack = [s for s in pending if s is not None]
    while stack:
        s = stack.pop()
        match s:
            case st.SeqStmt():
                stack += s.seq
            case st.For() | st.LetStmt():
                stack.append(s.body)
            case st.IfThenElse():
                stack += [s.then_case, *(() if s.else_case is None else (s.else_case,))]
            case st.BlockRealize():
                continue
            case st.BufferStore():
                if any(any_below(e, _is_opaque) for e in (s.value, *s.indices)):
                    return True
            case st.Evaluate() if isinstance(s.value, IntImm):
                continue
            case _:
                return True
    return False


def _free_variables(func: PrimFunc) -> list[Var]:
    found: dict[Var, None] = {}
    for p in func.params:
        found[p] = None
        if p in func.buffer_map:
            for e in func.buffer_map[p].shape:
                post_order_visit(e, lambda n: found.setdefault(n) if isinstance(n, Var) else None)
    return list(found)
