"""Wrapping and checks may be left out only where that changes nothing: random integer programs say so."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tscript import interp
from tscript.ir import expr as ex
from tscript.ir import semantics
from tscript.ir import stmt as st
from tscript.ir.buffer import decl_buffer
from tscript.ir.dtype import DataType, int_range
from tscript.ir.expr import Call, Cast, IntImm, Op, PrimExpr, Var
from tscript.ir.function import PrimFunc
from tscript.support.errors import InterpError

DTYPES = ["int8", "uint16", "int32", "int64"]
BITS = ["bitwise_and", "bitwise_or", "bitwise_xor", "shift_left", "shift_right"]
DIVISIONS = [ex.FloorDiv, ex.FloorMod, ex.Div, ex.Mod]
PLAIN = [ex.Add, ex.Sub, ex.Mul, ex.Min, ex.Max]


def int32(value: int) -> IntImm:
    return IntImm("int32", value)


def random_expr(r: random.Random, dtype: str, variables: list[Var], depth: int) -> PrimExpr:
    if depth == 0 or r.random() < 0.15:
        fitting = [v for v in variables if v.dtype == dtype]
        if fitting and r.random() < 0.75:
            return r.choice(fitting)
        low, high = int_range(DataType(dtype))
        return IntImm(dtype, max(low, min(high, r.choice([0, 1, 2, 3, 7, 16, 100, low, high, -1, -5]))))
    kind = r.random()
    if kind < 0.12:
        return Cast(DataType(dtype), random_expr(r, r.choice(DTYPES), variables, depth - 1))
    a = random_expr(r, dtype, variables, depth - 1)
    if kind < 0.3:
        divisor = r.choice([1, 2, 3, 5, 8] if dtype[0] == "u" else [1, 2, 3, 8, -3, -1])
        return r.choice(DIVISIONS)(a, IntImm(dtype, divisor))
    b = random_expr(r, dtype, variables, depth - 1)
    if kind < 0.42:
        return Call(DataType(dtype), "tir." + r.choice(BITS), (a, b))
    return r.choice(PLAIN)(a, b)


def evaluate(e: PrimExpr, env: dict[Var, int]) -> int:
    """The value by the plain definition of each operator, every result wrapped."""
    if isinstance(e, IntImm):
        return e.value
    if isinstance(e, Var):
        return env[e]
    if isinstance(e, Cast):
        return int(semantics.convert_value(e.value.dtype, e.dtype, evaluate(e.value, env)))
    if isinstance(e, Call):
        assert isinstance(e.op, Op)
        a, b = (evaluate(x, env) for x in e.args)
        return semantics.bitwise(e.op.name.removeprefix("tir."), e.dtype, a, b)
    assert isinstance(e, ex.BinaryExpr)
    return int(semantics.arith(type(e).__name__, e.dtype, evaluate(e.a, env), evaluate(e.b, env)))


@pytest.mark.parametrize("group", range(8))
def test_random_integer_expressions_of_loops_and_parameters_agree_with_the_definitions(group: int) -> None:
    for seed in range(group * 25, group * 25 + 25):
        r = random.Random(seed)
        i, j, n, m = Var("i"), Var("j"), Var("n"), Var("m", "uint16")
        dtype = r.choice(DTYPES)
        e = random_expr(r, dtype, [i, j, n, m], 5)
        low = r.choice([0, -2, 2147483640])
        out = decl_buffer((12,), dtype, name="R")
        at = ex.Add(ex.Mul(ex.Sub(i, int32(low)), int32(4)), j)
        inner = st.For(j, int32(0), int32(4), 0, st.BufferStore(out, e, (at,)))
        func = PrimFunc((out, n, m), st.For(i, int32(low), int32(3), 0, inner))
        a, b = r.choice([0, 5, -7, 2**31 - 1, -(2**31)]), r.choice([0, 3, 65535])
        got = np.zeros(12, dtype)
        interp.run(func, got, a, b)
        want = [evaluate(e, {i: low + x, j: y, n: a, m: b}) for x in range(3) for y in range(4)]
        assert got.tolist() == want, f"seed {seed}"


@pytest.mark.parametrize("group", range(4))
def test_random_subscripts_fail_exactly_where_they_leave_the_buffer(group: int) -> None:
    for seed in range(group * 25, group * 25 + 25):
        r = random.Random(seed)
        i, n = Var("i"), Var("n")
        e = random_expr(r, "int32", [i, n], 3)
        size, a = r.choice([1, 4, 8]), r.choice([0, 1, 3, -2])
        buffer = decl_buffer((size,), "int32", name="R")
        func = PrimFunc((buffer, n), st.For(i, int32(0), int32(4), 0, st.BufferStore(buffer, i, (e,))))
        got, want = np.full(size, -1, "int32"), np.full(size, -1, "int32")
        bad: int | None = None
        for k in range(4):
            at = evaluate(e, {i: k, n: a})
            if not 0 <= at < size:
                bad = at
                break
            want[at] = k
        if bad is None:
            interp.run(func, got, a)
        else:
            with pytest.raises(InterpError) as caught:
                interp.run(func, got, a)
            assert caught.value.indices == (bad,), f"seed {seed}"
        assert got.tolist() == want.tolist(), f"seed {seed}"
