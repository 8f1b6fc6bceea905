"""Arguments that a function of `T` does not take are refused in terms of the call, at its place."""

import math

import numpy as np
import pytest

import tscript
from tscript.script import from_source
from tscript.script import tir as T
from tscript.support.errors import ScriptError

HEADER = """\
@T.prim_func
def f(
    p: T.handle,
    n: T.int32,
    A: T.Buffer((64,), "float32"),
    B: T.Buffer((8, 8), "int32"),
):
"""


def refused(line: str, **extra_vars: object) -> ScriptError:
    with pytest.raises(ScriptError) as caught:
        from_source(HEADER + "    " + line + "\n", extra_vars or None)
    assert caught.value.line == (9 if 'T.block("b"):\n        v =' in line or "T.init" in line else 8)
    return caught.value


@pytest.mark.parametrize(
    ("line", "reason", "hint"),
    [
        ("A[0] = T.max(A[0])", "T.max needs `b` too", "write T.max(a, b)"),
        ("A[0] = T.max()", "T.max needs `a` and `b` too", "write T.max(a, b)"),
        ("A[0] = T.max(A[0], 1, 2)", "T.max takes 2 positional arguments, not 3", "write T.max(a, b)"),
        ("A[0] = T.max(A[0], c=1)", "T.max takes no argument called `c`", "write T.max(a, b)"),
        ("A[0] = T.max(A[0], a=1)", "T.max gets its argument `a` twice", "write T.max(a, b)"),
        ("T.Assert(n > 0)", "T.Assert needs `message` too", "write T.Assert(condition, message)"),
        ("x = T.Buffer()", "T.Buffer needs `shape` too", "write T.Buffer(shape, dtype=..."),
        ("A[0] = T.BufferLoad(1, {1: 2})", "T.BufferLoad cannot take 1 and a dict", "write T.BufferLoad(buffer, "),
        ("x = T.allocate({1}, [4])", "a set cannot be used as a scalar value", None),
    ],
)
def test_a_call_that_does_not_fit_is_refused_with_its_form(line: str, reason: str, hint: str | None) -> None:
    error = refused(line)
    assert error.reason.startswith(reason)
    assert (error.hint or "").startswith(hint or "")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("A[0] = T.Mul(p, p)", "Mul takes numbers, not handle"),
        ('A[0] = T.Sub(p, "x")', "Sub takes numbers, not handle"),
        ("T.evaluate(T.LT(p, A.data))", "pointers are equal or not, and have no order"),
        ("x = T.bool(T)", "a bool is made of True, False or a number, not of a module"),
        ('x = T.boolx4({"a": 1})', "a bool is made of True, False or a number, not of a dict"),
        ("x = T.int32(len)", "a constant of type int32 is made of a number, not of a built-in function"),
        ("x = T.float32([1])", "a constant of type float32 is made of a number, not of a list"),
        ("T.evaluate(T.StringImm(int))", "a text constant holds a text, not the class int"),
        ("x = T.SizeVar(True)", "the name of a variable is a text, not a bool"),
        ("x = T.handle(None, {1})", "a storage scope is a text such as"),
        ("x = T.alloc_buffer((4,), scope=5)", 'a storage scope is a text such as "shared", not an int'),
        ('x = T.allocate([4], "float32", 5)', 'a storage scope is a text such as "shared", not an int'),
        ("x = T.IterVar(T, A, n)", "the domain of an axis is a Range or None, not a module"),
        ('x = T.CommReducer("ab", "cd", "e", "f")', "the operands of T.CommReducer are variables, not a str"),
        ("T.let(T.bool(True), n)", "a let binds a variable, not an IntImm"),
        ("T.arg(A[0], A.data)", "the name of a parameter is a text, not a BufferLoad"),
        ('with T.block("b", -1):\n        pass', "no_realize is True or False, not an int"),
        ("T.attr(A.data, 1.5, n)", "the key of T.attr is a text, not a float"),
        ("x = T.launch_thread(5, n)", "a thread is named by a text"),
        ("x = T.env_thread(5)", "a thread is named by a text such as 'threadIdx.x', not 5"),
        ("assert n > 0, n", "the message of an assertion is a text, not a Var"),
        ('T.prefetch(A, ["x"])', "a text takes no arithmetic"),
        ('x = T.Range("a", "b")', "a range is made of integers"),
        ('return "x"', "a kernel returns a number or a pointer, not a str"),
        ("return A", "a kernel returns a number or a pointer, not a Buffer"),
        ('T.ret("x")', "a kernel returns a number or a pointer, not a text"),
        ("T.evaluate(T.isnullptr(1.5))", "T.isnullptr takes a pointer, not float32"),
        ("T.evaluate(T.q_multiply_shift(1, A, 2, 3))", "buffer A cannot be the argument of a call"),
        ('T.func_attr({"global_symbol": 5})', "the attribute global_symbol is the name of the function as a text"),
        ('T.func_attr({"a": len})', "a built-in function cannot be the value of an attribute"),
        ('T.func_attr({"a": T})', "a module cannot be the value of an attribute"),
        ('T.func_attr({"a": int})', "the class int cannot be the value of an attribute"),
        ("x = T.Buffer((4,), data=n)", "the data of the buffer is a pointer, not n of type int32"),
        ("x = T.alloc_buffer(-4)", "a dimension of the buffer is -4; it cannot be negative"),
        ('x = T.alloc_buffer("a")', "a dimension of the buffer is an integer, not 'a'"),
        ("A[...] = 1.0", "subscript 0 of A is `...`; subscripts are integers"),
        ("A[[0]] = 1.0", "subscript 0 of A is a list; subscripts are integers"),
        ("A[B] = 1.0", "subscript 0 of A is a Buffer; subscripts are integers"),
        ("A[0] = n()", "`n` is a Var, and cannot be called"),
        ("A[0] = A(0)", "`A` is a Buffer, and cannot be called"),
        ("A[0] = p[0]", "`p` is a Var, and has no elements"),
        ("A[0] = T[0]", "`T` is a module, and has no elements"),
        ('x = T.alloc_buffer((4,), "fp32")', "unknown data type 'fp32'; did you mean 'float32'"),
        ("x = T.alloc_buffer((4,), {1})", "T.alloc_buffer cannot take a tuple and a set"),
        ("T.evaluate(T.call_extern(T, T))", "the function's name as text, not a module"),
        ('T.evaluate(T.EQ("a", "b"))', "a text cannot be compared when the program runs"),
        ('x = T.Shuffle("float32", [1, 2])', "a shuffle picks lanes of vectors of numbers"),
        ('with T.attr({1}, "k", 1):\n        pass', "a set cannot be the value of an attribute"),
        ('with T.attr(object(), "k", 1):\n        pass', "an object cannot be the value of an attribute"),
        ("A[0] = A + 1", "`+` does not work on a"),
        ("A[0] = -A", "`-` does not work on a"),
        ("A[0] = ~A", "`~` does not work on a"),
        ("A[0] = n + None", "None cannot be used as a scalar value"),
        ("A[0] = None - 1", "`-` does not work on None and an int"),
        ("assert A < 1, 'x'", "`<` does not work on a"),
        ("A[0] = n in A", "`in` does not work on a"),
        ('with T.block("b"):\n        v = T.axis.spatial(8, n, "float32")', "an axis is an integer, not float32"),
        ('with T.block("b"):\n        v = T.axis.spatial((8, 0), n)', "the domain of an axis has the extent -8"),
        ('with T.block("b"):\n        T.init()\n        A[0] = 1.0', "T.init alone would take the rest of the block"),
        ('x = T.allocate_const([1, 2, 3], "int32", [2])', "T.allocate_const got 3 numbers for 2 elements"),
        ('x = T.allocate_const([1.5], "int32", [1])', "holds numbers that int32 does not"),
        ('x = T.allocate_const([300], "int8", [1])', "holds numbers that int8 does not"),
        ('x = T.allocate_const([1], "int8", [n])', "the extents of T.allocate_const are constants, not n"),
        ('x = T.allocate_const("abc", "int8", [3])', "made of numbers, not a str"),
        ("T.prefetch(A, [1, 2])", "T.prefetch of A takes 1 bounds, not 2"),
        ("A[0] = None", "None cannot be used as a scalar value"),
        ("A[0] = ARRAY", "an ndarray cannot be used as a scalar value"),
        ("T.evaluate(10**10000)", "an integer of 33220 bits is beyond every integer type"),
        ("B[0, 0] = 10**10000", "an integer of 33220 bits does not fit in B"),
        ("A[0] = 10**10000", "an integer of 33220 bits is beyond every float"),
        ("x = T.int64(1 << 9999)", "an integer of 10000 bits does not fit in int64"),
        ("x = 1 << 63", "is beyond int64; give the type, as in T.uint64(9223372036854775808)"),
        ("x = 1 << 64", "18446744073709551616 is beyond every integer type"),
    ],
)
def test_what_a_construct_cannot_hold_is_refused(line: str, reason: str) -> None:
    assert reason in refused(line, ARRAY=np.zeros(3)).reason


