"""Blocks: axes, regions, the implicit root, allocations, views, launches."""

import textwrap
from typing import Any

import pytest

from tscript.ir.expr import IterVar
from tscript.ir.function import PrimFunc
from tscript.ir.stmt import Block, BlockRealize, For, SeqStmt
from tscript.ir.structural import structural_equal
from tscript.script import from_source
from tscript.script import tir as T
from tscript.support.errors import ScriptError

HEADER = """\
@T.prim_func
def f(
    A: T.Buffer((64,), "float32"),
    B: T.Buffer((64, 64), "float32"),
    C: T.Buffer((64,), "float32"),
    J: T.Buffer((64,), "int32"),
    n: T.int32,
):
"""


def read(body: str, **extra_vars: object) -> PrimFunc:
    func = from_source(HEADER + textwrap.indent(textwrap.dedent(body), "    "), extra_vars or None)
    assert isinstance(func, PrimFunc)
    return func


def block_lines(body: str) -> list[str]:
    """The region lines printed for the first block of the function."""
    func = read(body)
    assert structural_equal(from_source(func.script()), func)
    return [line.strip() for line in func.script().splitlines() if line.strip().startswith(("T.reads", "T.writes"))]


def find_block(func: PrimFunc, name: str) -> Block:
    from tscript.ir.functor import post_order_visit

    found: list[Block] = []
    post_order_visit(
        func.body, lambda node: found.append(node) if isinstance(node, Block) and node.name_hint == name else None
    )
    return found[0]


REGIONS = [
    ("C[vi] = T.max(B[vi, vj], B[vi + 8, vj])", ["T.reads(B[vi:vi + 9, vj])", "T.writes(C[vi])"]),
    (
        "for k in range(4):\n    C[vi] = C[vi] + A[vi * 4 + k]",
        ["T.reads(C[vi], A[vi * 4:vi * 4 + 4])", "T.writes(C[vi])"],
    ),
    (
        "with T.init():\n    C[vi] = 0.0\nfor k in range(4):\n    C[vi] = C[vi] + A[vi * 4 + k]",
        ["T.reads(A[vi * 4:vi * 4 + 4])", "T.writes(C[vi])"],
    ),
    ("C[vi] = A[J[vi]]", ["T.reads(A[J[vi]], J[vi])", "T.writes(C[vi])"]),
    ("C[vi] = T.if_then_else(vi > 0, A[vi - 1], 0.0)", ["T.reads(A[vi - 1])", "T.writes(C[vi])"]),
    ("for k in range(8):\n    if k < 4:\n        C[k] = A[k]", ["T.reads(A[0:4])", "T.writes(C[0:4])"]),
    (
        "L = T.alloc_buffer((4,))\nfor k in range(4):\n    L[k] = A[k] * 3.0\nC[vi] = L[2]",
        ["T.reads(A[0:4])", "T.writes(C[vi])"],
    ),
    ("T.reads(A[0:2])\nC[vi] = A[vi]", ["T.reads(A[0:2])", "T.writes(C[vi])"]),
    ("T.writes([C[vi], A[0:2]])\nC[vi] = A[vi]", ["T.reads(A[vi])", "T.writes(C[vi], A[0:2])"]),
    ("T.reads()\nT.writes()\nT.evaluate(0)", ["T.reads()", "T.writes()"]),
]


@pytest.mark.parametrize(("body", "lines"), REGIONS, ids=[b.splitlines()[0] for b, _ in REGIONS])
def test_missing_regions_are_found(body: str, lines: list[str]) -> None:
    axes = 'vi, vj = T.axis.remap("SS", [i, j])\n' if "vj" in body else "vi = T.axis.spatial(8, i)\n"
    text = "for i, j in T.grid(8, 8):\n" + textwrap.indent(
        'with T.block("b"):\n' + textwrap.indent(axes + body, "    "), "    "
    )
    assert block_lines(text) == lines


def test_regions_of_inner_blocks_are_found_first_and_used_outside() -> None:
    lines = block_lines("""
        for i in range(8):
            with T.block("outer"):
                vi = T.axis.spatial(8, i)
                for k in range(4):
                    with T.block("inner"):
                        vk = T.axis.spatial(4, k)
                        C[vi * 4 + vk] = A[vk * 4 + vi]
    """)
    assert lines == [
        "T.reads(A[vi:vi + 13])",
        "T.writes(C[vi * 4:vi * 4 + 4])",
        "T.reads(A[vk * 4 + vi])",
        "T.writes(C[vi * 4 + vk])",
    ]


