"""Tensor intrinsics of CPUs: each implementation computes what its description says, and programs take it."""

from __future__ import annotations

import platform
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tscript
from tests.schedule.check import check_schedule
from tscript import interp
from tscript.driver import build
from tscript.ir.semantics import numpy_dtype
from tscript.schedule import Schedule
from tscript.script import tir as T
from tscript.support.errors import InterpError
from tscript.target.detect import host_processor
from tscript.tir import TensorIntrin
from tscript.tir.tensor_intrin import arm_cpu, dot_product_common, x86

EXACT = [
    x86.VNNI_DOT_16x4_INTRIN,
    x86.AVX512_DOT_16x4_INTRIN,
    x86.AMX_S8S8S32_16x16x64_INTRIN,
    x86.AMX_S8U8S32_16x16x64_INTRIN,
    x86.AMX_U8S8S32_16x16x64_INTRIN,
    x86.AMX_U8U8S32_16x16x64_INTRIN,
    arm_cpu.ARM_DOT_4x4_i8_NEON_INTRIN,
    arm_cpu.ARM_DOT_4x4_i8_SDOT_INTRIN,
    arm_cpu.ARM_DOT_4x4_u8_UDOT_INTRIN,
    arm_cpu.ARM_DOT_4x4_u8_HDOT_INTRIN,
    dot_product_common.DP4A_S8S8S32_INTRIN,
    dot_product_common.DP4A_U8S8S32_INTRIN,
    dot_product_common.DP4A_S8U8S32_INTRIN,
    dot_product_common.DP4A_U8U8U32_INTRIN,
]
ROUNDED = [x86.AVX512_BF16_DOT_16x2_INTRIN, x86.AMX_BF16BF16F32_16x16x32_INTRIN]


def arguments_of(name: str, seed: int, whole: bool) -> list[Any]:
    desc = TensorIntrin.get(name).desc
    rng = np.random.default_rng(seed)
    made: list[Any] = []
    for p in desc.params:
        b = desc.buffer_map[p]
        shape, dtype = [s.value for s in b.shape], numpy_dtype(b.dtype)
        if b.dtype.is_float:
            values = rng.integers(-8, 9, shape) if whole else rng.standard_normal(shape)
            made.append(values.astype(dtype))
        elif b.dtype.bits == 8:
            ends = np.iinfo(dtype)
            # The ends of the range are where instructions clip.
            made.append(rng.choice([ends.min, ends.max, *rng.integers(ends.min, ends.max + 1, 6)], shape).astype(dtype))
        else:
            ends = np.iinfo(dtype)
            made.append(rng.integers(ends.min, ends.max + 1, shape, dtype=np.int64).astype(dtype))
    return made


@pytest.mark.parametrize("name", EXACT)
def test_the_implementation_computes_what_the_description_says(name: str):
    intrin = TensorIntrin.get(name)
    for seed in range(3):
        expected = arguments_of(name, seed, whole=True)
        got = [a.copy() for a in expected]
        interp.run(intrin.desc, *expected)
        interp.run(intrin.impl, *got, check_uninitialized=True)
        for g, e in zip(got, expected, strict=True):
            np.testing.assert_array_equal(g, e)


@pytest.mark.parametrize("name", ROUNDED)
def test_sums_of_floats_round_as_the_instruction_does(name: str):
    intrin = TensorIntrin.get(name)
    expected = arguments_of(name, 0, whole=True)
    got = [a.copy() for a in expected]
    interp.run(intrin.desc, *expected)
    interp.run(intrin.impl, *got, check_uninitialized=True)
    np.testing.assert_array_equal(got[2], expected[2])
    rough = arguments_of(name, 1, whole=False)
    close = [a.copy() for a in rough]
    interp.run(intrin.desc, *rough)
    interp.run(intrin.impl, *close)
    np.testing.assert_allclose(close[2], rough[2], rtol=1e-5, atol=1e-5)


