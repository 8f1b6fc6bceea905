"""Mistakes in lambdas are told at the line and column where they stand."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from tscript import te
from tscript.support.errors import ScriptError

A = te.placeholder((4, 8), name="A")
I8 = te.placeholder((4, 8), "int8", name="I8")
K = te.reduce_axis((0, 8), "k")
DIFFERENCE = te.comm_reducer(lambda x, y: x - y, lambda t: te.const(0, t), name="difference")
LAST = te.comm_reducer(lambda x, y: y, lambda t: te.const(0, t), name="last")

CASES: list[tuple[Callable[..., Any], str, str]] = [
    (lambda i, j: A[i, j, i], "A[i, j, i]", "takes 2 subscripts, but 3 were given"),
    (lambda i, j: A[i, 0.5], "A[i, 0.5]", "subscripts are integers"),
    (lambda i, j: A[i, j] + unknown, "unknown", "name 'unknown' is not defined"),  # pyright: ignore[reportUndefinedVariable]
    (lambda i, j: te.exp(i), "te.exp(i)", "exp takes floats, not int32"),
    (
        lambda i, j: te.if_then_else(i < 2, A[i, j], I8[i, j]),
        "te.if_then_else(i < 2, A[i, j], I8[i, j])",
        "differ in type",
    ),
    (lambda i, j: i / j, "i / j", "rounded either way"),
    (lambda i, j: A[i, j] if i < 2 else 0.0, "A[i, j] if i < 2 else 0.0", "known only when the program runs"),
    (lambda i, j: te.sum(A[i, j], axis=i), "te.sum(A[i, j], axis=i)", "reduces over te.reduce_axis"),
    (lambda i, j: te.sum(A[i, K], axis=[K, K]), "te.sum(A[i, K], axis=[K, K])", "names an axis twice"),
    (lambda i, j: te.sum(A[i, K], axis=K, where=K.var), "te.sum(A[i, K], axis=K, where=K.var)", "is a condition"),
    (lambda i, j: A[0:2, j], "A[0:2, j]", "takes no slices"),
    (lambda i, j: A.nothing, "A.nothing", "nothing"),
]


def source_of(error: ScriptError) -> str:
    span = error.span
    assert span is not None
    line = span.source_line()
    assert line is not None
    return line[span.column - 1 : span.end_column - 1]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="columns of instructions exist from Python 3.11 on")
@pytest.mark.parametrize(("function", "where", "what"), CASES, ids=[w for _, w, _ in CASES])
def test_a_mistake_is_told_at_its_expression(function: Callable[..., Any], where: str, what: str) -> None:
    with pytest.raises(ScriptError) as caught:
        te.compute((4, 8), function, name="B")
    assert what in str(caught.value)
    assert caught.value.file == __file__
    assert source_of(caught.value) in where
    assert caught.value.line == function.__code__.co_firstlineno


@pytest.mark.parametrize("reducer", [DIFFERENCE, LAST], ids=["difference", "last"])
def test_a_combiner_that_depends_on_the_order_is_refused_at_its_line(reducer: Any) -> None:
    with pytest.raises(ScriptError, match="depends on the order") as caught:
        te.compute((4,), lambda i: reducer(A[i, K], axis=K))
    assert caught.value.line == reducer.fcombine.__code__.co_firstlineno


def test_what_a_function_returns_is_checked_at_the_function() -> None:
    for function, what in (
        (lambda i, j: None, "returns nothing"),
        (lambda i, j: A, "returns the whole tensor"),
        (lambda i, j: te.sum(A[i, K], axis=K) + 1.0, "whole result"),
        (lambda i, j: (te.sum(A[i, K], axis=K), A[i, j]), "all results of a compute are reductions, or none"),
        (lambda i, j: "text", "returns a str"),
    ):
        with pytest.raises(ScriptError, match=what) as caught:
            te.compute((4, 8), function, name="B")
        assert caught.value.line == function.__code__.co_firstlineno


def test_parameters_must_fit_the_shape() -> None:
    with pytest.raises(ScriptError, match="takes 3 axes"):
        te.compute((4, 8), lambda i, j, k: A[i, j])
    with pytest.raises(ScriptError, match="takes no axes"):
        te.compute((4, 8), lambda: 1.0)
    with pytest.raises(ScriptError, match="no plain parameter"):
        te.compute((4, 8), lambda i, j=3: A[i, j])
    with pytest.raises(TypeError, match="a shape is a tuple"):
        te.compute(4, lambda i: 1.0)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="dimensions are integers"):
        te.placeholder((te.var("x", "float32"),))


def test_reducer_of_the_wrong_arity_is_refused() -> None:
    pair = te.comm_reducer(lambda x, y: (x[0], y[1]), lambda a, b: (te.const(0, a), te.const(0, b)), name="pair")
    with pytest.raises(ScriptError):
        te.compute((4,), lambda i: pair(A[i, K], axis=K))


def test_fold_of_plain_expressions() -> None:
    assert te.sum(te.const(1), te.const(2), te.const(3)).value == 6
    with pytest.raises(ValueError, match="give an axis"):
        te.sum(te.const(1), te.const(2), init=3)
