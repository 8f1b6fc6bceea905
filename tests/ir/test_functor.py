"""Visitor, rewriter and substitution."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tscript.ir import buffer as tb
from tscript.ir import expr as ex
from tscript.ir import stmt as st
from tscript.ir.construct import const
from tscript.ir.expr import IntImm, Range, Var
from tscript.ir.function import PrimFunc
from tscript.ir.functor import Rewriter, Visitor, post_order_visit, pre_order_visit, substitute
from tscript.ir.index_map import IndexMap

Matmul = Callable[..., PrimFunc]
x, y, z = Var("x"), Var("y"), Var("z")


class Loads(Visitor):
    def __init__(self) -> None:
        self.found: list[str] = []

    def visit_BufferLoad(self, node: ex.BufferLoad) -> None:
        self.found.append(node.buffer.name)
        self.visit_children(node)


def test_a_visitor_meets_every_load_in_order(matmul: Matmul) -> None:
    v = Loads()
    v.visit(matmul())
    assert v.found == ["C", "A", "B"]


def test_a_handler_for_a_base_serves_the_classes_below() -> None:
    seen: list[str] = []

    class Binaries(Visitor):
        def visit_BinaryExpr(self, node: ex.BinaryExpr) -> None:
            seen.append(type(node).__name__)
            self.visit_children(node)

        def visit_Mul(self, node: ex.Mul) -> None:
            seen.append("product")

    Binaries().visit(ex.Add(ex.Mul(x, y), ex.Sub(x, y)))
    assert seen == ["Add", "product", "Sub"]


@pytest.mark.parametrize("name", ["visit_BufferLaod", "visit_Loop"])
def test_a_misspelt_handler_of_a_visitor_is_refused(name: str) -> None:
    with pytest.raises(TypeError, match=f"{name}: there is no node class"):
        type("Bad", (Visitor,), {name: lambda self, node: None})


@pytest.mark.parametrize("name", ["rewrite_Ad", "leave_Fro"])
def test_a_misspelt_handler_of_a_rewriter_is_refused(name: str) -> None:
    with pytest.raises(TypeError, match=f"{name}: there is no node class"):
        type("Bad", (Rewriter,), {name: lambda self, node: node})


def test_a_rewriter_that_changes_nothing_returns_the_same_object(matmul: Matmul) -> None:
    f = matmul()
    assert Rewriter().rewrite(f) is f
    assert substitute(f, {x: y}) is f
    assert Rewriter().rewrite(f.body) is f.body


def test_a_rewriter_shares_the_parts_it_does_not_change() -> None:
    one, two = st.Evaluate(x + 1), st.Evaluate(y + 1)
    both = st.SeqStmt((one, two))
    changed = substitute(both, {y: z})
    assert changed.seq[0] is one and changed.seq[1].value is z + 1  # pyright: ignore[reportAttributeAccessIssue]


def test_children_are_rewritten_before_leave_is_called() -> None:
    class Fold(Rewriter):
        def leave_Add(self, node: ex.Add) -> ex.PrimExpr:
            if isinstance(node.a, IntImm) and isinstance(node.b, IntImm):
                return IntImm(node.dtype, node.a.value + node.b.value)
            return node

    e = ex.Add(ex.Add(const(1), const(2)), ex.Add(const(3), const(4)))
    assert Fold().rewrite(e) is const(10)


def test_a_rewrite_handler_replaces_the_default() -> None:
    class Swap(Rewriter):
        def rewrite_Sub(self, node: ex.Sub) -> ex.PrimExpr:
            return ex.Sub(self.rewrite(node.b), self.rewrite(node.a))

    assert Swap().rewrite(ex.Sub(ex.Sub(x, y), z)) is ex.Sub(z, ex.Sub(y, x))


def test_a_sequence_that_shrinks_is_flattened() -> None:
    class Drop(Rewriter):
        def leave_Evaluate(self, node: st.Evaluate) -> st.Stmt:
            return st.SeqStmt((node, node)) if node.value is x else st.Evaluate(const(0))

    both = st.SeqStmt((st.Evaluate(x), st.Evaluate(y)))
    assert [s.value for s in Drop().rewrite(both).seq] == [x, x]


def test_substitution_reaches_shapes_regions_annotations_and_bounds() -> None:
    b = tb.decl_buffer((x, 4), name="B")
    region = st.BufferRegion(b, (Range.from_min_extent(x, const(1)), Range(0, 4)))
    block = st.Block((), (region,), (), "b", st.Evaluate(b[x, 0]), annotations={"k": (x, {"l": x + 1})})
    got = substitute(block, {x: z})
    assert got.body.value.buffer.shape[0] is z  # pyright: ignore[reportAttributeAccessIssue]
    assert got.body.value.buffer is got.reads[0].buffer  # pyright: ignore[reportAttributeAccessIssue]
    assert got.reads[0].region[0].min is z
    assert got.annotations["k"][0] is z and got.annotations["k"][1]["l"] is z + 1


def test_substitution_renames_a_definition_together_with_its_uses() -> None:
    loop = st.For(x, const(0), const(4), 0, st.Evaluate(x + 1))
    got = substitute(loop, {x: z})
    assert got.loop_var is z and got.body.value is z + 1  # pyright: ignore[reportAttributeAccessIssue]
    let = ex.Let(x, const(1), x + 1)
    assert substitute(let, {x: z}) is ex.Let(z, const(1), z + 1)


def test_substitution_renames_parameters_with_their_buffers(matmul: Matmul) -> None:
    f = matmul()
    handle = Var("handle", "handle")
    g = substitute(f, {f.params[0]: handle})
    assert g.params[0] is handle and g.buffer_map[handle] is f.buffer_map[f.params[0]]
    assert f.params[0] not in g.buffer_map
    assert list(g.buffer_map) == list(g.params)


def test_substitution_renames_the_variables_of_reducers_and_index_maps() -> None:
    combiner = ex.CommReducer((x,), (y,), (x + y,), (const(0),))
    got = substitute(combiner, {x: z})
    assert got.lhs == (z,) and got.result[0] is z + y
    swap = IndexMap((x, y), (y, x))
    assert substitute(swap, {x: z}).final_indices == (y, z)


def test_a_definition_cannot_become_an_expression() -> None:
    loop = st.For(x, const(0), const(4), 0, st.Evaluate(y))
    assert substitute(loop, {x: const(3)}) is loop


def test_buffers_are_substituted_where_they_are_used() -> None:
    a, b = tb.decl_buffer((4,), name="A"), tb.decl_buffer((4,), name="B")
    store = st.BufferStore(a, a[x], (x,))
    got = substitute(store, {}, {a: b})
    assert got.buffer is b and got.value.buffer is b  # pyright: ignore[reportAttributeAccessIssue]


def test_post_order_meets_children_first_and_shared_parts_once() -> None:
    e = ex.Add(ex.Mul(x, y), ex.Mul(x, y))
    seen: list[Any] = []
    post_order_visit(e, seen.append)
    assert seen == [x, y, ex.Mul(x, y), e]


def test_pre_order_stops_where_it_is_told() -> None:
    seen: list[Any] = []

    def visit(node: Any) -> bool:
        seen.append(node)
        return not isinstance(node, ex.Mul)

    pre_order_visit(ex.Add(ex.Mul(x, y), z), visit)
    assert [type(n).__name__ for n in seen] == ["Add", "Mul", "Var"]


def test_very_deep_expressions_are_visited_and_rewritten() -> None:
    e: ex.PrimExpr = x
    for k in range(20000):
        e = ex.Add(e, IntImm("int32", k))
    got = substitute(e, {x: y})
    assert substitute(got, {y: x}) is e
    count: list[Any] = []
    Loads().visit(st.Evaluate(e))
    post_order_visit(e, count.append)
    assert len(count) == 40001