def test_bf16_products_add_the_odd_one_first_and_drop_tiny_numbers():
    impl = TensorIntrin.get(x86.AVX512_BF16_DOT_16x2_INTRIN).impl
    bf16 = numpy_dtype(next(iter(impl.buffer_map.values())).dtype)
    b = np.ones((16, 2), bf16)
    # 2**24 + 1 rounds to 2**24; the odd product comes first, so 1 is lost and -2**24 then gives 0.
    c = np.full(16, 2.0**24, np.float32)
    interp.run(impl, np.array([-(2.0**24), 1.0], bf16), b, c)
    assert (c == 0).all()
    c = np.full(16, 2.0**24, np.float32)
    interp.run(impl, np.array([1.0, -(2.0**24)], bf16), b, c)
    assert (c == 1).all()
    # 2**-130 has no place in the normal format: it counts as zero, as an operand and as a result.
    c = np.zeros(16, np.float32)
    interp.run(impl, np.array([2.0**-130, 2.0**-100], bf16), np.full((16, 2), 2.0**-30, bf16), c)
    assert (c == 0).all()


@pytest.mark.skipif("avx512vnni" not in host_processor()[1], reason="the processor has no VNNI")
@pytest.mark.parametrize("name", [x86.VNNI_DOT_16x4_INTRIN, x86.AVX512_DOT_16x4_INTRIN])
def test_the_instruction_itself_agrees(name: str):
    intrin = TensorIntrin.get(name)
    native = build(intrin.impl.with_attr("global_symbol", "main"), target=f"llvm -mcpu={host_processor()[0]}")["main"]
    for seed in range(3):
        expected = arguments_of(name, seed, whole=True)
        got = [a.copy() for a in expected]
        interp.run(intrin.impl, *expected)
        native(*got)
        np.testing.assert_array_equal(got[2], expected[2])


@pytest.mark.skipif("avx512bf16" not in host_processor()[1], reason="the processor has no bfloat16 products")
def test_the_bfloat16_instruction_itself_agrees():
    intrin = TensorIntrin.get(x86.AVX512_BF16_DOT_16x2_INTRIN)
    native = build(intrin.impl.with_attr("global_symbol", "main"), target="llvm")["main"]
    rng = np.random.default_rng(3)
    for _ in range(20):
        a, b = (
            rng.standard_normal(2).astype(ml_dtypes.bfloat16),
            rng.standard_normal((16, 2)).astype(ml_dtypes.bfloat16),
        )
        expected = rng.standard_normal(16).astype(np.float32)
        got = expected.copy()
        interp.run(intrin.impl, a, b, expected)
        native(a, b, got)
        np.testing.assert_array_equal(got, expected)


def test_tiles_must_be_configured():
    @T.prim_func
    def func(A: T.Buffer((64,), "uint8")):
        with T.block("root"):
            T.reads()
            T.writes(A[0:64])
            T.evaluate(T.call_llvm_intrin("void", "llvm.x86.tilestored64", T.int8(0), A.data, T.int64(64)))

    with pytest.raises(InterpError, match="before llvm.x86.ldtilecfg"):
        interp.run(func, np.zeros(64, np.uint8))


def test_an_instruction_nobody_knows():
    @T.prim_func
    def func(A: T.Buffer((1,), "int32")):
        A[0] = T.call_llvm_pure_intrin("int32", "llvm.x86.no.such", A[0])

    with pytest.raises(InterpError, match="does not know .* 'llvm.x86.no.such'"):
        interp.run(func, np.zeros(1, np.int32))


# -- scheduled programs ---------------------------------------------------------------------------


