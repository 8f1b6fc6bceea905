"""Loops that annotations leave to the compiler to unroll."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tscript import interp
from tscript.driver import build, lower
from tscript.script import from_source


def nest(annotations: str) -> Any:
    return from_source(
        "@T.prim_func\ndef f(A: T.Buffer((6, 4, 3), 'int32'), B: T.Buffer((6, 4, 3), 'int32')):\n"
        "    T.func_attr({'global_symbol': 'f', 'tir.noalias': True})\n"
        f"    for i in T.serial(6, annotations={annotations}):\n        for j in range(4):\n"
        "            for k in range(3):\n                B[i, j, k] = A[i, j, k] * 2\n"
    )


@pytest.mark.parametrize(
    ("annotations", "loops"),
    [
        ("{}", 3),
        ("{'pragma_auto_unroll_max_step': 2}", 3),
        ("{'pragma_auto_unroll_max_step': 3}", 2),
        ("{'pragma_auto_unroll_max_step': 12}", 1),
        ("{'pragma_auto_unroll_max_step': 72}", 0),
        ("{'pragma_auto_unroll_max_step': 72, 'pragma_unroll_explicit': 1}", 0),
        ("{'pragma_auto_unroll_max_step': 72, 'pragma_unroll_explicit': 0}", 3),
    ],
)
def test_loops_of_few_steps_become_copies(annotations: str, loops: int) -> None:
    func = nest(annotations)
    text = lower(func)["f"].script()
    stores = text.count("B_1[")
    assert stores == {3: 1, 2: 3, 1: 12, 0: 72}[loops]
    a = np.arange(72, dtype=np.int32).reshape(6, 4, 3)
    expected, native = np.zeros((2, 6, 4, 3), np.int32)
    interp.run(func, a, expected)
    build(func)["f"](a, native)
    assert native.tolist() == expected.tolist() == (a * 2).tolist()


def test_a_long_loop_below_a_large_limit_stays() -> None:
    func = from_source(
        "@T.prim_func\ndef f(A: T.Buffer((70000,), 'int32')):\n    T.func_attr({'global_symbol': 'f'})\n"
        "    for i in T.serial(70000, annotations={'pragma_auto_unroll_max_step': 1000000}):\n        A[i] = i\n"
    )
    assert lower(func)["f"].script().count("A[") == 1
    a = np.zeros(70000, np.int32)
    build(func)(a)
    np.testing.assert_array_equal(a, np.arange(70000))
