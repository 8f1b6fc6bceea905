"""One line of source, and how the program it makes is printed."""

import textwrap

import pytest

from tscript.ir.structural import structural_equal
from tscript.script import from_source

HEADER = """\
@T.prim_func
def f(
    A: T.Buffer((16,), "float16"),
    B: T.Buffer((16,), "int64"),
    C: T.Buffer((16,), "int32"),
    D: T.Buffer((16,), "bool"),
    E: T.Buffer((16,), "float32"),
    U: T.Buffer((16,), "uint8"),
    G: T.Buffer((4, 4), "float32"),
):
    for i in range(4):
"""

SAME = None

LINES = [
    ("E[C[0:4]] = T.broadcast(E[0], 4)", "E[C[0:4]] = T.Broadcast(E[0], 4)"),
    ("E[0:4] = E[C[4:8]] * 2.0", "E[0:4] = E[C[4:8]] * T.Broadcast(T.float32(2.0), 4)"),
    ("E[0:4] = G[0, C[4:8]]", SAME),
    ("for j in range(i, 16):\n    C[j] = 1", "for j in range(i, i + (16 - i)):"),
    ("for j in range(1, 8 - i):\n    C[j] = 1", "for j in range(1, 1 + (7 - i)):"),
    (
        "for j in range(i * 3, C[0] * 2 + 1):\n    C[j] = 1",
        "for j in range(i * 3, i * 3 + (C[0] * 2 + 1 - i * 3)):",
    ),
    (
        "for j in range(i * -2 + 1, 0):\n    C[j] = 1",
        "for j in range(i * -2 + 1, i * -2 + 1 + (i * 2 - 1)):",
    ),
    ('x: "T.int32" = i', "x: T.int32 = i"),
    ("A[i] = A[i] * 2.0", "A[i] = A[i] * T.float16(2.0)"),
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
    ("C[i] = 2 * (C[i] + 3) // 4 % 5", SAME),
    (
        "C[i] = (C[i] - (C[i] - 1)) * (C[i] + 2) - (C[i] * (C[i] * 2))",
        "C[i] = (C[i] - (C[i] - 1)) * (C[i] + 2) - C[i] * (C[i] * 2)",
    ),
    ("C[i] = C[i] << 1", "C[i] = T.shift_left(C[i], 1)"),
    ("C[i] = C[i] & 3", "C[i] = T.bitwise_and(C[i], 3)"),
    ("C[i] = ~C[i]", "C[i] = T.bitwise_not(C[i])"),
    ("C[i] = T.min(C[i], 7)", SAME),
    ("D[i] = C[i] > 1", SAME),
    ("D[i] = T.int32(1) < 2", "D[i] = T.LT(1, 2)"),
    ("D[i] = C[i] == 1 or not (C[i] < 2) and D[i]", "D[i] = C[i] == 1 or not C[i] < 2 and D[i]"),
    ("D[i] = D[i] and D[0] and D[1]", SAME),
    ("D[i] = D[i] and (D[0] and D[1])", SAME),
    ("D[i] = True", "D[i] = T.bool(True)"),
    ("D[i] = D[i] == True", "D[i] = D[i] == T.bool(True)"),
    ("E[i] = C[i] + 1.5", 'E[i] = T.Cast("float32", C[i]) + T.float32(1.5)'),
    ("E[i] = E[i] * 0.1", "E[i] = E[i] * T.float32(0.10000000000000001)"),
    ("E[i] = 1e-5", "E[i] = T.float32(1.0000000000000001e-05)"),
    ('E[i] = T.float32("inf")', SAME),
    ("E[i] = E[i] / 2.0", "E[i] = E[i] / T.float32(2.0)"),
    ("E[i] = T.if_then_else(C[i] > 1, E[i], T.float32(0))", "E[i] = T.if_then_else(C[i] > 1, E[i], T.float32(0.0))"),
    ("E[i] = T.Select(C[i] > 1, E[i], T.float32(0))", "E[i] = T.Select(C[i] > 1, E[i], T.float32(0.0))"),
    ("E[0:4] = E[4:8]", SAME),
    ("E[0:4] = E[4:8] + 1.0", "E[0:4] = E[4:8] + T.Broadcast(T.float32(1.0), 4)"),
    ("E[0:8:2] = T.broadcast(T.float32(0), 4)", "E[0:8:2] = T.Broadcast(T.float32(0.0), 4)"),
    ("E[0:4] = T.exp(E[4:8])", SAME),
    ("G[i, :] = G[0, 0:4]", "G[i, 0:4] = G[0, 0:4]"),
    ("D[0:2] = D[0:2] and D[2:4]", "D[0:2] = T.bitwise_and(D[0:2], D[2:4])"),
    ("E[i] += 1.0", "E[i] = E[i] + T.float32(1.0)"),
    ("E[0:4] += E[4:8]", "E[0:4] = E[0:4] + E[4:8]"),
    ("U[i] = U[i] + T.uint8(3)", SAME),
    ('T.evaluate(T.call_extern("int32", "foo", C[i], "str"))', 'T.call_extern("int32", "foo", C[i], "str")'),
    ("T.evaluate(0)", SAME),
    ("1", "T.evaluate(1)"),
    ("x: T.int32 = C[i] * 2", SAME),
    ("x = C[i] * 2", "x: T.int32 = C[i] * 2"),
    ("x = 3", "x: T.int32 = 3"),
    ("x: T.int64 = 3", "x: T.int64 = T.int64(3)"),
    ("return C[i]", SAME),
    ('assert C[i] > 0, "neg"', SAME),
    ('for j in T.serial(4, annotations={"a": 1}):\n    C[i] = j', 'for j in T.serial(4, annotations={"a": 1}):'),
    (
        'for j in T.thread_binding(4, "threadIdx.x"):\n    C[j] = j',
        'for j in T.thread_binding(4, thread="threadIdx.x"):',
    ),
    ("for j in T.parallel(1, 5):\n    C[j] = j", "for j in T.parallel(1, 5):"),
    ("for j in range(1, i):\n    C[j] = j", "for j in range(1, 1 + (i - 1)):"),
    ("for j in T.unroll(T.int64(8)):\n    B[j] = j", "for j in T.unroll(T.int64(8)):"),
    ("while C[0] < 3:\n    C[0] = C[0] + 1", "while C[0] < 3:"),
    ('T.evaluate(E.vload([0], "float32x4"))', "T.evaluate(E[0:4])"),
    ("E.vstore([0], T.broadcast(T.float32(1), 4))", "E[0:4] = T.Broadcast(T.float32(1.0), 4)"),
    ("T.buffer_store(E, 1.0, [i])", "E[i] = T.float32(1.0)"),
    ('T.attr("node", "key", 1)', 'T.attr("node", "key", 1)'),
]


