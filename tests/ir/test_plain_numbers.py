"""Constructors of nodes take Python numbers where an expression belongs, and say what else is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tscript import tir
from tscript.ir.structural import structural_equal

i, n, x = tir.Var("i", "int32"), tir.Var("n", "int64"), tir.Var("x", "float16")
flag = tir.Var("flag", "bool")
A = tir.decl_buffer((4, 4), "int8", name="A")
nothing = tir.Evaluate(tir.IntImm("int32", 0))


def const(value: float, dtype: str) -> Any:
    return tir.const(value, dtype)


@pytest.mark.parametrize(
    ("made", "dtype"),
    [
        (lambda: tir.Add(i, 5), "int32"),
        (lambda: tir.Add(5, n), "int64"),
        (lambda: tir.Mul(x, 2), "float16"),
        (lambda: tir.FloorDiv(n, 3), "int64"),
        (lambda: tir.Max(1, 2), "int32"),
        (lambda: tir.LT(n, 5), "bool"),
        (lambda: tir.And(flag, True), "bool"),
        (lambda: tir.Not(False), "bool"),
        (lambda: tir.Select(flag, 1, n), "int64"),
        (lambda: tir.Select(True, x, 0.5), "float16"),
        (lambda: tir.Cast("int64", 5), "int64"),
        (lambda: tir.Ramp(n, 1, 4), "int64x4"),
        (lambda: tir.Broadcast(1.5, 4), "float32x4"),
        (lambda: tir.Let(n, 5, n), "int64"),
        (lambda: tir.BufferLoad(A, [0, i]), "int8"),
    ],
)
def test_numbers_take_the_type_of_what_stands_beside_them(made: Callable[[], Any], dtype: str) -> None:
    assert made().dtype == dtype
    # The same form is the same object.
    assert made() is made()


def test_the_constant_is_the_one_that_would_have_been_written() -> None:
    assert tir.Add(n, 5) is tir.Add(n, const(5, "int64"))
    assert tir.BufferLoad(A, [0, i]) is tir.BufferLoad(A, [const(0, "int32"), i])


def test_statements() -> None:
    store = tir.BufferStore(A, 3, [0, 1])
    assert store.value is const(3, "int8")
    loop = tir.For(n, 0, 8, tir.ForKind.SERIAL, nothing)
    assert loop.min is const(0, "int64")
    assert loop.extent is const(8, "int64")
    branch = tir.IfThenElse(True, nothing, None)
    assert branch.condition is const(1, "bool")
    let = tir.LetStmt(x, 5, nothing)
    assert let.value is const(5, "float16")
    assert structural_equal(store, tir.BufferStore(A, const(3, "int8"), [const(0, "int32"), const(1, "int32")]))


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (lambda: tir.Add(i, "x"), "the field 'b' of Add is an expression or a number, not 'x'"),
        (lambda: tir.Add(None, i), "the field 'a' of Add is an expression or a number, not None"),
        (lambda: tir.Add(i, 2.5), "operands of one type"),
        (lambda: tir.BufferLoad(A, [0, "j"]), "the field 'indices' of BufferLoad"),
        (lambda: tir.Broadcast(1j, 4), "the field 'value' of Broadcast"),
        (lambda: tir.For(i, 0, None, tir.ForKind.SERIAL, nothing), "the field 'extent' of For"),
    ],
)
def test_what_is_no_number_is_named(made: Callable[[], Any], text: str) -> None:
    with pytest.raises(TypeError, match=text):
        made()
