"""Tensor intrinsics of x86 processors: dot products of AVX-512, its VNNI and BF16 parts, and tiles of AMX."""

from __future__ import annotations

from functools import partial

from tscript.ir.function import PrimFunc
from tscript.ir.tensor_intrin import TensorIntrin
from tscript.tensor_intrin import dialect as T
from tscript.tensor_intrin.dot_product import get_dot_product_desc


def get_vnni_intrin() -> tuple[PrimFunc, PrimFunc]:
    """`vpdpbusd`: 16 sums of four products of unsigned and signed bytes, in 32 bits."""

    @T.prim_func
    def vpdpbusd(a: T.handle, b: T.handle, c: T.handle) -> None:
        A = T.match_buffer(a, (4,), "uint8", offset_factor=1)
        B = T.match_buffer(b, (16, 4), "int8", offset_factor=1)
        C = T.match_buffer(c, (16,), "int32", offset_factor=1)
        with T.block("root"):
            T.reads(C[0:16], A[0:4], B[0:16, 0:4])
            T.writes(C[0:16])
            bytes_of_b = T.decl_buffer((64,), "int8", data=B.data, elem_offset=B.elem_offset)
            C[0:16] = T.call_llvm_pure_intrin(
                "int32x16",
                "llvm.x86.avx512.vpdpbusd.512",
                C[0:16],
                T.broadcast(T.reinterpret("int32", A[0:4]), 16),
                T.reinterpret("int32x16", bytes_of_b[0:64]),
            )

    return get_dot_product_desc(16, 4, "uint8", "int8", "int32"), vpdpbusd


def get_avx512_intrin() -> tuple[PrimFunc, PrimFunc]:
    """The same sums with `vpmaddubsw` and `vpmaddwd`, for processors without VNNI.

    `vpmaddubsw` clips sums of two products to 16 bits. So that nothing is lost, it is used twice: for the low seven
    bits of the unsigned bytes and for their highest bit; no sum of two such products is too large.
    """

    @T.prim_func
    def maddubs(a: T.handle, b: T.handle, c: T.handle) -> None:
        A = T.match_buffer(a, (4,), "uint8", offset_factor=1)
        B = T.match_buffer(b, (16, 4), "int8", offset_factor=1)
        C = T.match_buffer(c, (16,), "int32", offset_factor=1)
        with T.block("root"):
            T.reads(C[0:16], A[0:4], B[0:16, 0:4])
            T.writes(C[0:16])
            bytes_of_b = T.decl_buffer((64,), "int8", data=B.data, elem_offset=B.elem_offset)
            four = T.reinterpret("int32", A[0:4])
            low = T.reinterpret("uint8x64", T.broadcast(T.bitwise_and(four, T.int32(0x7F7F7F7F)), 16))
            high = T.reinterpret("uint8x64", T.broadcast(T.bitwise_and(four, T.int32(-0x7F7F7F80)), 16))
            with_low = T.call_llvm_pure_intrin("int16x32", "llvm.x86.avx512.pmaddubs.w.512", low, bytes_of_b[0:64])
            with_high = T.call_llvm_pure_intrin("int16x32", "llvm.x86.avx512.pmaddubs.w.512", high, bytes_of_b[0:64])
            C[0:16] = (
                C[0:16]
                + T.call_llvm_pure_intrin(
                    "int32x16", "llvm.x86.avx512.pmaddw.d.512", with_low, T.broadcast(T.int16(1), 32)
                )
                + T.call_llvm_pure_intrin(
                    "int32x16", "llvm.x86.avx512.pmaddw.d.512", with_high, T.broadcast(T.int16(1), 32)
                )
            )

    return get_dot_product_desc(16, 4, "uint8", "int8", "int32"), maddubs


