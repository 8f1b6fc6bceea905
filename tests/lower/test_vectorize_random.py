"""Random vectorised loops compute what the same loops do serially."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from tscript import interp
from tscript.driver import build
from tscript.ir import expr as ex
from tscript.ir import stmt as st
from tscript.ir.buffer import decl_buffer
from tscript.ir.construct import and_, cast, const, floordiv, floormod, if_then_else, max_, min_
from tscript.ir.dtype import DataType
from tscript.ir.expr import PrimExpr, Var
from tscript.ir.function import IRModule, PrimFunc
from tscript.ir.semantics import numpy_dtype
from tscript.lower.pipeline import CPU_PIPELINE, run_passes

SIZE = 64
DTYPES = ["int32", "uint8", "float16", "float32", "int64", "bool"]
PASSES = [p for p in CPU_PIPELINE if p.name != "promote_tiles"]


class Source:
    """Programs of one loop, the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.buffers = [decl_buffer((SIZE,), self.rng.choice(DTYPES), name=f"b{i}") for i in range(3)]
        self.positions = decl_buffer((SIZE,), "int32", name="positions")
        self.j = Var("j", self.rng.choice(["int32", "int64"]))
        self.n = Var("n", "int32")
        self.loops: list[Var] = []

    def index(self) -> PrimExpr:
        j = self.rng.choice([self.j, self.j, *self.loops])
        if self.loops and self.rng.random() < 0.3:
            return self.loops[-1] * 16 + self.j
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
        kinds = ["load", "load", "binary", "select", "choice", "cast", "loop variable", "let", "divide"]
        kind = self.rng.choice(kinds) if depth else "load"
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
            case "choice":
                return if_then_else(self.condition(), self.value(dtype, depth - 1), self.value(dtype, depth - 1))
            case "let":
                name = Var("name", str(dtype))
                return ex.Let(name, self.value(dtype, depth - 1), self.mixed(dtype, name))
            case "divide" if dtype.is_int:
                by = floormod(cast(self.positions[self.j], str(dtype)), 5) + const(self.rng.choice([0, 1]), dtype)
                # Where it may be zero, what guards it has to hold in vectors too.
                return if_then_else(ex.NE(by, const(0, dtype)), ex.FloorDiv(self.value(dtype, 0), by), const(7, dtype))
            case "loop variable":
                return cast(max_(self.j, 3), dtype)
            case _:
                found = self.rng.choice(self.buffers)
                return cast(found[self.index()], dtype)

    def mixed(self, dtype: DataType, name: Var) -> PrimExpr:
        return ex.Max(name, self.value(dtype, 0)) if not dtype.is_bool else name

    def condition(self) -> PrimExpr:
        j = self.j
        bound = cast(self.n, str(j.dtype))
        match self.rng.choice(["below", "below", "above", "same", "both", "loaded", "not"]):
            case "below":
                return ex.LT(j, bound + const(self.rng.randrange(4), j.dtype))
            case "above":
                return ex.GE(j * 2, bound)
            case "same":
                return ex.LT(self.n, const(self.rng.choice([3, 9])))
            case "both":
                return and_(ex.LE(j, bound), ex.GT(j, const(2, j.dtype)))
            case "loaded":
                return ex.GT(self.positions[j], const(30))
            case _:
                return ex.Not(ex.LT(j, bound))

    def statement(self, depth: int) -> st.Stmt:
        target = self.rng.choice(self.buffers)
        kinds = ["store", "store", "if", "if else", "loop", "let", "memory", "pair", "total", "uniform"]
        match self.rng.choice(kinds) if depth else "store":
            case "if":
                return st.IfThenElse(self.condition(), self.statement(depth - 1))
            case "if else":
                return st.IfThenElse(self.condition(), self.statement(depth - 1), self.statement(depth - 1))
            case "loop":
                self.loops.append(Var("k", str(self.j.dtype)))
                body = self.statement(depth - 1)
                var = self.loops.pop()
                count = self.rng.choice([const(3, var.dtype), min_(cast(self.n, str(var.dtype)), 3)])
                return st.For(var, const(0, var.dtype), count, st.ForKind.SERIAL, body)
            case "let":
                name = Var("named", str(target.dtype))
                store = st.BufferStore(target, self.mixed(target.dtype, name), (self.index(),))
                return st.LetStmt(name, self.value(target.dtype, 1), store)
            case "memory":
                own = decl_buffer((3,), str(target.dtype), name="own")
                at = floormod(self.index(), 3)
                body = st.seq(
                    st.BufferStore(own, self.value(target.dtype, 1), (at,)),
                    st.BufferStore(target, own[at], (self.index(),)),
                )
                declared = st.DeclBuffer(own, body)
                return st.Allocate(own.data, str(own.dtype), (const(3),), const(True), declared)
            case "pair":
                return st.seq(self.statement(depth - 1), self.statement(depth - 1))
            case "total" if not target.dtype.is_bool:
                at = (const(self.rng.randrange(SIZE)),)
                op = self.rng.choice([ex.Add, ex.Min, ex.Max])
                return st.BufferStore(target, op(ex.BufferLoad(target, at), self.value(target.dtype, 1)), at)
            case "uniform":
                return st.BufferStore(target, const(3, str(target.dtype)), (const(self.rng.randrange(SIZE)),))
            case _:
                return st.BufferStore(target, self.value(target.dtype, 2), (self.index(),))

    def make(self, name: str) -> tuple[PrimFunc, PrimFunc]:
        store = self.statement(self.rng.choice([0, 1, 2, 3]))
        start, extent = self.rng.choice([0, 0, 1, 4]), self.rng.choice([2, 3, 4, 8, 11, 16])

        def function(kind: int, suffix: str) -> PrimFunc:
            loop = st.For(self.j, const(start, self.j.dtype), const(extent, self.j.dtype), kind, store)
            attrs: Any = {"global_symbol": name + suffix, "tir.noalias": True}
            return PrimFunc((*self.buffers, self.positions, self.n), loop, None, None, attrs)

        return function(st.ForKind.VECTORIZED, "_vector"), function(st.ForKind.SERIAL, "_serial")

    def arguments(self, seed: int, n: int) -> list[Any]:
        rng = np.random.default_rng(seed)
        arrays: list[Any] = [
            rng.integers(-9 if b.dtype.is_int or b.dtype.is_float else 0, 9, SIZE).astype(numpy_dtype(b.dtype))
            for b in self.buffers
        ]
        return [*arrays, rng.integers(0, SIZE, SIZE).astype(np.int32), n]


