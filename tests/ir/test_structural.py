"""Structural equality and hash, and the report of the first difference."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from tscript.ir import buffer as tb
from tscript.ir import expr as ex
from tscript.ir import stmt as st
from tscript.ir.construct import const, if_then_else, max_
from tscript.ir.expr import FloatImm, GlobalVar, IntImm, IterVar, Range, SizeVar, Var
from tscript.ir.function import IRModule, PrimFunc
from tscript.ir.index_map import IndexMap
from tscript.ir.structural import (
    StructuralMismatch,
    assert_structural_equal,
    first_difference,
    structural_equal,
    structural_hash,
)  # fmt: skip
from tscript.support.errors import VerifyError

Matmul = Callable[..., PrimFunc]


def same(a: Any, b: Any, map_free_vars: bool = False) -> bool:
    """Equality both ways, which must agree with each other and with the hash."""
    forward = structural_equal(a, b, map_free_vars)
    assert forward is structural_equal(b, a, map_free_vars)
    if forward:
        assert structural_hash(a, map_free_vars) == structural_hash(b, map_free_vars)
    return forward


def loop(body: Callable[[Var], st.Stmt], name: str = "i", extent: int = 4) -> st.For:
    v = Var(name)
    return st.For(v, const(0), const(extent), 0, body(v))


def test_programs_built_twice_are_equal_whatever_their_variables_are_called(matmul: Matmul) -> None:
    assert same(matmul(), matmul(names="xyz"))


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"size": 8}, "buffer_map['params[0]'].shape[0].value"),
        ({"symbol": "other"}, "attrs['global_symbol']"),
        ({"block": "D"}, "body.block.body.body.body.body.block.name_hint"),
        ({"flip": True}, "body.block.body.body.body.body.block.body.value.b.a.buffer"),
    ],
)
def test_the_report_names_the_path_to_the_first_difference(matmul: Matmul, change: Any, path: str) -> None:
    with pytest.raises(StructuralMismatch) as caught:
        assert_structural_equal(matmul(), matmul(**change))
    assert caught.value.path == path
    assert f"differ at {path}" in str(caught.value)


def test_a_mismatch_is_both_a_verify_error_and_a_value_error(matmul: Matmul) -> None:
    assert issubclass(StructuralMismatch, VerifyError) and issubclass(StructuralMismatch, ValueError)
    assert_structural_equal(matmul(), matmul())


def test_a_missing_symbol_differs(matmul: Matmul) -> None:
    found = first_difference(matmul(), matmul(symbol=None))
    assert found is not None and "only the left one has 'global_symbol'" in found.reason


def test_free_variables_compare_by_identity_unless_mapped() -> None:
    x, y, z = Var("x"), Var("x"), Var("z")
    assert same(x + 1, x + 1)
    assert not same(x + 1, y + 1)
    assert same(x + z, y + z, map_free_vars=True)
    assert not same(x + z, y + y, map_free_vars=True)
    assert not same(y + y, x + z, map_free_vars=True)


def test_mapped_free_variables_need_the_same_type() -> None:
    assert not same(Var("x", "int32"), Var("x", "int64"), map_free_vars=True)
    assert not same(Var("x"), SizeVar("x"), map_free_vars=True)


def test_two_buffers_swapped_consistently_are_the_same_program() -> None:
    def copy(swap: bool) -> PrimFunc:
        a, b = tb.decl_buffer((4,), name="A"), tb.decl_buffer((4,), name="B")
        body = loop(lambda i: st.BufferStore(b, a[i], (i,)))
        return PrimFunc((b, a) if swap else (a, b), body)  # pyright: ignore[reportArgumentType]

    assert same(copy(False), copy(False))
    assert not same(copy(False), copy(True))


def test_symbolic_shapes_are_defined_by_their_first_use() -> None:
    def func(first: Any, second: Callable[[Var], Any]) -> PrimFunc:
        n = Var("n")
        a, b = tb.decl_buffer((n,), name="A"), tb.decl_buffer(second(n), name="B")
        return PrimFunc((a, b), loop(lambda i: st.BufferStore(b, a[i] + first, (i,))))  # pyright: ignore[reportArgumentType]

    assert same(func(1.0, lambda n: (n, n * 2)[:1]), func(1.0, lambda n: (n,)))
    assert not same(func(1.0, lambda n: (n,)), func(1.0, lambda n: (Var("m"),)))
    assert not same(func(1.0, lambda n: (n * 2,)), func(1.0, lambda n: (n * 3,)))


@pytest.mark.parametrize(
    "change",
    [
        {"strides": (1,)},
        {"elem_offset": 4},
        {"scope": "shared"},
        {"data_alignment": 128},
        {"offset_factor": 8, "elem_offset": 0},
        {"buffer_type": "auto"},
        {"dtype": "float16"},
        {"shape": (8,)},
        {"axis_separators": [0]},
    ],
)
def test_every_property_of_a_buffer_counts_but_its_name(change: dict[str, Any]) -> None:
    def func(**options: Any) -> PrimFunc:
        made = tb.decl_buffer(**{"shape": (4,), "dtype": "float32", **options})
        return PrimFunc((made,), st.Evaluate(const(0)))  # pyright: ignore[reportArgumentType]

    assert same(func(name="A"), func(name="B"))
    assert not same(func(), func(**change))


def test_a_view_without_declaration_is_matched_by_its_pointer() -> None:
    def func(pointer: int) -> PrimFunc:
        p, q = (Var(n, ex.PointerType(ex.PrimType("float32"))) for n in "pq")  # pyright: ignore[reportArgumentType]
        view = tb.decl_buffer((4,), data=(p, q)[pointer], name="V")
        return PrimFunc((p, q), st.BufferStore(view, const(0.0), (const(0),)))

    assert same(func(0), func(0))
    assert not same(func(0), func(1))


def test_shadowed_meanings_return_after_a_let() -> None:
    v, x, y = Var("v"), Var("x"), Var("y")
    one = ex.Let(x, v, x + 1)
    two = ex.Let(y, v, y + 1)
    assert same(one, two)
    assert same(ex.Add(one, one), ex.Add(one, two))
    assert not same(ex.Add(one, x), ex.Add(two, y))
    assert same(ex.Add(x, one), ex.Add(x, two))
    assert same(ex.Add(one, x), ex.Add(two, x))
    assert not same(ex.Add(ex.Add(one, x + 1), v), ex.Add(ex.Add(two, y + 1), v))
    assert same(ex.Add(ex.Add(x, one), ex.Add(x, v)), ex.Add(ex.Add(x, two), ex.Add(x, v)))


def test_floats_compare_as_their_type_holds_them() -> None:
    nan, other_nan = FloatImm("float32", math.nan), FloatImm("float32", -math.nan)
    assert same(nan, other_nan)
    assert not same(FloatImm("float32", 0.0), FloatImm("float32", -0.0))
    assert same(FloatImm("float32", 0.1), FloatImm("float32", float(np.float32(0.1))))
    assert not same(FloatImm("float64", 0.1), FloatImm("float64", float(np.float32(0.1))))


def test_constants_of_other_types_differ() -> None:
    assert not same(IntImm("int32", 1), IntImm("int64", 1))
    assert not same(IntImm("bool", 1), IntImm("int8", 1))


def test_annotations_compare_by_key_in_any_order_and_numbers_as_constants() -> None:
    def annotated(**annotations: Any) -> st.For:
        return st.For(Var("i"), const(0), const(4), 0, st.Evaluate(const(0)), None, annotations)  # pyright: ignore[reportArgumentType]

    assert same(annotated(a=1, b="x"), annotated(b="x", a=const(1)))
    assert not same(annotated(a=1), annotated(a=True))
    assert not same(annotated(a=1), annotated(a=1.0))
    assert not same(annotated(a=(1, 2)), annotated(a=(1, 3)))
    assert same(annotated(a={"k": [1, "t"]}), annotated(a={"k": (const(1), "t")}))
    assert not same(annotated(a=1), annotated(b=1))


def test_constant_arrays_compare_by_type_shape_and_bytes() -> None:
    def const_data(data: Any) -> st.AllocateConst:
        p = Var("p", ex.PointerType(ex.PrimType("float32")))  # pyright: ignore[reportArgumentType]
        return st.AllocateConst(p, "float32", (const(2),), data, st.Evaluate(const(0)))  # pyright: ignore[reportArgumentType]

    zero = np.zeros(2, "float32")
    assert same(const_data(zero), const_data(np.array([0.0, 0.0], "float32")))
    assert not same(const_data(zero), const_data(-zero))
    assert not same(const_data(zero), const_data(zero.astype("float64")))
    assert not same(const_data(zero), const_data(zero.reshape(2, 1)))


def test_modules_match_functions_by_name_private_ones_too(matmul: Matmul) -> None:
    def module(order: str, **options: Any) -> IRModule:
        call = PrimFunc((), st.Evaluate(ex.Call("int32", GlobalVar("f"), ())))  # pyright: ignore[reportArgumentType]
        parts = {"f": matmul(symbol="f", **options), "g": call}
        return IRModule({k: parts[k] for k in order})

    assert same(module("fg"), module("gf"))
    assert not same(module("fg"), module("f"))
    found = first_difference(module("fg"), module("fg", size=8))
    assert found is not None and found.path.startswith("functions['f'].buffer_map")


def test_a_missing_function_is_named_without_printing_whole_modules(matmul: Matmul) -> None:
    with pytest.raises(StructuralMismatch, match="only the left one has 'f'") as caught:
        assert_structural_equal(IRModule({"f": matmul(symbol="f")}), IRModule({"g": matmul(symbol="g")}))
    assert "left:  a mapping of 'f'" in str(caught.value)


def test_calls_match_functions_by_name() -> None:
    def call(name: str) -> ex.Call:
        return ex.Call("int32", GlobalVar(name), ())  # pyright: ignore[reportArgumentType]

    assert same(call("f"), call("f"))
    assert not same(call("f"), call("g"))


def test_block_details_count() -> None:
    def block(**options: Any) -> st.Block:
        v = Var("v")
        kind, dom = options.pop("kind", 0), options.pop("dom", 4)
        axis = IterVar(Range(0, dom), v, kind)
        fields: dict[str, Any] = {"body": st.Evaluate(v + 1), "init": None, **options}
        return st.Block((axis,), (), (), "b", fields["body"], fields["init"])

    assert same(block(), block())
    assert not same(block(), block(kind=2))
    assert not same(block(), block(dom=5))
    assert not same(block(), block(init=st.Evaluate(const(1))))


def test_reducers_and_reductions_compare_up_to_names() -> None:
    def reduction(names: str, plus: bool = True) -> ex.Reduce:
        x, y = (Var(n, "float32") for n in names)
        k = IterVar(Range(0, 4), Var("k"), IterVar.CommReduce)
        combiner = ex.CommReducer((x,), (y,), (x + y if plus else max_(x, y),), (const(0.0),))
        return ex.Reduce(combiner, (k.var.astype("float32"),), (), (k,), const(True), 0)

    assert same(reduction("xy"), reduction("pq"))
    assert not same(reduction("xy"), reduction("xy", plus=False))


def test_index_maps_compare_up_to_names() -> None:
    assert same(IndexMap.from_func(lambda i, j: [j, i]), IndexMap.from_func(lambda a, b: [b, a]))
    assert not same(IndexMap.from_func(lambda i, j: [j, i]), IndexMap.from_func(lambda i, j: [i, j]))


def test_a_thread_variable_launched_twice_is_compared_at_both_places() -> None:
    def launches(shared: bool) -> st.Stmt:
        tx, other = Var("tx"), Var("tx")
        parts = [
            st.AttrStmt(
                IterVar(None, v, IterVar.ThreadIndex, "threadIdx.x"), "thread_extent", const(4), st.Evaluate(v + 1)
            )
            for v in (tx, tx if shared else other)
        ]
        return st.SeqStmt(tuple(parts))

    assert same(launches(True), launches(True))
    assert same(launches(True), launches(False))


def test_very_deep_expressions_and_statements_are_compared() -> None:
    def deep() -> st.Stmt:
        x = Var("x")
        e: ex.PrimExpr = x
        for i in range(20000):
            e = ex.Add(e, IntImm("int32", i))
        body: st.Stmt = st.Evaluate(e)
        for _ in range(3000):
            body = st.LetStmt(Var("t"), const(1), body)
        return loop(lambda i: st.LetStmt(x, i, body))

    assert same(deep(), deep())


def test_shared_expressions_are_compared_once() -> None:
    def doubled(n: int) -> st.Stmt:
        def body(i: Var) -> st.Stmt:
            e: ex.PrimExpr = i
            for _ in range(n):
                e = ex.Add(e, e)
            return st.Evaluate(e)

        return loop(body)

    assert same(doubled(200), doubled(200))
    assert not same(doubled(200), doubled(199))


def test_the_hash_is_the_same_in_every_process() -> None:
    code = (
        "from tscript.ir import Var, For, Evaluate, const, structural_hash, decl_buffer, PrimFunc\n"
        "a = decl_buffer((4, 8), name='A'); i = Var('i')\n"
        "f = PrimFunc((a,), For(i, const(0), const(4), 0, Evaluate(a[i, 1])), None, {}, {'x': 'text', 'y': 1.5})\n"
        "print(structural_hash(f), structural_hash(Var('free') + 1))"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "77")
    }
    assert len(seen) == 1


def test_the_hash_tells_common_variants_apart(matmul: Matmul) -> None:
    variants = [matmul(), matmul(size=8), matmul(flip=True), matmul(block="D"), matmul(symbol="g"), matmul(symbol=None)]
    assert len({structural_hash(f) for f in variants}) == len(variants)


def test_the_report_holds_both_values() -> None:
    x = Var("x")
    with pytest.raises(StructuralMismatch) as caught:
        assert_structural_equal(st.Evaluate(x + 1), st.Evaluate(x + 2))
    assert caught.value.path == "value.b.value"
    assert (caught.value.left, caught.value.right) == (1, 2)


Tree = some.recursive(
    some.sampled_from(["x", "y", 1, 2]),
    lambda inner: some.tuples(some.sampled_from(["+", "*", "max", "if"]), inner, inner),
    max_leaves=12,
)


def grow(tree: Any, env: dict[str, Var]) -> ex.PrimExpr:
    if isinstance(tree, str):
        return env[tree]
    if isinstance(tree, int):
        return IntImm("int32", tree)
    op, a, b = tree
    left, right = grow(a, env), grow(b, env)
    if op == "if":
        return if_then_else(left < right, left, right)
    return {"+": ex.Add, "*": ex.Mul, "max": ex.Max}[op](left, right)


@given(Tree, Tree)
def test_trees_are_equal_exactly_if_their_shapes_are(one: Any, two: Any) -> None:
    def under_loops(tree: Any) -> st.Stmt:
        env = {"x": Var("a"), "y": Var("b")}
        body: st.Stmt = st.Evaluate(grow(tree, env))
        for v in env.values():
            body = st.For(v, const(0), const(4), 0, body)
        return body

    shared = {"x": Var("x"), "y": Var("y")}
    assert same(under_loops(one), under_loops(two)) is (grow(one, shared) is grow(two, shared))