def test_no_message_speaks_of_the_inside() -> None:
    for line in ("x: T.int8 = 300", "x = T.alloc_buffer((4,), strides=(1, 2))", "x = T.Buffer((1.5,))"):
        text = str(refused(line))
        assert "note:" not in text
        assert "buffer  " not in text


def test_options_of_the_decorator_are_given_by_keyword() -> None:
    for options, reason in (("1", "takes its options by keyword"), ('**{"private": True}', "are written out")):
        with pytest.raises(ScriptError, match="T.prim_func") as caught:
            from_source(f"@T.prim_func({options})\ndef f():\n    T.evaluate(0)\n")
        assert reason in caught.value.reason
        assert (caught.value.line, caught.value.column) == (1, 14)


def test_a_vector_exponent_of_ldexp_makes_the_result_a_vector() -> None:
    f = from_source("@T.prim_func\ndef f(A: T.Buffer((8,), 'float32')):\n    A[0:4] = T.ldexp(A[0], T.Ramp(0, 1, 4))\n")
    assert f.body.value.dtype == "float32x4"
    tscript.ir.assert_structural_equal(from_source(f.script()), f)


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_the_floats_that_no_digits_can_write_are_constants(value: float) -> None:
    assert str(T.float32(value)) == f'T.float32("{value}")'


@pytest.mark.parametrize(
    ("annotation", "reason"),
    [
        ("T.Buffer", "T.Buffer needs `shape` too"),
        ("T.int32 | None", "`|` does not work on a type and None"),
        ("T.match_buffer", "T.match_buffer needs `param` too"),
    ],
)
def test_an_annotation_that_makes_no_parameter_is_refused_at_its_place(annotation: str, reason: str) -> None:
    with pytest.raises(ScriptError) as caught:
        from_source(f"@T.prim_func\ndef f(n: {annotation}):\n    T.evaluate(0)\n")
    assert caught.value.reason == reason
    assert (caught.value.line, caught.value.column) == (2, 10)
