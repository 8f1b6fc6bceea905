"""Saving, loading and pickling."""

from __future__ import annotations

import json
import math
import pickle
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from tscript.ir import buffer as tb
from tscript.ir import expr as ex
from tscript.ir import stmt as st
from tscript.ir.base import nodes_below
from tscript.ir.construct import const
from tscript.ir.expr import FloatImm, GlobalVar, IntImm, IterVar, Range, SizeVar, Var
from tscript.ir.function import IRModule, PrimFunc
from tscript.ir.functor import NODE_CLASSES
from tscript.ir.index_map import IndexMap
from tscript.ir.json_io import LoadError, load_json, save_json
from tscript.ir.structural import structural_equal
from tscript.support.span import Span

Matmul = Callable[..., PrimFunc]


def through_pickle(node: Any) -> Any:
    return pickle.loads(pickle.dumps(node))


def through_json(node: Any) -> Any:
    return load_json(save_json(node))


BOTH = pytest.mark.parametrize("copy", [through_json, through_pickle])


def everything() -> PrimFunc:
    """A function in which every node class occurs."""
    n = SizeVar("n")
    a, b = tb.decl_buffer((n, 4), name="A", strides=("s", 1), offset_factor=4), tb.decl_buffer((4,), "int32", name="B")
    i, p, q, t = Var("i"), Var("p", "float32"), Var("q", "float32"), Var("t", "bool")
    k = IterVar(Range(0, 4), Var("k"), IterVar.CommReduce)
    combiner = ex.CommReducer((p,), (q,), (p + q,), (const(0.0),))
    one, half = const(1), const(0.5)
    binary = [cls(i, one) for cls in ex.BINARY_CLASSES if cls not in (ex.And, ex.Or)]
    logic = [ex.And(t, t), ex.Or(t, t), ex.Not(t)]
    others = [
        ex.Cast("int64", i), ex.Select(t, i, one), ex.Ramp(i, one, 4), ex.Broadcast(i, 2), ex.Let(Var("z"), i, i + 1),
        ex.Shuffle((ex.Ramp(i, one, 4),), (const(2),)), ex.Call("float32", ex.Op.get("tir.exp"), (half,)),
        ex.Call("int32", GlobalVar("g"), (ex.StringImm("text"),)), a[i, 0], ex.ProducerLoad(a, (i, one)),
        ex.Reduce(combiner, (half,), (), (k,), const(True), 0),
    ]  # fmt: skip
    statements: list[st.Stmt] = [st.Evaluate(e) for e in (*binary, *logic, *others)]
    region = st.BufferRegion(b, (Range(0, 4),))
    view = tb.decl_buffer((4,), "int32", name="V")
    swap = IndexMap.from_func(lambda x, y: [y, x], inverse_index_map=lambda x, y: [y, x])
    block = st.Block(
        (IterVar(Range(0, 4), Var("v"), 0),), (region,), (region,), "blk", st.BufferStore(b, one, (one,)),
        st.Evaluate(one), (tb.decl_buffer((2,), name="L"),), (st.MatchBufferRegion(view, region),),
        {"map": swap, "f": (1.5, None, [1, "x"])},
    )  # fmt: skip
    pointer = Var("c", ex.PointerType(ex.PrimType("float32"), "shared"))
    body: st.Stmt = st.BlockRealize((one,), t, block)
    body = st.AllocateConst(pointer, "float32", (const(2),), np.array([1.0, -0.0], "float32"), body)
    body = st.Allocate(Var("m", pointer.type_annotation), "float32", (const(2),), const(True), body, {"k": 1})
    body = st.DeclBuffer(view, st.BufferRealize(b, (Range(0, 4),), t, st.AssertStmt(t, ex.StringImm("no"), body)))
    body = st.AttrStmt(
        IterVar(None, Var("tx"), 1, "threadIdx.x"), "thread_extent", one, st.LetStmt(Var("y"), one, body)
    )
    body = st.IfThenElse(t, st.While(t, body), st.Prefetch(b, (Range(0, 4),)))
    loop = st.For(i, const(0), n, 3, st.SeqStmt((*statements, body)), None, {"pragma": "x"}, Span("f.py", 1, 2, 3, 4))
    return PrimFunc(
        (a, t), loop, ex.TupleType((ex.PrimType("int32"),)), {}, {"global_symbol": "f"}, Span("f", 1, 1, 2, 2)
    )


def test_the_program_with_everything_holds_every_node_class() -> None:
    abstract = {
        "Node", "Type", "PrimExpr", "BinaryExpr", "ArithExpr", "CmpExpr", "LogicExpr", "Stmt", "IRModule",
    }  # fmt: skip
    met = {type(n).__name__ for n in nodes_below(everything())}
    assert set(NODE_CLASSES) - abstract == met


