"""Kernels may use any name, also one that the generated Python needs for itself."""

import re

import numpy as np
import pytest

from tscript import interp
from tscript.interp import machine
from tscript.interp.emit import Options
from tscript.script import from_source

SOURCE = """
@I.ir_module
class M:
    @T.prim_func
    def main(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32"), n: T.int32):
        for i in range(n):
            with T.block("b"):
                vi = T.axis.spatial(n, i)
                B[vi] = M.sq(A[vi]) * 3.0 + 1.0

    @T.prim_func(private=True)
    def sq(x: T.float32) -> T.float32:
        return x * x
"""
HELPERS = sorted(machine._namespace(Options()))
PYTHON = ["int", "float", "min", "len", "memoryview", "print", "None_", "lambda_", "self"]
GENERATED = ["q", "_q", "_run", "run_main", "fn_sq", "_fn_sq", "m_A", "o_A", "A_handle", "t", "h", "h_1", "A_1", "_"]


@pytest.mark.parametrize("name", [*GENERATED, *PYTHON, *HELPERS])
@pytest.mark.parametrize("renamed", ["i", "vi", "A", "n", "sq"])
def test_a_kernel_may_use_every_name(name: str, renamed: str) -> None:
    text = re.sub(rf"\b{renamed}\b", name, SOURCE)
    a, b = np.arange(4, dtype="float32"), np.zeros(4, "float32")
    interp.run(from_source(text), a, b, 4)
    assert b.tolist() == (a * a * 3 + 1).tolist()
