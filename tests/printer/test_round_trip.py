"""Programs made at random print to text that reads back to the same program and prints the same again."""

from __future__ import annotations

import random

import pytest

from tscript.ir import construct as c
from tscript.ir import expr as ex
from tscript.ir import stmt as st
from tscript.ir.buffer import Buffer, decl_buffer
from tscript.ir.dtype import DataType
from tscript.ir.expr import IntImm, PrimExpr, Var
from tscript.ir.function import PrimFunc
from tscript.ir.structural import assert_structural_equal, structural_equal
from tscript.parser import from_source

NUMBERS = ("int8", "int32", "int64", "uint8", "uint32", "float16", "float32", "float64", "bfloat16")
ARITH = (ex.Add, ex.Sub, ex.Mul, ex.FloorDiv, ex.FloorMod, ex.Min, ex.Max, ex.Div, ex.Mod)
COMPARE = (ex.LT, ex.LE, ex.GT, ex.GE, ex.EQ, ex.NE)


class Maker:
    """Well-formed functions whose nodes are put together without folding."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.buffers: dict[str, Buffer] = {d: decl_buffer((16,), d, name="A") for d in (*NUMBERS, "bool")}
        self.variables: list[Var] = []
        self.has_block = False

    def index(self, depth: int = 1) -> PrimExpr:
        return self.value("int32", depth)

    def load(self, dtype: str, depth: int) -> PrimExpr:
        return ex.BufferLoad(self.buffers[dtype], (self.index(min(depth, 1)),))

    def constant(self, dtype: str) -> PrimExpr:
        kind = DataType(dtype)
        if kind.is_float:
            return ex.FloatImm(dtype, self.random.choice([0.0, -0.0, 1.0, 0.1, -2.5, 1e20, 1e-5, float("inf")]))
        if kind.is_bool:
            return IntImm(dtype, self.random.randint(0, 1))
        return IntImm(dtype, self.random.choice([0, 1, 2, 5, 100, -1, -7] if kind.is_int else [0, 1, 2, 5, 100]))

    def value(self, dtype: str, depth: int) -> PrimExpr:
        pick = self.random.random()
        same = [v for v in self.variables if v.dtype == dtype]
        if depth <= 0 or pick < 0.15:
            if same and pick < 0.5:
                return self.random.choice(same)
            return self.constant(dtype) if pick < 0.8 else self.load(dtype, 0)
        if dtype == "bool":
            return self.truth(depth - 1)
        if pick < 0.6:
            node = self.random.choice(ARITH)
            a, b = self.value(dtype, depth - 1), self.value(dtype, depth - 1)
            if DataType(dtype).is_float and node in (ex.FloorDiv, ex.FloorMod, ex.Mod):
                node = ex.Div
            return node(a, b)
        if pick < 0.7:
            other = self.random.choice([d for d in NUMBERS if d != dtype])
            return ex.Cast(dtype, self.value(other, depth - 1))
        if pick < 0.8:
            return ex.Select(self.value("bool", depth - 1), self.value(dtype, depth - 1), self.value(dtype, depth - 1))
        if pick < 0.85 and DataType(dtype).is_float:
            return ex.Call(dtype, "tir.exp", (self.value(dtype, depth - 1),))
        return self.load(dtype, depth - 1)

    def truth(self, depth: int) -> PrimExpr:
        pick = self.random.random()
        if pick < 0.4:
            dtype = self.random.choice(NUMBERS)
            return self.random.choice(COMPARE)(self.value(dtype, depth), self.value(dtype, depth))
        if pick < 0.55:
            return self.random.choice((ex.EQ, ex.NE))(self.value("bool", depth), self.value("bool", depth))
        if pick < 0.85:
            return self.random.choice((ex.And, ex.Or))(self.value("bool", depth), self.value("bool", depth))
        return ex.Not(self.value("bool", depth))

    def statement(self, depth: int) -> st.Stmt:
        pick = self.random.random()
        if depth > 0 and pick < 0.12:
            return self.block(depth)
        if depth <= 0 or pick < 0.25:
            dtype = self.random.choice((*NUMBERS, "bool"))
            return st.BufferStore(self.buffers[dtype], self.value(dtype, 3), (self.index(),))
        if pick < 0.4:
            return st.seq(*(self.statement(depth - 1) for _ in range(self.random.randint(2, 3))))
        if pick < 0.55:
            other = self.statement(depth - 1) if self.random.random() < 0.5 else None
            return st.IfThenElse(self.value("bool", 2), self.statement(depth - 1), other)
        if pick < 0.65:
            dtype = self.random.choice(NUMBERS)
            value, var = self.value(dtype, 2), Var("x", dtype)
            return st.LetStmt(var, value, self.inside(var, depth))
        if pick < 0.7:
            return st.AssertStmt(self.value("bool", 2), ex.StringImm("wrong"), self.statement(depth - 1))
        if pick < 0.75:
            buffer = decl_buffer((4, 4), "float32", name="B", scope=self.random.choice(["global", "shared"]))
            inner = st.BufferStore(buffer, self.value("float32", 2), (self.index(), self.index()))
            declared = st.DeclBuffer(buffer, st.seq(inner, self.statement(depth - 1)))
            return st.Allocate(buffer.data, "float32", buffer.shape, IntImm("bool", 1), declared)
        var = Var("i", self.random.choice(["int32", "int64"]))
        notes = {"note": c.const(1)} if self.random.random() < 0.2 else {}
        kind = self.random.choice([0, 0, 0, 1, 2, 3])
        return st.For(var, *self.bounds(var.dtype), kind, self.inside(var, depth), None, notes)

    def bounds(self, dtype: str) -> tuple[PrimExpr, PrimExpr]:
        """A start and an extent, neither simplified, that the end `start + extent` tells apart again."""
        zero = IntImm(dtype, 0)
        low = self.random.choice([zero, zero, zero, IntImm(dtype, 2), self.value(dtype, 2)])
        extent = self.random.choice([IntImm(dtype, 1), IntImm(dtype, 8), self.value(dtype, 2)])
        if isinstance(low, ex.Add) or isinstance(extent, IntImm) or c.is_const_int(low, 0):
            return low, IntImm(dtype, 4) if isinstance(extent, IntImm) and extent.value < 0 else extent
        return low, ex.Mul(IntImm(dtype, 2), extent)

    def region(self) -> st.BufferRegion:
        buffer = self.buffers[self.random.choice(NUMBERS)]
        return st.BufferRegion(buffer, (ex.Range.from_min_extent(*self.bounds("int32")),))

    def block(self, depth: int) -> st.Stmt:
        self.has_block = True
        axes: list[ex.IterVar] = []
        values: list[PrimExpr] = []
        for _ in range(self.random.randint(0, 4)):
            value = self.value("int32", self.random.choice([0, 2]))
            low = IntImm("int32", self.random.choice([0, 0, 3]))
            dom = ex.Range.from_min_extent(low, IntImm("int32", self.random.choice([1, 8])))
            kind = self.random.choice([0, 0, 2, 2, 3, 4])
            axes.append(ex.IterVar(dom, Var("v"), kind))
            values.append(value)
        predicate = self.value("bool", 2) if self.random.random() < 0.3 else IntImm("bool", 1)
        outer, self.variables = self.variables, [self.variables[0], *(a.var for a in axes)]
        local = decl_buffer((16,), "float32", name="L", scope="local", elem_offset=self.random.choice([0, 8]))
        view = decl_buffer((4,), "int64", name="V", elem_offset=Var("elem_offset"), offset_factor=1)
        source = st.BufferRegion(self.buffers["int64"], (ex.Range.from_min_extent(self.index(2), c.const(4)),))
        made = st.Block(
            axes,
            [self.region() for _ in range(self.random.randint(0, 2))],
            [self.region() for _ in range(self.random.randint(0, 2))],
            "block",
            st.seq(
                st.BufferStore(local, self.value("float32", 2), (self.index(),)),
                st.BufferStore(view, self.value("int64", 2), (self.index(),)),
                self.statement(depth - 1),
            ),
            self.statement(0) if self.random.random() < 0.3 else None,
            [local],
            [st.MatchBufferRegion(view, source)],
            {"note": c.const(1)} if self.random.random() < 0.3 else {},
        )
        self.variables = outer
        return st.BlockRealize(values, predicate, made)

    def inside(self, var: Var, depth: int) -> st.Stmt:
        self.variables.append(var)
        body = self.statement(depth - 1)
        self.variables.pop()
        return body

    def function(self) -> PrimFunc:
        n = Var("n")
        self.variables.append(n)
        body = self.statement(5)
        if self.has_block and not (isinstance(body, st.BlockRealize) and not body.iter_values):
            body = st.BlockRealize((), c.const(True), st.Block((), (), (), "root", body))
        return PrimFunc((*self.buffers.values(), n), body, attrs={"global_symbol": "f"})


@pytest.mark.parametrize("seed", range(150))
def test_a_random_program_reads_back(seed: int) -> None:
    func = Maker(seed).function()
    text = func.script()
    back = from_source(text)
    assert_structural_equal(back, func)
    assert back.script() == text
    # Without sugar the pointer of a buffer has a name beside the buffer's, so only the program is the same.
    assert_structural_equal(from_source(func.script(syntax_sugar=False)), func)


def body_of(text: str) -> str:
    return "\n".join(text.splitlines()[2:])


def test_a_root_of_another_name_keeps_its_name() -> None:
    text = """\
