"""Parts of programs: where the variables they leave open are defined, and names."""

from __future__ import annotations

import pytest

from tscript.ir import expr as ex
from tscript.ir import stmt as st
from tscript.ir.buffer import decl_buffer
from tscript.ir.construct import const
from tscript.ir.expr import IterVar, PointerType, PrimType, Range, SizeVar, Var
from tscript.ir.function import IRModule, PrimFunc
from tscript.ir.index_map import IndexMap
from tscript.ir.stmt import BufferStore, Evaluate, For, SeqStmt


def loop(var: Var, extent: object, body: st.Stmt, kind: int = 0) -> For:
    return For(var, const(0, var.dtype), const(extent) if isinstance(extent, int) else extent, kind, body)


def call(*args: object) -> ex.PrimExpr:
    return ex.Call("int32", "tir.call_extern", (ex.StringImm("f"), *args))


def copy(to: str = "A", source: str = "B", name: str = "i") -> tuple:
    A, B, i = decl_buffer((16,), name=to), decl_buffer((16,), name=source), Var(name)
    return A, B, i, loop(i, 16, BufferStore(A, B[i], (i,)))


def test_a_lone_loop_defines_its_buffers_inside() -> None:
    assert copy()[3].script() == (
        "for i in range(16):\n    A = T.Buffer((16,))\n    B = T.Buffer((16,))\n    A[i] = B[i]"
    )


def test_buffers_of_two_loops_are_defined_before_the_first() -> None:
    A, B, _, first = copy()
    j = Var("i")
    both = SeqStmt((first, loop(j, 16, BufferStore(B, A[j], (j,)))))
    assert both.script() == (
        "A = T.Buffer((16,))\nB = T.Buffer((16,))\n"
        "for i in range(16):\n    A[i] = B[i]\nfor i in range(16):\n    B[i] = A[i]"
    )


def test_the_bound_of_a_loop_is_defined_outside_of_it() -> None:
    n, i, j = SizeVar("n"), Var("i"), Var("j")
    nest = loop(i, n, loop(j, n + 1, Evaluate(call(i))))
    assert nest.script() == (
        'n = T.int32(is_size_var=True)\nfor i, j in T.grid(n, n + 1):\n    T.call_extern("int32", "f", i)'
    )


def test_a_variable_of_an_inner_scope_is_defined_there() -> None:
    x, i = Var("x", "int64"), Var("i")
    program = loop(i, 2, st.IfThenElse(i < 1, Evaluate(call(x)), Evaluate(call(i))))
    assert program.script() == (
        'for i in range(2):\n    if i < 1:\n        x = T.int64()\n        T.call_extern("int32", "f", x)\n'
        '    else:\n        T.call_extern("int32", "f", i)'
    )


def test_a_branch_that_stands_twice_defines_its_variables_twice() -> None:
    x = Var("x")
    same = Evaluate(call(x))
    assert st.IfThenElse(x < 1, same, same).script().count("x = T.int32()") == 1
    y = Var("y")
    branch = Evaluate(call(y))
    text = st.IfThenElse(call(0) < 1, branch, branch).script()
    assert text.count("y = T.int32()") == 2


def test_a_lone_expression_shows_definitions_only_on_demand() -> None:
    i, B = Var("i"), decl_buffer((16,), name="B")
    assert str(i + 1) == "i + 1"
    assert B[i].script() == "B[i]"
    assert B[i].script(verbose_expr=True) == "B = T.Buffer((16,))\ni = T.int32()\nB[i]"
    assert B.script() == "B"


def test_pointers_are_defined_with_their_type() -> None:
    p = Var("p", PointerType(PrimType("float32"), "global"))
    B = decl_buffer((4,), name="B", data=p, scope="global")
    program = SeqStmt((Evaluate(call(p)), BufferStore(B, const(0.0), (const(0),))))
    assert program.script() == (
        'p = T.handle("float32", "global")\nT.call_extern("int32", "f", p)\n'
        "B = T.Buffer((4,), data=p)\nB[0] = T.float32(0.0)"
    )


def test_names_are_free_again_when_their_scope_ends() -> None:
    A = decl_buffer((16,), name="A")
    i, j, k = Var("i"), Var("i"), Var("i")
    inner = loop(j, 4, BufferStore(A, const(0.0), (j,)), kind=1)
    program = SeqStmt((loop(i, 4, inner), loop(k, 4, BufferStore(A, const(1.0), (k,)))))
    assert program.script() == (
        "A = T.Buffer((16,))\nfor i in range(4):\n    for i_1 in T.parallel(4):\n        A[i_1] = T.float32(0.0)\n"
        "for i in range(4):\n    A[i] = T.float32(1.0)"
    )


@pytest.mark.parametrize(
    ("hint", "name"),
    [
        ("C.rf", "C_rf"), ("", "v"), ("T", "T_1"), ("I", "I_1"), ("cls", "cls_1"), ("lambda", "lambda_1"),
        ("range", "range_1"), ("1x", "_1x"), ("a b", "a_b"), ("é", "_"),
    ],
)  # fmt: skip
def test_hints_become_names(hint: str, name: str) -> None:
    assert Var(hint).script() == name


