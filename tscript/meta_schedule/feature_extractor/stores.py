"""The stores of a program with the loops around them, found in one walk of the scheduled program.

Blocks need not be lowered first: axes stand for their values, views for parts of their sources, and buffers shrink to
what is in use at a time under the loops that all their accesses share, as lowering makes of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from tscript.analysis.flops import instruction_flops
from tscript.ir import stmt as st
from tscript.ir.buffer import Buffer
from tscript.ir.expr import BufferLoad, Call, FloatImm, IntImm, PrimExpr
from tscript.ir.function import PrimFunc
from tscript.ir.functor import children
from tscript.meta_schedule.feature_extractor.index_form import Form, Forms, Loop, Part, add, without

AUTO_UNROLL = "pragma_auto_unroll_max_step"


@dataclass(eq=False, slots=True)
class Access:
    """An element that a store reads or writes, or the `elements` of a region that instructions do."""

    memory: Memory
    forms: tuple[Form, ...]
    writes: bool
    elements: int = 1


@dataclass(eq=False, slots=True)
class Memory:
    """A buffer with what touches it. `shape` and `around` (loops around its allocation) are those after lowering."""

    buffer: Buffer
    shape: tuple[int, ...]
    is_local: bool
    around: tuple[Loop, ...] = ()
    accesses: list[tuple[tuple[Loop, ...], Access]] = field(default_factory=list["tuple[tuple[Loop, ...], Access]"])

    @property
    def item_bytes(self) -> int:
        """Bytes of an element."""
        return self.buffer.dtype.bytes


@dataclass(eq=False, slots=True)
class Store:
    """A store, the loops around it from the outside in, and what it accesses: the target first, then loads in order.

    A block of instructions, as tensorizing leaves it, is one store of the regions that the block declares; it has
    `instruction_flops` operations and no value.
    """

    value: PrimExpr | None
    loops: tuple[Loop, ...]
    accesses: list[Access]
    instruction_flops: int = 0


def _number(e: PrimExpr) -> int | None:
    return e.value if isinstance(e, IntImm) else None


def stores_of(func: PrimFunc) -> list[Store]:
    """The stores of a function in order; those of a literal are left out."""
    walk = _Walk(func)
    walk.visit(func.body)
    for memory in walk.memories.values():
        if memory.is_local:
            _compact(memory)
    return walk.stores


class _Walk:
    """Goes through statements once."""

    def __init__(self, func: PrimFunc) -> None:
        self.forms = Forms()
        self.loops: list[Loop] = []
        self.stores: list[Store] = []
        self.memories: dict[Buffer, Memory] = {}
        self.views: dict[Buffer, tuple[Buffer, tuple[Form, ...]]] = {}
        self.parameters = {b.data for b in func.buffer_map.values()}

    def visit(self, s: st.Stmt) -> None:
        """A statement and all below it."""
        match s:
            case st.SeqStmt():
                for part in s.seq:
                    self.visit(part)
            case st.For():
                self._loop(s)
            case st.BlockRealize():
                for axis, value in zip(s.block.iter_vars, s.iter_values, strict=True):
                    self.forms.bind(axis.var, self.forms.of(value))
                self._block(s.block)
            case st.Block():
                self._block(s)
            case st.BufferStore():
                self._store(s)
            case st.LetStmt():
                if s.var.dtype.is_integer:
                    self.forms.bind(s.var, self.forms.of(s.value))
                self.visit(s.body)
            case _:
                for part in children(s):
                    if isinstance(part, st.Stmt):
                        self.visit(part)

    def _loop(self, s: st.For) -> None:
        low, extent = self.forms.of(s.min), _number(s.extent)
        if extent == 1 and s.kind == st.ForKind.SERIAL and not s.annotations:
            self.forms.bind(s.loop_var, low)
            self.visit(s.body)
            return
        steps = s.annotations.get(AUTO_UNROLL)
        unroll = steps.value if isinstance(steps, IntImm) else steps if isinstance(steps, int) else None
        tag = "" if s.thread_binding is None else s.thread_binding.thread_tag
        loop = Loop(len(self.loops), 0, extent, s.kind, tag, unroll)
        self.forms.bind(s.loop_var, add(low, Form(0, {loop: 1})))
        self.loops.append(loop)
        self.visit(s.body)
        self.loops.pop()

    def _block(self, block: st.Block) -> None:
        for view in block.match_buffers:
            self.views[view.buffer] = (
                view.source.buffer, tuple(self.forms.of(r.min) for r in view.source.region),
            )  # fmt: skip
        for buffer in block.alloc_buffers:
            self._memory(buffer).is_local = True
        flops = _instruction_flops(block.body) if block.writes else 0
        if flops:
            accesses = [self._region(r, True) for r in block.writes] + [self._region(r, False) for r in block.reads]
            self.stores.append(Store(None, tuple(self.loops), accesses, flops))
            return
        if block.init is not None:
            self.visit(block.init)
        self.visit(block.body)

    def _region(self, region: st.BufferRegion, writes: bool) -> Access:
        access = self._access(region.buffer, tuple(r.min for r in region.region), writes)
        extents = [_number(r.extent) or 1 for r in region.region]
        dims = zip(access.forms[len(access.forms) - len(extents) :], extents, strict=True)
        whole = [f if n == 1 else add(f, Form(0, {Part("lanes", (Form(n - 1),)): 1})) for f, n in dims]
        access.forms = (*access.forms[: len(access.forms) - len(extents)], *whole)
        access.elements = math.prod(extents)
        return access

    def _memory(self, buffer: Buffer) -> Memory:
        known = self.memories.get(buffer)
        if known is None:
            shape = tuple(1 if (n := _number(d)) is None else n for d in buffer.shape)
            known = self.memories[buffer] = Memory(buffer, shape, False)
        return known

    def _access(self, buffer: Buffer, indices: tuple[PrimExpr, ...], writes: bool) -> Access:
        forms = self.forms.all(indices)
        while (view := self.views.get(buffer)) is not None:
            buffer, starts = view
            lead = len(starts) - len(forms)
            forms = (*starts[:lead], *(add(a, b) for a, b in zip(starts[lead:], forms, strict=True)))
        memory = self._memory(buffer)
        access = Access(memory, forms, writes)
        memory.accesses.append((tuple(self.loops), access))
        return access

    def _store(self, s: st.BufferStore) -> None:
        target = self._access(s.buffer, s.indices, True)
        if isinstance(s.value, (IntImm, FloatImm)):
            return
        accesses = [target]
        stack: list[object] = [s.value]
        while stack:
            e = stack.pop()
            if isinstance(e, BufferLoad):
                accesses.append(self._access(e.buffer, e.indices, False))
                stack += reversed([i for i in e.indices if not isinstance(i, IntImm)])
            elif isinstance(e, PrimExpr):
                stack += reversed(children(e))
        self.stores.append(Store(s.value, tuple(self.loops), accesses))


def _instruction_flops(s: st.Stmt) -> int:
    """Operations of the known instructions in a statement that holds no other block."""
    match s:
        case st.Evaluate() | st.BufferStore():
            return _calls_flops(s.value)
        case st.For():
            return (_number(s.extent) or 1) * _instruction_flops(s.body)
        case st.Block() | st.BlockRealize():
            return 0
        case _:
            return sum(_instruction_flops(p) for p in children(s) if isinstance(p, st.Stmt))


def _calls_flops(e: PrimExpr) -> int:
    total = 0
    stack: list[object] = [e]
    while stack:
        part = stack.pop()
        if isinstance(part, Call):
            total += instruction_flops(part)
        if isinstance(part, PrimExpr) and not isinstance(part, BufferLoad):
            stack += children(part)
    return total


def _compact(memory: Memory) -> None:
    """Shrink a buffer to what is in use under the loops around all its accesses, and its subscripts with it."""
    if not memory.accesses:
        return
    common = memory.accesses[0][0]
    for loops, _ in memory.accesses:
        n = 0
        while n < len(common) and n < len(loops) and common[n] is loops[n]:
            n += 1
        common = common[:n]
    memory.around = common
    shape = list(memory.shape)
    moved: list[list[Form]] = [list(a.forms) for _, a in memory.accesses]
    for d in range(len(shape)):
        split = [without(forms[d], len(common)) for forms in moved]
        inner = [i for _, i in split if i is not None]
        if len(inner) < len(split) or any(dict(o) != dict(split[0][0]) for o, _ in split):
            continue
        limits = [i.limits(0) for i in inner]
        low, high = min(a for a, _ in limits), max(b for _, b in limits)
        if not 0 < high - low + 1 <= shape[d]:
            continue
        shape[d] = int(high - low + 1)
        for forms, form in zip(moved, inner, strict=True):
            forms[d] = Form(form.const - int(low), form.terms)
    memory.shape = tuple(shape)
    for (_, access), forms in zip(memory.accesses, moved, strict=True):
        access.forms = tuple(forms)
