"""Many small kernels in one module: a build for each would take most of the time."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tscript.driver import build
from tscript.ir import stmt as st
from tscript.ir.buffer import decl_buffer
from tscript.ir.construct import const
from tscript.ir.dtype import DataType
from tscript.ir.expr import PrimExpr, Ramp, Var
from tscript.ir.function import IRModule, PrimFunc
from tscript.ir.semantics import numpy_dtype
from tscript.runtime.module import Module


def loop(var: Var, extent: Any, body: st.Stmt, kind: int = st.ForKind.SERIAL, start: Any = 0) -> st.For:
    """A loop over `var`."""
    begin = start if isinstance(start, PrimExpr) else const(start, var.dtype)
    end = extent if isinstance(extent, PrimExpr) else const(extent, var.dtype)
    return st.For(var, begin, end, kind, body)


def kernel(params: list[Any], body: st.Stmt, name: str = "main", no_alias: bool = True) -> PrimFunc:
    """A public function."""
    attrs = {"global_symbol": name, **({"tir.noalias": True} if no_alias else {})}
    return PrimFunc(params, body, None, None, attrs)


class Elementwise:
    """Kernels that apply an expression to the elements of arrays, collected into one module."""

    def __init__(self) -> None:
        self._functions: dict[str, PrimFunc] = {}
        self._built: Module | None = None

    def add(self, inputs: list[str], output: str, count: int, expression: Any, lanes: int = 1) -> str:
        """A kernel for `expression(*elements)`; vectors of `lanes` with `lanes` > 1. Its name."""
        name = f"k{len(self._functions)}"
        ins = [decl_buffer((count,), d, name=f"x{n}") for n, d in enumerate(inputs)]
        out = decl_buffer((count,), output, name="out")
        i = Var("i")
        if lanes == 1:
            body = st.BufferStore(out, expression(*(b[i] for b in ins)), (i,))
            nest = loop(i, count, body)
        else:
            assert count % lanes == 0
            at = Ramp(i * lanes, const(1), lanes)
            nest = loop(i, count // lanes, st.BufferStore(out, expression(*(b[at] for b in ins)), (at,)))
        self._functions[name] = kernel([*ins, out], nest, name)
        return name

    def module(self) -> IRModule:
        """All kernels so far."""
        return IRModule(self._functions)

    def build(self) -> Module:
        """All kernels so far, compiled."""
        if self._built is None:
            self._built = build(self.module())
        return self._built

    def run(self, name: str, arrays: list[np.ndarray], output: str) -> np.ndarray:
        """The result of a kernel."""
        out = np.empty(arrays[0].shape, numpy_dtype(DataType(output)))
        self.build()[name](*arrays, out)
        return out


def bits(array: np.ndarray) -> np.ndarray:
    """An array as its bits, all NaNs alike."""
    size = array.dtype.itemsize
    raw = array.view(f"uint{8 * size}").copy()
    if array.dtype.kind not in "iub":
        with np.errstate(invalid="ignore"):
            raw[np.isnan(array.astype(np.float64))] = (1 << (8 * size)) - 1
    return raw


@pytest.fixture
def elementwise() -> Elementwise:
    """An empty collection of kernels."""
    return Elementwise()


@pytest.fixture
def tools() -> SimpleNamespace:
    """The functions above."""
    return SimpleNamespace(loop=loop, kernel=kernel, bits=bits, Elementwise=Elementwise)