@BOTH
def test_every_node_class_comes_back_equal(copy: Callable[[Any], Any]) -> None:
    f = everything()
    g = copy(f)
    assert g is not f and structural_equal(f, g, map_free_vars=True)
    assert g.span == f.span and g.body.span == f.body.span
    assert save_json(g) == save_json(f)


@BOTH
def test_variables_and_buffers_keep_their_identity(copy: Callable[[Any], Any], matmul: Matmul) -> None:
    x = Var("x")
    y, e, same = copy((x, x + 1, x + 1))
    assert y is not x and e.a is y and e is same and e is y + 1
    f = copy(matmul())
    assert f.buffer_map[f.params[0]] is f.body.block.body.body.body.body.block.reads[0].buffer


@BOTH
def test_closed_expressions_are_interned_again(copy: Callable[[Any], Any]) -> None:
    for e in (const(3), const(2.5), const(True), ex.Add(const(1), const(2)), ex.StringImm("s"), ex.PrimType("int8")):
        assert copy(e) is e
    assert copy(ex.Op.get("tir.exp")) is ex.Op.get("tir.exp")


@BOTH
@pytest.mark.parametrize(
    "value", [0.0, -0.0, math.inf, -math.inf, math.nan, 0.1, 5e-324, 1.7976931348623157e308, 2.0**-149]
)
def test_floats_are_exact(copy: Callable[[Any], Any], value: float) -> None:
    for dtype in ("float64", "float32", "float16", "bfloat16"):
        assert copy(FloatImm(dtype, value)) is FloatImm(dtype, value)


@given(some.floats(), some.integers(-(2**63), 2**63 - 1), some.text())
def test_any_constant_survives(x: float, k: int, text: str) -> None:
    for e in (FloatImm("float64", x), IntImm("int64", k), ex.StringImm(text)):
        assert through_json(e) is e


@BOTH
def test_the_largest_unsigned_integer_survives(copy: Callable[[Any], Any]) -> None:
    assert copy(IntImm("uint64", 2**64 - 1)).value == 2**64 - 1


@BOTH
@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint64", "float16", "float32", ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn]
)
def test_arrays_keep_type_shape_and_bytes(copy: Callable[[Any], Any], dtype: Any) -> None:
    data = np.arange(6).reshape(2, 3).astype(dtype)
    node = st.Evaluate(const(0))
    loop = st.For(Var("i"), const(0), const(2), 0, node, None, {"d": data, "empty": data[:0], "s": data[1, 1]})
    back = copy(loop).annotations
    for key in ("d", "empty", "s"):
        assert back[key].dtype == loop.annotations[key].dtype and back[key].shape == loop.annotations[key].shape
        assert back[key].tobytes() == loop.annotations[key].tobytes()


def test_arrays_of_foreign_byte_order_are_saved_in_little_endian() -> None:
    data = np.array([1.5, 2.5], ">f4")
    loop = st.For(Var("i"), const(0), const(2), 0, st.Evaluate(const(0)), None, {"d": data})
    assert through_json(loop).annotations["d"].tolist() == [1.5, 2.5]


@BOTH
def test_modules_keep_names_attributes_and_shared_names(copy: Callable[[Any], Any], matmul: Matmul) -> None:
    g = GlobalVar("g")
    mod = IRModule({"f": PrimFunc((), st.Evaluate(ex.Call("int32", g, ()))), g: matmul(symbol=None)}, {"k": 1})
    back = copy(mod)
    assert structural_equal(mod, back)
    assert back["f"].body.value.op is back.get_global_var("g")


@BOTH
def test_deep_functions_survive(copy: Callable[[Any], Any]) -> None:
    x = Var("x")
    e: ex.PrimExpr = x
    for k in range(5000):
        e = ex.Add(e, IntImm("int32", k))
    body: st.Stmt = st.Evaluate(e)
    for _ in range(2000):
        body = st.LetStmt(Var("t"), const(1), body)
    f = PrimFunc((x,), body)
    assert structural_equal(f, copy(f))


def test_a_shared_expression_is_saved_once() -> None:
    e: ex.PrimExpr = Var("x")
    for _ in range(100):
        e = ex.Add(e, e)
    assert len(save_json(e)) < 10000
    assert len(nodes_below(through_json(e))) == len(nodes_below(e))


def test_spans_can_be_left_out() -> None:
    assert "span" not in save_json(everything(), spans=False)
    assert load_json(save_json(everything(), spans=False)).span is None


def test_the_text_is_the_same_each_time() -> None:
    f = everything()
    assert save_json(f) == save_json(f)


def test_objects_without_a_text_form_are_refused() -> None:
    loop = st.For(Var("i"), const(0), const(2), 0, st.Evaluate(const(0)), None, {"d": object()})
    with pytest.raises(TypeError, match="an object in the program has no JSON form"):
        save_json(loop)


def edited(change: Callable[[dict[str, Any]], None]) -> str:
    head = json.loads(save_json(Var("x") + 1))
    change(head)
    return json.dumps(head)


