"""One breaking program for each rule, and legal programs that look unusual."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tscript.ir import buffer as tb
from tscript.ir import expr as ex
from tscript.ir import stmt as st
from tscript.ir.construct import const
from tscript.ir.expr import GlobalVar, IterVar, Range, SizeVar, Var
from tscript.ir.function import IRModule, PrimFunc
from tscript.ir.index_map import IndexMap
from tscript.ir.rules import RULES, WellFormedError
from tscript.ir.stmt import ForKind
from tscript.ir.well_formed import verify_well_formed
from tscript.support.errors import VerifyError
from tscript.support.span import Span

Matmul = Callable[..., PrimFunc]
NOTHING = st.Evaluate(const(0))


def func(body: Any, *params: Any, **fields: Any) -> PrimFunc:
    return PrimFunc(params, body, None, fields.get("buffer_map"), fields.get("attrs", {}))


def loop(v: Var, body: st.Stmt, extent: Any = 4, **fields: Any) -> st.For:
    kind = fields.pop("kind", ForKind.SERIAL)
    return st.For(v, const(0, v.dtype), const(extent, v.dtype), kind, body, **fields)


def block(values: tuple[Any, ...] = (), axes: tuple[IterVar, ...] = (), **fields: Any) -> st.BlockRealize:
    inner: dict[str, Any] = {"reads": (), "writes": (), "name_hint": "b", "body": NOTHING, **fields}
    predicate = inner.pop("predicate", const(True))
    return st.BlockRealize(values, predicate, st.Block(axes, **inner))


def spatial(v: Var, extent: int = 4) -> IterVar:
    return IterVar(Range(const(0, v.dtype), const(extent, v.dtype)), v, IterVar.DataPar)


def pointer(name: str = "p", dtype: str = "float32") -> Var:
    return Var(name, ex.PointerType(ex.PrimType(dtype)))  # pyright: ignore[reportArgumentType]


def broken(node: Any, **fields: Any) -> Any:
    """A node as no constructor would make it: what a faulty pass could leave behind."""
    copy = object.__new__(type(node))
    for f in type(node)._fields:
        object.__setattr__(copy, f, fields.get(f, getattr(node, f)))
    return copy


i, j, x = Var("i"), Var("j"), Var("x")
vi = Var("vi")
A = tb.decl_buffer((4,), name="A")
B = tb.decl_buffer((4,), name="B")
half = tb.decl_buffer((4,), "float16", name="H")
thread = IterVar(None, Var("tx"), IterVar.ThreadIndex, "threadIdx.x")


def launch(extent: int, body: st.Stmt = NOTHING) -> st.AttrStmt:
    return st.AttrStmt(thread, "thread_extent", const(extent), body)


def view(source: Any, region: tuple[Any, ...], **options: Any) -> st.MatchBufferRegion:
    ranges = tuple(Range.from_min_extent(const(a), const(b)) for a, b in region)
    return st.MatchBufferRegion(tb.decl_buffer(name="V", **options), st.BufferRegion(source, ranges))


BREACHES: list[tuple[str, str, Any]] = [
    ("W01", "x is used", func(st.Evaluate(x + 1))),
    ("W01", "i is used", func(st.SeqStmt((loop(i, NOTHING), st.Evaluate(i + 1))))),
    ("W01", "i is used", func(st.For(i, const(0), i + 1, 0, NOTHING))),
    ("W01", "x is used", func(st.LetStmt(x, x + 1, NOTHING))),
    ("W01", "x is used", func(st.Evaluate(ex.Add(ex.Let(x, const(1), x + 2), x)))),
    ("W01", "x is used", func(st.Evaluate(ex.Add(ex.Let(x, const(1), x + 2), x + 2)))),
    ("W01", "i is used", func(st.SeqStmt((loop(i, NOTHING), block((i,), (spatial(vi),)))))),
    ("W01", "n is used", func(NOTHING, tb.decl_buffer((SizeVar("n") * 2,)))),
    ("W01", "x is used", func(loop(i, NOTHING, annotations={"k": (x + 1,)}))),
    ("W01", "x is used", func(NOTHING, attrs={"k": x})),
    ("W02", "i is defined a second", func(st.SeqStmt((loop(i, NOTHING), loop(i, NOTHING))))),
    ("W02", "i is defined a second", func(loop(i, loop(i, NOTHING)))),
    ("W02", "i is defined a second", IRModule({"f": func(loop(i, NOTHING)), "g": func(loop(i, NOTHING))})),
    ("W02", "x is defined a second", func(st.LetStmt(x, const(1), NOTHING), x)),
    ("W03", "buffer A is used", func(st.Evaluate(A[0]))),
    ("W03", "buffer B is used", func(st.BufferStore(B, const(0.0), (const(0),)), A)),
    ("W03", "buffer A is used", func(st.SeqStmt((block(alloc_buffers=(A,)), st.Evaluate(A[0]))))),
    ("W03", "declared on a pointer", func(st.DeclBuffer(A, NOTHING))),
    ("W04", "loop variable i", func(loop(i, block((i,), (spatial(vi),), body=st.Evaluate(i + 1))))),
    ("W04", "loop variable i", func(loop(i, block((i,), (spatial(vi),), reads=(A[i : i + 1],))), A)),
    ("W04", "loop variable i", func(loop(i, block((i,), (spatial(vi),), body=block(body=st.Evaluate(i)))))),
    ("W05", "value of type int32x2", func(block((ex.Broadcast(const(1), 2),), (spatial(vi),)))),
    ("W05", "runs from an int64", func(block((const(0),), (IterVar(Range(0, const(4, "int64")), vi, 0),)))),
    ("W05", "has no domain", func(block((const(0),), (IterVar(None, vi, 0),)))),
    ("W06", "predicate of block 'b' is an int32", func(block(predicate=const(1)))),
    (
        "W07",
        "float16 but views a float32",
        func(block(match_buffers=(view(A, ((0, 4),), shape=(4,), dtype="float16"),)), A),
    ),
    ("W07", "extent 3", func(block(match_buffers=(view(A, ((0, 4),), shape=(3,)),)), A)),
    ("W07", "more dimensions", func(block(match_buffers=(view(A, ((0, 4),), shape=(1, 4)),)), A)),
    ("W07", "leaves out a dimension", func(block(match_buffers=(view(A, ((0, 4),), shape=()),)), A)),
    ("W07", "lies in 'shared'", func(block(match_buffers=(view(A, ((0, 4),), shape=(4,), scope="shared"),)), A)),
    ("W08", "sequence", func(broken(st.SeqStmt((NOTHING, NOTHING)), seq=(NOTHING,)))),
    ("W09", "loop over i", func(broken(loop(i, NOTHING), extent=const(4, "int64")))),
    ("W10", "names no thread", func(loop(i, NOTHING, kind=ForKind.THREAD_BINDING))),
    ("W10", "names a thread", func(loop(i, NOTHING, thread_binding=thread))),
    ("W11", "threadIdx.x", func(st.SeqStmt((launch(4), launch(8))))),
    ("W12", "takes float32", func(broken(st.BufferStore(A, const(0.0), (const(0),)), value=const(1)), A)),
    ("W12", "2 subscripts", func(broken(st.BufferStore(A, const(0.0), (const(0),)), indices=(const(0), const(0))), A)),
    ("W13", "tir.exp takes 1", func(st.Evaluate(ex.Call("float32", ex.Op.get("tir.exp"), ())))),  # pyright: ignore[reportArgumentType]
    ("W13", "no function 'g'", IRModule({"f": func(st.Evaluate(ex.Call("int32", GlobalVar("g"), ())))})),  # pyright: ignore[reportArgumentType]
    (
        "W13",
        "g takes 1 arguments, not 0",
        IRModule({"f": func(st.Evaluate(ex.Call("int32", GlobalVar("g"), ()))), "g": func(NOTHING, x)}),  # pyright: ignore[reportArgumentType]
    ),
    ("W14", "x occurs twice", func(NOTHING, x, x)),
    ("W14", "no parameter", func(NOTHING, buffer_map={x: A})),
    ("W14", "which is an int32", func(NOTHING, x, buffer_map={x: A})),
    ("W15", "global symbol 'g'", IRModule({"f": func(NOTHING, attrs={"global_symbol": "g"})})),
    ("W16", "Reduce", None),
    ("W17", "is an object", func(loop(i, NOTHING, annotations={"k": object()}))),
    ("W18", "message of an assertion", func(st.AssertStmt(const(True), const(1), NOTHING))),
    ("W18", "condition of an allocation", func(st.Allocate(pointer(), "float32", (const(4),), const(1), NOTHING))),  # pyright: ignore[reportArgumentType]
    ("W19", "which is an int32", func(st.Allocate(x, "float32", (const(4),), const(True), NOTHING))),  # pyright: ignore[reportArgumentType]
    ("W19", "extent of the allocation", func(st.Allocate(pointer(), "float32", (const(1.5),), const(True), NOTHING))),  # pyright: ignore[reportArgumentType]
    ("W20", "Add stands where a statement", func(x + 1, x)),
    ("W20", "None stands", func(loop(i, None))),  # pyright: ignore[reportArgumentType]
]


def reduction() -> PrimFunc:
    p, q = Var("p", "float32"), Var("q", "float32")
    k = IterVar(Range(0, 4), Var("k"), IterVar.CommReduce)
    combiner = ex.CommReducer((p,), (q,), (p + q,), (const(0.0),))
    return func(st.Evaluate(ex.Reduce(combiner, (const(1.0),), (), (k,), const(True), 0)))


@pytest.mark.parametrize(
    ("rule", "text", "program"), BREACHES, ids=[f"{r}-{k}" for k, (r, _, _) in enumerate(BREACHES)]
)
def test_a_breach_is_reported_under_its_rule(rule: str, text: str, program: Any) -> None:
    program = reduction() if program is None else program
    with pytest.raises(WellFormedError) as caught:
        verify_well_formed(program)
    assert caught.value.rule == rule
    assert text in str(caught.value)
    assert f"[{rule}]" in str(caught.value) and RULES[rule].hint in str(caught.value)
    assert verify_well_formed(program, assert_mode=False) is False


def test_every_rule_has_a_breaking_program() -> None:
    assert {rule for rule, _, _ in BREACHES} == set(RULES)


def test_rules_are_numbered_in_order() -> None:
    assert list(RULES) == [f"W{k:02}" for k in range(1, len(RULES) + 1)]


def symbolic() -> PrimFunc:
    n = SizeVar("n")
    a, b = tb.decl_buffer((n * 2,), name="A"), tb.decl_buffer((n,), name="B")
    return func(st.For(i, const(0), n, 0, st.BufferStore(b, a[i * 2], (i,))), a, b)


def matched() -> PrimFunc:
    a = tb.decl_buffer((4, 4), name="A")
    v = tb.decl_buffer((4,), name="V", strides=("s",), offset_factor=1)
    source = st.BufferRegion(a, (Range.from_min_extent(const(1), const(1)), Range.from_min_extent(const(0), const(4))))
    inner = st.SeqStmt((st.Evaluate(v[0]), st.Evaluate(v.strides[0]), st.Evaluate(v.elem_offset)))
    return func(block(match_buffers=(st.MatchBufferRegion(v, source),), body=inner), a)


def thread_loops() -> PrimFunc:
    axis = IterVar(None, Var("tx"), IterVar.ThreadIndex, "threadIdx.x")
    nest = [loop(v, NOTHING, kind=ForKind.THREAD_BINDING, thread_binding=axis) for v in (Var("a"), Var("b"))]
    return func(st.SeqStmt(tuple(nest)))


def shared_let() -> PrimFunc:
    y = Var("y")
    let = ex.Let(y, const(1), y + 1)
    return func(st.SeqStmt((st.Evaluate(ex.Add(let, let)), st.Evaluate(let))))


def loop_attribute() -> PrimFunc:
    return func(loop(i, st.AttrStmt(IterVar(None, i, 0), "pragma_unroll_explicit", const(1), NOTHING)))


LEGAL: dict[str, Callable[[], Any]] = {
    "symbolic sizes are defined by whichever buffer names them alone": symbolic,
    "a matched buffer defines its strides and offset": matched,
    "a thread is launched twice with one extent": lambda: func(st.SeqStmt((launch(4), launch(4)))),
    "two loops share a thread": thread_loops,
    "an expression with a let stands at two places": shared_let,
    "an attribute of a loop names its variable": loop_attribute,
    "a view without declaration lies on a pointer in scope": lambda: func(
        st.Evaluate(tb.decl_buffer((4,), data=A.data, name="V")[0]), A
    ),
    "an opaque block uses loop variables": lambda: func(loop(i, block(body=st.Evaluate(i + 1)))),
    "predicate and binding use loop variables": lambda: func(
        loop(i, block((i,), (spatial(vi),), predicate=i < 3, body=st.Evaluate(vi + 1)))
    ),
    "a loop inside a block is free to be used": lambda: func(
        block((const(0),), (spatial(vi),), body=loop(i, st.Evaluate(i + 1)))
    ),
    "a launched thread is used inside a block": lambda: func(
        launch(4, block((const(0),), (spatial(vi),), body=st.Evaluate(thread.var + 1)))
    ),
    "an axis is narrower than its value": lambda: func(block((const(1, "int64"),), (spatial(vi),))),
    "an axis is wider than its value": lambda: func(loop(i, block((i,), (spatial(Var("v", "int64")),)))),
    "a bare block stands without its values": lambda: func(block((const(0),), (spatial(vi),)).block),
    "annotations hold numbers, texts, arrays, nodes and index maps": lambda: func(
        loop(i, NOTHING, annotations={"a": 1, "b": "t", "c": np.zeros(2), "d": (A, IndexMap.from_func(lambda q: [q]))}),
        A,
    ),
    "a private function calls another": lambda: IRModule(
        {
            "f": func(st.Evaluate(ex.Call("int32", GlobalVar("g"), (const(1),)))),  # pyright: ignore[reportArgumentType]
            "g": func(NOTHING, Var("p")),
        }
    ),
    "memory is allocated, declared and realized": lambda: func(
        st.Allocate(
            B.data,
            "float32",  # pyright: ignore[reportArgumentType]
            (const(4),),
            const(True),
            st.DeclBuffer(
                B, st.BufferRealize(half, (Range(0, 4),), const(True), st.Evaluate(B[0] + half[0].astype("float32")))
            ),
        )
    ),
}


@pytest.mark.parametrize("name", list(LEGAL))
def test_legal_programs_pass(name: str) -> None:
    assert verify_well_formed(LEGAL[name]())


def test_a_matrix_product_passes_alone_and_in_a_module(matmul: Matmul) -> None:
    assert verify_well_formed(matmul())
    assert verify_well_formed(IRModule({"main": matmul(), "f": matmul(symbol=None)}))


def test_deep_programs_are_checked() -> None:
    e: ex.PrimExpr = x
    for k in range(20000):
        e = ex.Add(e, ex.IntImm("int32", k))  # pyright: ignore[reportArgumentType]
    body: st.Stmt = st.Evaluate(e)
    for _ in range(5000):
        body = st.LetStmt(Var("t"), const(1), body)
    assert verify_well_formed(func(body, x))


def test_the_error_carries_the_position_of_the_innermost_statement() -> None:
    inner, outer = Span("k.py", 7, 3, 7, 9), Span("k.py", 2, 1, 9, 1)
    program = PrimFunc((), loop(i, st.Evaluate(x + 1, inner), span=outer))
    with pytest.raises(VerifyError) as caught:
        verify_well_formed(program)
    assert isinstance(caught.value, WellFormedError) and caught.value.span is inner and caught.value.node is x
    assert "k.py:7:3" in str(caught.value)


def test_only_functions_and_modules_are_checked() -> None:
    with pytest.raises(TypeError, match="PrimFunc or an IRModule, not an Evaluate"):
        verify_well_formed(NOTHING)  # pyright: ignore[reportArgumentType]