def first_line(line: str) -> str:
    func = from_source(HEADER + textwrap.indent(line, " " * 8))
    assert structural_equal(from_source(func.script()), func)
    lines = func.script().splitlines()
    at = next(i for i, text in enumerate(lines) if text.strip().startswith("for i in range(4):"))
    return lines[at + 1].strip()


@pytest.mark.parametrize(("line", "printed"), LINES, ids=[a for a, _ in LINES])
def test_a_line_is_read_and_printed_so(line: str, printed: str | None) -> None:
    assert first_line(line) == (line if printed is None else printed)


CHAINS = [
    ("C[i] < C[0] < C[1]", "C[i] < C[0] and C[0] < C[1]"),
    ("0 <= C[i] < 4", "C[i] >= 0 and C[i] < 4"),
    ("0 < C[i] < C[0] < 4", "C[i] > 0 and C[i] < C[0] and C[0] < 4"),
    ("(C[i] < 3) == D[i]", "T.EQ(C[i] < 3, D[i])"),
    ("C[i] < 3 == D[i]", "T.EQ(C[i] < 3, D[i])"),
    ("C[i] < 3 == D[i] == D[0]", "T.EQ(T.EQ(C[i] < 3, D[i]), D[0])"),
    ("C[i] < C[0] == True", "T.EQ(C[i] < C[0], T.bool(True))"),
    ("D[i] == D[0] == D[1]", "D[i] == D[0] and D[0] == D[1]"),
]


@pytest.mark.parametrize(("chain", "meaning"), CHAINS, ids=[a for a, _ in CHAINS])
def test_a_chain_of_comparisons_means_what_it_does_in_python_unless_only_nesting_fits(chain: str, meaning: str) -> None:
    # `0 <= x` stays as written; the table spells it from the other side only where the node differs.
    meaning = meaning.replace("C[i] >= 0", "0 <= C[i]").replace("C[i] > 0", "0 < C[i]")
    read, spelled = (from_source(HEADER + " " * 8 + f"D[i] = {text}") for text in (chain, meaning))
    assert structural_equal(read, spelled)


def test_long_sums_and_many_variables_are_read() -> None:
    func = from_source(HEADER + " " * 8 + "C[i] = " + " + ".join(["C[0]"] * 900))
    assert func.script().count("C[0]") == 900
    many = "".join(f"        x{k} = C[0]\n" for k in range(1000))
    assert "x999" in from_source(HEADER + many + "        C[i] = x999").script()


def test_membership_of_python_values_and_of_the_variable_itself_is_known() -> None:
    func = from_source(HEADER + " " * 8 + "C[i] = (1 if i in [i, C] else 2) + (3 if 'k' in {'k': 1} else 4)")
    assert "C[i] = 4" in func.script()


def test_a_chain_that_fits_neither_way_is_an_error() -> None:
    with pytest.raises(Exception, match="a comparison of int32 with float32"):
        from_source(HEADER + " " * 8 + "D[i] = C[i] < C[0] < E[0]")


def test_the_middle_of_a_chain_of_python_values_decides_early() -> None:
    func = from_source(HEADER + " " * 8 + "C[i] = [3 if 5 < 4 < 1 // zero else 7][0]", {"zero": 1})
    assert "C[i] = 7" in func.script()


def test_a_python_condition_beside_one_of_the_program_decides_at_once() -> None:
    text = HEADER + " " * 8 + "if guard and C[i] < limit:\n            C[i] = 0"
    assert "if C[i] < 3:" in from_source(text, {"guard": True, "limit": 3}).script()
    assert "if" not in from_source(text, {"guard": False, "limit": None}).script()


def test_a_float_stored_in_an_integer_buffer_warns_at_its_line() -> None:
    from tscript.support.errors import ScriptWarning

    with pytest.warns(ScriptWarning, match="the fraction is lost") as caught:
        func = from_source(HEADER + " " * 8 + "C[i] = E[i]")
    assert 'C[i] = T.Cast("int32", E[i])' in func.script()
    assert caught[0].lineno == 12


def test_other_conversions_at_a_store_are_silent() -> None:
    func = from_source(HEADER + " " * 8 + "B[i] = C[i]\n        E[i] = C[i]\n        A[i] = E[i]")
    assert 'B[i] = T.Cast("int64", C[i])' in func.script()
    assert 'A[i] = T.Cast("float16", E[i])' in func.script()
