"""Whole programs: what is written, what is printed, and that printed text reads back."""

from __future__ import annotations

import pytest

from tscript.ir.structural import assert_structural_equal
from tscript.parser import from_source
from tscript.printer import script

HEADER = "# from tvm.script import tir as T\n\n"

SYMBOLIC = (
    """@T.prim_func
def f(a: T.handle, b: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n, n * 2), "int8", strides=("s", 1), offset_factor=4)
    B = T.match_buffer(b, (4,), scope="shared", align=128)
    for i in T.serial(1, n):
        A[i, 0] = T.int8(3)""",
    """@T.prim_func
def f(a: T.handle, b: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n, n * 2), "int8", strides=("A_s0", 1), offset_factor=4)
    B = T.match_buffer(b, (4,), scope="shared", align=128)
    for i in range(1, 1 + (n - 1)):
        A[i, 0] = T.int8(3)""",
)
SUM = (
    """@T.prim_func
def g(X: T.Buffer((8, 12), "float32"), Y: T.Buffer((8,), "float32")):
    for i, k in T.grid(8, 12):
        with T.block("sum"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                Y[vi] = 0.0
            Y[vi] = Y[vi] + X[vi, vk]""",
    """@T.prim_func
def g(X: T.Buffer((8, 12), "float32"), Y: T.Buffer((8,), "float32")):
    # with T.block("root"):
    for i, k in T.grid(8, 12):
        with T.block("sum"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.reads(X[vi, vk])
            T.writes(Y[vi])
            with T.init():
                Y[vi] = T.float32(0.0)
            Y[vi] = Y[vi] + X[vi, vk]""",
)
WITHOUT_SUGAR = """@T.prim_func
def g(X_handle: T.handle, Y_handle: T.handle):
    X = T.match_buffer(X_handle, (8, 12))
    Y = T.match_buffer(Y_handle, (8,))
    with T.block("root"):
        T.reads()
        T.writes()
        for i in range(8):
            for k in range(12):
                with T.block("sum"):
                    vi = T.axis.spatial(8, i)
                    vk = T.axis.reduce(12, k)
                    T.reads(X[vi, vk])
                    T.writes(Y[vi])
                    with T.init():
                        Y[vi] = T.float32(0.0)
                    Y[vi] = Y[vi] + X[vi, vk]"""
