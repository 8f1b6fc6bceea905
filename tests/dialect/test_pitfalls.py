"""Programs that compilers of tensor programs got wrong: written as a user writes them, and run."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from tscript import interp
from tscript.ir.expr import FloatImm, IntImm, PrimExpr
from tscript.ir.functor import post_order_visit
from tscript.ir.structural import structural_equal
from tscript.script import from_source
from tscript.support.errors import ScriptError


def kernel(signature: str, body: str, **names: Any) -> Any:
    text = f"@T.prim_func\ndef f({signature}):\n" + "".join(f"    {line}\n" for line in body.splitlines())
    func = from_source(text, names)
    assert structural_equal(from_source(func.script()), func)
    return func


INT = 'A: T.Buffer((8,), "int32")'


@pytest.mark.parametrize(("mod", "by"), [("i % 20 // 2 * 2 % 4", 0), ("i % 6 % 4", 1), ("i * 4 % 6 // 4", 2)])
def test_nested_remainders_are_computed_as_written(mod: str, by: int) -> None:
    f = kernel('A: T.Buffer((60,), "int32")', f"for i in range(60):\n    A[i] = {mod}")
    assert mod in f.script()
    got = np.zeros(60, "int32")
    interp.run(f, got)
    want = [(lambda i: i % 20 // 2 * 2 % 4, lambda i: i % 6 % 4, lambda i: i * 4 % 6 // 4)[by](i) for i in range(60)]
    assert got.tolist() == want


DIVISIONS = {
    "T.floordiv": lambda a, b: a // b,
    "T.floormod": lambda a, b: a % b,
    "T.truncdiv": lambda a, b: math.trunc(a / b),
    "T.truncmod": lambda a, b: a - b * math.trunc(a / b),
    "T.ceildiv": lambda a, b: -(-a // b),
}


@pytest.mark.parametrize("division", DIVISIONS)
def test_a_division_gives_the_same_for_constants_and_for_values_of_all_signs(division: str) -> None:
    signature = 'a: T.int32, b: T.int32, A: T.Buffer((4,), "int32")'
    for a, b in itertools.product((7, -7, 241 - 48 * 10, 0, 1), (3, -3, 16, -4)):
        forms = [f"A[0] = {division}({a}, {b})", f"A[1] = {division}(a, {b})", f"A[2] = {division}({a}, b)"]
        f = kernel(signature, "\n".join([*forms, f"A[3] = {division}(a, b)"]))
        got = np.zeros(4, "int32")
        interp.run(f, a, b, got)
        assert got.tolist() == [DIVISIONS[division](a, b)] * 4, (a, b)


@pytest.mark.parametrize("choice", ["max", "min"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_nan_wins_on_either_side_as_a_constant_and_as_a_value(choice: str, dtype: str) -> None:
    nan = f'T.{dtype}("nan")'
    one = f"T.{dtype}(1)"
    lines = [f"A[0] = T.{choice}({nan}, {one})", f"A[1] = T.{choice}({one}, {nan})"]
    lines += [f"A[2] = T.{choice}(A[4], {one})", f"A[3] = T.{choice}({one}, A[4])"]
    f = kernel(f'A: T.Buffer((5,), "{dtype}")', "\n".join(lines))
    got = np.full(5, math.nan, np.float32 if dtype == "bfloat16" else dtype)
    if dtype == "bfloat16":
        got = got.astype(pytest.importorskip("ml_dtypes").bfloat16)
    interp.run(f, got)
    assert np.isnan(got.astype("float32")).all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2"])
def test_every_float_type_has_a_value_to_start_a_maximum_from(dtype: str) -> None:
    f = kernel(f'A: T.Buffer((1,), "{dtype}")', f'A[0] = T.min_value("{dtype}")')
    assert isinstance(f.body.value, FloatImm)
    assert f.body.value.value < -5


@pytest.mark.parametrize("function", ["exp", "sin", "sqrt", "log", "tanh", "erf", "rsqrt", "pow"])
def test_a_float_function_of_an_integer_is_refused_at_its_place(function: str) -> None:
    call = f"T.{function}(A[0]{', A[1]' if function == 'pow' else ''})"
    with pytest.raises(ScriptError, match=f"{function} takes floats, not int32; convert the argument") as caught:
        kernel(INT, f"A[0] = {call}")
    assert caught.value.span is not None
    assert (caught.value.column, caught.value.span.end_column) == (12, 12 + len(call))


@pytest.mark.parametrize(
    ("body", "want"),
    [
        ("t = A[0]\nA[0] = 5\nA[1] = t", [5, 1]),
        ("A[1] = A[0]\nA[0] = 5", [5, 1]),
        ("t = A[0]\nA[1] = t\nA[0] = t + 4", [5, 1]),
        ("t = A[0]\nt = t + 1\nA[0] = 5\nA[1] = t", [5, 2]),
        ("t, u = A[0], A[1]\nt, u = u, t\nA[0] = t\nA[1] = u", [2, 1]),
    ],
)
def test_a_temporary_keeps_the_value_it_was_given(body: str, want: list[int]) -> None:
    got = np.array([1, 2, 0, 0, 0, 0, 0, 0], "int32")
    interp.run(kernel(INT, body), got)
    assert got[:2].tolist() == want


@pytest.mark.parametrize("around", ["if A[0] > 0:", "for i in range(2):", "while A[0] < 0:"])
def test_a_temporary_is_not_given_another_value_for_good_where_it_may_not_run(around: str) -> None:
    with pytest.raises(ScriptError, match="t is bound outside at line 3; the new value would be lost") as caught:
        kernel(INT, f"t = A[1]\n{around}\n    t = 5\nA[0] = t")
    assert (caught.value.line, caught.value.column) == (5, 9)


def test_a_bool_compared_with_a_constant_reads_back() -> None:
    f = kernel('A: T.Buffer((4,), "bool"), B: T.Buffer((4,), "bool")', "B[0] = A[0] == True\nB[1] = A[1] != False")
    got = np.zeros(4, "bool")
    interp.run(f, np.array([True, True, False, False]), got)
    assert got[:2].tolist() == [True, True]


def test_a_store_of_another_kind_warns_and_one_of_no_number_is_refused() -> None:
    with pytest.warns(UserWarning, match="the fraction is lost"):
        from_source('@T.prim_func\ndef f(A: T.Buffer((4,), "int8"), B: T.Buffer((4,), "float32")):\n    A[0] = B[0]\n')
    for value in ('"text"', "B.data", "B", "None", "[1]"):
        with pytest.raises(ScriptError) as caught:
            kernel('A: T.Buffer((4,), "int8"), B: T.Buffer((4,), "float32")', f"A[0] = {value}")
        assert (caught.value.line, caught.value.column) == (3, 12)


WIDE = """\
for i, j, k in T.grid(n, T.int64(8), T.int64(4)):
    with T.block("sum"):
        vi = T.axis.spatial(n, i)
        vj = T.axis.spatial(T.int64(8), j)
        vk = T.axis.reduce(T.int64(4), k)
        with T.init():
            C[vi, vj] = 0.0
        for u in range(T.int64(2)):
            C[vi, vj] = C[vi, vj] + A[vi, vk * 2 + u] * 2.0
for i in range(T.int64(1), n):
    C[i, 0] = C[i - 1, 0] + C[T.int64(0), i % 8]
"""


def test_a_program_with_wide_sizes_is_wide_throughout() -> None:
    signature = 'n: T.int64, a: T.handle, C: T.Buffer((T.int64(6), T.int64(8)), "float32")'
    body = 'A = T.match_buffer(a, (n, T.int64(8)), "float32")\n' + WIDE
    f = kernel(signature, body)
    narrow: list[PrimExpr] = []

    def look(node: object) -> None:
        if isinstance(node, PrimExpr) and node.dtype == "int32":
            narrow.append(node)

    post_order_visit(f.body, look)
    # What is left are subscripts written as plain numbers.
    assert all(isinstance(e, IntImm) for e in narrow)
    a = np.arange(48, dtype="float32").reshape(6, 8)
    c = np.zeros((6, 8), "float32")
    interp.run(f, 6, a, c)
    want = np.repeat(a.sum(1, keepdims=True) * 2, 8, 1)
    for i in range(1, 6):
        want[i, 0] = want[i - 1, 0] + want[0, i % 8]
    assert np.array_equal(c, want)