@T.prim_func
def f(A: T.Buffer((4,), "float32")):
    with T.block("tile"):
        T.reads()
        T.writes()
        L = T.alloc_buffer((4,))
        L[0] = T.float32(1.0)"""
    f = from_source(text)
    assert body_of(f.script()) == text
    assert structural_equal(from_source(f.script()), f)


@pytest.mark.parametrize("symbol", ["a b", "a.b", "1st", "class", "", "a\\b", "{x}", "é"])
def test_a_symbol_that_is_no_name_is_kept_as_an_attribute(symbol: str) -> None:
    f = from_source("@T.prim_func\ndef f(n: T.int32):\n    T.evaluate(n)\n").with_attr("global_symbol", symbol)
    again = from_source(f.script())
    assert again.attrs["global_symbol"] == symbol
    assert structural_equal(again, f)


def test_numbers_and_texts_at_which_an_attribute_stands_read_back() -> None:
    for node in ('T.StringImm("x")', "T.float32(2)", "1.5", '["x", None, {"k": 1}]', "None", "A", "A.data"):
        f = from_source(
            f'@T.prim_func\ndef f(A: T.Buffer((4,), "int32")):\n    with T.attr({node}, "k", 1):\n        A[0] = 1\n'
        )
        assert structural_equal(from_source(f.script()), f)
