"""Tensor intrinsics of Arm processors: dot products of bytes."""

from __future__ import annotations

from functools import partial

from tscript.ir.function import PrimFunc
from tscript.ir.tensor_intrin import TensorIntrin
from tscript.tensor_intrin import dialect as T
from tscript.tensor_intrin.dot_product import (
    DP4A_S8S8S32_INTRIN,
    DP4A_S8U8S32_INTRIN,
    DP4A_U8S8S32_INTRIN,
    DP4A_U8U8U32_INTRIN,
    get_dot_product_desc,
)


def get_neon_intrin() -> tuple[PrimFunc, PrimFunc]:
    """Four sums of four products of signed bytes, by the widening products and pairwise sums of any Neon unit."""

    @T.prim_func
    def smull(a: T.handle, b: T.handle, c: T.handle) -> None:
        A = T.match_buffer(a, (4,), "int8", offset_factor=1)
        B = T.match_buffer(b, (4, 4), "int8", offset_factor=1)
        C = T.match_buffer(c, (4,), "int32", offset_factor=1)
        with T.block("root"):
            T.reads(C[0:4], A[0:4], B[0:4, 0:4])
            T.writes(C[0:4])
            bytes_of_b = T.decl_buffer((16,), "int8", data=B.data, elem_offset=B.elem_offset)
            twice = T.reinterpret("int8x8", T.broadcast(T.reinterpret("int32", A[0:4]), 2))
            low = T.call_llvm_pure_intrin("int16x8", "llvm.aarch64.neon.smull.v8i16", twice, bytes_of_b[0:8])
            high = T.call_llvm_pure_intrin("int16x8", "llvm.aarch64.neon.smull.v8i16", twice, bytes_of_b[8:16])
            C[0:4] = C[0:4] + T.call_llvm_pure_intrin(
                "int32x4",
                "llvm.aarch64.neon.addp.v4i32",
                T.call_llvm_pure_intrin("int32x4", "llvm.aarch64.neon.saddlp.v4i32.v8i16", low),
                T.call_llvm_pure_intrin("int32x4", "llvm.aarch64.neon.saddlp.v4i32.v8i16", high),
            )

    return get_dot_product_desc(4, 4, "int8", "int8", "int32"), smull


def get_dotprod_intrin(in_dtype: str, out_dtype: str) -> tuple[PrimFunc, PrimFunc]:
    """Four sums of four products of bytes by `sdot` or `udot`. ValueError for operands that are no bytes."""
    names = {"int8": "sdot", "uint8": "udot"}
    if in_dtype not in names:
        raise ValueError(f"the dot products of Arm take int8 or uint8, not {in_dtype}")
    instruction = f"llvm.aarch64.neon.{names[in_dtype]}.v4i32.v16i8"
    in_x16, out_x4 = f"{in_dtype}x16", f"{out_dtype}x4"

    @T.prim_func
    def dot(a: T.handle, b: T.handle, c: T.handle) -> None:
        A = T.match_buffer(a, (4,), in_dtype, offset_factor=1)
        B = T.match_buffer(b, (4, 4), in_dtype, offset_factor=1)
        C = T.match_buffer(c, (4,), out_dtype, offset_factor=1)
        with T.block("root"):
            T.reads(C[0:4], A[0:4], B[0:4, 0:4])
            T.writes(C[0:4])
            bytes_of_b = T.decl_buffer((16,), in_dtype, data=B.data, elem_offset=B.elem_offset)
            C[0:4] = T.call_llvm_pure_intrin(
                out_x4,
                instruction,
                C[0:4],
                T.reinterpret(in_x16, T.broadcast(T.reinterpret("int32", A[0:4]), 4)),
                bytes_of_b[0:16],
            )

    return get_dot_product_desc(4, 4, in_dtype, in_dtype, out_dtype), dot


ARM_DOT_4x4_i8_NEON_INTRIN = "dot_4x4_i8i8s32_neon"
TensorIntrin.register_later(ARM_DOT_4x4_i8_NEON_INTRIN, get_neon_intrin)
ARM_DOT_4x4_i8_SDOT_INTRIN = "dot_4x4_i8i8s32_sdot"
TensorIntrin.register_later(ARM_DOT_4x4_i8_SDOT_INTRIN, partial(get_dotprod_intrin, "int8", "int32"))
ARM_DOT_4x4_u8_UDOT_INTRIN = "dot_4x4_u8u8u32_udot"
TensorIntrin.register_later(ARM_DOT_4x4_u8_UDOT_INTRIN, partial(get_dotprod_intrin, "uint8", "uint32"))
ARM_DOT_4x4_u8_HDOT_INTRIN = "dot_4x4_u8u8i32_hdot"
TensorIntrin.register_later(ARM_DOT_4x4_u8_HDOT_INTRIN, partial(get_dotprod_intrin, "uint8", "int32"))

__all__ = [
    "ARM_DOT_4x4_i8_NEON_INTRIN",
    "ARM_DOT_4x4_i8_SDOT_INTRIN",
    "ARM_DOT_4x4_u8_HDOT_INTRIN",
    "ARM_DOT_4x4_u8_UDOT_INTRIN",
    "DP4A_S8S8S32_INTRIN",
    "DP4A_S8U8S32_INTRIN",
    "DP4A_U8S8S32_INTRIN",
    "DP4A_U8U8U32_INTRIN",
    "get_dotprod_intrin",
    "get_neon_intrin",
]
