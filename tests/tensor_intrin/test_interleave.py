"""Rows put side by side by shuffles."""

from __future__ import annotations

import numpy as np
import pytest

import tscript
from tscript.ir.dtype import DataType
from tscript.ir.semantics import numpy_dtype
from tscript.script import from_source
from tscript.tensor_intrin.interleave import INTERLEAVED, get_interleave_intrin, interleave_intrin

SOURCE = """@T.prim_func
def main(B: T.Buffer(({depth}, 48), "{dtype}"), P: T.Buffer(({parts}, 48, {rows}), "{dtype}")):
    T.func_attr({{"global_symbol": "main", "tir.noalias": True}})
    for k, i, j in T.grid({parts}, {rows}, 48):
        with T.block("P"):
            vk, vi, vj = T.axis.remap("SSS", [k, i, j])
            P[vk, vj, vi] = B[vk * {rows} + vi, vj]
"""


@pytest.mark.parametrize(("dtype", "rows"), INTERLEAVED)
@pytest.mark.parametrize("mcpu", ["x86-64", "haswell", "sapphirerapids"])
def test_elements_of_a_column_lie_side_by_side(dtype, rows, mcpu):
    parts = 3
    sch = tscript.tir.Schedule(from_source(SOURCE.format(depth=parts * rows, parts=parts, rows=rows, dtype=dtype)))
    k, i, j = sch.get_loops("P")
    j0, j1 = sch.split(j, [None, 16])
    sch.reorder(k, j0, i, j1)
    sch.tensorize(i, interleave_intrin(dtype, rows))
    assert "T.Shuffle" in str(sch.mod)
    bits = np.random.default_rng(0).integers(-128, 128, parts * rows * 48 * DataType(dtype).bytes).astype(np.int8)
    source = bits.view(numpy_dtype(DataType(dtype))).reshape(parts * rows, 48)
    made = np.zeros((parts, 48, rows), source.dtype)
    tscript.build(sch.mod, f"llvm -mcpu={mcpu}")["main"](source, made)
    want = source.reshape(parts, rows, 48).transpose(0, 2, 1)
    assert made.tobytes() == np.ascontiguousarray(want).tobytes()


def test_other_numbers_of_rows_are_refused():
    with pytest.raises(ValueError, match="two or four rows"):
        get_interleave_intrin("int8", 3)
