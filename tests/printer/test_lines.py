"""Single statements: what is written, and what is printed for it."""

from __future__ import annotations

import pytest

from tscript.parser import from_source

HEAD = """@T.prim_func(check_well_formed=False)
def f(A: T.Buffer((16,), "float16"), B: T.Buffer((16,), "int64"), C: T.Buffer((16,), "int32"),
      D: T.Buffer((16,), "bool"), E: T.Buffer((16,), "float32"), U: T.Buffer((16,), "uint8")):
    for i in T.serial(16, annotations={"k": 1}):
        if C[0] == 0:
"""
SAME = None
ROWS = [
    ('A[i] = T.Cast("float16", T.Cast("float32", A[i]) * T.float32(2.0))', SAME),
    ("A[i] = A[i] * T.float16(2)", "A[i] = A[i] * T.float16(2.0)"),
    ("A[i] = T.float16(1) + T.float16(2)", "A[i] = T.float16(1.0) + T.float16(2.0)"),
    ("B[i] = B[i] + i * 2", 'B[i] = B[i] + T.Cast("int64", i * 2)'),
    ("B[i] = B[i] + 1", "B[i] = B[i] + T.int64(1)"),
    ("B[i] = -5", "B[i] = T.int64(-5)"),
    ("C[i] = T.ceildiv(C[i], 4)", "C[i] = (C[i] + 4 - 1) // 4"),
    ("C[i] = T.truncdiv(C[i], 2)", "C[i] = T.Div(C[i], 2)"),
    ("C[i] = T.truncmod(C[i], 3)", SAME),
    ("C[i] = C[i] // 2 + C[i] % 3 - (C[i] - 1) * -1", SAME),
    ("C[i] = -C[i]", "C[i] = C[i] * -1"),
    ("C[i] = 5 - -3", "C[i] = 8"),
    ("C[i] = C[i] + 0", "C[i] = C[i]"),
    ("C[i] = T.Add(C[i], 0)", SAME),
    ("C[i] = T.Sub(C[i], 0)", SAME),
    ("C[i] = T.Mul(C[i], 1)", SAME),
    ("C[i] = T.Add(2, 3)", SAME),
    ("C[i] = 2 * (C[i] + 3) // 4 % 5", SAME),
    (
        "C[i] = (C[i] - (C[i] - 1)) * (C[i] + 2) - (C[i] * (C[i] * 2))",
        "C[i] = (C[i] - (C[i] - 1)) * (C[i] + 2) - C[i] * (C[i] * 2)",
    ),
    ("C[i] = C[i] + (C[i] + C[i])", SAME),
    ("C[i] = C[i] * (C[i] // 4)", SAME),
    ("C[i] = C[i] << 1", "C[i] = T.shift_left(C[i], 1)"),
    ("C[i] = C[i] >> 1", "C[i] = T.shift_right(C[i], 1)"),
    ("C[i] = C[i] & 3", "C[i] = T.bitwise_and(C[i], 3)"),
    ("C[i] = C[i] | 3", "C[i] = T.bitwise_or(C[i], 3)"),
    ("C[i] = C[i] ^ 3", "C[i] = T.bitwise_xor(C[i], 3)"),
    ("C[i] = ~C[i]", "C[i] = T.bitwise_not(C[i])"),
    ("C[i] = T.min(C[i], 7)", SAME),
    ("C[i] = T.max(C[i], 7)", SAME),
    ("D[i] = C[i] > 1", SAME),
    ("D[i] = (C[i] < 3) == D[i]", "D[i] = C[i] < 3 == D[i]"),
    ("D[i] = C[i] == 1 or not (C[i] < 2) and D[i]", "D[i] = C[i] == 1 or not C[i] < 2 and D[i]"),
    ("D[i] = not (D[i] and D[0])", SAME),
    ("D[i] = (D[i] or D[0]) and D[1]", SAME),
    ("D[i] = D[i] or (D[0] or D[1])", SAME),
    ("D[i] = True", "D[i] = T.bool(True)"),
    ("D[i] = T.LT(1, 2)", SAME),
    ("D[i] = T.And(T.bool(True), D[i])", SAME),
    ("E[i] = C[i] + 1.5", 'E[i] = T.Cast("float32", C[i]) + T.float32(1.5)'),
    ("E[i] = E[i] * 0.1", "E[i] = E[i] * T.float32(0.10000000000000001)"),
    ("E[i] = 1e-5", "E[i] = T.float32(1.0000000000000001e-05)"),
    ("E[i] = T.float32(1e20)", "E[i] = T.float32(100000000000000000000.0)"),
    ('E[i] = T.float32("inf")', SAME),
    ('E[i] = T.float32("-inf")', SAME),
    ('E[i] = T.float32("nan")', SAME),
    ("E[i] = T.float32(-0.0)", SAME),
    ('E[i] = T.Cast("float32", C[i]) * 0.0', "E[i] = T.float32(0.0)"),
    ("E[i] = E[i] / 2.0", "E[i] = E[i] / T.float32(2.0)"),
    ("E[i] = T.pow(E[i], T.float32(2))", "E[i] = T.pow(E[i], T.float32(2.0))"),
    (
        "E[i] = T.if_then_else(C[i] > 1, E[i], T.float32(0))",
        "E[i] = T.if_then_else(C[i] > 1, E[i], T.float32(0.0))",
    ),
    ("E[i] = T.Select(C[i] > 1, E[i], T.float32(0))", "E[i] = T.Select(C[i] > 1, E[i], T.float32(0.0))"),
    ("E[0:4] = E[4:8]", SAME),
    ("E[0:4] = E[4:8] + 1.0", "E[0:4] = E[4:8] + T.Broadcast(T.float32(1.0), 4)"),
    ("E[0:8:2] = T.broadcast(T.float32(0), 4)", "E[0:8:2] = T.Broadcast(T.float32(0.0), 4)"),
    ("E[i:i + 4] = E[T.Ramp(i, -1, 4)]", SAME),
    ("E[i] += 1.0", "E[i] = E[i] + T.float32(1.0)"),
    ("U[i] = U[i] + T.uint8(3)", SAME),
    ('T.evaluate(T.call_extern("int32", "foo", C[i], "str"))', 'T.call_extern("int32", "foo", C[i], "str")'),
    ("T.evaluate(0)", SAME),
    ("T.evaluate(C[i])", SAME),
    ("x: T.int32 = C[i] * 2", SAME),
    ("x = C[i] * 2", "x: T.int32 = C[i] * 2"),
    ("return C[i]", SAME),
    ('assert C[i] > 0, "neg"', SAME),
    ('for j in T.serial(4, annotations={"a": 1}):\n                C[j] = 0', SAME),
    (
        'for j in T.thread_binding(4, "threadIdx.x"):\n                C[j] = 0',
        'for j in T.thread_binding(4, thread="threadIdx.x"):\n                C[j] = 0',
    ),
    ("for j in T.serial(0, 4):\n                C[j] = 0", "for j in range(4):\n                C[j] = 0"),
    ("for j in T.parallel(1, 5):\n                C[j] = 0", SAME),
    ("for j in T.vectorized(4):\n                C[j] = 0", SAME),
    ("while C[i] < 3:\n                C[i] = C[i] + 1", SAME),
    ("T.prefetch(C, [T.Range(0, 4)])", SAME),
    ('T.attr(C.data, "key", 1)\n            C[0] = 1', SAME),
    ("x = T.int32()\n            C[i] = T.Let(x + 1, where={x: C[i]})", SAME),
    ("C.vstore([i], C.vload([i], predicate=D[i]), predicate=D[i])", SAME),
]


def statement_text(line: str, **options: object) -> str:
    """How the statement prints, inside a loop and a branch, without its indentation."""
    text = from_source(HEAD + "            " + line + "\n").script(**options)
    return text[text.index("        if C[") :].split("\n", 1)[1].removeprefix("            ")


@pytest.mark.parametrize(("line", "printed"), ROWS, ids=[r[0][:40] for r in ROWS])
def test_a_statement_prints_as_the_language_writes_it(line: str, printed: str | None) -> None:
    text = statement_text(line)
    expected = line if printed is None else printed
    assert text == expected or text == expected + "\n            T.evaluate(0)", text
    assert statement_text(text) == text


def test_bare_types_follow_the_options() -> None:
    assert statement_text("B[i] = B[i] + 5", int_dtype="int64") == "B[i] = B[i] + 5"
    assert statement_text("C[i] = C[i] + 5", int_dtype="int64") == "C[i] = C[i] + T.int32(5)"
    assert statement_text("E[i] = E[i] * 1.5", float_dtype="float32") == "E[i] = E[i] * 1.5"
    assert statement_text('E[i] = T.float32("inf")', float_dtype="float32") == 'E[i] = T.float32("inf")'
