"""Every data type: constants, parameters, lets, buffers and casts of it print and read back."""

from __future__ import annotations

import time

import pytest

from tscript.ir import construct as c
from tscript.ir import expr as ex
from tscript.ir import stmt as st
from tscript.ir.buffer import decl_buffer
from tscript.ir.dtype import DataType
from tscript.ir.expr import Var
from tscript.ir.function import PrimFunc
from tscript.ir.structural import assert_structural_equal
from tscript.parser import from_source

DTYPES = [f"{kind}{bits}" for kind in ("int", "uint") for bits in (4, 8, 16, 32, 64)] + [
    "bool", "float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2", "float4_e2m1fn",
]  # fmt: skip


def read_back(func: PrimFunc) -> None:
    text = func.script()
    back = from_source(text)
    assert_structural_equal(back, func)
    assert back.script() == text


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("name", DTYPES)
def test_a_type_reads_back(name: str, lanes: int) -> None:
    dtype = DataType(name).with_lanes(lanes)
    A, x, y, one = decl_buffer((8,), name, name="A"), Var("x", dtype), Var("y", name), c.const(1, dtype)
    index = (c.const(0),) if lanes == 1 else (ex.Ramp(c.const(0), c.const(1), lanes),)
    cast = st.BufferStore(A, ex.Cast(dtype, ex.BufferLoad(A, index)), index)
    body = st.LetStmt(x, one, st.seq(st.BufferStore(A, x, index), cast))
    read_back(PrimFunc([A, y], body, attrs={"global_symbol": "f"}))
    wide = decl_buffer((8,), str(dtype), name="W")
    read_back(PrimFunc([wide], st.BufferStore(wide, one, (c.const(0),)), attrs={"global_symbol": "f"}))


@pytest.mark.parametrize("value", [0.0, -0.0, 1 / 3, 1e-300, 1e300, 5e-324, float("inf"), float("-inf"), float("nan")])
def test_a_float_reads_back_to_the_bit(value: float) -> None:
    A = decl_buffer((8,), "float64", name="A")
    store = st.BufferStore(A, ex.FloatImm("float64", value), (c.const(0),))
    back = from_source(PrimFunc([A], store, attrs={"global_symbol": "f"}).script())
    assert back.body.value is store.value


@pytest.mark.parametrize(
    "body",
    [
        'tx = T.launch_thread("threadIdx.x", T.int64(8))\n    A[tx] = T.float32(1.0)',
        'tx = T.env_thread("threadIdx.x", dtype="int64")\n    with T.launch_thread(tx, T.int64(8)):\n'
        "        A[tx] = T.float32(1.0)\n    T.launch_thread(tx, T.int64(8))\n    A[tx] = T.float32(1.0)",
        'tx = T.launch_thread("vthread.x", 8)\n    A[tx] = T.float32(1.0)',
        'T.attr([A.data, 1], "k", 1)\n    A[0] = T.float32(1.0)',
        'T.attr(T.iter_var(v, T.Range(0, 8), "DataPar", ""), "pragma_x", 1)\n    A[0] = T.float32(1.0)',
        'for i in T.thread_binding(T.int64(8), thread="threadIdx.x"):\n        A[i] = T.float32(1.0)',
        "for i, j in T.grid(T.int64(8), 4):\n        A[i] = A[j]",
        'T.tvm_access_ptr(T.type_annotation("float32"), A.data, 0, 4, 1)',
        "A[0:4] = T.Shuffle([A[0], A[1]], [0, 1, 0, 1])",
        "A[v:v + 4] = A[T.Broadcast(3, 4)] * T.Broadcast(A[0], 4)",
        'A[0:4] = T.vectorlow("float32x4", A[0:8])',
    ],
)
def test_text_in_its_printed_form_prints_as_it_is(body: str) -> None:
    head = '@T.prim_func\ndef f(A: T.Buffer((8,), "float32"), v: T.int32):\n    '
    func = from_source(head + body)
    assert func.script() == "# from tvm.script import tir as T\n\n" + head + body
    assert_structural_equal(from_source(func.script()), func)


def test_logic_on_vectors_prints_as_functions() -> None:
    # Between vectors, `and` would mean the bitwise operator.
    A = decl_buffer((8,), "bool", name="A")
    lanes = (ex.Ramp(c.const(0), c.const(1), 4),)
    a = ex.BufferLoad(A, lanes)
    for node, text in ((ex.And(a, a), "T.And(A[0:4], A[0:4])"), (ex.Not(a), "T.Not(A[0:4])")):
        func = PrimFunc([A], st.BufferStore(A, node, lanes), attrs={"global_symbol": "f"})
        assert func.script().endswith(f"A[0:4] = {text}")
        read_back(func)


def test_printing_a_module_takes_less_than_three_milliseconds() -> None:
    module = from_source(MATMUL_RELU)
    times: list[float] = []
    for _ in range(30):
        start = time.perf_counter()
        module.script()
        times.append(time.perf_counter() - start)
    assert min(times) < 3e-3


MATMUL_RELU = """@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((128, 128)), B: T.Buffer((128, 128)), C: T.Buffer((128, 128))):
        Y = T.alloc_buffer((128, 128))
        for i, j, k in T.grid(128, 128, 128):
            with T.block("Y"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    Y[vi, vj] = T.float32(0)
                Y[vi, vj] = Y[vi, vj] + A[vi, vk] * B[vk, vj]
        for i, j in T.grid(128, 128):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = T.max(Y[vi, vj], T.float32(0))"""
