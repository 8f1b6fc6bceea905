"""Vectors over packed layouts: indices with quotients and remainders that all lanes share are neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tscript import interp
from tscript.driver import build, lower
from tscript.script import from_source


def packed(index: str, lanes: int, extent: int = 1) -> Any:
    return from_source(
        "@T.prim_func\ndef f(A: T.Buffer((4096,), 'int32'), B: T.Buffer((4096,), 'int32')):\n"
        "    T.func_attr({'global_symbol': 'f', 'tir.noalias': True})\n"
        f"    for o in range({extent}):\n        for v in T.vectorized({lanes}):\n"
        f"            B[{index}] = A[o * {lanes} + v] + 1\n"
    )


NEIGHBOURS = {
    "in a panel": ("(o * 16 + v) // 32 * 512 + (o * 16 + v) % 32", 16, 8),
    "with a constant": ("(o * 32 + 16 + v) // 32 * 512 + (o * 32 + 16 + v) % 32", 16, 8),
    "a negative part": ("(v - o * 32 + 224) // 32 * 512 + (v - o * 32 + 224) % 32", 16, 8),
    "every second": ("(o * 32 + v * 2) // 32 * 512 + (o * 32 + v * 2) % 32", 16, 8),
    "panels of 48": ("(o * 16 + v) // 48 * 512 + (o * 16 + v) % 48", 16, 6),
}
APART = {
    "across two panels": ("(o * 16 + 8 + v) // 32 * 512 + (o * 16 + 8 + v) % 32", 16, 8),
    "panels shorter than the vector": ("(o * 16 + v) // 8 * 512 + (o * 16 + v) % 8", 16, 3),
    "panels that vectors do not fill": ("(o * 16 + v) // 24 * 512 + (o * 16 + v) % 24", 16, 4),
}


@pytest.mark.parametrize("case", [*NEIGHBOURS, *APART])
def test_lanes_of_one_panel_are_neighbours_and_others_are_right_too(case: str) -> None:
    func = packed(*{**NEIGHBOURS, **APART}[case])
    text = lower(func)["f"].script()
    store = next(line for line in text.splitlines() if "B[" in line and "=" in line)
    assert ("Broadcast(512" in store) == (case in APART), store
    a = np.arange(4096, dtype=np.int32)
    expected, native = np.zeros((2, 4096), np.int32)
    interp.run(func, a, expected)
    build(func)["f"](a, native)
    assert expected.any() and native.tolist() == expected.tolist()
