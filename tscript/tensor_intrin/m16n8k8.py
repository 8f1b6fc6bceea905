"""Matrix products of 16x8x8 of warps of NVIDIA GPUs, on buffers that keep the shape of the matrix.

Memory of the scopes `m16n8k8.matrixA`, `.matrixB` and `.matrixC` is written as a matrix; a pass of the CUDA back end
spreads it over the registers of a warp. What threads are told here is where in their registers a tile begins.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from tscript.ir.function import PrimFunc
from tscript.ir.tensor_intrin import TensorIntrin
from tscript.tensor_intrin import dialect as T

Pair = tuple[PrimFunc, PrimFunc]
_SHORT = {"float16": "f16", "float32": "f32"}


def _register_of_a(offset: Any, stride: Any) -> Any:
    """The first register of a tile of 16x8: those of 32x8 take eight, the upper half before the lower."""
    row, column = offset // stride, offset % stride
    return (row // 32 * (stride // 8) + column // 8) * 8 + row % 32 // 16 * 4


def _register_of_b(offset: Any, stride: Any) -> Any:
    """The first register of a tile of 8x8: those of 8x32 take eight, from left to right."""
    row, column = offset // stride, offset % stride
    return (row // 8 * (stride // 32) + column // 32) * 8 + column % 32 // 8 * 2


def _register_of_c(offset: Any, stride: Any) -> Any:
    """The first register of a tile of 16x8: two for each 8x8, the upper one before the lower, then the next columns."""
    row, column = offset // stride // 8, offset % stride // 8
    return (row // 2 * 2 * (stride // 8) + row % 2 + column * 2) * 2


def get_mma_init_intrin(m_dim: int, n_dim: int, k_dim: int, dtype: str) -> Pair:
    """The accumulator of a warp is set to zero: each thread stores its parts of rows.

    ValueError for sums of other types, and tiles that do not divide among the threads.
    """
    del k_dim
    if dtype not in _SHORT or m_dim % 8 or n_dim % 4:
        raise ValueError(f"sums are float16 or float32 in tiles of 8 rows by 4 columns, not {dtype} in {m_dim}x{n_dim}")
    width = n_dim // 4

    @T.prim_func
    def mma_init_desc(c: T.handle) -> None:
        C = T.match_buffer(c, (m_dim, n_dim), dtype, align=64, offset_factor=1, scope="m16n8k8.matrixC")
        with T.block("root"):
            T.reads()
            T.writes(C[0:m_dim, 0:n_dim])
            for i, j in T.grid(m_dim, n_dim):
                with T.block("init"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = T.cast(0, dtype)

    @T.prim_func
    def mma_init_impl(c: T.handle) -> None:
        C = T.match_buffer(c, (m_dim, n_dim), dtype, align=64, offset_factor=1, scope="m16n8k8.matrixC")
        with T.block("root"):
            T.reads()
            T.writes(C[0:m_dim, 0:n_dim])
            for tx in T.thread_binding(0, 32, "threadIdx.x"):
                for b in range(m_dim // 8):
                    for v in T.vectorized(width):
                        C[b * 8 + tx // 4, tx % 4 * width + v] = T.cast(0, dtype)

    return mma_init_desc, mma_init_impl


def get_mma_load_intrin(
    m_dim: int, n_dim: int, k_dim: int, dtype: str, shared_scope: str, is_b: bool, is_col_major: bool
) -> Pair:
    """Four tiles of 8x8 go from shared memory to the registers of a warp, as a first or (`is_b`) second operand.

    ValueError for other types, and for other sizes than those of four tiles.
    """
    rows, columns = (k_dim, n_dim) if is_b else (m_dim, k_dim)
    if dtype != "float16" or (rows, columns) != ((8, 32) if is_b else (32, 8)):
        raise ValueError(f"four tiles of 8x8 float16 are loaded at once, not {rows}x{columns} {dtype}")
    if is_col_major:
        rows, columns = columns, rows
    turned = is_b is not is_col_major
    scope = f"m16n8k8.matrix{'B' if is_b else 'A'}"
    register = _register_of_b if is_b else _register_of_a

    def row_address(tx: Any, stride: Any) -> Any:
        return tx % 8 * stride + tx // 8 * 8 if turned else tx * stride

    @T.prim_func
    def mma_load_desc(a: T.handle, c: T.handle) -> None:
        shared = T.match_buffer(a, (rows, columns), dtype, align=64, offset_factor=1, scope=shared_scope)
        tile = T.match_buffer(c, (rows, columns), dtype, align=64, offset_factor=1, scope=scope)
        with T.block("root"):
            T.reads(shared[0:rows, 0:columns])
            T.writes(tile[0:rows, 0:columns])
            for i, j in T.grid(rows, columns):
                with T.block("load"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    tile[vi, vj] = shared[vi, vj]

    @T.prim_func
    def mma_load_impl(a: T.handle, c: T.handle) -> None:
        s0, s1, d0, d1 = T.int32(), T.int32(), T.int32(), T.int32()
        shared = T.match_buffer(
            a, (rows, columns), dtype, align=64, offset_factor=1, scope=shared_scope, strides=[s0, s1]
        )
        tile = T.match_buffer(c, (rows, columns), dtype, align=64, offset_factor=1, scope=scope, strides=[d0, d1])
        with T.block("root"):
            T.reads(shared[0:rows, 0:columns])
            T.writes(tile[0:rows, 0:columns])
            for tx in T.thread_binding(0, 32, "threadIdx.x"):
                T.evaluate(
                    T.ptx_ldmatrix(
                        dtype,
                        turned,
                        4,
                        ".b16",
                        tile.data,
                        register(tile.elem_offset, d0),
                        shared.access_ptr("r"),
                        row_address(tx, s0),
                    )
                )

    return mma_load_desc, mma_load_impl


def get_mma_sync_intrin(m_dim: int, n_dim: int, k_dim: int, in_dtype: str, out_dtype: str, b_transposed: bool) -> Pair:
    """A product of tiles is added to the accumulator by one instruction. ValueError for types it does not have."""
    if in_dtype != "float16" or out_dtype not in _SHORT or (m_dim, n_dim, k_dim) != (16, 8, 8):
        raise ValueError(f"the product is 16x8x8 of float16, not {m_dim}x{n_dim}x{k_dim} of {in_dtype} in {out_dtype}")
    b_rows, b_columns = (n_dim, k_dim) if b_transposed else (k_dim, n_dim)

    @T.prim_func
    def mma_sync_desc(a: T.handle, b: T.handle, c: T.handle) -> None:
        A = T.match_buffer(a, (m_dim, k_dim), in_dtype, align=64, offset_factor=1, scope="m16n8k8.matrixA")
        B = T.match_buffer(b, (b_rows, b_columns), in_dtype, align=64, offset_factor=1, scope="m16n8k8.matrixB")
        C = T.match_buffer(c, (m_dim, n_dim), out_dtype, align=64, offset_factor=1, scope="m16n8k8.matrixC")
        with T.block("root"):
            T.reads(C[0:m_dim, 0:n_dim], A[0:m_dim, 0:k_dim], B[0:b_rows, 0:b_columns])
            T.writes(C[0:m_dim, 0:n_dim])
            for i, j, k in T.grid(m_dim, n_dim, k_dim):
                with T.block("C"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    at = T.meta_var((vj, vk) if b_transposed else (vk, vj))
                    C[vi, vj] = C[vi, vj] + T.cast(A[vi, vk], out_dtype) * T.cast(B[at[0], at[1]], out_dtype)

    @T.prim_func
    def mma_sync_impl(a: T.handle, b: T.handle, c: T.handle) -> None:
        a0, a1, b0, b1, c0, c1 = T.int32(), T.int32(), T.int32(), T.int32(), T.int32(), T.int32()
        A = T.match_buffer(
            a, (m_dim, k_dim), in_dtype, align=64, offset_factor=1, scope="m16n8k8.matrixA", strides=[a0, a1]
        )
        B = T.match_buffer(
            b, (b_rows, b_columns), in_dtype, align=64, offset_factor=1, scope="m16n8k8.matrixB", strides=[b0, b1]
        )
        C = T.match_buffer(
            c, (m_dim, n_dim), out_dtype, align=64, offset_factor=1, scope="m16n8k8.matrixC", strides=[c0, c1]
        )
        with T.block("root"):
            T.reads(C[0:m_dim, 0:n_dim], A[0:m_dim, 0:k_dim], B[0:b_rows, 0:b_columns])
            T.writes(C[0:m_dim, 0:n_dim])
            T.evaluate(
                T.ptx_mma(
                    out_dtype,
                    "m16n8k8",
                    "row",
                    "col",
                    "fp16",
                    "fp16",
                    "fp16" if out_dtype == "float16" else "fp32",
                    A.data,
                    _register_of_a(A.elem_offset, a0),
                    B.data,
                    _register_of_b(B.elem_offset, b0),
                    C.data,
                    _register_of_c(C.elem_offset, c0),
                    False,
                )
            )

    return mma_sync_desc, mma_sync_impl


def get_mma_store_dummy_intrin(m_dim: int, n_dim: int, k_dim: int, dtype: str) -> Pair:
    """The accumulator goes to shared memory by elements: the pass that spreads it over registers does the rest."""
    del k_dim

    @T.prim_func
    def mma_store_desc(a: T.handle, c: T.handle) -> None:
        C = T.match_buffer(a, (m_dim, n_dim), dtype, align=64, offset_factor=1, scope="m16n8k8.matrixC")
        shared = T.match_buffer(c, (m_dim, n_dim), dtype, align=64, offset_factor=1, scope="shared.dyn")
        with T.block("root"):
            T.reads(C[0:m_dim, 0:n_dim])
            T.writes(shared[0:m_dim, 0:n_dim])
            for i, j in T.grid(m_dim, n_dim):
                with T.block("store"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    shared[vi, vj] = C[vi, vj]

    return mma_store_desc, mma_store_desc


def _register_all() -> None:
    for dtype, short in _SHORT.items():
        TensorIntrin.register_later(f"mma_init_m16n8k8_{short}", partial(get_mma_init_intrin, 16, 8, 8, dtype))
        product = partial(get_mma_sync_intrin, 16, 8, 8, "float16", dtype, False)
        TensorIntrin.register_later(f"mma_sync_m16n8k8_f16f16{short}", product)
        store = partial(get_mma_store_dummy_intrin, 16, 8, 8, dtype)
        TensorIntrin.register_later(f"mma_store_m16n8k8_{short}_global", store)
    for operand in ("A", "B"):
        load = partial(get_mma_load_intrin, 32, 32, 8, "float16", "shared.dyn", operand == "B", False)
        TensorIntrin.register_later(f"mma_load_m16n8k8_f16_{operand}_shared_dyn", load)


_register_all()

__all__ = ["get_mma_init_intrin", "get_mma_load_intrin", "get_mma_store_dummy_intrin", "get_mma_sync_intrin"]
