"""Reductions over an empty axis give the identity, natively and interpreted, before and after schedules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tscript
from tscript import interp, te
from tscript.ir.empty_reductions import with_empty_inits
from tscript.ir.function import IRModule, PrimFunc
from tscript.script import tir as T
from tscript.tir import Schedule, Select, const


def same(func: PrimFunc | IRModule, *arrays: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
    """The arrays after a native run, which are to be those after an interpreted one."""
    if isinstance(func, PrimFunc):
        func = func.with_attr("global_symbol", "main")
    native, slow = [a.copy() for a in arrays], [a.copy() for a in arrays]
    tscript.build(func)["main"](*native)
    interp.run(func, *slow)
    for x, y in zip(native, slow, strict=True):
        np.testing.assert_array_equal(x, y)
    return native


def full(*shape: int, dtype: str = "float32") -> np.ndarray[Any, Any]:
    return np.full(shape, 77, dtype)


def random(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(1).integers(-9, 9, shape).astype("float32")


def row_sums() -> PrimFunc:
    m, n = te.var("m"), te.var("n")
    a = te.placeholder((m, n), name="A")
    k = te.reduce_axis((0, n), "k")
    return te.create_prim_func([a, te.compute((m,), lambda i: te.sum(a[i, k], axis=k), name="S")])


def matmul() -> PrimFunc:
    m, n, p = te.var("m"), te.var("n"), te.var("p")
    a, b = te.placeholder((m, n), name="A"), te.placeholder((n, p), name="B")
    k = te.reduce_axis((0, n), "k")
    return te.create_prim_func([a, b, te.compute((m, p), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")])


@pytest.mark.parametrize(("reduce", "identity"), [(te.sum, 0), (te.max, -np.inf), (te.min, np.inf)])
@pytest.mark.parametrize("symbolic", [True, False])
def test_each_reduction_of_an_empty_axis_is_its_identity(reduce: Any, identity: float, symbolic: bool) -> None:
    n = te.var("n") if symbolic else 0
    a = te.placeholder((3, n), name="A")
    k = te.reduce_axis((0, n), "k")
    func = te.create_prim_func([a, te.compute((3,), lambda i: reduce(a[i, k], axis=k), name="S")])
    assert same(func, full(3, 0), full(3))[1].tolist() == [identity] * 3
    if symbolic:
        numpy = {te.sum: np.sum, te.max: np.max, te.min: np.min}[reduce]
        x = random(3, 5)
        assert (same(func, x, full(3))[1] == numpy(x, axis=1)).all()


def test_everything_is_as_in_numpy_for_sizes_of_zero() -> None:
    for m, n, p in [(2, 0, 3), (0, 0, 3), (2, 0, 0), (0, 4, 3), (2, 4, 3), (1, 1, 1)]:
        x, y = random(m, n), random(n, p)
        assert (same(matmul(), x, y, full(m, p))[2] == x @ y).all()


@pytest.mark.parametrize("sizes", [(0, 4), (4, 0), (0, 0), (3, 4)])
def test_several_reduce_axes(sizes: tuple[int, int]) -> None:
    m, n = te.var("m"), te.var("n")
    a = te.placeholder((2, m, n), name="A")
    k, l = te.reduce_axis((0, m), "k"), te.reduce_axis((0, n), "l")
    func = te.create_prim_func([a, te.compute((2,), lambda i: te.sum(a[i, k, l], axis=[k, l]), name="S")])
    x = random(2, *sizes)
    assert (same(func, x, full(2))[1] == x.sum((1, 2))).all()
    whole = te.create_prim_func([a, te.compute((), lambda: te.sum(a[0, k, l], axis=[k, l]), name="S")])
    assert same(whole, x, full())[1] == x[0].sum()


def argmax() -> PrimFunc:
    def best(x: Any, y: Any) -> Any:
        left = x[1] >= y[1]
        return Select(left, x[0], y[0]), Select(left, x[1], y[1])

    reducer = te.comm_reducer(best, lambda i, v: (const(-1, i), te.min_value(v)), name="argmax")
    m, n = te.var("m"), te.var("n")
    a = te.placeholder((m, n), name="A")
    k = te.reduce_axis((0, n), "k")
    at, top = te.compute((m,), lambda i: reducer((k.var, a[i, k]), axis=k), name="R")
    return te.create_prim_func([a, at, top])


def test_an_index_of_nothing_is_that_of_the_identity() -> None:
    _, at, top = same(argmax(), full(3, 0), full(3, dtype="int32"), full(3))
    assert at.tolist() == [-1] * 3 and (top == -np.inf).all()
    x = random(3, 6)
    _, at, top = same(argmax(), x, full(3, dtype="int32"), full(3))
    assert (at == x.argmax(1)).all() and (top == x.max(1)).all()


def test_what_follows_reads_the_identity() -> None:
    m, n = te.var("m"), te.var("n")
    a = te.placeholder((m, n), name="A")
    k, l = te.reduce_axis((0, n), "k"), te.reduce_axis((0, m), "l")
    s = te.compute((m,), lambda i: te.sum(a[i, k], axis=k), name="S")
    t = te.compute((m,), lambda i: s[i] + 1.0, name="P")
    u = te.compute((1,), lambda i: te.sum(t[l], axis=l), name="U")
    func = te.create_prim_func([a, u])
    for shape in [(4, 0), (0, 4), (0, 0), (4, 3)]:
        x = random(*shape)
        assert same(func, x, full(1))[1][0] == (x.sum(1) + 1).sum()


def test_an_axis_that_depends_on_another_may_be_empty_for_some() -> None:
    n = te.var("n")
    a = te.placeholder((n, n), name="A")

    def prefix(i: Any) -> Any:
        k = te.reduce_axis((0, i), "k")
        return te.sum(a[i, k], axis=k)

    func = te.create_prim_func([a, te.compute((n,), prefix, name="S")])
    for size in (0, 1, 5):
        x = random(size, size)
        assert (same(func, x, full(size))[1] == np.tril(x, -1).sum(1)).all()


# -- schedules ------------------------------------------------------------------------------------


def _split(s: Schedule) -> None:
    s.split(s.get_loops(s.get_block("C"))[2], [None, 4])


def _split_all(s: Schedule) -> None:
    i, j, k = s.get_loops(s.get_block("C"))
    (io, ii), (jo, ji), (ko, ki) = s.split(i, [None, 2]), s.split(j, [None, 4]), s.split(k, [None, 4])
    s.reorder(io, jo, ko, ii, ki, ji)
    s.vectorize(ji)
    s.parallel(io)


def _outermost(s: Schedule) -> None:
    i, j, k = s.get_loops(s.get_block("C"))
    s.reorder(k, i, j)


def _middle(s: Schedule) -> None:
    i, j, k = s.get_loops(s.get_block("C"))
    s.reorder(i, k, j)


def _decomposed(s: Schedule) -> None:
    i, j, k = s.get_loops(s.get_block("C"))
    s.reorder(i, k, j)
    s.decompose_reduction(s.get_block("C"), k)


def _split_and_decomposed(s: Schedule) -> None:
    _, _, k = s.get_loops(s.get_block("C"))
    ko, _ = s.split(k, [None, 4])
    s.decompose_reduction(s.get_block("C"), ko)


def _fused(s: Schedule) -> None:
    _, j, k = s.get_loops(s.get_block("C"))
    s.fuse(j, k)


def _all_fused(s: Schedule) -> None:
    s.fuse(*s.get_loops(s.get_block("C")))


def _factored(s: Schedule) -> None:
    _, _, k = s.get_loops(s.get_block("C"))
    _, ki = s.split(k, [None, 4])
    s.rfactor(ki, 0)


def _cached(s: Schedule) -> None:
    s.cache_write(s.get_block("C"), 0, "local")


def _plain(s: Schedule) -> None:
    pass


SCHEDULES: list[Callable[[Schedule], None]] = [
    _plain, _split, _split_all, _outermost, _middle, _decomposed, _split_and_decomposed, _fused, _all_fused, _factored,
    _cached,
]  # fmt: skip


@pytest.mark.parametrize("steps", SCHEDULES, ids=lambda f: f.__name__.strip("_"))
def test_schedules_keep_it(steps: Callable[[Schedule], None]) -> None:
    schedule = Schedule(matmul())
    steps(schedule)
    built = tscript.build(schedule.mod)["main"]
    for m, n, p in [(3, 0, 5), (0, 0, 5), (3, 0, 0), (3, 7, 5), (0, 7, 5), (4, 8, 8)]:
        x, y = random(m, n), random(n, p)
        native, slow = full(m, p), full(m, p)
        built(x, y, native)
        interp.run(schedule.mod, x, y, slow)
        np.testing.assert_array_equal(native, x @ y)
        np.testing.assert_array_equal(slow, x @ y)


def test_a_reduction_computed_where_it_is_used_keeps_it() -> None:
    m, n = te.var("m"), te.var("n")
    a = te.placeholder((m, n), name="A")
    k = te.reduce_axis((0, n), "k")
    s = te.compute((m,), lambda i: te.sum(a[i, k], axis=k), name="S")
    func = te.create_prim_func([a, te.compute((m,), lambda i: s[i] * 2.0 + 1.0, name="P")])
    schedule = Schedule(func)
    schedule.compute_at(schedule.get_block("S"), schedule.get_loops(schedule.get_block("P"))[0])
    other = Schedule(func)
    other.reverse_compute_at(other.get_block("P"), other.get_loops(other.get_block("S"))[0])
    for mod in (schedule.mod, other.mod):
        for shape in [(4, 0), (0, 0), (4, 3)]:
            x = random(*shape)
            assert (same(mod, x, full(shape[0]))[1] == x.sum(1) * 2 + 1).all()


# -- hand-written programs ------------------------------------------------------------------------


def test_blocks_beside_each_other_in_the_loop_of_the_reduction() -> None:
    @T.prim_func
    def func(a: T.handle, b: T.handle, c: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (4, n), "float32")
        B = T.match_buffer(b, (4,), "float32")
        C = T.match_buffer(c, (4,), "float32")
        for k in range(n):
            for i in range(4):
                with T.block("B"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        B[vi] = 1.0
                    B[vi] = B[vi] + A[vi, vk]
            for i in range(4):
                with T.block("C"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        C[vi] = 2.0
                    C[vi] = C[vi] + A[vi, vk]

    for n in (0, 1, 3):
        x = random(4, n)
        _, b, c = same(func, x, full(4), full(4))
        assert (b == 1 + x.sum(1)).all() and (c == 2 + x.sum(1)).all()


def test_conditions_variables_and_predicates_around_the_block() -> None:
    @T.prim_func
    def func(a: T.handle, b: T.handle, limit: T.int32):
        n = T.int32()
        A = T.match_buffer(a, (8, n), "float32")
        B = T.match_buffer(b, (8,), "float32")
        for k in range(n):
            for i in range(4):
                if i != 2:
                    x = i * 2
                    for j in range(2):
                        with T.block("B"):
                            vi = T.axis.spatial(8, x + j)
                            vk = T.axis.reduce(n, k)
                            T.where(x + j < limit)
                            with T.init():
                                B[vi] = 0.0
                            B[vi] = B[vi] + A[vi, vk]

    for n in (0, 2):
        for limit in (0, 3, 8):
            x = random(8, n)
            native, slow = full(8), full(8)
            tscript.build(func)["func"](x, native, limit)
            interp.run(func, x, slow, limit)
            rows = [i for i in range(8) if i // 2 != 2 and i < limit]
            want = full(8)
            want[rows] = x.sum(1)[rows]
            assert (native == want).all() and (slow == want).all()


def test_views_offsets_vectors_and_outer_blocks() -> None:
    @T.prim_func
    def func(a: T.handle, b: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (2, n, 8), "float32")
        B = T.match_buffer(b, (2, 8), "float32")
        for o in T.parallel(2):
            with T.block("outer"):
                vo = T.axis.spatial(2, o)
                W = T.match_buffer(B[vo, 0:8], (8,), offset_factor=1)
                for k in T.serial(5, 5 + n):
                    for j in T.vectorized(8):
                        with T.block("inner"):
                            vj = T.axis.spatial(8, j)
                            vk = T.axis.reduce((5, 5 + n), k)
                            V = T.match_buffer(W[vj], (), offset_factor=1)
                            with T.init():
                                V[()] = T.Cast("float32", vj + vk)
                            V[()] = V[()] + A[vo, vk - 5, vj]

    for n in (0, 3):
        x = random(2, n, 8)
        assert (same(func, x, full(2, 8))[1] == x.sum(1) + np.arange(8) + 5).all()


def test_nothing_is_written_beside_the_loops_around_the_reduction() -> None:
    @T.prim_func
    def func(a: T.handle, b: T.handle, times: T.int32):
        n = T.int32()
        A = T.match_buffer(a, (4, n), "float32")
        B = T.match_buffer(b, (4,), "float32")
        for t in range(times):
            for i, k in T.grid(4, n):
                with T.block("B"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        B[vi] = 0.0
                    B[vi] = B[vi] + A[vi, vk]
            for i in range(4):
                with T.block("add"):
                    vi = T.axis.spatial(4, i)
                    vt = T.axis.opaque(times, t)
                    B[vi] = B[vi] + T.Cast("float32", vt + 1)

    for times in (0, 1, 3):
        native, slow = full(4), full(4)
        tscript.build(func)["func"](full(4, 0), native, times)
        interp.run(func, full(4, 0), slow, times)
        assert native.tolist() == slow.tolist() == [times if times else 77] * 4


def test_gpu_style_loops() -> None:
    schedule = Schedule(row_sums())
    i, _ = schedule.get_loops(schedule.get_block("S"))
    bx, tx = schedule.split(i, [None, 32])
    schedule.bind(bx, "blockIdx.x")
    schedule.bind(tx, "threadIdx.x")
    for shape in [(40, 0), (40, 3), (0, 3)]:
        x = random(*shape)
        assert (same(schedule.mod, x, full(shape[0]))[1] == x.sum(1)).all()


def test_programs_without_empty_reductions_are_left_alone() -> None:
    n = 16
    a = te.placeholder((n, n), name="A")
    k = te.reduce_axis((0, n), "k")
    func = te.create_prim_func([a, te.compute((n,), lambda i: te.sum(a[i, k], axis=k), name="S")])
    assert with_empty_inits(func) is func
    assert with_empty_inits(row_sums()) is not row_sums()


def test_the_init_stands_in_front_of_all_loops_of_its_nest() -> None:
    text = with_empty_inits(matmul()).script()
    front, nest = text.split("if n <= 0:")[1].split('with T.block("C"):')
    assert 'with T.block("C_init"):' in front and "T.init" not in front
    assert "n <= 0" not in nest