def run(function: Any, arguments: list[Any]) -> list[bytes]:
    function(*arguments)
    return [a.tobytes() for a in arguments[:-1]]


@pytest.mark.parametrize("part", range(4))
def test_random_vector_loops_compute_what_serial_loops_do(part: int) -> None:
    sources = {seed: Source(seed) for seed in range(part * 40, part * 40 + 40)}
    pairs = {seed: source.make(f"f{seed}") for seed, source in sources.items()}
    # The two of a pair share their variables, which one module does not allow.
    vector = build(IRModule({f"f{n}_vector": v for n, (v, _) in pairs.items()}), pipeline=PASSES)
    serial = build(IRModule({f"f{n}_serial": s for n, (_, s) in pairs.items()}), pipeline=PASSES)
    for seed, source in sources.items():
        for n in (0, 3, 7, 20):
            results = {
                "serial": run(serial[f"f{seed}_serial"], source.arguments(seed, n)),
                "vector": run(vector[f"f{seed}_vector"], source.arguments(seed, n)),
            }
            if n == 7:
                lowered = run_passes(pairs[seed][0], PASSES)
                interpreted = lambda *args, func=lowered: interp.run(func, *args)
                results["interpreted"] = run(interpreted, source.arguments(seed, n))
            for key, found in results.items():
                assert found == results["serial"], (seed, n, key, pairs[seed][0].script())


def test_most_random_loops_have_a_vector_form() -> None:
    # What is compared above is worth something only while this holds.
    vectors = [run_passes(Source(seed).make("f")[0], PASSES).script() for seed in range(160)]
    assert sum("for j in" not in text for text in vectors) > 60
    assert sum("predicate=" in text for text in vectors) > 8
