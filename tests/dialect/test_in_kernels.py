"""The functions of the dialect as kernels call them, and where their mistakes are reported."""

from __future__ import annotations

import pytest

from tscript.error import ScriptError
from tscript.ir.function import PrimFunc
from tscript.script import from_source

HEAD = """\
@T.prim_func
def f(C: T.Buffer((16,), "int32"), E: T.Buffer(16), H: T.Buffer(16, "float16"), N: T.Buffer(16, "int64")):
    for i in range(4):
"""


def kernel(line: str) -> str:
    return HEAD + f"        {line}\n"


def printed(line: str) -> str:
    func = from_source(kernel(line))
    assert isinstance(func, PrimFunc)
    again = from_source(func.script())
    assert again.script() == func.script()
    return func.script().splitlines()[-1].strip()


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("C[i] = T.abs(C[i])", "C[i] = T.Select(C[i] >= 0, C[i], 0 - C[i])"),
        ("E[i] = T.abs(E[i])", "E[i] = T.fabs(E[i])"),
        ("C[i] = T.floor(C[i])", "C[i] = C[i]"),
        ("C[i] = T.ceildiv(C[i], 4)", "C[i] = (C[i] + 4 - 1) // 4"),
        ("C[i] = T.truncdiv(C[i], 2)", "C[i] = T.Div(C[i], 2)"),
        ("C[i] = T.truncmod(C[i], 3)", "C[i] = T.truncmod(C[i], 3)"),
        ("C[i] = C[i] << 1", "C[i] = T.shift_left(C[i], 1)"),
        ("C[i] = ~C[i] & 3", "C[i] = T.bitwise_and(T.bitwise_not(C[i]), 3)"),
        ("C[i] = T.min(C[i], 7)", "C[i] = T.min(C[i], 7)"),
        ("C[i] = T.Add(C[i], 0)", "C[i] = T.Add(C[i], 0)"),
        ("N[i] = T.max(N[i], 1)", "N[i] = T.max(N[i], T.int64(1))"),
        ("E[i] = T.pow(E[i], T.float32(2))", "E[i] = T.pow(E[i], T.float32(2.0))"),
        ('E[i] = T.Cast("float32", C[i]) * 0.0', "E[i] = T.float32(0.0)"),
        ('E[i] = T.float32("inf")', 'E[i] = T.float32("inf")'),
        ("H[i] = T.max(H[i], 0)", "H[i] = T.max(H[i], T.float16(0.0))"),
        ('H[i] = T.infinity("float16")', 'H[i] = T.float16("inf")'),
        ('H[i] = T.min_value("float16")', "H[i] = T.float16(-65504.0)"),
        ("E[i] = T.if_then_else(C[i] > 1, E[i], 0)", "E[i] = T.if_then_else(C[i] > 1, E[i], T.float32(0.0))"),
        ("E[i] = T.Select(T.isnan(E[i]), T.float32(0), E[i])", "E[i] = T.Select(T.isnan(E[i]), T.float32(0.0), E[i])"),
        ('C[i] = T.reinterpret("int32", E[i])', 'C[i] = T.reinterpret("int32", E[i])'),
        ('T.call_extern("foo", C[i], dtype="int32")', 'T.call_extern("int32", "foo", C[i])'),
        ('T.evaluate(T.call_packed("foo", C[i], "text"))', 'T.call_packed("foo", C[i], "text")'),
        ("E[0:4] = T.exp(E[4:8])", "E[0:4] = T.exp(E[4:8])"),
        ("E[0:4] = T.max(E[4:8], 0.0)", "E[0:4] = T.max(E[4:8], T.Broadcast(T.float32(0.0), 4))"),
        ("E[0:4] = T.broadcast(E[i], 4)", "E[0:4] = T.Broadcast(E[i], 4)"),
        ("C[T.ramp(0, 2, 4)] = T.ramp(i, 1, 4)", "C[0:8:2] = T.Ramp(i, 1, 4)"),
        ("C[i] = T.popcount(C[i]) + T.clz(C[i])", "C[i] = T.popcount(C[i]) + T.clz(C[i])"),
    ],
)
def test_a_call_prints_as_the_language_says(line: str, text: str) -> None:
    assert printed(line) == text


@pytest.mark.parametrize(
    ("line", "at", "message"),
    [
        ("E[i] = E[i] + T.exp(C[i])", "T.exp(C[i])", "exp takes floats, not int32"),
        ("C[i] = T.int8(300)", "T.int8(300)", "300 does not fit in int8"),
        ("C[i] = 1 + T.floordiv(C[i], 0)", "T.floordiv(C[i], 0)", "constant zero"),
        ("E[i] = T.if_then_else(C[i], E[i], 0.0)", "T.if_then_else(C[i], E[i], 0.0)", "a condition is a bool"),
        ('E[i] = T.infinity("float8_e4m3fn")', 'T.infinity("float8_e4m3fn")', "has no infinity"),
        (
            'T.evaluate(T.call_extern("int32", "foo", C))',
            'T.call_extern("int32", "foo", C)',
            "pass its pointer `C.data`",
        ),
        ('C[i] = T.reinterpret("int64", E[i])', 'T.reinterpret("int64", E[i])', "32 bits of a float32"),
        ("C[i] = C[i] << 40", "C[i] << 40", "shift of int32 by 40"),
    ],
)
def test_a_mistake_is_reported_at_its_call(line: str, at: str, message: str) -> None:
    with pytest.raises(ScriptError) as e:
        from_source(kernel(line))
    assert message in e.value.reason
    assert (e.value.line, e.value.column) == (4, 9 + line.index(at))