VIEWS = (
    """@T.prim_func
def h(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32")):
    T.func_attr({"tir.noalias": True, "k": 3, "f": 1.5, "l": [1, 2]})
    for i, j in T.grid(4, 16):
        with T.block("b"):
            vi = T.axis.spatial(4, i)
            vj = T.axis.spatial(16, j)
            T.reads(A[vi * 4:vi * 4 + 4, vj])
            T.writes(B[vi * 4:vi * 4 + 4, vj])
            C = T.match_buffer(A[vi * 4:vi * 4 + 4, vj], (4, 1), offset_factor=1)
            for k in T.unroll(4, annotations={"pragma": 1}):
                with T.block("inner"):
                    v = T.axis.opaque(4, k)
                    T.where(k < 3)
                    B[vi * 4 + v, vj] = C[v, 0]
    for t in T.thread_binding(4, thread="threadIdx.x"):
        for u in T.parallel(3):
            with T.block("s"):
                vu = T.axis.S(3, u)
                vt = T.axis.R((1, 5), t + 1)
                B[vu, vt] = B[vu, vt] * T.sqrt(A[vu, vt])""",
    """@T.prim_func
def h(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32")):
    T.func_attr({"f": T.float32(1.5), "k": 3, "l": [1, 2], "tir.noalias": T.bool(True)})
    # with T.block("root"):
    for i, j in T.grid(4, 16):
        with T.block("b"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(A[vi * 4:vi * 4 + 4, vj])
            T.writes(B[vi * 4:vi * 4 + 4, vj])
            C = T.match_buffer(A[vi * 4:vi * 4 + 4, vj], (4, 1), offset_factor=1)
            for k in T.unroll(4, annotations={"pragma": 1}):
                with T.block("inner"):
                    v = T.axis.opaque(4, k)
                    T.where(k < 3)
                    T.reads(C[v, 0])
                    T.writes(B[vi * 4 + v, vj])
                    B[vi * 4 + v, vj] = C[v, 0]
    for t in T.thread_binding(4, thread="threadIdx.x"):
        for u in T.parallel(3):
            with T.block("s"):
                vu = T.axis.spatial(3, u)
                vt = T.axis.reduce((1, 5), t + 1)
                T.reads(B[vu, vt], A[vu, vt])
                T.writes(B[vu, vt])
                B[vu, vt] = B[vu, vt] * T.sqrt(A[vu, vt])""",
)
LAUNCH = (
    """@T.prim_func
def k(A: T.Buffer((8,), "float32")):
    tx = T.launch_thread("threadIdx.x", 8)
    p = T.allocate([4], "float32", "local")
    P = T.decl_buffer((4,), data=p, scope="local")
    P[0] = A[tx]
    A[tx] = P[0] + 1.0""",
    """@T.prim_func
def k(A: T.Buffer((8,), "float32")):
    tx = T.launch_thread("threadIdx.x", 8)
    P = T.decl_buffer((4,), scope="local")
    P[0] = A[tx]
    A[tx] = P[0] + T.float32(1.0)""",
)
# Printed as they are written.
SAME = {
    "a let that is not last": """@T.prim_func
def f(A: T.Buffer((4,), "float32")):
    with T.LetStmt(A[0]) as x:
        A[1] = x
    A[2] = T.float32(0.0)""",
    "a pointer bound in a let": """@T.prim_func
def f(A: T.Buffer((4,), "float32")):
    with T.LetStmt(T.address_of(A[1]), T.handle("float32", "global")) as p:
        T.call_extern("void", "g", p)
    q: T.handle("float32", "global") = T.address_of(A[0])
    T.call_extern("void", "g", q)""",
    "memory that keeps its name": """@T.prim_func
def f(A: T.Buffer((4,), "float32")):
    p = T.allocate([4], "float32", "local", A[0] < T.float32(1.0), annotations={"k": 1})
    P = T.decl_buffer((2, 2), data=p, scope="local")
    P[0, 0] = A[0]""",
    "memory that is not last": """@T.prim_func
def f(A: T.Buffer((4,), "float32")):
    with T.allocate([4], "float32", "global") as p:
        P = T.decl_buffer((2, 2), data=p)
        P[0, 0] = A[0]
    with T.decl_buffer((2,)) as Q:
        Q[0] = A[0]
    A[0] = T.float32(1.0)""",
    "constants": """@T.prim_func
def f(A: T.Buffer((4,), "int32")):
    p = T.allocate_const([1, -2], "int32", [2])
    P = T.decl_buffer((2,), "int32", data=p)
    A[0] = P[1]""",
    "a buffer that nobody declares": """@T.prim_func
def f(A: T.Buffer((4,), "float32")):
    for i in range(4):
        B = T.Buffer((2, 2), data=A.data)
        B[i, 0] = T.float32(0.0)""",
    "a thread that two launches share": """@T.prim_func
def f(A: T.Buffer((8,), "float32")):
    tx = T.env_thread("threadIdx.x")
    with T.launch_thread(tx, 8):
        A[tx] = T.float32(0.0)
    T.launch_thread(tx, 8)
    A[tx] = T.float32(1.0)""",
    "attributes": """@T.prim_func
def f(A: T.Buffer((8,), "float32")):
    with T.attr(A.data, "first", 1):
        A[0] = T.float32(0.0)
    T.attr(None, "second", 2)
    A[1] = T.float32(0.0)""",
    "branches": """@T.prim_func
def f(A: T.Buffer((8,), "int32")):
    for i in range(8):
        if A[i] < 3:
            A[i] = 0
        else:
            if A[i] < 5:
                A[i] = 1
            else:
                A[i] = 2
    while A[0] < 8:
        A[0] = A[0] + 1""",
    "assertions": """@T.prim_func
def f(A: T.Buffer((8,), "int32")):
    with T.Assert(A[0] < 3, "small"):
        A[0] = 0
    assert A[1] < 3, "small"
    A[1] = 0""",
    "chains that are cut": """@T.prim_func
def f(A: T.Buffer((8,), "int32")):
    for i, j in T.grid(8, 2):
        for k in T.serial(16, annotations={"d": {"a": "q", "b": 1}, "u": 4}):
            for l, m in T.grid(2, 2):
                for n in range(l + 1):
                    for o in T.vectorized(4):
                        A[0] = i + j + k + l + m + n + o""",
    "blocks of every kind": """@T.prim_func
def f(A: T.Buffer((8, 8, 8), "int32"), B: T.Buffer((), "int32")):
    # with T.block("root"):
    C = T.alloc_buffer((8,), "int32", scope="shared", align=128)
    for i_0, i_1, j, k in T.grid(4, 2, 8, 8):
        with T.block("b"):
            vi = T.axis.spatial(8, i_0 * 2 + i_1)
            vj, vk = T.axis.remap("SR", [j, k])
            vo = T.axis.scan(3, 1)
            T.where(i_0 * 2 + i_1 < 7)
            T.reads(A[vi, 0:8, vk:vk + 3], B[()])
            T.writes(C[vi], B[()])
            T.block_attr({"a": 1, "b": T.bool(True), "c": "text", "d": [1, "x"]})
            D = T.alloc_buffer((2,), "int32")
            with T.init():
                C[vi] = 0
            with T.block("inner"):
                T.reads()
                T.writes()
                D[0] = vj
            B[()] = C[vi] + A[vi, vj, vk] + D[0] + vo""",
    "types and defaults of parameters": """@T.prim_func
def f(A: T.Buffer((8,), "bool"), n: T.int64, p: T.handle("float32", "global"), h: T.handle, b: T.handle) -> T.int32:
    m, l = T.int32(), T.int32(is_size_var=True)
    B = T.match_buffer(b, (m, l, m + l), "bfloat16", elem_offset=4, offset_factor=4, buffer_type="auto")
    T.call_extern("void", "g", p, h, B.data)
    return T.Cast("int32", n)""",
    "two buffers on one pointer": """@T.prim_func
def f(a: T.handle, b: T.handle):
    A = T.match_buffer(a, (8,))
    B = T.match_buffer(b, (2, 4), data=A.data, axis_separators=[1])
    B[0, 0] = A[0]""",
    "a private function": """@T.prim_func(private=True)
def main(n: T.int32):
    T.evaluate(n)""",
    "realized buffers": """@T.prim_func
def f(A: T.Buffer((8,), "float32")):
    T.realize(A[0:8], "shared")
    A[0] = T.float32(1.0)""",
    "a chain of comparisons of bools": """@T.prim_func
def f(A: T.Buffer((8,), "bool")):
    A[0] = (A[1] == A[2]) == A[3]
    A[1] = A[1] == (A[2] == A[3])""",
    "memory of bools": """@T.prim_func
def f(A: T.Buffer((8,), "bool")):
    B = T.decl_buffer((4,), "bool")
    B[0] = A[1]
    A[0] = B[0]""",
    "text": r"""@T.prim_func
def f():
    T.call_extern("void", "g", "a\"b\\c\td\x07é")""",
}


