"""The language part of a published TensorIR tutorial runs as written, with only the imports renamed."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np

PROGRAM = Path(__file__).with_name("mm_relu_language.py")


def test_the_article_runs_as_written_and_agrees_with_numpy():
    ran = runpy.run_path(str(PROGRAM), run_name="article")
    np.testing.assert_allclose(ran["c_nd"].numpy(), ran["c_mm_relu"], rtol=1e-5)
    assert isinstance(ran["MyModule"], ran["IRModule"])


def test_the_module_prints_as_the_article_shows_blocks():
    text = runpy.run_path(str(PROGRAM), run_name="article")["MyModule"].script()
    assert text.splitlines()[:2] == ["# from tvm.script import ir as I", "# from tvm.script import tir as T"]
    assert 'T.func_attr({"tir.noalias": T.bool(True)})' in text
    assert '        # with T.block("root"):\n        Y = T.alloc_buffer((128, 128))\n' in text
    assert '                vi, vj, vk = T.axis.remap("SSR", [i, j, k])\n' in text
