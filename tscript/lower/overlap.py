"""Iterations of a loop that overlap: while one computes, a later one already loads.

Each statement of the body has a stage. In step `t` of the new loop, a statement of stage `s` works on iteration
`t - s`; within a step, statements run by their order. What each iteration has for itself then exists several
times, one version for each iteration under way that uses it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tscript.analysis.access_regions import detect_regions
from tscript.arith.const_bound import const_bound
from tscript.arith.simplify import simplify
from tscript.ir.buffer import Buffer
from tscript.ir.construct import add, and_, cast, compare, const, floormod, max_, mul, sub
from tscript.ir.expr import GE, LT, BufferLoad, Call, IntImm, Op, PrimExpr, Range, Var
from tscript.ir.functor import substitute
from tscript.ir.occurrences import any_below, variables
from tscript.ir.stmt import (
    Block,
    BlockRealize,
    BufferRegion,
    BufferStore,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    Stmt,
    seq,
)
from tscript.lower.blocks import without_blocks
from tscript.lower.copies import Copy
from tscript.lower.loop_body import OpenedBody, names_pointer
from tscript.lower.memories import Accesses, Memories
from tscript.support.errors import LoweringError

_STEP: Final = "int64"
_LEAVING: Final = ("tir.ret",)


@dataclass(frozen=True, slots=True)
class Part:
    """A statement of the body, when it runs, and how messages call it."""

    stmt: Stmt
    stage: int
    order: int
    name: str

    def __str__(self) -> str:
        return f"{self.name} (stage {self.stage}, order {self.order})"


def overlapped(
    loop: For, body: OpenedBody, parts: Sequence[Part], memories: Memories, at_least: Mapping[Buffer, int]
) -> Stmt | None:
    """`loop`, whose `body` was opened, with the statements `parts` of several iterations in each step.

    `at_least` says how many versions a buffer of the body gets though fewer would do. None if all is well but for
    parameters that may overlap: then the loop has to stay as it is, and a build has another version of the function.

    Raises LoweringError where a statement would run before another one whose values it needs or overwrites.
    """
    try:
        return _overlapped(loop, body, parts, memories, at_least)
    except LoweringError:
        apart = memories.where_apart()
        if apart is None:
            raise
        _overlapped(loop, body, parts, apart, at_least)
        return None


def _overlapped(
    loop: For, body: OpenedBody, parts: Sequence[Part], memories: Memories, at_least: Mapping[Buffer, int]
) -> Stmt:
    if len(parts) > 1 and body.depends_on_memory:
        _require_steady(loop, body, parts, memories)
    parts = [Part(body.around(p.stmt), p.stage, p.order, p.name) for p in parts]
    for p in parts:
        if any_below(p.stmt, _leaves):
            raise _refusal(loop, f"{p} may end the function, when later iterations have begun", "return after the loop")
    touched = [_Touched.of(p.stmt, loop) for p in parts]
    own = dict.fromkeys(body.memory)
    _require_legal(loop, parts, touched, memories, own)
    versions = {b: _versions(b, parts, touched, at_least.get(b, 1)) for b in body.memory}
    for buffer, count in versions.items():
        _require_movable(loop, body, buffer, count, parts)
    return _Emitter(loop, sorted(parts, key=lambda p: p.order), versions).whole()


# -- what statements touch --------------------------------------------------------------------------


@dataclass(slots=True)
class _Touched:
    """The regions that a statement reads and writes, as far as the variables of the loop around tell them apart."""

    reads: dict[Buffer, BufferRegion]
    writes: dict[Buffer, BufferRegion]
    is_opaque: bool
    stmt: Stmt

    @classmethod
    def of(cls, stmt: Stmt, loop: For) -> _Touched:
        plain = without_blocks(stmt)
        inside = Accesses()
        inside.statement(plain)
        reads, writes = detect_regions(Block((), (), (), "", plain))
        return cls({r.buffer: r for r in reads}, {w.buffer: w for w in writes}, inside.is_opaque, plain)

    def all(self) -> Iterator[tuple[BufferRegion, bool]]:
        """Every region, and whether it is written."""
        yield from ((r, False) for r in self.reads.values())
        yield from ((w, True) for w in self.writes.values())

    def uses(self, buffer: Buffer) -> bool:
        """Whether the statement accesses `buffer` in any way."""
        return buffer in self.reads or buffer in self.writes or names_pointer(self.stmt, buffer)


def _meeting(
    a: _Touched, b: _Touched, distance: int, loop: For, memories: Memories, skip: Mapping[Buffer, None]
) -> str | None:
    """In what `a` of one iteration and `b` of another, `distance` later, may meet, one of them writing; None if not."""
    if a.is_opaque and b.is_opaque:
        return "calls whose effects are not known"
    for one, other in ((a, b), (b, a)):
        for region, _ in other.all() if one.is_opaque else ():
            buffer = region.buffer
            if buffer in skip:
                continue
            if one.uses(buffer) or not memories.is_reached_by_name(buffer.data):
                return buffer.name
    for x, x_writes in a.all():
        for y, y_writes in b.all():
            if not (x_writes or y_writes) or not memories.may_overlap(x.buffer.data, y.buffer.data):
                continue
            if x.buffer in skip and x.buffer is y.buffer:
                continue
            if x.buffer is not y.buffer or not _are_apart(x.region, y.region, distance, loop):
                return x.buffer.name
    return None


def _are_apart(x: Sequence[Range], y: Sequence[Range], distance: int, loop: For) -> bool:
    """Whether a region of one iteration and a region of one `distance` later have no element in common."""
    var = loop.loop_var
    later = {var: add(var, const(distance, var.dtype))}
    for one, other in zip(x, y, strict=True):
        other = Range.from_min_extent(substitute(other.min, later), substitute(other.extent, later))
        for low, high in ((one, other), (other, one)):
            gap = const_bound(simplify(sub(high.min, add(low.min, low.extent))), {})
            if gap.low is not None and gap.low >= 0:
                return True
    return False


# -- what is legal ----------------------------------------------------------------------------------


def _most_early(a: Part, b: Part) -> int:
    """How many iterations later `b` may work and still run before `a`; below 0 if even its own one comes after."""
    return a.stage - b.stage - (1 if a.order <= b.order else 0)


def _require_legal(
    loop: For, parts: Sequence[Part], touched: Sequence[_Touched], memories: Memories, own: Mapping[Buffer, None]
) -> None:
    for n, a in enumerate(parts):
        for m, b in enumerate(parts):
            if n < m and _most_early(a, b) >= 0:
                met = _meeting(touched[n], touched[m], 0, loop, memories, {})
                if met is not None:
                    raise _refusal(
                        loop,
                        f"{b} needs what {a} does in the same iteration, by way of {met}, but would run before it",
                        "give it the same stage or a later one, and in the same stage a later order",
                    )
            for distance in range(1, _most_early(a, b) + 1) if n != m else ():
                met = _meeting(touched[n], touched[m], distance, loop, memories, own)
                if met is not None:
                    raise _refusal(
                        loop,
                        f"{b} of a later iteration may meet {a} of an earlier one in {met}, but would run before it",
                        f"allocate {met} inside the loop if each iteration has values of its own there, or give the "
                        "two the same stage",
                    )


def _require_steady(loop: For, body: OpenedBody, parts: Sequence[Part], memories: Memories) -> None:
    """What stands around the statements is looked at for each of them: none may change it."""
    condition = _Touched.of(body.around(seq()), loop)
    for p in parts:
        met = _meeting(condition, _Touched.of(p.stmt, loop), 0, loop, memories, {})
        if met is not None:
            raise _refusal(
                loop,
                f"{p} may change {met}, on which it depends what the statements of the loop do",
                "keep the condition or name in a buffer of the loop that only the first statement writes",
            )


def _refusal(loop: For, what: str, advice: str) -> LoweringError:
    where = f" ({loop.span})" if loop.span else ""
    return LoweringError(
        f"the iterations of the loop over {loop.loop_var.name} do not overlap: {what}{where}\n  try: {advice}"
    )


def _versions(buffer: Buffer, parts: Sequence[Part], touched: Sequence[_Touched], at_least: int) -> int:
    """How many iterations that use `buffer` are under way at once."""
    users = [
        (p, buffer in t.writes or t.is_opaque, buffer in t.reads)
        for p, t in zip(parts, touched, strict=True)
        if t.uses(buffer)
    ]
    needed = 1
    for a, a_writes, _ in users:
        for b, b_writes, _ in users:
            if a_writes or b_writes:
                needed = max(needed, _most_early(a, b) + 1)
    writing = [p.stage for p, writes, _ in users if writes]
    reading = [p.stage for p, _, reads in users if reads]
    usual = max(reading) - min(writing) + 1 if reading and writing else 1
    return max(needed if usual <= 2 else max(usual, needed), at_least)


def _require_movable(loop: For, body: OpenedBody, buffer: Buffer, count: int, parts: Sequence[Part]) -> None:
    changing = {loop.loop_var: None, **{v: None for p in parts for v in _defined(p.stmt)}}
    sizes = (*buffer.shape, *buffer.strides, buffer.elem_offset)
    if any(v in changing for v in variables(*sizes)) or any(any_below(e, _reads) for e in sizes):
        raise _refusal(
            loop, f"the size of {buffer.name} is another one in each iteration", "give it the largest size there is"
        )
    if count > 1 and any(names_pointer(p.stmt, buffer) for p in parts):
        raise _refusal(
            loop,
            f"{buffer.name} needs {count} versions, but is used through a pointer, which leads to one of them",
            "use the buffer by its elements, or give all that uses it the same stage",
        )


def _leaves(n: object) -> bool:
    return isinstance(n, Call) and isinstance(n.op, Op) and n.op.name in _LEAVING


def _reads(n: object) -> bool:
    return isinstance(n, (BufferLoad, Call))


def _defined(s: Stmt) -> list[Var]:
    found: list[Var] = []
    any_below(s, lambda n: isinstance(n, LetStmt) and found.append(n.var) is not None)
    return found


# -- the new loop -----------------------------------------------------------------------------------


class _Emitter:
    """The steps before all stages are busy, those while they are, and those after."""

    def __init__(self, loop: For, parts: Sequence[Part], versions: Mapping[Buffer, int]) -> None:
        self._loop = loop
        self._parts = parts
        self._versions = versions
        self._memory = {b: _versioned(b, n) for b, n in versions.items() if n > 1}
        dtype = loop.loop_var.dtype
        # Steps count beyond the end of the loop.
        self._step = str(dtype) if dtype.is_int and dtype.bits >= 32 else _STEP
        self._first = min(p.stage for p in parts)
        self._last = max(p.stage for p in parts) - self._first
        self._names: list[tuple[Var, PrimExpr]] = []
        self._min = self._held(cast(loop.min, self._step), "first")
        self._count = self._held(cast(loop.extent, self._step), "count")

    def _held(self, e: PrimExpr, name: str) -> PrimExpr:
        """`e` as it is before the loop, whatever is stored in it."""
        if isinstance(e, (IntImm, Var)):
            return e
        self._names.append((Var(f"{self._loop.loop_var.name}_{name}", e.dtype), e))
        return self._names[-1][0]

    def whole(self) -> Stmt:
        """All of it, with memory for all versions."""
        made = seq(*self._fill(), *self._steady(), *self._drain())
        memory = tuple(self._memory.get(b, b) for b in self._versions)
        block = Block((), (), (), f"{self._loop.loop_var.name}_overlapped", made, None, memory)
        reads, writes = detect_regions(block)
        result: Stmt = BlockRealize((), const(True), block.replace(reads=reads, writes=writes), span=self._loop.span)
        for var, value in reversed(self._names):
            result = LetStmt(var, value, result)
        return result

    def _number(self, n: int) -> PrimExpr:
        return const(n, self._step)

    def _steps(self, first: PrimExpr, count: PrimExpr, kind: int) -> For:
        """A loop over steps, which has no body yet."""
        return For(Var(self._loop.loop_var.name, self._step), first, count, kind, seq(), span=self._loop.span)

    def _fill(self) -> list[Stmt]:
        """The steps before the last stage has anything to do: a statement runs if its iteration is there."""
        if not self._last:
            return []
        steps = self._steps(self._number(0), self._number(self._last), ForKind.UNROLLED)
        body: list[Stmt] = []
        for p in self._parts:
            stage = p.stage - self._first
            if stage == self._last:
                continue
            at = sub(steps.loop_var, self._number(stage))
            runs: PrimExpr = compare(GE, steps.loop_var, self._number(stage)) if stage else const(True)
            if not self._is_long:
                runs = and_(runs, compare(LT, at, self._count))
            body.append(_if(runs, self._instance(p, at)))
        return [steps.replace(body=seq(*body))]

    def _steady(self) -> list[Stmt]:
        """The steps in which all stages have an iteration to work on."""
        last = self._number(self._last)
        count = sub(self._count if self._is_long or not self._last else max_(self._count, last), last)
        if isinstance(count, IntImm) and count.value <= 0:
            return []
        steps = self._steps(last, count, self._loop.kind)
        body = [self._instance(p, sub(steps.loop_var, self._number(p.stage - self._first))) for p in self._parts]
        notes = {k: v for k, v in self._loop.annotations.items() if not k.startswith("software_pipeline_")}
        return [steps.replace(body=seq(*body), annotations=notes)]

    def _drain(self) -> list[Stmt]:
        """The steps in which the first stage has nothing to do any more, as many as there are in `_fill`."""
        if not self._last:
            return []
        start = self._count if self._is_long else max_(self._count, self._number(self._last))
        # An unrolled loop starts at a constant.
        offset = self._number(0) if isinstance(start, IntImm) else start
        first = start if isinstance(start, IntImm) else self._number(0)
        steps = self._steps(first, self._number(self._last), ForKind.UNROLLED)
        body: list[Stmt] = []
        for p in self._parts:
            if p.stage > self._first:
                at = sub(add(offset, steps.loop_var), self._number(p.stage - self._first))
                body.append(_if(compare(LT, at, self._count), self._instance(p, at)))
        return [steps.replace(body=seq(*body))]

    @property
    def _is_long(self) -> bool:
        """Whether there are as many iterations as stages at least."""
        return isinstance(self._count, IntImm) and self._count.value >= self._last

    def _instance(self, part: Part, at: PrimExpr) -> Stmt:
        """A statement for the iteration that comes `at` iterations after the first."""
        value = cast(add(self._min, at), self._loop.loop_var.dtype)
        slots = {b: (made, floormod(at, self._number(self._versions[b]))) for b, made in self._memory.items()}
        return _Instance({self._loop.loop_var: value}, slots).rewrite(part.stmt)


def _if(condition: PrimExpr, body: Stmt) -> Stmt:
    return body if isinstance(condition, IntImm) and condition.value else IfThenElse(condition, body)


def _versioned(buffer: Buffer, count: int) -> Buffer:
    """`buffer` with room for `count` versions."""
    strides = buffer.strides
    if strides:
        reach: PrimExpr = const(1, strides[0].dtype)
        for extent, stride in zip(buffer.shape, strides, strict=True):
            reach = add(reach, mul(max_(sub(extent, 1), 0), stride))
        strides = (reach, *strides)
    first = const(count, buffer.shape[0].dtype if buffer.shape else "int32")
    return buffer.replace(shape=(first, *buffer.shape), strides=strides, axis_separators=())


class _Instance(Copy):
    """A copy of a statement for one iteration, which uses the version of each buffer that belongs to it."""

    def __init__(self, values: Mapping[Var, PrimExpr], slots: Mapping[Buffer, tuple[Buffer, PrimExpr]]) -> None:
        super().__init__(values, fresh=True)
        self._slots = slots

    def rewrite_Block(self, block: Block) -> Any:
        """Memory of the block is another one in each copy."""
        for buffer in block.alloc_buffers:
            self.define(buffer.data)
        return self.rewrite_children(block)

    def rewrite_BufferLoad(self, load: BufferLoad) -> Any:
        """A load from the version of the iteration."""
        buffer, slot = self._slots.get(load.buffer, (None, None))
        indices = tuple(self.rewrite(i) for i in load.indices)
        predicate = None if load.predicate is None else self.rewrite(load.predicate)
        if buffer is None or slot is None:
            return load.replace(buffer=self.map_buffer(load.buffer), indices=indices, predicate=predicate)
        return load.replace(buffer=buffer, indices=(cast(slot, buffer.shape[0].dtype), *indices), predicate=predicate)

    def rewrite_BufferStore(self, store: BufferStore) -> Any:
        """A store to the version of the iteration."""
        buffer, slot = self._slots.get(store.buffer, (None, None))
        indices = tuple(self.rewrite(i) for i in store.indices)
        predicate = None if store.predicate is None else self.rewrite(store.predicate)
        value = self.rewrite(store.value)
        if buffer is None or slot is None:
            buffer = self.map_buffer(store.buffer)
        else:
            indices = (cast(slot, buffer.shape[0].dtype), *indices)
        return store.replace(buffer=buffer, value=value, indices=indices, predicate=predicate)

    def rewrite_BufferRegion(self, region: BufferRegion) -> Any:
        """A region of the version of the iteration."""
        buffer, slot = self._slots.get(region.buffer, (None, None))
        if buffer is None or slot is None:
            return self.rewrite_children(region)
        ranges = tuple(self.rewrite(r) for r in region.region)
        own = Range.from_min_extent(cast(slot, buffer.shape[0].dtype), const(1, buffer.shape[0].dtype))
        return BufferRegion(buffer, (own, *ranges))


__all__ = ["Part", "overlapped"]