def packed_matmul(lanes: int, width: int, a: str, b: str, c: str) -> Any:
    @T.prim_func
    def matmul(x: T.handle, y: T.handle, z: T.handle):
        A = T.match_buffer(x, (5, 4 * width), a)
        B = T.match_buffer(y, (2, 4, lanes, width), b)
        C = T.match_buffer(z, (5, 2 * lanes), c)
        for i, j, k in T.grid(5, 2 * lanes, 4 * width):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.cast(0, c)
                C[vi, vj] = C[vi, vj] + T.cast(A[vi, vk], c) * T.cast(
                    B[vj // lanes, vk // width, vj % lanes, vk % width], c
                )

    return matmul


@pytest.mark.parametrize("decompose", [True, False])
@pytest.mark.parametrize(
    ("name", "lanes", "width", "types"),
    [
        (x86.VNNI_DOT_16x4_INTRIN, 16, 4, ("uint8", "int8", "int32")),
        (x86.AVX512_DOT_16x4_INTRIN, 16, 4, ("uint8", "int8", "int32")),
        (x86.AVX512_BF16_DOT_16x2_INTRIN, 16, 2, ("bfloat16", "bfloat16", "float32")),
        (arm_cpu.ARM_DOT_4x4_i8_SDOT_INTRIN, 4, 4, ("int8", "int8", "int32")),
        (arm_cpu.ARM_DOT_4x4_i8_NEON_INTRIN, 4, 4, ("int8", "int8", "int32")),
        (arm_cpu.ARM_DOT_4x4_u8_UDOT_INTRIN, 4, 4, ("uint8", "uint8", "uint32")),
        (arm_cpu.ARM_DOT_4x4_u8_HDOT_INTRIN, 4, 4, ("uint8", "uint8", "int32")),
    ],
)
def test_a_matmul_takes_the_intrinsic(name: str, lanes: int, width: int, types: tuple[str, str, str], decompose: bool):
    def steps(s: Schedule) -> None:
        i, j, k = s.get_loops("C")
        j_0, j_1 = s.split(j, [None, lanes])
        k_0, k_1 = s.split(k, [None, width])
        s.reorder(i, j_0, k_0, j_1, k_1)
        if decompose:
            s.decompose_reduction("C", k_0)
        s.tensorize(j_1, name)

    sch = check_schedule(packed_matmul(lanes, width, *types), steps, native=False)
    assert "call_llvm_pure_intrin" in sch.mod.script()


@pytest.mark.parametrize(
    ("name", "width", "types"),
    [
        (x86.AMX_S8S8S32_16x16x64_INTRIN, 4, ("int8", "int8", "int32")),
        (x86.AMX_U8S8S32_16x16x64_INTRIN, 4, ("uint8", "int8", "int32")),
        (x86.AMX_BF16BF16F32_16x16x32_INTRIN, 2, ("bfloat16", "bfloat16", "float32")),
    ],
)
def test_a_matmul_takes_amx_tiles(name: str, width: int, types: tuple[str, str, str]):
    a, b, c = types
    size = 16 * width

    @T.prim_func
    def matmul(x: T.handle, y: T.handle, z: T.handle):
        A = T.match_buffer(x, (32, 2 * size), a)
        B = T.match_buffer(y, (32, 16, width), b)
        C = T.match_buffer(z, (32, 16), c)
        for i, j, k in T.grid(32, 16, 2 * size):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.cast(0, c)
                C[vi, vj] = C[vi, vj] + T.cast(A[vi, vk], c) * T.cast(B[vk // width, vj, vk % width], c)

    def steps(s: Schedule) -> None:
        i, j, k = s.get_loops("C")
        i_0, i_1 = s.split(i, [None, 16])
        k_0, k_1 = s.split(k, [None, size])
        s.reorder(i_0, k_0, i_1, j, k_1)
        s.tensorize(i_1, name)

    native = {"amx-tile", "amx-int8", "amx-bf16"} <= tscript.target.Target("llvm").features
    assert "tdpb" in check_schedule(matmul, steps, native=native).mod.script()


@pytest.mark.parametrize("types", [("int8", "int8", "int32"), ("uint8", "int8", "int32"), ("uint8", "uint8", "uint32")])
def test_a_sum_on_a_gpu_takes_dp4a(types: tuple[str, str, str]):
    a, b, c = types
    short = {"int8": "s8", "uint8": "u8", "int32": "s32", "uint32": "u32"}

    @T.prim_func
    def matmul(x: T.handle, y: T.handle, z: T.handle):
        A = T.match_buffer(x, (4, 16), a)
        B = T.match_buffer(y, (6, 16), b)
        C = T.match_buffer(z, (4, 6), c)
        for i, j, k in T.grid(4, 6, 16):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.cast(0, c)
                C[vi, vj] = C[vi, vj] + T.cast(A[vi, vk], c) * T.cast(B[vj, vk], c)

    def steps(s: Schedule) -> None:
        s.cache_read("C", 0, "shared")
        s.cache_read("C", 1, "shared")
        s.cache_write("C", 0, "local")
        _, _, k = s.get_loops("C")
        _, k_1 = s.split(k, [None, 4])
        s.tensorize(k_1, "dp4a_" + "".join(short[t] for t in types))

    assert "T.dp4a(" in check_schedule(matmul, steps, native=platform.machine() == "x86_64").mod.script()
