"""Tensor intrinsics for fragments of matrices on NVIDIA GPUs (WMMA): load, fill, product, store.

Fragments lie in buffers of scope `wmma.matrix_a`, `wmma.matrix_b` and `wmma.accumulator`. The number of a fragment
follows from the offset and the row length of the part of the buffer that it is.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

from tscript.ir.function import PrimFunc
from tscript.ir.tensor_intrin import TensorIntrin
from tscript.tensor_intrin import dialect as T

Pair = tuple[PrimFunc, PrimFunc]
_SHORT = {"float16": "f16", "float32": "f32", "int8": "s8", "int4": "s4", "int32": "s32"}


def get_wmma_fragment_index(buffer: Any, stride: Any, m_dim: int, n_dim: int) -> Any:
    """The number of the fragment of m by n elements that a part of a buffer with rows of `stride` elements is."""
    per_row = stride // n_dim
    return buffer.elem_offset // stride // m_dim * per_row + buffer.elem_offset % stride // n_dim


def get_wmma_load_intrin(
    m_dim: int, n_dim: int, k_dim: int, dtype: str, shared_scope: str, is_b: bool, is_col_major: bool
) -> Pair:
    """A tile of shared memory becomes a fragment of the first or (`is_b`) the second operand."""
    scope = f"wmma.matrix_{'b' if is_b else 'a'}"
    layout = "col_major" if is_col_major else "row_major"
    rows, columns = (k_dim, n_dim) if is_b else (m_dim, k_dim)
    if is_col_major:
        rows, columns = columns, rows

    @T.prim_func
    def wmma_load_desc(a: T.handle, c: T.handle) -> None:
        A = T.match_buffer(a, (rows, columns), dtype, align=64, offset_factor=columns, scope=shared_scope)
        C = T.match_buffer(c, (rows, columns), dtype, align=64, offset_factor=columns, scope=scope)
        with T.block("root"):
            T.reads(A[0:rows, 0:columns])
            T.writes(C[0:rows, 0:columns])
            for i, j in T.grid(rows, columns):
                with T.block("load"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = A[vi, vj]

    @T.prim_func
    def wmma_load_impl(a: T.handle, c: T.handle) -> None:
        a_row, a_step, c_row, c_step = T.int32(), T.int32(), T.int32(), T.int32()
        A = T.match_buffer(
            a, (rows, columns), dtype, align=64, offset_factor=columns, scope=shared_scope, strides=[a_row, a_step]
        )
        C = T.match_buffer(
            c, (rows, columns), dtype, align=64, offset_factor=columns, scope=scope, strides=[c_row, c_step]
        )
        with T.block("root"):
            T.reads(A[0:rows, 0:columns])
            T.writes(C[0:rows, 0:columns])
            T.evaluate(
                T.tvm_load_matrix_sync(
                    C.data,
                    m_dim,
                    n_dim,
                    k_dim,
                    get_wmma_fragment_index(C, c_row, rows, columns),
                    A.access_ptr("r"),
                    a_row,
                    layout,
                )
            )

    return wmma_load_desc, wmma_load_impl


def get_wmma_fill_intrin(m_dim: int, n_dim: int, k_dim: int, dtype: str) -> Pair:
    """A fragment of the result becomes zero."""

    @T.prim_func
    def wmma_fill_desc(c: T.handle) -> None:
        C = T.match_buffer(c, (m_dim, n_dim), dtype, align=64, offset_factor=n_dim, scope="wmma.accumulator")
        with T.block("root"):
            T.reads()
            T.writes(C[0:m_dim, 0:n_dim])
            for i, j in T.grid(m_dim, n_dim):
                with T.block("init"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = T.cast(0, dtype)

    @T.prim_func
    def wmma_fill_impl(c: T.handle) -> None:
        c_row, c_step = T.int32(), T.int32()
        C = T.match_buffer(
            c,
            (m_dim, n_dim),
            dtype,
            align=64,
            offset_factor=n_dim,
            scope="wmma.accumulator",
            strides=[c_row, c_step],
        )
        with T.block("root"):
            T.reads()
            T.writes(C[0:m_dim, 0:n_dim])
            T.evaluate(
                T.tvm_fill_fragment(
                    C.data, m_dim, n_dim, k_dim, get_wmma_fragment_index(C, c_row, m_dim, n_dim), T.float32(0)
                )
            )

    return wmma_fill_desc, wmma_fill_impl


def get_wmma_store_intrin(m_dim: int, n_dim: int, k_dim: int, dtype: str, scope: str) -> Pair:
    """A fragment of the result is written to a tile of shared or global memory."""

    @T.prim_func
    def wmma_store_desc(a: T.handle, c: T.handle) -> None:
        A = T.match_buffer(a, (m_dim, n_dim), dtype, align=64, offset_factor=n_dim, scope="wmma.accumulator")
        C = T.match_buffer(c, (m_dim, n_dim), dtype, align=64, offset_factor=n_dim, scope=scope)
        with T.block("root"):
            T.reads(A[0:m_dim, 0:n_dim])
            T.writes(C[0:m_dim, 0:n_dim])
            for i, j in T.grid(m_dim, n_dim):
                with T.block("store"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = A[vi, vj]

    @T.prim_func
    def wmma_store_impl(a: T.handle, c: T.handle) -> None:
        a_row, a_step, c_row, c_step = T.int32(), T.int32(), T.int32(), T.int32()
        A = T.match_buffer(
            a,
            (m_dim, n_dim),
            dtype,
            align=64,
            offset_factor=n_dim,
            scope="wmma.accumulator",
            strides=[a_row, a_step],
        )
        C = T.match_buffer(
            c, (m_dim, n_dim), dtype, align=64, offset_factor=n_dim, scope=scope, strides=[c_row, c_step]
        )
        with T.block("root"):
            T.reads(A[0:m_dim, 0:n_dim])
            T.writes(C[0:m_dim, 0:n_dim])
            T.evaluate(
                T.tvm_store_matrix_sync(
                    A.data,
                    m_dim,
                    n_dim,
                    k_dim,
                    get_wmma_fragment_index(A, a_row, m_dim, n_dim),
                    C.access_ptr("w"),
                    c_row,
                    "row_major",
                )
            )

    return wmma_store_desc, wmma_store_impl


def _place(row: Any, column: Any, transposed: bool) -> tuple[Any, Any]:
    return (column, row) if transposed else (row, column)


def get_wmma_sync_intrin(m_dim: int, n_dim: int, k_dim: int, in_dtype: str, out_dtype: str, b_transposed: bool) -> Pair:
    """The product of two fragments is added to a third one; `b_transposed`: the second one is stored as [n, k]."""
    rows, columns = (n_dim, k_dim) if b_transposed else (k_dim, n_dim)

    @T.prim_func
    def wmma_sync_desc(a: T.handle, b: T.handle, c: T.handle) -> None:
        A = T.match_buffer(a, (m_dim, k_dim), in_dtype, align=64, offset_factor=k_dim, scope="wmma.matrix_a")
        B = T.match_buffer(b, (rows, columns), in_dtype, align=64, offset_factor=columns, scope="wmma.matrix_b")
        C = T.match_buffer(c, (m_dim, n_dim), out_dtype, align=64, offset_factor=n_dim, scope="wmma.accumulator")
        with T.block("root"):
            T.reads(C[0:m_dim, 0:n_dim], A[0:m_dim, 0:k_dim], B[0:rows, 0:columns])
            T.writes(C[0:m_dim, 0:n_dim])
            for i, j, k in T.grid(m_dim, n_dim, k_dim):
                with T.block("update"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    at = T.meta_var(_place(vk, vj, b_transposed))
                    C[vi, vj] = C[vi, vj] + T.cast(A[vi, vk], out_dtype) * T.cast(B[at[0], at[1]], out_dtype)

    @T.prim_func
    def wmma_sync_impl(a: T.handle, b: T.handle, c: T.handle) -> None:
        a_row, a_step, b_row, b_step = T.int32(), T.int32(), T.int32(), T.int32()
        c_row, c_step = T.int32(), T.int32()
        A = T.match_buffer(
            a,
            (m_dim, k_dim),
            in_dtype,
            align=64,
            offset_factor=k_dim,
            scope="wmma.matrix_a",
            strides=[a_row, a_step],
        )
        B = T.match_buffer(
            b,
            (rows, columns),
            in_dtype,
            align=64,
            offset_factor=columns,
            scope="wmma.matrix_b",
            strides=[b_row, b_step],
        )
        C = T.match_buffer(
            c,
            (m_dim, n_dim),
            out_dtype,
            align=64,
            offset_factor=n_dim,
            scope="wmma.accumulator",
            strides=[c_row, c_step],
        )
        with T.block("root"):
            T.reads(C[0:m_dim, 0:n_dim], A[0:m_dim, 0:k_dim], B[0:rows, 0:columns])
            T.writes(C[0:m_dim, 0:n_dim])
            T.evaluate(
                T.tvm_mma_sync(
                    C.data,
                    get_wmma_fragment_index(C, c_row, m_dim, n_dim),
                    A.data,
                    get_wmma_fragment_index(A, a_row, m_dim, k_dim),
                    B.data,
                    get_wmma_fragment_index(B, b_row, rows, columns),
                    C.data,
                    get_wmma_fragment_index(C, c_row, m_dim, n_dim),
                )
            )

    return wmma_sync_desc, wmma_sync_impl


def get_wmma_intrin_group(
    load_scope: Literal["shared", "shared.dyn"],
    store_scope: Literal["global", "shared", "shared.dyn"],
    in_dtype: str,
    out_dtype: str,
    trans_b: bool,
) -> dict[str, str]:
    """The names of the intrinsics for 16x16x16 products: init, load_a, load_b, compute, store.

    ValueError for memory or types that there are none for.

    >>> get_wmma_intrin_group("shared", "global", "float16", "float32", True)["compute"]
    'wmma_sync_16x16x16_f16f16f32_trans'
    """
    if load_scope not in ("shared", "shared.dyn"):
        raise ValueError(f"operands are loaded from 'shared' or 'shared.dyn', not from {load_scope!r}")
    if store_scope not in ("global", "shared", "shared.dyn"):
        raise ValueError(f"results are stored to 'global', 'shared' or 'shared.dyn', not to {store_scope!r}")
    if (in_dtype, out_dtype) not in (("float16", "float16"), ("float16", "float32"), ("int8", "int32")):
        raise ValueError(f"there is no product of {in_dtype} in {out_dtype}")
    shape, short, out = "16x16x16", _SHORT[in_dtype], _SHORT[out_dtype]
    source, target, trans = load_scope.replace(".", "_"), store_scope.replace(".", "_"), "_trans" if trans_b else ""
    return {
        "init": f"wmma_fill_{shape}_{out}",
        "load_a": f"wmma_load_{shape}_{short}_a_{source}",
        "load_b": f"wmma_load_{shape}_{short}_b{trans}_{source}",
        "compute": f"wmma_sync_{shape}_{short}{short}{out}{trans}",
        "store": f"wmma_store_{shape}_{out}_{target}",
    }


def _register_all() -> dict[str, str]:
    """Register all intrinsics; their names by the names of constants."""
    names: list[str] = []

    def register(name: str, make: Any) -> None:
        TensorIntrin.register_later(name, make)
        names.append(name)

    def register_results(m: int, n: int, k: int, dtype: str) -> None:
        shape = f"{m}x{n}x{k}"
        register(f"wmma_fill_{shape}_{_SHORT[dtype]}", partial(get_wmma_fill_intrin, m, n, k, dtype))
        for scope in ("shared", "shared.dyn", "global"):
            name = f"wmma_store_{shape}_{_SHORT[dtype]}_{scope.replace('.', '_')}"
            register(name, partial(get_wmma_store_intrin, m, n, k, dtype, scope))

    def register_load(m: int, n: int, k: int, dtype: str, is_b: bool, trans: bool) -> None:
        for scope in ("shared", "shared.dyn"):
            operand = ("b" if is_b else "a") + ("_trans" if trans else "")
            name = f"wmma_load_{m}x{n}x{k}_{_SHORT[dtype]}_{operand}_{scope.replace('.', '_')}"
            register(name, partial(get_wmma_load_intrin, m, n, k, dtype, scope, is_b, trans))

    for dtype in ("float16", "int8"):
        for is_b in (False, True):
            for trans in (False, True):
                register_load(16, 16, 16, dtype, is_b, trans)
    register_load(8, 8, 32, "int4", False, False)
    register_load(8, 8, 32, "int4", True, True)
    for in_dtype, out_dtype in (("float16", "float32"), ("float16", "float16"), ("int8", "int32")):
        short = _SHORT[in_dtype]
        for trans in (False, True):
            name = f"wmma_sync_16x16x16_{short}{short}{_SHORT[out_dtype]}{'_trans' if trans else ''}"
            register(name, partial(get_wmma_sync_intrin, 16, 16, 16, in_dtype, out_dtype, trans))
    register("wmma_sync_8x8x32_s4s4s32_trans", partial(get_wmma_sync_intrin, 8, 8, 32, "int4", "int32", True))
    for dtype in ("float32", "float16", "int32"):
        register_results(16, 16, 16, dtype)
    register_results(8, 8, 32, "int32")
    return {constant_of(n): n for n in names}


def constant_of(name: str) -> str:
    """The name of the constant that holds the name of an intrinsic.

    >>> constant_of("wmma_load_16x16x16_f16_a_shared_dyn"), constant_of("wmma_sync_16x16x16_s8s8s32_trans")
    ('WMMA_LOAD_16x16x16_F16_A_DYN_INTRIN', 'WMMA_SYNC_16x16x16_s8s8s32_TRANS_INTRIN')
    """
    kind, parts = name.split("_")[1], name.split("_")
    if kind == "load":
        # Operands are always loaded from shared memory, so the constants do not say so.
        parts.remove("shared")
    kept = 4 if kind == "sync" else 3
    return "_".join(p if 2 <= i < kept else p.upper() for i, p in enumerate(parts)) + "_INTRIN"


_CONSTANTS = _register_all()
globals().update(_CONSTANTS)

__all__ = [  # pyright: ignore[reportUnsupportedDunderAll]
    "get_wmma_fill_intrin",
    "get_wmma_fragment_index",
    "get_wmma_intrin_group",
    "get_wmma_load_intrin",
    "get_wmma_store_intrin",
    "get_wmma_sync_intrin",
    *_CONSTANTS,
]
