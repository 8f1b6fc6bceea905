"""Products of blocks by AMX: four tiles of sums that stay in the processor over a whole reduction."""

from __future__ import annotations

from functools import partial

from tscript.ir.function import PrimFunc
from tscript.ir.tensor_intrin import TensorIntrin
from tscript.tensor_intrin import dialect as T

INSTRUCTIONS = {
    ("int8", "int8", "int32"): "tdpbssd",
    ("int8", "uint8", "int32"): "tdpbsud",
    ("uint8", "int8", "int32"): "tdpbusd",
    ("uint8", "uint8", "int32"): "tdpbuud",
    ("bfloat16", "bfloat16", "float32"): "tdpbf16ps",
}
"""By the types of both operands and of the sums. Source: Intel's instruction set reference, AMX."""


def get_amx_block_intrin(a_dtype: str, b_dtype: str, c_dtype: str, steps: int) -> tuple[PrimFunc, PrimFunc]:
    """`C[32, 32] += A[steps, 32, 16 * w] * B[steps * 16, 32, w]`, tiles behind each other, w elements in 4 bytes.

    The implementation configures the tiles, loads those of C, adds `steps` products to each, stores them and gives the
    tiles back. ValueError for types that AMX has no product of, and for less than one step.

    >>> desc, impl = get_amx_block_intrin("uint8", "int8", "int32", 4)
    >>> [[int(e) for e in b.shape] for b in desc.buffer_map.values()]
    [[4, 32, 64], [64, 32, 4], [32, 32]]
    """
    if (a_dtype, b_dtype, c_dtype) not in INSTRUCTIONS:
        raise ValueError(f"AMX has no product of {a_dtype} and {b_dtype} in {c_dtype}")
    if steps < 1:
        raise ValueError(f"a block is at least one tile deep, not {steps}")
    return _description(a_dtype, b_dtype, c_dtype, steps), _implementation(a_dtype, b_dtype, c_dtype, steps)


def _description(a_dtype: str, b_dtype: str, c_dtype: str, steps: int) -> PrimFunc:
    width = 2 if a_dtype == "bfloat16" else 4
    count = 16 * width
    depth = count * steps

    @T.prim_func
    def block_product_desc(a: T.handle, b: T.handle, c: T.handle) -> None:
        A = T.match_buffer(a, (steps, 32, count), a_dtype, offset_factor=1)
        B = T.match_buffer(b, (depth // width, 32, width), b_dtype, offset_factor=1)
        C = T.match_buffer(c, (32, 32), c_dtype, offset_factor=1)
        with T.block("root"):
            T.reads(C[0:32, 0:32], A[0:steps, 0:32, 0:count], B[0 : depth // width, 0:32, 0:width])
            T.writes(C[0:32, 0:32])
            for i, j, k in T.grid(32, 32, depth):
                with T.block("update"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    C[vi, vj] = C[vi, vj] + T.cast(A[vk // count, vi, vk % count], c_dtype) * T.cast(
                        B[vk // width, vj, vk % width], c_dtype
                    )

    return block_product_desc


def _implementation(a_dtype: str, b_dtype: str, c_dtype: str, steps: int) -> PrimFunc:
    instruction = "llvm.x86." + INSTRUCTIONS[a_dtype, b_dtype, c_dtype]
    load, store = "llvm.x86.tileloadd64", "llvm.x86.tilestored64"
    size = 2 if a_dtype == "bfloat16" else 1
    width = 4 // size
    count = 16 * width
    depth = count * steps

    @T.prim_func
    def block_product_impl(a: T.handle, b: T.handle, c: T.handle) -> None:
        a_step = T.int32()
        b_row = T.int32()
        c_row = T.int32()
        A = T.match_buffer(a, (steps, 32, count), a_dtype, offset_factor=1, strides=[a_step, count, 1])
        B = T.match_buffer(b, (depth // width, 32, width), b_dtype, offset_factor=1, strides=[b_row, width, 1])
        C = T.match_buffer(c, (32, 32), c_dtype, offset_factor=1, strides=[c_row, 1])
        with T.block("root"):
            T.reads(C[0:32, 0:32], A[0:steps, 0:32, 0:count], B[0 : depth // width, 0:32, 0:width])
            T.writes(C[0:32, 0:32])
            config = T.alloc_buffer((64,), "uint8")
            for i in range(64):
                config[i] = T.uint8(0)
            config[0] = T.uint8(1)
            for t in range(8):
                config[16 + 2 * t] = T.uint8(64)
                config[48 + t] = T.uint8(16)
            T.evaluate(T.call_llvm_intrin("void", "llvm.x86.ldtilecfg", config.data))
            # Tiles 0 to 3 are C, 4 and 5 rows of A, 6 and 7 columns of B.
            for t in T.unroll(4):
                at = C.access_ptr("r", offset=t // 2 * 16 * c_row + t % 2 * 16)
                T.evaluate(T.call_llvm_intrin("void", load, T.cast(t, "int8"), at, T.cast(c_row * 4, "int64")))
            for s in range(steps):
                for t in T.unroll(2):
                    at = A.access_ptr("r", offset=s * a_step + t * 16 * count)
                    T.evaluate(T.call_llvm_intrin("void", load, T.cast(t + 4, "int8"), at, T.int64(64)))
                for t in T.unroll(2):
                    at = B.access_ptr("r", offset=s * 16 * b_row + t * 16 * width)
                    row = T.cast(b_row * size, "int64")
                    T.evaluate(T.call_llvm_intrin("void", load, T.cast(t + 6, "int8"), at, row))
                for t in T.unroll(4):
                    x = T.cast(t // 2 + 4, "int8")
                    y = T.cast(t % 2 + 6, "int8")
                    T.evaluate(T.call_llvm_intrin("void", instruction, T.cast(t, "int8"), x, y))
            for t in T.unroll(4):
                at = C.access_ptr("w", offset=t // 2 * 16 * c_row + t % 2 * 16)
                T.evaluate(T.call_llvm_intrin("void", store, T.cast(t, "int8"), at, T.cast(c_row * 4, "int64")))
            T.evaluate(T.call_llvm_intrin("void", "llvm.x86.tilerelease"))

    return block_product_impl


DEPTHS = (1, 2, 4, 8, 16, 32)
"""How many tiles deep the registered blocks are."""


def amx_block_intrin(a_dtype: str, b_dtype: str, c_dtype: str, steps: int) -> str:
    """The name of the tensor intrinsic for blocks of a depth in `DEPTHS`, as `get_amx_block_intrin` makes them.

    >>> amx_block_intrin("uint8", "int8", "int32", 4)
    'amx_32x32_uint8_int8_int32_x4'
    """
    return f"amx_32x32_{a_dtype}_{b_dtype}_{c_dtype}_x{steps}"


for _types in INSTRUCTIONS:
    for _steps in DEPTHS:
        TensorIntrin.register_later(amx_block_intrin(*_types, _steps), partial(get_amx_block_intrin, *_types, _steps))

__all__ = ["DEPTHS", "INSTRUCTIONS", "amx_block_intrin", "get_amx_block_intrin"]
