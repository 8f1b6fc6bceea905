"""Kernels as users write them, with buffers in the signature; `test_typing.py` checks them in strict mode.

A parameter annotated by a call has no type a checker knows, and what is read from it has none either: beside the
rule against such annotations, those that report unknown types are off. `annotated.py` and `handles.py` show forms that
need none off.
"""

# pyright: reportUnknownParameterType=false, reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

import tscript
from tscript.script import ir as I
from tscript.script import tir as T


@tscript.script.ir_module
class MyModule:
    @T.prim_func
    def mm_relu(
        A: T.Buffer((128, 128), "float32"), B: T.Buffer((128, 128), "float32"), C: T.Buffer((128, 128), "float32")
    ):
        T.func_attr({"global_symbol": "mm_relu", "tir.noalias": True})
        Y = T.alloc_buffer((128, 128), dtype="float32")
        for i, j, k in T.grid(128, 128, 128):
            with T.block("Y"):
                vi = T.axis.spatial(128, i)
                vj = T.axis.spatial(128, j)
                vk = T.axis.reduce(128, k)
                with T.init():
                    Y[vi, vj] = T.float32(0)
                Y[vi, vj] = Y[vi, vj] + A[vi, vk] * B[vk, vj]
        for i, j in T.grid(128, 128):
            with T.block("C"):
                vi = T.axis.spatial(128, i)
                vj = T.axis.spatial(128, j)
                C[vi, vj] = T.max(Y[vi, vj], T.float32(0))


@T.prim_func
def softmax(A: T.Buffer((64, 256), "float32"), B: T.Buffer((64, 256), "float32")):
    peak = T.alloc_buffer((64,))
    total = T.alloc_buffer((64,))
    for i, k in T.grid(64, 256):
        with T.block("peak"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                peak[vi] = T.min_value("float32")
            peak[vi] = T.max(peak[vi], A[vi, vk])
    for i, k in T.grid(64, 256):
        with T.block("total"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.reads(A[vi, vk], peak[vi])
            T.writes(total[vi])
            with T.init():
                total[vi] = 0.0
            total[vi] = total[vi] + T.exp(A[vi, vk] - peak[vi])
    for i, j in T.grid(64, 256):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = T.exp(A[vi, vj] - peak[vi]) / total[vi]


@T.prim_func
def symbolic(a: T.handle, b: T.handle, n: T.int32, scale: T.float32):
    m = T.int32()
    A = T.match_buffer(a, (n, m), "float16", strides=("s", 1), offset_factor=4)
    B = T.match_buffer(b, (n, m), "float16")
    for i in T.serial(n):
        for j in range(8):
            if j < m - 1:
                B[i, j] = T.Cast("float16", T.Cast("float32", A[i, j]) * scale)
            elif i + n > 4:
                B[i, j] = T.float16(0)
            else:
                B[i, j] = T.if_then_else(i % 2 == 0, A[i, j], T.float16(1))


@T.prim_func
def gathered(A: T.Buffer((1024,), "float32"), index: T.Buffer((64,), "int32"), out: T.Buffer((64,), "float32")):
    for i in T.parallel(16):
        for j in T.vectorized(4):
            with T.block("gather", no_realize=False):
                v = T.axis.spatial(64, i * 4 + j)
                T.where(i * 4 + j < 60)
                T.block_attr({"note": "indirect"})
                at: T.int32 = index[v]
                out[v] = A[T.max(at, 0)] * T.float32(2)


@T.prim_func
def views(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32")):
    for i in range(4):
        with T.block("tile"):
            vi = T.axis.spatial(4, i)
            T.reads(A[vi * 4 : vi * 4 + 4, 0:16])
            T.writes(B[vi * 4 : vi * 4 + 4, 0:16])
            S = T.match_buffer(A[vi * 4 : vi * 4 + 4, 0:16], (4, 16), offset_factor=1)
            D = T.match_buffer(B[vi * 4 : vi * 4 + 4, 0:16], (4, 16), offset_factor=1)
            for r in T.unroll(4):
                D[r, 0:16] = S[r, 0:16] + T.broadcast(T.float32(1), 16)


@T.prim_func
def on_gpu(A: T.Buffer((1024,), "float32"), B: T.Buffer((1024,), "float32")):
    T.func_attr({"tir.noalias": T.bool(True)})
    bx = T.launch_thread("blockIdx.x", 8)
    tx = T.launch_thread("threadIdx.x", 128)
    memory = T.allocate([128], "float32", "shared")
    S = T.decl_buffer((128,), data=memory, scope="shared")
    S[tx] = A[bx * 128 + tx]
    T.tvm_storage_sync("shared")
    T.evaluate(T.call_extern("int32", "prefetch_next", A.data, bx * 128))
    with T.attr(0, "pragma_unroll", 1):
        B[bx * 128 + tx] = S[127 - tx] + T.tvm_warp_shuffle(T.tvm_warp_activemask(), S[tx], 0, 32, 32)


@T.prim_func(private=True)
def bits(p: T.handle("uint8"), n: T.int32) -> T.int32:
    X = T.Buffer((16,), "uint8", data=p)
    assert n > 0, "a count is positive"
    x = T.shift_left(n, 2) | 1
    while n < x:
        X[0] += T.uint8(1)
    return T.popcount(x) + n * 2


@T.macro(hygienic=True)
def scaled(X: T.Buffer, i: T.int32, *, by: float = 2.0) -> None:
    X[i] = X[i] * by


@I.ir_module
class Pair:
    I.module_attrs({"version": 1})

    @T.prim_func
    def main(A: T.Buffer((16,), "float32")):
        Pair.helper(A.data, 1)
        x = A[0]
        A[1] = x + T.log(x)

    @T.prim_func(private=True)
    def helper(A: T.handle("float32"), n: T.int32) -> T.int32:
        return n + 1


def use_them() -> str:
    module: tscript.IRModule = MyModule
    print(module["mm_relu"].script(), softmax.attrs, len(Pair.functions))
    return symbolic.script()
