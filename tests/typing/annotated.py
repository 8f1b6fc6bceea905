"""Kernels whose buffers are written `Annotated[T.Buffer, shape, dtype]`: strict mode passes with every rule on."""

from __future__ import annotations

from typing import Annotated, assert_type

import tscript
from tscript.script import ir as I
from tscript.script import tir as T
from tscript.tir import PrimExpr, PrimFunc, Var

Matrix = Annotated[T.Buffer, (128, 128), "float32"]
Strided = Annotated[T.Buffer, T.Buffer((16,), "int8", strides=("s",), offset_factor=4)]


@tscript.script.ir_module
class MyModule:
    @T.prim_func
    def mm_relu(A: Matrix, B: Matrix, C: Matrix) -> None:
        T.func_attr({"global_symbol": "mm_relu", "tir.noalias": True})
        Y = T.alloc_buffer((128, 128), dtype="float32")
        for i, j, k in T.grid(128, 128, 128):
            with T.block("Y"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    Y[vi, vj] = T.float32(0)
                Y[vi, vj] = Y[vi, vj] + A[vi, vk] * B[vk, vj]
        for i, j in T.grid(128, 128):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = T.max(Y[vi, vj], T.float32(0))


@T.prim_func
def typed(
    A: Annotated[T.Buffer, (64, 256), "float32"],
    B: Annotated[T.Buffer, (64,)],
    p: Annotated[T.handle, "float32", "global"],
    n: Annotated[T.int32, T.int32()],
) -> None:
    assert_type(A[0, n], PrimExpr)
    assert_type(A.data, Var)
    X = T.Buffer((16,), "float32", data=p)
    for i, k in T.grid(64, 256):
        with T.block("peak"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.reads(A[vi, vk])
            T.writes(B[vi])
            with T.init():
                B[vi] = T.min_value("float32")
            peak: T.float32 = A[vi, vk]
            B[vi] = T.max(B[vi], peak)
    X[0] = A.vload([0, 0], "float32") + T.exp(B[n])


def gathering(count: int) -> PrimFunc:
    @T.prim_func
    def gathered(
        A: Annotated[T.Buffer, (1024,), "float32"],
        index: Annotated[T.Buffer, (count,), "int32"],
        out: Annotated[T.Buffer, (count,), "float32"],
    ) -> None:
        for i in T.parallel(count):
            with T.block("gather"):
                v = T.axis.spatial(count, i)
                out[v] = A[T.max(index[v], 0)] * T.float32(2)

    return gathered


SIXTY_FOUR = gathering(64)


@T.macro
def scaled(X: T.Buffer, i: T.int32, *, by: float = 2.0) -> None:
    X[i] = X[i] * by


@I.ir_module
class Pair:
    @T.prim_func
    def main(A: Annotated[T.Buffer, (16,), "float32"], S: Strided) -> None:
        Pair.helper(A.data, 1)
        scaled(A, 0, by=3.0)
        S[1] = S[0] + S.elem_offset

    @T.prim_func(private=True)
    def helper(A: Annotated[T.handle, "float32"], n: T.int32) -> T.int32:
        return n + 1


@T.prim_func
def views(A: Annotated[T.Buffer, (16, 16), "float32"], B: Annotated[T.Buffer, (16, 16), "float32"]) -> None:
    for i in range(4):
        with T.block("tile"):
            vi = T.axis.spatial(4, i)
            T.reads(A[vi * 4 : vi * 4 + 4, 0:16])
            T.writes(B[vi * 4 : vi * 4 + 4, 0:16])
            S = T.match_buffer(A[vi * 4 : vi * 4 + 4, 0:16], (4, 16), offset_factor=1)
            for r in T.unroll(4):
                B[vi * 4 + r, 0:16] = S[r, 0:16] + T.broadcast(T.float32(1), 16)