def test_a_pointer_handed_to_a_call_asks_for_declared_regions() -> None:
    body = """
        for i in range(8):
            with T.block("b"):
                vi = T.axis.spatial(8, i)
                T.evaluate(T.call_extern("int32", "g", A.data))
    """
    with pytest.raises(ScriptError, match="declare them") as caught:
        read(body)
    assert caught.value.line == 11
    read(body.replace("T.evaluate", "T.reads(A[0:64])\n                T.writes()\n                T.evaluate"))


def test_axes_keep_domain_kind_value_and_type() -> None:
    func = read("""
        for i in range(8):
            with T.block("b"):
                a = T.axis.spatial(8, i)
                b = T.axis.reduce((1, 5), i + 1)
                c = T.axis.scan(T.int64(4), i)
                d = T.axis.opaque(T.Range(0, 2), i)
                e = T.axis.S(n, i)
                f = T.axis.R([0, 2], i, dtype="int64")
                T.evaluate(a)
    """)
    axes = find_block(func, "b").iter_vars
    assert [a.iter_type for a in axes] == [
        IterVar.DataPar, IterVar.CommReduce, IterVar.Ordered, IterVar.Opaque, IterVar.DataPar, IterVar.CommReduce,
    ]  # fmt: skip
    assert [a.var.name for a in axes] == ["a", "b", "c", "d", "e", "f"]
    assert [str(a.var.dtype) for a in axes] == ["int32", "int32", "int64", "int32", "int32", "int64"]
    assert [(str(a.dom.min.dtype), a.dom.min.dtype is a.dom.extent.dtype) for a in axes][2] == ("int64", True)
    assert (int(axes[1].dom.min), int(axes[1].dom.extent)) == (1, 4)


def test_remap_takes_domain_and_type_of_the_loops() -> None:
    func = read("""
        for i, k in T.grid(T.int64(4), 8):
            for j in range(2, 6):
                with T.block("b"):
                    vi, vk, vj = T.axis.remap("SRS", [i, k, j])
                    C[vj] = C[vj] + A[vk]
    """)
    axes = find_block(func, "b").iter_vars
    assert [str(a.var.dtype) for a in axes] == ["int64", "int32", "int32"]
    assert [(int(a.dom.min), int(a.dom.extent)) for a in axes] == [(0, 4), (0, 8), (2, 4)]
    assert [a.iter_type for a in axes] == [IterVar.DataPar, IterVar.CommReduce, IterVar.DataPar]


@pytest.mark.parametrize("target", ["vi", "vi,", "[vi]", "(vi,)"])
def test_remap_of_one_axis_can_be_bound_to_one_name_or_to_a_list_of_one(target: str) -> None:
    func = read(f"""
        for i in range(4):
            with T.block("b"):
                {target} = T.axis.remap("S", [i])
                C[vi] = 0.0
    """)
    assert [a.var.name for a in find_block(func, "b").iter_vars] == ["vi"]


def test_a_root_block_is_put_around_what_needs_one_and_nothing_else() -> None:
    def root_of(body: str) -> bool:
        stmt = read(body).body
        return isinstance(stmt, BlockRealize) and stmt.block.name_hint == "root"

    axis_block = 'with T.block("b"):\n    v = T.axis.spatial(4, n)\n    C[v] = 0.0'
    assert root_of(axis_block)
    assert root_of("for i in range(4):\n" + textwrap.indent(axis_block.replace("n)", "i)"), "    "))
    assert root_of("L = T.alloc_buffer((4,))\nL[0] = 0.0")
    assert root_of('with T.block("root"):\n    C[0] = 0.0')
    assert not root_of('with T.block("b"):\n    C[0] = 0.0')
    assert isinstance(read("for i in range(4):\n    C[i] = 0.0").body, For)
    nested = read('with T.block("root"):\n    L = T.alloc_buffer((4,))\n    L[0] = 0.0').body
    assert [b.name for b in nested.block.alloc_buffers] == ["L"] and not isinstance(nested.block.body, BlockRealize)