def get_avx512_bf16_intrin() -> tuple[PrimFunc, PrimFunc]:
    """`vdpbf16ps`: 16 sums of two products of bfloat16, in float32.

    The instruction adds the second product first, rounds once after each addition, and takes numbers too small for
    the normal format as zero; the description adds the first one first and rounds products too (they are exact).
    """

    @T.prim_func
    def vdpbf16ps(a: T.handle, b: T.handle, c: T.handle) -> None:
        A = T.match_buffer(a, (2,), "bfloat16", offset_factor=1)
        B = T.match_buffer(b, (16, 2), "bfloat16", offset_factor=1)
        C = T.match_buffer(c, (16,), "float32", offset_factor=1)
        with T.block("root"):
            T.reads(C[0:16], A[0:2], B[0:16, 0:2])
            T.writes(C[0:16])
            pairs_of_b = T.decl_buffer((32,), "bfloat16", data=B.data, elem_offset=B.elem_offset)
            C[0:16] = T.call_llvm_pure_intrin(
                "float32x16",
                "llvm.x86.avx512bf16.dpbf16ps.512",
                C[0:16],
                T.reinterpret("bfloat16x32", T.broadcast(T.reinterpret("int32", A[0:2]), 16)),
                pairs_of_b[0:32],
            )

    return get_dot_product_desc(16, 2, "bfloat16", "bfloat16", "float32"), vdpbf16ps


