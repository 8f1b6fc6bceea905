"""Random programs that use the whole language and whose result is defined: the fuel of differential tests."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np

from tscript.analysis.access_regions import detect_regions
from tscript.ir import construct as make
from tscript.ir import stmt as st
from tscript.ir.buffer import Buffer, decl_buffer
from tscript.ir.dtype import BOOL, INT32, DataType
from tscript.ir.expr import (
    BufferLoad,
    Cast,
    IntImm,
    IterVar,
    PointerType,
    PrimExpr,
    PrimType,
    Ramp,
    Range,
    StringImm,
    Var,
)
from tscript.ir.function import PrimFunc
from tscript.ir.functor import Rewriter, substitute
from tscript.ir.semantics import numpy_dtype
from tscript.ir.stmt import BufferRegion, BufferStore, For, ForKind, IfThenElse, LetStmt, Stmt, seq
from tscript.testing.random_expr import ExprSource

DTYPES: tuple[str, ...] = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16",
    "float8_e4m3fn", "float8_e5m2", "float32", "float64",
)  # fmt: skip


@dataclass(frozen=True)
class Limits:
    """How large a random program may get."""

    buffers: int = 4
    nests: int = 3
    depth: int = 3
    expr_depth: int = 3
    extent: int = 6
    dtypes: tuple[str, ...] = DTYPES


def random_program(seed: int, limits: Limits | None = None) -> PrimFunc:
    """A well-formed function; the same for the same seed.

    Every subscript is inside its buffer, every divisor non-zero, every element written before it is read.

    >>> random_program(7).attrs["global_symbol"]
    'random_7'
    """
    return _ProgramSource(seed, limits or Limits()).make()


def random_arguments(func: PrimFunc, seed: int) -> list[np.ndarray | int | float | bool]:
    """Arrays and scalars for the parameters of `func`, with special values among ordinary ones."""
    rng = np.random.default_rng(seed)
    args: list[np.ndarray | int | float | bool] = []
    for p in func.params:
        buffer = func.buffer_map.get(p)
        if buffer is None:
            args.append(3)
            continue
        shape = tuple(int(s) if isinstance(s, IntImm) else 5 for s in buffer.shape)
        args.append(_random_array(rng, buffer.dtype, shape))
    return args


def _random_array(rng: np.random.Generator, dtype: DataType, shape: tuple[int, ...]) -> np.ndarray:
    kind = numpy_dtype(dtype)
    if dtype.is_bool:
        return rng.integers(0, 2, shape).astype(kind)
    if dtype.is_float:
        values = rng.normal(size=shape) * 4
        special = rng.choice([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-3, 448.0], size=shape)
        with np.errstate(all="ignore"):
            return np.where(rng.random(shape) < 0.15, special, values).astype(np.float32).astype(kind)
    bits = rng.integers(0, 256, (*shape, dtype.bytes), dtype=np.uint8)
    wide = np.ascontiguousarray(bits).view(kind).reshape(shape)
    small = rng.integers(0, 9, shape).astype(kind)
    return np.where(rng.random(shape) < 0.5, wide, small).astype(kind)


class _ProgramSource:
    def __init__(self, seed: int, limits: Limits) -> None:
        self.seed = seed
        self.limits = limits
        self.rng = random.Random(seed)
        self.exprs = ExprSource(self.rng)
        self.writable: list[Buffer] = []
        self.counter = 0
        self.loop_variables: dict[Var, None] = {}

    def make(self) -> PrimFunc:
        rng = self.rng
        params = [self._buffer(f"P{i}") for i in range(rng.randint(1, self.limits.buffers))]
        scalar = Var("s", rng.choice(["int32", "int64", "float32"]))
        self.writable = list(params)
        self.exprs.readable = list(params)
        self.exprs.variables[scalar] = 0
        temporaries = [self._buffer(f"T{i}") for i in range(rng.randint(0, 2))]
        parts: list[Stmt] = []
        for t in temporaries:
            parts.append(self._fill(t))
            self.writable.append(t)
            self.exprs.readable.append(t)
        parts += [self._nest(self.limits.depth) for _ in range(rng.randint(1, self.limits.nests))]
        root = st.Block((), (), (), "root", seq(*parts), None, tuple(temporaries))
        body = st.BlockRealize((), make.const(True), root)
        attrs: dict[str, object] = {"global_symbol": f"random_{self.seed}"}
        if rng.random() < 0.5:
            attrs["note"] = rng.choice([1, 2.5, "text", [1, 2], {"a": 1}, True])
        handles = [Var(p.name + "_handle", "handle") for p in params]
        return PrimFunc((*handles, scalar), body, None, dict(zip(handles, params, strict=True)), attrs)  # pyright: ignore[reportArgumentType]

    def _buffer(self, name: str, scope: str = "global") -> Buffer:
        rng = self.rng
        rank = rng.choice([1, 1, 2, 2, 3])
        shape = [rng.randint(1, self.limits.extent) for _ in range(rank)]
        return decl_buffer(shape, rng.choice(self.limits.dtypes), name, scope=scope)

    def _name(self, prefix: str) -> str:
        self.counter += 1
        return f"{prefix}{self.counter}"

    def _for_axes(self, axes: list[Var], extents: tuple[PrimExpr, ...], dtype: DataType, depth: int) -> PrimExpr:
        """An expression of axes and scalars only, as the body of a block may use."""
        outer = dict(self.exprs.variables)
        for v in self.loop_variables:
            self.exprs.variables.pop(v, None)
        for v, extent in zip(axes, extents, strict=True):
            self.exprs.variables[v] = int(extent) if isinstance(extent, IntImm) else 0
        value = self.exprs.make(dtype, depth)
        self.exprs.variables.clear()
        self.exprs.variables.update(outer)
        return value

    def _fill(self, buffer: Buffer) -> Stmt:
        """Write every element once."""
        loops = [Var(f"f{d}", s.dtype) for d, s in enumerate(buffer.shape)]
        axes = [Var(f"v{d}", s.dtype) for d, s in enumerate(buffer.shape)]
        value = self._for_axes(axes, buffer.shape, buffer.dtype, self.limits.expr_depth)
        block = self._block(axes, buffer.shape, BufferStore(buffer, value, tuple(axes)), None)
        body: Stmt = st.BlockRealize(tuple(loops), make.const(True), block)
        for v, s in zip(reversed(loops), reversed(buffer.shape), strict=True):
            body = For(v, IntImm(s.dtype, 0), s, ForKind.SERIAL, body)
        return body

    def _block(self, axes: list[Var], extents: tuple[PrimExpr, ...], body: Stmt, init: Stmt | None) -> st.Block:
        kinds = [IterVar.DataPar if init is None or d == 0 else IterVar.CommReduce for d in range(len(axes))]
        iters = tuple(IterVar(Range(0, e), v, k) for v, e, k in zip(axes, extents, kinds, strict=True))
        block = st.Block(iters, (), (), self._name("b"), body, init)
        reads, writes = detect_regions(block)
        return block.replace(reads=reads, writes=writes)

    # -- statements -----------------------------------------------------------------------------

    def _nest(self, depth: int) -> Stmt:
        kinds = [self._loop, self._loop, self._store, self._if, self._let]
        kinds += [self._reduction, self._spatial, self._view, self._local, self._vector, self._while, self._assert]
        make_one = self.rng.choice(kinds if depth > 0 else [self._store, self._vector])
        result = make_one(depth - 1)
        if depth > 0 and self.rng.random() < 0.2:
            result = seq(result, self._nest(depth - 1))
        return result

    def _store(self, depth: int) -> Stmt:
        buffer = self.rng.choice(self.writable)
        value = self.exprs.make(buffer.dtype, self.limits.expr_depth)
        return BufferStore(buffer, value, self.exprs.subscripts(buffer))

    def _loop(self, depth: int) -> Stmt:
        rng = self.rng
        dtype = rng.choice(["int32", "int32", "int32", "int64"])
        begin, extent = rng.choice([0, 0, 0, 1, -2]), rng.randint(0, self.limits.extent)
        var = Var(rng.choice("ijk"), dtype)
        self.exprs.variables[var] = extent if begin == 0 else 0
        self.loop_variables[var] = None
        body = self._nest(depth)
        del self.exprs.variables[var]
        kind = rng.choice([ForKind.SERIAL] * 5 + [ForKind.UNROLLED])
        notes = {"pragma": rng.randint(0, 9)} if rng.random() < 0.1 else {}
        return For(var, IntImm(var.dtype, begin), IntImm(var.dtype, extent), kind, body, None, notes)  # pyright: ignore[reportArgumentType]

    def _if(self, depth: int) -> Stmt:
        condition = self.exprs.make(BOOL, 2)
        other = self._nest(depth) if self.rng.random() < 0.5 else None
        return IfThenElse(condition, self._nest(depth), other)

    def _let(self, depth: int) -> Stmt:
        dtype = DataType(self.rng.choice(self.limits.dtypes))
        var = Var("x", dtype)
        value = self.exprs.make(dtype, self.limits.expr_depth)
        self.exprs.variables[var] = 0
        body = self._nest(depth)
        del self.exprs.variables[var]
        return LetStmt(var, value, body)

    def _assert(self, depth: int) -> Stmt:
        small = make.floormod(self.exprs.make(INT32, 2), 8)
        return st.AssertStmt(small < 8, StringImm("a remainder lies below its divisor"), self._nest(depth))

    def _while(self, depth: int) -> Stmt:
        """Count a local variable up to a constant."""
        counter = decl_buffer((1,), "int32", self._name("n"), scope="local")
        step = BufferStore(counter, BufferLoad(counter, (make.const(0),)) + 1, (make.const(0),))
        loop = st.While(BufferLoad(counter, (make.const(0),)) < self.rng.randint(0, 4), seq(self._nest(depth), step))
        start = BufferStore(counter, make.const(0), (make.const(0),))
        return _allocate(counter, seq(start, loop))

    def _local(self, depth: int) -> Stmt:
        """A buffer in allocated memory, filled and then usable in a nest."""
        buffer = self._buffer(self._name("L"), "local")
        filled = self._fill(buffer)
        self.writable.append(buffer)
        self.exprs.readable.append(buffer)
        rest = self._nest(depth)
        self.writable.pop()
        self.exprs.readable.remove(buffer)
        return _allocate(buffer, seq(filled, rest))

    def _vector(self, depth: int) -> Stmt:
        """A vector store, or a vectorised loop, along the last dimension of a buffer."""
        buffer = self.rng.choice(self.writable)
        last = buffer.shape[-1]
        assert isinstance(last, IntImm)
        lead = self.exprs.subscripts(buffer)[:-1]
        if last.value >= 2 and self.rng.random() < 0.5:
            lanes = self.rng.randint(2, last.value)
            index = Ramp(IntImm(last.dtype, self.rng.randint(0, last.value - lanes)), IntImm(last.dtype, 1), lanes)
            value = make.cast(self.exprs.make(buffer.dtype, 2), buffer.dtype.with_lanes(lanes))
            own = BufferLoad(buffer, (*lead, index))
            if not buffer.dtype.is_bool:
                value = own + value if self.rng.random() < 0.5 else make.max_(own, value)
            return BufferStore(buffer, value, (*lead, index))
        var = Var("u")
        self.exprs.variables[var] = last.value
        element = self.exprs.make(buffer.dtype, 2)
        del self.exprs.variables[var]
        row = tuple(_without_loads_of(i, buffer) for i in lead)
        store = BufferStore(buffer, _without_loads_of(element, buffer), (*row, make.cast(var, last.dtype)))
        return For(var, make.const(0), make.cast(last, "int32"), ForKind.VECTORIZED, store)

    def _spatial(self, depth: int) -> Stmt:
        """A block over all elements of a buffer, behind a split loop and a predicate, or a parallel one."""
        buffer = self.rng.choice(self.writable)
        axes = [Var(f"v{d}", s.dtype) for d, s in enumerate(buffer.shape)]
        value = self._for_axes(axes, buffer.shape, buffer.dtype, self.limits.expr_depth)
        block = self._block(axes, buffer.shape, BufferStore(buffer, value, tuple(axes)), None)
        loops = [Var(f"i{d}", s.dtype) for d, s in enumerate(buffer.shape)]
        first = buffer.shape[0]
        assert isinstance(first, IntImm)
        outer, inner, factor = Var("i0_0", first.dtype), Var("i0_1", first.dtype), self.rng.randint(1, 3)
        bound = outer * factor + inner
        realize: Stmt = st.BlockRealize((bound, *loops[1:]), bound < first, block)
        for v, s in zip(reversed(loops[1:]), reversed(buffer.shape[1:]), strict=True):
            realize = For(v, IntImm(s.dtype, 0), s, ForKind.SERIAL, realize)
        zero = IntImm(first.dtype, 0)
        inside = For(inner, zero, IntImm(first.dtype, factor), ForKind.SERIAL, realize)
        kind = ForKind.SERIAL if self._reads(value, buffer) else self.rng.choice([ForKind.SERIAL, ForKind.PARALLEL])
        return For(outer, zero, IntImm(first.dtype, -(-first.value // factor)), kind, inside)

    def _reads(self, value: PrimExpr, buffer: Buffer) -> bool:
        return _without_loads_of(value, buffer) is not value

    def _reduction(self, depth: int) -> Stmt:
        """A block that accumulates over a reduction axis into the first row of a buffer."""
        buffer = self.rng.choice(self.writable)
        extent = buffer.shape[0]
        steps = IntImm(extent.dtype, self.rng.randint(1, self.limits.extent))
        axes = [Var("vi", extent.dtype), Var("vk", extent.dtype)]
        target = (axes[0], *(IntImm(s.dtype, 0) for s in buffer.shape[1:]))
        init = BufferStore(buffer, self.exprs.constant(buffer.dtype), target)
        # With an init, what is written does not count as read, so no other element of it may be read.
        term = _without_loads_of(self._for_axes(axes, (extent, steps), buffer.dtype, 2), buffer)
        own = BufferLoad(buffer, target)
        combined = (
            make.or_(own, term)
            if buffer.dtype.is_bool
            else self.rng.choice([make.add, make.max_, make.min_])(own, term)
        )
        block = self._block(axes, (extent, steps), BufferStore(buffer, combined, target), init)
        i, k = Var("i", extent.dtype), Var("k", extent.dtype)
        zero = IntImm(extent.dtype, 0)
        realize = st.BlockRealize((i, k), make.const(True), block)
        return For(i, zero, extent, ForKind.SERIAL, For(k, zero, steps, ForKind.SERIAL, realize))

    def _view(self, depth: int) -> Stmt:
        """An opaque block whose body works on a view of part of a buffer."""
        source = self.rng.choice(self.writable)
        region: list[Range] = []
        for s in source.shape:
            assert isinstance(s, IntImm)
            low = self.rng.randrange(s.value)
            region.append(Range(IntImm(s.dtype, low), IntImm(s.dtype, self.rng.randint(low + 1, s.value))))
        part = BufferRegion(source, tuple(region))
        name = self._name("V")
        view = decl_buffer([r.extent for r in region], source.dtype, name, scope=source.scope(), offset_factor=1,
                           strides=[f"{name}_s{d}" for d in range(len(region))])  # fmt: skip
        index = tuple(IntImm(r.extent.dtype, 0) for r in region)
        value = self.exprs.make(source.dtype, 2)
        body = BufferStore(view, value, index)
        block = st.Block((), (), (), self._name("o"), body, None, (), (st.MatchBufferRegion(view, part),))
        reads, writes = detect_regions(block)
        whole = dict.fromkeys([r.buffer for r in reads])
        block = block.replace(reads=tuple(b.full_region() for b in whole), writes=writes)
        return st.BlockRealize((), make.const(True), block)


def _allocate(buffer: Buffer, body: Stmt) -> Stmt:
    pointer = Var(
        buffer.name, PointerType(PrimType(DataType("int8") if buffer.dtype.is_bool else buffer.dtype), "local")
    )
    placed = buffer.replace(data=pointer)
    renamed = _swap(body, buffer, placed)
    declared = st.DeclBuffer(placed, renamed)
    return st.Allocate(pointer, buffer.dtype, buffer.shape, make.const(True), declared)


def _swap(body: Stmt, old: Buffer, new: Buffer) -> Stmt:
    return substitute(body, {}, {old: new})


def _without_loads_of(e: PrimExpr, buffer: Buffer) -> PrimExpr:
    """`e` with loads of `buffer` replaced by zero: lanes of a vector loop must not depend on each other."""
    return _DropLoads(buffer).rewrite(e)


class _DropLoads(Rewriter):
    def __init__(self, buffer: Buffer) -> None:
        super().__init__()
        self.buffer = buffer

    def rewrite_BufferLoad(self, node: BufferLoad) -> PrimExpr:
        """Zero for a load of the buffer."""
        if node.buffer is self.buffer:
            return Cast(node.dtype, make.const(0)) if not node.dtype.is_bool else make.const(False)
        return self.rewrite_children(node)