def test_predicate_annotations_and_views_are_kept_from_any_depth() -> None:
    func = read("""
        for i in range(8):
            with T.block("b"):
                vi = T.axis.spatial(8, i)
                T.reads(A[vi * 4:vi * 4 + 4])
                T.writes(C[vi])
                for k in range(4):
                    T.where(i < 7)
                    T.block_attr({"k": 1, "flag": True, "nested": {"l": [1, 2.5, "t"]}})
                    V = T.match_buffer(A[vi * 4:vi * 4 + 4], (4,), offset_factor=1)
                    C[vi] = V[k]
    """)
    block = find_block(func, "b")
    assert set(block.annotations) == {"k", "flag", "nested"}
    assert block.match_buffers[0].buffer.name == "V" and block.match_buffers[0].source.buffer.name == "A"
    assert structural_equal(from_source(func.script()), func)
    assert "T.where(i < 7)" in func.script()


def test_a_view_takes_shape_and_type_of_its_region() -> None:
    func = read("""
        with T.block("b"):
            T.reads(J[0:8])
            T.writes()
            V = T.match_buffer(J[0:8])
            T.evaluate(V[0])
    """)
    view = find_block(func, "b").match_buffers[0].buffer
    assert ([int(s) for s in view.shape], str(view.dtype)) == ([8], "int32")


def test_a_block_without_realize_is_bare() -> None:
    text = HEADER + textwrap.indent(
        'with T.block("outer"):\n    with T.block("b", no_realize=True):\n'
        "        v = T.axis.spatial(4)\n        C[v] = 0.0\n",
        "    ",
    )
    func = from_source(text, check_well_formed=False)
    inner = func.body.block.body
    assert isinstance(inner, Block) and len(inner.iter_vars) == 1
    with pytest.raises(ScriptError, match="no_realize=True takes no value"):
        from_source(text.replace("spatial(4)", "spatial(4, n)"))


def test_several_allocations_stand_in_the_root_and_in_blocks() -> None:
    func = read("""
        L = T.alloc_buffer((4, 4), "int8", scope="shared")
        for i in range(4):
            with T.block("b"):
                v = T.axis.spatial(4, i)
                M = T.alloc_buffer([4], axis_separators=None)
                M[v] = 1.0
                L[v, v] = T.int8(1)
    """)
    assert [(b.name, b.scope(), str(b.dtype)) for b in func.body.block.alloc_buffers] == [("L", "shared", "int8")]
    assert [b.name for b in find_block(func, "b").alloc_buffers] == ["M"]


def test_concise_constructs_last_to_the_end_of_their_scope() -> None:
    func = read("""
        for i in range(4):
            p = T.allocate([4], "float32", "local")
            P = T.decl_buffer((4,), data=p, scope="local")
            P[0] = A[i]
            T.attr("node", "key", 1)
            C[i] = P[0]
        A[0] = 1.0
    """)
    assert isinstance(func.body, SeqStmt) and isinstance(func.body.seq[0], For)
    assert type(func.body.seq[0].body).__name__ == "Allocate"
    assert structural_equal(from_source(func.script()), func)


def test_with_forms_and_concise_forms_make_the_same_program() -> None:
    concise = read("""
        tx = T.launch_thread("threadIdx.x", 8)
        p = T.allocate([4], "float32", "local")
        P = T.decl_buffer((4,), data=p, scope="local")
        assert n > 0, "positive"
        y = A[tx]
        P[0] = y
    """)
    nested = read("""
        with T.launch_thread("threadIdx.x", 8) as tx:
            with T.allocate([4], "float32", "local") as p, T.decl_buffer((4,), data=p, scope="local") as P:
                with T.Assert(n > 0, "positive"):
                    with T.LetStmt(A[tx]) as y:
                        P[0] = y
    """)
    assert structural_equal(concise, nested)


def test_one_thread_variable_can_be_launched_twice_with_one_extent() -> None:
    func = read("""
        t = T.env_thread("threadIdx.x")
        with T.launch_thread(t, 4):
            A[t] = 1.0
        with T.launch_thread(t, 4):
            C[t] = 1.0
    """)
    first, second = func.body.seq
    assert first.node is second.node and first.attr_key == "thread_extent"
    assert read('with T.launch_thread("vthread.x", 4) as t:\n    A[t] = 1.0').body.attr_key == "virtual_thread"


