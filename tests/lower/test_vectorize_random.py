"""Random vectorised loops compute what the same loops do serially."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from tscript.driver import build
from tscript.ir import expr as ex
from tscript.ir import stmt as st
from tscript.ir.buffer import Buffer, decl_buffer
from tscript.ir.construct import cast, const, floordiv, floormod, max_
from tscript.ir.dtype import DataType
from tscript.ir.expr import PrimExpr, Var
from tscript.ir.function import IRModule, PrimFunc
from tscript.ir.semantics import numpy_dtype

SIZE = 64
DTYPES = ["int32", "uint8", "float16", "float32", "int64", "bool"]


class Source:
    """Programs of one loop, the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.buffers = [decl_buffer((SIZE,), self.rng.choice(DTYPES), name=f"b{i}") for i in range(3)]
        self.positions = decl_buffer((SIZE,), "int32", name="positions")
        self.j = Var("j", self.rng.choice(["int32", "int64"]))
        self.n = Var("n", "int32")

    def index(self) -> PrimExpr:
        j = self.j
        form = self.rng.choice(
            ["plain", "plain", "scaled", "reversed", "constant", "half", "modulo", "gather", "offset"]
        )
        match form:
            case "scaled":
                return j * self.rng.choice([2, 3]) + self.rng.randrange(4)
            case "reversed":
                return const(40, j.dtype) - j
            case "constant":
                return const(self.rng.randrange(SIZE), j.dtype)
            case "half":
                return floordiv(j, 2)
            case "modulo":
                return floormod(j * 5, 7)
            case "gather":
                return floormod(self.positions[j], SIZE)
            case "offset":
                return cast(j, "int64") + cast(self.n, "int64")
            case _:
                return j

    def value(self, dtype: DataType, depth: int) -> PrimExpr:
        kind = self.rng.choice(["load", "load", "binary", "select", "cast", "loop variable"]) if depth else "load"
        if dtype.is_bool and kind in ("binary", "loop variable"):
            other = self.rng.choice(self.buffers).dtype
            return self.rng.choice([ex.LT, ex.EQ])(self.value(other, depth - 1), self.value(other, depth - 1))
        match kind:
            case "binary":
                node = self.rng.choice([ex.Add, ex.Sub, ex.Mul, ex.Min, ex.Max])
                return node(self.value(dtype, depth - 1), self.value(dtype, depth - 1))
            case "select":
                condition = ex.GT(self.value(DataType("int32"), 0), const(self.rng.randrange(-5, 5)))
                return ex.Select(condition, self.value(dtype, depth - 1), self.value(dtype, depth - 1))
            case "loop variable":
                return cast(max_(self.j, 3), dtype)
            case _:
                found = self.rng.choice(self.buffers)
                return cast(found[self.index()], dtype)

    def make(self, name: str) -> tuple[PrimFunc, PrimFunc]:
        target: Buffer = self.buffers[0]
        index = self.index()
        store = st.BufferStore(target, self.value(target.dtype, 3), (index,))
        start, extent = self.rng.choice([0, 0, 1, 4]), self.rng.choice([2, 4, 8, 16])

        def function(kind: int, suffix: str) -> PrimFunc:
            loop = st.For(self.j, const(start, self.j.dtype), const(extent, self.j.dtype), kind, store)
            attrs: Any = {"global_symbol": name + suffix, "tir.noalias": True}
            return PrimFunc((*self.buffers, self.positions, self.n), loop, None, None, attrs)

        return function(st.ForKind.VECTORIZED, "_vector"), function(st.ForKind.SERIAL, "_serial")

    def arguments(self, seed: int) -> list[Any]:
        rng = np.random.default_rng(seed)
        arrays: list[Any] = [
            rng.integers(-9 if b.dtype.is_int or b.dtype.is_float else 0, 9, SIZE).astype(numpy_dtype(b.dtype))
            for b in self.buffers
        ]
        return [*arrays, rng.integers(0, SIZE, SIZE).astype(np.int32), 7]


def test_random_vector_loops_compute_what_serial_loops_do() -> None:
    sources = [Source(seed) for seed in range(40)]
    functions: dict[str, PrimFunc] = {}
    for seed, source in enumerate(sources):
        for f in source.make(f"f{seed}"):
            functions[f.__name__] = f
    # The two of a pair share their variables, which one module does not allow.
    vector = build(IRModule({k: f for k, f in functions.items() if k.endswith("_vector")}))
    serial = build(IRModule({k: f for k, f in functions.items() if k.endswith("_serial")}))
    for seed, source in enumerate(sources):
        expected, got = source.arguments(seed), source.arguments(seed)
        serial[f"f{seed}_serial"](*expected)
        vector[f"f{seed}_vector"](*got)
        for a, b in zip(expected[:-1], got[:-1], strict=True):
            assert a.tobytes() == b.tobytes(), (seed, functions[f"f{seed}_vector"].script())
