"""Fragments of matrices: every intrinsic computes what its description says, and whole matmuls are made of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.schedule.check import check_schedule
from tscript import interp
from tscript.ir.semantics import numpy_dtype
from tscript.schedule import Schedule
from tscript.script import tir as T
from tscript.support.errors import InterpError
from tscript.tir import TensorIntrin
from tscript.tir.tensor_intrin.cuda import (
    WMMA_FILL_16x16x16_F32_INTRIN,
    WMMA_LOAD_16x16x16_F16_A_DYN_INTRIN,
    WMMA_SYNC_16x16x16_f16f16f32_TRANS_INTRIN,
    get_wmma_intrin_group,
)

NAMES = [n for n in TensorIntrin.names() if n.startswith("wmma_")]
SINGLE = [n for n in NAMES if "sync" not in n]


def test_the_usual_names():
    assert len(NAMES) == 43
    assert WMMA_FILL_16x16x16_F32_INTRIN == "wmma_fill_16x16x16_f32"
    assert WMMA_LOAD_16x16x16_F16_A_DYN_INTRIN == "wmma_load_16x16x16_f16_a_shared_dyn"
    assert WMMA_SYNC_16x16x16_f16f16f32_TRANS_INTRIN == "wmma_sync_16x16x16_f16f16f32_trans"
    for name in NAMES:
        assert TensorIntrin.get(name).desc.params


@pytest.mark.parametrize("name", SINGLE)
def test_loads_fills_and_stores(name: str):
    intrin = TensorIntrin.get(name)
    buffers = [intrin.desc.buffer_map[p] for p in intrin.desc.params]
    rng = np.random.default_rng(0)
    limit = 8 if buffers[0].dtype.bits == 4 else 100
    expected = [rng.integers(-limit, limit, [s.value for s in b.shape]).astype(numpy_dtype(b.dtype)) for b in buffers]
    got = [a.copy() for a in expected]
    interp.run(intrin.desc, *expected)
    interp.run(intrin.impl, *got)
    for g, e in zip(got, expected, strict=True):
        np.testing.assert_array_equal(g, e)


def place(row: Any, column: Any, transposed: bool) -> tuple[Any, Any]:
    return (column, row) if transposed else (row, column)


def matmul(m: int, n: int, k: int, in_dtype: str, out_dtype: str, trans_b: bool) -> Any:
    shape = (n, k) if trans_b else (k, n)

    @T.prim_func
    def func(a: T.handle, b: T.handle, c: T.handle):
        A = T.match_buffer(a, (m, k), in_dtype)
        B = T.match_buffer(b, shape, in_dtype)
        C = T.match_buffer(c, (m, n), out_dtype)
        for i, j, l in T.grid(m, n, k):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, l])
                at = T.meta_var(place(vk, vj, trans_b))
                with T.init():
                    C[vi, vj] = T.cast(0, out_dtype)
                C[vi, vj] = C[vi, vj] + T.cast(A[vi, vk], out_dtype) * T.cast(B[at[0], at[1]], out_dtype)

    return func


def tensor_core(
    s: Schedule, group: dict[str, str], load_scope: str, store_scope: str, sizes: tuple[int, int, int] = (16, 16, 16)
) -> None:
    """A matmul of small products: operands through shared memory into fragments, results back."""
    block = s.get_block("C")
    loops = [s.split(loop, [None, size]) for loop, size in zip(s.get_loops(block), sizes, strict=True)]
    (i_0, i_1), (j_0, j_1), (k_0, k_1) = loops
    s.reorder(i_0, j_0, k_0, i_1, j_1, k_1)
    inner = s.blockize(i_1)
    shared = [s.cache_read(inner, i, load_scope) for i in (0, 1)]
    fragments = [s.cache_read(inner, i, f"wmma.matrix_{'ab'[i]}") for i in (0, 1)]
    if store_scope != "global":
        s.cache_write(inner, 0, store_scope)
    result = s.cache_write(inner, 0, "wmma.accumulator")
    for copy in (*fragments, *shared):
        s.compute_at(copy, k_0)
    s.reverse_compute_at(result, j_0)
    init = s.decompose_reduction(inner, k_0)
    s.tensorize(s.get_loops(init)[2] if len(s.get_loops(init)) > 2 else init, group["init"])
    for copy, which in zip(fragments, ("load_a", "load_b"), strict=True):
        s.tensorize(s.get_loops(copy)[-2], group[which])
    s.tensorize(inner, group["compute"])
    s.tensorize(s.get_loops(result)[-2], group["store"])


@pytest.mark.parametrize("trans_b", [False, True])
@pytest.mark.parametrize(("in_dtype", "out_dtype"), [("float16", "float32"), ("float16", "float16"), ("int8", "int32")])
@pytest.mark.parametrize(("load", "store"), [("shared", "global"), ("shared.dyn", "shared.dyn"), ("shared", "shared")])
def test_a_matmul_of_fragments(in_dtype: str, out_dtype: str, trans_b: bool, load: str, store: str):
    group = get_wmma_intrin_group(load, store, in_dtype, out_dtype, trans_b)
    func = matmul(32, 48, 32, in_dtype, out_dtype, trans_b)
    sch = check_schedule(func, lambda s: tensor_core(s, group, load, store), native=False)
    text = sch.mod.script()
    for call in ("tvm_load_matrix_sync", "tvm_fill_fragment", "tvm_mma_sync", "tvm_store_matrix_sync"):
        assert call in text


@pytest.mark.parametrize("scope", ["shared", "shared.dyn"])
def test_a_matmul_of_fragments_of_four_bits(scope: str):
    end = scope.replace(".", "_")
    group = {
        "init": "wmma_fill_8x8x32_s32",
        "load_a": f"wmma_load_8x8x32_s4_a_{end}",
        "load_b": f"wmma_load_8x8x32_s4_b_trans_{end}",
        "compute": "wmma_sync_8x8x32_s4s4s32_trans",
        "store": f"wmma_store_8x8x32_s32_{end}",
    }
    func = matmul(16, 24, 64, "int4", "int32", True)
    sch = Schedule(func)
    tensor_core(sch, group, scope, scope, (8, 8, 32))
    assert sch.mod.script().count("tvm_mma_sync") == 1
    rng = np.random.default_rng(0)
    kind = numpy_dtype(func.buffer_map[func.params[0]].dtype)
    a, b = (rng.integers(-8, 8, shape).astype(kind) for shape in ((16, 64), (24, 64)))
    c = np.zeros((16, 24), "int32")
    interp.run(sch.mod["main"], a, b, c)
    np.testing.assert_array_equal(c, a.astype("int32") @ b.astype("int32").T)


def test_fragments_that_were_never_loaded():
    intrin = TensorIntrin.get("wmma_sync_16x16x16_f16f16f32")
    args = [np.zeros((16, 16), t) for t in ("float16", "float16", "float32")]
    with pytest.raises(InterpError, match="never loaded"):
        interp.run(intrin.impl, *args)


def test_groups_that_do_not_exist():
    with pytest.raises(ValueError, match="are loaded from"):
        get_wmma_intrin_group("global", "global", "float16", "float32", False)
    with pytest.raises(ValueError, match="are stored to"):
        get_wmma_intrin_group("shared", "local", "float16", "float32", False)
    with pytest.raises(ValueError, match="no product of int8 in float32"):
        get_wmma_intrin_group("shared", "global", "int8", "float32", False)