def test_a_launch_inside_another_may_name_its_thread() -> None:
    func = read("""
        t = T.env_thread("threadIdx.x")
        with T.launch_thread(t, 4):
            A[t] = 1.0
            with T.launch_thread(t, 4):
                C[t] = 1.0
    """)
    text = func.script()
    assert 't = T.launch_thread("threadIdx.x", 4)' in text and "T.launch_thread(t, 4)" in text
    again = from_source(text)
    assert structural_equal(again, func) and again.script() == text


def test_branches_and_loops_can_be_built_by_constructs() -> None:
    built = read("""
        with T.If(n > 0):
            with T.Then():
                A[0] = 1.0
            with T.Else():
                A[1] = 1.0
        with T.While(A[0] > 0.0):
            A[0] = A[0] - 1.0
    """)
    written = read("""
        if n > 0:
            A[0] = 1.0
        else:
            A[1] = 1.0
        while A[0] > 0.0:
            A[0] = A[0] - 1.0
    """)
    assert structural_equal(built, written)


def test_constant_memory_holds_the_numbers_given() -> None:
    func = read("""
        p = T.allocate_const([1, 2, 3, 4], "int32", [2, 2])
        P = T.decl_buffer((2, 2), "int32", data=p)
        A[P[0, 1]] = 1.0
    """)
    assert func.body.data.tolist() == [[1, 2], [3, 4]] and func.body.buffer_var.name == "p"


def test_realize_and_prefetch_keep_their_regions() -> None:
    func = from_source(
        HEADER
        + '    R = T.Buffer((64,))\n    with T.realize(R[0:8], "local"):\n'
        + "        R[0] = 1.0\n        T.prefetch(B, [0, slice(0, 4)])\n",
        check_well_formed=False,
    )
    realize = func.body.body
    assert type(realize).__name__ == "BufferRealize" and int(realize.bounds[0].extent) == 8
    prefetch = realize.body.seq[1]
    assert [int(r.extent) for r in prefetch.bounds] == [1, 4]


def test_stride_variables_take_the_name_of_their_buffer() -> None:
    func = read("""
        with T.block("b"):
            T.reads()
            T.writes(B[0:4, 0:4])
            V = T.match_buffer(B[0:4, 0:4], (4, 4), strides=("s", 1), offset_factor=1)
            V[0, 0] = 1.0
    """)
    view = find_block(func, "b").match_buffers[0].buffer
    assert (view.strides[0].name, view.elem_offset.name, view.data.name) == ("V_s0", "elem_offset", "V")


def test_a_helper_may_use_constructs_as_python_does() -> None:
    def init_all(buffer: Any, i: Any) -> None:
        with T.block("fill"):
            v = T.axis.spatial(4, i)
            T.buffer_store(buffer, 0.0, [v])

    func = read("for i in range(4):\n    init_all(C, i)", init_all=init_all)
    assert len(find_block(func, "fill").iter_vars) == 1 and "T.writes(C[v])" in func.script()


def test_spans_point_at_statements() -> None:
    func = read("""
        for i in range(4):
            C[i] = 1.0
        A[0] = 2.0
    """)
    loop, store = func.body.seq
    assert (loop.span.line, loop.span.column, loop.span.end_column) == (10, 5, 22)
    assert (loop.body.span.line, loop.body.span.column) == (11, 9)
    assert (store.span.line, store.span.column) == (12, 5)
    assert func.span.line == 2 and func.buffer_map[func.params[0]].span.line == 3


def test_memory_for_bools_is_made_of_bytes_however_it_is_written() -> None:
    one = read('P = T.decl_buffer((4,), "bool", scope="local")\nP[0] = True')
    two = read(
        'p = T.allocate([4], "bool", "local")\nP = T.decl_buffer((4,), "bool", data=p, scope="local")\nP[0] = True'
    )
    assert structural_equal(one, two)


def test_accesses_through_a_view_of_a_view_are_those_of_the_buffer() -> None:
    text = """\
@T.prim_func
def f(C: T.Buffer((8, 8), "int32")):
    with T.block("b"):
        M = T.match_buffer(C[2:6, 1:5], (4, 4), strides=(8, 1), offset_factor=1)
        N = T.match_buffer(M[1, 0:2], (2,), offset_factor=1)
        N[1] = N[0]
"""
    lines = from_source(text).script().splitlines()
    assert "        T.reads(C[3, 1])" in lines
    assert "        T.writes(C[3, 2])" in lines