def get_amx_intrin(a_dtype: str, b_dtype: str, c_dtype: str) -> tuple[PrimFunc, PrimFunc]:
    """A product of AMX tiles: `C[16, 16] += A[16, n * w] * B[n, 16, w]` with rows of 64 bytes, w elements in 4 bytes.

    B holds w rows of the matrix side by side, as the instruction wants it. The implementation configures the tiles,
    loads all three, multiplies and stores; `tdpbf16ps` sums up even and odd products on their own before it adds both
    to C, each sum rounded, numbers too small for the normal format as zero. ValueError for other types.
    """
    names = {
        ("int8", "int8", "int32"): "tdpbssd",
        ("int8", "uint8", "int32"): "tdpbsud",
        ("uint8", "int8", "int32"): "tdpbusd",
        ("uint8", "uint8", "int32"): "tdpbuud",
        ("bfloat16", "bfloat16", "float32"): "tdpbf16ps",
    }
    if (a_dtype, b_dtype, c_dtype) not in names:
        raise ValueError(f"AMX has no product of {a_dtype} and {b_dtype} in {c_dtype}")
    instruction = "llvm.x86." + names[a_dtype, b_dtype, c_dtype]
    size = 2 if a_dtype == "bfloat16" else 1
    width = 4 // size
    count = 16 * width

    @T.prim_func
    def tile_product_desc(a: T.handle, b: T.handle, c: T.handle) -> None:
        A = T.match_buffer(a, (16, count), a_dtype, offset_factor=1)
        B = T.match_buffer(b, (16, 16, width), b_dtype, offset_factor=1)
        C = T.match_buffer(c, (16, 16), c_dtype, offset_factor=1)
        with T.block("root"):
            T.reads(C[0:16, 0:16], A[0:16, 0:count], B[0:16, 0:16, 0:width])
            T.writes(C[0:16, 0:16])
            for i, j, k in T.grid(16, 16, count):
                with T.block("update"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    C[vi, vj] = C[vi, vj] + T.cast(A[vi, vk], c_dtype) * T.cast(B[vk // width, vj, vk % width], c_dtype)

    @T.prim_func
    def tile_product_impl(a: T.handle, b: T.handle, c: T.handle) -> None:
        a_row = T.int32()
        b_row = T.int32()
        c_row = T.int32()
        A = T.match_buffer(a, (16, count), a_dtype, offset_factor=1, strides=[a_row, 1])
        B = T.match_buffer(b, (16, 16, width), b_dtype, offset_factor=1, strides=[b_row, width, 1])
        C = T.match_buffer(c, (16, 16), c_dtype, offset_factor=1, strides=[c_row, 1])
        with T.block("root"):
            T.reads(C[0:16, 0:16], A[0:16, 0:count], B[0:16, 0:16, 0:width])
            T.writes(C[0:16, 0:16])
            config = T.alloc_buffer((64,), "uint8")
            for i in range(64):
                config[i] = T.uint8(0)
            config[0] = T.uint8(1)
            for t in range(3):
                config[16 + 2 * t] = T.uint8(64)
                config[48 + t] = T.uint8(16)
            T.evaluate(T.call_llvm_intrin("void", "llvm.x86.ldtilecfg", config.data))
            T.evaluate(
                T.call_llvm_intrin(
                    "void", "llvm.x86.tileloadd64", T.int8(0), C.access_ptr("r"), T.cast(c_row * 4, "int64")
                )
            )
            T.evaluate(
                T.call_llvm_intrin(
                    "void", "llvm.x86.tileloadd64", T.int8(1), A.access_ptr("r"), T.cast(a_row * size, "int64")
                )
            )
            T.evaluate(
                T.call_llvm_intrin(
                    "void", "llvm.x86.tileloadd64", T.int8(2), B.access_ptr("r"), T.cast(b_row * size, "int64")
                )
            )
            T.evaluate(T.call_llvm_intrin("void", instruction, T.int8(0), T.int8(1), T.int8(2)))
            T.evaluate(
                T.call_llvm_intrin(
                    "void", "llvm.x86.tilestored64", T.int8(0), C.access_ptr("w"), T.cast(c_row * 4, "int64")
                )
            )
            T.evaluate(T.call_llvm_intrin("void", "llvm.x86.tilerelease"))

    return tile_product_desc, tile_product_impl


VNNI_DOT_16x4_INTRIN = "dot_16x4_vnni"
TensorIntrin.register_later(VNNI_DOT_16x4_INTRIN, get_vnni_intrin)
AVX512_DOT_16x4_INTRIN = "dot_16x4_avx512"
TensorIntrin.register_later(AVX512_DOT_16x4_INTRIN, get_avx512_intrin)
AVX512_BF16_DOT_16x2_INTRIN = "dot_16x2_avx512_bf16"
TensorIntrin.register_later(AVX512_BF16_DOT_16x2_INTRIN, get_avx512_bf16_intrin)
AMX_S8S8S32_16x16x64_INTRIN = "amx_16x16x64_s8s8s32"
TensorIntrin.register_later(AMX_S8S8S32_16x16x64_INTRIN, partial(get_amx_intrin, "int8", "int8", "int32"))
AMX_S8U8S32_16x16x64_INTRIN = "amx_16x16x64_s8u8s32"
TensorIntrin.register_later(AMX_S8U8S32_16x16x64_INTRIN, partial(get_amx_intrin, "int8", "uint8", "int32"))
AMX_U8S8S32_16x16x64_INTRIN = "amx_16x16x64_u8s8s32"
TensorIntrin.register_later(AMX_U8S8S32_16x16x64_INTRIN, partial(get_amx_intrin, "uint8", "int8", "int32"))
AMX_U8U8S32_16x16x64_INTRIN = "amx_16x16x64_u8u8s32"
TensorIntrin.register_later(AMX_U8U8S32_16x16x64_INTRIN, partial(get_amx_intrin, "uint8", "uint8", "int32"))
AMX_BF16BF16F32_16x16x32_INTRIN = "amx_16x16x32_bf16bf16f32"
TensorIntrin.register_later(AMX_BF16BF16F32_16x16x32_INTRIN, partial(get_amx_intrin, "bfloat16", "bfloat16", "float32"))

__all__ = [
    "AMX_BF16BF16F32_16x16x32_INTRIN",
    "AMX_S8S8S32_16x16x64_INTRIN",
    "AMX_S8U8S32_16x16x64_INTRIN",
    "AMX_U8S8S32_16x16x64_INTRIN",
    "AMX_U8U8S32_16x16x64_INTRIN",
    "AVX512_BF16_DOT_16x2_INTRIN",
    "AVX512_DOT_16x4_INTRIN",
    "VNNI_DOT_16x4_INTRIN",
    "get_amx_intrin",
    "get_avx512_bf16_intrin",
    "get_avx512_intrin",
    "get_vnni_intrin",
]
