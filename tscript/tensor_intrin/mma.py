"""Tensor intrinsics for the matrix products of warps on NVIDIA GPUs (`mma`, `ldmatrix`), on tiles of 16 by 16.

Operands lie in buffers of scope `warp` with 32 rows, one for each thread. The description of a tile says that element
(i, j) lies where `shared_16x16_to_ldmatrix_32x8_layout` (or the map for bytes) puts it. The loads and products agree
with each other about where a second operand really lies, which can be another place of the same part of the buffer: do
not read or write elements of such a buffer between them in any other way.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

from tscript.ir.function import PrimFunc
from tscript.ir.tensor_intrin import TensorIntrin
from tscript.tensor_intrin import dialect as T

Pair = tuple[PrimFunc, PrimFunc]
_SHORT = {
    "float16": "f16", "float32": "f32", "int8": "i8", "int32": "i32", "float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2",
}  # fmt: skip
_PTX = {
    "float16": "fp16", "float32": "fp32", "int8": "int8", "int32": "int32", "float8_e4m3fn": "e4m3",
    "float8_e5m2": "e5m2",
}  # fmt: skip


def shared_16x16_to_ldmatrix_32x8_layout(i: Any, j: Any) -> tuple[Any, Any]:
    """Thread and register that hold element (i, j) of a tile of 16x16 elements of 16 or 32 bits.

    >>> shared_16x16_to_ldmatrix_32x8_layout(9, 3)
    (5, 3)
    """
    return 4 * (i % 8) + (j % 8) // 2, 4 * (j // 8) + (i // 8) * 2 + (j % 2)


def shared_16x32_to_ldmatrix_32x16_layout(i: Any, j: Any) -> tuple[Any, Any]:
    """Thread and register that hold element (i, j) of a tile of 16x32 bytes."""
    return 4 * (i % 8) + (j % 16) // 4, 8 * (j // 16) + (i // 8) * 4 + j % 4


def shared_32x16_to_ldmatrix_32x16_layout(i: Any, j: Any) -> tuple[Any, Any]:
    """Thread and register that hold element (i, j) of a tile of 32x16 bytes."""
    return (i % 16) // 4 + 4 * (j % 8), 8 * (j // 8) + (i // 16) * 4 + i % 4


def ldmatrix_32x8_to_shared_16x16_layout(thread_id: Any, local_id: Any) -> tuple[Any, Any]:
    """The element of a 16x16 tile that a register of a thread holds.

    >>> ldmatrix_32x8_to_shared_16x16_layout(5, 3)
    (9, 3)
    """
    row = 8 * (local_id % 4 // 2) + (thread_id // 4)
    return row, 8 * (local_id // 4) + (thread_id % 4) * 2 + (local_id % 2)


def _row_address(tx: Any, stride: Any, k_dim: int, transposed: bool, by_columns: bool, is_b: bool) -> Any:
    """Where the row starts whose address a thread gives; just the length of rows where it loads single elements."""
    if by_columns:
        return stride
    if k_dim == 16 and transposed:
        return stride * 8 * (tx // 16) + stride * (tx % 8) + 8 * (tx % 16 // 8)
    if is_b and transposed:
        return stride * 8 * (tx // 16) + stride * (tx % 8) + 16 * (tx % 16 // 8)
    return stride * (tx % 16) + k_dim // 2 * (tx // 16)


def get_ldmatrix_intrin(
    k_dim: int, dtype: str, matrix_name: str, transposed: bool, shared_scope: str = "shared"
) -> Pair:
    """A tile of shared memory is spread over a warp, as the first ("A") or second operand ("B") of a product.

    ValueError for types of other sizes, and for a transposed first operand of bytes.
    """
    if matrix_name not in ("A", "B"):
        raise ValueError(f"the operands of a product are 'A' and 'B', not {matrix_name!r}")
    is_b = matrix_name == "B"
    if (k_dim, dtype) != (16, "float16") and not (k_dim == 32 and dtype in ("int8", "float8_e4m3fn", "float8_e5m2")):
        raise ValueError(f"tiles are loaded for sums of 16 float16 or 32 bytes, not of {k_dim} {dtype}")
    if k_dim == 32 and transposed and not is_b:
        raise ValueError("a first operand of bytes cannot be transposed")
    size = k_dim // 2
    rows, columns = (k_dim, 16) if is_b is not transposed else (16, k_dim)
    by_columns = k_dim == 32 and is_b and not transposed
    place = (
        shared_16x16_to_ldmatrix_32x8_layout
        if k_dim == 16
        else shared_32x16_to_ldmatrix_32x16_layout
        if by_columns
        else shared_16x32_to_ldmatrix_32x16_layout
    )
    turned = is_b is not transposed

    @T.prim_func
    def ldmatrix_desc(warp_handle: T.handle, shared_handle: T.handle) -> None:
        shared = T.match_buffer(
            shared_handle, (rows, columns), dtype, align=64, offset_factor=columns, scope=shared_scope
        )
        warp = T.match_buffer(warp_handle, (32, size), dtype, align=64, offset_factor=columns, scope="warp")
        with T.block("root"):
            T.reads(shared[0:rows, 0:columns])
            T.writes(warp[0:32, 0:size])
            for ax0, ax1 in T.grid(rows, columns):
                with T.block("shared_warp"):
                    v0, v1 = T.axis.remap("SS", [ax0, ax1])
                    at = T.meta_var(place(v0, v1))
                    T.reads(shared[v0, v1])
                    T.writes(warp[at[0], at[1]])
                    warp[at[0], at[1]] = shared[v0, v1]

    @T.prim_func
    def ldmatrix_impl(warp_handle: T.handle, shared_handle: T.handle) -> None:
        s0, s1 = T.int32(), T.int32()
        shared = T.match_buffer(
            shared_handle,
            (rows, columns),
            dtype,
            align=64,
            offset_factor=columns,
            scope=shared_scope,
            strides=[s0, s1],
        )
        warp = T.match_buffer(warp_handle, (32, size), dtype, align=64, offset_factor=columns, scope="warp")
        with T.block("root"):
            T.reads(shared[0:rows, 0:columns])
            T.writes(warp[0:32, 0:size])
            for tx in T.thread_binding(0, 32, "threadIdx.x"):
                T.evaluate(
                    T.ptx_ldmatrix(
                        dtype,
                        turned,
                        4,
                        ".b16",
                        warp.data,
                        warp.elem_offset + size * tx,
                        shared.access_ptr("r"),
                        _row_address(tx, s0, k_dim, transposed, by_columns, is_b),
                    )
                )

    return ldmatrix_desc, ldmatrix_impl


def get_mma_intrin(
    k_dim: int,
    a_dtype: str = "float16",
    b_dtype: str = "float16",
    out_dtype: str = "float16",
    a_transposed: bool = False,
    b_transposed: bool = False,
) -> Pair:
    """A 16x16 product of sums of `k_dim` terms is added up by two instructions, of eight columns each."""
    size = k_dim // 2
    by_columns = k_dim == 32 and not b_transposed
    place_a = shared_16x16_to_ldmatrix_32x8_layout if k_dim == 16 else shared_16x32_to_ldmatrix_32x16_layout
    place_b = shared_32x16_to_ldmatrix_32x16_layout if by_columns else place_a
    place_c = shared_16x16_to_ldmatrix_32x8_layout
    a_factor, b_factor = (16 if a_transposed else k_dim), (k_dim if b_transposed else 16)
    names = f"m16n8k{k_dim}", _PTX[a_dtype], _PTX[b_dtype], _PTX[out_dtype]

    def swapped(i: Any, j: Any, swap: bool) -> tuple[Any, Any]:
        return (j, i) if swap else (i, j)

    @T.prim_func
    def mma_sync_desc(a: T.handle, b: T.handle, c: T.handle) -> None:
        A = T.match_buffer(a, (32, size), a_dtype, align=64, offset_factor=a_factor, scope="warp")
        B = T.match_buffer(b, (32, size), b_dtype, align=64, offset_factor=b_factor, scope="warp")
        C = T.match_buffer(c, (32, 8), out_dtype, align=64, offset_factor=16, scope="warp")
        with T.block("root"):
            T.reads(C[0:32, 0:8], A[0:32, 0:size], B[0:32, 0:size])
            T.writes(C[0:32, 0:8])
            for i, j, k in T.grid(16, 16, k_dim):
                with T.block("C"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    at_a = T.meta_var(place_a(*swapped(vi, vk, a_transposed)))
                    at_b = T.meta_var(place_b(*swapped(vk, vj, b_transposed)))
                    at_c = T.meta_var(place_c(vi, vj))
                    T.reads(C[at_c[0], at_c[1]], A[at_a[0], at_a[1]], B[at_b[0], at_b[1]])
                    T.writes(C[at_c[0], at_c[1]])
                    C[at_c[0], at_c[1]] = C[at_c[0], at_c[1]] + T.cast(A[at_a[0], at_a[1]], out_dtype) * T.cast(
                        B[at_b[0], at_b[1]], out_dtype
                    )

    @T.prim_func
    def mma_sync_impl(a: T.handle, b: T.handle, c: T.handle) -> None:
        A = T.match_buffer(a, (32, size), a_dtype, align=64, offset_factor=a_factor, scope="warp")
        B = T.match_buffer(b, (32, size), b_dtype, align=64, offset_factor=b_factor, scope="warp")
        C = T.match_buffer(c, (32, 8), out_dtype, align=64, offset_factor=16, scope="warp")
        with T.block("root"):
            T.reads(C[0:32, 0:8], A[0:32, 0:size], B[0:32, 0:size])
            T.writes(C[0:32, 0:8])
            for tx in T.thread_binding(0, 32, "threadIdx.x"):
                for half in T.unroll(2):
                    T.evaluate(
                        T.ptx_mma(
                            out_dtype,
                            names[0],
                            "row",
                            "col",
                            names[1],
                            names[2],
                            names[3],
                            A.data,
                            A.elem_offset + tx * size,
                            B.data,
                            B.elem_offset + tx * size + half * (size // 2),
                            C.data,
                            C.elem_offset + tx * 8 + half * 4,
                            False,
                        )
                    )

    return mma_sync_desc, mma_sync_impl


def get_mma_fill_intrin(dtype: str, local_size: int) -> Pair:
    """A 16x16 result becomes zero."""

    @T.prim_func
    def mma_fill_desc(a: T.handle) -> None:
        C = T.match_buffer(a, (32, local_size), dtype, scope="warp")
        with T.block("root"):
            T.reads()
            T.writes(C[0:32, 0:local_size])
            for i, j in T.grid(16, 16):
                with T.block("C_warp"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    at = T.meta_var(shared_16x16_to_ldmatrix_32x8_layout(vi, vj))
                    T.reads()
                    T.writes(C[at[0], at[1]])
                    C[at[0], at[1]] = T.cast(0, dtype)

    @T.prim_func
    def mma_fill_impl(a: T.handle) -> None:
        C = T.match_buffer(a, (32, local_size), dtype, scope="warp", offset_factor=1)
        with T.block("root"):
            T.reads()
            T.writes(C[0:32, 0:local_size])
            for _tx in T.thread_binding(0, 32, "threadIdx.x"):
                T.evaluate(T.mma_fill(dtype, local_size, C.data, C.elem_offset))

    return mma_fill_desc, mma_fill_impl


def get_mma_store_intrin(
    dtype: str, local_size: int, scope: str = "global", use_mma_store_intrinic: bool = True
) -> Pair:
    """A 16x16 result is stored, by `mma_store` or (without it) by plain stores of each thread."""

    @T.prim_func
    def mma_store_desc(a: T.handle, c: T.handle) -> None:
        C_warp = T.match_buffer(a, (32, local_size), dtype, scope="warp")
        C = T.match_buffer(c, (16, 16), dtype, scope=scope)
        with T.block("root"):
            T.reads(C_warp[0:32, 0:local_size])
            T.writes(C[0:16, 0:16])
            for i, j in T.grid(16, 16):
                with T.block("C_warp"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    at = T.meta_var(shared_16x16_to_ldmatrix_32x8_layout(vi, vj))
                    T.reads(C_warp[at[0], at[1]])
                    T.writes(C[vi, vj])
                    C[vi, vj] = C_warp[at[0], at[1]]

    @T.prim_func
    def mma_store_impl(a: T.handle, c: T.handle) -> None:
        s0, s1 = T.int32(), T.int32()
        C_warp = T.match_buffer(a, (32, local_size), dtype, scope="warp", offset_factor=1)
        C = T.match_buffer(c, (16, 16), dtype, scope=scope, offset_factor=1, strides=[s0, s1])
        with T.block("root"):
            T.reads(C_warp[0:32, 0:local_size])
            T.writes(C[0:16, 0:16])
            for _tx in T.thread_binding(0, 32, "threadIdx.x"):
                T.evaluate(T.mma_store(dtype, 16, 16, C.access_ptr("w"), C_warp.data, C_warp.elem_offset, s0))

    @T.prim_func
    def plain_store_impl(a: T.handle, c: T.handle) -> None:
        s0, s1 = T.int32(), T.int32()
        C_warp = T.match_buffer(a, (32, local_size), dtype, scope="warp", offset_factor=1)
        C = T.match_buffer(c, (16, 16), dtype, scope=scope, offset_factor=1, strides=[s0, s1])
        with T.block("root"):
            T.reads(C_warp[0:32, 0:local_size])
            T.writes(C[0:16, 0:16])
            for tx in T.thread_binding(0, 32, "threadIdx.x"):
                for local_id in T.serial(local_size):
                    at = T.meta_var(ldmatrix_32x8_to_shared_16x16_layout(tx, local_id))
                    C[at[0], at[1]] = C_warp[tx, local_id]

    return mma_store_desc, (mma_store_impl if use_mma_store_intrinic else plain_store_impl)


def get_mma_intrin_group(
    load_scope: Literal["shared", "shared.dyn"],
    store_scope: Literal["global", "shared", "shared.dyn"],
    in_dtype: str,
    out_dtype: str,
    trans_a: bool,
    trans_b: bool,
    not_use_mma_store_intrinic: bool = True,
    store_to_smem_dtype: str | None = None,
) -> dict[str, str]:
    """The names of the intrinsics of a product: init, load_a, load_b, compute, store.

    ValueError for memory or types that no name stands for. Not every combination is registered.

    >>> get_mma_intrin_group("shared", "global", "float16", "float32", False, True, False)["compute"]
    'mma_f16f16f32_trans_b'
    """
    if load_scope not in ("shared", "shared.dyn") or store_scope not in ("global", "shared", "shared.dyn"):
        raise ValueError(f"there are no loads from {load_scope!r}, or no stores to {store_scope!r}")
    if in_dtype not in _SHORT or out_dtype not in ("float16", "float32", "int32"):
        raise ValueError(f"there is no product of {in_dtype} in {out_dtype}")
    short, out = _SHORT[in_dtype], _SHORT[out_dtype]
    dyn = "_dyn" if load_scope == "shared.dyn" else ""
    stored = _SHORT[store_to_smem_dtype] if store_to_smem_dtype else out
    suffix = "simple_" if not_use_mma_store_intrinic else ""
    return {
        "init": f"mma_fill_16x16_{out}",
        "load_a": f"mma_ldmatrix_{short}_a{'_trans' if trans_a else ''}{dyn}",
        "load_b": f"mma_ldmatrix_{short}_b{'_trans' if trans_b else ''}{dyn}",
        "compute": f"mma_{short}{short}{out}{'_trans_a' if trans_a else ''}{'_trans_b' if trans_b else ''}",
        "store": f"mma_store_16x16_{stored}_{store_scope.replace('.', '_')}_{suffix}",
    }


def _register_all() -> dict[str, str]:
    """Register all intrinsics; their names by the names of constants."""
    names: dict[str, str] = {}

    def register(name: str, make: Any, constant: str = "") -> None:
        TensorIntrin.register_later(name, make)
        names[(constant or name) + "_INTRIN"] = name

    for operand in ("a", "b"):
        for trans in ("", "_trans"):
            for dyn, scope in (("", "shared"), ("_dyn", "shared.dyn")):
                name = f"mma_ldmatrix_f16_{operand}{trans}{dyn}"
                load = partial(get_ldmatrix_intrin, 16, "float16", operand.upper(), bool(trans), scope)
                register(name, load, f"LDMATRIX_f16_{(operand + trans + dyn).upper()}")
    for dtype in ("int8", "float8_e4m3fn", "float8_e5m2"):
        for operand, trans in (("a", ""), ("b", ""), ("b", "_trans")):
            load = partial(get_ldmatrix_intrin, 32, dtype, operand.upper(), bool(trans))
            short = _SHORT[dtype]
            register(f"mma_ldmatrix_{short}_{operand}{trans}", load, f"LDMATRIX_{short}_{(operand + trans).upper()}")
    for out in ("float32", "float16"):
        for a_trans in (False, True):
            for b_trans in (False, True):
                ends = ("_trans_a" if a_trans else "") + ("_trans_b" if b_trans else "")
                name = f"f16f16{_SHORT[out]}"
                product = partial(get_mma_intrin, 16, "float16", "float16", out, a_trans, b_trans)
                register(f"mma_{name}{ends}", product, f"MMA_{name}{ends.upper()}")
    for dtype, out in (("int8", "int32"), ("float8_e5m2", "float32"), ("float8_e4m3fn", "float32")):
        for b_trans in (False, True):
            name, ends = f"{_SHORT[dtype]}{_SHORT[dtype]}{_SHORT[out]}", "_trans_b" if b_trans else ""
            product = partial(get_mma_intrin, 32, dtype, dtype, out, False, b_trans)
            register(f"mma_{name}{ends}", product, f"MMA_{name}{ends.upper()}")
    for dtype in ("float32", "float16", "int32"):
        short = _SHORT[dtype]
        register(f"mma_fill_16x16_{short}", partial(get_mma_fill_intrin, dtype, 8), f"MMA_fill_16x16_{short}")
        store = partial(get_mma_store_intrin, dtype, 8, "global", True)
        register(f"mma_store_16x16_{short}_global_", store, f"MMA_store_16x16_{short}_global")
    store = partial(get_mma_store_intrin, "float32", 8, "shared.dyn", True)
    register("mma_store_16x16_f32_shared_dyn_", store, "MMA_store_16x16_f32_shared_dyn")
    for dtype in ("float32", "float16"):
        name = f"store_16x16_{_SHORT[dtype]}_shared_dyn"
        store = partial(get_mma_store_intrin, dtype, 8, "shared.dyn", False)
        TensorIntrin.register_later(f"mma_{name}_simple_", store)
        names[f"MMA_{name}_INTRIN_SIMPLE"] = f"mma_{name}_simple_"
    return names


_CONSTANTS = _register_all()
globals().update(_CONSTANTS)

__all__ = [  # pyright: ignore[reportUnsupportedDunderAll]
    "get_ldmatrix_intrin",
    "get_mma_fill_intrin",
    "get_mma_intrin",
    "get_mma_intrin_group",
    "get_mma_store_intrin",
    "ldmatrix_32x8_to_shared_16x16_layout",
    "shared_16x16_to_ldmatrix_32x8_layout",
    "shared_16x32_to_ldmatrix_32x16_layout",
    "shared_32x16_to_ldmatrix_32x16_layout",
    *_CONSTANTS,
]
