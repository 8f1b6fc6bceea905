"""Regions that `T.realize` makes: native code against the interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tscript
from tscript import interp
from tscript.ir import stmt as st
from tscript.ir.buffer import decl_buffer
from tscript.ir.construct import const
from tscript.ir.dtype import DataType
from tscript.ir.expr import Broadcast, BufferLoad, IntImm, Ramp, Range, Var
from tscript.ir.function import PrimFunc
from tscript.ir.semantics import numpy_dtype
from tscript.script import tir as T

TYPES = [
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16",
    "float8_e4m3fn", "float8_e5m2", "float32", "float64", "int4", "uint4",
]  # fmt: skip
TRUE = IntImm("bool", 1)


def same(func: PrimFunc, *args: Any) -> list[Any]:
    """The arguments after a native run, which are to be those after an interpreted one, to the bit."""
    func = func.with_attr("global_symbol", "main")
    native, slow = ([a.copy() if isinstance(a, np.ndarray) else a for a in args] for _ in range(2))
    tscript.build(func)["main"](*native)
    interp.run(func, *slow)
    for x, y in zip(native, slow, strict=True):
        assert not isinstance(x, np.ndarray) or x.tobytes() == y.tobytes()
    return native


def bounds(*pairs: tuple[Any, Any]) -> tuple[Range, ...]:
    return tuple(Range.from_min_extent(const(a), const(n)) for a, n in pairs)


@pytest.mark.parametrize("dtype", TYPES)
def test_a_region_holds_every_type(dtype: str) -> None:
    a, b = decl_buffer((6, 5), dtype, "A"), decl_buffer((6, 5), dtype, "B")
    s = decl_buffer((20, 20), dtype, "S")
    i, j, k, m = (Var(n) for n in "ijkm")
    put = st.BufferStore(s, a[i, j], (i + 10, j - 3))
    get = st.BufferStore(b, BufferLoad(s, (15 - k, m - 3)), (k, m))
    body = st.seq(
        st.For(i, const(0), const(6), 0, st.For(j, const(0), const(5), 0, put)),
        st.For(k, const(0), const(6), 0, st.For(m, const(0), const(5), 0, get)),
    )
    func = PrimFunc((a, b), st.BufferRealize(s, bounds((10, 6), (-3, 5)), TRUE, body))
    raw = np.random.default_rng(3).integers(0, 2 if dtype == "bool" else 8, (6, 5))
    x = raw.astype(numpy_dtype(DataType(dtype)))
    _, y = same(func, x, np.zeros_like(x))
    assert y.tobytes() == x[::-1].tobytes()


def test_as_users_write_it_with_sizes_and_ends_known_at_the_call() -> None:
    @T.prim_func
    def func(a: T.handle, b: T.handle, at: T.int32):
        n = T.int32()
        A = T.match_buffer(a, (n,), "float32")
        B = T.match_buffer(b, (n,), "float32")
        S = T.Buffer((100,), "float32")
        with T.realize(S[at * 2 : at * 2 + n], "local"):
            for i in T.vectorized(n):
                S[at * 2 + i] = A[i] * T.float32(2)
            T.prefetch(S, [T.Range(at * 2, at * 2 + 1)])
            for i in range(n):
                B[i] = S[at * 2 + n - 1 - i]

    for n in (0, 1, 7):
        x = np.arange(n, dtype="float32")
        for at in (-5, 0, 40):
            assert (same(func, x, np.zeros_like(x), at)[1] == 2 * x[::-1]).all()


def test_ends_read_from_memory_are_those_of_the_beginning() -> None:
    a, s = decl_buffer((4,), "int32", "A"), decl_buffer((9,), "int32", "S")
    region = (Range.from_min_extent(a[0], a[1]),)
    body = st.seq(
        st.BufferStore(s, const(7), (a[0] + 1,)),
        st.BufferStore(a, const(100), (const(0),)),
        st.BufferStore(a, BufferLoad(s, (const(4),)), (const(2),)),
    )
    func = PrimFunc((a,), st.BufferRealize(s, region, TRUE, body))
    assert same(func, np.array([3, 5, 0, 0], "int32"))[0].tolist() == [100, 5, 7, 0]


def test_vectors_of_elements_move_with_the_region() -> None:
    a, s = decl_buffer((16,), "float32", "A"), decl_buffer((99,), "float32", "S")
    ramp, back = Ramp(const(0), const(1), 4), Ramp(const(23), const(-1), 4)
    two = Ramp(const(20), const(1), 2) + Ramp(const(0), const(1), 2)
    body = st.seq(
        st.BufferStore(s, BufferLoad(a, (ramp,)), (Ramp(const(20), const(1), 4),)),
        st.BufferStore(a, BufferLoad(s, (back,)), (Ramp(const(4), const(1), 4),)),
        st.BufferStore(a, BufferLoad(s, (two,)), (Ramp(const(8), const(1), 2),)),
        st.BufferStore(a, BufferLoad(s, (Broadcast(const(21), 4),)), (Ramp(const(12), const(1), 4),)),
    )
    func = PrimFunc((a,), st.BufferRealize(s, bounds((20, 4)), TRUE, body))
    got = same(func, np.arange(16, dtype="float32"))[0]
    assert got.tolist() == [0, 1, 2, 3, 3, 2, 1, 0, 0, 2, 10, 11, 1, 1, 1, 1]


def test_regions_side_by_side_and_inside_each_other() -> None:
    a, s, t = decl_buffer((8,), "int32", "A"), decl_buffer((50,), "int32", "S"), decl_buffer((50,), "int32", "U")

    def use(low: int, to: int, value: int) -> st.Stmt:
        return st.seq(
            st.BufferStore(s, const(value), (const(low),)),
            st.BufferStore(a, BufferLoad(s, (const(low),)), (const(to),)),
        )

    inner = st.BufferRealize(t, bounds((-4, 2)), TRUE, st.seq(
        st.BufferStore(t, a[1], (const(-3),)),
        st.BufferStore(a, BufferLoad(t, (const(-3),)) + 1, (const(2),)),
    ))  # fmt: skip
    again = st.BufferRealize(s, bounds((0, 1)), TRUE, use(31, 3, 40))  # the memory is there already, as it was
    first = st.BufferRealize(s, bounds((30, 2)), TRUE, st.seq(use(30, 1, 10), inner, again))
    i = Var("i")
    second = st.BufferRealize(s, (Range.from_min_extent(i * 7, const(1)),), TRUE, st.seq(
        st.BufferStore(s, i + 5, (i * 7,)), st.BufferStore(a, BufferLoad(s, (i * 7,)), (i + 4,))
    ))  # fmt: skip
    func = PrimFunc((a,), st.seq(first, st.For(i, const(0), const(4), st.ForKind.PARALLEL, second)))
    assert same(func, np.zeros(8, "int32"))[0].tolist() == [0, 10, 11, 40, 5, 6, 7, 8]


def test_a_buffer_on_memory_that_exists_keeps_it() -> None:
    a = decl_buffer((8,), "int32", "A")
    on_a = st.BufferRealize(a, bounds((2, 2)), TRUE, st.BufferStore(a, const(5), (const(3),)))
    assert same(PrimFunc((a,), on_a), np.zeros(8, "int32"))[0].tolist() == [0, 0, 0, 5, 0, 0, 0, 0]
    s = decl_buffer((4,), "int32", "S")
    inside = st.seq(
        st.BufferStore(s, const(6), (const(1),)),
        st.BufferRealize(s, bounds((1, 2)), TRUE, st.BufferStore(s, BufferLoad(s, (const(1),)) + 1, (const(3),))),
        st.BufferStore(a, BufferLoad(s, (const(3),)), (const(0),)),
    )
    block = st.Block((), (), (), "root", inside, None, (s,))
    func = PrimFunc((a,), st.BlockRealize((), TRUE, block))
    assert same(func, np.zeros(8, "int32"))[0].tolist() == [7, 0, 0, 0, 0, 0, 0, 0]


def test_a_region_without_dimensions_is_one_element() -> None:
    a, s = decl_buffer((2,), "int32", "A"), decl_buffer((), "int32", "S")
    body = st.seq(st.BufferStore(s, a[0], ()), st.BufferStore(a, BufferLoad(s, ()), (const(1),)))
    func = PrimFunc((a,), st.BufferRealize(s, (), TRUE, body))
    assert same(func, np.array([3, 0], "int32"))[0].tolist() == [3, 3]
