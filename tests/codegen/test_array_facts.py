"""What the code says of arrays, so that LLVM may load before it knows whether it has to."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from tscript.codegen.llvm.module import emit_module
from tscript.driver import build, lower
from tscript.script import from_source


def facts(text: str) -> list[str]:
    """The attributes of the pointers that kernel `main` takes."""
    mod: Any = lower(from_source(text))
    line = next(x for x in emit_module(mod).text.split("\n") if x.startswith("define") and "main.kernel" in x)
    return [m.strip() for m in re.findall(r"ptr([^,%]*)%arg", line)]


HEAD = "@T.prim_func\ndef main({}):\n    T.func_attr({{'global_symbol': 'main'}})\n"


def test_arrays_of_known_size_are_there_as_a_whole() -> None:
    text = HEAD.format('A: T.Buffer((3, 5), "float64"), B: T.Buffer((7,), "bool"), C: T.Buffer((), "float16")')
    assert facts(text + "    C[()] = T.Cast('float16', A[1, 2])\n    B[0] = True\n") == [
        "nonnull align 8 dereferenceable(120)",
        "nonnull align 1 dereferenceable(7)",
        "nonnull align 2 dereferenceable(2)",
    ]


def test_nothing_is_said_of_arrays_that_may_be_empty_or_have_gaps() -> None:
    text = HEAD.format('a: T.handle, b: T.handle, C: T.Buffer((0, 4), "float32"), D: T.Buffer((4,), "float32")')
    body = "    n = T.int32()\n    s = T.int32()\n    A = T.match_buffer(a, (n,))\n"
    body += "    B = T.match_buffer(b, (4, 4), strides=(s, 1))\n"
    body += "    for i in range(4):\n        D[i] = A[i % n] + B[i, 0] + C[0, i]\n"
    assert facts(text + body) == ["", "", "", "nonnull align 4 dereferenceable(16)"]


def test_nothing_is_said_of_arrays_that_other_kernels_pass() -> None:
    mod = from_source(
        """
@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((8,), "float32")):
        T.func_attr({"global_symbol": "main"})
        A[0] = T.float32(1)
    @T.prim_func
    def outer(A: T.Buffer((8,), "float32")):
        T.func_attr({"global_symbol": "outer"})
        Module.main(T.address_of(A[4]))
"""
    )
    lowered: Any = lower(mod)
    lines = [x for x in emit_module(lowered).text.split("\n") if x.startswith("define") and ".kernel" in x]
    assert [("dereferenceable" in x) for x in sorted(lines, key=lambda x: "outer" in x)] == [False, True]
    a = np.zeros(8, "float32")
    build(mod)["outer"](a)
    assert a[4] == 1 and a.sum() == 1


def test_loads_that_do_not_happen_are_harmless() -> None:
    text = HEAD.format('A: T.Buffer((4,), "float32"), B: T.Buffer((16,), "float32"), n: T.int32')
    f = build(from_source(text + "    for i in range(16):\n        if i < n:\n            B[i] = A[i]\n"))
    for n in range(5):
        b = np.zeros(16, "float32")
        f(np.arange(4, dtype="float32") + 1, b, n)
        np.testing.assert_array_equal(b[:n], np.arange(n) + 1)
        assert not b[n:].any()