def test_a_taken_number_is_passed_over() -> None:
    names = [Var("x"), Var("x_1"), Var("x"), Var("x")]
    text = call(*names).script()
    assert text == 'T.call_extern("int32", "f", x, x_1, x_2, x_3)'


def test_an_unnamed_buffer_is_called_buffer() -> None:
    assert decl_buffer((4,), name="").script() == "buffer"


def test_addresses_tell_objects_apart() -> None:
    x = Var("x")
    assert x.script(show_object_address=True) == f"x_{id(x):#x}"


def test_a_very_deep_expression_prints() -> None:
    x = Var("x")
    left: ex.PrimExpr = x
    right: ex.PrimExpr = x
    for _ in range(10000):
        left, right = left + x, x + right
    assert left.script() == "x" + " + x" * 10000
    assert right.script() == "x + (" * 9999 + "x + x" + ")" * 9999


def test_a_long_chain_of_lets_prints() -> None:
    body: st.Stmt = Evaluate(call(0))
    for _ in range(3000):
        body = st.LetStmt(Var("x"), const(1), body)
    assert body.script().count("\n") == 3000


def test_nodes_outside_statements_print() -> None:
    x, y, i, j = Var("x0", "float32"), Var("y0", "float32"), Var("i"), Var("j")
    A = decl_buffer((8, 8), name="A")
    axis = IterVar(Range(0, 8), Var("v"), IterVar.ThreadIndex, "threadIdx.x")
    reducer = ex.CommReducer((x,), (y,), (x + y,), (const(0.0),))
    k = IterVar(Range(0, 8), Var("k"), IterVar.CommReduce)
    swap = IndexMap((i, j), (j, i))
    total = ex.Reduce(reducer, (A[i, k.var],), (), (k,), const(True), 0)
    expected = {
        Range(1, 5): "T.Range(1, 5)",
        axis: 'T.iter_var(v, T.Range(0, 8), "ThreadIndex", "threadIdx.x")',
        reducer: "T.comm_reducer(lambda x0, y0: x0 + y0, [T.float32(0.0)])",
        swap: "T.index_map(lambda i, j: (j, i))",
        IndexMap((i,), (i // 4,), swap): ("T.index_map(lambda i: (i // 4,), inverse_index_map=lambda i, j: (j, i))"),
        A[0:4, i]: "A[0:4, i]",
        ex.GlobalVar("g"): 'I.GlobalVar("g")',
        ex.Op.get("tir.exp"): 'I.Op("tir.exp")',
        PrimType("float32"): "T.float32",
        PointerType(PrimType("int8"), "shared"): 'T.handle("int8", "shared")',
        PointerType(PrimType("int8"), ""): 'T.handle("int8")',
        ex.TupleType(()): "None",
        const(3): "3",
        const(True): "T.bool(True)",
        ex.StringImm("a"): '"a"',
        ex.Shuffle((i, j), (const(1), const(0))): "T.Shuffle([i, j], [1, 0])",
        total: (
            "T.reduce(T.comm_reducer(lambda x0, y0: x0 + y0, [T.float32(0.0)]), source=[A[i, k]], init=[], "
            'axis=[T.iter_var(k, T.Range(0, 8), "CommReduce", "")], condition=T.bool(True), value_index=0)'
        ),
        ex.Call("handle", "tir.tvm_struct_get", (i, 0, 1)): 'T.tvm_struct_get(i, 0, 1, "handle")',
        ex.Call("int32", "tir.tvm_call_packed", (ex.StringImm("f"), i)): 'T.call_packed("f", i)',
        ex.Call("int32", "tir.reinterpret", (x,)): 'T.reinterpret("int32", x0)',
        ex.Call("void", ex.GlobalVar("g"), (i,)): "g(i)",
    }
    for node, text in expected.items():
        assert node.script() == text


def test_a_lone_block_and_its_parts_print() -> None:
    A, i = decl_buffer((8,), name="A"), Var("vi")
    block = st.Block((IterVar(Range(0, 8), i, 0),), (), (A[i : i + 1],), "b", BufferStore(A, const(0.0), (i,)))
    assert block.script() == (
        'with T.block("b", no_realize=True):\n    vi = T.axis.spatial(8)\n    T.reads()\n    A = T.Buffer((8,))\n'
        "    T.writes(A[vi])\n    A[vi] = T.float32(0.0)"
    )
    view = decl_buffer((4,), name="V", offset_factor=1)
    assert st.MatchBufferRegion(view, A[0:4]).script().endswith("V = T.match_buffer(A[0:4], (4,), offset_factor=1)")


def test_an_empty_module_has_a_body() -> None:
    assert IRModule({}).script() == "# from tvm.script import ir as I\n\n@I.ir_module\nclass Module:\n    pass"


def test_a_buffer_beside_its_own_handle_keeps_the_handle_as_parameter() -> None:
    A = decl_buffer((8,), name="A")
    a = Var("a", "handle")
    func = PrimFunc((a,), Evaluate(call(a)), buffer_map={a: A}, attrs={"global_symbol": "f"})
    assert "def f(a: T.handle):\n    A = T.match_buffer(a, (8,))\n" in func.script()
