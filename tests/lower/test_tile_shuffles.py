"""Tiles written by rows and read by columns stay in registers; anything else stays in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tscript.driver import build, lower
from tscript.schedule import Schedule
from tscript.script import from_source
from tscript.testing.workloads import transpose


def tiled(n: int, m: int, lanes: int, blocks: int = 1) -> Any:
    """The transpose in tiles, blocks of which make the rows of the local memory longer than a tile."""
    s = Schedule(transpose(n, m).func)
    block = s.get_block("B")
    local = s.cache_read(block, 0, "local")
    i, j = s.get_loops(block)
    i2, i0, i1 = s.split(i, [None, blocks, lanes])
    j0, j1 = s.split(j, [None, lanes])
    s.reorder(i2, j0, i0, i1, j1)
    s.compute_at(local, i0)
    row, lane = s.get_loops(local)[-2:]
    for loop in (lane, j1):
        s.vectorize(loop)
    for loop in (row, i1):
        s.unroll(loop)
    s.parallel(i2)
    return s.mod


@pytest.mark.parametrize("lanes", [4, 8, 16])
@pytest.mark.parametrize("blocks", [1, 2])
@pytest.mark.parametrize("target", ["llvm", "llvm -mcpu=haswell", "llvm -mcpu=x86-64"])
def test_a_tile_is_turned_by_shuffles_of_two_vectors(lanes: int, blocks: int, target: str) -> None:
    mod = tiled(64, 96, lanes, blocks)
    text = lower(mod)["main"].script()
    assert text.count("T.Shuffle") == lanes * (lanes.bit_length() - 1)
    assert "local" not in text
    a = np.random.default_rng(0).random((64, 96), np.float32)
    b = np.empty((96, 64), np.float32)
    build(mod, target=target)["main"](a, b)
    np.testing.assert_array_equal(b, a.T)
    assert "gather" not in build(mod, target=target).get_source("ll")


SOURCE = """
@T.prim_func
def main(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32"), C: T.Buffer((32,), "float32")):
    T.func_attr({"global_symbol": "main", "tir.noalias": True})
    t = T.alloc_buffer((32,), scope="local")
    t[0:4] = A[0:4]
    t[4:8] = A[4:8]
    t[8:12] = A[8:12]
    t[12:16] = A[12:16]
BODY
"""


@pytest.mark.parametrize(
    ("body", "is_tile"),
    [
        ("    B[0:4] = t[0:16:4]\n    B[4:8] = t[3:19:4]", True),
        ("    B[0:4] = t[0:16:4] + t[1:17:4]", True),
        # A column that goes past the tile.
        ("    t[16:20] = A[0:4]\n    B[0:4] = t[4:20:4]", False),
        # The tile changes on the way.
        ("    B[0:4] = t[0:16:4]\n    t[0:4] = A[8:12]\n    B[4:8] = t[0:16:4]", False),
        # Another statement reads it too.
        ("    B[0:4] = t[0:16:4]\n    for i in range(4):\n        B[8 + i] = t[i]", False),
        ("    B[0:4] = t[0:16:4]\n    B[4:8] = t[4:8]", False),
    ],
)
def test_only_whole_tiles_are_turned(body: str, is_tile: bool) -> None:
    func = from_source(SOURCE.replace("BODY", body))
    assert ("T.Shuffle" in lower(func)["main"].script()) == is_tile
    a, b, c = np.arange(16, dtype=np.float32), np.zeros(16, np.float32), np.zeros(32, np.float32)
    build(func)["main"](a, b, c)
    t = np.concatenate([a, a])
    expected = np.zeros(16, np.float32)
    if "t[3:19:4]" in body:
        expected[:4], expected[4:8] = t[0:16:4], t[3:19:4]
    elif "+" in body and "8 + i" not in body:
        expected[:4] = t[0:16:4] + t[1:17:4]
    elif "t[16:20]" in body:
        expected[:4] = t[4:20:4]
    elif "A[8:12]" in body:
        expected[:4] = t[0:16:4]
        t[0:4] = a[8:12]
        expected[4:8] = t[0:16:4]
    elif "8 + i" in body:
        expected[:4], expected[8:12] = t[0:16:4], t[:4]
    else:
        expected[:4], expected[4:8] = t[0:16:4], t[4:8]
    np.testing.assert_array_equal(b, expected)
