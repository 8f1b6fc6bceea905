"""Deeply nested programs, in the interpreter and as native code, and repeated runs."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tscript import interp
from tscript.driver import build
from tscript.interp import machine
from tscript.ir import construct as make
from tscript.ir import expr as ex
from tscript.ir import stmt as st
from tscript.ir.buffer import Buffer, decl_buffer
from tscript.ir.construct import const
from tscript.ir.dtype import DataType
from tscript.ir.expr import Let, PrimExpr, Select, Var
from tscript.ir.function import IRModule, PrimFunc
from tscript.script import tir as T
from tscript.support.errors import InterpError

Wrap = Callable[[Buffer, Any, int], Any]


def _while(a: Buffer, body: st.Stmt, i: int) -> st.Stmt:
    bound = 1000 * (i + 1)
    step = st.BufferStore(a, a[2] + bound, (const(2),))
    return st.While(a[2] < bound, st.seq(body, step))


def _let(a: Buffer, body: st.Stmt, i: int) -> st.Stmt:
    v = Var(f"v{i}")
    return st.LetStmt(v, a[1] + i, st.seq(st.BufferStore(a, v, (const(3),)), body))


STATEMENTS: dict[str, Wrap] = {
    "if": lambda a, body, i: st.IfThenElse(a[1] >= -i, body, None),
    "else": lambda a, body, i: st.IfThenElse(a[1] < -i - 5, st.BufferStore(a, const(i), (const(2),)), body),
    "for": lambda a, body, i: st.For(Var(f"i{i}"), const(0), const(1), 0, body),
    "while": _while,
    "let": _let,
}


@pytest.mark.parametrize("kind", [*STATEMENTS, "all"])
def test_statements_may_be_nested_deeply(kind: str) -> None:
    a = decl_buffer((4,), "int32", name="A")
    body: st.Stmt = st.BufferStore(a, a[0] + 1, (const(0),))
    wraps = list(STATEMENTS.values()) if kind == "all" else [STATEMENTS[kind]]
    # LLVM takes long for loops nested as deeply as that.
    for i in range(40 if kind == "while" else 120):
        body = wraps[i % len(wraps)](a, body, i)
    func = PrimFunc((a,), body)
    expected, got = np.zeros(4, "int32"), np.zeros(4, "int32")
    interp.run(func, expected)
    build(func)["main"](got)
    assert got.tolist() == expected.tolist() and got[0] >= 1


def _ite(a: Buffer, e: PrimExpr, i: int) -> PrimExpr:
    return make.if_then_else(a[1] > i - 1000, e + 1, a[2] + i)


def _let_expression(a: Buffer, e: PrimExpr, i: int) -> PrimExpr:
    v = Var(f"v{i}")
    return Let(v, a[1] + i, e + v)


def _shared(a: Buffer, e: PrimExpr, i: int) -> PrimExpr:
    return make.if_then_else(e > 3, e, a[2]) if i % 2 else Select(e > i, e, a[1])


@pytest.mark.parametrize("wrap", [_ite, _let_expression, _shared])
def test_expressions_may_be_nested_deeply(wrap: Wrap) -> None:
    a = decl_buffer((4,), "int32", name="A")
    e: PrimExpr = a[0]
    for i in range(150):
        e = wrap(a, e, i)
    func = PrimFunc((a,), st.BufferStore(a, e, (const(3),)))
    expected, got = np.arange(4, dtype="int32"), np.arange(4, dtype="int32")
    interp.run(func, expected)
    build(func)["main"](got)
    assert got.tolist() == expected.tolist()


def test_the_place_of_an_error_far_inside_is_known() -> None:
    a = decl_buffer((4,), "int32", name="A")
    n = Var("n")
    body: st.Stmt = st.BufferStore(a, make.floordiv(n, a[0]), (const(0),))
    for i in range(120):
        body = STATEMENTS["if"](a, body, i)
    with pytest.raises(InterpError, match="division by zero") as caught:
        interp.run(PrimFunc((a, n), body), np.zeros(4, "int32"), 3)
    assert caught.value.statement == "A[0] = n // A[0]"


def test_what_is_too_deep_is_refused_with_a_hint() -> None:
    a = decl_buffer((4,), "int32", name="A")
    body: st.Stmt = st.BufferStore(a, a[0] + 1, (const(0),))
    for i in range(1600):
        body = STATEMENTS["if"](a, body, i)
    limit = sys.getrecursionlimit()
    with pytest.raises(InterpError, match="nested too deeply\n  try: split"):
        interp.run(PrimFunc((a,), body), np.zeros(4, "int32"))
    assert sys.getrecursionlimit() == limit


def test_a_variable_bound_inside_its_own_scope_is_refused() -> None:
    a, v, i = decl_buffer((4,), "int32", name="A"), Var("v"), Var("i")
    store = st.BufferStore(a, v + 1, (const(0),))
    inner_loop = st.For(i, const(0), const(2), 0, st.BufferStore(a, i, (const(0),)))
    programs = [
        st.LetStmt(v, a[0], st.LetStmt(v, a[1], store)),
        st.For(i, const(0), const(2), 0, inner_loop),
        st.BufferStore(a, Let(v, a[0], v + 1 + Let(v, a[1], v + 1)), (const(0),)),
    ]
    for body in programs:
        func = PrimFunc((a,), body)
        with pytest.raises(InterpError, match="is bound again inside its own scope"):
            interp.run(func, np.zeros(4, "int32"))
        with pytest.raises(Exception, match="bound again inside its own scope"):
            build(func)
    again = st.SeqStmt([st.LetStmt(v, a[1], store), st.LetStmt(v, a[2] + 5, store)])
    one, two = np.zeros(4, "int32"), np.zeros(4, "int32")
    interp.run(PrimFunc((a,), again), one)
    build(PrimFunc((a,), again))["main"](two)
    assert one[0] == two[0] == 6


def test_a_loop_variable_must_hold_its_last_value() -> None:
    a, u = decl_buffer((400,), "int32", name="A"), Var("u", "uint8")
    loop = st.For(u, const(200, "uint8"), const(100, "uint8"), 0, st.BufferStore(a, const(1), (u,)))
    with pytest.raises(InterpError, match="the loop over u runs up to 299, which its type uint8 cannot hold"):
        interp.run(PrimFunc((a,), loop), np.zeros(400, "int32"))


def test_a_second_run_does_not_translate_again(monkeypatch: pytest.MonkeyPatch) -> None:
    @T.prim_func
    def f(A: T.Buffer((4,), "int32")):
        for i in range(4):
            A[i] = A[i] + 1

    a = np.zeros(4, "int32")
    interp.run(f, a)
    monkeypatch.setattr(machine, "assembled", None)
    interp.run(f, a)
    assert a.tolist() == [2] * 4


def test_translations_go_with_their_program() -> None:
    a = decl_buffer((4,), "int32", name="A")
    func = PrimFunc((a,), st.BufferStore(a, const(1), (const(0),)))
    interp.run(func, np.zeros(4, "int32"))
    gone = weakref.ref(func)
    del func
    gc.collect()
    assert gone() is None


def test_a_changed_module_is_translated_again() -> None:
    @T.prim_func
    def one(A: T.Buffer((1,), "int32")):
        A[0] = 1

    @T.prim_func
    def two(A: T.Buffer((1,), "int32")):
        A[0] = 2

    mod = IRModule({"main": one})
    a = np.zeros(1, "int32")
    interp.run(mod, a)
    mod["main"] = two
    interp.run(mod, a)
    assert a[0] == 2


def test_memory_whose_condition_is_false_may_be_declared_but_not_used() -> None:
    n, a = Var("n"), decl_buffer((4,), "int32", name="A")
    pointer = Var("p", ex.PointerType(ex.PrimType(DataType("int32")), "global"))
    local = decl_buffer((n,), "int32", name="L", data=pointer)
    use = st.seq(st.BufferStore(local, a[0] + 5, (const(0),)), st.BufferStore(a, local[0], (const(1),)))

    def func(body: st.Stmt) -> PrimFunc:
        return PrimFunc((a, n), st.Allocate(pointer, "int32", (n,), n > 0, st.DeclBuffer(local, body)))

    guarded = func(st.IfThenElse(n > 0, use, None))
    for count, want in ((1, 5), (0, 0), (-3, 0)):
        one, two = np.zeros(4, "int32"), np.zeros(4, "int32")
        interp.run(guarded, one, count)
        build(guarded)["main"](two, count)
        assert one[1] == two[1] == want
    with pytest.raises(InterpError, match="the condition of its allocation is false"):
        unguarded = st.Allocate(pointer, "int32", (n,), n > 3, st.DeclBuffer(local, use))
        interp.run(PrimFunc((a, n), unguarded), np.zeros(4, "int32"), 2)


def test_an_element_whose_predicate_is_false_need_not_exist() -> None:
    a, n = decl_buffer((4,), "int32", name="A"), Var("n")
    no = n > 5
    load = ex.BufferLoad(a, (const(9),), no)
    body = st.seq(st.BufferStore(a, load + 3, (const(0),)), st.BufferStore(a, const(1), (const(7),), no))
    one, two = np.ones(4, "int32"), np.ones(4, "int32")
    interp.run(PrimFunc((a, n), body), one, 2)
    build(PrimFunc((a, n), body))["main"](two, 2)
    assert one.tolist() == two.tolist() == [3, 1, 1, 1]
    with pytest.raises(InterpError, match="out of bounds"):
        interp.run(PrimFunc((a, n), body), one, 6)
