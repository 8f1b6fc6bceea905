"""What te refuses before a wrong program comes of it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tscript
from tscript import interp, te
from tscript.ir import construct as make
from tscript.ir.buffer import decl_buffer
from tscript.ir.expr import Let
from tscript.script import tir as T
from tscript.support.errors import ScriptError

A = te.placeholder((4, 8), name="A")
V = te.placeholder((4,), name="V")
K = te.reduce_axis((0, 8), "k")


@pytest.mark.parametrize(
    ("function", "what"),
    [
        (lambda i, j: "text", "returns a str"),
        (lambda i, j: A[-1, j], "subscript 0 of tensor A is -1, outside its shape"),
        (lambda i, j: A[i, 8], "subscript 1 of tensor A is 8, outside its shape"),
        (lambda i, j: te.sum(A[i, K], axis=K, init=A[i, K]), "init= of sum depends on the axis k"),
        (lambda i, j: (A[i, j], None), "returns nothing"),
        (lambda i, j: 2**70, "beyond every integer type"),
        (lambda i, j: A[i, j] + "a", "a text takes no arithmetic"),
        (lambda i, j: {}, "a dict cannot be used"),
    ],
)
def test_a_function_that_gives_no_element_is_refused_at_its_line(function: Callable[..., Any], what: str) -> None:
    with pytest.raises(ScriptError, match=what) as caught:
        te.compute((4, 8), function, name="B")
    assert caught.value.line == function.__code__.co_firstlineno


@pytest.mark.parametrize(
    ("shape", "error", "what"),
    [
        ((-1,), ValueError, "at least 0"),
        ((2.5,), ValueError, "whole numbers"),
        ((float("inf"),), ValueError, "whole numbers"),
        ((True,), TypeError, "integers"),
        ((te.var("n", "int8"),), TypeError, "int32 or int64"),
        ((te.var("n", "uint32"),), TypeError, "int32 or int64"),
        ((1 << 70,), ValueError, "beyond"),
    ],
)
def test_shapes_that_no_tensor_has_are_refused(shape: Any, error: type[Exception], what: str) -> None:
    with pytest.raises(error, match=what):
        te.placeholder(shape)


def test_sizes_of_other_integer_types_become_plain_ones() -> None:
    assert te.placeholder((np.uint8(3), 2.0)).shape == te.placeholder((3, 2)).shape


@pytest.mark.parametrize(
    "stray", [lambda i: A[i, K], lambda i: A[i, te.var("k")], lambda i: V[i] + K.var.astype("float32")]
)
def test_a_variable_that_nothing_gives_a_value_is_named(stray: Any) -> None:
    with pytest.raises(ValueError, match=r"the compute `B` uses the variable k.*reduce over it"):
        te.create_prim_func([A, V, te.compute((4,), stray, name="B")])


def test_variables_are_given_by_the_list_by_sizes_and_by_lets() -> None:
    n, scale, x = te.var("n"), te.var("scale", "float32"), te.var("x", "float32")
    data = te.placeholder((n,), name="D")
    out = te.compute((n,), lambda i: Let(x, data[i] * scale, x * x + n.astype("float32")), name="O")
    func = te.create_prim_func([scale, data, out])
    a, b = np.arange(3, dtype=np.float32), np.zeros(3, np.float32)
    tscript.build(func)(2.0, a, b)
    np.testing.assert_array_equal(b, (a * 2) ** 2 + 3)


def test_nothing_is_listed_twice() -> None:
    n = te.var("n")
    with pytest.raises(ValueError, match="variable n is listed twice"):
        te.create_prim_func([n, n, A])
    with pytest.raises(ValueError, match="tensor A is listed twice"):
        te.create_prim_func([A, A])


def test_attributes_name_tensors_of_the_computation_only() -> None:
    out = te.compute((4,), lambda i: V[i], attrs={"other": A}, name="B")
    with pytest.raises(ValueError, match="no part of this computation"):
        te.create_prim_func([V, out])


def nothing(ins: Any, outs: Any) -> Any:
    return make.const(0)


def test_buffers_of_an_extern_are_those_of_its_tensors() -> None:
    short, wide = decl_buffer((4,)), decl_buffer((9,))
    for options, what in (
        ({"in_buffers": [short, short]}, "in_buffers has 2 buffers for 1 tensors"),
        ({"in_buffers": wide}, r"is float32\[9\], but its tensor float32\[4\]"),
        ({"out_buffers": [decl_buffer((4,), "int32")]}, r"is int32\[4\], but its tensor float32\[4\]"),
    ):
        with pytest.raises(ValueError, match=what):
            te.extern((4,), [V], nothing, **options)
    with pytest.raises(TypeError, match="the inputs of an extern are tensors, not an int"):
        te.extern((4,), [3], nothing)  # type: ignore[list-item]


@T.prim_func
def plus_one(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    for i in range(4):
        B[i] = A[i] + 1.0


def test_a_function_is_wrapped_around_tensors_of_its_own_sizes_only() -> None:
    out = te.extern_primfunc([V], plus_one)
    a, b = np.ones(4, np.float32), np.zeros(4, np.float32)
    tscript.build(te.create_prim_func([V, out]))(a, b)
    assert (b == 2).all()
    for given in (te.placeholder((3,)), te.placeholder((4,), "int32"), te.placeholder((2, 2))):
        with pytest.raises(ValueError, match=r"the buffer A is float32\[4\], but its tensor"):
            te.extern_primfunc([given], plus_one)


@pytest.mark.parametrize("names", [("x.y", "x_y"), ("T", "main"), ("a b", ""), ("1", "lambda"), ("root", "root")])
def test_any_names_build_a_program_that_reads_back(names: tuple[str, str]) -> None:
    first, second = names
    x, y = te.placeholder((4,), name=first), te.placeholder((4,), name=second)
    s = te.compute((4,), lambda i: x[i] + y[i], name=first)
    d = te.compute((4,), lambda i: s[i] * 2.0, name=second)
    func = te.create_prim_func([y, d, x])
    again = tscript.script.from_source(func.script())
    a, b = np.arange(4, dtype=np.float32), np.ones(4, np.float32)
    for run in (tscript.build(func), tscript.build(again), lambda *args: interp.run(func, *args)):
        out = np.zeros(4, np.float32)
        run(b, out, a)
        np.testing.assert_array_equal(out, (a + b) * 2)


def test_axes_over_the_domains_of_other_axes_run_where_the_domain_is_empty_too() -> None:
    square = te.placeholder((6, 6), name="X")

    def triangle(i: Any) -> Any:
        k = te.reduce_axis((0, i), "k")
        m = te.reduce_axis((k, i), "m")
        return te.sum(square[k, m], axis=[k, m])

    func = te.create_prim_func([square, te.compute((6,), triangle, name="B")])
    a = np.random.default_rng(0).random((6, 6), np.float32)
    want = [sum(a[k, m] for k in range(i) for m in range(k, i)) for i in range(6)]
    for run in (tscript.build(func), lambda *args: interp.run(func, *args)):
        out = np.full(6, np.nan, np.float32)
        run(a, out)
        np.testing.assert_allclose(out, want, rtol=1e-5)


def test_an_identity_that_changes_values_is_refused_at_its_line() -> None:
    product = te.comm_reducer(lambda x, y: x * y, lambda t: te.const(0, t), name="product")
    with pytest.raises(ScriptError, match="`product` starts from 0.0, which is no identity of it") as caught:
        te.compute((4,), lambda i: product(A[i, K], axis=K))
    assert caught.value.line == product.fidentity.__code__.co_firstlineno
    pair = te.comm_reducer(
        lambda x, y: (x[0] + y[0], x[1] * y[1]), lambda a, b: (te.const(0, a), te.const(2, b)), name="pair"
    )
    with pytest.raises(ScriptError, match=r"no identity of it.*gives"):
        te.compute((4,), lambda i: pair((A[i, K], A[i, K]), axis=K))


def reduced(reduction: Any, x: Any, i: Any) -> Any:
    return reduction(x[K], axis=K)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int64", "float16", "bfloat16", "float8_e4m3fn", "float64"])
def test_the_reductions_of_the_library_have_identities(dtype: str) -> None:
    x = te.placeholder((8,), dtype)
    for reduction in (te.sum, te.prod, te.min, te.max) if dtype != "bool" else (te.min, te.max):
        assert te.compute((1,), functools.partial(reduced, reduction, x), name="S").dtype == dtype
