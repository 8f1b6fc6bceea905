"""Programs built node by node, so that these tests need neither parser nor printer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tscript.ir import buffer as tb
from tscript.ir import stmt as st
from tscript.ir.base import FrozenDict
from tscript.ir.construct import const
from tscript.ir.expr import IterVar, Range, Var
from tscript.ir.function import PrimFunc


def build_matmul(
    names: str = "ijk", size: int = 16, flip: bool = False, symbol: str | None = "main", block: str = "C"
) -> PrimFunc:
    """C = A @ B with a reduction block; `flip` swaps the factors of the product."""
    a, b, c = (tb.decl_buffer((size, size), name=n) for n in ("A", "B", "C"))
    loops = [Var(n) for n in names]
    axes = [Var("v" + n) for n in names]
    vi, vj, vk = axes
    kinds = (IterVar.DataPar, IterVar.DataPar, IterVar.CommReduce)
    iters = tuple(IterVar(Range(0, size), v, k) for v, k in zip(axes, kinds, strict=True))
    left, right = (b[vk, vj], a[vi, vk]) if flip else (a[vi, vk], b[vk, vj])
    body = st.BufferStore(c, c[vi, vj] + left * right, (vi, vj))
    init = st.BufferStore(c, const(0.0), (vi, vj))

    def point(*indices: Any) -> tuple[Range, ...]:
        return tuple(Range.from_min_extent(v, const(1)) for v in indices)

    reads = (st.BufferRegion(a, point(vi, vk)), st.BufferRegion(b, point(vk, vj)))
    inner = st.Block(iters, reads, (st.BufferRegion(c, point(vi, vj)),), block, body, init)
    nest: st.Stmt = st.BlockRealize(tuple(loops), const(True), inner)
    for v in reversed(loops):
        nest = st.For(v, const(0), const(size), st.ForKind.SERIAL, nest)
    root = st.BlockRealize((), const(True), st.Block((), (), (), "root", nest))
    attrs = {} if symbol is None else {"global_symbol": symbol, "tir.noalias": True}
    return PrimFunc((a, b, c), root, None, {}, FrozenDict(attrs))  # pyright: ignore[reportArgumentType]


@pytest.fixture
def matmul() -> Callable[..., PrimFunc]:
    """Builds the matrix product anew each time."""
    return build_matmul
