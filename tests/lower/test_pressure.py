"""Which tiles are said to be too large for the registers of a target, and that they are right all the same."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from tscript import te
from tscript.driver import build, lower
from tscript.lower.pressure import RegisterFile, find_spills
from tscript.schedule import Schedule


def tiled(rows: int, vectors: int, lanes: int = 16) -> Any:
    m, n, k = rows * 2, vectors * lanes * 2, 8
    a, b = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    r = te.reduce_axis((0, k), "k")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")
    s = Schedule(te.create_prim_func([a, b, c]))
    block = s.get_block("C")
    i, j, rk = s.get_loops(block)
    i0, i1 = s.split(i, [None, rows])
    j0, j1, j2 = s.split(j, [None, vectors, lanes])
    s.reorder(i0, j0, rk, i1, j1, j2)
    s.unroll(i1)
    s.unroll(j1)
    s.vectorize(j2)
    s.decompose_reduction(block, rk)
    return s.mod


AVX512, AVX2, SSE2 = RegisterFile(32, 64), RegisterFile(16, 32), RegisterFile(16, 16)


@pytest.mark.parametrize(
    ("rows", "vectors", "lanes", "file", "held"),
    [
        (8, 2, 16, AVX512, None),
        (14, 2, 16, AVX512, None),
        (6, 4, 16, AVX512, None),
        (16, 2, 16, AVX512, 32),
        (8, 4, 16, AVX512, 32),
        (6, 2, 8, AVX2, None),
        (8, 2, 8, AVX2, 16),
        (8, 2, 16, AVX2, 32),
        (3, 4, 4, SSE2, None),
        (4, 4, 4, SSE2, 16),
    ],
)
def test_accumulators_and_operands_are_counted(
    rows: int, vectors: int, lanes: int, file: RegisterFile, held: int | None
) -> None:
    spills = find_spills(lower(tiled(rows, vectors, lanes))["main"], file)
    assert [s.held for s in spills] == ([] if held is None else [held])
    if spills:
        (spill,) = spills
        assert (spill.loop, spill.tile.rstrip("_1"), spill.available) == ("k", "C", file.count)


def test_a_build_says_once_what_spills_and_where() -> None:
    mod = tiled(8, 4)
    with pytest.warns(UserWarning, match="loop over k keeps the tile C") as caught:
        lib = build(mod, target="llvm -mcpu=haswell")
    (one,) = caught
    assert "the target has 16" in str(one.message) and "try: unroll or vectorize less" in str(one.message)
    assert one.filename == __file__
    a, b = np.random.default_rng(0).random((2, 128, 128), np.float32)
    a, b, c = a[:16, :8].copy(), b[:8, :128].copy(), np.empty((16, 128), np.float32)
    lib["main"](a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-5)


def test_a_tile_that_fits_is_not_mentioned() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        build(tiled(4, 2, 8), target="llvm -mcpu=haswell")
