"""Whether memory may start anew in each iteration of a loop: what is read there was written there before.

A read is looked up among the writes before it in the text. Loops around both stand still; the others run through
their values. A write counts where it surely takes place: under the conditions that the read is under too, or in the
first iteration of loops that the read is in, as the init of a reduction.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tscript.analysis.affine import are_independent, find_digits
from tscript.arith.const_bound import Bound, const_bound
from tscript.arith.forms import plus
from tscript.ir import expr as ex
from tscript.ir.base import Node
from tscript.ir.buffer import Buffer
from tscript.ir.expr import BufferLoad, Call, IntImm, Let, Op, PrimExpr, Range, Var
from tscript.ir.functor import children, substitute
from tscript.ir.linear import LinearForm, difference, linear_form
from tscript.ir.occurrences import any_below, mentions, reads_memory, variables
from tscript.ir.stmt import AssertStmt, AttrStmt, BufferStore, For, ForKind, IfThenElse, LetStmt, Stmt, While
from tscript.lower.guards import atoms_of, decide, range_of
from tscript.lower.regions import Names, ends_of, falls_short, scalar_index

_NEGATED: Mapping[type[PrimExpr], type[ex.CmpExpr]] = {
    ex.LT: ex.GE,
    ex.LE: ex.GT,
    ex.GT: ex.LE,
    ex.GE: ex.LT,
    ex.EQ: ex.NE,
    ex.NE: ex.EQ,
}


def writes_before_reads(buffer: Buffer, body: Stmt, bounds: Mapping[Var, Bound]) -> bool:
    """Whether each run of `body` reads of `buffer` only what it has written before, as far as can be proven.

    Nothing else leads to the memory of the buffer. `bounds` are of the variables around.
    """
    flow = _Flow(buffer, dict(bounds))
    flow.statement(body, (), ())
    return flow.is_covered


Path = tuple[For | LetStmt | Let, ...]
Atoms = tuple[PrimExpr, ...]


@dataclass(frozen=True, slots=True)
class _Write:
    """A store: its subscripts, what is around it, and which loops of that are at their start."""

    indices: tuple[PrimExpr, ...]
    path: Path
    atoms: Atoms
    pinned: dict[Var, PrimExpr]


@dataclass(frozen=True, slots=True)
class _Box:
    """All that lies between each of `lows` and each of `highs`, in each dimension, where `atoms` hold."""

    lows: list[list[LinearForm]]
    highs: list[list[LinearForm]]
    atoms: list[PrimExpr]


class _Flow:
    def __init__(self, buffer: Buffer, bounds: dict[Var, Bound]) -> None:
        self._buffer = buffer
        self._bounds = bounds
        self._writes: list[_Write] = []
        self._boxes: dict[tuple[int, int], _Box | None] = {}
        self.is_covered = True

    # -- the order of accesses -------------------------------------------------------------------------

    def statement(self, s: Stmt, path: Path, atoms: Atoms) -> None:
        """Follow `s`, until something is read that may not have been written."""
        if not self.is_covered:
            return
        match s:
            case BufferStore():
                for e in (s.value, *s.indices, *(() if s.predicate is None else (s.predicate,))):
                    self._expression(e, path, atoms)
                if s.buffer is self._buffer and s.predicate is None:
                    self._store(s, path, atoms)
            case For():
                self._expression(s.min, path, atoms)
                self._expression(s.extent, path, atoms)
                self._bounds[s.loop_var] = range_of(s, self._bounds)
                self.statement(s.body, (*path, s), atoms)
            case LetStmt():
                self._expression(s.value, path, atoms)
                self._bind(s.var, s.value)
                self.statement(s.body, (*path, s), atoms)
            case IfThenElse():
                self._expression(s.condition, path, atoms)
                self.statement(s.then_case, path, (*atoms, *atoms_of(s.condition, ex.And)))
                if s.else_case is not None:
                    self.statement(s.else_case, path, (*atoms, *_opposite(s.condition)))
            case While():
                self.is_covered = not any_below(s, self._reads)
            case AssertStmt():
                self._expression(s.condition, path, atoms)
                self.statement(s.body, path, atoms)
            case AttrStmt():
                self._expression(s.value, path, atoms)
                self.statement(s.body, path, atoms)
            case _:
                for c in children(s):
                    if isinstance(c, Stmt):
                        self.statement(c, path, atoms)
                    elif isinstance(c, PrimExpr):
                        self._expression(c, path, atoms)

    def _reads(self, n: Node) -> bool:
        return isinstance(n, BufferLoad) and n.buffer is self._buffer

    def _bind(self, var: Var, value: PrimExpr) -> None:
        if var.dtype.is_integer and var.dtype.lanes == 1:
            self._bounds[var] = const_bound(value, self._bounds)

    def _expression(self, root: PrimExpr, path: Path, atoms: Atoms) -> None:
        stack: list[tuple[PrimExpr, Path, Atoms]] = [(root, path, atoms)]
        seen: set[tuple[PrimExpr, int]] = set()
        while stack and self.is_covered:
            e, here, given = stack.pop()
            if isinstance(e, (Var, IntImm)) or (e, len(given)) in seen:
                continue
            if len(here) == len(path):
                seen.add((e, len(given)))
            if isinstance(e, BufferLoad) and e.buffer is self._buffer:
                self.is_covered = self._is_written(e, here, given)
            if isinstance(e, Let):
                self._bind(e.var, e.value)
                stack += [(e.value, here, given), (e.body, (*here, e), given)]
            elif isinstance(e, Call) and isinstance(e.op, Op) and e.op.name == "tir.if_then_else":
                condition, then, otherwise = e.args
                stack.append((condition, here, given))
                stack.append((then, here, (*given, *atoms_of(condition, ex.And))))
                stack.append((otherwise, here, (*given, *_opposite(condition))))
            else:
                stack.extend((c, here, given) for c in children(e) if isinstance(c, PrimExpr))

    # -- writes ----------------------------------------------------------------------------------------

    def _store(self, s: BufferStore, path: Path, atoms: Atoms) -> None:
        pinned: dict[Var, PrimExpr] = {}
        kept: list[PrimExpr] = []
        loops = {p.loop_var: p for p in path if isinstance(p, For) and p.kind in (ForKind.SERIAL, ForKind.UNROLLED)}
        for atom in atoms:
            first = _first_of(atom, loops)
            if first is None:
                kept.append(atom)
            else:
                pinned.update(first)
        if pinned:
            # What is around must be the same in the first iteration as in the one that reads.
            around = [e for p in path for e in ((p.min, p.extent) if isinstance(p, For) else (p.value,))]
            if any(mentions(e, pinned) for e in around):
                return
            kept = [substitute(a, pinned) for a in kept]
        indices = tuple(substitute(i, pinned) if pinned else i for i in s.indices)
        self._writes.append(_Write(indices, path, tuple(kept), pinned))

    def _box(self, number: int, depth: int) -> _Box | None:
        """What write `number` has done when the first `depth` nodes around it stand still; None if that is no box."""
        key = number, depth
        if key not in self._boxes:
            self._boxes[key] = self._made(self._writes[number], depth)
        return self._boxes[key]

    def _made(self, write: _Write, depth: int) -> _Box | None:
        domain: dict[Var, Range] = {}
        for p in write.path[depth:]:
            if not isinstance(p, For):
                if any(mentions(i, {p.var: None}) for i in (*write.indices, *write.atoms)):
                    return None
                continue
            if p.loop_var in write.pinned and not _surely_runs(p):
                return None
            if p.loop_var not in write.pinned:
                domain[p.loop_var] = Range.from_min_extent(p.min, p.extent)
        indices: list[PrimExpr] = []
        for i in write.indices:
            plain = scalar_index(i, domain)
            if plain is None:
                return None
            indices.append(plain)
        if any(reads_memory(e) for e in (*indices, *(e for r in domain.values() for e in (r.min, r.extent)))):
            return None
        used = variables(*indices)
        idle: dict[Var, PrimExpr] = {}
        for v, r in domain.items():
            if v not in used:
                if not (isinstance(r.extent, IntImm) and r.extent.value > 0):
                    return None
                idle[v] = r.min
        return self._box_of(indices, [substitute(a, idle) for a in write.atoms], domain)

    def _box_of(self, indices: list[PrimExpr], atoms: list[PrimExpr], domain: dict[Var, Range]) -> _Box | None:
        strings = [find_digits(i, domain, as_set=True) for i in indices]
        found = [s for s in strings if s is not None and s.scale == 1]
        if len(found) != len(strings) or not are_independent(found):
            return None
        box = _Box([], [], [])
        for s in found:
            low, count = linear_form(s.base), linear_form(s.count)
            box.lows.append([low])
            box.highs.append([plus(low, plus(count, ({}, -1)))])
        for atom in atoms:
            if decide(atom, self._bounds):
                continue
            if not mentions(atom, domain):
                box.atoms.append(atom)
            elif not self._limit(atom, indices, box, domain):
                return None
        return box

    def _limit(self, atom: PrimExpr, indices: list[PrimExpr], box: _Box, domain: Mapping[Var, object]) -> bool:
        """Whether a condition cuts off an end of one dimension, which it then does."""
        gap = _gap(atom)
        if gap is None:
            return False
        for d, e in enumerate(indices):
            high, low = _limits(gap, e, domain)
            if mentions(e, domain) and (high is not None or low is not None):
                box.highs[d] += [] if high is None else [high]
                box.lows[d] += [] if low is None else [low]
                return True
        return False

    # -- reads -----------------------------------------------------------------------------------------

    def _is_written(self, load: BufferLoad, path: Path, atoms: Atoms) -> bool:
        return any(self._covers(n, load, path, atoms) for n in reversed(range(len(self._writes))))

    def _covers(self, number: int, load: BufferLoad, path: Path, atoms: Atoms) -> bool:
        write = self._writes[number]
        depth = 0
        while depth < min(len(path), len(write.path)) and path[depth] is write.path[depth]:
            depth += 1
        box = self._box(number, depth)
        if box is None or not all(any(a is given for given in atoms) and not reads_memory(a) for a in box.atoms):
            return False
        names = Names(path[depth:], self._bounds)
        for d, (index, extent) in enumerate(zip(load.indices, self._buffer.shape, strict=True)):
            low, high = ends_of(index, names)
            lows = [low] if low is not None else []
            highs = [high] if high is not None else []
            lows.append(({}, 0))
            highs.append(plus(linear_form(extent), ({}, -1)))
            plain = scalar_index(index, {})
            for gap in map(_gap, atoms):
                if gap is not None and plain is not None:
                    above, below = _limits(gap, plain, names.inner)
                    highs += [] if above is None else [above]
                    lows += [] if below is None else [below]
            if not all(any(self._no_less(got, least) for got in lows) for least in box.lows[d]):
                return False
            if not all(any(self._no_less(most, got) for got in highs) for most in box.highs[d]):
                return False
        return True

    def _no_less(self, a: LinearForm, b: LinearForm) -> bool:
        return not falls_short(plus(a, b, -1), self._bounds)


def _opposite(condition: PrimExpr) -> list[PrimExpr]:
    """What holds where `condition` does not, if it is one comparison."""
    atoms = atoms_of(condition, ex.And)
    only = atoms[0] if len(atoms) == 1 else None
    return [_NEGATED[type(only)](only.a, only.b)] if isinstance(only, ex.CmpExpr) else []


def _surely_runs(loop: For) -> bool:
    return isinstance(loop.extent, IntImm) and loop.extent.value > 0


def _first_of(atom: PrimExpr, loops: Mapping[Var, For]) -> dict[Var, PrimExpr] | None:
    """The loops that are in their first iteration exactly where `atom` holds, with that value; None for others."""
    if not isinstance(atom, ex.EQ) or not atom.a.dtype.is_int or atom.a.dtype.lanes != 1:
        return None
    terms, constant = difference(atom.a, atom.b)
    if not terms or len({c > 0 for c in terms.values()}) != 1:
        return None
    starts: dict[Var, PrimExpr] = {}
    for t, c in terms.items():
        if not isinstance(t, Var) or t not in loops:
            return None
        start = loops[t].min
        if not isinstance(start, IntImm):
            return None
        starts[t] = start
        constant += c * start.value
    # All factors have one sign, so the sum takes the value that it has at the start only there.
    return starts if constant == 0 else None


def _gap(atom: PrimExpr) -> LinearForm | None:
    """A form that is at least zero exactly where a comparison holds."""
    if not isinstance(atom, (ex.LT, ex.LE, ex.GT, ex.GE)) or not atom.a.dtype.is_int or atom.a.dtype.lanes != 1:
        return None
    if reads_memory(atom):
        # What it compares with may change between two looks at it.
        return None
    rising = isinstance(atom, (ex.GT, ex.GE))
    terms, constant = difference(atom.a, atom.b) if rising else difference(atom.b, atom.a)
    return terms, constant - (1 if isinstance(atom, (ex.LT, ex.GT)) else 0)


def _limits(gap: LinearForm, e: PrimExpr, inner: Mapping[Var, object]) -> tuple[LinearForm | None, LinearForm | None]:
    """The most and the least that `e` is where `gap` is at least zero, as far as that is free of `inner`."""
    form = linear_form(e)
    high, low = plus(gap, form), plus(form, gap, -1)
    return (
        None if any(mentions(t, inner) for t in high[0]) else high,
        None if any(mentions(t, inner) for t in low[0]) else low,
    )


__all__ = ["writes_before_reads"]
