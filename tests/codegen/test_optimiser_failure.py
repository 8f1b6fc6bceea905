"""When LLVM's optimiser fails, less optimised code is better than none."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from tscript.codegen.llvm import module
from tscript.driver import build
from tscript.script import tir as T
from tscript.support.errors import BuildError


@T.prim_func
def add(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    T.func_attr({"global_symbol": "add", "tir.noalias": True})
    for i in range(8):
        B[i] = A[i] + 1


def failing_above(limit: int, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    tried: list[int] = []
    real = module._optimise

    def optimise(code: Any, machine: Any, level: int) -> None:
        tried.append(level)
        if level > limit:
            raise RuntimeError("out of luck")
        real(code, machine, level)

    monkeypatch.setattr(module, "_optimise", optimise)
    return tried


def test_a_lower_level_is_taken_with_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = failing_above(1, monkeypatch)
    with pytest.warns(UserWarning, match="at optimisation level [32].*out of luck"):
        lib = build(add)
    assert tried == [3, 2, 1]
    a, b = np.arange(8, dtype=np.int32), np.zeros(8, np.int32)
    lib["add"](a, b)
    assert b.tolist() == (a + 1).tolist()


def test_a_failure_at_every_level_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    failing_above(-1, monkeypatch)
    with pytest.warns(UserWarning), pytest.raises(BuildError, match="every optimisation level: out of luck"):
        build(add)


@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_every_level_can_be_asked_for(level: int, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = failing_above(3, monkeypatch)
    a, b = np.arange(8, dtype=np.int32), np.zeros(8, np.int32)
    build(add, target=f"llvm -opt-level={level}")["add"](a, b)
    assert tried == [level] and b.tolist() == (a + 1).tolist()


def test_several_threads_compile_at_once() -> None:
    def one(n: int) -> list[int]:
        a, b = np.full(8, n, np.int32), np.zeros(8, np.int32)
        build(add, target=("llvm", "llvm -mcpu=haswell", "llvm -mcpu=x86-64")[n % 3])["add"](a, b)
        return b.tolist()

    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(one, range(24))) == [[n + 1] * 8 for n in range(24)]