@pytest.mark.parametrize(
    ("written", "printed"), [SYMBOLIC, SUM, VIEWS, LAUNCH], ids=["symbolic", "sum", "views", "launch"]
)
def test_a_program_prints_in_the_form_of_the_language(written: str, printed: str) -> None:
    func = from_source(written)
    assert func.script() == HEADER + printed
    assert_structural_equal(from_source(func.script()), func)


@pytest.mark.parametrize("text", SAME.values(), ids=SAME.keys())
def test_text_in_its_printed_form_prints_as_it_is(text: str) -> None:
    func = from_source(text, check_well_formed=False)
    assert func.script() == HEADER + text
    assert_structural_equal(from_source(func.script(), check_well_formed=False), func)


# `T.allocate` of bools makes a pointer to bool, the merged form one to int8, so the parts cannot stand for the whole.
APART = [text for name, text in SAME.items() if name != "memory of bools"]


@pytest.mark.parametrize("text", [SYMBOLIC[0], SUM[0], VIEWS[0], LAUNCH[0], *APART])
def test_text_without_sugar_reads_back_too(text: str) -> None:
    func = from_source(text, check_well_formed=False)
    assert_structural_equal(from_source(func.script(syntax_sugar=False), check_well_formed=False), func)


def test_without_sugar_everything_is_spelled_out() -> None:
    assert from_source(SUM[0]).script(syntax_sugar=False) == HEADER + WITHOUT_SUGAR


def test_a_function_in_a_module_shows_a_symbol_that_is_not_its_name() -> None:
    text = script(type(MODULE())({"main": from_source(SUM[0])}))
    assert text.startswith(
        "# from tvm.script import ir as I\n# from tvm.script import tir as T\n\n@I.ir_module\nclass Module:\n"
        "    @T.prim_func\n    def main("
    )
    assert '        T.func_attr({"global_symbol": "g"})\n' in text


def MODULE() -> object:
    return from_source(MODULE_TEXT)


MODULE_TEXT = """@I.ir_module
class Module:
    I.module_attrs({"k": 1})
    @T.prim_func(private=True)
    def aux(A: T.handle("float32", "global"), n: T.int32) -> T.int32:
        return n + 1

    @T.prim_func
    def main(A: T.Buffer((16,), "float32")):
        Module.aux(A.data, 1)"""


def test_a_module_prints_its_functions_by_name_and_main_last() -> None:
    module = MODULE()
    header = "# from tvm.script import ir as I\n# from tvm.script import tir as T\n\n"
    assert module.script() == header + MODULE_TEXT
    assert module.script(name="Mine") == (header + MODULE_TEXT).replace("Module", "Mine")
    assert_structural_equal(from_source(module.script()), module)