NODE = "nodes"
CORRUPT: list[tuple[str, Any]] = [
    ("no JSON: .* at line 1, column 1", ""),
    ("line 1, column 2", '{"a'),
    ("no saved program", "[1, 2]"),
    ("no saved program", '{"format": "other"}'),
    ("nests too deeply|no saved program", "[" * 100000 + "]" * 100000),
    ("not UTF-8", b'{"format": "\xff"}'),
    ("holds NaN", '{"format": NaN}'),
    ("version 99 .* reads up to 1", lambda h: h.update(version=99)),
    ("version None", lambda h: h.pop("version")),
    ("version True", lambda h: h.update(version=True)),
    ("cut short", lambda h: h.pop("nodes")),
    ("cut short", lambda h: h.pop("root")),
    ("node 0 is no object", lambda h: h["nodes"].__setitem__(0, 5)),
    (r"node 0 \(Nope\): there is no such node class", lambda h: h["nodes"][0].update(**{"class": "Nope"})),
    (r"node 3 \(Add\): it refers to node 9", lambda h: h["nodes"][3].update(a={"ref": 9})),
    (r"node 3 \(Add\): it refers to node 3", lambda h: h["nodes"][3].update(a={"ref": 3})),
    (r"node 3 \(Add\): it refers to node -1", lambda h: h["nodes"][3].update(a={"ref": -1})),
    (r"node 3 \(Add\): its field 'a' is a PrimType, not a PrimExpr", lambda h: h["nodes"][3].update(a={"ref": 0})),
    (r"node 3 \(Add\): it has no field 'c'", lambda h: h["nodes"][3].update(c=1)),
    (r"node 3 \(Add\): .*missing", lambda h: h["nodes"][3].pop("b")),
    (r"node 2 \(IntImm\): its field 'value' is a bool", lambda h: h["nodes"][2].update(value=True)),
    (r"node 2 \(IntImm\): .* does not fit in int8", lambda h: h["nodes"][2].update(dtype="int8", value=300)),
    (r"node 2 \(IntImm\): unknown data type", lambda h: h["nodes"][2].update(dtype="int5")),
    (r"node 2 \(IntImm\): the number 1.5 stands bare", lambda h: h["nodes"][2].update(value=1.5)),
    (r"node 2 \(IntImm\): the tag 'what'", lambda h: h["nodes"][2].update(value={"what": 1})),
    (r"node 2 \(IntImm\): a value is an object with a single tag", lambda h: h["nodes"][2].update(value={})),
    (r"node 2 \(FloatImm\): .*hex", lambda h: h["nodes"][2].update({"class": "FloatImm", "value": {"float": "zz"}})),
    (r"node 2 \(Op\): 'tir.no' is not known", lambda h: h["nodes"].__setitem__(2, {"class": "Op", "name": "tir.no"})),
    ("the root: it refers to node 77", lambda h: h.update(root={"ref": 77})),
    ("bytes instead of 8", lambda h: h.update(root={"array": {"dtype": "float32", "shape": [2], "base64": "AAAA"}})),
    ("no base64", lambda h: h.update(root={"array": {"dtype": "float32", "shape": [2], "base64": "A*"}})),
    ("not made of sizes", lambda h: h.update(root={"array": {"dtype": "float32", "shape": [-2], "base64": ""}})),
    ("'complex64' is not known", lambda h: h.update(root={"array": {"dtype": "complex64", "shape": [], "base64": ""}})),
    ("a source position is", lambda h: h.update(root={"span": ["f", 1]})),
    ("the root", lambda h: h.update(root={"map": [[{"list": []}, 1]]})),
]  # fmt: skip


@pytest.mark.parametrize(("message", "damage"), CORRUPT, ids=[str(k) for k in range(len(CORRUPT))])
def test_damage_is_reported_with_its_place(message: str, damage: Any) -> None:
    text = edited(damage) if callable(damage) else damage
    with pytest.raises(LoadError, match=message):
        load_json(text)
    assert issubclass(LoadError, ValueError)


@given(some.data())
def test_damaged_text_loads_or_is_refused_but_never_crashes(data: some.DataObject) -> None:
    text = save_json(Var("x") + ex.Call("float32", ex.Op.get("tir.exp"), (const(0.5),)))
    at = data.draw(some.integers(0, len(text) - 1))
    size = data.draw(some.integers(0, 12))
    fresh = data.draw(some.text(alphabet='0123456789{}[]":,refclassvalueAdd', max_size=6))
    try:
        load_json(text[:at] + fresh + text[at + size :])
    except LoadError:
        pass


def test_a_loaded_loop_needs_a_statement_as_body() -> None:
    head = json.loads(save_json(st.For(Var("i"), const(0), const(2), 0, st.Evaluate(const(0)))))
    loop = head["nodes"][-1]
    loop["body"] = loop["min"]
    with pytest.raises(LoadError, match="its field 'body' is an IntImm, not a Stmt"):
        load_json(json.dumps(head))
