"""Kernels whose buffers are matched to handles: strict mode passes with every rule on."""

from __future__ import annotations

import tscript
from tscript.script import ir as I
from tscript.script import tir as T


@T.prim_func
def matmul(a: T.handle, b: T.handle, c: T.handle, n: T.int32) -> None:
    T.func_attr({"tir.noalias": True})
    m, k = T.int32(), T.int32(is_size_var=True)
    A = T.match_buffer(a, (m, k), "float16")
    B = T.match_buffer(b, (k, n), "float16")
    C = T.match_buffer(c, (m, n), "float32", align=128)
    S = T.alloc_buffer((m, n), "float32")
    for i, j, l in T.grid(m, n, k):
        with T.block("S"):
            vi, vj, vl = T.axis.remap("SSR", [i, j, l])
            T.reads(A[vi, vl], B[vl, vj])
            T.writes(S[vi, vj])
            with T.init():
                S[vi, vj] = T.float32(0)
            product = T.Cast("float32", A[vi, vl]) * T.Cast("float32", B[vl, vj])
            S[vi, vj] = S[vi, vj] + product
    for i, j in T.grid(m, n):
        with T.block("C"):
            vi = T.axis.spatial(m, i)
            vj = T.axis.spatial(n, j)
            x = S[vi, vj]
            y: T.float32 = x * T.float32(0.5)
            C[vi, vj] = T.Select(x > 0, y, T.exp(x) - 1.0)


@T.prim_func(private=True)
def memory(p: T.handle, q: T.handle, n: T.int32) -> T.int32:
    X = T.match_buffer(p, (64,), "int8")
    Y = T.match_buffer(q, (64,), "int32", strides=[1], offset_factor=4)
    with T.allocate([16], "int32", "local") as scratch:
        L = T.decl_buffer((16,), "int32", data=scratch, scope="local")
        for i in T.vectorized(16, annotations={"note": 1}):
            L[i] = X[i].astype("int32") + Y.elem_offset
        Y[0:4] = L[4:8] + T.broadcast(1, 4)
        Y[T.ramp(8, 1, 4)] = L.vload([0], "int32x4")
    table = T.allocate_const([1, 2, 3, 4], "int32", [4])
    Z = T.Buffer((4,), "int32", data=table)
    count = T.meta_var(3)
    for i in range(count):
        if i < n and Z[i] != 2:
            Y[i] += Z[i] << 1
        elif not (Z[i] == 0 or n > 4):
            T.evaluate(T.call_extern("void", "log_it", X.access_ptr("r"), Y.data, i))
    assert n >= 0, "n counts"
    return T.max(n, 0) + T.popcount(n) % 7 - n // 2


@T.prim_func
def threads(a: T.handle, b: T.handle) -> None:
    A = T.match_buffer(a, (4, 256))
    B = T.match_buffer(b, (4,))
    S = T.alloc_buffer((256,), scope="shared")
    for bx in T.thread_binding(4, thread="blockIdx.x"):
        for tx in T.thread_binding(256, "threadIdx.x"):
            with T.block("load"):
                vb, vt = T.axis.S(4, bx), T.axis.S(256, tx)
                T.where(tx < 200)
                S[vt] = T.if_then_else(vt % 2 == 0, A[vb, vt], T.infinity("float32"))
            T.tvm_storage_sync("shared")
        with T.block("fold"):
            vb = T.axis.spatial(4, bx)
            B[vb] = T.min_value("float32")
            for t in T.serial(0, 256):
                B[vb] = T.max(B[vb], T.abs(S[t]))


@T.macro
def halve(X: T.Buffer, i: T.int32, *, by: float = 2.0) -> None:
    X[i] = X[i] / by


@I.ir_module
class Two:
    I.module_attrs({"version": 1})

    @T.prim_func
    def main(a: T.handle) -> None:
        A = T.match_buffer(a, (8,))
        halve(A, T.int32(0))
        Two.next(A.data, 1)

    @T.prim_func(private=True)
    def next(p: T.handle, n: T.int32) -> T.int32:
        return n + 1


def ordinary_code(module: tscript.IRModule) -> tuple[str, int]:
    func = module["main"]
    n = tscript.tir.Var("n", "int32")
    doubled = n * 2 + tscript.tir.ceildiv(n, 4)
    buffer = tscript.tir.decl_buffer((16, n), "float32", name="A")
    names = [v.name_hint for v in module.functions]
    library = tscript.build(matmul, target="llvm")
    library["matmul"](tscript.nd.array([1.0], device=tscript.cpu()), tscript.nd.empty((4, 4), "float16"))
    print(matmul.script(), func.attrs, doubled.dtype, buffer[0, n].script(), names, Two["main"].params)
    return threads.script(), len(module)
