"""Matrix products of warps: loads, products, fills and stores together compute a matmul, thread by thread."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.schedule.check import check_schedule
from tscript import interp
from tscript.ir.dtype import DataType
from tscript.ir.semantics import numpy_dtype
from tscript.schedule import Schedule
from tscript.script import tir as T
from tscript.support.errors import InterpError
from tscript.tir import TensorIntrin
from tscript.tir.tensor_intrin import cuda

TYPES = [
    ("float16", "float32", 16),
    ("float16", "float16", 16),
    ("int8", "int32", 32),
    ("float8_e4m3fn", "float32", 32),
    ("float8_e5m2", "float32", 32),
]
NAMES = [n for n in TensorIntrin.names() if n.startswith("mma_")]


def _numpy(dtype: str) -> np.dtype:
    return numpy_dtype(DataType(dtype))


@pytest.mark.parametrize("trans_b", [False, True])
@pytest.mark.parametrize("trans_a", [False, True])
@pytest.mark.parametrize(("in_dtype", "out_dtype", "k"), TYPES)
def test_implementations_together_compute_a_matmul(in_dtype: str, out_dtype: str, k: int, trans_a: bool, trans_b: bool):
    if trans_a and k == 32:
        pytest.skip("a first operand of bytes cannot be transposed")
    group = cuda.get_mma_intrin_group("shared", "global", in_dtype, out_dtype, trans_a, trans_b, False)
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, s).astype(_numpy(in_dtype)) for s in ((16, k), (k, 16)))
    a_shared = np.ascontiguousarray(a.T) if trans_a else a
    b_shared = np.ascontiguousarray(b.T) if trans_b else b
    a_warp, b_warp = (np.zeros((32, k // 2), _numpy(in_dtype)) for _ in range(2))
    c_warp, c = np.ones((32, 8), _numpy(out_dtype)), np.zeros((16, 16), _numpy(out_dtype))

    def run(which: str, *args: np.ndarray) -> None:
        interp.run(TensorIntrin.get(group[which]).impl, *args)

    run("load_a", a_warp, a_shared)
    run("load_b", b_warp, b_shared)
    run("init", c_warp)
    run("compute", a_warp, b_warp, c_warp)
    run("compute", a_warp, b_warp, c_warp)
    run("store", c_warp, c)
    expected = 2 * (a.astype(np.float64) @ b.astype(np.float64))
    np.testing.assert_array_equal(c.astype(np.float64), expected)


@pytest.mark.parametrize("trans_b", [False, True])
@pytest.mark.parametrize(("in_dtype", "out_dtype", "k"), TYPES)
def test_descriptions_together_compute_a_matmul(in_dtype: str, out_dtype: str, k: int, trans_b: bool):
    group = cuda.get_mma_intrin_group("shared", "global", in_dtype, out_dtype, False, trans_b, False)
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, s).astype(_numpy(in_dtype)) for s in ((16, k), (k, 16)))
    warps = [np.zeros((32, k // 2), _numpy(in_dtype)) for _ in range(2)]
    c_warp, c = np.ones((32, 8), _numpy(out_dtype)), np.zeros((16, 16), _numpy(out_dtype))
    interp.run(TensorIntrin.get(group["load_a"]).desc, warps[0], a)
    interp.run(TensorIntrin.get(group["load_b"]).desc, warps[1], np.ascontiguousarray(b.T) if trans_b else b)
    interp.run(TensorIntrin.get(group["init"]).desc, c_warp)
    interp.run(TensorIntrin.get(group["compute"]).desc, *warps, c_warp)
    interp.run(TensorIntrin.get(group["store"]).desc, c_warp, c)
    np.testing.assert_array_equal(c.astype(np.float64), a.astype(np.float64) @ b.astype(np.float64))


@pytest.mark.parametrize("name", [n for n in NAMES if n.startswith(("mma_fill", "mma_store", "mma_ldmatrix_f16_a"))])
def test_what_lies_where_it_is_described(name: str):
    if "_trans" in name:
        pytest.skip("a transposed operand lies where the product wants it")
    intrin = TensorIntrin.get(name)
    buffers = [intrin.desc.buffer_map[p] for p in intrin.desc.params]
    rng = np.random.default_rng(0)
    expected = [rng.integers(-100, 100, [s.value for s in b.shape]).astype(numpy_dtype(b.dtype)) for b in buffers]
    got = [a.copy() for a in expected]
    interp.run(intrin.desc, *expected)
    interp.run(intrin.impl, *got)
    for g, e in zip(got, expected, strict=True):
        np.testing.assert_array_equal(g, e)


def test_the_usual_names():
    for name in NAMES:
        assert TensorIntrin.get(name).impl.params
    names = {
        "LDMATRIX_f16_B_TRANS_DYN_INTRIN": "mma_ldmatrix_f16_b_trans_dyn",
        "LDMATRIX_e4m3_B_TRANS_INTRIN": "mma_ldmatrix_e4m3_b_trans",
        "MMA_f16f16f32_TRANS_A_TRANS_B_INTRIN": "mma_f16f16f32_trans_a_trans_b",
        "MMA_i8i8i32_TRANS_B_INTRIN": "mma_i8i8i32_trans_b",
        "MMA_fill_16x16_i32_INTRIN": "mma_fill_16x16_i32",
        "MMA_store_16x16_f32_global_INTRIN": "mma_store_16x16_f32_global_",
        "MMA_store_16x16_f16_shared_dyn_INTRIN_SIMPLE": "mma_store_16x16_f16_shared_dyn_simple_",
    }
    for constant, name in names.items():
        assert getattr(cuda, constant) == name


def test_the_layouts_are_inverse():
    for i in range(16):
        for j in range(16):
            at = cuda.shared_16x16_to_ldmatrix_32x8_layout(i, j)
            assert cuda.ldmatrix_32x8_to_shared_16x16_layout(*at) == (i, j)


def test_a_product_outside_of_threads_is_refused():
    @T.prim_func
    def func(A: T.Buffer((32, 8), "float16"), C: T.Buffer((32, 8), "float32")):
        with T.block("root"):
            T.reads()
            T.writes(C[0:32, 0:8])
            T.evaluate(
                T.ptx_mma(
                    "float32", "m16n8k16", "row", "col", "fp16", "fp16", "fp32", A.data, 0, A.data, 0, C.data, 0, False
                )
            )

    with pytest.raises(InterpError, match="threads of a warp"):
        interp.run(func, np.zeros((32, 8), np.float16), np.zeros((32, 8), np.float32))


def test_groups_and_types_that_do_not_exist():
    with pytest.raises(ValueError, match="no loads from 'global'"):
        cuda.get_mma_intrin_group("global", "global", "float16", "float32", False, False)
    with pytest.raises(ValueError, match="no product of float64"):
        cuda.get_mma_intrin_group("shared", "global", "float64", "float32", False, False)
    with pytest.raises(ValueError, match="cannot be transposed"):
        cuda.get_ldmatrix_intrin(32, "int8", "A", True)
    with pytest.raises(ValueError, match="not of 16 int8"):
        cuda.get_ldmatrix_intrin(16, "int8", "A", False)


# -- scheduled programs ---------------------------------------------------------------------------


def _place(row: Any, column: Any, transposed: bool) -> tuple[Any, Any]:
    return (column, row) if transposed else (row, column)


def _in_tiles(rows: int, columns: int, place: Any) -> Any:
    return lambda i, j: (i // rows, j // columns, *place(i % rows, j % columns))


@pytest.mark.parametrize(
    ("in_dtype", "out_dtype", "trans_a", "trans_b"),
    [
        ("float16", "float32", False, False),
        ("float16", "float32", True, True),
        ("float16", "float16", False, True),
        ("int8", "int32", False, False),
        ("int8", "int32", False, True),
    ],
)
def test_a_matmul_takes_the_intrinsics(in_dtype: str, out_dtype: str, trans_a: bool, trans_b: bool):
    k = 16 if in_dtype == "float16" else 32
    a_shape, b_shape = _place(32, 2 * k, trans_a), _place(2 * k, 48, trans_b)

    @T.prim_func
    def matmul(x: T.handle, y: T.handle, z: T.handle):
        A = T.match_buffer(x, a_shape, in_dtype)
        B = T.match_buffer(y, b_shape, in_dtype)
        C = T.match_buffer(z, (32, 48), out_dtype)
        for i, j, l in T.grid(32, 48, 2 * k):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, l])
                a = T.meta_var(_place(vi, vk, trans_a))
                b = T.meta_var(_place(vk, vj, trans_b))
                with T.init():
                    C[vi, vj] = T.cast(0, out_dtype)
                C[vi, vj] = C[vi, vj] + T.cast(A[a[0], a[1]], out_dtype) * T.cast(B[b[0], b[1]], out_dtype)

    group = cuda.get_mma_intrin_group("shared", "global", in_dtype, out_dtype, trans_a, trans_b, False)
    halves = cuda.shared_16x16_to_ldmatrix_32x8_layout
    by_row, by_column = cuda.shared_16x32_to_ldmatrix_32x16_layout, cuda.shared_32x16_to_ldmatrix_32x16_layout
    a_place = halves if k == 16 else by_row
    b_place = halves if k == 16 else by_row if trans_b else by_column

    def steps(s: Schedule) -> None:
        block = s.get_block("C")
        parts = [s.split(x, [None, n]) for x, n in zip(s.get_loops(block), (16, 16, k), strict=True)]
        s.reorder(*(p[0] for p in parts), *(p[1] for p in parts))
        shared = [s.cache_read(block, i, "shared") for i in (0, 1)]
        warp = [s.cache_read(block, i, "warp") for i in (0, 1)]
        result = s.cache_write(block, 0, "warp")
        for copy in (*warp, *shared):
            s.compute_at(copy, parts[2][0])
        s.reverse_compute_at(result, parts[1][0])
        s.transform_layout(warp[0], ("write", 0), _in_tiles(*_place(16, k, trans_a), a_place))
        s.transform_layout(warp[1], ("write", 0), _in_tiles(*_place(k, 16, trans_b), b_place))
        s.transform_layout(result, ("read", 0), _in_tiles(16, 16, halves))
        init = s.decompose_reduction(block, parts[2][0])
        for copy, which in zip(warp, ("load_a", "load_b"), strict=True):
            s.tensorize(s.get_loops(copy)[-2], group[which])
        s.tensorize(parts[0][1], group["compute"])
        s.tensorize(s.get_loops(init)[-2], group["init"])
        s.tensorize(s.get_loops(result)[-2], group["store"])

    check_schedule(matmul, steps, native=False)
