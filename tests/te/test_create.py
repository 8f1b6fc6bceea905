"""What `create_prim_func` makes: names, loops, blocks, annotations, allocations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tscript import interp, te
from tscript.ir import construct as make
from tscript.ir import expr as ex
from tscript.ir.construct import call_intrin
from tscript.ir.function import PrimFunc
from tscript.ir.functor import post_order_visit
from tscript.ir.stmt import Block, Evaluate
from tscript.ir.well_formed import verify_well_formed
from tscript.script import tir as T
from tscript.testing.differential import check_round_trip


def blocks_of(func: PrimFunc) -> list[str]:
    names: list[str] = []
    post_order_visit(func.body, lambda n: names.append(n.name_hint) if isinstance(n, Block) else None)
    return names


def run(func: PrimFunc, *arrays: Any) -> None:
    verify_well_formed(func)
    check_round_trip(func)
    interp.run(func, *arrays, check_uninitialized=True)


def test_symbolic_shape_gives_the_text_of_the_spec() -> None:
    n = te.var("n")
    x = te.placeholder((n, 4), name="X")
    k = te.reduce_axis((0, 4), "k")
    s = te.compute((n,), lambda r: te.sum(x[r, k], axis=k), name="S")
    q = te.compute((n,), lambda r: s[r] * 0.25, name="Q")
    assert te.create_prim_func([x, q]).script() == (
        "# from tvm.script import tir as T\n\n"
        "@T.prim_func\n"
        "def main(var_X: T.handle, var_Q: T.handle):\n"
        '    T.func_attr({"tir.noalias": T.bool(True)})\n'
        "    n = T.int32()\n"
        "    X = T.match_buffer(var_X, (n, 4))\n"
        "    Q = T.match_buffer(var_Q, (n,))\n"
        '    # with T.block("root"):\n'
        "    S = T.alloc_buffer((n,))\n"
        "    for r, k in T.grid(n, 4):\n"
        '        with T.block("S"):\n'
        '            v_r, v_k = T.axis.remap("SR", [r, k])\n'
        "            T.reads(X[v_r, v_k])\n"
        "            T.writes(S[v_r])\n"
        "            with T.init():\n"
        "                S[v_r] = T.float32(0.0)\n"
        "            S[v_r] = S[v_r] + X[v_r, v_k]\n"
        "    for r in range(n):\n"
        '        with T.block("Q"):\n'
        "            v_r = T.axis.spatial(n, r)\n"
        "            T.reads(S[v_r])\n"
        "            T.writes(Q[v_r])\n"
        "            Q[v_r] = S[v_r] * T.float32(0.25)"
    )


def test_listed_intermediate_is_a_parameter_and_no_allocation() -> None:
    a = te.placeholder((4,), name="A")
    b = te.compute((4,), lambda i: a[i] + 1.0, name="B")
    c = te.compute((4,), lambda i: b[i] * 2.0, name="C")
    assert "alloc_buffer" in te.create_prim_func([a, c]).script()
    func = te.create_prim_func([a, b, c])
    assert "alloc_buffer" not in func.script()
    arrays = [np.arange(4, dtype="float32"), np.zeros(4, "float32"), np.zeros(4, "float32")]
    run(func, *arrays)
    np.testing.assert_array_equal(arrays[2], (arrays[0] + 1) * 2)


def test_missing_input_and_wrong_items_are_named() -> None:
    a = te.placeholder((4,), name="A")
    b = te.compute((4,), lambda i: a[i], name="B")
    with pytest.raises(ValueError, match="input Tensor.A, .*is no parameter"):
        te.create_prim_func([b])
    with pytest.raises(TypeError, match="tensors and variables"):
        te.create_prim_func([a, 3])
    with pytest.raises(ValueError, match="listed twice"):
        te.create_prim_func([a, a, b])


def test_blocks_of_the_same_name_are_numbered_and_dots_become_underscores() -> None:
    a = te.placeholder((4,), name="A")
    b = te.compute((4,), lambda i: a[i], name="x.y")
    c = te.compute((4,), lambda i: b[i], name="x.y")
    assert blocks_of(te.create_prim_func([a, c])) == ["x_y", "x_y_1", "root"]


def test_scalar_has_one_axis_of_extent_one() -> None:
    a = te.placeholder((), name="A")
    b = te.compute((), lambda: a() + 1.0, name="B")
    func = te.create_prim_func([a, b])
    assert "vi = T.axis.spatial(1, 0)" in func.script()
    out = np.zeros((), "float32")
    run(func, np.array(2.0, "float32"), out)
    assert out == 3


def test_full_reduction() -> None:
    a = te.placeholder((5,), name="A")
    k = te.reduce_axis((0, 5), "k")
    b = te.compute((), lambda: te.sum(a[k], axis=k), name="B")
    out = np.zeros((), "float32")
    run(te.create_prim_func([a, b]), np.arange(5, dtype="float32"), out)
    assert out == 10


def test_several_results_are_sibling_blocks() -> None:
    a = te.placeholder((4,), name="A")
    b, c = te.compute((4,), lambda i: (a[i] + 1.0, a[i] * 2.0), name="P")
    assert (b.name, c.name) == ("P.v0", "P.v1")
    func = te.create_prim_func([a, b, c])
    assert blocks_of(func) == ["P_v0", "P_v1", "root"]
    arrays = [np.arange(4, dtype="float32"), np.zeros(4, "float32"), np.zeros(4, "float32")]
    run(func, *arrays)
    np.testing.assert_array_equal(arrays[1], arrays[0] + 1)
    np.testing.assert_array_equal(arrays[2], arrays[0] * 2)


def test_where_leaves_points_out_and_init_starts_from_a_value() -> None:
    a = te.placeholder((3, 6), name="A")
    start = te.placeholder((3,), name="start")
    k = te.reduce_axis((0, 6), "k")
    even = te.compute((3,), lambda i: te.sum(a[i, k], axis=k, where=make.compare(ex.EQ, k.var % 2, 0)), name="E")
    j = te.reduce_axis((0, 6), "j")
    more = te.compute((3,), lambda i: te.sum(a[i, j], axis=j, init=start[i]), name="M")
    ones = te.compute((3,), lambda i: te.sum(a[i, k], axis=k, init=1.0), name="O")
    values = np.arange(18, dtype="float32").reshape(3, 6)
    given = np.array([10, 20, 30], "float32")
    outs = [np.zeros(3, "float32") for _ in range(3)]
    run(te.create_prim_func([a, start, even, more, ones]), values, given, *outs)
    np.testing.assert_array_equal(outs[0], values[:, ::2].sum(1))
    np.testing.assert_array_equal(outs[1], values.sum(1) + given)
    np.testing.assert_array_equal(outs[2], values.sum(1) + 1)


def test_where_is_lazy_so_it_may_guard_an_access() -> None:
    a = te.placeholder((4,), name="A")
    k = te.reduce_axis((0, 8), "k")
    b = te.compute((1,), lambda i: te.sum(a[k.var], axis=k, where=k.var < 4), name="B")
    out = np.zeros(1, "float32")
    run(te.create_prim_func([a, b]), np.arange(4, dtype="float32"), out)
    assert out[0] == 6


def test_domain_that_depends_on_an_axis_is_a_nested_block() -> None:
    a = te.placeholder((5, 5), name="A")

    def row(i: Any) -> Any:
        j = te.reduce_axis((0, i), "j")
        return te.sum(a[i, j], axis=j)

    b = te.compute((5,), row, name="L")
    func = te.create_prim_func([a, b])
    assert blocks_of(func) == ["L", "L_l1", "root"]
    values, out = np.random.default_rng(0).random((5, 5), "float32"), np.full(5, np.nan, "float32")
    run(func, values, out)
    np.testing.assert_allclose(out, np.tril(values, -1).sum(1), rtol=1e-6)


@pytest.mark.parametrize("kind", [te.sum, te.prod, te.min, te.max])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "int64", "uint8", "bfloat16"])
def test_reductions_of_every_kind_and_type(kind: Any, dtype: str) -> None:
    a = te.placeholder((2, 3), dtype, name="A")
    k = te.reduce_axis((0, 3), "k")
    b = te.compute((2,), lambda i: kind(a[i, k], axis=k), name="B")
    from tscript.ir.dtype import DataType
    from tscript.ir.semantics import numpy_dtype

    np_type = numpy_dtype(DataType(dtype))
    values = np.array([[1, 2, 3], [4, 2, 1]]).astype(np_type)
    out = np.zeros(2).astype(np_type)
    run(te.create_prim_func([a, b]), values, out)
    plain = values.astype("int64")
    expected = {"sum": plain.sum(1), "prod": plain.prod(1), "min": plain.min(1), "max": plain.max(1)}[kind.name]
    np.testing.assert_array_equal(out.astype("int64"), expected)


def test_max_of_bfloat16_starts_from_minus_infinity() -> None:
    assert float(te.min_value("bfloat16")) == -np.inf  # type: ignore[arg-type]
    assert float(te.max_value("float8_e4m3fn")) == 448  # type: ignore[arg-type]


def test_index_dtype_override_changes_indices_and_keeps_values() -> None:
    a = te.placeholder((6,), "int32", name="A")
    b = te.compute((6,), lambda i: a[i] + i, name="B")
    func = te.create_prim_func([a, b], index_dtype_override="int64")
    text = func.script()
    assert "T.int64(6)" in text
    assert 'T.Cast("int32", v_i)' in text
    out = np.zeros(6, "int32")
    run(func, np.ones(6, "int32"), out)
    np.testing.assert_array_equal(out, np.arange(6) + 1)


def test_conditions_on_axes_are_compared_as_indices() -> None:
    a = te.placeholder((6,), "float32", name="A")
    b = te.compute((8,), lambda i: te.if_then_else(te.all(i >= 1, i < 7), a[i - 1], 0.0), name="B")
    text = te.create_prim_func([a, b], index_dtype_override="int64").script()
    assert "T.if_then_else(T.int64(1) <= v_i and v_i < T.int64(7), A[v_i - T.int64(1)]" in text


def test_attributes_become_annotations_and_layout_free_parameters_an_attribute() -> None:
    a, w = te.placeholder((4,), name="A"), te.placeholder((4,), name="W")
    b = te.compute(
        (4,), lambda i: a[i] * w[i], name="B", attrs={"k": 3, "layout_free_placeholders": [w], "workload": ["x"]}
    )
    func = te.create_prim_func([a, w, b])
    assert 'T.block_attr({"k": 3})' in func.script()
    assert '"layout_free_buffers": [1]' in func.script()


def test_extern_runs_a_statement_on_whole_buffers() -> None:
    a = te.placeholder((4,), name="A")

    def fill(ins: Any, outs: Any) -> Any:
        return Evaluate(
            call_intrin("int32", "tir.call_extern", "double_it", ins[0].access_ptr("r"), outs[0].access_ptr("w"))
        )

    b = te.extern((4,), [a], fill, name="ext")
    func = te.create_prim_func([a, b])
    assert 'with T.block("ext"):' in func.script()
    assert "T.reads(A[0:4])" in func.script()
    verify_well_formed(func)


def test_extern_primfunc_runs_the_body_of_a_function() -> None:
    @T.prim_func
    def twice(X: T.Buffer((4,), "float32"), Y: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.block("twice"):
                vi = T.axis.spatial(4, i)
                Y[vi] = X[vi] * T.float32(2)

    a = te.placeholder((4,), name="A")
    b = te.extern_primfunc([a], twice)
    c = te.compute((4,), lambda i: b[i] + 1.0, name="C")
    out = np.zeros(4, "float32")
    run(te.create_prim_func([a, c]), np.arange(4, dtype="float32"), out)
    np.testing.assert_array_equal(out, np.arange(4) * 2 + 1)


def test_scan_says_what_to_write_instead() -> None:
    with pytest.raises(TypeError, match="ScanOp.*loop"):
        te.scan()


def test_tag_scope_tags_and_refuses_to_nest() -> None:
    a = te.placeholder((4,), name="A")
    with te.tag_scope("injective"):
        b = te.compute((4,), lambda i: a[i])
        with pytest.raises(ValueError, match="tag"):
            te.compute((4,), lambda i: a[i], tag="other")
        with pytest.raises(ValueError, match="tag"), te.tag_scope("inner"):
            pass
    assert b.op.tag == "injective"

    @te.tag_scope("elemwise")
    def make_one() -> Any:
        return te.compute((4,), lambda i: a[i])

    assert make_one().op.tag == "elemwise"


def test_tensors_are_equal_by_operation_and_output() -> None:
    a = te.placeholder((4,), name="A")
    b, c = te.compute((4,), lambda i: (a[i], a[i]), name="P")
    assert b == b.op.output(0)
    assert b != c
    assert len({b, b.op.output(0), c}) == 2


def test_partial_subscripts_give_slices() -> None:
    a = te.placeholder((4, 5), name="A")
    i, j = te.var("i"), te.var("j")
    assert a[i][j] is a[i, j]
    assert a(i, j) is a[i, j]


def test_variable_arguments_take_names() -> None:
    a = te.placeholder((2, 3), name="A")
    b = te.compute((2, 3), lambda *i: a[i], name="B")
    assert [x.var.name for x in b.op.axis] == ["i0", "i1"]
    c = te.compute((2, 3), lambda r, *i: a[(r, *i)], name="C", varargs_names=["col"])
    assert [x.var.name for x in c.op.axis] == ["r", "col"]
    with pytest.raises(RuntimeError, match="varargs_names"):
        te.compute((2, 3), lambda r, *i: a[(r, *i)], varargs_names=["p", "q"])


def test_rms_norm_of_an_article_in_its_corrected_form() -> None:
    n, d = 3, 8
    x = te.placeholder((n, d), "float32", name="X")
    w = te.placeholder((d,), "float32", name="W")
    k_axis = te.reduce_axis((0, d), name="k")
    sq_sum = te.compute((n,), lambda i: te.sum(x[i, k_axis] * x[i, k_axis], axis=k_axis), name="sq_sum")
    rrms = te.compute((n,), lambda i: te.rsqrt(sq_sum[i] / float(d) + 1e-5), name="rrms")
    y = te.compute((n, d), lambda i, j: x[i, j] * rrms[i] * w[j], name="Y")
    rng = np.random.default_rng(0)
    a, b, out = rng.random((n, d), "float32"), rng.random(d, "float32"), np.zeros((n, d), "float32")
    run(te.create_prim_func([x, w, y]), a, b, out)
    np.testing.assert_allclose(out, a / np.sqrt((a * a).mean(1, keepdims=True) + 1e-5) * b, rtol=1e-5)
