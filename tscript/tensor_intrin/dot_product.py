"""Dot products of four bytes: what several kinds of hardware do with one instruction."""

from __future__ import annotations

from functools import partial

from tscript.ir.function import PrimFunc
from tscript.ir.tensor_intrin import TensorIntrin
from tscript.tensor_intrin import dialect as T


def get_dot_product_desc(lanes: int, width: int, a_dtype: str, b_dtype: str, c_dtype: str) -> PrimFunc:
    """The description of `C[i] += sum over k of A[k] * B[i, k]` for `lanes` results and sums of `width` products.

    Products and sums are of the type of C.

    >>> [str(b.dtype) for b in get_dot_product_desc(16, 4, "uint8", "int8", "int32").buffer_map.values()]
    ['uint8', 'int8', 'int32']
    """

    @T.prim_func
    def dot_product(a: T.handle, b: T.handle, c: T.handle) -> None:
        A = T.match_buffer(a, (width,), a_dtype, offset_factor=1)
        B = T.match_buffer(b, (lanes, width), b_dtype, offset_factor=1)
        C = T.match_buffer(c, (lanes,), c_dtype, offset_factor=1)
        with T.block("root"):
            T.reads(C[0:lanes], A[0:width], B[0:lanes, 0:width])
            T.writes(C[0:lanes])
            for i, k in T.grid(lanes, width):
                with T.block("update"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    C[vi] = C[vi] + T.cast(A[vk], c_dtype) * T.cast(B[vi, vk], c_dtype)

    return dot_product


def get_dp4a_intrin(dtype_a: str, dtype_b: str, dtype_c: str) -> tuple[PrimFunc, PrimFunc]:
    """Description and implementation of the `dp4a` instruction of GPUs, which adds four products of bytes to a number.

    ValueError where a signed operand is summed up in an unsigned number.
    """
    if dtype_c == "uint32" and (dtype_a, dtype_b) != ("uint8", "uint8"):
        raise ValueError(f"products of {dtype_a} and {dtype_b} can be negative; sum them up in int32")

    @T.prim_func
    def dp4a_desc(a: T.handle, b: T.handle, c: T.handle) -> None:
        A = T.match_buffer(a, (4,), dtype_a, offset_factor=1, align=4, scope="shared")
        B = T.match_buffer(b, (4,), dtype_b, offset_factor=1, align=4, scope="shared")
        C = T.match_buffer(c, (1,), dtype_c, offset_factor=1, align=4, scope="local")
        with T.block("root"):
            T.reads(C[0], A[0:4], B[0:4])
            T.writes(C[0])
            for k in range(4):
                with T.block("update"):
                    vk = T.axis.reduce(4, k)
                    C[0] = C[0] + T.cast(A[vk], dtype_c) * T.cast(B[vk], dtype_c)

    @T.prim_func
    def dp4a_impl(a: T.handle, b: T.handle, c: T.handle) -> None:
        A = T.match_buffer(a, (4,), dtype_a, offset_factor=1, align=4, scope="shared")
        B = T.match_buffer(b, (4,), dtype_b, offset_factor=1, align=4, scope="shared")
        C = T.match_buffer(c, (1,), dtype_c, offset_factor=1, align=4, scope="local")
        with T.block("root"):
            T.reads(C[0], A[0:4], B[0:4])
            T.writes(C[0])
            C[0] = T.dp4a(dtype_c, A[0:4], B[0:4], C[0])

    return dp4a_desc, dp4a_impl


DP4A_S8S8S32_INTRIN = "dp4a_s8s8s32"
TensorIntrin.register_later(DP4A_S8S8S32_INTRIN, partial(get_dp4a_intrin, "int8", "int8", "int32"))
DP4A_U8S8S32_INTRIN = "dp4a_u8s8s32"
TensorIntrin.register_later(DP4A_U8S8S32_INTRIN, partial(get_dp4a_intrin, "uint8", "int8", "int32"))
DP4A_S8U8S32_INTRIN = "dp4a_s8u8s32"
TensorIntrin.register_later(DP4A_S8U8S32_INTRIN, partial(get_dp4a_intrin, "int8", "uint8", "int32"))
DP4A_U8U8U32_INTRIN = "dp4a_u8u8u32"
TensorIntrin.register_later(DP4A_U8U8U32_INTRIN, partial(get_dp4a_intrin, "uint8", "uint8", "uint32"))

__all__ = [
    "DP4A_S8S8S32_INTRIN",
    "DP4A_S8U8S32_INTRIN",
    "DP4A_U8S8S32_INTRIN",
    "DP4A_U8U8U32_INTRIN",
    "get_dot_product_desc",
    "get_dp4a_intrin",
]
